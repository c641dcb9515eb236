"""`solve`: the directions that attract training, each with a proof; and where gradient flow ends."""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.notebook import save_picture
from hardmax._lib.reading import read_json
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, columns, ending, grid
from hardmax.app.cli.errors import none_lost
from hardmax.app.results.certify import norm_of_file
from hardmax.app.results.session import session, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.directions.critical import CriticalDirections
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
        """The token of each input; None if an input does not select exactly one."""
        limit = self.path.selection if self.moved else None
        return limit.tokens if limit is not None and limit.is_unique else None

    @property
    def status(self) -> str:
        """Complete, or the reason why something is unknown."""
        if not self.moved:
            return "p is zero and selects nothing"
        if self.selection is None:
            return "an input selects several tokens"
        return "complete" if self.nearest is not None else "no listed direction to compare with"

    def fields(self) -> dict[str, Any]:
        """Return the field `flow` of the JSON."""
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
    """The directions of a problem that `solve` found.

    ``selections`` are the feasible ones that attract or may attract, or with ``all`` every one; ``best`` has
    each selection of best-scoring tokens with its solution or the proof that there is none; if all have none,
    ``decomposition`` is the split of p into a finite and a diverging part. ``found`` counts all feasible
    selections in the searched part, ``qps`` the problems solved, and ``cut`` is the reason of an early end.

    >>> import hardmax as hm
    >>> result = hm.solve(hm.data.example("B-FIG-8"))
    >>> result.status, [found.selection for found in result.selections], result.exit_code
    ('complete', [(0, 1), (0, 0)], 0)
    >>> print(result)
    problem: n = 2 inputs, T = 2 tokens each, d = 2
    feasible selections: 4, of which attract: 2 (4 problems solved)
    #  selection  direction        margin    attracts   proof      support (i, t)
    ...
    """

    schema: ClassVar[str] = "hardmax.solve/2"

    problem: Problem
    name: str
    selections: tuple[FeasibleSelection, ...] = ()
    best: tuple[Best, ...] = ()
    all_best: bool = False
    found: int = 0
    qps: int = 0
    cut: str | None = "interrupted"
    undecided: tuple[tuple[int, ...], ...] = ()
    interrupted: bool = True
    critical: CriticalDirections | None = None
    flow: FlowEnd | None = None
    norm: str = "l2"
    decomposition: Decomposition | None = None

    @property
    def status(self) -> str:
        """Complete if the search was not cut short and every verdict is decided."""
        conditions = (
            self.cut is None and not self.interrupted and self.all_best,
            all(solution.is_feasible is not None for _, solution in self.best),
            all(selection.attracts.verdict is not None for selection in self.selections),
            self.critical is None or self.critical.status == "complete",
            self.decomposition is None or self.decomposition.partition.certified,
        )
        return "complete" if all(conditions) else "truncated"

    @property
    def exit_code(self) -> int:
        """0 if complete, 3 if not, 130 after an interrupt."""
        return ending(interrupted=self.interrupted, incomplete=self.status != "complete")

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            "status": self.status,
            "feasible": self.found if self.cut is None else None,
            "qps": self.qps,
            "norm_name": self.norm,
            "multiplicities": [{"token": pair, "count": count} for pair, count in repeated(self.problem)],
            "selections": [*map(selection_fields, self.selections)],
            "global": [_global_fields(*best) for best in self.best],
            "flow": None if self.flow is None else self.flow.fields(),
            **({} if self.critical is None else {"critical": _critical_fields(self.critical)}),
            **({} if self.decomposition is None else {"decomposition": _split_fields(self.decomposition)}),
        }

    def table(self) -> Page:
        """Return what `hardmax solve` prints."""
        parts: list[Page] = [(_head(self), "" if self.cut is None else "bold")]
        copies = [f"({i}, {t}) {count} times" for (i, t), count in repeated(self.problem)]
        if copies:
            more = f" and {len(copies) - 8} more" if len(copies) > 8 else ""
            parts.append(f"repeated tokens (i, t), each one token: {', '.join(copies[:8])}{more}")
        if self.selections:
            parts.append(_selections(self))
        if len(self.selections) > ROWS:
            parts.append(f"{len(self.selections) - ROWS} more selections are in the JSON")
        best = self.best[:ROWS]
        names = spelled_selections([tokens for tokens, _ in best], columns() - len("best-scoring tokens :"))
        parts += [_global(name, solution) for name, (_, solution) in zip(names, best, strict=True)]
        if self.decomposition is not None:
            parts.append(_split(self.decomposition))
        if self.flow is not None:
            parts.append(_flow(self.flow))
        return parts if self.critical is None else parts + _critical(self.critical)

    @property
    def headline(self) -> str:
        """The numbers of feasible and of attracting selections."""
        attract = sum(selection.attracts.verdict is True for selection in self.selections)
        counts = f"feasible selections: {self.found}, of which attract: {attract}"
        return f"{counts} ({self.qps} problems solved)"

    @property
    def ranked(self) -> list[tuple[int, FeasibleSelection]]:
        """The selections with their indices: first those that attract, then by best tokens and margin."""

        def rank(entry: tuple[int, FeasibleSelection]) -> tuple[bool, bool, float]:
            selection = entry[1]
            return not selection.attracts.verdict, not selection.is_best, -selection.max_margin.margin

        return sorted(enumerate(self.selections), key=rank)

    def records(self) -> list[dict[str, Any]]:
        """Return a row per selection, the best first; ``index`` is its index in the JSON."""
        return [{"index": k, **selection_fields(selection)} for k, selection in self.ranked]

    def plot(self) -> Figure:
        """Draw directions, tokens, separators and the flow; for keys in 2 dimensions.

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
        proofs = {f"selection-{k}.json": entry.max_margin for k, entry in enumerate(self.selections)}
        refuted = [best for _, best in self.best if best.is_feasible is False]
        proofs |= {f"global-{k}.json": best for k, best in enumerate(refuted)}
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, best in proofs.items():
            best.save(Path(folder, name))
        return [Path(folder, name) for name in proofs]


def repeated(problem: Problem) -> list[tuple[tuple[int, int], int]]:
    """Return the tokens (i, t) that occur several times in an input, by their lowest index, and how often."""
    import numpy as np

    leaders, counts = np.unique(problem.groups, return_counts=True)
    copies = zip(leaders[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True)
    inputs = np.repeat(np.arange(problem.n), problem.sizes)
    return [((int(inputs[s]), s - int(problem.offsets[inputs[s]])), count) for s, count in copies]


def selection_fields(selection: FeasibleSelection) -> dict[str, Any]:
    """Return the JSON object of one selection."""
    best = selection.max_margin
    direction, status = selection.direction, "certified"
    if direction is None:
        status = "p is zero: no token competes"
    elif not math.isfinite(best.p_norm):
        direction, status = None, "p is too long for a float; multiply the keys by a large number"
    elif selection.attracts.verdict is None:
        status = selection.attracts.written
    return {
        "selection": selection.selection,
        "direction": direction,
        "norm": best.p_norm,
        "margin_interval": best.margin_interval,
        "kkt": best.kkt,
        "certificate": best.arithmetic,
        "support": best.support,
        "locally_optimal": selection.attracts.verdict,
        "globally_optimal": selection.is_best,
        "status": status,
    }


def _global_fields(tokens: tuple[int, ...], best: MaxMargin) -> dict[str, Any]:
    status = {"status": "undecided"} if best.is_feasible is None else {}
    fields: dict[str, Any] = {"selection": tokens, "feasible": best.is_feasible, **status}
    if best.farkas is not None:
        weights = enumerate(best.farkas.tolist())
        fields["farkas"] = [{"row": best.constraints.label(j), "weight": w} for j, w in weights if w]
    return fields


def _split_fields(split: Decomposition) -> dict[str, Any]:
    """Return the field `decomposition` of the JSON; a local p_fin is not computed here."""
    finite = None if split.is_local else split.finite
    weights = zip(split.bound, split.circulation, strict=True)
    return {
        "selection": split.selection,
        "scope": "local" if split.is_local else "global",
        "kind": split.kind,
        "status": split.status,
        "dimension": split.S.shape[1],
        "bound": [{"row": row, "weight": float(weight)} for row, weight in weights],
        "separable": split.separable,
        "p_fin": None if finite is None else finite.p,
        "radius": None if finite is None else finite.radius,
        "inf_risk": None if finite is None else finite.risk,
        "p_mm": split.p_mm,
    }


def _critical_fields(critical: CriticalDirections) -> dict[str, Any]:
    """Return the field `critical` of the JSON."""
    return {
        "status": critical.status,
        "degenerate": list(critical.degenerate),
        "dimension": critical.dimension,
        "sum": critical.sum if critical.status == "complete" else None,
        "directions": [
            {
                **attributes(direction, "index", "selection", "direction", "margin", "rows"),
                "multipliers": [float(m) for m in direction.multipliers],
            }
            for direction in critical.directions
        ],
    }


ROWS = 40  # selections in the table
LONGEST = 96  # characters of a selection or a direction in a table


def _head(result: SolveResult) -> str:
    problem = result.problem
    sizes = sorted(set(problem.sizes.tolist()))
    tokens = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    d = "x".join(map(str, problem.shape))
    text = f"{result.name}: n = {problem.n} inputs, T = {tokens} tokens each, d = {d}\n"
    if result.norm != "l2":
        text += f"p is shortest in the norm {result.norm}, and margins are in this norm\n"
    if result.cut is None:
        return text + result.headline
    reasons = {
        "limit": "the limit was reached; raise the limit",
        "seconds": "the time was over; give it more seconds",
        "undecided": f"{len(result.undecided)} selections are too large to decide exactly",
        "interrupted": "interrupted",
    }
    return f"{text}incomplete, {reasons[result.cut]}. So far: {result.headline}"


def _selections(result: SolveResult) -> Page:
    """Return the table of selections, the best first; # is the index in the JSON."""
    entries = result.ranked[:ROWS]
    names = spelled_selections([selection.selection for _, selection in entries], LONGEST)
    rows, supports, styles = [], [], []
    for name, (k, selection) in zip(names, entries, strict=True):
        best = selection.max_margin
        attracts = {"strong": "yes"}.get(selection.attracts.written, selection.attracts.written)
        proof = "kkt < 1e-15" if best.kkt < 1e-15 else f"kkt {best.kkt:.0e}"
        proof = "exact" if best.arithmetic == "exact" else proof
        role = attracts + (", best" if selection.is_best else "")
        rows.append([str(k), name, _vector(selection.direction), f"{best.margin:.6g}", role, proof])
        supports.append(best.support)
        styles.append("green" if attracts == "yes" else "")
    head = ["#", "selection", "direction", "margin", "attracts", "proof"]
    pairs = [" ".join(f"({i}, {t})" for i, t in support) for support in supports]
    counts = [f"{len(support)} constraints" for support in supports]
    return _fitting(
        styles,
        ([*head, "support (i, t)"], [[*row, text] for row, text in zip(rows, pairs, strict=True)]),
        ([*head, "support"], [[*row, text] for row, text in zip(rows, counts, strict=True)]),
        (
            ["#", "margin", "attracts", "proof", "selection, direction"],
            [[k, *middle, f"{name}\n{direction}"] for k, name, direction, *middle in rows],
        ),
    )


