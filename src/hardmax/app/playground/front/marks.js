// Colors and shapes. Inputs have a color and a shape, directions a letter and a tint, optimizers a color.

const INPUTS = {
  light: ["#3355c9", "#d9730d", "#0f8a6d", "#b03a8c", "#7a5c1e", "#5a6372", "#c23b3b", "#3b8fc2"],
  dark: ["#8fa6ff", "#ffab57", "#4fd1ae", "#f08fd0", "#d9b65f", "#aab4c4", "#ff8f8f", "#7cc8f5"],
};
const TINTS = {
  light: ["#8ec3b4", "#f0c98a", "#b9b4e6", "#f2aeb2", "#a9cdea", "#d6d08f", "#d9b8e0", "#b7d6a0"],
  dark: ["#2f7466", "#7a673c", "#57519a", "#87474f", "#2f6690", "#6f6b32", "#744a80", "#4d7338"],
};
const RAYS = {
  light: ["#12705b", "#a86a06", "#5146b0", "#b23842", "#1f6aa5", "#7c7410", "#86409a", "#4a7f21"],
  dark: ["#66d6b9", "#f3bd62", "#b3aaff", "#ff9aa1", "#80c2f7", "#dcd35c", "#d99ced", "#a5dd78"],
};
const RULES = [
  { name: "flow", label: "Gradient flow", light: "#1b1f27", dark: "#f3f4f7", dash: [] },
  { name: "gd", label: "Gradient descent", light: "#1769d2", dark: "#6fb1ff", dash: [] },
  { name: "normalized", label: "Normalized", light: "#00856a", dark: "#3ddbb2", dash: [7, 4] },
  { name: "sign", label: "Sign", light: "#a3359a", dark: "#f28bea", dash: [2, 4] },
  { name: "adam", label: "Adam", light: "#d13b1a", dark: "#ff8a66", dash: [] },
  { name: "momentum", label: "Momentum", light: "#5f6b00", dark: "#d3e05a", dash: [10, 3], rare: true },
  { name: "signum", label: "Signum", light: "#7446c4", dark: "#bfa2ff", dash: [4, 3], rare: true },
  { name: "rmsprop", label: "RMSprop", light: "#a05a10", dark: "#f0b573", dash: [6, 3, 2, 3], rare: true },
  { name: "coordinate", label: "Coordinate", light: "#0a7d93", dark: "#67d7ec", dash: [], rare: true },
  { name: "mirror", label: "Mirror, l3", light: "#8c3550", dark: "#f29ab3", dash: [1, 3], rare: true },
];
const ruleNamed = (name) => RULES.find((rule) => rule.name === name);
const letter = (k) => String.fromCharCode(65 + (k % 26)) + (k >= 26 ? Math.floor(k / 26) : "");
const cycle = (list, k) => list[k % list.length];

// The outline of input i's mark with radius r.
function outline(i, r) {
  const around = (corners, turn, radius) =>
    Array.from({ length: corners }, (_, k) => {
      const angle = turn + (2 * Math.PI * k) / corners;
      return `${(radius * Math.cos(angle)).toFixed(2)},${(radius * Math.sin(angle)).toFixed(2)}`;
    }).join("L");
  const kind = i % 5;
  if (kind === 0) return `M${-r},0A${r},${r} 0 1 1 ${r},0A${r},${r} 0 1 1 ${-r},0Z`;
  if (kind === 1) return `M${around(4, Math.PI / 4, r * 1.22)}Z`;
  if (kind === 2) return `M${around(3, -Math.PI / 2, r * 1.36)}Z`;
  if (kind === 3) return `M${around(4, 0, r * 1.3)}Z`;
  return `M${around(6, 0, r * 1.12)}Z`;
}

function inputMark(i, theme, size = 14) {
  const svg = draw("svg", { viewBox: "-10 -10 20 20", width: size, height: size, "aria-hidden": "true" });
  svg.append(draw("path", { d: outline(i, 6.5), fill: cycle(INPUTS[theme], i) }));
  return svg;
}
