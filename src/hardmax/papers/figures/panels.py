"""The common parts of pictures: names of axes, lines of a table, and a legend made of colored words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardmax.papers.figures.figure import Axes
from hardmax.papers.figures.tables import Table, part

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
