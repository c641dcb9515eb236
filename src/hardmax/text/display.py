"""How results show themselves: a table in a terminal, HTML in a notebook, one page in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from os import PathLike
from typing import TYPE_CHECKING

from hardmax._lib.files import whole_text
from hardmax._lib.terminal import html, page

if TYPE_CHECKING:
    from rich.console import RenderableType

GREEN, RED = "0, 128, 96", "192, 64, 0"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ overflow-x: auto }} h1 {{ font-size: 1.3rem }} img {{ max-width: 100% }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


class Shown(ABC):
    """What has a table for rich, and shows itself everywhere."""

    @abstractmethod
    def table(self) -> RenderableType:
        """What a terminal is given."""

    def _title(self) -> str:
        return type(self).__name__

    def _body(self) -> str:
        """HTML above the table."""
        return ""

    def __str__(self) -> str:
        return page(self.table()).removesuffix("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._body() + html(self.table())

    def save(self, path: str | PathLike[str]) -> None:
        """Write one page of HTML that needs nothing else."""
        with whole_text(path) as file:
            file.write(_PAGE.format(title=escape(self._title()), body=self._repr_html_()))


def bar(share: float, width: int = 12) -> str:
    """A number from -1 to 1 as a bar of signs.

    >>> bar(0.5), bar(-1.0, 4)
    ('++++++', '----')
    """
    return ("+" if share > 0 else "-") * round(abs(share) * width)


def number(count: float) -> str:
    """A count with commas; weighed ones are not whole."""
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


def marked(words: tuple[tuple[str, float], ...]) -> str:
    """Words as HTML, green where they speak for the class and red where against it."""
    if not words:
        return ""
    most = max(abs(each) for _, each in words) or 1.0
    spans = [
        f'<span style="background: rgba({GREEN if each > 0 else RED}, {abs(each) / most * 0.6:.2f})" '
        f'title="{each:+.3f}">{escape(word)}</span>'
        for word, each in words
    ]
    return f"<p>{' '.join(spans)}</p>"