def _fitting(styles: Sequence[str], *versions: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Page:
    """Return the first of several versions of a table, names and rows, that fits, or else the last one."""
    for names, rows in versions:
        widths = [max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)]
        if sum(widths) - 2 <= columns():
            break
    return grid(names, rows, styles)


def spelled_selections(selections: Sequence[tuple[int, ...]], most: int) -> list[str]:
    """Write each selection in full, or the inputs that distinguish them if one exceeds ``most`` letters.

    >>> from hardmax.app.results.solve import spelled_selections
    >>> spelled_selections([(0, 1, 2), (0, 2, 2)], 10)
    ['0 1 2', '0 2 2']
    >>> spelled_selections([(0,) * 50 + (1,), (0,) * 50 + (2,)], 40)
    ['50:1, else 0 0 0 0 0 0 0 0 0 0 0 0 ...', '50:2, else 0 0 0 0 0 0 0 0 0 0 0 0 ...']
    """
    texts = [" ".join(map(str, tokens)) for tokens in selections]
    if all(len(text) <= most for text in texts):
        return texts
    inputs: list[int] = []  # a few inputs whose tokens differ between any two different selections
    while len({tuple(tokens[i] for i in inputs) for tokens in selections}) < len(set(selections)):
        counts = [
            len({(*(tokens[j] for j in inputs), tokens[i]) for tokens in selections})
            for i in range(len(selections[0]))
        ]
        inputs.append(counts.index(max(counts)))
    marks = [" ".join(f"{i}:{tokens[i]}" for i in sorted(inputs)) for tokens in selections]
    if max(map(len, marks)) > most - len(", else 0 0 ..."):
        return marks
    marks = [f"{mark}, else " if mark else "" for mark in marks]
    others = [[str(t) for i, t in enumerate(tokens) if i not in inputs] for tokens in selections]
    return [mark + _cut(words, most - len(mark)) for mark, words in zip(marks, others, strict=True)]


