"""What a sweep says to a reader: a line for each cell, and how to run a failed trial alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hardmax._lib.terminal import columns

if TYPE_CHECKING:
    from hardmax.trials.results import Sweep
    from hardmax.trials.summary import Proportion, Spread

CELLS = 60  # lines of the table
FAILURES = 5  # failed trials that are shown


def failures_of(found: Sweep, command: str | None = None) -> list[dict[str, Any]]:
    """The failed trials, each with the command that runs it alone."""
    return [
        {
            "cell": each.cell,
            "trial": each.trial,
            "seed": each.seed,
            "parameters": each.parameters,
            "error": each.error,
            "command": each.command if command is None else f"{command} --trial {each.cell}:{each.trial}",
        }
        for each in found.failures()
    ]


def summary_of(found: Sweep, of: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Every cell with its results: those named, or all that are not texts."""
    from hardmax.trials.export import columns as columns_of

    shared = (*found.parameters, "trial", "seed", "status", "error")
    own = {name: kinds for name, kinds in columns_of(found).items() if name not in shared}
    for name in of or ():
        if own and name not in own:
            raise ValueError(f"--of must be a result of the trials ({', '.join(own)}), got {name!r}")
    chosen = of or [name for name, kinds in own.items() if kinds & {bool, int, float}]
    return [
        {
            "parameters": cell.parameters,
            "done": cell.done,
            "failed": cell.failed,
            "results": {name: _numbers(value) for name, value in cell.of.items()},
        }
        for cell in found.summary(of=chosen)
    ]


def _numbers(value: Proportion | Spread) -> dict[str, Any]:
    from hardmax.trials.summary import Proportion

    if isinstance(value, Proportion):
        low, high = (f"{100 * end:.{int(value.n >= 1000)}f}" for end in value.interval)
        text = f"{value.k} of {value.n} ({low}-{high}%)"
        return {"k": value.k, "n": value.n, "interval": value.interval, "text": text}
    status = "ok" if math.isfinite(value.mean) else "no numbers" if value.n == 0 else "infinite numbers"
    return {
        "n": value.n,
        "mean": value.mean,
        "standard_error": value.standard_error,
        "quantiles": {f"{q:g}": x for q, x in value.quantiles.items()},
        "status": "one number" if value.n == 1 and status == "ok" else status,
        "text": f"{value.mean:.4g} ± {value.standard_error:.2g}" if value.n > 1 else f"{value.mean:.4g}",
    }


def told(
    cells: Sequence[dict[str, Any]],
    failures: Sequence[dict[str, Any]],
    varying: Sequence[str],
    of: Sequence[str] | None = None,
) -> list[str]:
    """Lines for a reader: a table of cells with the parameters that vary, then the failures."""
    lines = _table(cells, varying, of)
    for each in failures[:FAILURES]:
        lines += [f"failed: {each['error']}", f"  alone: {each['command']}"]
    if len(failures) > FAILURES:
        lines.append(f"and {len(failures) - FAILURES} failures more; --json lists them all")
    return lines


def _side_by_side(rows: list[list[str]], fixed: int) -> list[str]:
    """Aligned columns; what does not fit a line follows below, again after the first ``fixed`` columns."""
    widths = [2 + max(map(len, column)) for column in zip(*rows, strict=True)]
    room = columns() + 2
    blocks: list[list[int]] = []
    for at in range(fixed, len(widths)):
        if not blocks or sum(widths[k] for k in [*range(fixed), *blocks[-1], at]) > room:
            blocks.append([])
        blocks[-1].append(at)
    lines = []
    for block in blocks or [[]]:
        lines += ["".join(row[k].rjust(widths[k]) for k in [*range(fixed), *block])[2:] for row in rows]
        lines.append("")
    return lines[:-1]


def _table(cells: Sequence[dict[str, Any]], varying: Sequence[str], of: Sequence[str] | None) -> list[str]:
    """A line for each cell: true or false results if there are any and no others are asked for."""
    names = list(dict.fromkeys(name for cell in cells for name in cell["results"]))
    flags = [name for name in names if any("k" in cell["results"].get(name, ()) for cell in cells)]
    shown = names if of or not flags else flags
    rows = [[*varying, "trials", *shown]]
    for cell in cells[:CELLS]:
        results = [cell["results"][name]["text"] if name in cell["results"] else "" for name in shown]
        own = [str(cell["parameters"].get(name, "")) for name in varying]
        rows.append([*own, str(cell["done"] + cell["failed"]), *results])
    lines = _side_by_side(rows, len(varying) + 1) if cells else []
    if len(cells) > CELLS:
        lines.append(f"and {len(cells) - CELLS} cells more; --json and --csv have them all")
    return lines
