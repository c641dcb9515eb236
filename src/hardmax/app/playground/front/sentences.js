// The scene of paper C: sentences as they are typed, their verdict, the orders, the training, a prediction.

const MOST_LINES = 60;

function makeSentences(app) {
  const area = make("textarea", { class: "hmx-lines", rows: "8", spellcheck: "false", "aria-label": "Sentences, one on each line" });
  const verdict = make("p", { class: "hmx-verdict", role: "status" }, " ");
  const faults = make("ul", { class: "hmx-faults" });
  const graphs = make("div", { class: "hmx-graphs" });
  const rows = make("div", { class: "hmx-learnt" });
  const step = make("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Training step" });
  const stepText = make("output", { class: "hmx-when" });
  const play = make("button", { type: "button", class: "hmx-play", "aria-label": "Play the training", text: "▶" });
  const prompt = make("input", { type: "text", class: "hmx-prompt", spellcheck: "false", "aria-label": "Prompt" });
  const nexts = make("div", { class: "hmx-nexts" });
  const reason = make("p", { class: "hmx-reason" });
  const left = make("div", { class: "hmx-left" },
    card("Sentences", area, verdict, faults), card("What comes next?", prompt, nexts, reason));
  const right = make("div", { class: "hmx-right" },
    card("Training: whom each sentence attends to", make("div", { class: "hmx-clock" }, play, step, stepText), rows),
    card("Who decides: the order under each last word", graphs));
  const root = make("div", { class: "hmx-scene hmx-sentences" }, left, right);
  let frames = [], learnt = [], playing = false, checked = null;

  const lines = () => area.value.split("\n").map((line) => line.trim()).filter(Boolean);
  let typing = null;
  area.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => app.change({ ...app.state, sentences: lines() }), 150);
  });
  prompt.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => app.change({ ...app.state, prompt: prompt.value }), 150);
  });

  function showChecked(found) {
    checked = found;
    const good = found.realizable === true;
    verdict.textContent = good ? "✓ Realizable: attention can learn these sentences." : found.learnable
      ? "Learnable, once every word has a word that follows it." : "✗ Not realizable: no attention can learn them all.";
    verdict.className = `hmx-verdict ${good ? "hmx-good" : found.learnable ? "hmx-fair" : "hmx-bad"}`;
    faults.replaceChildren(...found.told.map((each) => make("li", {},
      make("b", { text: `${each.what.charAt(0).toUpperCase()}${each.what.slice(1)}: ${each.count}` }), ...each.witnesses.map((text) => make("span", { text })))));
    graphs.replaceChildren(...found.graph.slice(0, 12).map((each) => orderGraph(each)));
    if (!found.graph.length) graphs.replaceChildren(make("p", { class: "hmx-none", text: "No sentence goes on after two different words: attention never has to choose." }));
    app.say(verdict.textContent);
  }

  function showFrame() {
    const k = Number(step.value), frame = frames[k];
    for (const each of [play, step]) each.disabled = !frame;
    if (!frame) { stepText.textContent = " "; return; }
    stepText.textContent = `step ${frame.step.toLocaleString("en-US")}`;
    learnt.forEach((each, s) => {
      const counts = {};
      each.words.forEach((word) => { counts[word] = (counts[word] || 0) + 1; });
      each.chips.forEach((chip, w) => {
        const share = (frame.attention[s][each.words[w]] || 0) / counts[each.words[w]];
        chip.style.setProperty("--share", String(share));
        chip.title = `${Math.round(100 * share)}%`;
      });
      const [word, probability] = frame.next[s];
      each.next.textContent = word;
      each.next.classList.toggle("hmx-wrong", word !== each.target);
      each.sure.textContent = `${Math.round(100 * probability)}%`;
    });
  }

  function showLearnt(answer) {
    if (!answer.sentences.length) { nothing("No sentence goes on after two different words: attention never has to choose."); return; }
    frames = answer.frames;
    learnt = answer.sentences.map((each) => ({
      words: each.words, target: each.next,
      chips: each.words.map((word) => make("span", { class: "hmx-word", text: word })),
      next: make("b", {}), sure: make("i", {}),
    }));
    rows.replaceChildren(...learnt.map((each) => make("div", { class: "hmx-sentence" },
      make("span", { class: "hmx-chain" }, ...each.chips), make("span", { class: "hmx-arrow", text: "→" }), each.next, each.sure)));
    set(step, { max: String(frames.length - 1) });
    step.value = String(frames.length - 1);
    showFrame();
    if (!calm()) start();
  }

  function showPrediction(told) {
    nexts.replaceChildren(...told.next.slice(0, 4).map(({ token, probability }) => {
      const bar = make("span", { class: "hmx-fill" });
      bar.style.width = `${Math.max(100 * probability, 0.5)}%`;
      return make("div", { class: "hmx-option" }, make("b", { text: token }), make("span", { class: "hmx-track" }, bar), make("i", { text: probability < 1e-3 ? digits(probability, 2) : `${Math.round(1000 * probability) / 10}%` }));
    }));
    const kind = { unique: "", tie: "A tie: " }[told.rule] ?? "Not decided by the sentences: ";
    reason.textContent = `${kind}${told.reason}.`;
  }

  function start() {
    playing = true;
    step.value = "0";
    let last = performance.now(), at = 0;
    const go = (now) => {
      if (!playing) return;
      at += ((now - last) / 3200) * (frames.length - 1);
      last = now;
      step.value = String(Math.min(frames.length - 1, Math.floor(at)));
      showFrame();
      if (at >= frames.length - 1) playing = false;
      play.textContent = playing ? "❚❚" : "▶";
      if (playing) requestAnimationFrame(go);
    };
    requestAnimationFrame(go);
  }
  play.addEventListener("click", () => { if (playing) { playing = false; play.textContent = "▶"; } else if (frames.length) start(); });
  step.addEventListener("input", () => { playing = false; play.textContent = "▶"; showFrame(); });

  const nothing = (text) => {
    frames = []; learnt = [];
    set(step, { max: "0" });
    showFrame();
    rows.replaceChildren(make("p", { class: "hmx-none", text }));
  };

  return {
    root,
    enter() {},
    leave() { playing = false; },
    theme() {},
    show(state, before) {
      if (document.activeElement !== area || !same(lines(), state.sentences)) area.value = state.sentences.join("\n");
      if (document.activeElement !== prompt) prompt.value = state.prompt || "";
      const moved = !before || before.scene !== "sentences" || !same(before.sentences, state.sentences);
      if (!state.sentences.length) {
        verdict.textContent = "Type a sentence on each line.";
        verdict.className = "hmx-verdict";
        faults.replaceChildren(); graphs.replaceChildren(); nexts.replaceChildren(); reason.textContent = " ";
        nothing("Nothing to learn yet.");
        return;
      }
      const question = { sentences: state.sentences.slice(0, MOST_LINES) };
      const askPrompt = () => {
        if (!state.prompt || !state.prompt.trim()) { nexts.replaceChildren(); reason.textContent = "Type some of the words above."; return; }
        app.ask("predict", { ask: "predict", ...question, prompt: state.prompt }, showPrediction);
      };
      if (moved) {
        app.ask("check", { ask: "check", ...question }, (found) => {
          showChecked(found);
          if (!found.learnable) {
            nothing("These sentences contradict each other, so training cannot be shown. Fix what the list names.");
            nexts.replaceChildren();
            reason.textContent = "No prediction: the sentences contradict each other.";
            return;
          }
          app.ask("learn", { ask: "learn", ...question }, showLearnt);
          askPrompt();
        });
      } else if (checked && checked.learnable) askPrompt();
    },
    close() {},
    told: () => ({ checked, frames }),
  };
}

