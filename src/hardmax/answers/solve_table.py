"""The table of `solve`: a line for each selection or critical direction, what is globally best, the flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hardmax._lib.terminal import columns
from hardmax.answers.solved import repeated

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.answers.solved import FlowEnd, Solved
    from hardmax.directions.critical import CriticalDirection, CriticalDirections
    from hardmax.directions.enumerate import FeasibleSelection
    from hardmax.limits.decomposition import Decomposition
    from hardmax.margin.solution import MaxMargin
    from hardmax.problem import Problem


ROWS = 40  # more are left to --json
# Letters of a selection, entries of a direction and rows of a support: the first that fits a line is used.
DETAIL = ((40, 4, 6), (40, 4, 3), (24, 4, 2), (24, 3, 2), (16, 2, 2), (12, 2, 1), (8, 1, 1))


def report(found: Solved) -> Text:
    """Everything for standard output."""
    parts = [_head(found), *_copies(found.problem)]
    if found.selections:
        parts.append(_table(found.selections))
    if len(found.selections) > ROWS:
        parts.append(Text(f"{len(found.selections) - ROWS} more: see them with --json"))
    parts += [_global(tokens, each) for tokens, each in found.best[:ROWS]]
    if found.decomposition is not None:
        parts.append(_split(found.decomposition))
    if found.flow is not None:
        parts.append(_flow(found.flow))
    if found.critical is not None:
        parts.append(_critical(found.critical))
    return Text("\n").join(parts)


def _head(found: Solved) -> Text:
    problem = found.problem
    sizes = sorted(set(problem.sizes.tolist()))
    tokens = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    attract = sum(each.locally_optimal is True for each in found.selections)
    d = "x".join(map(str, problem.shape))
    text = Text(f"{found.name}: n = {problem.n} inputs, T = {tokens} tokens each, d = {d}\n")
    if found.norm_name != "l2":
        text.append(f"p is shortest in the norm {found.norm_name}, and margins are in this norm\n")
    count = f"feasible selections: {found.found}, of which attract: {attract} ({found.qps} problems solved)"
    if found.cut is None:
        return text.append(count)
    reasons = {
        "limit": "the limit was reached; raise --limit",
        "seconds": "the time was over; raise --seconds",
        "undecided": f"{len(found.undecided)} selections are too large to decide exactly",
        "interrupted": "interrupted",
    }
    return text.append(f"incomplete, {reasons[found.cut]}. So far: {count}", style="bold")


def _copies(problem: Problem) -> list[Text]:
    """What stands several times, if anything does."""
    several = [f"({i}, {t}) {count} times" for (i, t), count in repeated(problem)]
    more = f" and {len(several) - 8} more" if len(several) > 8 else ""
    return (
        [Text(f"repeated tokens (i, t), each one token: {', '.join(several[:8])}{more}")] if several else []
    )


def _table(listed: Sequence[FeasibleSelection]) -> Text:
    """Aligned columns, with as much of selection, direction and support as a line holds."""
    names = ["#", "selection", "direction", "margin", "attracts", "proof", "support (i, t)"]
    for detail in DETAIL:
        lines = [_line(k, found, *detail) for k, found in enumerate(listed[:ROWS])]
        widths = [max(len(cell) for cell in column) for column in zip(names, *lines, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= columns():
            break
    table = Text()
    for cells in (names, *lines):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        style = "bold" if cells is names else "green" if cells[4].startswith("yes") else ""
        table.append("  ".join(padded).rstrip(), style=style)
        table.append("" if cells is lines[-1] else "\n")
    return table


def _line(k: int, found: FeasibleSelection, letters: int, numbers: int, pairs: int) -> list[str]:
    best = found.max_margin
    attracts = {"strong": "yes"}.get(found.word, found.word)
    return [
        str(k),
        _tokens(found.selection, letters),
        _vector(found.direction, numbers),
        f"{best.margin:.6g}",
        attracts + (", best" if found.globally_optimal else ""),
        "exact" if best.certificate == "exact" else f"kkt {best.kkt:.0e}",
        _pairs(best.support, pairs),
    ]


def _global(tokens: tuple[int, ...], best: MaxMargin) -> Text:
    text = Text(f"best-scoring tokens {_tokens(tokens)}: ")
    if best.is_feasible:
        return text.append(f"feasible, margin {best.margin:.6g}")
    if best.farkas is None:
        return text.append("undecided", style="bold")
    used = [(best.constraints.label(j), w) for j, w in enumerate(best.farkas.tolist()) if w]
    rows = ", ".join(f"{w:.4g} of ({i}, {t})" for (i, t), w in used[:8]) + (", ..." if len(used) > 8 else "")
    return text.append(f"infeasible, these rows cancel: {rows}")


def _split(found: Decomposition) -> Text:
    """What training does where the best-scoring tokens cannot all be selected."""
    where = "that keeps to them" if found.is_local else "from any start"
    text = Text(f"their rows: {len(found.bound)} bound, {len(found.separable)} separable")
    text.append(f" ({found.status}). Training {where}\n")
    text.append(f"  holds a part of p of dimension {found.S.shape[1]} finite")
    if not found.is_local and found.finite is not None:
        text.append(f": p_fin = {_vector(found.finite.p, 4)}, infimum of the risk {found.finite.risk:.6g}")
    if found.direction is None:
        return text.append("\n  drives nothing to infinity")
    return text.append(f"\n  drives the rest to infinity along {_vector(found.direction, 4)}")


def _flow(flow: FlowEnd) -> Text:
    text = Text(f"{flow.path.method} from {flow.start}: ")
    text.append(f"at log t = {float(flow.path.times[-1]):.6g} |p| = {flow.path.norm:.6g}")
    if flow.selection is not None:
        text.append(f", it selects {_tokens(flow.selection)}")
    if flow.path.event:
        text.append(f", event: {flow.path.event}")
    if flow.nearest is not None:
        text.append(f"; nearest is #{flow.nearest}, 1 - cos = {flow.misalignment:.3g}")
    if flow.status != "complete":
        text.append(f"; {flow.status}")
    return text


def _tokens(selection: Sequence[int], letters: int = 40) -> str:
    text = " ".join(map(str, selection))
    return text if len(text) <= letters else text[: letters - 3] + "..."


def _vector(direction: Any, numbers: int) -> str:
    if direction is None or not all(map(math.isfinite, direction)):
        return "none"
    shown = " ".join(f"{x:+.4f}" for x in direction[:numbers])
    return shown if len(direction) <= numbers else shown + " ..."


def _pairs(support: Sequence[Any], most: int) -> str:
    shown = " ".join(f"({i}, {t})" for i, t in support[:most])
    return shown if len(support) <= most else f"{shown} and {len(support) - most} more"


def _critical(found: CriticalDirections) -> Text:
    """A table of the directions, and what the index theorem says about the finite stationary points."""
    text = Text(f"critical directions at infinity: {len(found.directions)}\n")
    names = ["index", "selection", "direction", "margin", "signed rows (i, t)"]
    lines = [_critical_line(each) for each in found.directions[:ROWS]]
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


def _critical_line(each: CriticalDirection) -> list[str]:
    signs = ["+" if m > 0 else "-" for m in each.multipliers]
    signed = [f"{sign}({i}, {t})" for (i, t), sign in zip(each.rows, signs, strict=True)]
    return [
        str(each.index),
        _tokens(each.selection, 12),
        _vector(each.direction, 3),
        f"{each.margin:.5g}",
        " ".join(signed[:3]) + (f" and {len(signed) - 3} more" if len(signed) > 3 else ""),
    ]