def _cut(words: Sequence[str], most: int) -> str:
    """Return the words, or as many of them as fit before three dots."""
    text = " ".join(words)
    if len(text) <= most:
        return text
    return f"{text[: max(most - 4, 0) + 1].rpartition(' ')[0]} ...".lstrip()


def _global(tokens: str, best: MaxMargin) -> str:
    if best.is_feasible:
        return f"best-scoring tokens {tokens}: feasible, margin {best.margin:.6g}"
    if best.farkas is None:
        return f"best-scoring tokens {tokens}: undecided"
    used = [(best.constraints.label(j), w) for j, w in enumerate(best.farkas.tolist()) if w]
    rows = ", ".join(f"{w:.4g} x ({i}, {t})" for (i, t), w in used[:8]) + (", ..." if len(used) > 8 else "")
    return f"best-scoring tokens {tokens}: infeasible, constraints cancel: {rows}"


def _split(split: Decomposition) -> str:
    """Describe what training does where the best-scoring tokens cannot all be selected."""
    where = "that keeps to them" if split.is_local else "from any start"
    text = f"their constraints: {len(split.bound)} bound, {len(split.separable)} separable ({split.status}). "
    text += f"Training {where}\n  holds a part of p of dimension {split.S.shape[1]} finite"
    if not split.is_local and split.finite is not None:
        text += f": p_fin = {_vector(split.finite.p, 60)}, infimum of the risk {split.finite.risk:.6g}"
    if split.direction is None:
        return f"{text}\n  drives nothing to infinity"
    return f"{text}\n  drives the rest to infinity along {_vector(split.direction, 60)}"


