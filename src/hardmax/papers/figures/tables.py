"""Tables, from which alone pictures are drawn, and what many pictures share.

A table is named columns of equal length, as in a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    Axes = matplotlib.axes.Axes
    Canvas = matplotlib.figure.Figure
    FigureBase = matplotlib.figure.FigureBase
else:  # matplotlib is imported when a figure is drawn
    Axes = Canvas = FigureBase = Any

Table = Mapping[str, np.ndarray]
Tables = Mapping[str, Table]


def part(table: Table, column: str, value: Any) -> dict[str, np.ndarray]:
    """Return the rows of a table that have a value in a column.

    >>> import numpy as np
    >>> from hardmax.papers.figures.tables import part
    >>> part({"run": np.array([0, 0, 1]), "step": np.array([5, 6, 7])}, "run", 0)["step"].tolist()
    [5, 6]
    """
    rows = np.asarray(table[column]) == value
    return {name: np.asarray(values)[rows] for name, values in table.items()}


def stacked(parts: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Stack tables with the same columns; a single value in one of them fills its column.

    >>> from hardmax.papers.figures.tables import stacked
    >>> stacked([{"run": "a", "step": [5, 6]}, {"run": "b", "step": [7]}])["run"].tolist()
    ['a', 'a', 'b']
    """
    columns: dict[str, list[np.ndarray]] = {}
    for table in parts:
        size = next((len(values) for values in table.values() if np.ndim(values)), 1)
        for name, values in table.items():
            columns.setdefault(name, []).append(np.broadcast_to(values, size))
    return {name: np.concatenate(column) for name, column in columns.items()}


DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.4))


def name_axes(panel: Axes, title: str, x: str, y: str, log: str = "", **others: Any) -> None:
    """Set the title and the labels of a panel; ``log`` names the logarithmic axes ("x", "y" or "xy")."""
    scales = {f"{axis}scale": "log" for axis in log}
    panel.set(**scales, title=title, xlabel=x, ylabel=y, **others)


def draw_lines(
    panel: Axes, table: Table, by: str, x: str, y: str, looks: Mapping[Any, Mapping[str, Any]]
) -> None:
    """Draw a line for each value of the column ``by`` that has a look."""
    for value, look in looks.items():
        rows = part(table, by, value)
        panel.plot(rows[x], rows[y], **look)


def name_lines(panel: Axes, names: Mapping[str, str], top: float, gap: float) -> None:
    """Write the names of lines below each other in their colors, in place of a legend."""
    for height, (text, color) in enumerate(names.items()):
        place = (0.05, top - gap * height)
        panel.text(*place, text, transform=panel.transAxes, fontsize=7, va="top", color=color)
