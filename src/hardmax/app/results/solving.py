"""How `solve` finds what it says: enumerate, look at the best-scoring tokens, follow the flow."""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text

from hardmax._lib.arguments import check_arguments
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, columns
from hardmax.app.results.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax._lib.progress import Progress
    from hardmax.directions.critical import CriticalDirection, CriticalDirections
    from hardmax.directions.enumerate import FeasibleSelection, SelectionList
    from hardmax.dynamics.run import Run
    from hardmax.limits.decomposition import Decomposition
    from hardmax.margin.norms import Norm
    from hardmax.margin.solution import MaxMargin
    from hardmax.problem import Problem


Best = tuple[tuple[int, ...], "MaxMargin"]


@dataclass(frozen=True, eq=False)
class FlowEnd:
    """Where gradient flow went, and which of the listed directions is ``nearest`` to it.

    >>> import hardmax as hm
    >>> end = hm.solve(hm.data.example("B-FIG-8"), flow=True).flow
    >>> end.start, end.selection, end.nearest, end.misalignment < 1e-11, end.status
    ('zero', (0, 0), 1, True, 'complete')
    """

    start: str
    path: Run
    nearest: int | None
    misalignment: float | None

    @property
    def moved(self) -> bool:
        """Whether the end is not the origin, which selects nothing."""
        return bool(self.path.p.any())

    @property
    def selection(self) -> tuple[int, ...] | None:
        """The token of each input, None if there is not one of each."""
        chosen = self.path.selection if self.moved else None
        return chosen.tokens if chosen is not None and chosen.is_unique else None

    @property
    def status(self) -> str:
        """Complete, or why something is not known."""
        reasons = [
            (not self.moved, "p is zero and selects nothing"),
            (self.selection is None, "an input selects several tokens"),
            (self.nearest is None, "no listed direction to compare with"),
        ]
        return next((reason for holds, reason in reasons if holds), "complete")

    def fields(self) -> dict[str, Any]:
        """The field `flow` of the JSON."""
        path = self.path
        return {
            "start": self.start,
            "clock": path.clock,
            "log_time": float(path.times[-1]),
            "norm": path.p_norm,
            "selection": self.selection,
            "direction": path.direction if self.moved else None,
            "event": path.event,
            "nearest": self.nearest,
            "misalignment": self.misalignment,
            "status": self.status,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Solved(Answer):
    """The directions of a problem, as `solve` found them.

    ``selections`` are the feasible ones that attract or may attract, or with ``all`` every one; ``best`` has
    each selection of best-scoring tokens with its solution or the proof that there is none; if all have none,
    ``decomposition`` tells what of p stays finite. ``found`` counts
    all feasible selections that the search met, ``qps`` the problems it solved, and ``cut`` says what ended
    it early, if anything did.

    >>> import hardmax as hm
    >>> found = hm.solve(hm.data.example("B-FIG-8"))
    >>> found.status, [each.selection for each in found.selections], found.exit_code
    ('complete', [(0, 1), (0, 0)], 0)
    >>> print(found)
    problem: n = 2 inputs, T = 2 tokens each, d = 2
    feasible selections: 4, of which attract: 2 (4 problems solved)
    #  selection  direction        margin    attracts   proof      support (i, t)
    ...
    """

    schema: ClassVar[str] = "hardmax.solve/2"

    problem: Problem
    name: str
    selections: tuple[FeasibleSelection, ...]
    best: tuple[Best, ...]
    all_best: bool
    found: int
    qps: int
    cut: str | None
    undecided: tuple[tuple[int, ...], ...]
    interrupted: bool
    critical: CriticalDirections | None
    flow: FlowEnd | None
    norm_name: str = "l2"
    decomposition: Decomposition | None = None

    @property
    def status(self) -> str:
        """Complete if nothing was cut short, and everything that was asked was decided."""
        decided = self.all_best and all(best.is_feasible is not None for _, best in self.best)
        decided = decided and all(found.attracts.verdict is not None for found in self.selections)
        decided = decided and (self.critical is None or self.critical.status == "complete")
        decided = decided and (self.decomposition is None or self.decomposition.partition.certified)
        return "complete" if decided and self.cut is None and not self.interrupted else "truncated"

    @property
    def exit_code(self) -> int:
        """0 if complete, 3 if not, 130 after an interrupt."""
        if self.interrupted:
            return INTERRUPTED
        return DONE if self.status == "complete" else INCOMPLETE

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "status": self.status,
            "feasible": self.found if self.cut is None else None,
            "qps": self.qps,
            "norm_name": self.norm_name,
            "multiplicities": [{"token": pair, "count": count} for pair, count in repeated(self.problem)],
            "selections": [selection_fields(found) for found in self.selections],
            "global": [_global_fields(tokens, best) for tokens, best in self.best],
            "flow": None if self.flow is None else self.flow.fields(),
            **({} if self.critical is None else {"critical": _critical_fields(self.critical)}),
            **({} if self.decomposition is None else {"decomposition": _split_fields(self.decomposition)}),
        }

    def table(self) -> Text:
        """What `hardmax solve` prints."""

        return report(self)

    def plot(self) -> Figure:
        """Directions, tokens, separators and the flow; for keys in 2 dimensions.

        >>> import hardmax as hm
        >>> len(hm.solve(hm.data.example("B-FIG-8")).plot().axes)
        3
        """
        from hardmax.directions.display import PlaneDisplay

        path = None if self.flow is None else self.flow.path
        return PlaneDisplay.of(self.problem, self.selections, path).plot()

    def _picture(self) -> Figure | None:
        return self.plot() if self.problem.d == 2 else None

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write a certificate per listed selection, and one per infeasible selection of best-scoring tokens.

        >>> import tempfile
        >>> import hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = hm.solve(hm.data.example("B-FIG-8")).save(folder)
        ...     [hm.certify(file).valid for file in files]
        [True, True]
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        proofs = {f"selection-{k}.json": found.max_margin for k, found in enumerate(self.selections)}
        refuted = [best for _, best in self.best if best.is_feasible is False]
        proofs |= {f"global-{k}.json": best for k, best in enumerate(refuted)}
        for name, best in proofs.items():
            best.save(place / name)
        return [place / name for name in proofs]


