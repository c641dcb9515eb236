"""Every feasible selection of a problem, and every one that attracts: generators with a budget (B-DEF-13)."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardmax._lib import expect
from hardmax._lib.notebook import table
from hardmax.directions.leaves import Leaf, Leaves
from hardmax.directions.neighbors import Word, attracts, unsettled
from hardmax.directions.plane_sweep import sweep
from hardmax.directions.search import Block, Tree
from hardmax.margin.constraints import Floats
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.norms.in_norm import check_norm
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem, need_problem
from hardmax.problem.selection import optimal_tokens


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
class Budget:
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
        budget: Budget,
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
        self._is_l2 = self._norm.power == 2
        self._tree = Tree(problem, budget.min_margin if self._is_l2 else 0.0)
        check_norm(self._tree.rows.constraints([]), self._norm)
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
        heap: list[tuple[float, int, Block | Leaf]] = []

        def push(block: Block) -> None:
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
            block = Block.join(nodes)
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
    budget = Budget(limit, seconds, min_margin, top)
    return Enumeration(problem, budget, only_local=False, progress=progress, norm=norm)


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
    budget = Budget(limit, seconds, min_margin, top)
    return Enumeration(problem, budget, only_local=True, progress=progress, norm=norm)
