"""Best-scoring tokens (B-DEF-11), as sets: a tie makes the globally optimal selection ambiguous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hardmax.dynamics.measures import chosen_slots
from hardmax.problem import Problem
from hardmax.selection.selected import Selection

TIE = 1e-12  # scores that differ by less than this, relative to the largest of their input, tie


def optimal_tokens(problem: Problem) -> Selection:
    """The tokens with the best score of each input; scores equal up to rounding tie.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0], [0.0]], [[2.0], [0.0]]], [[1.0, 0.0], [3.0, 3.0]])
    >>> hm.optimal_tokens(problem).sets
    ((0,), (0, 1))
    """
    behind = score_gaps(problem, np.maximum.reduceat(problem.scores, problem.offsets[:-1]))
    return Selection(tuple(tuple(np.flatnonzero(gap == 0).tolist()) for gap in problem.split(behind)))


def is_globally_optimal(problem: Problem, selection: Iterable[int]) -> bool:
    """Whether every input selects one of its best-scoring tokens.

    >>> import hardmax as hm
    >>> hm.is_globally_optimal(hm.data.named("B-FIG-8"), [0, 1])
    False
    """
    tokens = tuple(selection)
    chosen_slots(problem, tokens)
    return all(t in best for t, best in zip(tokens, optimal_tokens(problem).sets, strict=True))


def score_gaps(problem: Problem, reference: Any) -> np.ndarray:
    """reference_i - gamma_it of every slot, with ties exactly zero; one reference score per input.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.selection.optimal import score_gaps
    >>> score_gaps(hm.data.named("B-FIG-1b"), np.array([0.9])).round(3).tolist()
    [-0.1, 0.0, 0.9]
    """
    largest = np.maximum.reduceat(np.abs(problem.scores), problem.offsets[:-1])
    gaps = np.repeat(reference, problem.sizes) - problem.scores
    gaps[np.abs(gaps) <= TIE * np.repeat(largest, problem.sizes)] = 0.0
    return gaps
