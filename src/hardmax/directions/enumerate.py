"""Every feasible selection of a problem, and every one that attracts: generators with a budget (B-DEF-13)."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, cmp_to_key
from typing import Literal, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.notebook import table
from hardmax.directions.neighbors import Word, attracts, known_gap, unsettled
from hardmax.directions.search import NodeBlock, Tree
from hardmax.margin.att_svm import RESOLUTION
from hardmax.margin.constraints import Floats, Ints
from hardmax.margin.measure import Tight, enclose, measure
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.rationals import integers
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import L2, kept, proves
from hardmax.problem import Problem, need_problem
from hardmax.problem.selection import optimal_tokens, slot_gaps


@dataclass(frozen=True, eq=False)
class Leaf:
    """A feasible selection with its certified solution, and the score gap of every row of it."""

    tokens: tuple[int, ...]
    best: MaxMargin
    gaps: Floats
    known: float | None = None  # the least gap over its tight rows, where there is no doubt

    @property
    def gap(self) -> float:
        """The least gap over its tight rows."""
        return known_gap(self.best, self.gaps) if self.known is None else self.known


class Leaves:
    """What a tree ends in."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._own_gaps: dict[tuple[int, int], Floats] = {}
        self._every_gap: dict[int, list[Floats]] = {}  # of all inputs that select this token

    @cached_property
    def inputs(self) -> list[int]:
        """Inputs with a choice, as the problem orders them; their rows stand in this order."""
        return sorted(self.tree.order)

    def of(self, block: NodeBlock) -> Iterator[Leaf]:
        """Full selections of a block that are feasible, each certified on its own rows."""
        if not len(block):
            return
        tree, inputs = self.tree, self.inputs
        tokens = block.tokens[:, np.argsort(tree.order)]
        A = np.concatenate([tree.rows_of(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        weights = block.weights[:, self._row_order()]
        norms = np.sqrt(np.einsum("bmd,bmd->bm", A, A))
        Mp = np.einsum("bmd,bd->bm", A, block.p)
        u = np.einsum("bmd,bm->bd", A, weights)
        norm_p, norm_u, gap = (np.sqrt(np.einsum("bd,bd->b", x, x)) for x in (block.p, u, block.p - u))
        h, equal = np.ones_like(Mp), np.zeros(Mp.shape, dtype=bool)
        measured = measure(Mp, h, equal, weights, norms, norm_p, norm_u, gap, tree.problem.d)
        good = proves(measured)
        if tree.problem.gram is not None:
            good &= measured.lower > RESOLUTION * norms.max(axis=1)
        # Slacks are enclosed here, for a block at once; the rows of a Gram matrix carry its rounding, too.
        tight = enclose(A, h, equal, weights, block.p) if tree.problem.gram is None else None
        with np.errstate(over="ignore", under="ignore"):
            p, multipliers = np.ldexp(block.p, -tree.power), np.ldexp(weights, -2 * tree.power)
            lower, upper = (np.ldexp(x, tree.power).tolist() for x in (measured.lower, measured.upper))
        good &= kept(block.p, p) & kept(weights, multipliers)
        residuals = measured.kkt.tolist()
        gaps = np.concatenate([self._gaps(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        known = _least(gaps, tight)
        selections = map(tuple, self._named(tokens).tolist())
        every = zip(selections, tree.rows.each(inputs, tokens), good.tolist(), strict=True)
        for b, (selection, constraints, is_good) in enumerate(every):
            if is_good:
                best = MaxMargin(
                    constraints,
                    "certified",
                    "float",
                    p[b],
                    multipliers[b],
                    (lower[b], upper[b]),
                    residuals[b],
                    selection=selection,
                )
                if tight is not None:
                    best.__dict__["enclosure"] = Tight(tight.certain[b], tight.possible[b])
                yield Leaf(selection, best, gaps[b], known[b])
                continue
            best = replace(tree.decide(inputs, tokens[b]), selection=selection)
            if best.is_certified and best.slack is not None:
                yield Leaf(selection, best, gaps[b])
            elif not best.is_certified and best.is_feasible is not False:
                tree.undecided.append(selection)

    def in_norm(self, leaves: Iterator[Leaf], norm: Norm, goes_on: Callable[[], bool]) -> Iterator[Leaf]:
        """The same selections, because feasibility knows no norm, each solved in this one."""
        for leaf in leaves:
            if not goes_on():
                return
            self.tree.qps += 1
            best = norm.solve(leaf.best.constraints)
            if best.is_certified:
                yield Leaf(leaf.tokens, best.selecting(leaf.tokens), leaf.gaps)
            else:
                self.tree.undecided.append(leaf.tokens)

    def nothing_to_select(self) -> Leaf:
        """The one selection of a problem whose inputs have one token each: p is zero."""
        tokens = (0,) * self.tree.problem.n
        return Leaf(tokens, replace(self.tree.rows.solve([]), selection=tokens), np.zeros(0))

    def _named(self, tokens: Ints) -> Ints:
        """Selections by the numbers of the problem, inputs without a choice included."""
        named = np.zeros((len(tokens), self.tree.problem.n), dtype=np.int64)
        for j, i in enumerate(self.inputs):
            named[:, i] = self.tree.rows.names[i][tokens[:, j]]
        return named

    def _gaps(self, i: int, chosen: Ints) -> Floats:
        """Score gaps of the rows of one input, for each of these tokens of it."""
        used = sorted(set(chosen.tolist()))
        return np.stack([self._gaps_to_rivals(i, t) for t in used])[np.searchsorted(used, chosen)]

    def _gaps_to_rivals(self, i: int, t: int) -> Floats:
        """Of one token; kept, because thousands of selections share them."""
        if (i, t) not in self._own_gaps:
            problem, names = self.tree.problem, self.tree.rows.names[i]
            token = int(names[t])
            if token not in self._every_gap:
                same = np.minimum(token, problem.sizes - 1)
                self._every_gap[token] = problem.split(slot_gaps(problem, same))
            self._own_gaps[i, t] = self._every_gap[token][i][names[names != token]]
        return self._own_gaps[i, t]

    def _row_order(self) -> Ints:
        """Where the rows of each input, in the problem's order, stand in the order of the search."""
        order = self.tree.order
        sizes = {i: len(self.tree.others[i]) - 1 for i in order}
        first = dict(zip(order, np.cumsum([0, *(sizes[i] for i in order)]).tolist(), strict=False))
        return np.concatenate([first[i] + np.arange(sizes[i]) for i in self.inputs])


def _least(gaps: Floats, tight: Tight | None) -> list[float | None]:
    """The least gap over the tight rows of each leaf; None where rows in doubt matter to it."""
    if tight is None:
        return [None] * len(gaps)
    least, most = (np.where(rows, gaps, np.inf).min(axis=1) for rows in (tight.possible, tight.certain))
    same = (least == most).tolist()
    return [gap if sure else None for gap, sure in zip(least.tolist(), same, strict=True)]


Point = tuple[int, int]


class Turn(NamedTuple):
    """At the normal of an edge an input passes from one token to another."""

    edge: Point
    input: int
    before: int
    after: int


def sweep(keys: list[Floats], goes_on: Callable[[], bool] = lambda: True) -> Iterator[tuple[int, ...]]:
    """Every selection that some direction makes strictly, once each; inputs have two tokens or more.

    ``goes_on`` is asked before each input; its no ends the search.

    >>> import numpy as np
    >>> list(sweep([np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.5]])]))
    [(0, 1), (0, 0), (1, 0), (1, 1)]
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
    for turn, after in zip(turns, turns[1:] + turns[:1], strict=True):
        current[turn.input] = turn.after
        is_last_here = _compare(turn.edge, after.edge) != 0  # several inputs may turn at once
        if is_last_here and not any(t in twins[i] for i, t in enumerate(current)):
            yield tuple(current)


def _hull(points: list[Point]) -> list[Point]:
    """Strict vertices of the convex hull of sorted points, counter-clockwise (Andrew's monotone chain)."""

    def chain(along: list[Point]) -> list[Point]:
        kept: list[Point] = []
        for point in along:
            while len(kept) > 1 and _cross(_from(kept[-2], kept[-1]), _from(kept[-2], point)) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return chain(points) + chain(points[::-1])


def _from(a: Point, b: Point) -> Point:
    return b[0] - a[0], b[1] - a[1]


def _cross(a: Point, b: Point) -> int:
    return a[0] * b[1] - a[1] * b[0]


def _compare(a: Point, b: Point) -> int:
    """Order of two edges by their angle in [0, 2 pi), the same as that of their outward normals."""
    half_a, half_b = a < (0, 0) if a[1] == 0 else a[1] < 0, b < (0, 0) if b[1] == 0 else b[1] < 0
    if half_a != half_b:
        return 1 if half_a else -1
    cross = _cross(a, b)
    return -1 if cross > 0 else int(cross < 0)


@dataclass(frozen=True, eq=False)
class FeasibleSelection:
    """A selection that some p makes, with its max-margin solution and what attracts about it.

    ``score_gap`` is the least score by which a selected token beats its SVM neighbours (inf without any; nan
    where it is in doubt whether a row is tight, and so whether the selection is locally optimal, and where it
    is tight at some of several optimal p).

    >>> import hardmax as hm
    >>> found = next(hm.locally_optimal(hm.data.named("B-FIG-1b")))
    >>> found.selection, found.max_margin.status, found.locally_optimal, found.globally_optimal
    ((1,), 'certified', True, False)
    """

    selection: tuple[int, ...]
    max_margin: MaxMargin
    score_gap: float
    globally_optimal: bool

    @property
    def locally_optimal(self) -> bool | None:
        """Whether every selected token scores strictly above its neighbours; None if in doubt, or weak."""
        return attracts(self.score_gap)

    @property
    def word(self) -> Word:
        """How it attracts: "strong", "weak", "no" or "doubtful", as `local_optimality` says."""
        verdict = self.locally_optimal
        return unsettled(self.max_margin) if verdict is None else "strong" if verdict else "no"

    def _repr_html_(self) -> str:
        best = self.max_margin
        rows = [
            ("tokens", " ".join(map(str, self.selection))),
            ("margin", f"{best.margin:.6g} ({best.status}, {best.certificate})"),
            ("attracts", "yes" if self.locally_optimal else "no" if self.word == "no" else self.word),
            ("best scores", "yes" if self.globally_optimal else "no"),
            ("direction", "none: p is zero" if self.direction is None else str(self.direction.round(6))),
        ]
        return table("FeasibleSelection", ["", ""], rows)

    @property
    def direction(self) -> Floats | None:
        """The unit vector of p_mm; None if p_mm is zero."""
        return self.max_margin.direction


Progress = Callable[[float], None]


@dataclass(frozen=True)
class SearchBudget:
    """How much of the search to do; None is all of it."""

    limit: int | None
    seconds: float | None
    min_margin: float
    top: int | None

    def __post_init__(self) -> None:
        for name in ("limit", "top"):
            if getattr(self, name) is not None:
                expect.whole(name, getattr(self, name), 1)
        if self.seconds is not None:
            expect.positive("seconds", self.seconds)
        if not (self.min_margin >= 0 and np.isfinite(self.min_margin)):
            raise ValueError(f"min_margin must be a number of at least 0, got {self.min_margin}")


class Enumeration(Iterator[FeasibleSelection]):
    """Yields feasible selections as they are found, and knows how far it got.

    ``status`` is "running", "complete" or "truncated", and then ``reason`` says by what: "limit", "seconds"
    or "undecided" (selections too large for exact arithmetic, listed in ``undecided``). ``found`` counts the
    feasible selections met so far, ``qps`` the hard-margin problems solved.

    >>> import hardmax as hm
    >>> search = hm.feasible_selections(hm.data.named("B-FIG-8"))
    >>> len(list(search)), search.status, search.found
    (4, 'complete', 4)
    """

    def __init__(
        self,
        problem: Problem,
        budget: SearchBudget,
        *,
        only_local: bool,
        progress: Progress | None,
        norm: Norm | str | float = "l2",
    ) -> None:
        self.status: Literal["running", "complete", "truncated"] = "running"
        self.reason: str | None = None
        self.found = 0
        self._budget, self._only_local, self._progress = budget, only_local, progress
        self._best = [frozenset(tokens) for tokens in optimal_tokens(problem).sets]
        self._problem = problem
        self._norm = norm_of(norm)
        self._is_l2 = self._norm == L2
        self._tree = Tree(problem, budget.min_margin if self._is_l2 else 0.0)
        self._norm.refuse(self._tree.rows.constraints([]))
        self._leaves = Leaves(self._tree)
        self._results = self._run()

    @property
    def qps(self) -> int:
        """Hard-margin problems solved so far."""
        return self._tree.qps

    @property
    def undecided(self) -> tuple[tuple[int, ...], ...]:
        """Selections that neither floats nor exact arithmetic within its size settled."""
        return tuple(self._tree.undecided)

    def _repr_html_(self) -> str:
        # showing it must not use it up, so nothing is searched for
        rows = [("status", self.status if self.reason is None else f"{self.status}: {self.reason}")]
        rows += [("feasible so far", str(self.found)), ("problems solved", str(self.qps))]
        return table("Enumeration", ["", ""], rows)

    def __iter__(self) -> Enumeration:
        return self

    def __next__(self) -> FeasibleSelection:
        return next(self._results)

    def _run(self) -> Iterator[FeasibleSelection]:
        seconds = self._budget.seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        if not self._tree.order:
            leaves: Iterator[Leaf] = iter([self._leaves.nothing_to_select()])
        elif self._problem.shape == (2,):
            leaves = self._around()
        else:
            in_order = self._budget.top is not None and self._is_l2
            leaves = self._best_first() if in_order else self._depth_first()
        if not self._is_l2:
            leaves = self._leaves.in_norm(leaves, self._norm, self._has_time)
            if self._budget.top is not None:
                leaves = iter(sorted(leaves, key=lambda leaf: -leaf.best.margin))
        yielded = 0
        for leaf in leaves:
            if leaf.best.margin_interval[1] < self._budget.min_margin:
                continue
            if self.found == self._budget.limit:
                self._stop("limit")
                break
            self.found += 1
            result = self._judge(leaf)
            if result.locally_optimal is not False or not self._only_local:
                yielded += 1
                yield result
            if yielded == self._budget.top:
                break
        if self.status == "running":
            self.status = "complete"
            if self.undecided:
                self._stop("undecided")

    def _judge(self, leaf: Leaf) -> FeasibleSelection:
        best = all(t in tokens for t, tokens in zip(leaf.tokens, self._best, strict=True))
        return FeasibleSelection(leaf.tokens, leaf.best, leaf.gap, best)

    def _stop(self, reason: str) -> None:
        self.status, self.reason = "truncated", reason

    def _in_time(self, left: float) -> bool:
        """Report progress; False, once and for all, when the time is over."""
        if self._progress is not None:
            self._progress(1.0 - left)
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
                yield from self._leaves.of(children)
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
        left = 1.0
        while heap:
            _, _, node = heapq.heappop(heap)
            if isinstance(node, Leaf):
                yield node
                continue
            if not self._in_time(left):
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
                left -= float(block.share.sum() - children.share.sum())
                push(children)
                continue
            left -= float(block.share.sum())
            for leaf in self._leaves.of(children):
                scaled = float(np.ldexp(leaf.best.margin_interval[1], -tree.power))
                heapq.heappush(heap, (-scaled, next(counter), leaf))

    def _around(self) -> Iterator[Leaf]:
        """The plane: the sweep names the feasible selections, each needs one solution."""
        tree = self._tree
        keys = self._problem.split(self._problem.keys[tree.rows.slots])
        named = sweep([keys[i][tree.rows.names[i]] for i in tree.order], self._has_time)
        room, most = tree.room(tree.depth - 1), sum(len(tree.others[i]) for i in tree.order)
        leaves: list[Leaf] = []
        done = 0
        while some := list(itertools.islice(named, room)):
            if not self._in_time(max(0.0, 1 - done / most)):
                break
            done += len(some)
            block = self._leaves.of(tree.solve(np.array(some, dtype=np.int64)))
            if self._budget.top is None:
                yield from block
            else:
                leaves += block
        yield from sorted(leaves, key=lambda leaf: -leaf.best.margin)


@check_arguments
def feasible_selections(
    problem: Problem,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    min_margin: float = 0.0,
    top: int | None = None,
    progress: Progress | None = None,
    norm: Norm | str | float = "l2",
) -> Enumeration:
    """Every selection that some p makes, each with its certified max-margin solution; there may be T^n.

    Args:
        problem: whose tokens are selected.
        limit: stop after this many feasible selections.
        seconds: stop after this time.
        min_margin: leave out smaller margins.
        top: give that many of the largest margins, best first.
        progress: called with the share of the search that is done.
        norm: of the max-margin solutions, as for `max_margin`; other norms than l2 take longer.

    >>> import hardmax as hm
    >>> search = hm.feasible_selections(hm.data.named("B-FIG-1b"))
    >>> sorted(found.selection for found in search), search.qps
    ([(0,), (1,), (2,)], 3)
    """
    need_problem(problem)
    budget = SearchBudget(limit, seconds, min_margin, top)
    return Enumeration(problem, budget, only_local=False, progress=progress, norm=norm)


@check_arguments
def locally_optimal(
    problem: Problem,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    min_margin: float = 0.0,
    top: int | None = None,
    progress: Progress | None = None,
    norm: Norm | str | float = "l2",
) -> Enumeration:
    """Every locally optimal selection: the max-margin directions that attract (Definition 2).

    Arguments as for `feasible_selections`; ``limit`` counts feasible selections, because all have to be
    looked at: neighbours, and with them local optimality, change with every input. What is in doubt is listed
    too, with ``locally_optimal`` None; that can happen above 200 rows only. So are weak ones, in other norms,
    and ``word`` tells them apart.

    >>> import hardmax as hm
    >>> sorted(found.selection for found in hm.locally_optimal(hm.data.named("B-FIG-8")))
    [(0, 0), (0, 1)]
    """
    need_problem(problem)
    budget = SearchBudget(limit, seconds, min_margin, top)
    return Enumeration(problem, budget, only_local=True, progress=progress, norm=norm)
