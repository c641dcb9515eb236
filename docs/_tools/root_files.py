"""Sphinx extension: pages that include files of the project's root, with links that still lead somewhere."""

import posixpath
import re
from typing import Any

# Files and folders outside docs/ that have a page here.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "citing.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "start.md",
    "SECURITY.md": "security.md",
    "examples/tutorials": "tutorials/index.rst",
}

LINK = re.compile(r"(\]\()([^)#:\s]+)(?=[)#])")


def lead_from_docs(text: str, folder: str) -> str:
    """The text with its relative links, written in a folder of the project, as seen from docs/.

    >>> lead_from_docs("[a](docs/files.md#npz) and [b](CITATION.cff), [c](examples/x.json)", "")
    '[a](files.md#npz) and [b](citing.md), [c](../examples/x.json)'
    >>> lead_from_docs("[a](files.md) and [b](../CITATION.cff)", "docs")
    '[a](files.md) and [b](citing.md)'
    """

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] + (PAGES.get(target) or posixpath.relpath(target, "docs"))

    return LINK.sub(moved, text)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx to move the links of included files and of the pages beside conf.py."""

    def included(app: Any, path: Any, parent: str, text: list[str]) -> None:
        if path.name in PAGES:
            text[0] = lead_from_docs(text[0], "")

    def read(app: Any, page: str, text: list[str]) -> None:
        if "/" not in page:
            text[0] = lead_from_docs(text[0], "docs")

    app.connect("include-read", included)
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
