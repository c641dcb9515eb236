"""`solve`: the directions that attract training, each with a proof; and where gradient flow ends."""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import WrongType, check_arguments
from hardmax._lib.notebook import save_picture
from hardmax._lib.reading import read_json
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, columns, fitted, grid
from hardmax.app.results.certify import norm_of_file
from hardmax.app.results.session import session, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.table import Table

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
class SolveResult(Result):
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
    norm: str = "l2"
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
            "norm_name": self.norm,
            "multiplicities": [{"token": pair, "count": count} for pair, count in repeated(self.problem)],
            "selections": [selection_fields(found) for found in self.selections],
            "global": [_global_fields(tokens, best) for tokens, best in self.best],
            "flow": None if self.flow is None else self.flow.fields(),
            **({} if self.critical is None else {"critical": _critical_fields(self.critical)}),
            **({} if self.decomposition is None else {"decomposition": _split_fields(self.decomposition)}),
        }

    def table(self) -> Group:
        """Return what `hardmax solve` prints."""
        return report(self)

    @property
    def headline(self) -> str:
        """How many selections are feasible, and how many of them attract."""
        attract = sum(each.attracts.verdict is True for each in self.selections)
        counts = f"feasible selections: {self.found}, of which attract: {attract}"
        return f"{counts} ({self.qps} problems solved)"

    @property
    def ranked(self) -> list[tuple[int, FeasibleSelection]]:
        """The selections with their indices: those that attract first, the best before all, by margin."""

        def rank(entry: tuple[int, FeasibleSelection]) -> tuple[bool, bool, float]:
            each = entry[1]
            return not each.attracts.verdict, not each.is_best, -each.max_margin.margin

        return sorted(enumerate(self.selections), key=rank)

    def records(self) -> list[dict[str, Any]]:
        """Return a row per selection, the best first; ``index`` is the place in the JSON."""
        return [{"index": k, **selection_fields(each)} for k, each in self.ranked]

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
    """The tokens (i, t) that occur several times in an input, by their lowest index, and how often."""
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


ROWS = 40  # selections in the table
LONGEST = 96  # characters of a selection or a direction in a table


def report(found: SolveResult) -> Group:
    """Return everything for standard output."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [Text(_head(found), "" if found.cut is None else "bold"), *_copies(found.problem)]
    if found.selections:
        parts.append(_selections(found))
    if len(found.selections) > ROWS:
        parts.append(f"{len(found.selections) - ROWS} more selections are in the JSON")
    best = found.best[:ROWS]
    names = spelled_selections([tokens for tokens, _ in best], columns() - len("best-scoring tokens :"))
    parts += [_global(name, each) for name, (_, each) in zip(names, best, strict=True)]
    if found.decomposition is not None:
        parts.append(_split(found.decomposition))
    if found.flow is not None:
        parts.append(_flow(found.flow))
    if found.critical is not None:
        parts += _critical(found.critical)
    texts = [Text(part) if isinstance(part, str) else part for part in parts]
    return Group(*(fitted(part, columns()) if isinstance(part, Text) else part for part in texts))


def _head(found: SolveResult) -> str:
    problem = found.problem
    sizes = sorted(set(problem.sizes.tolist()))
    tokens = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    d = "x".join(map(str, problem.shape))
    text = f"{found.name}: n = {problem.n} inputs, T = {tokens} tokens each, d = {d}\n"
    if found.norm != "l2":
        text += f"p is shortest in the norm {found.norm}, and margins are in this norm\n"
    if found.cut is None:
        return text + found.headline
    reasons = {
        "limit": "the limit was reached; raise the limit",
        "seconds": "the time was over; give it more seconds",
        "undecided": f"{len(found.undecided)} selections are too large to decide exactly",
        "interrupted": "interrupted",
    }
    return f"{text}incomplete, {reasons[found.cut]}. So far: {found.headline}"


def _copies(problem: Problem) -> list[str]:
    """Return a line about tokens that occur several times, if there are any."""
    several = [f"({i}, {t}) {count} times" for (i, t), count in repeated(problem)]
    more = f" and {len(several) - 8} more" if len(several) > 8 else ""
    line = f"repeated tokens (i, t), each one token: {', '.join(several[:8])}{more}"
    return [line] if several else []


def _selections(found: SolveResult) -> Table:
    """Return the table of selections, the best first; # is the index in the JSON."""
    listed = found.ranked[:ROWS]
    names = spelled_selections([each.selection for _, each in listed], LONGEST)
    rows, styles = [], []
    for name, (k, each) in zip(names, listed, strict=True):
        best = each.max_margin
        attracts = {"strong": "yes"}.get(each.attracts.written, each.attracts.written)
        proof = "exact" if best.arithmetic == "exact" else _residual(best.kkt)
        role = attracts + (", best" if each.is_best else "")
        support = " ".join(f"({i}, {t})" for i, t in best.support)
        rows.append([str(k), name, _vector(each.direction), f"{best.margin:.6g}", role, proof, support])
        styles.append("green" if attracts == "yes" else "")
    head = ["#", "selection", "direction", "margin", "attracts", "proof", "support (i, t)"]
    if not _fits(head, rows):
        head[-1] = "support"
        for row, (_, each) in zip(rows, listed, strict=True):
            row[-1] = f"{len(each.max_margin.support)} rows"
    if _fits(head, rows):
        return grid(head, rows, styles)
    narrow = [[k, *middle, f"{name}\n{direction}"] for k, name, direction, *middle, _ in rows]
    return grid(["#", "margin", "attracts", "proof", "selection, direction"], narrow, styles)