// Words in rows: those that nothing beats on top; a word that beats itself in the end stays where it is met.
function orderGraph({ query, edges }) {
  const names = [...new Set(edges.flat())], depth = Object.fromEntries(names.map((name) => [name, 0]));
  for (let round = 0; round < names.length; round += 1) for (const [above, below] of edges) if (depth[below] <= depth[above] && round < names.length - 1) depth[below] = Math.min(depth[above] + 1, names.length - 1);
  const rows = [];
  for (const name of names) (rows[depth[name]] = rows[depth[name]] || []).push(name);
  const levels = rows.filter(Boolean);
  const wide = Math.max(...levels.map((row) => row.reduce((sum, name) => sum + 26 + 7.2 * Math.min(name.length, 14), 0)), 110);
  const H = 44 * levels.length + 8, places = {};
  levels.forEach((row, j) => row.forEach((name, i) => { places[name] = [(wide * (i + 0.5)) / row.length, 22 + 44 * j]; }));
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${H}`, width: wide, height: H, role: "img", "aria-label": `under ${query}: ${edges.map(([a, b]) => `${a} above ${b}`).join(", ")}` });
  for (const [above, below] of edges) {
    const [x1, y1] = places[above], [x2, y2] = places[below], up = y2 <= y1;
    const bend = up ? 34 : 0;
    svg.append(draw("path", { class: up ? "hmx-edge hmx-back" : "hmx-edge", d: `M${x1},${y1 + (up ? 0 : 11)}Q${(x1 + x2) / 2 + bend},${(y1 + y2) / 2} ${x2},${y2 - (up ? -11 : 13)}` }));
    if (!up) svg.append(draw("path", { class: "hmx-tip", d: "M0,0L-4,-6L4,-6Z", transform: `translate(${x2},${y2 - 11}) rotate(${(Math.atan2(x1 - x2, y2 - y1) * 180) / Math.PI * 0.6})` }));
  }
  for (const name of names) {
    const [x, y] = places[name], short = name.length > 14 ? `${name.slice(0, 13)}…` : name, w = 16 + 7.2 * short.length;
    svg.append(draw("g", { transform: `translate(${x},${y})` },
      draw("rect", { class: depth[name] ? "hmx-node" : "hmx-node hmx-top", x: -w / 2, y: -11, width: w, height: 22, rx: 11 }),
      draw("text", { class: "hmx-node-text", "text-anchor": "middle", dy: "0.35em", text: short })));
  }
  return make("figure", { class: "hmx-graph" }, make("figcaption", {}, "under ", make("b", { text: query })), svg);
}
