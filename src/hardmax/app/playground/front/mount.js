// The page around the scenes: tour, tabs, undo, links, themes. Hosts differ in their transport only.

const SCENES = [["plane", "Plane"], ["sentences", "Sentences"], ["words", "Words"]];

export function mount(el, transport) {
  const root = make("div", { class: "hmx" });
  el.append(root);
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const notebook = document.body.dataset.jpThemeLight;
  const app = { theme: (notebook ? notebook === "false" : media.matches) ? "dark" : "light", focus: null, chosen: null, dragging: false, jumped: false, wasDragging: false, latency: {} };
  root.dataset.theme = app.theme;
  if (transport.isFile && window.parent !== window) root.dataset.embedded = "yes"; // in a page of the docs

  const live = make("div", { class: "hmx-live", role: "status", "aria-live": "polite" });
  const problem = make("div", { class: "hmx-problem", role: "alert", hidden: true });
  let quiet = null, hush = null;
  app.say = (text) => {
    clearTimeout(quiet);
    quiet = setTimeout(() => { live.textContent = text; }, 700);
  };
  app.complain = (text) => {
    const sentence = text.charAt(0).toUpperCase() + text.slice(1);
    problem.textContent = sentence.endsWith(".") ? sentence : `${sentence}.`;
    problem.hidden = false;
    clearTimeout(hush);
    hush = setTimeout(() => { problem.hidden = true; }, 9000);
  };
  app.note = (name, took) => { (app.latency[name] = app.latency[name] || []).push(took); };
  const status = makeStatus(transport, (now, before) => {
    root.dataset.engine = now;
    if (scene && now === "ready" && before === "failed") again();
    else if (scene && now === "ready" && scene.resume) scene.resume();
  });
  app.isSlow = () => ["starting", "compiling", "slow"].includes(status.state);
  const asker = makeAsker(transport, (text) => { app.complain(text); status.watch(); }, (idle) => { root.dataset.idle = idle ? "yes" : "no"; });
  app.ask = asker.ask;
  app.forget = asker.forget;

  const waiting = make("p", { class: "hmx-waiting", text: "Starting the engine …" });
  root.append(waiting, status.root);
  let scene = null, frame = 0, listened = false, closed = false, again = () => {};
  open();

  async function open() {
    status.watch();
    let reply = await transport.ask({ v: 1, ask: "tour" });
    while (!reply.ok && !closed) {
      waiting.textContent = reply.error;
      await new Promise((done) => { setTimeout(done, 2000); });
      reply = await transport.ask({ v: 1, ask: "tour" });
    }
    if (closed) return;
    const kept = transport.opening && location.hash.length <= 1 ? await transport.opening() : null;
    waiting.remove();
    begin(reply.answer, kept);
  }

  function begin(tour, kept) {
    const inLink = transport.host === "page" && !kept && (location.hash.length > 1 || !transport.initial);
    const given = inLink ? location.hash.length > 1 : Boolean(kept || transport.initial);
    const opened = inLink ? fromHash(location.hash) : completed(kept || transport.initial);
    const first = isState(opened) ? opened : copy(tour.scenes[0].state);
    if (given && !isState(opened)) app.complain(`${opened} The default scene is shown.`);
    else if (kept && !transport.isFile) app.complain(KEPT);
    const scenes = { plane: makePlane(app, tour.limits), sentences: makeSentences(app), words: makeWords(app, tour) };
    const last = { plane: copy(tour.scenes[0].state), sentences: tour.sentences, words: tour.words };
    const store = makeStore(first, changed);
    Object.defineProperty(app, "state", { get: () => store.state });
    app.change = (state, during = false) => { app.dragging = during; store.change(state, { during }); };

    // -- shell --------------------------------------------------------------------------------------------------
    const tabs = make("nav", { class: "hmx-tabs", "aria-label": "Scenes" }, ...SCENES.map(([name, title]) =>
      make("button", { type: "button", "data-scene": name, text: title, onclick: () => jump(copy(last[name])) })));
    const tool = (title, text, act) => make("button", { type: "button", class: "hmx-tool", title, "aria-label": title, text, onclick: act });
    const undo = tool("Undo", "↶", () => store.undo()), redo = tool("Redo", "↷", () => store.redo());
    const share = makeShare(app, transport, asker, (state) => jump(state));
    const shade = tool("Light or dark", "◐", () => theme(app.theme === "dark" ? "light" : "dark"));
    const header = make("header", { class: "hmx-header" },
      make("div", { class: "hmx-brand" }, make("b", { text: "hardmax" }), make("span", { text: "playground" })),
      tabs, make("div", { class: "hmx-actions" }, undo, redo, share.root, shade));
    const steps = make("ol", { class: "hmx-steps" }, ...tour.scenes.map((each, k) => make("li", {}, make("button", {
      type: "button", "data-step": String(k), "aria-label": `Scene ${k + 1}: ${each.title}`, title: each.title, text: String(k + 1), onclick: () => visit(k),
    }))));
    const title = make("h1", {}), text = make("p", {});
    const onward = make("button", { type: "button", class: "hmx-next", text: "Next →", onclick: () => visit((at + 1) % tour.scenes.length) });
    const guide = make("section", { class: "hmx-tour", "aria-label": "Guided tour" }, make("div", { class: "hmx-tour-head" }, steps, onward), make("div", { class: "hmx-words-of-scene" }, title, text));
    const stage = make("div", { class: "hmx-main" });
    app.stage = () => stage;
    root.append(header, guide, problem, stage, live, status.root);
    again = () => show(store.state, null, false);
    let at = -1;

    function visit(k) {
      jump(copy(tour.scenes[k].state));
      app.say(`Scene ${k + 1}: ${tour.scenes[k].title}. ${tour.scenes[k].text}`);
    }

    function jump(state) {
      asker.forget();
      app.chosen = null;
      app.jumped = true;
      app.dragging = false;
      store.change(state);
      app.jumped = false;
    }

    function changed(state, before, during, undone) {
      if (undone) { asker.forget(); app.jumped = before.scene !== state.scene; }
      if (!during) last[state.scene] = state;
      show(state, before, during);
      app.wasDragging = during;
      app.jumped = false;
    }

    function show(state, before, during) {
      const found = tour.scenes.findIndex((each) => same(each.state, state));
      if (found >= 0) at = found;
      guide.classList.toggle("hmx-own", found < 0);
      if (found >= 0 || at < 0 || !before || before.scene !== state.scene) {
        const told = found >= 0 ? tour.scenes[found] : INTRODUCTIONS[state.scene];
        title.textContent = told.title;
        text.textContent = told.text;
      }
      [...steps.querySelectorAll("button")].forEach((button, k) => set(button, { "aria-current": k === found ? "step" : null }));
      [...tabs.childNodes].forEach((button) => set(button, { "aria-current": button.dataset.scene === state.scene ? "page" : null }));
      set(undo, { disabled: !store.canUndo });
      set(redo, { disabled: !store.canRedo });
      const next = scenes[state.scene];
      const fresh = next !== scene;
      if (fresh) {
        if (scene) scene.leave();
        scene = next;
        stage.replaceChildren(scene.root);
        scene.enter();
      }
      scene.show(state, fresh ? null : before, during);
      if (!during) remember(state);
    }

    let remembering = null;
    function remember(state) {
      clearTimeout(remembering);
      remembering = setTimeout(() => {
        if (transport.host === "page") history.replaceState(null, "", toHash(slim(state)) || location.pathname + location.search);
        else if (transport.tell) transport.tell(state);
      }, 250);
    }

    // Texts that come with the page need not be in its links.
    const slim = (state) => (state.scene === "words" && same(state.texts, tour.words.texts) ? { ...state, texts: null } : state);
    app.slim = slim;
    app.whole = (state) => (state.scene === "words" && !state.texts ? { ...state, texts: tour.words.texts } : state);

    function theme(name) {
      app.theme = name;
      root.dataset.theme = name;
      for (const each of Object.values(scenes)) each.theme();
    }
    media.addEventListener("change", () => theme(media.matches ? "dark" : "light"));
    app.onhash = () => {
      const state = fromHash(location.hash);
      if (!isState(state)) app.complain(state);
      else if (!same(state, slim(store.state))) jump(app.whole(state));
    };
    if (transport.host === "page") window.addEventListener("hashchange", app.onhash);
    if (transport.listen && !listened) { listened = true; transport.listen((state) => {
      if (!state || same(state, store.state)) return;
      const next = completed(copy(state));
      if (isState(next)) jump(next);
      else app.complain(next);
    }); }
    root.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
      const typed = ["INPUT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
      if (typed) return;
      const key = event.key.toLowerCase();
      if (key === "z" && !event.shiftKey) store.undo();
      else if (key === "y" || (key === "z" && event.shiftKey)) store.redo();
      else return;
      event.preventDefault();
    });

    const loop = () => {
      if (scene && scene.tick) scene.tick();
      frame = requestAnimationFrame(loop);
    };
    app.jumped = true;
    show(app.whole(first), null, false);
    if (!same(first, app.whole(first))) store.change(app.whole(first));
    app.jumped = false;
    loop();
    // What a test or a benchmark may look at.
    root.playground = { app, store, scenes, latency: app.latency };
    root.dataset.ready = "yes";
  }

  return () => {
    closed = true;
    status.close();
    cancelAnimationFrame(frame);
    window.removeEventListener("hashchange", app.onhash);
    root.remove();
  };
}