def _fits(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether no line of a table is wider than the terminal."""
    widths = [max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)]
    return sum(widths) - 2 <= columns()


def _residual(kkt: float) -> str:
    return "kkt < 1e-15" if kkt < 1e-15 else f"kkt {kkt:.0e}"


def spelled_selections(selections: Sequence[tuple[int, ...]], most: int) -> list[str]:
    """Each selection in full, or, if one is longer than ``most`` letters, the inputs that tell them apart.

    >>> from hardmax.app.results.solve import spelled_selections
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


def _global(tokens: str, best: MaxMargin) -> str:
    if best.is_feasible:
        return f"best-scoring tokens {tokens}: feasible, margin {best.margin:.6g}"
    if best.farkas is None:
        return f"best-scoring tokens {tokens}: undecided"
    used = [(best.constraints.label(j), w) for j, w in enumerate(best.farkas.tolist()) if w]
    rows = ", ".join(f"{w:.4g} of ({i}, {t})" for (i, t), w in used[:8]) + (", ..." if len(used) > 8 else "")
    return f"best-scoring tokens {tokens}: infeasible, these rows cancel: {rows}"


def _split(found: Decomposition) -> str:
    """What training does where the best-scoring tokens cannot all be selected."""
    where = "that keeps to them" if found.is_local else "from any start"
    text = f"their rows: {len(found.bound)} bound, {len(found.separable)} separable ({found.status}). "
    text += f"Training {where}\n  holds a part of p of dimension {found.S.shape[1]} finite"
    if not found.is_local and found.finite is not None:
        text += f": p_fin = {_vector(found.finite.p, 60)}, infimum of the risk {found.finite.risk:.6g}"
    if found.direction is None:
        return f"{text}\n  drives nothing to infinity"
    return f"{text}\n  drives the rest to infinity along {_vector(found.direction, 60)}"


def _flow(flow: FlowEnd) -> str:
    text = f"{flow.path.method} from {flow.start}: "
    text += f"at log t = {float(flow.path.times[-1]):.6g} |p| = {flow.path.p_norm:.6g}"
    if flow.selection is not None:
        text += f", it selects {_cut([str(t) for t in flow.selection], 60)}"
    if flow.path.event:
        text += f", event: {flow.path.event}"
    if flow.nearest is not None:
        text += f"; nearest is #{flow.nearest}, 1 - cos = {flow.misalignment:.3g}"
    if flow.status != "complete":
        text += f"; {flow.status}"
    return text


def _vector(direction: Any, most: int = LONGEST) -> str:
    """Return the entries of a vector, as many as fit in ``most`` characters."""
    if direction is None or not all(map(math.isfinite, direction)):
        return "none"
    return _cut([f"{x:+.4f}" for x in direction], most)


def _critical(found: CriticalDirections) -> list[Any]:
    """Return a table of the directions, and what the index theorem implies for finite stationary points."""
    listed = found.directions[:ROWS]
    parts: list[Any] = [f"critical directions at infinity: {len(found.directions)}"]
    names: Sequence[str] = ("index", "selection", "direction", "margin", "signed rows (i, t)")
    if listed:
        styles = ["green" if each.index == 0 else "" for each in listed]
        rows = [_critical_row(each) for each in listed]
        if not _fits(names, rows):
            names = ("index", "margin", "selection, direction, signed rows (i, t)")
            rows = [
                [k, margin, f"{tokens}\n{direction}\n{signed}"]
                for k, tokens, direction, margin, signed in rows
            ]
        parts.append(grid(names, rows, styles))
    if len(found.directions) > ROWS:
        parts.append(f"{len(found.directions) - ROWS} more directions are in the JSON")
    return [*parts, _verdict(found)]


def _verdict(found: CriticalDirections) -> str:
    if found.status == "truncated":
        return f"incomplete after {found.sets} sets of rows; give it more seconds"
    if found.degenerate:
        more = f" (and {len(found.degenerate) - 1} more)" if len(found.degenerate) > 1 else ""
        return f"the index theorem does not apply: {found.degenerate[0]}{more}"
    return (
        f"sum of (-1)^index at infinity: {found.sum}; "
        f"finite stationary points must sum to 1 - {found.sum} = {1 - found.sum}"
    ).replace("- -", "+ ")


def _critical_row(each: CriticalDirection) -> list[str]:
    signs = ["+" if m > 0 else "-" for m in each.multipliers]
    rows = " ".join(f"{sign}({i}, {t})" for (i, t), sign in zip(each.rows, signs, strict=True))
    selection = _cut([*map(str, each.selection)], LONGEST)
    return [str(each.index), selection, _vector(each.direction), f"{each.margin:.5g}", rows]


LIMIT = 10_000  # feasible selections
SECONDS = 60.0
LARGE = 20_000  # tokens; one hard-margin problem of more may take seconds
STEPS = 1000  # of the progress
PICTURES = (".svg", ".png", ".pdf")
PROOF = re.compile(r"(selection|global)-\d+\.json")  # files in the folder of certificates


@check_arguments
def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    all: bool = False,
    limit: int | None = LIMIT,
    seconds: float | None = SECONDS,
    exact: bool = False,
    critical: bool = False,
    norm: Norm | str | float = "l2",
    flow: bool = False,
    start: Any = None,
    plot: str | os.PathLike[str] | None = None,
    certificates: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> SolveResult:
    """List the directions that attract training, each with a proof.

    Args:
        problem: File of a problem (.json, .npz, .csv) or the name of an example. In Python also a `Problem`.
        all: List every feasible selection, not only those that attract.
        limit: Stop after this many feasible selections. None searches all of them.
        seconds: Stop the search after this many seconds. None sets no limit.
        exact: Solve the listed selections in rational arithmetic.
        critical: List attractors and saddles at infinity with their index.
        norm: Norm in which p is shortest: l1, l2, linf, or a power such as l1.5; for matrices nuclear or
            spectral; FILE.py:NAME for a custom norm, whose file is executed.
        flow: Run gradient flow and report where it ends.
        start: Start of the flow: zero, or a file with a JSON list or .npy array. In Python also a vector.
        plot: Draw a problem with keys in 2 dimensions as .svg, .png or .pdf.
        certificates: Folder that receives a certificate per selection, for `hardmax certify`.
        progress: Called with the number of steps done and of all steps.

    Returns:
        The selections with their max-margin directions, the best-scoring tokens, and the end of the flow.

    >>> import hardmax as hm
    >>> result = hm.solve(hm.data.example("B-FIG-1b"), flow=True)
    >>> [each.selection for each in result.selections], result.flow.selection, result.flow.nearest
    ([(1,), (0,)], (0,), 1)
    """
    from hardmax._lib import expect
    from hardmax.data.small import load_problem
    from hardmax.problem import Problem

    started = time.monotonic()
    if not isinstance(problem, Problem | str | os.PathLike):
        raise WrongType(f"problem must be a Problem or the name of a file, got {type(problem).__name__}")
    if seconds is not None:
        expect.positive("seconds", seconds)
    if limit is not None:
        expect.whole("limit", limit, 1)
    if start is not None and not flow:
        raise ValueError("`start` requires `flow=True`")
    norm = norm_of_file(norm) if isinstance(norm, str) else norm
    name = "problem" if isinstance(problem, Problem) else os.fspath(problem)
    inputs = [] if isinstance(problem, Problem) else [name]
    posed = problem if isinstance(problem, Problem) else load_problem(name)
    begin, start_name = _start(posed, start)
    inputs += [] if start_name in ("zero", "given") else [start_name]
    if plot is not None:
        _drawable(posed, Path(plot), inputs)
    if certificates is not None:
        _provable(Path(certificates), inputs)
    # reading has taken some of the time; the search needs a positive rest to report that it has none
    left = None if seconds is None else max(started + seconds - time.monotonic(), 1e-9)
    job = SolveJob(
        posed,
        norm,
        every=all,
        limit=limit,
        seconds=left,
        exact=exact,
        critical=critical,
        flow=flow,
        start=begin,
    )
    with session().progress("searching", STEPS, progress) as bar:
        try:
            with session().none_lost():
                job.run(bar.to)
        except KeyboardInterrupt:
            session().keep("stopping; the results so far follow")
    result = job.result(name, start_name)
    session().show(result)
    if certificates is not None:
        count = len(result.save(certificates))
        session().say(f"{count} certificates in {certificates}; check one with hardmax certify")
    if plot is not None:
        save_picture(result.plot(), Path(plot))
    return result


def _start(problem: Problem, start: Any) -> tuple[Any, str]:
    """Return the start of the flow as a vector, None for the origin, and its name."""
    from hardmax._lib.archive import read_array

    if start is None or (isinstance(start, str) and start == "zero"):
        return None, "zero"
    if not isinstance(start, str | os.PathLike):
        return problem.vector("start", start), "given"
    path = Path(start)
    try:
        p = read_array(path) if path.suffix == ".npy" else read_json(path, "a list of numbers")
    except ValueError:
        raise ValueError(f"start: {path} must hold {problem.d} numbers, as a JSON list or .npy") from None
    return problem.vector(str(path), p), os.fspath(start)


def _drawable(problem: Problem, plot: Path, inputs: Sequence[str]) -> None:
    if problem.d != 2:
        raise ValueError(f"`plot` needs keys in 2 dimensions, got {problem.d}; leave it out")
    if plot.suffix not in PICTURES:
        raise ValueError(f"plot must end in {', '.join(PICTURES)}, got {plot}")
    writable("plot", plot, *inputs)


def _provable(folder: Path, inputs: Sequence[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`certificates` {folder}: this is a file; give the name of a folder")
    for file in map(os.path.realpath, inputs):
        place, name = os.path.split(file)
        if PROOF.fullmatch(name) and place == os.path.realpath(folder):
            raise ValueError(f"`certificates` {folder}: it may overwrite {name}; choose another folder")


class SolveJob:
    """A search in steps; after an interrupt `result` returns what was found."""

    def __init__(
        self,
        problem: Problem,
        norm: Norm | str | float,
        *,
        every: bool,
        limit: int | None,
        seconds: float | None,
        exact: bool,
        critical: bool,
        flow: bool,
        start: Any,
    ) -> None:
        from hardmax.margin.att_svm import AttentionRows
        from hardmax.margin.norms import norm as norm_of

        self.problem, self.norm, self.start = problem, norm_of(norm), start
        self.every, self.limit, self.seconds, self.exact = every, limit, seconds, exact
        self.with_critical, self.with_flow = critical, flow
        self.search: SelectionList | None = None
        self.listed: list[FeasibleSelection] = []
        self.known: dict[tuple[int, ...], MaxMargin] = {}  # best-scoring, solved
        self.best: list[Best] = []
        self.all_best = self.is_whole = False
        self.critical: CriticalDirections | None = None
        self.path: Run | None = None
        self.decomposition: Decomposition | None = None
        if self.norm.name == "l2":
            return
        self.norm.refuse(AttentionRows(problem).constraints([]), exact)
        if flow:
            from hardmax.dynamics.flow import smooth

            smooth(self.norm, "log t", mirror=False)  # refuses now what has no flow, not after the search
        if critical:
            raise ValueError(f"`critical=True` supports only norm l2, got norm={self.norm.name!r}")

    def run(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Search, and follow the flow if requested."""
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
            from hardmax.dynamics.flow import flow

            self.path = flow(self.problem, start=self.start, norm=self.norm)
        self.is_whole = True

    def result(self, name: str, start_name: str) -> SolveResult:
        """Return what has been found so far; the names are those of the problem and of the start."""
        search = self.search
        whole = search is not None and search.status == "complete"
        return SolveResult(
            self.problem,
            name,
            tuple(self.listed),
            tuple(self.best),
            self.all_best,
            search.feasible if search else 0,
            search.problems_solved if search else 0,
            None if whole else (search and search.reason) or "interrupted",
            search.undecided if search else (),
            not self.is_whole,
            self.critical,
            None if self.path is None else self._end_of(self.path, start_name),
            self.norm.name,
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

    def _end_of(self, path: Run, start: str) -> FlowEnd:
        from hardmax._lib.arrays import cosine_distance

        angles = {
            k: cosine_distance(path.p, f.direction)
            for k, f in enumerate(self.listed)
            if path.p.any() and f.direction is not None and math.isfinite(f.max_margin.p_norm)
        }
        nearest = min(angles, key=lambda k: angles[k], default=None)
        return FlowEnd(start, path, nearest, None if nearest is None else angles[nearest])
