// The state of the page, its past and its future; and the state as the end of a link.

const MOST_UNDONE = 200;
const LONGEST_LINK = 60000;

function makeStore(first, changed) {
  let state = first;
  const past = [], future = [];
  let held = null; // the state before a gesture that is not over
  return {
    get state() {
      return state;
    },
    // A change; those of one gesture (a drag) become one step of undo when it ends.
    change(next, { during = false } = {}) {
      if (during && held === null) held = state;
      if (!during) {
        if (!same(held ?? state, next)) {
          past.push(held ?? state);
          if (past.length > MOST_UNDONE) past.shift();
          future.length = 0;
        }
        held = null;
      }
      const before = state;
      state = next;
      changed(state, before, during);
    },
    undo() {
      if (!past.length) return;
      future.push(state);
      const before = state;
      state = past.pop();
      changed(state, before, false, true);
    },
    redo() {
      if (!future.length) return;
      past.push(state);
      const before = state;
      state = future.pop();
      changed(state, before, false, true);
    },
    get canUndo() {
      return past.length > 0;
    },
    get canRedo() {
      return future.length > 0;
    },
  };
}

function toHash(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  const hash = "#" + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return hash.length > LONGEST_LINK ? "" : hash;
}

// The state in a link, or a sentence that gives the reason why it holds none.
function fromHash(hash) {
  if (hash.length > LONGEST_LINK) return TOO_LARGE;
  try {
    const text = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    return completed(JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)))));
  } catch {
    return NO_STATE;
  }
}

// A state from elsewhere (a link, a file, a cell) with the usual settings where it has none, or a sentence that
// gives the reason why it cannot be shown.
const USUAL = { norm: "l2", rules: ["flow"], rate: 0.1, starts: [[0, 0]], span: 4, field: "flow", needles: false };
const NAMES = { loss: ["logistic", "exponential", "correlation"], norm: ["l2", "l1", "l1.5", "l3", "linf"] };
const MOST = { inputs: 24, tokens: 240, size: 1e6 };
const NO_STATE = "This link does not hold a state of the playground, or is damaged: copy it again.";
const TOO_LARGE = `This state is too large: the page takes ${MOST.inputs} inputs, ${MOST.tokens} tokens and numbers up to a million.`;
const OTHER_VERSION = "This state of the playground is from another version of hardmax.";

function completed(state) {
  const all = (list, good) => Array.isArray(list) && list.every(good);
  const some = (list, good) => all(list, good) && list.length > 0;
  const text = (x) => typeof x === "string", pair = (x) => all(x, Number.isFinite) && x.length === 2;
  if (!state || !text(state.scene)) return NO_STATE;
  if (state.scene === "sentences") {
    const full = { prompt: "", ...state };
    return all(full.sentences, text) && text(full.prompt) ? full : NO_STATE;
  }
  if (state.scene === "words") {
    const full = { texts: null, epochs: 50, rate: 0.01, least: 2, ...state };
    const listed = !full.texts || some(full.texts, (each) => all(each, (x) => text(x) || Number.isFinite(x)) && text(each[0]));
    return listed && [full.epochs, full.rate, full.least].every(Number.isFinite) ? full : NO_STATE;
  }
  if (state.scene !== "plane") return OTHER_VERSION;
  if (!state.problem) return NO_STATE;
  const full = { ...USUAL, ...state }, { keys, scores, loss = "logistic" } = state.problem;
  const shaped = some(keys, (own) => some(own, pair)) && some(scores, (own) => some(own, Number.isFinite)) && same(keys.map((own) => own.length), scores.map((own) => own.length));
  const settled = some(full.starts, pair) && Number.isFinite(full.span) && full.span > 0 && Number.isFinite(full.rate) && full.rate > 0 && (full.field === null || text(full.field));
  if (!shaped || !settled) return NO_STATE;
  if (keys.length > MOST.inputs || keys.flat().length > MOST.tokens || [...keys.flat(2), ...scores.flat()].some((x) => Math.abs(x) > MOST.size)) return TOO_LARGE;
  return some(full.rules, ruleNamed) && NAMES.norm.includes(full.norm) && NAMES.loss.includes(loss) ? full : OTHER_VERSION;
}