def _flow(flow: FlowEnd) -> str:
    path = flow.path
    text = f"{path.method} from {flow.start}: at log t = {float(path.times[-1]):.6g} |p| = {path.p_norm:.6g}"
    if flow.selection is not None:
        text += f", it selects {_cut([str(t) for t in flow.selection], 60)}"
    if path.event:
        text += f", event: {path.event}"
    if flow.nearest is not None:
        text += f"; nearest is #{flow.nearest}, 1 - cos = {flow.misalignment:.3g}"
    return text if flow.status == "complete" else f"{text}; {flow.status}"


def _vector(direction: Any, most: int = LONGEST) -> str:
    """Return the entries of a vector, as many as fit in ``most`` characters."""
    if direction is None or not all(map(math.isfinite, direction)):
        return "none"
    return _cut([f"{x:+.4f}" for x in direction], most)


def _critical(result: CriticalDirections) -> list[Any]:
    """Return a table of the directions, and what the index theorem implies for finite stationary points."""
    parts: list[Any] = [f"critical directions at infinity: {len(result.directions)}"]
    rows, styles = [], []
    for critical in result.directions[:ROWS]:
        signs = ["+" if m > 0 else "-" for m in critical.multipliers]
        signed = " ".join(f"{sign}({i}, {t})" for (i, t), sign in zip(critical.rows, signs, strict=True))
        tokens = _cut([*map(str, critical.selection)], LONGEST)
        direction, margin = _vector(critical.direction), f"{critical.margin:.5g}"
        rows.append([str(critical.index), tokens, direction, margin, signed])
        styles.append("green" if critical.index == 0 else "")
    if rows:
        narrow = [[k, margin, "\n".join((tokens, x, signed))] for k, tokens, x, margin, signed in rows]
        wide = ("index", "selection", "direction", "margin", "signed constraints (i, t)"), rows
        head = ("index", "margin", "selection, direction, signed constraints (i, t)")
        parts.append(_fitting(styles, wide, (head, narrow)))
    if len(result.directions) > ROWS:
        parts.append(f"{len(result.directions) - ROWS} more directions are in the JSON")
    if result.status == "truncated":
        return [*parts, f"incomplete after {result.sets} sets of constraints; give it more seconds"]
    if result.degenerate:
        more = f" (and {len(result.degenerate) - 1} more)" if len(result.degenerate) > 1 else ""
        return [*parts, f"the index theorem does not apply: {result.degenerate[0]}{more}"]
    total = (
        f"sum of (-1)^index at infinity: {result.sum}; "
        f"finite stationary points must sum to 1 - {result.sum} = {1 - result.sum}"
    )
    return [*parts, total.replace("- -", "+ ")]


