"""The front end as one file: parts written by hand, joined in order, without a build step."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_CORE = ("base", "engine", "recorded", "picture", "asking", "status", "state", "marks")
_SCENES = ("plane_view", "plane_panels", "plane", "sentences", "words", "mount")
PARTS = tuple(f"{name}.js" for name in (*_CORE, *_SCENES))


@cache
def _content(path: str) -> str:
    return files("hardmax.app.playground").joinpath(path).read_text(encoding="utf-8")


def template(name: str) -> str:
    """Return a file of the folder ``templates``."""
    return _content(f"templates/{name}")


def script() -> str:
    """Return the module that exports ``mount(el, transport)``."""
    return "\n".join(_content(f"front/{part}") for part in PARTS)


def style() -> str:
    """Return the style sheet; every rule is below one class."""
    return _content("front/style.css")


def document(head: str, scripts: str) -> str:
    """Return the page, with these elements at the end of its head and of its body."""
    return template("page.html").format(head=head, scripts=scripts)
