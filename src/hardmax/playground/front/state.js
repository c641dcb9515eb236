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

function fromHash(hash) {
  try {
    const text = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    const state = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    return state && ["plane", "sentences", "words"].includes(state.scene) ? state : null;
  } catch {
    return null;
  }
}
