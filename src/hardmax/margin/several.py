"""ATT-SVM' (B-DEF-15): several optimal tokens per input, and all global minimisers of a nonconvex problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from hardmax.margin.attention import AttentionRows
from hardmax.margin.constraints import Floats
from hardmax.margin.maxmargin import MaxMargin
from hardmax.margin.solve import solve
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens
from hardmax.selection.selected import Selection

EQUAL = 1e-9  # norms within this, relatively, are both minimal


@dataclass(frozen=True, eq=False)
class SetMaxMargin:
    """The shortest p that lift one token of each set above all tokens outside the set; there may be several.

    ``solutions`` pairs each optimal choice of tokens with its solution; where a set is the whole input there
    is nothing to choose and the set stays. Different choices may share their p: ``minimisers`` has each once.
    No solutions: the problem is infeasible, and ``norm`` is infinite.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])
    >>> sorted(p.tolist() for p in hm.set_max_margin(problem).minimisers)
    [[-1.0], [1.0]]
    """

    solutions: tuple[tuple[Selection, MaxMargin], ...]
    qps: int

    @property
    def norm(self) -> float:
        """Length of the minimisers."""
        return min((best.norm for _, best in self.solutions), default=np.inf)

    @property
    def margin(self) -> float:
        """1/norm."""
        return 1 / self.norm if self.norm else np.inf

    @property
    def minimisers(self) -> tuple[Floats, ...]:
        """The distinct minimisers."""
        found: list[Floats] = []
        for _, best in self.solutions:
            assert best.p is not None
            if all(np.linalg.norm(best.p - p) > 1e-7 * self.norm for p in found):
                found.append(best.p)
        return tuple(found)


def set_max_margin(
    problem: Problem, sets: Selection | Iterable[Iterable[int]] | None = None, *, exact: bool = False
) -> SetMaxMargin:
    """Minimise |p| so that in each input some token of its set beats every token outside the set by 1.

    ``sets`` are the best-scoring tokens, ties included, if absent. Exact: a depth-first search over the
    choices of one token per set, cut where a partial choice is already longer than the best full one.

    >>> import hardmax as hm
    >>> hm.set_max_margin(hm.data.named("B-FIG-1a"), sets=[[0, 1]]).solutions[0][0].tokens
    (0,)
    """
    search = _Search(problem, _checked(problem, sets), exact)
    search.extend([])
    return SetMaxMargin(tuple(search.best), search.qps)


class _Search:
    def __init__(self, problem: Problem, sets: list[tuple[int, ...]], exact: bool) -> None:
        self.sets, self.exact = sets, exact
        self.rows = AttentionRows(problem)
        self.free = {i for i, inside in enumerate(sets) if len(inside) == problem.sizes[i]}
        # Inputs with one choice first: their rows bound every branch.
        asks = (i for i in range(problem.n) if i not in self.free)
        self.order = sorted(asks, key=lambda i: len(sets[i]))
        self.best: list[tuple[Selection, MaxMargin]] = []
        self.qps = 0

    def extend(self, chosen: list[tuple[int, int]]) -> None:
        if len(chosen) == len(self.order):
            self.close(chosen)
            return
        i = self.order[len(chosen)]
        branches = [(self.solve([*chosen, (i, token)], exact=False), token) for token in self.sets[i]]
        bounds = [(_shortest(best), token) for best, token in branches if best.is_feasible is not False]
        for norm, token in sorted(bounds):
            if norm <= self.incumbent * (1 + EQUAL):
                self.extend([*chosen, (i, token)])

    @property
    def incumbent(self) -> float:
        return min((best.norm for _, best in self.best), default=np.inf)

    def close(self, chosen: list[tuple[int, int]]) -> None:
        best = self.solve(chosen, self.exact)
        if best.status == "undecided":
            raise ValueError(f"(input, token) {sorted(chosen)} is undecided in floats; ask for exact=True")
        if best.norm > self.incumbent * (1 + EQUAL):
            return
        tokens = dict(chosen)
        choice = Selection(tuple(s if i in self.free else (tokens[i],) for i, s in enumerate(self.sets)))
        kept = [(other, each) for other, each in self.best if each.norm <= best.norm * (1 + EQUAL)]
        self.best = [*kept, (choice, best)]

    def solve(self, chosen: list[tuple[int, int]], exact: bool) -> MaxMargin:
        """ATT-SVM of the choice, without the rows against tokens of the same set."""
        self.qps += 1
        constraints = self.rows.constraints(sorted(chosen))
        outside = [t not in self.sets[cast(int, i)] for i, t in constraints.labels or ()]
        return solve(constraints.subset(np.flatnonzero(outside)), exact)


def _shortest(best: MaxMargin) -> float:
    """What the solution proves |p| to be at least."""
    upper = best.margin_interval[1]
    return 1 / upper if upper else np.inf


def _checked(problem: Problem, sets: Selection | Iterable[Iterable[int]] | None) -> list[tuple[int, ...]]:
    if sets is None:
        sets = optimal_tokens(problem)
    given = sets.sets if isinstance(sets, Selection) else sets
    made = [tuple(dict.fromkeys(int(t) for t in tokens)) for tokens in given]
    if len(made) != problem.n:
        raise ValueError(f"sets must have one set of tokens per input ({problem.n}), got {len(made)}")
    for i, tokens in enumerate(made):
        if not tokens or not all(0 <= t < problem.sizes[i] for t in tokens):
            raise ValueError(f"sets[{i}] must be tokens from 0 to {problem.sizes[i] - 1}, got {list(tokens)}")
    return made
