"""Which token each input attends to, and which score best. Ties are kept as sets, never silently broken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import exponent
from hardmax._lib.notebook import table
from hardmax.problem import Problem


class Selection(tuple[int | tuple[int, ...], ...]):
    """For each input the token selected, or a tuple of the tokens that tie.

    ``tokens`` is the selection where every input selects one token, and raises on a tie; ``sets`` has a tuple
    of tokens for every input.

    >>> import hardmax as hm
    >>> selection = hm.Selection([0, 2, (1, 3)])
    >>> selection, selection.is_unique, selection.sets
    ((0, 2, (1, 3)), False, ((0,), (2,), (1, 3)))
    """

    __slots__ = ()

    def __new__(cls, entries: Iterable[int | Iterable[int]]) -> Selection:
        """Make a selection of tokens, or of sets of tokens that tie."""
        sets = (tuple(entry) if isinstance(entry, Iterable) else (entry,) for entry in entries)
        return super().__new__(cls, (tied[0] if len(tied) == 1 else tied for tied in sets))

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of every input: one, or those that tie."""
        return tuple(entry if isinstance(entry, tuple) else (entry,) for entry in self)

    @property
    def is_unique(self) -> bool:
        """Whether every input selects exactly one token."""
        return not any(isinstance(entry, tuple) for entry in self)

    @property
    def tokens(self) -> tuple[int, ...]:
        """One token per input.

        Raises:
            ValueError: some input does not select one token.
        """
        for i, tied in enumerate(self.sets):
            if len(tied) != 1:
                raise ValueError(f"input {i} has tied tokens {list(tied)}; pass a selection that picks one")
        return tuple(s[0] for s in self.sets)

    def __str__(self) -> str:
        return " ".join("|".join(map(str, tied)) for tied in self.sets)

    def _repr_html_(self) -> str:
        rows = ((i, " or ".join(map(str, tied))) for i, tied in enumerate(self.sets))
        return table("Selection", ["input", "token"], rows)


@check_arguments
def selected_tokens(problem: Problem, q: Any, tolerance: float = 1e-9) -> Selection:
    """Return the tokens with the largest k.q of each input; they tie within ``tolerance`` of the sizes.

    Copies of a token (equal key and equal score) are one token, named by the lowest index.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]], [[1.0, 0.0, 0.5]])
    >>> hm.selected_tokens(problem, [1.0, 0.0]).sets
    ((0, 2),)
    """
    q = problem.vector("q", q)
    q = np.ldexp(q, -exponent(q))  # the length of q does not matter here
    length, sets = np.linalg.norm(q), []
    for start, tokens, groups in zip(
        problem.offsets, problem.split(problem.tokens), problem.split(problem.groups), strict=False
    ):
        gaps, reach = problem.table.lags(tokens, q)
        tied = np.unique(groups[gaps >= gaps.max() - tolerance * (length * reach)]) - start
        sets.append(tuple(int(t) for t in tied))
    return Selection(sets)


@check_arguments
def best_tokens(problem: Problem) -> Selection:
    """Return the tokens with the best score of each input; copies of a token count once, by the lowest index.

    Where scores move with the attention, best is the token with the largest prediction by itself.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [0.0]], [[2.0], [0.0]]], [[1.0, 0.0], [3.0, 3.0]])
    >>> hm.best_tokens(problem).sets
    ((0,), (0, 1))
    """
    alone = problem.readout.vertex_predictions(problem.tokens, problem.offsets)
    largest = np.repeat(np.maximum.reduceat(alone, problem.offsets[:-1]), problem.sizes)
    best = (alone == largest) & (problem.groups == np.arange(len(alone)))
    return Selection(np.flatnonzero(mask).tolist() for mask in problem.split(best))


@check_arguments
def is_best(problem: Problem, selection: Any) -> bool:
    """Return whether every input selects one of its best-scoring tokens.

    >>> import hardmax as hm
    >>> hm.directions.is_best(hm.data.example("B-FIG-8"), [0, 1])
    False
    """
    tokens = chosen_tokens(selection)
    if tokens is None:
        raise ValueError("selection must be tokens, got a solution of Constraints, which names none")
    alone = problem.readout.vertex_predictions(problem.tokens, problem.offsets)
    return not (np.repeat(alone[_slots(problem, tokens)], problem.sizes) < alone).any()


def chosen_tokens(chosen: Any) -> Any:
    """Return the selection of a run or of another result; tokens are returned as they are."""
    return getattr(chosen, "selection", chosen)


def leaders(problem: Problem, selection: Iterable[int] | Selection) -> tuple[int, ...]:
    """A selection by the names of its tokens: the lowest index of a token that occurs several times."""
    slots = problem.groups[_slots(problem, selection)]
    return tuple((slots - problem.offsets[:-1]).tolist())


def score_gaps(problem: Problem, reference: Any) -> np.ndarray:
    """reference_i - gamma_it of every slot; one reference score per input.

    A difference of floats has the sign of the exact difference, and is zero only for equal scores.
    """
    with np.errstate(over="ignore"):
        gaps: np.ndarray = np.repeat(reference, problem.sizes) - problem.scores
    return gaps


def slot_gaps(problem: Problem, selection: Iterable[int]) -> np.ndarray:
    """Score of the selected token minus score, for every slot, with all attention on the selected ones."""
    return problem.readout.vertex_gaps(problem.tokens, problem.offsets, _slots(problem, selection))


def _slots(problem: Problem, selection: Any) -> np.ndarray:
    if isinstance(selection, Selection):
        return chosen_slots(problem, selection.tokens)
    try:
        tokens = tuple(selection)
    except TypeError:
        tokens = ()
    return chosen_slots(problem, tokens if tokens or not problem.n else selection)


def chosen_slots(problem: Problem, selection: Sequence[int]) -> np.ndarray:
    """Flat slot of the chosen token of every input, or a ValueError that names the wrong entry."""
    chosen = expect.ids("selection", selection, problem.n)
    bad = np.flatnonzero((chosen < 0) | (chosen >= problem.sizes))
    if bad.size:
        i = bad[0]
        raise ValueError(f"selection[{i}] must be a token from 0 to {problem.sizes[i] - 1}, got {chosen[i]}")
    return problem.offsets[:-1] + chosen
