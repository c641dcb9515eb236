"""Every feasible selection of a problem, and every one that attracts, within a budget."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.notebook import table
from hardmax._lib.plotting import axes_of, draw_directions
from hardmax._lib.progress import Progress, by_share
from hardmax._lib.result import Tabular
from hardmax.directions.neighbors import Attraction, known_gap, row_gaps
from hardmax.directions.search import Leaf, NodeBlock, Tree
from hardmax.margin.att_svm import best_max_margins
from hardmax.margin.constraints import Floats
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.rationals import integers
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import L2
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Point = tuple[int, int]


class Turn(NamedTuple):
    """At the normal of an edge an input passes from one token to another."""

    edge: Point
    input: int
    before: int
    after: int


def sweep(keys: list[Floats], goes_on: Callable[[], bool] = lambda: True) -> Iterator[tuple[int, ...]]:
    """Every selection that some direction makes strictly, once each; inputs have two tokens or more.

    ``goes_on`` is called before each input; the search ends when it returns False.
    """
    turns: list[Turn] = []
    twins: list[set[int]] = []
    for i, part in enumerate(keys):
        if not goes_on():
            return
        entries, _ = integers(part)
        points = list(zip(entries[::2], entries[1::2], strict=True))
        if len(set(points)) == 1:
            return  # the tokens are one point, so none beats the others
        first = {point: t for t, point in reversed(list(enumerate(points)))}
        twins.append({first[point] for point, count in Counter(points).items() if count > 1})
        corners = _hull(sorted(first))
        for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
            turns.append(Turn((b[0] - a[0], b[1] - a[1]), i, first[a], first[b]))
    angle = cmp_to_key(_compare)
    turns.sort(key=lambda turn: angle(turn.edge))
    current = [-1] * len(keys)
    for turn in reversed(turns):
        current[turn.input] = turn.before
    for turn, following in zip(turns, turns[1:] + turns[:1], strict=True):
        current[turn.input] = turn.after
        is_last_here = _compare(turn.edge, following.edge) != 0  # several inputs may turn at once
        if is_last_here and not any(t in twins[i] for i, t in enumerate(current)):
            yield tuple(current)


def _hull(points: list[Point]) -> list[Point]:
    """Strict vertices of the convex hull of sorted points, counter-clockwise (Andrew's monotone chain)."""

    def chain(along: list[Point]) -> list[Point]:
        corners: list[Point] = []
        for point in along:
            while len(corners) > 1 and _cross(corners[-2], corners[-1], point) <= 0:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    return chain(points) + chain(points[::-1])


def _cross(o: Point, a: Point, b: Point) -> int:
    """The cross product of a - o and b - o: positive where the way from a to b is counter-clockwise."""
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def _compare(a: Point, b: Point) -> int:
    """Order of two edges by their angle in [0, 2 pi), the same as that of their outward normals."""
    half_a, half_b = a < (0, 0) if a[1] == 0 else a[1] < 0, b < (0, 0) if b[1] == 0 else b[1] < 0
    if half_a != half_b:
        return 1 if half_a else -1
    cross = _cross((0, 0), a, b)
    return -1 if cross > 0 else int(cross < 0)


@dataclass(frozen=True, eq=False)
class FeasibleSelection:
    """A selection that some p makes, with its max-margin solution and whether it attracts.

    ``score_gap`` is the least score by which a selected token beats its SVM neighbors: inf without any, nan
    where it is not known which rows are tight, and where a row is tight at some of several optimal p.
    ``is_best``: every selected token has the best score of its input.

    >>> import hardmax as hm
    >>> found = hm.attractors(hm.data.example("B-FIG-1b"))[0]
    >>> found.selection, found.max_margin.status, found.attracts.value, found.is_best
    ((1,), 'certified', 'strong', False)
    """

    selection: tuple[int, ...]
    max_margin: MaxMargin
    score_gap: float
    is_best: bool

    def __repr__(self) -> str:
        best = ", best scores" if self.is_best else ""
        return f"FeasibleSelection({self.selection}, margin={self.margin:.6g}, {self.attracts.value}{best})"

    @property
    def attracts(self) -> Attraction:
        """Whether every selected token scores strictly above its neighbors."""
        if self.max_margin.is_feasible is False:
            return Attraction.NO
        return Attraction.of(self.max_margin, self.score_gap)

    @property
    def margin(self) -> float:
        """Margin of the selection, 1/|p_mm|."""
        return self.max_margin.margin

    @property
    def direction(self) -> Floats | None:
        """The unit vector of p_mm; None if p_mm is zero."""
        return self.max_margin.direction

    def _repr_html_(self) -> str:
        best = self.max_margin
        rows = [
            ("tokens", " ".join(map(str, self.selection))),
            ("margin", f"{best.margin:.6g} ({best.status}, {best.arithmetic})"),
            ("attracts", self._word),
            ("best scores", "yes" if self.is_best else "no"),
            ("direction", "none: p is zero" if self.direction is None else str(self.direction.round(6))),
        ]
        return table("FeasibleSelection", ["", ""], rows)

    @property
    def _word(self) -> str:
        """Whether it attracts, in a word."""
        return "yes" if self.attracts is Attraction.STRONG else self.attracts.value


HEAD = ("#", "tokens", "margin", "attracts", "best", "direction")
SHOWN = 50  # rows of a printed table
MOMENT = 2.0  # seconds of search to show a list without a limit of time


class SelectionList(Sequence[FeasibleSelection], Tabular):
    """Selections as a list that fills while it is iterated.

    ``limit``, ``seconds``, ``min_margin`` and ``top`` are those of `selections`. ``len`` and indices from the
    end complete the search, within ``limit`` and ``seconds``. ``repr``, printing and a notebook do the same
    where ``seconds`` is set, and else search for two seconds. ``status`` is "running", "complete" or
    "truncated", ``reason`` is the limit that ended the search early; ``feasible`` counts the feasible
    selections so far, ``problems_solved`` the problems solved for them.

    >>> import hardmax as hm
    >>> found = hm.attractors(hm.data.example("B-FIG-8"))
    >>> found
    SelectionList(2 attract of 4 feasible, complete)
    >>> found[-1].selection
    (0, 0)
    """

    def __init__(
        self,
        problem: Problem,
        limit: int | None,
        seconds: float | None,
        min_margin: float,
        top: int | None,
        *,
        only_local: bool,
        progress: Progress | None = None,
        norm: Norm | str | float = "l2",
        among: str = "all",
    ) -> None:
        for name, count in (("limit", limit), ("top", top)):
            if count is not None:
                expect.whole(name, count, 1)
        if seconds is not None:
            expect.positive("seconds", seconds)
        if not (min_margin >= 0 and np.isfinite(min_margin)):
            raise ValueError(f"min_margin must be a number of at least 0, got {min_margin}")
        self.status: Literal["running", "complete", "truncated"] = "running"
        self.reason: str | None = None
        self.feasible = 0
        self.problem = problem
        self._only_local, self._report = only_local, by_share(progress)
        self._norm, self._among = norm_of(norm), among
        self._limit, self._seconds, self._min_margin, self._top = limit, seconds, min_margin, top
        self._is_l2 = self._norm == L2
        self._tree = Tree(problem, min_margin if self._is_l2 else 0.0)
        self._norm.refuse(self._tree.rows.constraints([]))
        self._selections: list[FeasibleSelection] = []
        self._failure: Exception | None = None
        self._results = self._run() if among == "all" else self._run_best()

    @property
    def problems_solved(self) -> int:
        """Hard-margin problems solved so far."""
        return self._tree.qps

    @property
    def undecided(self) -> tuple[tuple[int, ...], ...]:
        """Selections that neither floats nor exact arithmetic within its size settled."""
        return tuple(self._tree.undecided)

    def _advance(self) -> bool:
        """Search for one more; False at the end."""
        if self._failure is not None:  # list() ignores a TypeError of len(), and would then miss the rest
            raise self._failure
        try:
            for selection in self._results:
                self._selections.append(selection)
                return True
        except Exception as failure:
            self._failure = failure
            raise
        return False

    def _complete(self) -> list[FeasibleSelection]:
        while self._advance():
            pass
        return self._selections

    def __iter__(self) -> Iterator[FeasibleSelection]:
        k = 0
        while k < len(self._selections) or self._advance():
            yield self._selections[k]
            k += 1

    def __len__(self) -> int:
        return len(self._complete())

    def __bool__(self) -> bool:
        return bool(self._selections) or self._advance()

    @overload
    def __getitem__(self, at: int) -> FeasibleSelection: ...

    @overload
    def __getitem__(self, at: slice) -> list[FeasibleSelection]: ...

    def __getitem__(self, at: int | slice) -> FeasibleSelection | list[FeasibleSelection]:
        if isinstance(at, slice) or at < 0:
            return self._complete()[at]
        while len(self._selections) <= at and self._advance():
            pass
        return self._selections[at]

    def _to_show(self) -> SelectionList:
        """Return this list, complete; or the result of a short search, where it has no limit of time."""
        if self.status != "running" or self._seconds is not None:
            self._complete()
            return self
        budget = self._limit, MOMENT, self._min_margin, self._top
        scope: dict[str, Any] = {"only_local": self._only_local, "norm": self._norm, "among": self._among}
        brief = SelectionList(self.problem, *budget, **scope)
        brief._complete()
        if brief.reason == "seconds":
            brief.reason = "len() completes the search"
            return brief
        self._selections, self._results, self._tree = brief._selections, iter(()), brief._tree
        self.status, self.reason, self.feasible = brief.status, brief.reason, brief.feasible
        return self

    def _counts(self) -> str:
        count, status = len(self), self.status if self.reason is None else f"{self.status}: {self.reason}"
        if self._only_local:
            return f"{count} attract of {self.feasible} feasible, {status}"
        return f"{count} selections, {status}"

    def __repr__(self) -> str:
        return f"SelectionList({self._to_show()._counts()})"

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for k, row in enumerate(self[:SHOWN]):
            q = row.direction
            along = "none" if q is None else " ".join([*(f"{x:+.4f}" for x in q[:6]), *["..."][: len(q) > 6]])
            tokens, best = " ".join(map(str, row.selection)), "yes" if row.is_best else "no"
            rows.append((str(k), tokens, f"{row.margin:.6g}", row._word, best, along))
        return rows

    def records(self) -> list[dict[str, Any]]:
        """Return a row per selection; this completes the search.

        >>> import hardmax as hm
        >>> [row["selection"] for row in hm.attractors(hm.data.example("two-inputs")).records()]
        [(0, 1), (0, 0)]
        """
        return [
            {
                "selection": row.selection,
                "margin": row.margin,
                "attracts": row._word,
                "best": row.is_best,
                "direction": None if row.direction is None else row.direction.tolist(),
            }
            for row in self
        ]

    def __str__(self) -> str:
        shown = self._to_show()
        rows = [HEAD, *shown._rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]
        lines = ["  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, shown._counts()])

    def _repr_html_(self) -> str:
        shown = self._to_show()
        return table(shown._counts(), list(HEAD), shown._rows())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the directions in the plane of `Problem.plot`, those that attract in red; return the axes.

        >>> import hardmax as hm
        >>> len(hm.attractors(hm.data.example("B-FIG-8")).plot().lines)
        3
        """
        return draw_directions(axes_of(ax), self, self.problem.plane)

    def _run(self) -> Iterator[FeasibleSelection]:
        self._set_end()
        leaves: Iterator[Leaf]
        if not self._tree.order:  # inputs have one token each: p is zero
            tokens = (0,) * self.problem.n
            best = replace(self._tree.rows.solve([]), selection=tokens)
            leaves = iter([Leaf(tokens, best, np.zeros(0))])
        elif self.problem.shape == (2,):
            leaves = self._around()
        else:
            in_order = self._top is not None and self._is_l2
            leaves = self._best_first() if in_order else self._depth_first()
        if not self._is_l2:
            leaves = self._in_norm(leaves)
            if self._top is not None:
                leaves = iter(sorted(leaves, key=lambda leaf: -leaf.best.margin))
        top_sets = [frozenset(tokens) for tokens in best_tokens(self.problem).sets]
        yielded = 0
        for leaf in leaves:
            if leaf.best.margin_interval[1] < self._min_margin:
                continue
            if self.feasible == self._limit:
                self._stop("limit")
                break
            self.feasible += 1
            is_best = all(t in top for t, top in zip(leaf.tokens, top_sets, strict=True))
            result = FeasibleSelection(leaf.tokens, leaf.best, leaf.gap, is_best)
            if result.attracts is not Attraction.NO or not self._only_local:
                yielded += 1
                yield result
            if yielded == self._top:
                break
        if self.status == "running":
            self.status = "complete"
            if self.undecided:
                self._stop("undecided")

    def _run_best(self) -> Iterator[FeasibleSelection]:
        """Every combination of best-scoring tokens, the infeasible ones with their Farkas vector."""
        self._set_end()
        for tokens, best in best_max_margins(self.problem, norm=self._norm):
            if self.feasible == self._limit:
                self._stop("limit")
                return
            if not self._has_time():
                return
            feasible = best.is_feasible is not False
            self.feasible += feasible
            has_p = feasible and best.slack is not None
            gap = known_gap(best, row_gaps(self.problem, best)) if has_p else math.nan
            yield FeasibleSelection(tokens, best, gap, True)
        self.status = "complete"

    def _in_norm(self, leaves: Iterator[Leaf]) -> Iterator[Leaf]:
        """Solve the selections of leaves in another norm; feasibility does not depend on the norm."""
        for leaf in leaves:
            if not self._has_time():
                return
            self._tree.qps += 1
            best = self._norm.solve(leaf.best.constraints)
            if best.is_certified:
                yield Leaf(leaf.tokens, best.selecting(leaf.tokens), leaf.gaps)
            else:
                self._tree.undecided.append(leaf.tokens)

    def _stop(self, reason: str) -> None:
        self.status, self.reason = "truncated", reason

    def _set_end(self) -> None:
        self._end = None if self._seconds is None else time.monotonic() + self._seconds

    def _in_time(self, rest: float) -> bool:
        """Report progress; False, once and for all, when the time is over."""
        self._report(1.0 - rest)
        return self._has_time()

    def _has_time(self) -> bool:
        if self._end is not None and time.monotonic() > self._end:
            self._stop("seconds")
        return self.status == "running"

    def _depth_first(self) -> Iterator[Leaf]:
        tree = self._tree
        stack = [tree.root(self._has_time)]
        while stack:
            block = stack.pop()
            if not len(block):
                continue
            if not self._in_time(sum(float(b.share.sum()) for b in (*stack, block))):
                return
            room = tree.room(block.depth)
            if len(block) > room:
                stack.append(block.take(slice(room, None)))
                block = block.take(slice(0, room))
            children = tree.expand(block)
            if children.depth == tree.depth:
                yield from tree.leaves(children)
            else:
                stack.append(children)

    def _best_first(self) -> Iterator[Leaf]:
        """Leaves by falling margin: a node's margin bounds those below it, so the best node goes first."""
        tree, counter = self._tree, itertools.count()
        heap: list[tuple[float, int, NodeBlock | Leaf]] = []

        def push(block: NodeBlock) -> None:
            for b in range(len(block)):
                heapq.heappush(heap, (-float(block.upper[b]), next(counter), block.take(slice(b, b + 1))))

        push(tree.root(self._has_time))
        rest = 1.0
        while heap:
            _, _, node = heapq.heappop(heap)
            if isinstance(node, Leaf):
                yield node
                continue
            if not self._in_time(rest):
                return
            nodes = [node]
            while len(nodes) < min(32, tree.room(node.depth)) and heap:
                other = heap[0][2]
                if isinstance(other, Leaf) or other.depth != node.depth:
                    break
                heapq.heappop(heap)
                nodes.append(other)
            block = NodeBlock.join(nodes)
            children = tree.expand(block)
            if children.depth < tree.depth:
                rest -= float(block.share.sum() - children.share.sum())
                push(children)
                continue
            rest -= float(block.share.sum())
            for leaf in tree.leaves(children):
                scaled = float(np.ldexp(leaf.best.margin_interval[1], -tree.power))
                heapq.heappush(heap, (-scaled, next(counter), leaf))

    def _around(self) -> Iterator[Leaf]:
        """The plane: the sweep names the feasible selections, each needs one solution."""
        tree = self._tree
        keys = self.problem.split(self.problem.keys[tree.rows.slots])
        turns = sweep([keys[i][tree.rows.names[i]] for i in tree.order], self._has_time)
        room, most = tree.room(tree.depth - 1), sum(len(tree.others[i]) for i in tree.order)
        leaves: list[Leaf] = []
        done = 0
        while some := list(itertools.islice(turns, room)):
            if not self._in_time(max(0.0, 1 - done / most)):
                break
            done += len(some)
            block = tree.leaves(tree.solve(np.array(some, dtype=np.int64)))
            if self._top is None:
                yield from block
            else:
                leaves += block
        yield from sorted(leaves, key=lambda leaf: -leaf.best.margin)


@check_arguments
def selections(
    problem: Problem,
    *,
    among: Literal["all", "best"] = "all",
    limit: int | None = None,
    seconds: float | None = None,
    min_margin: float = 0.0,
    top: int | None = None,
    progress: Progress | None = None,
    norm: Norm | str | float = "l2",
) -> SelectionList:
    """Find every selection that some p makes, each with its certified max-margin solution.

    There may be T^n of them; the result is a list that fills as it is iterated.

    Args:
        problem: the problem whose tokens are selected.
        among: "best" for the selections of best-scoring tokens alone, the infeasible ones included, each
            with its Farkas vector.
        limit: stop after this many feasible selections.
        seconds: stop after this time.
        min_margin: leave out selections with a smaller margin.
        top: return this many of the largest margins, best first.
        progress: called as ``progress(done, total)``.
        norm: norm of the max-margin solutions, as for `max_margin`; other norms than l2 take longer.

    >>> import hardmax as hm
    >>> found = hm.selections(hm.data.example("B-FIG-1b"))
    >>> sorted(each.selection for each in found), found.problems_solved
    ([(0,), (1,), (2,)], 3)
    >>> [each.margin for each in hm.selections(hm.data.example("B-FIG-1b"), among="best")]
    [1.0049875621120892]
    """
    return SelectionList(
        problem, limit, seconds, min_margin, top, only_local=False, progress=progress, norm=norm, among=among
    )


@check_arguments
def attractors(
    problem: Problem,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    min_margin: float = 0.0,
    top: int | None = None,
    progress: Progress | None = None,
    norm: Norm | str | float = "l2",
) -> SelectionList:
    """Find every selection that attracts training: the locally optimal ones (Definition 2).

    ``limit`` counts feasible selections, because all have to be looked at: neighbors change with every
    input. Selections whose ``attracts`` is UNDECIDED are listed too, which happens above 200 rows only, and
    WEAK ones, in other norms than l2.

    Args:
        problem: the problem whose tokens are selected.
        limit: stop after this many feasible selections.
        seconds: stop after this time.
        min_margin: leave out selections with a smaller margin.
        top: return this many of the largest margins, best first.
        progress: called as ``progress(done, total)``.
        norm: norm of the max-margin solutions, as for `max_margin`; other norms than l2 take longer.

    See also: `hm.attracts` for one selection, `hm.selections` for all that are feasible.

    >>> import hardmax as hm
    >>> found = hm.attractors(hm.data.example("B-FIG-8"))
    >>> len(found), round(found[0].margin, 6)
    (2, 1.0)
    >>> print(found)
    #  tokens  margin    attracts  best  direction
    0  0 1     1         yes       no    +1.0000 +0.0000
    1  0 0     0.316228  yes       yes   +0.3162 +0.9487
    2 attract of 4 feasible, complete
    """
    return SelectionList(
        problem, limit, seconds, min_margin, top, only_local=True, progress=progress, norm=norm
    )
