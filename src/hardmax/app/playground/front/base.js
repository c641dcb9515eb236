// Small helpers: elements, numbers as people read them, time on a slider. Users' text only ever becomes textContent.

const SVG = "http://www.w3.org/2000/svg";

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (name === "class") node.setAttribute("class", value);
    else if (value === false || value === null || value === undefined) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

function make(tag, attributes, ...children) {
  const node = set(document.createElement(tag), attributes);
  node.append(...children.filter((each) => each !== null && each !== undefined));
  return node;
}

function draw(tag, attributes, ...children) {
  const node = set(document.createElementNS(SVG, tag), attributes);
  node.append(...children);
  return node;
}

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const copy = (value) => JSON.parse(JSON.stringify(value));
const same = (a, b) => keyOf(a) === keyOf(b);

// A value as text, the same for objects whose keys are in another order.
function keyOf(value) {
  if (Array.isArray(value)) return `[${value.map(keyOf).join()}]`;
  if (value && typeof value === "object") return `{${Object.keys(value).sort().map((name) => `${name}:${keyOf(value[name])}`).join()}}`;
  return JSON.stringify(value);
}

function digits(x, most = 3) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(most)));
  return text.replace("e+", "e").replace("-", "−").replace("e-", "e−");
}

// Time runs in log t: the first part of the slider evenly to t = e^16, the rest ever faster to t = e^1,000,000.
const FIRST_LOG = -4, BEND_LOG = 16, LAST_LOG = 1e6, BEND = 0.62;

function logTimeAt(u) {
  if (u <= BEND) return FIRST_LOG + (BEND_LOG - FIRST_LOG) * (u / BEND);
  return u >= 1 ? LAST_LOG : BEND_LOG * (LAST_LOG / BEND_LOG) ** ((u - BEND) / (1 - BEND));
}

function sliderAt(log) {
  if (log <= BEND_LOG) return clamp(((log - FIRST_LOG) / (BEND_LOG - FIRST_LOG)) * BEND, 0, 1);
  return clamp(BEND + ((1 - BEND) * Math.log(log / BEND_LOG)) / Math.log(LAST_LOG / BEND_LOG), 0, 1);
}

function powerOfE(log) {
  if (Math.abs(log) < 4.6) return digits(Math.exp(log), 2);
  const size = Math.abs(log) < 100 ? Math.abs(log).toFixed(1) : Math.round(Math.abs(log)).toLocaleString("en-US");
  return `e^${log < 0 ? "−" : ""}${size}`;
}

const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
