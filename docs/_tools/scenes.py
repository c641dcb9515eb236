"""Sphinx extension: scenes of the playground inside the pages that discuss them.

A page shows a scene's screenshot, ``img/playground/NAME-desktop.png``. The extension wraps it and adds a
link to that scene of one exported playground, ``_static/playground.html``, which is written when the site is
built. With JavaScript, ``_static/scenes.js`` replaces the picture by the page itself.
"""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes

from hardmax.app.playground.export import export_page
from hardmax.app.playground.links import encoded
from hardmax.app.playground.scenes import tour

EXPORTED = "_static/playground.html"
PICTURE = re.compile(r"(?:.*/)?img/playground/([a-z-]+)-desktop\.png")
# The names of the screenshots, in the order of the tour.
NAMES = ("every-start", "two-basins", "normalised", "adam", "gradient", "sentences")


def embed(app: Any, tree: Any, page: str) -> None:
    """Wrap the screenshots of a page, except on the page about the playground, where they are pictures."""
    if page == "how-to/playground" or app.builder.format != "html":
        return
    scenes = dict(zip(NAMES, tour()["scenes"], strict=True))
    for picture in list(tree.findall(nodes.image)):
        match = PICTURE.fullmatch(picture["uri"])
        if match is None:
            continue
        scene = scenes[match[1]]
        address = posixpath.relpath(EXPORTED, posixpath.dirname(page) or ".") + encoded(scene["state"])
        link = f'<p><a href="{address}">Open the scene “{html.escape(scene["title"])}”</a></p>'
        box = nodes.container(classes=["scene"])
        picture.replace_self(box)
        box += [picture, nodes.raw("", link, format="html")]


def export(app: Any, error: Exception | None) -> None:
    """Write the playground that all scenes open."""
    if error is None and app.builder.format == "html":
        export_page(Path(app.outdir) / EXPORTED)


def setup(app: Any) -> dict[str, bool]:
    """Register both steps and the script."""
    app.add_js_file("scenes.js", loading_method="defer")
    app.connect("doctree-resolved", embed)
    app.connect("build-finished", export)
    return {"parallel_read_safe": True}
