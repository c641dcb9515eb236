"""ATT-SVM' (B-DEF-15): several optimal tokens per input, and all global minimisers of a nonconvex problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.constraints import Floats
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import exactly, solve
from hardmax.problem import Problem
from hardmax.problem.selection import Selection, best_tokens

SAME = 1e-7  # minimisers this near to each other, relatively, are one where only floats know them


@dataclass(frozen=True, eq=False)
class SetMaxMargin:
    """The shortest p that lift one token of each set above all tokens outside the set; there may be several.

    ``solutions`` are those of the optimal choices of tokens, each with its ``selection``; where a set is the
    whole input there is nothing to choose and the set stays. Different choices may share their p:
    ``minimizers`` has each once. Lengths that floats cannot tell apart are compared as rational numbers, up
    to 200 rows. No solutions: the problem is infeasible and ``norm`` infinite; ``refuted`` proves it, parts
    of choices that contradict themselves, one of which is in every choice.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])
    >>> sorted(p.tolist() for p in hm.margin.set_max_margin(problem).minimizers)
    [[-1.0], [1.0]]
    """

    solutions: tuple[MaxMargin, ...]
    qps: int
    refuted: tuple[MaxMargin, ...] = ()

    @property
    def p_norm(self) -> float:
        """Length of the minimisers."""
        return min((best.p_norm for best in self.solutions), default=np.inf)

    @property
    def margin(self) -> float:
        """1/norm."""
        return 1 / self.p_norm if self.p_norm else np.inf

    @property
    def minimizers(self) -> tuple[Floats, ...]:
        """The distinct minimisers."""
        found: list[MaxMargin] = []
        for best in self.solutions:
            if not any(_same(best, other) for other in found):
                found.append(best)
        return tuple(best.need() for best in found)


@check_arguments
def set_max_margin(
    problem: Problem, sets: Selection | Iterable[Iterable[int]] | None = None, *, exact: bool = False
) -> SetMaxMargin:
    """Minimise |p| so that in each input some token of its set beats every token outside the set by 1.

    ``sets`` are the best-scoring tokens, ties included, if absent. Exact: a depth-first search over the
    choices of one token per set, cut where a partial choice is already longer than the best full one.

    >>> import hardmax as hm
    >>> hm.margin.set_max_margin(hm.data.example("B-FIG-1a"), sets=[[0, 1]]).solutions[0].selection.tokens
    (0,)
    """
    search = _Search(problem, _checked(problem, sets), exact)
    search.extend([])
    return SetMaxMargin(tuple(search.best), search.qps, () if search.best else tuple(search.refuted))


class _Search:
    def __init__(self, problem: Problem, sets: list[tuple[int, ...]], exact: bool) -> None:
        self.sets, self.exact = sets, exact
        self.rows = AttentionRows(problem)
        self.free = {i for i, inside in enumerate(sets) if len(inside) == len(self.rows.names[i])}
        # Inputs with one choice first: their rows bound every branch.
        asks = (i for i in range(problem.n) if i not in self.free)
        self.order = sorted(asks, key=lambda i: len(sets[i]))
        self.best: list[MaxMargin] = []
        self.refuted: list[MaxMargin] = []
        self.qps = 0

    def extend(self, chosen: list[tuple[int, int]]) -> None:
        if len(chosen) == len(self.order):
            self.close(chosen)
            return
        i = self.order[len(chosen)]
        branches = [(self.solve([*chosen, (i, token)], exact=False), token) for token in self.sets[i]]
        self.refuted += [best for best, _ in branches if best.is_feasible is False]
        bounds = [(_norms(best)[0], token) for best, token in branches if best.is_feasible is not False]
        for norm, token in sorted(bounds):
            if norm <= min((_norms(best)[1] for best in self.best), default=np.inf):
                self.extend([*chosen, (i, token)])

    def close(self, chosen: list[tuple[int, int]]) -> None:
        best = self.solve(chosen, self.exact)
        if best.status == "undecided":
            raise ValueError(f"(input, token) {sorted(chosen)} is undecided in floats; ask for exact=True")
        if not best.is_certified:
            self.refuted.append(best)
            return
        tokens = dict(chosen)
        choice = Selection(tuple(s if i in self.free else (tokens[i],) for i, s in enumerate(self.sets)))
        # All that are kept have one length, as far as it can be known: comparing with the first is enough.
        if self.best:
            shorter = _compare(best, self.best[0])
            if shorter > 0:
                return
            if shorter < 0:
                self.best = []
        self.best.append(replace(best, selection=choice))

    def solve(self, chosen: list[tuple[int, int]], exact: bool) -> MaxMargin:
        """ATT-SVM of the choice, without the rows against tokens of the same set."""
        self.qps += 1
        constraints = self.rows.constraints(sorted(chosen))
        outside = [t not in self.sets[cast(int, i)] for i, t in constraints.labels or ()]
        return solve(constraints.subset(np.flatnonzero(outside)), exact)


def _norms(best: MaxMargin) -> tuple[float, float]:
    """What the solution proves |p| to be at least and at most."""
    lower, upper = best.margin_interval
    return 1 / upper if upper else np.inf, 1 / lower if lower else np.inf


def _compare(a: MaxMargin, b: MaxMargin) -> int:
    """-1, 0 or 1 as a is shorter than b, as long or longer; 0 if too large to tell exactly."""
    (low_a, high_a), (low_b, high_b) = _norms(a), _norms(b)
    if high_a < low_b or high_b < low_a:
        return -1 if high_a < low_b else 1
    first, second = exactly(a), exactly(b)
    if first is None or second is None:
        return 0
    return (first.norm_squared > second.norm_squared) - (first.norm_squared < second.norm_squared)


def _same(a: MaxMargin, b: MaxMargin) -> bool:
    """Whether two minimisers are one vector."""
    first, second = exactly(a), exactly(b)
    if first is not None and second is not None and first.p is not None:
        return bool(first.p == second.p)
    return bool(np.linalg.norm(a.need() - b.need()) <= SAME * a.p_norm)


def _checked(problem: Problem, sets: Selection | Iterable[Iterable[int]] | None) -> list[tuple[int, ...]]:
    if sets is None:
        sets = best_tokens(problem)
    given = sets.sets if isinstance(sets, Selection) else sets
    made = [tuple(int(t) for t in tokens) for tokens in given]
    if len(made) != problem.n:
        raise ValueError(f"sets must have one set of tokens per input ({problem.n}), got {len(made)}")
    for i, tokens in enumerate(made):
        if not tokens or not all(0 <= t < problem.sizes[i] for t in tokens):
            raise ValueError(f"sets[{i}] must be tokens from 0 to {problem.sizes[i] - 1}, got {list(tokens)}")
    first = problem.offsets[:-1].tolist()
    return [
        tuple(dict.fromkeys(int(problem.groups[start + t]) - start for t in tokens))  # copies are one token
        for start, tokens in zip(first, made, strict=True)
    ]
