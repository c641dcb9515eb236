"""Which token each input attends to. Ties are kept as sets and never silently broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._arrays import exponent
from hardmax._notebook import table
from hardmax.problem import Problem


@dataclass(frozen=True)
class Selection:
    """For each input the token selected, or the tokens that tie.

    >>> import hardmax as hm
    >>> hm.Selection(((0,), (2,))).tokens
    (0, 2)
    """

    sets: tuple[tuple[int, ...], ...]

    @property
    def is_unique(self) -> bool:
        """Whether every input selects exactly one token."""
        return all(len(s) == 1 for s in self.sets)

    @property
    def tokens(self) -> tuple[int, ...]:
        """One token per input; a ValueError names the first tie."""
        for i, tied in enumerate(self.sets):
            if len(tied) != 1:
                raise ValueError(f"input {i} does not select one token: {list(tied)} tie; decide which one")
        return tuple(s[0] for s in self.sets)

    def __str__(self) -> str:
        return " ".join("|".join(map(str, tied)) for tied in self.sets)

    def _repr_html_(self) -> str:
        rows = ((i, " or ".join(map(str, tied))) for i, tied in enumerate(self.sets))
        return table("Selection", ["input", "token"], rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.sets)


def selected_tokens(problem: Problem, q: Any, tolerance: float = 1e-9) -> Selection:
    """Tokens with the largest k.q of each input (B-DEF-16); they tie within ``tolerance`` of the sizes.

    Copies of a token (equal key and equal score) are one token, named by the lowest index.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]], [[1.0, 0.0, 0.5]])
    >>> hm.selected_tokens(problem, [1.0, 0.0]).sets
    ((0, 2),)
    """
    q = problem.vector("q", q)
    q = np.ldexp(q, -exponent(q))  # the length of q is no part of the question
    rows = np.ldexp(problem.keys, -exponent(problem.keys))
    sets = []
    for start, keys, groups in zip(
        problem.offsets,
        problem.split(rows[problem.tokens]),
        problem.split(problem.groups),
        strict=False,
    ):
        top = keys[np.argmax(keys @ q)]
        gaps = (keys - top) @ q
        size = np.linalg.norm(q) * np.linalg.norm(keys - top, axis=1).max()
        tied = np.unique(groups[gaps >= gaps.max() - tolerance * size]) - start
        sets.append(tuple(int(t) for t in tied))
    return Selection(tuple(sets))
