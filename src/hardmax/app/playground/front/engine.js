// A planar engine for pages without Python: gradient, flow in log time, descent, attracting directions and basins.
// It gives no proofs. Everything is inside one function, whose source a worker runs too.

function planarEngine() {
  const STEPS = 10000, LOG_TIME = 1e6, FRAMES = 64, EVERY = 160;
  const COARSE = 6, FIELD_STEPS = 240, LONGER = 4, TRAVEL = 8, UNDECIDED = -1;
  const RULES = ["flow", "gd", "normalized"];
  const LOSSES = {
    logistic: {
      value: (u) => (u > 0 ? Math.log1p(Math.exp(-u)) : -u + Math.log1p(Math.exp(u))),
      logSlope: (u) => (u > 0 ? -u - Math.log1p(Math.exp(-u)) : -Math.log1p(Math.exp(u))),
      rate: (u) => -1 / (1 + Math.exp(-u)),
    },
    exponential: { value: (u) => Math.exp(-u), logSlope: (u) => -u, rate: () => -1 },
    correlation: { value: (u) => -u, logSlope: () => 0, rate: () => 0 },
  };

  // What can be answered here; null if it can, else why not.
  function refusal(question) {
    const { problem, norm } = question, loss = problem && (problem.loss || "logistic");
    if (!problem || !LOSSES[loss]) return "this loss is not part of the page";
    if (norm && norm !== "l2") return "this page computes in the norm l2 only";
    if (question.ask === "field" && !["flow", "normalized"].includes(question.rule)) return "basins of this rule are not part of the page";
    return null;
  }

  const read = ({ problem }) => ({
    inputs: problem.keys.map((keys, i) => ({ keys, scores: problem.scores[i], T: keys.length })),
    loss: LOSSES[problem.loss || "logistic"],
  });

  // -- gradient -----------------------------------------------------------------------------------------------

  // Attention of one input. Weights s_t (score_t - u) of tokens other than the top one are formed from gaps to it and
  // kept over e^log, so that neither saturation nor a runner-up of equal score loses them.
  function attend({ keys, scores, T }, x, y) {
    let top = 0, highest = -Infinity, second = -Infinity, lead = -Infinity, mass = 0, lean = 0, log = -Infinity;
    const gaps = new Float64Array(T), weights = new Float64Array(T);
    for (let t = 0; t < T; t += 1) {
      gaps[t] = keys[t][0] * x + keys[t][1] * y;
      if (gaps[t] > highest) { highest = gaps[t]; top = t; }
    }
    for (let t = 0; t < T; t += 1) {
      gaps[t] -= highest;
      mass += Math.exp(gaps[t]);
      if (t !== top && gaps[t] > second) second = gaps[t];
      if (scores[t] !== scores[top] && gaps[t] > lead) lead = gaps[t];
    }
    for (let t = 0; t < T; t += 1) if (scores[t] !== scores[top]) lean += (Math.exp(gaps[t] - lead) / mass) * (scores[t] - scores[top]);
    const small = lean && lead + Math.log(Math.abs(lean)), sign = -Math.sign(lean);
    lean *= Math.exp(lead);
    for (let t = 0; t < T && lead > -Infinity; t += 1) {
      if (t === top) continue;
      const gap = scores[t] - scores[top] - (Number.isFinite(lean) ? lean : 0), alike = scores[t] === scores[top];
      if (alike ? sign : gap) log = Math.max(log, (weights[t] = gaps[t] + (alike ? small : Math.log(Math.abs(gap)))));
      else weights[t] = -Infinity;
    }
    for (let t = 0; t < T; t += 1) {
      const own = scores[t] === scores[top] ? sign : Math.sign(scores[t] - scores[top] - lean);
      weights[t] = t === top || log === -Infinity ? 0 : (own * Math.exp(weights[t] - log)) / mass;
    }
    return { top, gaps, second, mass, weights, log, lean: lean || 0 };
  }

  // Minus the gradient over e^log, and its Jacobian over e^log; log is -Infinity where the gradient is zero.
  function force({ inputs, loss }, x, y) {
    const parts = [];
    let log = -Infinity;
    for (const input of inputs) {
      if (input.T < 2) continue;
      const { keys, scores, T } = input, { top, gaps, mass, weights, log: scale, lean } = attend(input, x, y);
      if (scale === -Infinity) continue;
      const u = scores[top] + lean, [a, b] = keys[top];
      let gx = 0, gy = 0, mx = 0, my = 0;
      for (let t = 0; t < T; t += 1) {
        const share = Math.exp(gaps[t]) / mass;
        gx += weights[t] * (keys[t][0] - a);
        gy += weights[t] * (keys[t][1] - b);
        mx += share * (keys[t][0] - a);
        my += share * (keys[t][1] - b);
      }
      const own = scale + loss.logSlope(u), rate = loss.rate(u) * Math.exp(scale);
      let xx = rate * gx * gx, xy = rate * gx * gy, yx = xy, yy = rate * gy * gy;
      for (let t = 0; t < T; t += 1) {
        const share = Math.exp(gaps[t]) / mass, dx = keys[t][0] - a, dy = keys[t][1] - b;
        const px = weights[t] * (dx - mx) - share * gx, py = weights[t] * (dy - my) - share * gy;
        xx += dx * px; xy += dx * py; yx += dy * px; yy += dy * py;
      }
      if (gx !== 0 || gy !== 0) log = Math.max(log, own);
      parts.push([own, gx, gy, xx, xy, yx, yy]);
    }
    const sum = [0, 0, 0, 0, 0, 0];
    if (log > -Infinity) for (const part of parts) {
      const scale = Math.exp(Math.min(part[0] - log, 600)) / inputs.length;
      for (let k = 0; k < 6; k += 1) sum[k] += scale * part[k + 1];
    }
    return { log, w: sum };
  }

  const lossAt = ({ inputs, loss }, [x, y]) => {
    let sum = 0;
    for (const input of inputs) { const { top, lean } = attend(input, x, y); sum += loss.value(input.scores[top] + lean); }
    return sum / inputs.length;
  };
  const attentionAt = ({ inputs }, [x, y]) => inputs.map((input) => {
    const { gaps, mass } = attend(input, x, y);
    return [...gaps].map((gap) => Number((Math.exp(gap) / mass).toFixed(6)));
  });

  // -- gradient flow in tau = log t -------------------------------------------------------------------------------

  // p and tau move along s with dp/ds = F / (1 + |F|) and dtau/ds = 1 / (1 + |F|), F = dp/dtau: where p jumps, tau waits.
  // Returns the three speeds and their Jacobian in (p, tau).
  function speeds(data, [x, y, tau]) {
    const { log, w } = force(data, x, y);
    if (log === -Infinity) return { f: [0, 0, 1], J: [[0, 0, 0], [0, 0, 0], [0, 0, 0]] };
    const [gx, gy, xx, xy, yx, yy] = w, a = Math.exp(Math.min(600, -tau - log)), size = Math.hypot(gx, gy), D = a + size;
    const nx = (gx * xx + gy * yx) / (size || 1), ny = (gx * xy + gy * yy) / (size || 1), S = D * D;
    return {
      f: [gx / D, gy / D, a / D],
      J: [
        [xx / D - (gx / D) * (nx / D), xy / D - (gx / D) * (ny / D), (gx / D) * (a / D)],
        [yx / D - (gy / D) * (nx / D), yy / D - (gy / D) * (ny / D), (gy / D) * (a / D)],
        [-(a / D) * (nx / D), -(a / D) * (ny / D), -(a * size) / S || 0],
      ],
    };
  }

  const A = [[5 / 12, -1 / 12], [3 / 4, 1 / 4]], C = [1 / 3, 1]; // Radau IIA of order 3, stiffly accurate

  function solveLinear(M, v) {
    const n = v.length;
    for (let k = 0; k < n; k += 1) {
      let best = k;
      for (let r = k + 1; r < n; r += 1) if (Math.abs(M[r][k]) > Math.abs(M[best][k])) best = r;
      [M[k], M[best]] = [M[best], M[k]];
      [v[k], v[best]] = [v[best], v[k]];
      for (let r = k + 1; r < n; r += 1) {
        const factor = M[r][k] / M[k][k];
        for (let c = k; c < n; c += 1) M[r][c] -= factor * M[k][c];
        v[r] -= factor * v[k];
      }
    }
    for (let k = n - 1; k >= 0; k -= 1) {
      for (let c = k + 1; c < n; c += 1) v[k] -= M[k][c] * v[c];
      v[k] /= M[k][k];
    }
    return v;
  }

  function radau(data, at, h, f) {
    const z = [...f.map((each) => C[0] * h * each), ...f.map((each) => h * each)];
    const scale = 1e-13 * (Math.hypot(...at) + 1);
    for (let round = 0; round < 12; round += 1) {
      const stages = [0, 1].map((k) => speeds(data, at.map((each, i) => each + z[3 * k + i]))), M = [], v = [];
      for (let r = 0; r < 2; r += 1) for (let i = 0; i < 3; i += 1) {
        const row = [];
        for (let c = 0; c < 2; c += 1) for (let j = 0; j < 3; j += 1) row.push((r === c && i === j ? 1 : 0) - h * A[r][c] * stages[c].J[i][j]);
        M.push(row);
        v.push(h * (A[r][0] * stages[0].f[i] + A[r][1] * stages[1].f[i]) - z[3 * r + i]);
      }
      const step = solveLinear(M, v);
      for (let k = 0; k < 6; k += 1) z[k] += step[k];
      const left = Math.max(...step.map(Math.abs));
      if (!(left < 1e12)) return null;
      if (left <= scale) return at.map((each, i) => each + z[3 + i]);
    }
    return null;
  }

  // Points and times of gradient flow from t = 0, by one step compared with two halves of it.
  function flow(data, start, end = LOG_TIME, tolerance = 1e-9) {
    const first = force(data, ...start), times = [-Infinity], points = [[...start]];
    if (first.log === -Infinity) return { times: [-Infinity, end], points: [points[0], points[0]], event: "stationary" };
    const tau = Math.log(1e-8 * (1 + Math.hypot(...start))) - first.log - Math.log(Math.hypot(first.w[0], first.w[1]));
    let at = [start[0], start[1], Math.min(tau, end)], h = 1, tries = 0;
    while (at[2] < end - 1e-12 * Math.abs(end) && tries < 20000 && times.length < 4000) {
      tries += 1;
      const { f } = speeds(data, at), whole = radau(data, at, h, f), middle = whole && radau(data, at, h / 2, f);
      const late = middle && radau(data, middle, h / 2, speeds(data, middle).f);
      const miss = late ? Math.hypot(...late.map((each, i) => each - whole[i])) / 7 : Infinity, allowed = tolerance * (1 + Math.hypot(at[0], at[1]));
      const factor = Number.isFinite(miss) ? Math.min(6, Math.max(0.15, 0.85 * (allowed / Math.max(miss, 1e-300)) ** 0.25)) : 0.25;
      if (miss > allowed) { h *= factor; continue; }
      if (late[2] > end + 1e-12 * Math.abs(end)) { h *= (end - at[2]) / (late[2] - at[2]); continue; } // the end is inside this step
      at = late.map((each, i) => each + (each - whole[i]) / 7);
      times.push(at[2]);
      points.push([at[0], at[1]]);
      h *= factor;
    }
    return { times, points, event: times.length < 4000 && tries < 20000 ? "time" : "not finished" };
  }

  // -- descent --------------------------------------------------------------------------------------------------

  function stepBy(data, rule, rate, x, y) {
    const { log, w } = force(data, x, y), size = Math.hypot(w[0], w[1]);
    if (log === -Infinity || size === 0) return [x, y];
    const factor = rule === "gd" ? rate * Math.exp(log) : rate / size;
    return [x + factor * w[0], y + factor * w[1]];
  }

  function descend(data, rule, rate, start) {
    const wanted = new Set();
    for (let k = 0; k < 140; k += 1) wanted.add(Math.round(EVERY * (STEPS / EVERY) ** (k / 139)));
    const times = [0], points = [[...start]];
    let [x, y] = start;
    for (let k = 1; k <= STEPS; k += 1) {
      [x, y] = stepBy(data, rule, rate, x, y);
      if (k < EVERY || wanted.has(k)) { times.push(k); points.push([x, y]); }
    }
    return { times, points, event: "steps" };
  }

  // -- directions -------------------------------------------------------------------------------------------------

  // Tokens with the same key are one; the lowest index names them, and attention gives them their mean score.
  function grouped({ keys, scores }) {
    const groups = new Map();
    keys.forEach((key, t) => {
      const name = `${key[0]} ${key[1]}`, group = groups.get(name);
      if (group) { group.scores.push(scores[t]); return; }
      groups.set(name, { t, key, scores: [scores[t]] });
    });
    return [...groups.values()].map((each) => ({ ...each, score: each.scores.reduce((a, b) => a + b, 0) / each.scores.length }));
  }

  // The point of least norm in the hull of some vectors; null if the hull holds the origin.
  function nearest(vectors) {
    let best = null, least = Infinity;
    for (let a = 0; a < vectors.length; a += 1) for (let b = a; b < vectors.length; b += 1) {
      const [x, y] = vectors[a], dx = vectors[b][0] - x, dy = vectors[b][1] - y, square = dx * dx + dy * dy;
      const s = square ? Math.min(1, Math.max(0, -(x * dx + y * dy) / square)) : 0;
      const px = x + s * dx, py = y + s * dy, size = px * px + py * py;
      if (size < least) { least = size; best = [px, py]; }
    }
    const length = Math.sqrt(least), scale = Math.max(...vectors.map((each) => Math.hypot(...each)));
    if (!(length > 1e-12 * scale)) return null;
    const unit = [best[0] / length, best[1] / length];
    return vectors.some((each) => each[0] * unit[0] + each[1] * unit[1] < length - 1e-9 * scale) ? null : { length, unit };
  }

  function solution(groups, picks) {
    const rows = [];
    groups.forEach((own, i) => own.forEach((rival) => {
      const chosen = own[picks[i]];
      if (rival !== chosen) rows.push({ i, rival, chosen, v: [chosen.key[0] - rival.key[0], chosen.key[1] - rival.key[1]] });
    }));
    if (!rows.length) return { rows, length: null, unit: null, support: [] };
    const found = nearest(rows.map((row) => row.v));
    if (!found) return null;
    const scale = Math.max(...rows.map((row) => Math.hypot(...row.v)));
    const support = rows.filter((row) => row.v[0] * found.unit[0] + row.v[1] * found.unit[1] <= found.length + 1e-9 * scale);
    return { rows, ...found, support };
  }

  // Selections by arcs: between two neighboring critical angles each input has one leading token.
  function feasible(groups) {
    const angles = [0];
    for (const own of groups) for (let a = 0; a < own.length; a += 1) for (let b = 0; b < a; b += 1) {
      const across = Math.atan2(own[a].key[1] - own[b].key[1], own[a].key[0] - own[b].key[0]) + Math.PI / 2;
      for (const angle of [across, across + Math.PI]) angles.push(((angle % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI));
    }
    angles.sort((a, b) => a - b);
    const all = new Map();
    angles.forEach((angle, k) => {
      const middle = (angle + (k + 1 < angles.length ? angles[k + 1] : angles[0] + 2 * Math.PI)) / 2, ux = Math.cos(middle), uy = Math.sin(middle);
      const picks = groups.map((own) => own.reduce((best, each, j) => (each.key[0] * ux + each.key[1] * uy > own[best].key[0] * ux + own[best].key[1] * uy ? j : best), 0));
      all.set(picks.join(" "), picks);
    });
    return [...all.values()].map((picks) => ({ picks, selection: picks.map((j, i) => groups[i][j].t) }));
  }

  function attracting(data, known = []) {
    const groups = data.inputs.map(grouped), found = [];
    for (const { picks, selection } of feasible(groups)) {
      const best = solution(groups, picks);
      if (!best || !best.support.every(({ chosen, rival }) => chosen.score > rival.score)) continue;
      const isBest = groups.every((own, i) => own.every((each) => each.score <= own[picks[i]].score));
      found.push({ selection, ...best, isBest });
    }
    // directions that the page knows keep their letters
    const place = ({ selection }) => { const at = known.indexOf(selection.join()); return at < 0 ? known.length : at; };
    return found.sort((a, b) => place(a) - place(b) || a.selection.reduce((sign, t, i) => sign || t - b.selection[i], 0));
  }

  function solve(question) {
    const data = read(question);
    const selections = attracting(data, question.order).map(({ selection, unit, length, support, isBest }) => ({
      selection, direction: unit, norm: length === null ? 0 : 1 / length, margin: length, margin_interval: [length, length],
      p: unit && [unit[0] / length, unit[1] / length], kkt: null, certificate: "float", certified: false, status: "not proved here",
      support: support.map(({ i, rival }) => [i, rival.t]), locally_optimal: true, globally_optimal: isBest,
      bands: unit && selection.map((t, i) => {
        const [x, y] = data.inputs[i].keys[t], along = x * unit[0] + y * unit[1];
        return [along, along - length];
      }),
    }));
    return { status: "complete", norm_name: "l2", selections };
  }

  // -- answers ----------------------------------------------------------------------------------------------------

  const selected = (data, [x, y]) => {
    if (x === 0 && y === 0) return null;
    const picks = data.inputs.map((input) => { const { top, second } = attend(input, x, y); return input.T > 1 && second === 0 ? null : top; });
    return picks.includes(null) ? null : picks;
  };

  function train(question) {
    const data = read(question), directions = attracting(data, question.order), { rate, span } = question, runs = [], left = [];
    question.starts.forEach((start, k) => question.rules.forEach((rule) => {
      if (!RULES.includes(rule)) { left.push(rule); return; }
      const run = rule === "flow" ? flow(data, start) : descend(data, rule, rate, start), end = run.points[run.points.length - 1];
      const times = rule === "flow" ? run.times : run.times.map((step) => Math.log(rate * step)), selection = selected(data, end);
      const away = directions.map(({ unit }) => {
        const size = Math.hypot(...end);
        return unit && size ? 0.5 * ((end[0] / size - unit[0]) ** 2 + (end[1] / size - unit[1]) ** 2) : Infinity;
      });
      const alike = directions.findIndex((each) => selection && each.selection.join() === selection.join());
      const best = alike >= 0 ? alike : away.indexOf(Math.min(...away)), outside = run.points.findIndex((p) => Math.max(Math.abs(p[0]), Math.abs(p[1])) > 3 * span);
      const last = run.points.length - 1, count = Math.min(FRAMES, last + 1);
      const at = [...new Set(Array.from({ length: count }, (_, j) => (rule === "flow" ? Math.round((j * last) / Math.max(count - 1, 1)) : frameOf(run.times, j, count))))];
      runs.push({
        rule, start: k, warnings: [], name: rule, event: run.event, norm: Math.hypot(...end), log_time: times[last], steps: rule === "flow" ? null : STEPS, selection,
        nearest: best >= 0 && Number.isFinite(away[best]) ? best : null, misalignment: best >= 0 && Number.isFinite(away[best]) ? away[best] : null,
        path: outside < 0 ? run.points : run.points.slice(0, outside + 2),
        frames: k > 0 ? undefined : {
          times: at.map((j) => (times[j] === -Infinity ? null : times[j])), points: at.map((j) => run.points[j]), losses: at.map((j) => lossAt(data, run.points[j])),
          log_excess: [], attention: at.map((j) => attentionAt(data, run.points[j])),
        },
      });
    }));
    return { runs, left: [...new Set(left)] };
  }

  function frameOf(times, j, count) {
    const wanted = j === 0 ? 0 : Math.round(STEPS ** ((j - 1) / Math.max(count - 2, 1))), at = times.findIndex((step) => step >= wanted);
    return at < 0 ? times.length - 1 : at;
  }

  function field(question) {
    const data = read(question), { span, level } = question, rate = (TRAVEL * span) / FIELD_STEPS;
    const rows = attracting(data, question.order).map((each) => each.rows.map((row) => row.v));
    let steps = FIELD_STEPS;
    const ends = (x, y) => {
      let late = null;
      for (let k = 1; k <= steps; k += 1) {
        if (k === steps - Math.floor(steps / 10) + 1) late = [x, y];
        [x, y] = stepBy(data, "normalized", rate, x, y);
      }
      const wins = (a, b) => (own) => own.every((v) => v[0] * a + v[1] * b > 0);
      const at = rows.findIndex((own) => wins(x, y)(own) && wins(x - late[0], y - late[1])(own));
      return at < 0 ? UNDECIDED : at;
    };
    const place = (k, cells) => span * (-1 + (2 * k) / cells);
    let cells = COARSE, grid = Array.from({ length: cells + 1 }, (_, j) => Array.from({ length: cells + 1 }, (__, i) => ends(place(i, cells), place(j, cells))));
    if (question.known && level > 0 && question.known.length === COARSE * 2 ** (level - 1) + 1) { grid = question.known; cells = grid.length - 1; }
    for (let k = Math.round(Math.log2(cells / COARSE)) + 1; k <= level; k += 1) {
      steps = k < 2 ? FIELD_STEPS : LONGER * FIELD_STEPS;
      const n = cells, around = (m) => [Math.max(0, (m >> 1) - (m % 2)), Math.min(n, (m >> 1) + 2 * (m % 2))], old = grid;
      grid = Array.from({ length: 2 * n + 1 }, (_, j) => Array.from({ length: 2 * n + 1 }, (__, i) => {
        const [b0, b1] = around(j), [a0, a1] = around(i), own = old[b0][a0];
        let agree = !(k === 2 && own === UNDECIDED);
        for (let b = b0; b <= b1 && agree; b += 1) for (let a = a0; a <= a1; a += 1) if (old[b][a] !== own) agree = false;
        return agree ? own : ends(place(i, 2 * n), place(j, 2 * n));
      }));
      cells = 2 * n;
    }
    return { cells, level, grid, undecided: grid.flat().filter((each) => each < 0).length, rate, steps };
  }

  return { refusal, solve, train, field, flow, read, force };
}
