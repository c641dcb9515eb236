"""Results that show themselves in a notebook: small tables as HTML, pictures as PNG, nothing to switch on."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._lib.files import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 20  # of a table; what is left out is counted
PICTURES = (".svg", ".png", ".pdf")
DOTS = 120  # per inch, for a screen


class Pictured:
    """A display that a notebook shows as its picture; what inherits from it has ``plot``."""

    def plot(self) -> Figure:
        """Draw the matplotlib figure."""
        raise NotImplementedError

    def _repr_png_(self) -> bytes:
        return png(self.plot())


def picture(size: tuple[float, float]) -> Figure:
    """Return an empty matplotlib figure, size in inches, which a notebook shows without any setting."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            return png(self)

    return Picture(figsize=size, layout="constrained")


def png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=DOTS)
    return target.getvalue()


def image(figure: Figure) -> str:
    """Return a figure as HTML that contains the picture."""
    return f'<img src="data:image/png;base64,{base64.b64encode(png(figure)).decode()}">'


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure as .svg, .png or .pdf, whole or not at all; the same picture is the same file."""
    if path.suffix not in PICTURES:
        raise ValueError(f"{path}: a picture must be a .svg, .png or .pdf file; give it such a name")
    from matplotlib import rc_context

    dated = "CreationDate" if path.suffix == ".pdf" else "Date"
    with rc_context({"svg.hashsalt": "hardmax"}), whole(path) as file:
        metadata = None if path.suffix == ".png" else {dated: None}
        figure.savefig(file, format=path.suffix[1:], dpi=200, metadata=metadata)


def table(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a title and a table as HTML; numbers with six digits, everything escaped."""
    lines = [[_cell(value) for value in row] for row in rows]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines[:ROWS]
    )
    more = f"<i>and {len(lines) - ROWS:,} rows more</i>" if len(lines) > ROWS else ""
    return f"<b>{escape(title)}</b><table><tr>{head}</tr>{body}</table>{more}"


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