LIMIT = 10_000  # feasible selections
SECONDS = 60.0
LARGE = 20_000  # tokens; one hard-margin problem of more may take seconds
STEPS = 1000  # of the progress
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
    >>> [found.selection for found in result.selections], result.flow.selection, result.flow.nearest
    ([(1,), (0,)], (0,), 1)
    """
    from hardmax._lib import expect
    from hardmax.data.small import load_problem
    from hardmax.directions.critical import critical_directions
    from hardmax.directions.enumerate import selections
    from hardmax.margin.att_svm import best_max_margins
    from hardmax.margin.norms import norm as norm_of
    from hardmax.problem import Problem

    started = time.monotonic()
    if seconds is not None:
        expect.positive("seconds", seconds)
    if start is not None and not flow:
        raise ValueError("`start` requires `flow=True`")
    norm_name = norm_of_file(norm) if isinstance(norm, str) else norm
    name = "problem" if isinstance(problem, Problem) else os.fspath(problem)
    posed = problem if isinstance(problem, Problem) else load_problem(name)
    begin, start_name = _start(posed, start)
    if plot is not None and posed.d != 2:
        raise ValueError(f"`plot` needs keys in 2 dimensions, got {posed.d}; leave it out")
    writable("plot", plot, problem, start, picture=True)
    if certificates is not None:
        _provable(Path(certificates), problem, start)
    # reading has taken some of the time; the search needs a positive rest to report that it has none
    rest = None if seconds is None else max(started + seconds - time.monotonic(), 1e-9)
    end = math.inf if rest is None else time.monotonic() + rest
    in_norm = norm_of(norm_name)
    _check_norm(in_norm, posed, exact=exact, flow=flow, critical=critical)
    parts: dict[str, Any] = {"selections": [], "best": []}
    with session().progress("searching", STEPS, progress) as bar:
        try:
            with none_lost():
                search = selections(posed, limit=limit, seconds=rest, progress=bar.to, norm=in_norm)
                proofs = _list(parts, search, in_norm, every=all, exact=exact)
                solutions = best_max_margins(posed, exact=exact, known=proofs, norm=in_norm)
                _solve_best(parts, solutions, posed, limit, end)
                _decompose(parts, posed, end)
                if critical:
                    parts["critical"] = critical_directions(posed, seconds=rest)
                if flow:
                    parts["flow"] = _flow_end(posed, begin, start_name, in_norm, parts["selections"])
                parts["interrupted"] = False
        except KeyboardInterrupt:
            session().keep("stopping; the results so far follow")
    parts |= {"selections": tuple(parts["selections"]), "best": tuple(parts["best"])}
    result = SolveResult(posed, name, norm=in_norm.name, **parts)
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


def _provable(folder: Path, *inputs: Any) -> None:
    """Refuse a folder that cannot receive certificates, or in which they may overwrite an input."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`certificates` {folder}: this is a file; give the name of a folder")
    for file in (path for path in inputs if isinstance(path, str | os.PathLike)):
        parent, name = os.path.split(os.path.realpath(file))
        if PROOF.fullmatch(name) and parent == os.path.realpath(folder):
            raise ValueError(f"`certificates` {folder}: it may overwrite {name}; choose another folder")


