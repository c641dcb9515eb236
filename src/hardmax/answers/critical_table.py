"""The directions critical at infinity with their index (B-NEW-4), as `solve` tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.directions.critical import CriticalDirection, CriticalDirections

ROWS = 40  # more are left to --json


def critical_fields(found: CriticalDirections) -> dict[str, Any]:
    """The field `critical` of the JSON."""
    return {
        "status": found.status,
        "degenerate": list(found.degenerate),
        "dimension": found.dimension,
        "sum": found.sum if found.status == "complete" else None,
        "directions": [
            {
                "index": each.index,
                "selection": each.selection,
                "direction": each.direction,
                "margin": each.margin,
                "rows": each.rows,
                "multipliers": [float(m) for m in each.multipliers],
            }
            for each in found.directions
        ],
    }


def critical_text(found: CriticalDirections) -> Text:
    """A table of the directions, and what the index theorem says about the finite stationary points."""
    from rich.text import Text

    text = Text(f"critical directions at infinity: {len(found.directions)}\n")
    names = ["index", "selection", "direction", "margin", "signed rows (i, t)"]
    lines = [_line(each) for each in found.directions[:ROWS]]
    widths = [max(len(cell) for cell in column) for column in zip(names, *lines, strict=True)]
    for cells in (names, *lines) if lines else ():
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        style = "bold" if cells is names else "green" if cells[0] == "0" else ""
        text.append("  ".join(padded).rstrip() + "\n", style)
    if len(found.directions) > ROWS:
        text.append(f"{len(found.directions) - ROWS} more: see them with --json\n")
    return text.append(_verdict(found))


def _verdict(found: CriticalDirections) -> str:
    if found.status == "truncated":
        return f"incomplete after {found.sets} sets of rows; raise --seconds"
    if found.degenerate:
        more = f" (and {len(found.degenerate) - 1} more)" if len(found.degenerate) > 1 else ""
        return f"the index theorem does not apply: {found.degenerate[0]}{more}"
    return (
        f"sum of (-1)^index at infinity: {found.sum}; "
        f"finite stationary points must sum to 1 - {found.sum} = {1 - found.sum}"
    ).replace("- -", "+ ")


def _line(each: CriticalDirection) -> list[str]:
    signs = ["+" if m > 0 else "-" for m in each.multipliers]
    signed = [f"{sign}({i}, {t})" for (i, t), sign in zip(each.rows, signs, strict=True)]
    return [
        str(each.index),
        _short(each.selection, 12),
        " ".join(f"{x:+.4f}" for x in each.direction[:3]) + (" ..." if len(each.direction) > 3 else ""),
        f"{each.margin:.5g}",
        " ".join(signed[:3]) + (f" and {len(signed) - 3} more" if len(signed) > 3 else ""),
    ]


def _short(selection: Sequence[int], most: int) -> str:
    text = " ".join(map(str, selection))
    return text if len(text) <= most else text[: most - 3] + "..."
