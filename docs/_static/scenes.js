// Replace the pictures of scenes by the playground itself.
for (const scene of document.querySelectorAll(".scene")) {
  const picture = scene.querySelector("img"), link = scene.querySelector("a[href*='playground.html#']");
  if (!picture || !link) continue;
  const frame = document.createElement("iframe");
  frame.src = link.href;
  frame.title = picture.alt;
  frame.loading = "lazy";
  picture.replaceWith(frame);
}