def _check_norm(norm: Norm, problem: Problem, *, exact: bool, flow: bool, critical: bool) -> None:
    """Refuse what the norm does not support, before the search and not after it."""
    from hardmax.margin.att_svm import AttentionRows

    if norm.name == "l2":
        return
    norm.refuse(AttentionRows(problem).constraints([]), exact)
    if flow:
        from hardmax.dynamics.flow import smooth

        smooth(norm, "log t", mirror=False)
    if critical:
        raise ValueError(f"`critical=True` supports only norm l2, got norm={norm.name!r}")


# Each step of a search writes into ``parts`` what it has of the result, which an interrupt leaves there.


def _list(
    parts: dict[str, Any], search: SelectionList, norm: Norm, *, every: bool, exact: bool
) -> dict[tuple[int, ...], MaxMargin]:
    """List the selections of a search; return the solutions for best-scoring tokens."""
    from hardmax.directions.neighbors import score_gap
    from hardmax.margin.att_svm import max_margin

    solutions = {}
    try:
        for entry in search:
            if every or entry.attracts.verdict is not False:
                if exact and entry.max_margin.arithmetic != "exact":
                    proof = max_margin(search.problem, entry.selection, exact=True, norm=norm)
                    entry = replace(entry, max_margin=proof, score_gap=score_gap(search.problem, proof))
                parts["selections"].append(entry)
            if entry.is_best and not (exact and entry.max_margin.arithmetic != "exact"):
                solutions[entry.selection] = entry.max_margin
    finally:
        parts["cut"] = None if search.status == "complete" else search.reason or "interrupted"
        parts |= {"found": search.feasible, "qps": search.problems_solved, "undecided": search.undecided}
    return solutions


def _solve_best(
    parts: dict[str, Any], solutions: Iterable[Best], problem: Problem, limit: int | None, end: float
) -> None:
    """Solve the selections of best-scoring tokens; ties may make more than the limit or the time allows.

    The first is solved even after the time is over, unless the problem is large.
    """
    from hardmax.problem.selection import best_tokens

    if time.monotonic() > end and len(problem.tokens) > LARGE:
        return
    most = sys.maxsize if limit is None else min(limit, sys.maxsize)
    for solution in itertools.islice(solutions, most):
        parts["best"].append(solution)
        if time.monotonic() > end:
            break
    parts["all_best"] = len(parts["best"]) == math.prod(map(len, best_tokens(problem).sets))


def _decompose(parts: dict[str, Any], problem: Problem, end: float) -> None:
    """Split p into finite and diverging parts where no best-scoring tokens can all be selected."""
    if not parts["best"] or any(best.is_feasible is not False for _, best in parts["best"]):
        return
    from hardmax.limits.decomposition import decompose
    from hardmax.limits.partition import MOST_ROWS

    if time.monotonic() < end and len(problem.tokens) - problem.n <= MOST_ROWS:
        parts["decomposition"] = decompose(problem, parts["best"][0][0])


def _flow_end(
    problem: Problem, start: Any, start_name: str, norm: Norm, selections: Sequence[FeasibleSelection]
) -> FlowEnd:
    """Follow the flow and compare its end with the listed directions."""
    from hardmax._lib.arrays import cosine_distance
    from hardmax.dynamics.flow import flow

    path = flow(problem, start=start, norm=norm)
    angles = {
        k: cosine_distance(path.p, entry.direction)
        for k, entry in enumerate(selections)
        if path.p.any() and entry.direction is not None and math.isfinite(entry.max_margin.p_norm)
    }
    nearest = min(angles, key=lambda k: angles[k], default=None)
    return FlowEnd(start_name, path, nearest, None if nearest is None else angles[nearest])