const KEPT = "This is too large for a link, so the address does not hold it; loading the page again opens the file again.";
const isState = (state) => state !== null && typeof state === "object"; // otherwise a sentence

const INTRODUCTIONS = {
  plane: { title: "The plane", text: "Tokens of the same shape are one input; larger ones score higher. Drag them and see which directions attract training, with a proof each." },
  sentences: { title: "Sentences", text: "Type sentences. The page checks whether next-token training can learn them, shows which word decides under which last word, and predicts the next word." },
  words: { title: "Words", text: "Labeled texts: every word is a dot, higher with more attention, to the right if it speaks for the positive class. Watch training move them." },
};

// -- links, files, Python -------------------------------------------------------------------------------------

function makeShare(app, transport, asker, jump) {
  const menu = make("div", { class: "hmx-menu", role: "menu", hidden: true });
  const button = make("button", { type: "button", class: "hmx-tool hmx-share", "aria-haspopup": "menu", "aria-expanded": "false", text: "Share", onclick: () => open(menu.hidden) });
  const open = (wanted) => {
    menu.hidden = !wanted;
    button.setAttribute("aria-expanded", String(wanted));
    if (wanted) menu.firstChild.focus();
  };
  const dialog = make("dialog", { class: "hmx-dialog" });
  const item = (text, act) => menu.append(make("button", { type: "button", role: "menuitem", text, onclick: () => { open(false); act(); } }));
  const present = (title, content, note) => {
    const area = make("textarea", { readonly: true, rows: "12", spellcheck: "false", "aria-label": title });
    area.value = content;
    const done = make("span", { class: "hmx-copied", role: "status" });
    const take = async () => {
      area.select();
      try { await navigator.clipboard.writeText(content); } catch { document.execCommand("copy"); }
      done.textContent = "copied";
    };
    dialog.replaceChildren(make("h2", { text: title }), make("p", { text: note }), area, make("div", { class: "hmx-dialog-row" },
      make("button", { type: "button", class: "hmx-next", text: "Copy", onclick: take }), done,
      make("button", { type: "button", class: "hmx-small", text: "Close", onclick: () => dialog.close() })));
    dialog.showModal();
    area.setSelectionRange(0, 0); // the first line is the one to see
    area.scrollTop = 0;
  };
  item("Copy link", () => {
    const hash = toHash(app.slim(app.state));
    if (!hash) return app.complain("This state is too long for a link; download the file instead.");
    const link = transport.host === "page" ? location.href.split(/[?#]/)[0] + hash : hash;
    return present("Link to this state", link, "It opens in this page, and with: hardmax play \"LINK\"");
  });
  item("Copy as Python", () => asker.ask("python", { ask: "python", state: app.state }, ({ lines }) => present("The same in Python", `${lines.join("\n")}\n`, "These lines compute what the page shows.")));
  item("Download file", () => asker.ask("file", { ask: "file", state: app.state }, ({ name, content, command }) => {
    const link = make("a", { download: name, href: URL.createObjectURL(new Blob([content], { type: "text/plain" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    app.say(`saved ${name}; read it with ${command}`);
  }));
  for (const kind of ["svg", "png"]) item(`Save picture (${kind.toUpperCase()})`, () => savePicture(app.stage(), app.theme, kind));
  const chooser = make("input", { type: "file", accept: ".json,.txt,.csv", hidden: true, "aria-label": "Open a file" });
  chooser.addEventListener("change", async () => {
    const [file] = chooser.files;
    if (!file) return;
    if (file.size > 4e6) { app.complain(`A file must have at most 4,000,000 bytes, got ${file.size.toLocaleString("en-US")}.`); return; }
    const state = fileState(file.name, await file.text());
    if (typeof state === "string") app.complain(state);
    else jump(state);
    chooser.value = "";
  });
  item("Open file …", () => chooser.click());
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.childNodes], k = items.indexOf(document.activeElement);
    if (event.key === "Escape") { open(false); button.focus(); }
    else if (event.key === "ArrowDown") items[(k + 1) % items.length].focus();
    else if (event.key === "ArrowUp") items[(k + items.length - 1) % items.length].focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("pointerdown", (event) => { if (!menu.hidden && !menu.contains(event.target) && event.target !== button) open(false); });
  return { root: make("div", { class: "hmx-share-box" }, button, menu, dialog, chooser) };
}

// The state that a chosen file holds, or a sentence that gives the reason why it holds none.
function fileState(name, content) {
  if (name.endsWith(".txt")) return { scene: "sentences", sentences: content.split(/\r?\n/).filter((line) => line.trim()), prompt: "" };
  if (name.endsWith(".csv")) {
    const texts = readTexts(content);
    return texts.length ? { scene: "words", texts, epochs: 50, rate: 0.01, least: 2 } : `${name} must have lines of a text and a label (1 or -1), got none.`;
  }
  try {
    const { keys, scores, loss } = JSON.parse(content);
    const all = keys.flat(2).map(Math.abs);
    if (!keys.every((own) => own.every((key) => key.length === 2))) return `${name} must have keys in 2 dimensions; hardmax solve reads others.`;
    const span = Math.max(...all) < 2.6 ? 3.2 : Number((1.25 * Math.max(...all)).toPrecision(3));
    const state = completed({ scene: "plane", problem: { keys, scores, loss: loss || "logistic" }, span });
    if (isState(state) || state !== NO_STATE) return state;
  } catch {
    // said below
  }
  return `${name} must be JSON with keys and scores, as hardmax solve reads it.`;
}
