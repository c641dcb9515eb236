// The scene of paper A: every word a dot, its verdict E v sideways, its claim to attention E p upwards.

function readTexts(content) {
  const found = [];
  for (const line of content.split(/\r?\n/)) {
    let match = line.match(/^\s*([+-]1?)\s*[,;\t ]\s*(.+)$/);
    if (match) { found.push([match[2].slice(0, 5000), match[1].startsWith("+") ? 1 : -1]); continue; }
    match = line.match(/^\s*"?(.+?)"?\s*[,;\t]\s*"?([+-]?[01]|positive|negative)"?\s*$/i);
    if (match) found.push([match[1].slice(0, 5000), /^(-1|0|negative)$/i.test(match[2]) ? -1 : 1]);
  }
  return found.slice(0, 5000);
}

function makeWords(app, tour) {
  const canvas = make("canvas", { class: "hmx-canvas", tabindex: "0", role: "img", "aria-label": "Every word: E v sideways, E p upwards" });
  const tip = make("div", { class: "hmx-tip-box", hidden: true });
  const stage = make("div", { class: "hmx-stage hmx-cloud" }, canvas, tip);
  const step = make("input", { type: "range", min: "0", max: "0", step: "0.01", value: "0", "aria-label": "Training epoch" });
  const stepText = make("output", { class: "hmx-when" });
  const play = make("button", { type: "button", class: "hmx-play", text: "▶", "aria-label": "Play the training" });
  const search = make("input", { type: "search", class: "hmx-prompt", placeholder: "Search a word", "aria-label": "Search a word", spellcheck: "false" });
  const about = make("p", { class: "hmx-told" });
  const table = make("ol", { class: "hmx-top-words" });
  const heading = make("p", { class: "hmx-told" });
  const texts = make("ul", { class: "hmx-texts", tabindex: "0", "aria-label": "Texts with this word" });
  const area = make("textarea", { class: "hmx-lines", rows: "6", spellcheck: "false", "aria-label": "Labeled texts, + or - first on each line", placeholder: "+ a wonderful film\n- a boring plot" });
  const load = make("button", { type: "button", class: "hmx-small", text: "Train on these", onclick: () => {
    const read = readTexts(area.value);
    if (!read.length) app.complain("Each line must begin with + or −, then a text; type some.");
    else app.change({ ...app.state, texts: read });
  } });
  const sample = make("button", { type: "button", class: "hmx-small", text: "Sample texts", onclick: () => app.change({ ...app.state, texts: tour.words.texts }) });
  const right = make("div", { class: "hmx-right" },
    card("What attention selects", search, table, about), card("Texts with the word", heading, texts),
    card("Texts", area, make("div", { class: "hmx-dialog-row" }, load, sample)));
  const root = make("div", { class: "hmx-scene hmx-words" }, make("div", { class: "hmx-left" }, stage, make("div", { class: "hmx-clock" }, play, step, stepText)), right);
  let found = null, chosen = -1, over = -1, dirty = true, playing = false, size = [600, 520], reach = [1, 0, 1];

  const watcher = new ResizeObserver(() => {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    size = [stage.clientWidth || 600, stage.clientHeight || 520];
    canvas.width = size[0] * ratio; canvas.height = size[1] * ratio;
    dirty = true;
  });
  watcher.observe(stage);

  function now() {
    const at = Number(step.value), k = Math.min(Math.floor(at), found.frames.length - 1), next = Math.min(k + 1, found.frames.length - 1), part = at - k;
    const a = found.frames[k], b = found.frames[next], mix = (x, y) => x + part * (y - x);
    return { epochs: mix(a.epochs, b.epochs), x: (w) => mix(a.value[w], b.value[w]), y: (w) => mix(a.attention[w], b.attention[w]) };
  }
  const X = (v) => size[0] * (0.5 + 0.46 * (v / reach[0])), Y = (a) => size[1] * (0.93 - 0.83 * ((a - reach[1]) / (reach[2] - reach[1] || 1)));
  const color = (x) => {
    const t = clamp(x, -1, 1), [bad, mid, good] = app.theme === "dark" ? [[255, 128, 108], [150, 156, 170], [84, 205, 230]] : [[207, 61, 40], [148, 153, 165], [16, 118, 160]];
    const side = t < 0 ? bad : good, m = Math.abs(t);
    return `rgb(${mid.map((c, i) => Math.round(c + m * (side[i] - c))).join(",")})`;
  };

  function paint() {
    const g = canvas.getContext("2d"), ratio = canvas.width / size[0] || 1, dark = app.theme === "dark";
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, ...size);
    g.font = "12px ui-sans-serif, system-ui, sans-serif";
    g.fillStyle = dark ? "#9aa3b2" : "#667085";
    g.textAlign = "left";
    g.fillText("− negative", 10, size[1] - 10);
    g.textAlign = "right";
    g.fillText("positive +   E v", size[0] - 10, size[1] - 10);
    g.textAlign = "left";
    g.fillText("↑ E p, claim to attention", 10, 18);
    if (!found) return;
    g.strokeStyle = dark ? "rgba(255,255,255,.16)" : "rgba(20,25,40,.14)";
    g.beginPath(); g.moveTo(X(0), 0); g.lineTo(X(0), size[1]); g.moveTo(0, Y(0)); g.lineTo(size[0], Y(0)); g.stroke();
    const at = now(), many = found.words.length > 400, named = new Set(found.top);
    found.words.forEach((word, w) => {
      const r = clamp(2 + Math.sqrt(found.counts[w]) * 0.45, 2.5, 11);
      g.globalAlpha = many ? 0.6 : 0.85;
      g.fillStyle = color((found.posterior[w] || 0) * 1.2);
      g.beginPath(); g.arc(X(at.x(w)), Y(at.y(w)), r, 0, 7); g.fill();
    });
    g.globalAlpha = 1;
    g.textAlign = "center";
    // a name that would lie on another is left out: those of the chosen word and of the selected ones come first
    const lit = (w) => w === chosen || w === over, rank = (w) => (lit(w) ? 2 : named.has(found.words[w]) ? 1 : 0), placed = [];
    const shown = found.words.map((_, w) => w).filter((w) => rank(w) || found.words.length <= 60);
    shown.sort((a, b) => rank(b) - rank(a) || found.counts[b] - found.counts[a]).forEach((w) => {
      g.font = `${lit(w) ? "600 14px" : "12px"} ui-sans-serif, system-ui, sans-serif`;
      g.fillStyle = dark ? "#e8eaf0" : "#20242c";
      const x = X(at.x(w)), y = Y(at.y(w)), name = found.words[w].slice(0, 24), half = g.measureText(name).width / 2 + 2;
      const cx = clamp(x, half + 4, size[0] - half - 4), cy = Math.max(y - 9 - Math.sqrt(found.counts[w]) * 0.3 - (lit(w) ? 7 : 0), 34);
      if (!placed.some((other) => Math.abs(other.cx - cx) < other.half + half && Math.abs(other.cy - cy) < 13)) {
        placed.push({ cx, cy, half });
        g.fillText(name, cx, cy);
      }
      if (lit(w)) { g.strokeStyle = g.fillStyle; g.lineWidth = 2; g.beginPath(); g.arc(x, y, 12, 0, 7); g.stroke(); }
    });
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, at = now();
    let best = -1, least = 18 ** 2;
    found.words.forEach((_, w) => {
      const d = (X(at.x(w)) - px) ** 2 + (Y(at.y(w)) - py) ** 2;
      if (d < least) { least = d; best = w; }
    });
    return best;
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!found) return;
    const w = nearest(event);
    tip.hidden = w < 0;
    if (w >= 0) {
      const at = now();
      tip.textContent = `${found.words[w]}: x = ${digits(found.posterior[w], 2)}, in ${found.counts[w]} places, E v ${digits(at.x(w), 2)}, E p ${digits(at.y(w), 2)}`;
      tip.style.left = `${clamp(X(at.x(w)), 90, size[0] - 130)}px`;
      tip.style.top = `${clamp(Y(at.y(w)) + 14, 0, size[1] - 44)}px`;
    }
    if (w !== over) { over = w; dirty = true; }
  });
  canvas.addEventListener("pointerleave", () => { over = -1; tip.hidden = true; dirty = true; });
  canvas.addEventListener("pointerdown", (event) => { if (found) choose(nearest(event)); });

  function choose(w) {
    chosen = w;
    dirty = true;
    if (w < 0) { heading.textContent = "Click a word, or search one."; texts.replaceChildren(); about.textContent = " "; return; }
    const word = found.words[w], at = now();
    const holds = app.state.texts.filter(([text]) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).includes(word));
    heading.textContent = `“${word}” occurs in ${holds.length} texts, ${holds.filter(([, y]) => y > 0).length} of them positive.`;
    about.textContent = `${word}: posterior difference ${digits(found.posterior[w], 3)}, E v ${digits(at.x(w), 3)}, E p ${digits(at.y(w), 3)}.`;
    texts.replaceChildren(...holds.slice(0, 8).map(([text, y]) => make("li", { class: y > 0 ? "hmx-plus" : "hmx-minus", text })));
    app.say(about.textContent);
  }
  search.addEventListener("input", () => {
    if (!found) return;
    const wanted = search.value.trim().toLowerCase();
    choose(wanted ? Math.max(found.words.indexOf(wanted), found.words.findIndex((word) => word.startsWith(wanted))) : -1);
  });

  function showEpoch() {
    dirty = true;
    stepText.textContent = found ? `epoch ${Math.round(now().epochs)}` : " ";
  }
  step.addEventListener("input", () => { playing = false; showEpoch(); });
  function start() {
    playing = true;
    step.value = "0";
    let last = performance.now();
    const go = (when) => {
      if (!playing || !found) return;
      const end = found.frames.length - 1, at = Math.min(end, Number(step.value) + ((when - last) / 3600) * end);
      last = when;
      step.value = String(at);
      showEpoch();
      if (at >= end) playing = false;
      play.textContent = playing ? "❚❚" : "▶";
      if (playing) requestAnimationFrame(go);
    };
    requestAnimationFrame(go);
  }
  play.addEventListener("click", () => { if (playing) { playing = false; play.textContent = "▶"; } else if (found) start(); });

  function showTrained(answer) {
    found = answer;
    const values = answer.frames.flatMap((f) => f.value), logits = answer.frames.flatMap((f) => f.attention);
    reach = [values.reduce((m, v) => Math.max(m, Math.abs(v)), 1e-9), logits.reduce((m, v) => Math.min(m, v), 0), logits.reduce((m, v) => Math.max(m, v), 1e-9)];
    set(step, { max: String(answer.frames.length - 1) });
    step.value = String(answer.frames.length - 1);
    table.replaceChildren(...answer.top.map((word) => make("li", {}, make("button", { type: "button", text: word, onclick: () => choose(answer.words.indexOf(word)) }))));
    choose(answer.words.indexOf(answer.top[0]));
    showEpoch();
    if (!calm()) start();
  }

  return {
    root,
    enter() { dirty = true; },
    leave() { playing = false; },
    tick() { if (dirty) { dirty = false; paint(); } },
    theme() { dirty = true; },
    show(state, before) {
      const whole = app.whole(state);
      if (document.activeElement !== area) area.value = whole.texts.slice(0, 400).map(([text, y]) => `${y > 0 ? "+" : "-"} ${text}`).join("\n");
      if (before && before.scene === "words" && same([before.texts, before.epochs, before.rate], [state.texts, state.epochs, state.rate])) return;
      stepText.textContent = "training …";
      app.ask("words", { ask: "words", texts: whole.texts, epochs: state.epochs, rate: state.rate, least: state.least }, showTrained);
    },
    close: () => watcher.disconnect(),
    told: () => ({ found, chosen }),
  };
}