def repeated(problem: Problem) -> list[tuple[tuple[int, int], int]]:
    """The tokens (i, t) that stand several times in an input, by their lowest index, and how often."""
    import numpy as np

    leaders, counts = np.unique(problem.groups, return_counts=True)
    several = zip(leaders[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True)
    inputs = np.repeat(np.arange(problem.n), problem.sizes)
    return [
        ((int(inputs[slot]), slot - int(problem.offsets[inputs[slot]])), count) for slot, count in several
    ]


def selection_fields(found: FeasibleSelection) -> dict[str, Any]:
    """What `solve` says of one selection."""
    best = found.max_margin
    direction, status = found.direction, "certified"
    if direction is None:
        status = "p is zero: no token competes"
    elif not math.isfinite(best.p_norm):
        direction, status = None, "p is too long for a float; multiply the keys by a large number"
    elif found.attracts.verdict is None:
        status = found.attracts.written
    return {
        "selection": found.selection,
        "direction": direction,
        "norm": best.p_norm,
        "margin_interval": best.margin_interval,
        "kkt": best.kkt,
        "certificate": best.arithmetic,
        "support": best.support,
        "locally_optimal": found.attracts.verdict,
        "globally_optimal": found.is_best,
        "status": status,
    }


def _global_fields(tokens: tuple[int, ...], best: MaxMargin) -> dict[str, Any]:
    fields: dict[str, Any] = {"selection": tokens, "feasible": best.is_feasible}
    if best.is_feasible is None:
        fields["status"] = "undecided"
    if best.farkas is not None:
        weights = enumerate(best.farkas.tolist())
        fields["farkas"] = [{"row": best.constraints.label(j), "weight": w} for j, w in weights if w]
    return fields


def _split_fields(found: Decomposition) -> dict[str, Any]:
    """The field `decomposition` of the JSON; a local p_fin is not looked for here."""
    finite = None if found.is_local else found.finite
    weights = zip(found.bound, found.circulation, strict=True)
    return {
        "selection": found.selection,
        "scope": "local" if found.is_local else "global",
        "kind": found.kind,
        "status": found.status,
        "dimension": found.S.shape[1],
        "bound": [{"row": row, "weight": float(weight)} for row, weight in weights],
        "separable": found.separable,
        "p_fin": None if finite is None else finite.p,
        "radius": None if finite is None else finite.radius,
        "inf_risk": None if finite is None else finite.risk,
        "p_mm": found.p_mm,
    }


def _critical_fields(found: CriticalDirections) -> dict[str, Any]:
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


ROWS = 40  # more are left to --json
# Decimals of a direction and rows of a support on one line; the first that fits is used. Selections and
# directions are whole; where no line holds them they get lines below.
DETAIL = ((4, 6), (4, 3), (3, 6), (3, 3), (4, 2), (3, 2), (4, 1), (3, 1), (4, 0), (3, 0), (2, 0))


def report(found: Solved) -> Text:
    """Everything for standard output."""
    parts = [_head(found), *_copies(found.problem)]
    if found.selections:
        parts.append(_table(found.selections))
    if len(found.selections) > ROWS:
        parts.append(Text(f"{len(found.selections) - ROWS} more: see them with --json"))
    best = found.best[:ROWS]
    names = spelled_selections([tokens for tokens, _ in best], columns() - len("best-scoring tokens :"))
    parts += [_global(name, each) for name, (_, each) in zip(names, best, strict=True)]
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
    attract = sum(each.attracts.verdict is True for each in found.selections)
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


@dataclass(frozen=True)
class _Row:
    """One line of a table, before it is known how much of it fits."""

    first: str
    selection: tuple[int, ...]
    direction: Any
    middle: tuple[str, ...]
    last: tuple[str, ...]  # the rows of the support
    style: str


def _table(listed: Sequence[FeasibleSelection]) -> Text:
    names = ("#", "selection", "direction", "margin", "attracts", "proof", "support (i, t)")
    return _aligned(names, [_feasible_row(k, found) for k, found in enumerate(listed[:ROWS])])


def _feasible_row(k: int, found: FeasibleSelection) -> _Row:
    best = found.max_margin
    attracts = {"strong": "yes"}.get(found.attracts.written, found.attracts.written)
    proof = "exact" if best.arithmetic == "exact" else f"kkt {best.kkt:.0e}"
    return _Row(
        str(k),
        found.selection,
        found.direction,
        (f"{best.margin:.6g}", attracts + (", best" if found.is_best else ""), proof),
        tuple(f"({i}, {t})" for i, t in best.support),
        "green" if attracts == "yes" else "",
    )


def _aligned(names: tuple[str, ...], rows: Sequence[_Row]) -> Text:
    """Aligned columns: a line per row if its selection and direction fit in full, else lines below it."""
    first, selection, direction, *middle, last = names
    most = columns()
    for decimals, pairs in DETAIL:
        head = last if pairs else last.partition(" (")[0]
        lines = [
            [
                row.first,
                " ".join(map(str, row.selection)),
                _vector(row.direction, decimals),
                *row.middle,
                _pairs(row.last, pairs),
            ]
            for row in rows
        ]
        if _is_telling(lines) and sum(_widths([[*names[:-1], head], *lines])) <= most:
            return _drawn([[*names[:-1], head], *lines], [row.style for row in rows])
    for pairs in (6, 3, 2, 1, 0):
        head = last if pairs else last.partition(" (")[0]
        lines = [[row.first, *row.middle, _pairs(row.last, pairs)] for row in rows]
        if sum(_widths([[first, *middle, head], *lines])) <= most:
            break
    inset = " " * (max(len(line[0]) for line in lines) + 2)
    details = _details(rows, most - len(inset) - len("direction "))
    below = [[f"{inset}{selection} {a}  {direction} {b}"] for a, b in details]
    if any(len(line) > most for (line,) in below):
        below = [[f"{inset}{selection} {a}", f"{inset}{direction} {b}"] for a, b in details]
    return _drawn([[first, *middle, head], *lines], [row.style for row in rows], below)


def _details(rows: Sequence[_Row], most: int) -> list[tuple[str, str]]:
    """Each row's selection and direction within ``most`` letters, or longer where they would look equal."""
    selections = spelled_selections([row.selection for row in rows], most)
    for decimals in (4, 3, 2):
        directions = [_vector(row.direction, decimals) for row in rows]
        if max(map(len, directions)) <= most:
            break
    else:
        directions = [_vector(row.direction, 4, most) for row in rows]
    pairs = list(zip(selections, directions, strict=True))
    if len(set(pairs)) == len(pairs):
        return pairs
    return list(zip(selections, [_vector(row.direction, 4) for row in rows], strict=True))


def _is_telling(lines: Sequence[Sequence[str]]) -> bool:
    """Whether no two lines read the same after their first cell."""
    return len({tuple(line[1:]) for line in lines}) == len(lines)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column, with the two blanks that separate it from the one before."""
    found = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return [width + 2 * (k > 0) for k, width in enumerate(found)]


def _drawn(
    lines: Sequence[Sequence[str]], styles: Sequence[str], below: Sequence[Sequence[str]] = ()
) -> Text:
    """The lines with their columns aligned, the names first, and below each what belongs to it."""
    widths = _widths(lines)
    shown: list[Text] = []
    for k, (cells, style) in enumerate(zip(lines, ["bold", *styles], strict=True)):
        padded = [cell.rjust(len(cell) + 2 * (j > 0)).ljust(widths[j]) for j, cell in enumerate(cells)]
        shown.append(Text("".join(padded).rstrip(), style))
        shown += [Text(line, style) for line in (below[k - 1] if below and k else ())]
    return Text("\n").join(shown)


def spelled_selections(selections: Sequence[tuple[int, ...]], most: int) -> list[str]:
    """Each selection in full, or, if one is longer than ``most`` letters, the inputs that tell them apart.

    >>> from hardmax.app.results.solving import spelled_selections
    >>> spelled_selections([(0, 1, 2), (0, 2, 2)], 10)
    ['0 1 2', '0 2 2']
    >>> spelled_selections([(0,) * 50 + (1,), (0,) * 50 + (2,)], 40)
    ['50:1, else 0 0 0 0 0 0 0 0 0 0 0 0 ...', '50:2, else 0 0 0 0 0 0 0 0 0 0 0 0 ...']
    """
    whole = [" ".join(map(str, each)) for each in selections]
    if all(len(each) <= most for each in whole):
        return whole
    telling = _telling_inputs(selections)
    marks = [" ".join(f"{i}:{each[i]}" for i in telling) for each in selections]
    if max(map(len, marks)) > most - len(", else 0 0 ..."):
        return marks
    marks = [f"{mark}, else " if mark else "" for mark in marks]
    rest = [[str(t) for i, t in enumerate(each) if i not in telling] for each in selections]
    return [mark + _cut(tokens, most - len(mark)) for mark, tokens in zip(marks, rest, strict=True)]


def _telling_inputs(selections: Sequence[tuple[int, ...]]) -> list[int]:
    """A few inputs whose tokens differ between any two different selections."""
    found: list[int] = []
    wanted = len(set(selections))
    while len({tuple(each[i] for i in found) for each in selections}) < wanted:
        counts = [
            len({(*(each[j] for j in found), each[i]) for each in selections})
            for i in range(len(selections[0]))
        ]
        found.append(counts.index(max(counts)))
    return sorted(found)


def _cut(words: Sequence[str], most: int) -> str:
    """The words, or as many of them as fit before three dots."""
    text = " ".join(words)
    if len(text) <= most:
        return text
    kept = text[: max(most - 4, 0) + 1].rpartition(" ")[0]
    return f"{kept} ..." if kept else "..."


def _global(tokens: str, best: MaxMargin) -> Text:
    text = Text(f"best-scoring tokens {tokens}: ")
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
        text.append(
            f": p_fin = {_vector(found.finite.p, 4, 60)}, infimum of the risk {found.finite.risk:.6g}"
        )
    if found.direction is None:
        return text.append("\n  drives nothing to infinity")
    return text.append(f"\n  drives the rest to infinity along {_vector(found.direction, 4, 60)}")


def _flow(flow: FlowEnd) -> Text:
    text = Text(f"{flow.path.method} from {flow.start}: ")
    text.append(f"at log t = {float(flow.path.times[-1]):.6g} |p| = {flow.path.p_norm:.6g}")
    if flow.selection is not None:
        text.append(f", it selects {_cut([str(t) for t in flow.selection], 60)}")
    if flow.path.event:
        text.append(f", event: {flow.path.event}")
    if flow.nearest is not None:
        text.append(f"; nearest is #{flow.nearest}, 1 - cos = {flow.misalignment:.3g}")
    if flow.status != "complete":
        text.append(f"; {flow.status}")
    return text


def _vector(direction: Any, decimals: int, most: int | None = None) -> str:
    """The entries of a vector, all of them or those that fit in ``most`` letters."""
    if direction is None or not all(map(math.isfinite, direction)):
        return "none"
    entries = [f"{x:+.{decimals}f}" for x in direction]
    return " ".join(entries) if most is None else _cut(entries, most)


def _pairs(support: Sequence[str], most: int) -> str:
    """The first rows of a support and the number of the others; only their number if ``most`` is 0."""
    if len(support) <= most:
        return " ".join(support)
    if most == 0:
        return f"{len(support)} row" + "s" * (len(support) != 1)
    return f"{' '.join(support[:most])} and {len(support) - most} more"


def _critical(found: CriticalDirections) -> Text:
    """A table of the directions, and what the index theorem says about the finite stationary points."""
    text = Text(f"critical directions at infinity: {len(found.directions)}\n")
    names = ("index", "selection", "direction", "margin", "signed rows (i, t)")
    if found.directions:
        text.append_text(_aligned(names, [_critical_row(each) for each in found.directions[:ROWS]]))
        text.append("\n")
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


def _critical_row(each: CriticalDirection) -> _Row:
    signs = ["+" if m > 0 else "-" for m in each.multipliers]
    return _Row(
        str(each.index),
        each.selection,
        each.direction,
        (f"{each.margin:.5g}",),
        tuple(f"{sign}({i}, {t})" for (i, t), sign in zip(each.rows, signs, strict=True)),
        "green" if each.index == 0 else "",
    )


LIMIT = 10_000  # feasible selections
SECONDS = 60.0
LARGE = 20_000  # tokens; one hard-margin problem of more may take seconds


@check_arguments
def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    all: bool = False,
    limit: int | None = LIMIT,
    seconds: float | None = SECONDS,
    exact: bool = False,
    flow: bool = False,
    start: Any = None,
    critical: bool = False,
    norm: Norm | str | float = "l2",
) -> Solved:
    """List the directions that attract training, each with a proof, as `hardmax solve` does.

    Args:
        problem: a `Problem`, a file that holds one, or the name of an example (`hm.data.examples`).
        all: list every feasible selection, not only those that attract.
        limit: stop after this many feasible selections; None looks at all.
        seconds: stop the search after this many seconds; None takes the time it needs.
        exact: solve what is listed in rational numbers.
        flow: run gradient flow and say where it goes.
        start: where the flow begins, zero by default.
        critical: list attractors and saddles at infinity with their index.
        norm: in which each p is shortest, and so which selections attract; as for `max_margin`.

    >>> import hardmax as hm
    >>> found = hm.solve(hm.data.example("B-FIG-1b"), flow=True)
    >>> [each.selection for each in found.selections], found.flow.selection, found.flow.nearest
    ([(1,), (0,)], (0,), 1)
    """
    from hardmax.data.small import load_problem
    from hardmax.problem import Problem

    if not isinstance(problem, Problem | str | os.PathLike):
        raise ValueError(f"problem must be a Problem or the name of a file, got {type(problem).__name__}")
    name = "problem" if isinstance(problem, Problem) else os.fspath(problem)
    posed = problem if isinstance(problem, Problem) else load_problem(name)
    if start is not None and not flow:
        raise ValueError("start must be left out without a flow, got a point; add flow=True")
    begin, start_name = (None, "zero") if start is None else (posed.vector("start", start), "given")
    job = Solving(posed, all, limit, seconds, exact, flow, begin, critical, name, start_name, norm)
    job.run()
    return job.answer()


@dataclass(eq=False, repr=False)
class Solving:
    """A search that is under way; an interrupt leaves in `answer` what was found.

    ``every`` is ``all`` of `solve`; ``name`` and ``start_name`` are said in the answer.
    """

    problem: Problem
    every: bool = False
    limit: int | None = LIMIT
    seconds: float | None = SECONDS
    exact: bool = False
    with_flow: bool = False
    start: Any = None
    with_critical: bool = False
    name: str = "problem"
    start_name: str = "zero"
    norm: Norm | str | float = "l2"

    search: SelectionList | None = field(default=None, init=False)
    listed: list[FeasibleSelection] = field(default_factory=list, init=False)
    known: dict[tuple[int, ...], MaxMargin] = field(default_factory=dict, init=False)  # best-scoring, solved
    best: list[Best] = field(default_factory=list, init=False)
    all_best: bool = field(default=False, init=False)
    is_whole: bool = field(default=False, init=False)
    critical: CriticalDirections | None = field(default=None, init=False)
    flow: FlowEnd | None = field(default=None, init=False)
    decomposition: Decomposition | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        from hardmax.margin.att_svm import AttentionRows
        from hardmax.margin.norms import norm

        self.norm = norm(self.norm)
        if self.norm.name == "l2":
            return
        self.norm.refuse(AttentionRows(self.problem).constraints([]), self.exact)
        if self.with_flow:
            from hardmax.dynamics.flows.norms import smooth

            smooth(self.norm, "log t", mirror=False)  # refuses now what has no flow, not after the search
        if self.with_critical:
            raise ValueError(
                f"norm must be l2 with critical, whose index is one of gradient flow, got {self.norm.name}; "
                "leave one of them out"
            )

    def run(self, progress: Progress | None = None) -> None:
        """Search, and follow the flow if that is asked for; ``progress(done, total)`` is called."""
        from hardmax.directions.enumerate import selections

        end = math.inf if self.seconds is None else time.monotonic() + self.seconds
        self.search = selections(
            self.problem, limit=self.limit, seconds=self.seconds, progress=progress, norm=self.norm
        )
        self._collect(self.search)
        self._globally(end)
        self._decompose(end)
        if self.with_critical:
            from hardmax.directions.critical import critical_directions

            self.critical = critical_directions(self.problem, seconds=self.seconds)
        if self.with_flow:
            self._follow()
        self.is_whole = True

    def answer(self) -> Solved:
        """What has been found so far."""
        from hardmax.margin.norms import norm

        search = self.search
        whole = search is not None and search.status == "complete"
        return Solved(
            self.problem,
            self.name,
            tuple(self.listed),
            tuple(self.best),
            self.all_best,
            search.feasible if search else 0,
            search.problems_solved if search else 0,
            None if whole else (search and search.reason) or "interrupted",
            search.undecided if search else (),
            not self.is_whole,
            self.critical,
            self.flow,
            norm(self.norm).name,
            self.decomposition,
        )

    def _collect(self, search: SelectionList) -> None:
        from hardmax.directions.neighbors import score_gap
        from hardmax.margin.att_svm import max_margin

        for found in search:
            if self.every or found.attracts.verdict is not False:
                if self.exact and found.max_margin.arithmetic != "exact":
                    proof = max_margin(self.problem, found.selection, exact=True, norm=self.norm)
                    found = replace(found, max_margin=proof, score_gap=score_gap(self.problem, proof))
                self.listed.append(found)
            if found.is_best and not (self.exact and found.max_margin.arithmetic != "exact"):
                self.known[found.selection] = found.max_margin

    def _globally(self, end: float) -> None:
        """Selections of best-scoring tokens; ties may make more of them than the limit or the time allows.

        The first is worth a moment beyond the time, unless the problem is large.
        """
        from hardmax.margin.att_svm import best_max_margins
        from hardmax.problem.selection import best_tokens

        if time.monotonic() > end and len(self.problem.tokens) > LARGE:
            return
        selections = best_max_margins(self.problem, exact=self.exact, known=self.known, norm=self.norm)
        most = sys.maxsize if self.limit is None else min(self.limit, sys.maxsize)
        for found in itertools.islice(selections, most):
            self.best.append(found)
            if time.monotonic() > end:
                break
        self.all_best = len(self.best) == math.prod(map(len, best_tokens(self.problem).sets))

    def _decompose(self, end: float) -> None:
        """Where no best-scoring tokens can all be selected: what of p stays finite, and what diverges."""
        if not self.best or any(best.is_feasible is not False for _, best in self.best):
            return
        from hardmax.limits.decomposition import decompose
        from hardmax.limits.partition import MOST_ROWS

        if time.monotonic() < end and len(self.problem.tokens) - self.problem.n <= MOST_ROWS:
            self.decomposition = decompose(self.problem, self.best[0][0])

    def _follow(self) -> None:
        from hardmax._lib.arrays import cosine_distance
        from hardmax.dynamics.flow import flow

        path = flow(self.problem, start=self.start, norm=self.norm)
        angles = {
            k: cosine_distance(path.p, f.direction)
            for k, f in enumerate(self.listed)
            if path.p.any() and f.direction is not None and math.isfinite(f.max_margin.p_norm)
        }
        nearest = min(angles, key=lambda k: angles[k], default=None)
        self.flow = FlowEnd(self.start_name, path, nearest, None if nearest is None else angles[nearest])
