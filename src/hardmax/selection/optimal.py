"""Best-scoring tokens (B-DEF-11), as sets: a tie makes the globally optimal selection ambiguous.

Scores are compared as the floats they are: tokens tie if their scores are equal to the last bit. Scores of a
linear head, v.x, are rounded once, when they are computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hardmax.dynamics.measures import chosen_slots
from hardmax.problem import Problem
from hardmax.selection.selected import Selection


def optimal_tokens(problem: Problem) -> Selection:
    """The tokens with the best score of each input; copies of a token are one, named by the lowest index.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0], [0.0]], [[2.0], [0.0]]], [[1.0, 0.0], [3.0, 3.0]])
    >>> hm.optimal_tokens(problem).sets
    ((0,), (0, 1))
    """
    behind = score_gaps(problem, np.maximum.reduceat(problem.scores, problem.offsets[:-1]))
    best = (behind == 0) & (problem.groups == np.arange(len(behind)))
    return Selection(tuple(tuple(np.flatnonzero(own).tolist()) for own in problem.split(best)))


def is_globally_optimal(problem: Problem, selection: Any) -> bool:
    """Whether every input selects one of its best-scoring tokens; tokens, or the MaxMargin of a selection.

    >>> import hardmax as hm
    >>> hm.is_globally_optimal(hm.data.named("B-FIG-8"), [0, 1])
    False
    """
    tokens = getattr(selection, "selection", selection)
    if tokens is None:
        raise ValueError("selection: expected tokens, got a solution of Constraints, which names none")
    return not (slot_gaps(problem, tokens) < 0).any()


def leaders(problem: Problem, selection: Iterable[int]) -> tuple[int, ...]:
    """A selection by the names of its tokens: the lowest index of a token that stands several times.

    >>> import hardmax as hm
    >>> from hardmax.selection.optimal import leaders
    >>> leaders(hm.Problem.from_scores([[[1.0], [0.0], [1.0]]], [[2.0, 0.0, 2.0]]), [2])
    (0,)
    """
    slots = problem.groups[_slots(problem, selection)]
    return tuple((slots - problem.offsets[:-1]).tolist())


def score_gaps(problem: Problem, reference: Any) -> np.ndarray:
    """reference_i - gamma_it of every slot; one reference score per input.

    A difference of floats has the sign of the exact difference, and is zero only for equal scores.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.selection.optimal import score_gaps
    >>> score_gaps(hm.data.named("B-FIG-1b"), np.array([0.9])).round(3).tolist()
    [-0.1, 0.0, 0.9]
    """
    with np.errstate(over="ignore"):
        gaps: np.ndarray = np.repeat(reference, problem.sizes) - problem.scores
    return gaps


def slot_gaps(problem: Problem, selection: Iterable[int]) -> np.ndarray:
    """Score of the selected token minus score, for every slot.

    >>> import hardmax as hm
    >>> from hardmax.selection.optimal import slot_gaps
    >>> slot_gaps(hm.data.named("B-FIG-8"), [0, 1]).tolist()
    [0.0, 1.0, -1.0, 0.0]
    """
    return score_gaps(problem, problem.scores[_slots(problem, selection)])


def _slots(problem: Problem, selection: Any) -> np.ndarray:
    if not isinstance(selection, Iterable):
        raise ValueError(f"selection must be {problem.n} token numbers, one per input, got {selection!r}")
    return chosen_slots(problem, tuple(selection))
