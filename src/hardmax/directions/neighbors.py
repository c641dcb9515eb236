"""SVM neighbors of a selection, and whether it attracts.

A neighbor's row is tight at p_mm, exactly. Rational solutions decide which rows are; float solutions
enclose every slack (`hardmax.margin.measure`), and open cases are settled in rational arithmetic, up to 200
rows. Beyond that a verdict may stay open: it is True if every row that could be tight has a positive score
gap, False if some row that is certainly tight has not, else None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax.margin.att_svm import AttentionRows, max_margin
from hardmax.margin.constraints import Floats
from hardmax.margin.measure import Tight
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.selection import chosen_tokens, is_best, leaders, slot_gaps

__all__ = ["Attraction", "Neighbors", "attracts", "is_best", "neighbors", "score_gap"]

Chosen = MaxMargin | Iterable[int]  # a solution, or the tokens to solve for


@dataclass(frozen=True)
class Neighbors:
    """For each input the tokens whose row is tight at p_mm, whatever their multiplier.

    ``doubtful`` lists the (i, t) that may be neighbors or not; ``sets`` leaves them out.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> hm.neighbors(problem, hm.max_margin(problem, [0, 1])).pairs
    ((0, 1),)
    """

    sets: tuple[tuple[int, ...], ...]
    doubtful: tuple[tuple[int, int], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """All neighbors as (i, t)."""
        return tuple((i, t) for i, near in enumerate(self.sets) for t in near)


@check_arguments
def neighbors(problem: Problem, chosen: Chosen) -> Neighbors:
    """Return the tokens that compete with a selection: (k_selected - k_t).p_mm = 1.

    >>> import hardmax as hm
    >>> hm.neighbors(hm.data.example("B-FIG-1b"), [1]).sets
    ((2,),)
    """
    best = solution(problem, chosen)
    labels, tight = row_labels(best), _tight(best)
    near: list[list[int]] = [[] for _ in range(problem.n)]
    for j in np.flatnonzero(tight.certain):
        near[labels[j][0]].append(labels[j][1])
    doubtful = tuple(labels[j] for j in np.flatnonzero(tight.doubtful))
    return Neighbors(tuple(tuple(tokens) for tokens in near), doubtful)


@check_arguments
def score_gap(problem: Problem, chosen: Chosen) -> float:
    """Return the least score by which a selected token beats its neighbors; inf if it has none.

    Where neighbors are in doubt it is a bound on the side that is known, and nan if not even its sign is.

    >>> import hardmax as hm
    >>> hm.directions.score_gap(hm.data.example("B-FIG-1b"), [1])
    0.9
    """
    best = solution(problem, chosen)
    _need_slack(best)
    return known_gap(best, row_gaps(problem, best))


class Attraction(Enum):
    """Whether the direction of a selection attracts training.

    The optimal p may fill a face. STRONG: each selected token scores above the others of every row tight
    anywhere on it. WEAK: only above those of the rows tight on all of it, which in l2 does not occur. NO: not
    even that, or infeasible. UNDECIDED: it is not known which rows are tight, which happens above 200 rows
    only. As a truth value only STRONG is true, and UNDECIDED raises a ValueError.

    >>> import hardmax as hm
    >>> hm.directions.Attraction("strong"), bool(hm.directions.Attraction.NO)
    (<Attraction.STRONG: 'strong'>, False)
    """

    STRONG = "strong"
    WEAK = "weak"
    NO = "no"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        if self is Attraction.UNDECIDED:
            raise ValueError("whether the selection attracts is undecided; compare it with Attraction.STRONG")
        return self is Attraction.STRONG

    @property
    def verdict(self) -> bool | None:
        """True for STRONG, False for NO, else None, as files write it."""
        return {Attraction.STRONG: True, Attraction.NO: False}.get(self)

    @property
    def written(self) -> str:
        """The word that files have for it."""
        return "doubtful" if self is Attraction.UNDECIDED else self.value

    @classmethod
    def of(cls, best: MaxMargin, gap: float) -> Attraction:
        """Judge a feasible selection by the least score gap over its tight rows."""
        if not np.isnan(gap):
            return cls.STRONG if gap > 0 else cls.NO
        return cls.UNDECIDED if best.face is None else cls.WEAK


@check_arguments
def attracts(problem: Problem, selection: Any, *, norm: Norm | str | float | None = None) -> Attraction:
    """Return whether training is attracted by a selection: it is feasible and beats its neighbors' scores.

    Args:
        problem: the problem whose tokens are selected.
        selection: one token per input, a run, or a solution of this problem.
        norm: the norm of the max margin, l2 by default, or that of the solution.

    See also: `hm.attractors`, which finds all of them.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0, 0.0], [0.0, 0.0], [-0.5, -1.0]]], [[1.0, 0.0, 2.0]])
    >>> [hm.attracts(problem, [0], norm=norm).value for norm in ("l1", "l2", "linf")]
    ['strong', 'strong', 'weak']
    >>> bool(hm.attracts(problem, [1]))
    False
    """
    best = solution(problem, selection, norm)
    if best.is_feasible is False:
        return Attraction.NO
    return Attraction.of(best, math.nan if best.slack is None else known_gap(best, row_gaps(problem, best)))


def known_gap(best: MaxMargin, gaps: Floats) -> float:
    """The least gap over the tight rows, as for `score_gap`; doubts are settled only if they matter."""
    least, most = _range(gaps, best.enclosure)
    if least < most:
        least, most = _range(gaps, best.decided.enclosure)
    if least == most or least > 0:
        return least
    return most if most <= 0 else np.nan


def _range(gaps: Floats, tight: Tight) -> tuple[float, float]:
    """The least gap over the rows that may be tight, and over those that are."""
    return float(gaps[tight.possible].min(initial=np.inf)), float(gaps[tight.certain].min(initial=np.inf))


def solution(problem: Problem, chosen: Chosen, norm: Norm | str | float | None = None) -> MaxMargin:
    """The solution meant: one of this problem as it is, or that of the tokens given, in l2 by default."""
    if not isinstance(chosen, MaxMargin):
        tokens = leaders(problem, chosen_tokens(chosen))
        return max_margin(problem, tokens, norm="l2" if norm is None else norm)
    selection_of(problem, chosen)
    if norm is not None and norm_of(norm).name != chosen.norm:
        raise ValueError(
            f"norm must be that of the solution, {chosen.norm!r}, got {norm!r}; leave it out, or give "
            "the tokens instead"
        )
    return chosen


def selection_of(problem: Problem, best: MaxMargin) -> tuple[int, ...]:
    """The selection that a solution of this problem belongs to.

    A solution of `Constraints`, which has no selection, is refused; the rows of others are compared.
    """
    wrong = "max_margin must be a solution of this problem, as max_margin(problem, selection) gives it"
    if not isinstance(best, MaxMargin):
        raise ValueError(f"{wrong}, got {type(best).__name__}")
    rows = best.constraints
    if best.selection is None or rows.labels is None:
        raise ValueError(f"{wrong}; this one does not say what it selects: give the tokens instead")
    try:
        chosen = leaders(problem, best.selection)
        expected = AttentionRows(problem).constraints(enumerate(chosen))
    except ValueError:
        raise ValueError(f"{wrong}; this one's selection does not fit") from None
    pairs = [(getattr(rows, name), getattr(expected, name)) for name in ("plus", "minus", "h", "right_of")]
    same_tokens = rows.table is expected.table and rows.right is expected.right
    if not (same_tokens and all(np.array_equal(*pair) for pair in pairs)):
        same = rows.table is not None and rows.shape == expected.shape and rows.count == expected.count
        same = same and np.array_equal(rows.h, expected.h) and not rows.equal.any()
        if not (same and np.array_equal(rows.rows(), expected.rows())):
            raise ValueError(f"{wrong}; this one has other rows")
    return chosen


def row_gaps(problem: Problem, best: MaxMargin) -> Floats:
    """Score of the selected token minus score of the other one, for every row; ties are exactly zero."""
    gaps = slot_gaps(problem, selection_of(problem, best))
    return gaps[[problem.offsets[i] + t for i, t in row_labels(best)]]


def row_labels(best: MaxMargin) -> list[tuple[int, int]]:
    """The (i, t) of every row."""
    return cast(list[tuple[int, int]], list(best.constraints.labels or ()))


def tight_rows(best: MaxMargin) -> np.ndarray:
    """The tight rows, as numbers; a ValueError if some are in doubt."""
    tight = _tight(best)
    if tight.doubtful.any():
        raise ValueError(
            f"max_margin: whether the rows {best.doubtful} are tight is in doubt; ask for exact=True"
        )
    return np.flatnonzero(tight.certain)


def _tight(best: MaxMargin) -> Tight:
    _need_slack(best)
    return best.decided.enclosure


def _need_slack(best: MaxMargin) -> None:
    if best.slack is None:
        raise ValueError(f"max_margin has no p, so there are no neighbors: it is {best.status}")
