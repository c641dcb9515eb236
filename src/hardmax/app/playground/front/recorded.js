// A page without Python: answers that were recorded when the page was written, and the planar engine for the rest.

const NOT_HERE = "This page has recorded answers only; to compute this one, install hardmax and run hardmax play";

// The record of a page, from the element that holds it: JSON, compressed, in base64.
export async function readRecord(element) {
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

export function recordedTransport(record) {
  const answers = new Map(record.answers.map(([question, answer]) => [keyOf(question), answer]));
  const engine = planarEngine();
  let order = [], worker = null, count = 0;
  const waiting = new Map();

  function inWorker(question) {
    if (!worker) {
      const source = `const engine = (${planarEngine})(); onmessage = ({ data }) => postMessage([data[0], engine.field(data[1])]);`;
      worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => { waiting.get(data[0])(data[1]); waiting.delete(data[0]); };
    }
    count += 1;
    return new Promise((done) => { waiting.set(count, done); worker.postMessage([count, question]); });
  }

  function recorded(question) {
    if (question.ask === "train") {
      const parts = question.rules.map((rule) => answers.get(keyOf({ ...question, rules: [rule] })));
      return parts.every(Boolean) ? { runs: parts.flatMap((part) => part.runs) } : null;
    }
    const { level, known, ...rest } = question; // of basins the finest are recorded
    return answers.get(keyOf(question.ask === "field" ? rest : question)) || null;
  }

  async function computed(question) {
    const refusal = ["solve", "train", "field"].includes(question.ask) ? engine.refusal(question) : "";
    if (refusal !== null) throw new Error(refusal ? `${NOT_HERE} (${refusal})` : NOT_HERE);
    if (question.ask === "field") return inWorker({ ...question, order });
    const answer = engine[question.ask]({ ...question, order });
    if (question.ask === "train" && !answer.runs.length) throw new Error(`${NOT_HERE} (${answer.left.join(", ")})`);
    return answer;
  }

  return {
    host: "page",
    initial: record.state,
    isFile: true,
    async ask({ v, ...question }) {
      if (question.ask === "status") return { ok: true, answer: { state: "ready", text: "" } };
      if (question.ask === "file" && question.state.scene === "plane") {
        return { ok: true, answer: { name: "playground.json", content: `${JSON.stringify(question.state.problem)}\n`, command: "hardmax solve playground.json --flow" } };
      }
      try {
        const answer = recorded(question) || await computed(question);
        if (question.ask === "solve") order = answer.selections.map((each) => each.selection.join());
        return { ok: true, answer, cpu: 0 };
      } catch (error) {
        return { ok: false, error: error.message };
      }
    },
  };
}
