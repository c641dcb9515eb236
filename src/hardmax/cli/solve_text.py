"""What `hardmax solve` shows a reader: a table, what is globally best, and where the flow went."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

if TYPE_CHECKING:
    from hardmax.margin.enumerate import Enumeration, FeasibleSelection
    from hardmax.margin.maxmargin import MaxMargin
    from hardmax.problem import Problem

ROWS = 40  # more are left to --json
NUMBERS = 4  # entries of a direction that fit on a line


def report(
    problem: "Problem",
    file: Path,
    search: "Enumeration",
    listed: "Sequence[FeasibleSelection]",
    best: "Sequence[tuple[tuple[int, ...], MaxMargin]]",
    flow: dict[str, Any] | None,
) -> RenderableType:
    """Everything for standard output."""
    parts: list[RenderableType] = [_head(problem, file, search, listed)]
    if listed:
        parts.append(_table(listed))
    if len(listed) > ROWS:
        parts.append(Text(f"{len(listed) - ROWS} more: see them with --json"))
    parts += [_global(tokens, each) for tokens, each in best[:ROWS]]
    if flow is not None:
        parts.append(_flow(flow))
    return Group(*parts)


def _head(
    problem: "Problem", file: Path, search: "Enumeration", listed: "Sequence[FeasibleSelection]"
) -> Text:
    sizes = sorted(set(problem.sizes.tolist()))
    tokens = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    attract = sum(found.locally_optimal is True for found in listed)
    text = Text(f"{file}: n = {problem.n} inputs, T = {tokens} tokens each, d = {problem.d}\n")
    count = f"feasible selections: {search.found}, of which attract: {attract} ({search.qps} problems solved)"
    if search.status == "complete":
        return text.append(count)
    reasons = {
        "limit": "the limit was reached; raise --limit",
        "seconds": "the time was over; raise --seconds",
        "undecided": f"{len(search.undecided)} selections are too large to decide exactly",
        None: "interrupted",
    }
    return text.append(f"incomplete, {reasons[search.reason]}. So far: {count}", style="bold")


def _table(listed: "Sequence[FeasibleSelection]") -> Text:
    """Aligned columns on lines of any length: a narrow terminal wraps them, a pipe gets them whole."""
    names = ["#", "selection", "direction", "margin", "|p|", "attracts", "best", "proof", "support (i, t)"]
    lines = [_line(k, found) for k, found in enumerate(listed[:ROWS])]
    widths = [max(len(cell) for cell in column) for column in zip(names, *lines, strict=True)]
    table = Text()
    for cells in (names, *lines):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        style = "bold" if cells is names else "green" if cells[5] == "yes" else ""
        table.append("  ".join(padded).rstrip(), style=style)
        table.append("" if cells is lines[-1] else "\n")
    return table


def _line(k: int, found: "FeasibleSelection") -> list[str]:
    best = found.max_margin
    return [
        str(k),
        _tokens(found.selection),
        _vector(found.direction),
        f"{best.margin:.6g}",
        f"{best.norm:.6g}",
        "yes" if found.locally_optimal else "no",
        "yes" if found.globally_optimal else "no",
        "exact" if best.certificate == "exact" else f"kkt {best.kkt:.0e}",
        _pairs(best.support),
    ]


def _global(tokens: tuple[int, ...], best: "MaxMargin") -> Text:
    text = Text(f"best-scoring tokens {_tokens(tokens)}: ")
    if best.is_feasible:
        return text.append(f"feasible, margin {best.margin:.6g}")
    if best.farkas is None:
        return text.append("undecided", style="bold")
    used = [(best.constraints.label(j), w) for j, w in enumerate(best.farkas.tolist()) if w]
    rows = ", ".join(f"{w:.4g} of ({i}, {t})" for (i, t), w in used[:8]) + (", ..." if len(used) > 8 else "")
    return text.append(f"infeasible, these rows cancel: {rows}")


def _flow(flow: dict[str, Any]) -> Text:
    text = Text(f"gradient flow from {flow['start']}: ")
    text.append(f"at log t = {flow['log_time']:.6g} |p| = {flow['norm']:.6g}")
    if flow["selection"] is not None:
        text.append(f", it selects {_tokens(flow['selection'])}")
    if flow["event"]:
        text.append(f", event: {flow['event']}")
    if flow["nearest"] is not None:
        text.append(f"; nearest is #{flow['nearest']}, 1 - cos = {flow['misalignment']:.3g}")
    if flow["status"] != "complete":
        text.append(f"; {flow['status']}")
    return text


def _tokens(selection: Sequence[int]) -> str:
    text = " ".join(map(str, selection))
    return text if len(text) <= 40 else text[:37] + "..."


def _vector(direction: Any) -> str:
    if direction is None or not all(map(math.isfinite, direction)):
        return "none"
    shown = " ".join(f"{x:+.4f}" for x in direction[:NUMBERS])
    return shown if len(direction) <= NUMBERS else shown + " ..."


def _pairs(support: Sequence[Any]) -> str:
    shown = " ".join(f"({i}, {t})" for i, t in support[:6])
    return shown if len(support) <= 6 else f"{shown} and {len(support) - 6} more"
