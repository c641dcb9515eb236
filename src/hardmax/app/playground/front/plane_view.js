// The plane itself: a canvas with the field and the paths, an SVG above it with what can be grasped.

const HOLD = 260; // milliseconds of a finger before training starts there

function makePlaneView(app, acts) {
  const canvas = make("canvas", { class: "hmx-canvas", "aria-hidden": "true" });
  const svg = draw("svg", { class: "hmx-svg", role: "group", "aria-label": "Plane of keys and of p" });
  const root = make("div", { class: "hmx-stage" }, canvas, svg);
  const layers = {};
  for (const name of ["bands", "rays", "arrow", "starts", "tokens"]) svg.append((layers[name] = draw("g", { class: `hmx-${name}` })));

  const view = { root, size: 600, dirty: true, field: null, fieldImage: null, solved: null, runs: [], reveal: 1 };
  const span = () => app.state.span;
  const X = (x) => (x / span() + 1) * 0.5 * view.size;
  const Y = (y) => (1 - y / span()) * 0.5 * view.size;
  const world = (event) => {
    const box = svg.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width * 2 - 1) * span(),
      (1 - (event.clientY - box.top) / box.height * 2) * span(),
    ];
  };
  const tidy = (x) => Math.round(x / (span() / 400)) * (span() / 400);
  const kept = (x) => Number(clamp(x, -0.985 * span(), 0.985 * span()).toPrecision(4));

  function resize() {
    const size = Math.round(root.clientWidth);
    if (!size) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    view.size = size;
    if (canvas.width !== Math.round(size * ratio)) canvas.width = canvas.height = Math.round(size * ratio);
    svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
    view.ratio = ratio;
    layout();
  }
  const watcher = new ResizeObserver(resize);
  watcher.observe(root);

  // -- canvas ---------------------------------------------------------------------------------------------------

  function paintField() {
    const { field } = view;
    view.fieldImage = null;
    if (!field) return;
    const n = field.cells + 1, image = new ImageData(n, n), opacity = app.theme === "dark" ? 128 : 116;
    const colors = TINTS[app.theme].map((color) => [1, 3, 5].map((c) => parseInt(color.slice(c, c + 2), 16)));
    // each node has the mean color of its neighborhood, so that borders are soft lines and not stairs
    for (let j = 0; j < n; j += 1) for (let i = 0; i < n; i += 1) {
      const sum = [0, 0, 0];
      let known = 0, all = 0;
      for (let b = Math.max(0, j - 1); b <= Math.min(n - 1, j + 1); b += 1) for (let a = Math.max(0, i - 1); a <= Math.min(n - 1, i + 1); a += 1) {
        const weight = (b === j ? 2 : 1) * (a === i ? 2 : 1), k = field.grid[b][a];
        all += weight;
        if (k < 0) continue;
        known += weight;
        const color = cycle(colors, k);
        for (let c = 0; c < 3; c += 1) sum[c] += weight * color[c];
      }
      const at = 4 * ((n - 1 - j) * n + i);
      for (let c = 0; c < 3; c += 1) image.data[at + c] = known ? sum[c] / known : 0;
      image.data[at + 3] = (opacity * known) / all;
    }
    const small = document.createElement("canvas");
    small.width = small.height = n;
    small.getContext("2d").putImageData(image, 0, 0);
    view.fieldImage = small;
  }

  function paint() {
    const g = canvas.getContext("2d"), size = view.size, dark = app.theme === "dark";
    g.setTransform(view.ratio || 1, 0, 0, view.ratio || 1, 0, 0);
    g.clearRect(0, 0, size, size);
    if (view.fieldImage) {
      const half = size / (view.field.cells * 2);
      g.imageSmoothingEnabled = true;
      g.imageSmoothingQuality = "high";
      g.drawImage(view.fieldImage, -half, -half, size + 2 * half, size + 2 * half);
    }
    g.lineWidth = 1;
    g.strokeStyle = dark ? "rgba(255,255,255,.07)" : "rgba(20,25,40,.07)";
    const unit = gridUnit(span());
    for (let x = -Math.floor(span() / unit) * unit; x <= span(); x += unit) {
      g.beginPath();
      g.moveTo(Math.round(X(x)) + 0.5, 0); g.lineTo(Math.round(X(x)) + 0.5, size);
      g.moveTo(0, Math.round(Y(x)) + 0.5); g.lineTo(size, Math.round(Y(x)) + 0.5);
      g.stroke();
    }
    g.strokeStyle = dark ? "rgba(255,255,255,.2)" : "rgba(20,25,40,.2)";
    g.beginPath();
    g.moveTo(X(0), 0); g.lineTo(X(0), size); g.moveTo(0, Y(0)); g.lineTo(size, Y(0));
    g.stroke();
    if (view.needles) paintNeedles(g, dark);
    for (const run of view.runs) paintRun(g, run);
  }

  function paintNeedles(g, dark) {
    const length = view.size / 38;
    for (const { at, exact, usual, off } of view.needles) {
      const x = X(at[0]), y = Y(at[1]);
      const stroke = (unit, color, width) => {
        g.strokeStyle = g.fillStyle = color;
        g.lineWidth = width;
        g.beginPath();
        g.moveTo(x - unit[0] * length * 0.5, y + unit[1] * length * 0.5);
        g.lineTo(x + unit[0] * length * 0.5, y - unit[1] * length * 0.5);
        g.stroke();
        g.beginPath();
        g.arc(x + unit[0] * length * 0.5, y - unit[1] * length * 0.5, width * 1.1, 0, 7);
        g.fill();
      };
      const red = dark ? "#ff7a6b" : "#d92c1c";
      if (exact) stroke(exact, dark ? "rgba(235,238,245,.55)" : "rgba(40,48,66,.45)", 1.5);
      if (!usual) {
        g.fillStyle = red;
        g.beginPath(); g.arc(x, y, 2.6, 0, 7); g.fill();
      } else if (off > 0.01) stroke(usual, red, 2);
    }
  }

  function paintRun(g, run) {
    const points = run.path;
    if (points.length < 2) return;
    const rule = ruleNamed(run.rule);
    const last = Math.max(1, Math.ceil((points.length - 1) * view.reveal));
    g.strokeStyle = rule[app.theme];
    g.lineWidth = run.start === 0 ? 2.4 : 1.5;
    g.globalAlpha = run.start === 0 ? 0.95 : 0.6;
    g.setLineDash(rule.dash);
    g.lineJoin = g.lineCap = "round";
    g.beginPath();
    g.moveTo(X(points[0][0]), Y(points[0][1]));
    for (let k = 0; k < last; k += 1) {
      const p0 = points[Math.max(0, k - 1)], p1 = points[k], p2 = points[k + 1], p3 = points[Math.min(points.length - 1, k + 2)];
      if (run.rule === "flow") {
        g.bezierCurveTo(
          X(p1[0] + (p2[0] - p0[0]) / 6), Y(p1[1] + (p2[1] - p0[1]) / 6),
          X(p2[0] - (p3[0] - p1[0]) / 6), Y(p2[1] - (p3[1] - p1[1]) / 6), X(p2[0]), Y(p2[1]));
      } else g.lineTo(X(p2[0]), Y(p2[1]));
    }
    g.stroke();
    g.setLineDash([]);
    g.globalAlpha = 1;
    const now = run.frames ? acts.pointAt(run) : null;
    if (now && Math.max(Math.abs(now[0]), Math.abs(now[1])) < span()) {
      g.fillStyle = rule[app.theme];
      g.beginPath(); g.arc(X(now[0]), Y(now[1]), 5, 0, 7); g.fill();
      g.strokeStyle = app.theme === "dark" ? "#14161c" : "#fff";
      g.lineWidth = 1.5;
      g.stroke();
    }
  }

  // -- SVG --------------------------------------------------------------------------------------------------------

  const tokens = new Map();
  const radius = (score) => {
    const all = app.state.problem.scores.flat(), low = Math.min(...all), high = Math.max(...all);
    return 7.5 + 6 * (high > low ? (score - low) / (high - low) : 0.5);
  };

  function layoutTokens() {
    const { problem } = app.state, seen = new Set();
    problem.keys.forEach((own, i) => own.forEach((key, t) => {
      const name = `${i}.${t}`;
      seen.add(name);
      let mark = tokens.get(name);
      if (!mark) {
        const ring = draw("circle", { class: "hmx-ring", fill: "none" });
        const shape = draw("path", { class: "hmx-shape" });
        const number = draw("text", { class: "hmx-number", "text-anchor": "middle", dy: "0.35em", text: String(t) });
        const node = draw("g", { class: "hmx-token", tabindex: "0", role: "button", "data-token": name },
          draw("circle", { r: 19, fill: "transparent" }), ring, shape, number);
        mark = { node, ring, shape };
        tokens.set(name, mark);
        layers.tokens.append(node);
        grasp(node, i, t);
      }
      const score = problem.scores[i][t], r = radius(score);
      mark.node.setAttribute("transform", `translate(${X(key[0]).toFixed(2)},${Y(key[1]).toFixed(2)})`);
      set(mark.shape, { d: outline(i, r), fill: cycle(INPUTS[app.theme], i) });
      const chosen = app.chosen && app.chosen[0] === i && app.chosen[1] === t;
      mark.node.classList.toggle("hmx-chosen", Boolean(chosen));
      const share = acts.shareOf(i, t);
      set(mark.ring, { r: r + 5, stroke: cycle(INPUTS[app.theme], i), "stroke-width": (share * 4).toFixed(2), opacity: share < 0.02 ? 0 : 0.75 });
      mark.node.setAttribute("aria-label",
        `token ${t} of input ${i}, at ${digits(key[0])}, ${digits(key[1])}, score ${digits(score)}, attention ${digits(share, 2)}`);
    }));
    for (const [name, mark] of tokens) if (!seen.has(name)) { mark.node.remove(); tokens.delete(name); }
  }

  function grasp(node, i, t) {
    let moved = null;
    node.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      event.stopPropagation();
      node.setPointerCapture(event.pointerId);
      node.focus({ preventScroll: true });
      moved = false;
      acts.choose(i, t);
    });
    node.addEventListener("pointermove", (event) => {
      if (moved === null) return;
      moved = true;
      acts.moveToken(i, t, world(event).map(tidy).map(kept), true);
    });
    const drop = (event) => {
      if (moved) acts.moveToken(i, t, world(event).map(tidy).map(kept), false);
      moved = null;
    };
    node.addEventListener("pointerup", drop);
    node.addEventListener("pointercancel", drop);
    node.addEventListener("focus", () => acts.choose(i, t));
    node.addEventListener("keydown", (event) => acts.tokenKey(event, i, t));
  }

  function layoutStarts() {
    const starts = app.state.starts;
    while (layers.starts.childNodes.length > starts.length) layers.starts.lastChild.remove();
    starts.forEach((start, k) => {
      let node = layers.starts.childNodes[k];
      if (!node) {
        node = draw("g", { class: "hmx-start", tabindex: "0", role: "button", "data-start": String(k) },
          draw("circle", { r: 15, fill: "transparent" }), draw("circle", { class: "hmx-dot", r: k ? 3.5 : 5.5 }));
        layers.starts.append(node);
        let held = false;
        node.addEventListener("pointerdown", (event) => {
          event.preventDefault(); event.stopPropagation();
          node.setPointerCapture(event.pointerId);
          held = true;
        });
        node.addEventListener("pointermove", (event) => held && acts.moveStart(k, world(event).map(tidy).map(kept), true));
        node.addEventListener("pointerup", (event) => { if (held) acts.moveStart(k, world(event).map(tidy).map(kept), false); held = false; });
        node.addEventListener("keydown", (event) => acts.startKey(event, k));
      }
      node.setAttribute("transform", `translate(${X(start[0]).toFixed(2)},${Y(start[1]).toFixed(2)})`);
      node.setAttribute("aria-label", `start ${k} of training at ${digits(start[0])}, ${digits(start[1])}`);
    });
  }

  function edge(unit, inset = 0) {
    const reach = (1 - inset) / Math.max(Math.abs(unit[0]), Math.abs(unit[1]));
    return [unit[0] * reach * span(), unit[1] * reach * span()];
  }

  function layoutRays() {
    layers.rays.replaceChildren();
    layers.bands.replaceChildren();
    const found = view.solved ? view.solved.selections : [];
    found.forEach((each, k) => {
      if (!each.direction) return;
      const color = cycle(RAYS[app.theme], k), end = edge(each.direction, 0.065), focus = app.focus === k;
      layers.rays.append(draw("line", { class: "hmx-ray", x1: X(0), y1: Y(0), x2: X(end[0]), y2: Y(end[1]), stroke: color, "stroke-width": focus ? 3 : 1.8, opacity: focus ? 1 : 0.75 }));
      const at = `translate(${X(end[0])},${Y(end[1])})`;
      const chip = draw("g", { class: "hmx-chip", transform: at, "data-direction": String(k) },
        draw("circle", { r: 12, fill: color }), draw("text", { "text-anchor": "middle", dy: "0.36em", text: letter(k) }));
      chip.addEventListener("pointerdown", (event) => { event.stopPropagation(); acts.focus(k); });
      layers.rays.append(chip);
    });
    const each = found[app.focus];
    // among needles a band would hide what they show, until it is asked for
    if (each && each.direction && each.bands && (app.picked || !app.state.needles)) layoutBands(each);
  }

  function layoutBands(each) {
    const [a, b] = each.direction, far = 3 * span();
    const line = (offset) => [[a * offset - b * far, b * offset + a * far], [a * offset + b * far, b * offset - a * far]];
    each.bands.forEach(([high, low], i) => {
      const color = cycle(INPUTS[app.theme], i), top = line(high), bottom = line(low);
      const path = [top[0], top[1], bottom[1], bottom[0]].map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join("L");
      layers.bands.append(draw("path", { d: `M${path}Z`, fill: color, opacity: 0.1 }));
      for (const [ends, dash] of [[top, null], [bottom, "5 5"]]) {
        layers.bands.append(draw("line", { x1: X(ends[0][0]), y1: Y(ends[0][1]), x2: X(ends[1][0]), y2: Y(ends[1][1]), stroke: color, "stroke-width": 1.2, opacity: 0.75, "stroke-dasharray": dash }));
      }
    });
    for (const [i, t] of each.support) {
      const key = app.state.problem.keys[i] && app.state.problem.keys[i][t];
      if (key) layers.bands.append(draw("circle", { class: "hmx-support", cx: X(key[0]), cy: Y(key[1]), r: 16, stroke: cycle(INPUTS[app.theme], i) }));
    }
  }

  function layoutArrow() {
    const lead = view.runs.find((run) => run.frames);
    const p = lead ? acts.pointAt(lead) : app.state.starts[0];
    layers.arrow.replaceChildren();
    const length = Math.hypot(p[0], p[1]);
    if (length < span() / 200) return;
    const inside = Math.max(Math.abs(p[0]), Math.abs(p[1])) < span() * 0.93;
    const tip = inside ? p : edge([p[0] / length, p[1] / length], 0.14);
    const angle = Math.atan2(-(tip[1]), tip[0]) * 180 / Math.PI;
    layers.arrow.append(
      draw("line", { class: "hmx-p", x1: X(0), y1: Y(0), x2: X(tip[0]), y2: Y(tip[1]) }),
      draw("path", { class: "hmx-head", d: "M0,0L-11,-5L-8,0L-11,5Z", transform: `translate(${X(tip[0])},${Y(tip[1])}) rotate(${angle})` }));
    if (!inside) {
      const dx = -Math.sign(tip[0] || 1) * 10;
      layers.arrow.append(draw("text", { class: "hmx-away", x: X(tip[0]) + dx, y: Y(tip[1]) + (tip[1] > 0 ? 22 : -12), "text-anchor": dx < 0 ? "end" : "start", text: `|p| = ${digits(length, 2)}` }));
    }
  }

  function layout() {
    layoutTokens();
    layoutStarts();
    layoutRays();
    layoutArrow();
    view.dirty = true;
  }

  // -- press and hold -----------------------------------------------------------------------------------------

  let holding = null, clicked = null;
  const here = (event) => world(event).map(tidy).map(kept);
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    acts.choose(null);
    clearTimeout(clicked);
    holding = { on: false, event };
    if (event.pointerType === "mouse") svg.setPointerCapture(event.pointerId);
    holding.timer = setTimeout(() => {
      holding.on = true;
      acts.startAt(here(holding.event), true);
    }, event.pointerType === "mouse" ? 140 : HOLD);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!holding) return;
    holding.event = event;
    if (holding.on) acts.startAt(here(event), true);
  });
  const release = (event) => {
    if (!holding) return;
    clearTimeout(holding.timer);
    const at = here(event), more = event.shiftKey;
    if (holding.on) acts.startAt(here(holding.event), false);
    // a click starts there too, unless it is the first of two
    else if (event.type === "pointerup" && event.pointerType === "mouse") clicked = setTimeout(() => acts.startAt(at, false, more), 240);
    holding = null;
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  svg.addEventListener("touchmove", (event) => holding && holding.on && event.preventDefault(), { passive: false });
  svg.addEventListener("dblclick", (event) => { clearTimeout(clicked); acts.addToken(here(event)); });

  function tick() {
    if (!view.dirty) return;
    view.dirty = false;
    paint();
  }

  Object.assign(view, {
    layout, tick, resize,
    light() { layoutTokens(); layoutArrow(); view.dirty = true; },
    setField(field) { view.field = field; paintField(); view.dirty = true; },
    repaintField() { paintField(); view.dirty = true; },
    setSolved(found) { view.solved = found; layoutRays(); },
    setRuns(runs) { view.runs = runs; layoutArrow(); layoutTokens(); view.dirty = true; },
    close() { watcher.disconnect(); },
  });
  return view;
}

function gridUnit(span) {
  const rough = span / 3, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
}
