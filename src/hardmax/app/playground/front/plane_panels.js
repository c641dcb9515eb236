// The panels next to the plane: directions with their proofs, attention, loss over time, controls.

function card(title, ...children) {
  const body = make("div", { class: "hmx-body" }, ...children);
  return make("section", { class: "hmx-card", "aria-label": title }, make("h2", { text: title }), body);
}

function makeDirections(app, acts) {
  const list = make("ol", { class: "hmx-directions" });
  const root = card("Where training can end", list);
  root.classList.add("hmx-card-directions");
  return {
    root,
    show(solved) {
      const rows = solved.selections.slice(0, 8).map((each, k) => {
        const proof = each.certified ? "✓ proved" : each.status;
        const why = each.certified
          ? `certificate: ${each.certificate}, largest KKT residual ${digits(each.kkt, 2)}, margin between ${each.margin_interval.map((x) => digits(x, 6)).join(" and ")}`
          : each.status;
        const tokens = make("span", { class: "hmx-tokens" });
        each.selection.forEach((t, i) => {
          tokens.append(make("span", { class: "hmx-pick" }, inputMark(i, app.theme, 13), make("b", { text: String(t) })));
        });
        const chip = make("span", { class: "hmx-letter", text: letter(k) });
        chip.style.background = cycle(RAYS[app.theme], k);
        const button = make("button", {
          type: "button", class: "hmx-direction", "aria-pressed": String(app.focus === k), "data-direction": String(k), title: why,
          onclick: () => acts.focus(k),
        }, chip, tokens,
        make("span", { class: "hmx-margin" }, make("i", { text: "margin " }), make("b", { text: digits(each.margin, 4) })),
        make("span", { class: "hmx-best", title: each.globally_optimal ? "the best-scoring token of every input" : null, text: each.globally_optimal ? "★ best" : "" }),
        make("span", { class: each.certified ? "hmx-proof" : "hmx-doubt", text: proof }));
        return make("li", {}, button);
      });
      if (!rows.length) rows.push(make("li", { class: "hmx-none", text: "No direction attracts: the tokens of an input lie so that none can win." }));
      const more = solved.selections.length - 8;
      if (more > 0) rows.push(make("li", { class: "hmx-none", text: `and ${more} more` }));
      if (solved.status !== "complete") rows.push(make("li", { class: "hmx-none", text: "The search was cut short: there may be more." }));
      list.replaceChildren(...rows);
    },
  };
}

function makeAttention(app) {
  const rows = make("div", { class: "hmx-attention" });
  const root = card("Attention", rows);
  let shape = "";
  return {
    root,
    show(attention) {
      const now = JSON.stringify([attention.map((own) => own.length), app.theme]);
      if (now !== shape) {
        shape = now;
        rows.replaceChildren(...attention.map((own, i) => make("div", { class: "hmx-row", role: "img" },
          inputMark(i, app.theme, 15),
          make("div", { class: "hmx-bar" }, ...own.map((_, t) => {
            const deep = Math.round(100 - 60 * (t / Math.max(own.length - 1, 1)));
            const part = make("span", { class: deep < 70 ? "hmx-part hmx-pale" : "hmx-part" }, make("i", { text: String(t) }));
            part.style.background = `color-mix(in oklab, ${cycle(INPUTS[app.theme], i)} ${deep}%, var(--card))`;
            return part;
          })))));
      }
      attention.forEach((own, i) => {
        const row = rows.childNodes[i], parts = row.lastChild.childNodes;
        own.forEach((share, t) => {
          parts[t].style.flexGrow = String(share);
          parts[t].firstChild.style.visibility = share > 0.09 ? "visible" : "hidden";
        });
        row.setAttribute("aria-label", `input ${i}: ${own.map((share, t) => `token ${t} ${Math.round(100 * share)}%`).join(", ")}`);
      });
    },
  };
}

