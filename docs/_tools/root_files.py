"""Sphinx extension: pages that include files of the project's root, with links that still lead somewhere."""

import posixpath
import re
from typing import Any

# Files and folders outside docs/ that have a page here.
PAGES = {
    "CHANGELOG.md": "docs/project/changelog.md",
    "CITATION.cff": "docs/project/citing.md",
    "CONTRIBUTING.md": "docs/project/contributing.md",
    "README.md": "docs/index.md",
    "SECURITY.md": "docs/project/security.md",
    "examples/tutorials": "docs/tutorials/index.rst",
}

LINK = re.compile(r"(\]\()([^)#:\s]+)(?=[)#])")


def moved_links(text: str, written_in: str, shown_in: str) -> str:
    """Return a text with its relative links, written in one folder, as seen from another.

    >>> moved_links("[a](docs/index.md#b) and [c](CITATION.cff), [d](examples/x.json)", "", "docs/project")
    '[a](../index.md#b) and [c](citing.md), [d](../../examples/x.json)'
    >>> moved_links("[a](files.md) and [b](../../CITATION.cff)", "docs/reference", "docs/reference")
    '[a](files.md) and [b](../project/citing.md)'
    """

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(written_in, link[2]))
        return link[1] + posixpath.relpath(PAGES.get(target, target), shown_in)

    return LINK.sub(moved, text)


def setup(app: Any) -> dict[str, bool]:
    """Register the change of links in included files and in pages."""

    def included(app: Any, path: Any, parent: str, text: list[str]) -> None:
        if path.name in PAGES:  # MyST passes only the last part of the name of the page
            text[0] = moved_links(text[0], "", posixpath.dirname(PAGES[path.name]))

    def read(app: Any, page: str, text: list[str]) -> None:
        folder = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page)))
        text[0] = moved_links(text[0], folder, folder)

    app.connect("include-read", included)
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
