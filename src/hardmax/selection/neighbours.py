"""SVM neighbours of a selection, and local optimality (B-DEF-12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.problem import Problem
from hardmax.selection.optimal import score_gaps

if TYPE_CHECKING:
    from hardmax.margin.maxmargin import MaxMargin

TAU = 1e-6  # a row is tight up to this slack, relative to its bound 1


@dataclass(frozen=True)
class Neighbours:
    """For each input the tokens whose row is tight at p_mm, whatever their multiplier.

    ``doubtful`` lists (i, t) with a slack between tau and 10 tau: there the tolerance decides.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-8")
    >>> hm.neighbours(problem, hm.max_margin(problem, [0, 1])).pairs
    ((0, 1),)
    """

    sets: tuple[tuple[int, ...], ...]
    doubtful: tuple[tuple[int, int], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """All neighbours as (i, t)."""
        return tuple((i, t) for i, near in enumerate(self.sets) for t in near)


def neighbours(problem: Problem, max_margin: MaxMargin, tolerance: float = TAU) -> Neighbours:
    """The tokens that compete with a selection: (k_selected - k_t).p_mm = 1, within the tolerance.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-1b")
    >>> hm.neighbours(problem, hm.max_margin(problem, [1])).sets
    ((2,),)
    """
    near: list[list[int]] = [[] for _ in range(problem.n)]
    doubtful = []
    slack = _slack(problem, max_margin)
    for (i, t), s in zip(_labels(max_margin), slack.tolist(), strict=True):
        if s <= tolerance:
            near[i].append(t)
        elif s <= 10 * tolerance:
            doubtful.append((i, t))
    return Neighbours(tuple(tuple(tokens) for tokens in near), tuple(doubtful))


def score_gap(problem: Problem, max_margin: MaxMargin, tolerance: float = TAU) -> float:
    """Least score by which a selected token beats its neighbours; negative if it does not, inf without any.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-1b")
    >>> hm.score_gap(problem, hm.max_margin(problem, [1]))
    0.9
    """
    slack = _slack(problem, max_margin)
    return float(least_gap(slack, row_gaps(problem, max_margin), tolerance))


def is_locally_optimal(problem: Problem, max_margin: MaxMargin, tolerance: float = TAU) -> bool:
    """Whether the selection is feasible and each selected token scores strictly above its neighbours.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-1b")
    >>> [hm.is_locally_optimal(problem, hm.max_margin(problem, [t])) for t in range(3)]
    [True, True, False]
    """
    selection_of(problem, max_margin)
    if max_margin.is_feasible is False:
        return False
    return score_gap(problem, max_margin, tolerance) > 0


def least_gap(slack: np.ndarray, gaps: np.ndarray, tolerance: float = TAU) -> Any:
    """Least score gap over the tight rows along the last axis: one rule for one problem and for a block."""
    return np.min(np.where(slack <= tolerance, gaps, np.inf), axis=-1, initial=np.inf)


def selection_of(problem: Problem, max_margin: MaxMargin) -> tuple[int, ...]:
    """The selection that a solution of ATT-SVM belongs to: in each input the token without a row.

    >>> import hardmax as hm
    >>> from hardmax.selection.neighbours import selection_of
    >>> problem = hm.data.named("B-FIG-8")
    >>> selection_of(problem, hm.max_margin(problem, [0, 1]))
    (0, 1)
    """
    missing = [set(range(size)) for size in problem.sizes.tolist()]
    try:
        for i, t in _labels(max_margin):
            missing[i].remove(t)
        (tokens,) = zip(*missing, strict=True)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        raise ValueError(
            "max_margin must be a solution of this problem, as max_margin(problem, selection) gives it"
        ) from None
    return tokens


def row_gaps(problem: Problem, max_margin: MaxMargin) -> np.ndarray:
    """Score of the selected token minus score of the other one, for every row; ties are exactly zero."""
    gaps = slot_gaps(problem, np.array(selection_of(problem, max_margin)))
    return gaps[[problem.offsets[i] + t for i, t in _labels(max_margin)]]


def slot_gaps(problem: Problem, tokens: np.ndarray) -> np.ndarray:
    """The same for every slot, zero at the selected ones."""
    return score_gaps(problem, problem.scores[problem.offsets[:-1] + tokens])


def _labels(max_margin: MaxMargin) -> list[Any]:
    constraints = max_margin.constraints
    return [constraints.label(j) for j in range(constraints.count)]


def _slack(problem: Problem, max_margin: MaxMargin) -> np.ndarray:
    selection_of(problem, max_margin)
    if max_margin.slack is None:
        raise ValueError(f"max_margin has no p, so there are no neighbours: it is {max_margin.status}")
    return max_margin.slack
