// The scene of paper B: what is done to the state, and which questions follow from a change.

function makePlane(app, limits) {
  const acts = {};
  const view = makePlaneView(app, acts);
  const directions = makeDirections(app, acts), attention = makeAttention(app), loss = makeLoss(app, acts);
  const controls = makeControls(app, acts, limits), inspector = makeInspector(app, acts), clock = makeClock(acts);
  const left = make("div", { class: "hmx-left" }, view.root, clock.root, inspector.root, makeQuestions());
  const right = make("div", { class: "hmx-right" }, directions.root, attention.root, loss.root, controls.root);
  const root = make("div", { class: "hmx-scene hmx-plane" }, left, right);
  let time = 1, playing = false, shown = false, reveal = null, awaited = 0, rewind = true;

  // -- reading runs at a time ---------------------------------------------------------------------------------

  acts.frameAt = (run) => {
    const log = logTimeAt(time), times = run.frames.times, reached = log + 1e-9 * Math.abs(log);
    let k = times.length - 1;
    while (k > 0 && times[k] !== null && times[k] > reached) k -= 1;
    const next = Math.min(k + 1, times.length - 1), from = times[k], to = times[next];
    const part = next === k || from === null || to === null || to <= from ? 0 : clamp((log - from) / (to - from), 0, 1);
    return { k, next, part };
  };
  acts.pointAt = (run) => {
    const { k, next, part } = acts.frameAt(run), a = run.frames.points[k], b = run.frames.points[next];
    return [a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])];
  };
  const lead = () => view.runs.find((run) => run.frames);
  function attentionNow() {
    const run = lead(), sizes = app.state.problem.keys.map((own) => own.length);
    const even = sizes.map((T) => Array(T).fill(1 / T));
    if (!run) return even;
    const { k, next, part } = acts.frameAt(run), a = run.frames.attention[k], b = run.frames.attention[next];
    if (!same(a.map((own) => own.length), sizes)) return even;
    return a.map((own, i) => own.map((share, t) => share + part * (b[i][t] - share)));
  }
  let shares = [];
  acts.shareOf = (i, t) => (shares[i] && shares[i][t]) || 0;

  function showTime() {
    shares = attentionNow();
    attention.show(shares);
    view.light();
    loss.mark(time, lead());
    clock.show(time, playing);
  }
  acts.setTime = (u) => { time = u; showTime(); };
  acts.play = () => {
    playing = !playing;
    if (playing && time > 0.995) time = 0;
    let last = performance.now();
    const step = (now) => {
      if (!playing || !shown) return;
      time = Math.min(1, time + (now - last) / 9000);
      last = now;
      if (time >= 1) playing = false;
      showTime();
      if (playing) requestAnimationFrame(step);
    };
    showTime();
    requestAnimationFrame(step);
  };

  // -- changes of the state -----------------------------------------------------------------------------------

  const change = (edit, during) => {
    const next = copy(app.state);
    edit(next);
    app.change(next, during);
  };
  acts.set = (some, during) => change((state) => Object.assign(state, some), during);
  acts.setLoss = (name) => change((state) => { state.problem.loss = name; });
  acts.focus = (k) => { app.focus = k; app.picked = true; view.setSolved(view.solved); directions.show(view.solved); };
  acts.choose = (i, t) => {
    app.chosen = i === null ? null : [i, t];
    inspector.show();
    view.light();
  };
  acts.moveToken = (i, t, key, during) => change((state) => { state.problem.keys[i][t] = key.map((x) => Number(x.toPrecision(4))); }, during);
  acts.setScore = (i, t, score, during) => change((state) => { state.problem.scores[i][t] = score; }, during);
  acts.moveStart = (k, p, during) => change((state) => { state.starts[k] = p; }, during);
  acts.startAt = (p, during, more) => change((state) => { state.starts = more ? [...state.starts, p].slice(-8) : [p]; }, during);
  acts.toggleRule = (name) => change((state) => {
    const some = state.rules.includes(name) ? state.rules.filter((each) => each !== name) : [...state.rules, name];
    state.rules = RULES.map((rule) => rule.name).filter((each) => some.includes(each));
    if (!state.rules.length) state.rules = [name];
  });
  acts.zoom = (by) => change((state) => { state.span = Number(clamp(state.span * by, 0.05, 1e4).toPrecision(3)); });
  acts.addToken = (key) => change((state) => {
    const i = app.chosen ? app.chosen[0] : 0;
    const count = state.problem.keys.flat().length;
    const turn = 2.4 * count;
    state.problem.keys[i].push(key || [0.6 * state.span * Math.cos(turn), 0.6 * state.span * Math.sin(turn)].map((x) => Number(x.toPrecision(3))));
    state.problem.scores[i].push(0.5);
    app.chosen = [i, state.problem.keys[i].length - 1];
  });
  const without = (state, i, t) => {
    state.problem.keys[i].splice(t, 1);
    state.problem.scores[i].splice(t, 1);
    if (!state.problem.keys[i].length) { state.problem.keys.splice(i, 1); state.problem.scores.splice(i, 1); }
  };
  acts.deleteToken = (i, t) => {
    if (app.state.problem.keys.flat().length < 2) return app.complain("One token must stay; add another before you delete this one.");
    app.chosen = null;
    return change((state) => without(state, i, t));
  };
  acts.recolor = (i, t, k) => {
    if (k === i) return;
    change((state) => {
      const { keys, scores } = state.problem;
      if (k >= keys.length) { keys.push([]); scores.push([]); }
      keys[k].push(keys[i][t]);
      scores[k].push(scores[i][t]);
      const emptied = keys[i].length === 1;
      without(state, i, t);
      const at = emptied && k > i ? k - 1 : k;
      app.chosen = [at, state.problem.keys[at].length - 1];
    });
  };
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const nudged = (event, key) => {
    const by = app.state.span / (event.shiftKey ? 400 : 50), [dx, dy] = arrows[event.key];
    return [key[0] + dx * by, key[1] + dy * by];
  };
  acts.tokenKey = (event, i, t) => {
    const { keys, scores } = app.state.problem;
    if (arrows[event.key]) acts.moveToken(i, t, nudged(event, keys[i][t]), false);
    else if (event.key === "Delete" || event.key === "Backspace") acts.deleteToken(i, t);
    else if (event.key === "+" || event.key === "=") acts.setScore(i, t, Number((scores[i][t] + 0.05).toPrecision(4)), false);
    else if (event.key === "-") acts.setScore(i, t, Number((scores[i][t] - 0.05).toPrecision(4)), false);
    else return;
    event.preventDefault();
  };
  acts.startKey = (event, k) => {
    if (event.key === "Delete" && app.state.starts.length > 1) change((state) => { state.starts.splice(k, 1); });
    if (!arrows[event.key]) return;
    acts.moveStart(k, nudged(event, app.state.starts[k]).map((x) => Number(x.toPrecision(4))), false);
    event.preventDefault();
  };

  // -- questions ----------------------------------------------------------------------------------------------

  const asked = (state) => ({ problem: state.problem, norm: state.norm, span: state.span });

  function askSolve() {
    const state = app.state;
    app.ask("solve", { ask: "solve", ...asked(state) }, (solved, took) => {
      if (!same(solved.selections.map((s) => s.selection), (view.solved ? view.solved.selections : []).map((s) => s.selection)) || app.focus === null) {
        const best = solved.selections.findIndex((each) => each.globally_optimal);
        app.focus = best < 0 ? 0 : best;
      }
      view.setSolved(solved);
      directions.show(solved);
      app.note("solve", took);
      const named = solved.selections.map((each, k) => `${letter(k)} selects ${each.selection.join(", ")}`);
      app.say(`${solved.selections.length} directions attract. ${named.slice(0, 4).join(". ")}`);
    });
  }

  function askTrain(during) {
    const state = app.state, starts = during ? state.starts.slice(0, 1) : state.starts;
    const question = { ask: "train", ...asked(state), rules: state.rules, rate: state.rate };
    // the first start tells where p is and what it attends to; the others follow, drawn as they come
    app.ask("train", { ...question, starts: starts.slice(0, 1) }, ({ runs }, took) => {
      if (!sameShape(runs)) return;
      if (rewind) { time = Math.max(...runs.map((run) => sliderAt(run.log_time))); rewind = false; }
      view.setRuns(runs);
      loss.show(runs);
      controls.ends(runs);
      showTime();
      app.note("train", took);
      const warned = runs.flatMap((run) => run.warnings)[0];
      if (warned) app.complain(warned);
      if (!during && starts.length > 1) askOthers(question, starts, runs);
    });
  }

  function askOthers(question, starts, runs) {
    const mine = (awaited += 1);
    const more = starts.slice(1);
    const next = () => {
      if (!more.length || mine !== awaited) return;
      const start = more.shift(), k = starts.length - more.length - 1;
      app.ask("train-others", { ...question, starts: [start] }, (answer) => {
        if (mine !== awaited) return;
        runs = [...runs, ...answer.runs.map((run) => ({ ...run, start: k, frames: null }))];
        view.setRuns(runs);
        next();
      });
    };
    next();
  }

  const sameShape = (runs) => runs.every((run) => !run.frames || same(run.frames.attention[0].map((own) => own.length), app.state.problem.keys.map((own) => own.length)));

  function showField(field) {
    view.setField(field);
    controls.tellField(field);
  }

  // While the engine is slow, basins stay coarse; this is what a fast one refines.
  let coarse = null;
  const isSettled = (state) => same(asked(state), asked(app.state)) && state.field === app.state.field;

  function askField(level = 1, known = null) {
    const state = app.state;
    coarse = null;
    if (!state.field) { showField(null); return; }
    const question = { ask: "field", ...asked(state), rule: state.field, level };
    if (known) question.known = known;
    app.ask("field", question, (field, took) => {
      if (level === 1) app.note("field", took);
      showField(field);
      if (!isSettled(state) || app.dragging || level >= 4) return;
      if (app.isSlow()) coarse = { state, level, grid: field.grid };
      else askField(level + 1, field.grid);
    });
  }

  function askNeedles() {
    if (!app.state.needles) { view.needles = null; view.dirty = true; return; }
    app.ask("needles", { ask: "gradients", ...asked(app.state) }, ({ needles }) => { view.needles = needles; view.dirty = true; });
  }

  function animate() {
    view.reveal = calm() ? 1 : 0;
    const began = performance.now();
    const step = (now) => {
      view.reveal = clamp((now - began) / 1100, 0, 1);
      view.dirty = true;
      if (view.reveal < 1 && reveal === step) requestAnimationFrame(step);
    };
    reveal = step;
    if (view.reveal < 1) requestAnimationFrame(step);
  }

  return {
    root,
    view,
    enter() { shown = true; view.resize(); },
    leave() { shown = false; playing = false; },
    resume() { if (coarse && isSettled(coarse.state)) askField(coarse.level + 1, coarse.grid); },
    tick: () => view.tick(),
    theme() { view.repaintField(); view.layout(); if (view.solved) directions.show(view.solved); loss.show(view.runs); controls.ends(view.runs); inspector.show(); controls.show(app.state); showTime(); },
    // The state has changed: draw at once what is known, then ask.
    show(state, before, during) {
      const fresh = !before || before.scene !== "plane" || app.jumped;
      const sizes = (s) => s.problem.keys.map((own) => own.length);
      const changed = fresh || !same(sizes(state), sizes(before));
      if (changed) {
        app.forget();
        awaited += 1;
        view.runs = [];
        controls.ends([]);
      }
      if (fresh) {
        app.focus = null;
        app.picked = false;
        rewind = true;
        showField(null);
        view.needles = null;
        view.setSolved(null);
        animate();
      }
      const posed = (s) => JSON.stringify([s.problem, s.norm]);
      const moved = changed || posed(state) !== posed(before);
      const trained = moved || !same([state.rules, state.rate, state.starts, state.span], [before.rules, before.rate, before.starts, before.span]);
      controls.show(state);
      inspector.show();
      view.layout();
      showTime();
      if (moved) askSolve();
      // coarse basins take less time than training, so they go first
      if (moved || state.field !== before.field || state.span !== before.span || (!during && app.wasDragging)) askField();
      if (trained || !during) { awaited += 1; askTrain(during); }
      if (moved || state.needles !== before.needles || state.span !== before.span) askNeedles();
    },
    close: () => view.close(),
    // For tests and the benchmark: what is shown.
    told: () => ({ solved: view.solved, runs: view.runs, field: view.field, time }),
  };
}
