"""The front end as one file: parts written by hand, joined in order, without a build step."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

PARTS = (
    "base.js",
    "engine.js",
    "recorded.js",
    "picture.js",
    "asking.js",
    "status.js",
    "state.js",
    "marks.js",
    "plane_view.js",
    "plane_panels.js",
    "plane.js",
    "sentences.js",
    "words.js",
    "mount.js",
)

_WIDGET = """
export default {
  render({ model, el }) {
    return mount(el, widgetTransport(model));
  },
};
"""


@cache
def script() -> str:
    """Return the module that exports ``mount(el, transport)``."""
    folder = files("hardmax.app.playground") / "front"
    return "\n".join((folder / part).read_text(encoding="utf-8") for part in PARTS)


def widget_script() -> str:
    """Return the module for anywidget, which asks for a default export."""
    return script() + _WIDGET


@cache
def style() -> str:
    """Return the style sheet, all of it below one class."""
    return (files("hardmax.app.playground") / "front" / "style.css").read_text(encoding="utf-8")


_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>hardmax playground</title>
<link rel="icon" href="data:,">
{head}
</head>
<body class="hmx-page">
<main id="playground"></main>
<noscript>The playground needs JavaScript, which this browser has switched off.</noscript>
{scripts}
</body>
</html>
"""


def document(head: str, scripts: str) -> str:
    """Return the page, with these elements at the end of its head and of its body."""
    return _DOCUMENT.format(head=head, scripts=scripts)


PAGE = document('<link rel="stylesheet" href="style.css">', '<script type="module" src="start.js"></script>')

START = """import { mount, pageTransport } from "./front.js";
mount(document.getElementById("playground"), pageTransport());
"""
