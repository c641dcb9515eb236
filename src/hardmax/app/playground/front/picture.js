// "Save picture": what a scene shows as one SVG without style sheet, and the same as PNG.

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

// A copy of a drawing that carries the looks which the page's style sheet gave it.
function styled(node) {
  const twin = node.cloneNode(true), from = [node, ...node.querySelectorAll("*")], to = [twin, ...twin.querySelectorAll("*")];
  from.forEach((each, k) => {
    const look = getComputedStyle(each);
    for (const name of LOOKS) to[k].setAttribute(name, look.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-label"]) to[k].removeAttribute(name);
  });
  return twin;
}

function pictureOf(root, theme) {
  const parts = [...root.querySelectorAll("canvas, svg")].filter((each) => each.clientWidth > 90 && !each.closest("button, details"));
  const boxes = parts.map((each) => each.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left)), top = Math.min(...boxes.map((box) => box.top));
  const width = Math.max(...boxes.map((box) => box.right)) - left, height = Math.max(...boxes.map((box) => box.bottom)) - top;
  const all = draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` }, draw("rect", { width, height, fill: theme === "dark" ? "#14161c" : "#ffffff" }));
  parts.forEach((each, k) => {
    const place = { x: boxes[k].left - left, y: boxes[k].top - top, width: boxes[k].width, height: boxes[k].height };
    if (each.tagName.toLowerCase() === "canvas") all.append(draw("image", { ...place, href: each.toDataURL("image/png") }));
    else all.append(set(styled(each), place));
  });
  return { text: new XMLSerializer().serializeToString(all), width, height };
}

function download(name, blob) {
  const link = make("a", { download: name, href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function savePicture(root, theme, kind) {
  const { text, width, height } = pictureOf(root, theme);
  if (kind === "svg") { download("hardmax.svg", new Blob([text], { type: "image/svg+xml" })); return; }
  const image = new Image();
  image.onload = () => {
    const canvas = make("canvas", { width: Math.round(2 * width), height: Math.round(2 * height) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download("hardmax.png", blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}
