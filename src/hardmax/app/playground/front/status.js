// A line about the engine while it is not at its best: starting, compiling, or not to be started at all. It is asked
// for every second until the engine is ready, and again after a refusal.

const STATUS_EVERY = { starting: 500, compiling: 1000, failed: 3000 };

function makeStatus(transport, turned) {
  const line = make("p", { class: "hmx-status", role: "status", hidden: true });
  const self = { root: make("div", { class: "hmx-status-place" }, line), state: "", watch, close };
  let timer = null, asking = false, closed = false;

  async function watch() {
    clearTimeout(timer);
    if (asking || closed) return;
    asking = true;
    const reply = await transport.ask({ v: 1, ask: "status" });
    asking = false;
    if (closed) return;
    if (reply.ok) show(reply.answer);
    const pause = STATUS_EVERY[self.state];
    if (pause) timer = setTimeout(watch, pause);
  }

  function show({ state, text }) {
    const sentence = text && `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
    if (line.textContent !== sentence) line.textContent = sentence;
    line.hidden = !text;
    if (state === self.state) return;
    const before = self.state;
    self.state = state;
    turned(state, before);
  }

  function close() {
    closed = true;
    clearTimeout(timer);
  }

  return self;
}
