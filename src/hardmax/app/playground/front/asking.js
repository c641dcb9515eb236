// Questions to the engine. The drawing never waits: each lane has one question under way, and of those that wait
// only the newest is kept. An answer from before a change of scene or an undo is dropped.

export function pageTransport() {
  const token = new URLSearchParams(location.search).get("t") || "";
  const key = { "X-Hardmax-Token": token };
  const page = Math.random().toString(36).slice(2);
  return {
    host: "page",
    async ask(message) {
      const headers = { ...key, "X-Hardmax-Page": page, "Content-Type": "application/json" };
      try {
        const got = await fetch("ask", { method: "POST", headers, body: JSON.stringify(message) });
        return await got.json();
      } catch {
        return { ok: false, error: "the engine does not answer: is hardmax play still running?" };
      }
    },
    // What the page opens with where that is too long for its address; null if there is no such state.
    async opening() {
      const got = await fetch("opening", { headers: key });
      return got.ok ? got.json() : null;
    },
  };
}

function widgetTransport(model) {
  const waiting = new Map();
  let count = 0;
  model.on("msg:custom", (content) => {
    const done = waiting.get(content.id);
    waiting.delete(content.id);
    if (done) done(JSON.parse(content.reply));
  });
  return {
    host: "notebook",
    initial: model.get("state"),
    ask(message) {
      count += 1;
      const id = `${Date.now()}-${count}`;
      return new Promise((done) => {
        waiting.set(id, done);
        model.send({ id, raw: JSON.stringify(message) });
      });
    },
    tell(state) {
      model.set("state", state);
      model.save_changes();
    },
    listen(heard) {
      model.on("change:state", () => heard(model.get("state")));
    },
  };
}

// What answers a drag goes first, on a separate road; what takes longer shares another, one after the other, so
// that a page keeps two engines busy at most and the quick one is free when the next question comes.
const SLOW = ["train", "words", "learn", "needles", "field", "train-others"];

function makeAsker(transport, complain, changed) {
  const lanes = new Map(), busy = new Set();
  let age = 0;
  const roadOf = (name) => (SLOW.includes(name) ? "slow" : name);
  const isIdle = () => !busy.size && [...lanes.values()].every((waiting) => !waiting);

  async function run(name) {
    const { question, heard, born, began } = lanes.get(name), road = roadOf(name);
    lanes.set(name, null);
    busy.add(road);
    const reply = await transport.ask({ v: 1, ...question });
    busy.delete(road);
    if (born === age) {
      if (reply.ok) heard(reply.answer, { clock: performance.now() - began, cpu: reply.cpu });
      else complain(reply.error);
    }
    const next = (road === "slow" ? turned(name) : [name]).find((each) => lanes.get(each));
    if (next && !busy.has(road)) run(next);
    changed(isIdle());
  }

  // the lanes of the slow road, those after this one first: none waits forever
  function turned(name) {
    const at = SLOW.indexOf(name) + 1;
    return [...SLOW.slice(at), ...SLOW.slice(0, at)];
  }

  return {
    // Answers to questions asked before this are no longer wanted.
    forget() {
      age += 1;
      for (const name of lanes.keys()) lanes.set(name, null);
    },
    ask(name, question, heard) {
      const waiting = lanes.get(name);
      lanes.set(name, { question, heard, born: age, began: waiting ? waiting.began : performance.now() });
      if (!busy.has(roadOf(name))) run(name);
      changed(false);
    },
  };
}