function makeLoss(app, acts) {
  const H = 132, L = 40, B = 20;
  let W = 360;
  const svg = draw("svg", { class: "hmx-loss", height: H, role: "img", "aria-label": "loss over time" });
  const axis = draw("g", {}), lines = draw("g", {}), now = draw("line", { class: "hmx-now", y1: 4, y2: H - B });
  svg.append(axis, lines, now);
  const told = make("p", { class: "hmx-told", "data-told": "loss" });
  const root = card("Loss over time", svg, told);
  const x = (log) => L + (W - L - 8) * sliderAt(log);
  svg.addEventListener("pointerdown", (event) => {
    const box = svg.getBoundingClientRect();
    acts.setTime(clamp((((event.clientX - box.left) / box.width) * W - L) / (W - L - 8), 0, 1));
  });
  return {
    root,
    show(runs) {
      W = svg.clientWidth || 360;
      svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
      axis.replaceChildren();
      lines.replaceChildren();
      const own = runs.filter((run) => run.frames);
      const losses = own.flatMap((run) => run.frames.losses);
      if (!losses.length) return;
      let low = Math.min(...losses), high = Math.max(...losses);
      if (high - low < 1e-9) { high += 0.5; low -= 0.5; }
      const y = (loss) => 8 + (H - B - 16) * (1 - (loss - low) / (high - low));
      for (const log of [0, 4, 8, 16, 1e3, 1e6]) {
        axis.append(draw("line", { class: "hmx-grid", x1: x(log), x2: x(log), y1: 4, y2: H - B }));
        axis.append(draw("text", { x: x(log), y: H - 6, "text-anchor": log === 1e6 ? "end" : "middle", text: log === 0 ? "t = 1" : log === 1e3 && W < 440 ? "" : `e^${log.toLocaleString("en-US")}` }));
      }
      for (const loss of [low, high]) axis.append(draw("text", { x: L - 6, y: y(loss) + 4, "text-anchor": "end", text: digits(loss, 2) }));
      for (const run of own) {
        const rule = ruleNamed(run.rule);
        // of the time before the slider begins one point is enough
        const first = Math.max(0, run.frames.times.findIndex((log) => log !== null && log > FIRST_LOG) - 1);
        const points = run.frames.times.map((log, k) => k < first ? null : `${x(log === null ? -99 : log).toFixed(1)},${y(run.frames.losses[k]).toFixed(1)}`);
        lines.append(draw("polyline", { points: points.filter(Boolean).join(" "), fill: "none", stroke: rule[app.theme], "stroke-width": 2, "stroke-dasharray": rule.dash.join(" ") || null, "stroke-linejoin": "round" }));
      }
    },
    mark(u, lead) {
      set(now, { x1: L + (W - L - 8) * u, x2: L + (W - L - 8) * u });
      if (!lead) { told.textContent = " "; return; }
      const { k: before, next, part } = acts.frameAt(lead), k = part > 0.5 ? next : before, loss = lead.frames.losses[k], above = lead.frames.log_excess[k];
      const rest = above === null || above === undefined ? "" : `, above its limit by ${powerOfE(above)}`;
      told.textContent = `${ruleNamed(lead.rule).label}: loss ${digits(loss, 4)}${rest}`;
    },
  };
}

function select(label, options, value, changed) {
  const box = make("select", { "aria-label": label, onchange: () => changed(box.value) },
    ...options.map(([name, text]) => make("option", { value: name, text })));
  box.value = value;
  return { root: make("label", { class: "hmx-field" }, make("span", { text: label }), box), set(v) { box.value = v; } };
}

function makeControls(app, acts, limits) {
  const chips = make("div", { class: "hmx-rules", role: "group", "aria-label": "Step rules to compare" });
  const rare = make("div", { class: "hmx-rules", role: "group", "aria-label": "More optimizers" });
  const more = make("details", { class: "hmx-more" }, make("summary", { text: "More optimizers" }), rare);
  const buttons = RULES.map((rule) => {
    const dot = make("span", { class: "hmx-stroke" });
    const end = make("span", { class: "hmx-end", hidden: true });
    const button = make("button", { type: "button", class: "hmx-rule", "data-rule": rule.name, onclick: () => acts.toggleRule(rule.name) }, dot, rule.label, end);
    (rule.rare ? rare : chips).append(button);
    return { rule, button, dot, end };
  });
  const rate = make("input", { type: "range", min: "-3", max: "1", step: "0.05", "aria-label": "Rate" });
  const rateText = make("output", {});
  rate.addEventListener("input", () => acts.set({ rate: Number((10 ** Number(rate.value)).toPrecision(2)) }, true));
  rate.addEventListener("change", () => acts.set({ rate: Number((10 ** Number(rate.value)).toPrecision(2)) }));
  const loss = select("Loss", limits.losses.map((name) => [name, name]), "logistic", (value) => acts.setLoss(value));
  const norm = select("Norm", limits.norms.map((name) => [name, name.replace("inf", "∞")]), "l2", (value) => acts.set({ norm: value }));
  const field = select("Basins of", [...RULES.filter((rule) => rule.name !== "gd").map((rule) => [rule.name, rule.label]), ["", "none"]], "flow", (value) => acts.set({ field: value || null }));
  const needles = make("input", { type: "checkbox", onchange: () => acts.set({ needles: needles.checked }) });
  const basins = make("p", { class: "hmx-told", "data-told": "field" });
  const root = card("Training", chips, more,
    make("label", { class: "hmx-field hmx-wide" }, make("span", { text: "Rate" }), rate, rateText),
    make("div", { class: "hmx-fields" }, loss.root, norm.root, field.root), basins,
    make("label", { class: "hmx-check" }, needles, make("span", { text: "Gradients: exact, and as usual in float32 (red)" })));
  return {
    root,
    // Where each rule ended, by the letter of the direction whose tokens it selects.
    ends(runs) {
      for (const { rule, end } of buttons) {
        const run = runs.find((each) => each.rule === rule.name && each.start === 0);
        end.hidden = !run || run.nearest === null;
        if (end.hidden) continue;
        end.textContent = letter(run.nearest);
        end.style.background = cycle(RAYS[app.theme], run.nearest);
        end.title = `selects ${run.selection ? run.selection.join(", ") : "no single token per input"}; 1 − cos to ${letter(run.nearest)} is ${digits(run.misalignment, 2)}`;
      }
    },
    // How the field was judged: what is exact about it and what is not.
    tellField(field) {
      if (!field) { basins.textContent = " "; return; }
      const side = field.cells + 1, share = Math.ceil((100 * field.undecided) / side ** 2);
      const left = field.undecided ? ` Without color: ${share}% of the starts, which reach none of these directions, or not yet.` : "";
      basins.textContent = `Basins on ${side} × ${side} starts, judged after ${field.steps} steps of ${digits(field.rate, 2)}; thinner ones can be missed.${left}`;
    },
    show(state) {
      for (const { rule, button, dot } of buttons) {
        button.setAttribute("aria-pressed", String(state.rules.includes(rule.name)));
        dot.style.background = rule[app.theme];
      }
      if (state.rules.some((name) => ruleNamed(name).rare)) more.open = true;
      rate.value = String(Math.log10(state.rate));
      rateText.textContent = digits(state.rate, 2);
      loss.set(state.problem.loss || "logistic");
      norm.set(state.norm);
      field.set(state.field || "");
      needles.checked = Boolean(state.needles);
    },
  };
}

function makeInspector(app, acts) {
  const hint = make("p", { class: "hmx-hint" }, "Drag a token. Press and hold anywhere to start training there. Double-click adds a token.");
  const numeric = (label, changed) => {
    const box = make("input", { type: "number", step: "0.05", "aria-label": label, onchange: () => Number.isFinite(box.valueAsNumber) && changed(box.valueAsNumber) });
    return box;
  };
  const x = numeric("x", (value) => acts.moveToken(...app.chosen, [value, app.state.problem.keys[app.chosen[0]][app.chosen[1]][1]], false));
  const y = numeric("y", (value) => acts.moveToken(...app.chosen, [app.state.problem.keys[app.chosen[0]][app.chosen[1]][0], value], false));
  const score = make("input", { type: "range", min: "0", max: "1", step: "0.01", "aria-label": "Score" });
  score.addEventListener("input", () => acts.setScore(...app.chosen, Number(score.value), true));
  score.addEventListener("change", () => acts.setScore(...app.chosen, Number(score.value), false));
  const scoreText = make("output", {});
  const inputs = make("div", { class: "hmx-swatches", role: "group", "aria-label": "Input of this token" });
  const name = make("strong", {});
  const gone = make("button", { type: "button", class: "hmx-small", text: "Delete", onclick: () => acts.deleteToken(...app.chosen) });
  const tools = make("div", { class: "hmx-tools" }, name, make("label", {}, "x ", x), make("label", {}, "y ", y),
    make("label", { class: "hmx-score" }, "score ", score, scoreText), inputs, gone);
  const add = make("button", { type: "button", class: "hmx-small", text: "+ Token", onclick: () => acts.addToken() });
  const nearer = make("button", { type: "button", class: "hmx-small", text: "+", "aria-label": "Zoom in", onclick: () => acts.zoom(1 / 1.25) });
  const wider = make("button", { type: "button", class: "hmx-small", text: "−", "aria-label": "Zoom out", onclick: () => acts.zoom(1.25) });
  const root = make("div", { class: "hmx-inspector" }, hint, tools, make("div", { class: "hmx-stage-buttons" }, add, wider, nearer));
  return {
    root,
    show() {
      const at = app.chosen, { problem } = app.state;
      const there = at && problem.keys[at[0]] && problem.keys[at[0]][at[1]];
      hint.hidden = Boolean(there);
      tools.hidden = !there;
      if (!there) return;
      const [i, t] = at, value = problem.scores[i][t];
      name.textContent = `token ${t}, input ${i}`;
      if (document.activeElement !== x) x.value = digits(there[0], 4).replace("−", "-");
      if (document.activeElement !== y) y.value = digits(there[1], 4).replace("−", "-");
      const all = problem.scores.flat();
      set(score, { min: String(Math.min(0, ...all)), max: String(Math.max(1, ...all)) });
      score.value = String(value);
      scoreText.textContent = digits(value, 3);
      const count = Math.min(problem.keys.length + 1, 8);
      inputs.replaceChildren(...Array.from({ length: count }, (_, k) => make("button", {
        type: "button", class: "hmx-swatch", "aria-pressed": String(k === i), "aria-label": k < problem.keys.length ? `input ${k}` : "a new input",
        title: k < problem.keys.length ? `input ${k}` : "a new input", onclick: () => acts.recolor(i, t, k),
      }, inputMark(k, app.theme, 18))));
    },
  };
}

function makeClock(acts) {
  const slider = make("input", { type: "range", min: "0", max: "1000", step: "1", value: "1000", class: "hmx-time", "aria-label": "Time, on a scale of log t up to e^1,000,000" });
  const text = make("output", { class: "hmx-when" });
  const play = make("button", { type: "button", class: "hmx-play", "aria-label": "Play the training", onclick: () => acts.play() }, "▶");
  slider.addEventListener("input", () => acts.setTime(Number(slider.value) / 1000));
  return {
    root: make("div", { class: "hmx-clock" }, play, slider, text),
    show(u, playing) {
      slider.value = String(Math.round(u * 1000));
      const log = logTimeAt(u);
      text.textContent = `t = ${powerOfE(log)}`;
      slider.setAttribute("aria-valuetext", text.textContent);
      play.textContent = playing ? "❚❚" : "▶";
      play.setAttribute("aria-label", playing ? "Pause" : "Play the training");
    },
  };
}

const QUESTIONS = [
  ["What is the black line?", "The path of the query p under gradient flow, from its start. Other colors are other optimizers. Keys and p share one plane: p points to the keys that it attends to."],
  ["Why does the star not win?", "The star marks the direction that selects the best-scoring token of every input. Each direction in the list attracts, and a start in the basin of another direction stays there: gradient training is local."],
  ["What does “proved” mean?", "The margin of the direction lies in an interval that was checked in exact arithmetic after the solver had finished. “Not proved here” marks answers that this page computed in floating point."],
];

function makeQuestions() {
  return make("details", { class: "hmx-questions" }, make("summary", { text: "Questions" }),
    make("dl", {}, ...QUESTIONS.flatMap(([question, answer]) => [make("dt", { text: question }), make("dd", { text: answer })])));
}
