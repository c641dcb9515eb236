"""Ends of many trajectories measured together: problems of one layout, stacked.

Every rule is the one of the function for a single problem (`defect`, `selected_tokens`, `score_gap`), and
every sum runs within one problem, so that a number is the same to the bit whatever else is in the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._lib.arrays import lengths
from hardmax.directions.neighbors import known_gap, row_gaps
from hardmax.margin.measure import enclose_many
from hardmax.margin.solution import MaxMargin
from hardmax.problem.selection import slot_gaps
from hardmax.train.run import Run

SIZE = 128  # problems of a block: two threads' worth of certified directions
NUMBERS = 4_000_000  # of the keys of a block: large problems go one by one
NEAR = 1e-8  # ten times the tolerance of a tie: beyond it there is none


@dataclass(frozen=True, eq=False)
class Block:
    """The last points of trajectories whose problems have the same inputs' sizes and dimension."""

    members: list[int]
    paths: list[Run]

    @cached_property
    def points(self) -> np.ndarray:
        """p at the end, (B, d)."""
        return np.stack([path.p for path in self.paths])

    @cached_property
    def keys(self) -> np.ndarray:
        """The key at every slot, (B, L, d)."""
        return np.stack([path.problem.keys[path.problem.tokens] for path in self.paths])

    @cached_property
    def tops(self) -> np.ndarray:
        """The token with the largest logit of every input, (B, n)."""
        logits = _times(self.keys, self.points)
        parts = np.split(logits, self._offsets[1:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)

    @cached_property
    def differences(self) -> np.ndarray:
        """Key of the top token minus key, at every slot: the rows of ATT-SVM, and zero at the top."""
        chosen = np.take_along_axis(self.keys, self._top_slots[:, :, None], axis=1)
        return np.repeat(chosen, self._sizes, axis=1) - self.keys

    @cached_property
    def leads(self) -> np.ndarray:
        """Logit of the top token minus logit, at every slot."""
        return _times(self.differences, self.points)

    @property
    def defects(self) -> np.ndarray:
        """Mean attention off the top token."""
        shares = np.exp(-self.leads)
        copies = self._copies
        shares[copies] = 0.0
        lost = np.add.reduceat(shares, self._offsets[:-1], axis=1)
        selected = np.add.reduceat(copies, self._offsets[:-1], axis=1, dtype=float)
        return (lost / (selected + lost)).mean(axis=1)

    @property
    def selections(self) -> list[tuple[tuple[int, ...], ...]]:
        """What every path selects, ties kept: only where one is possible the single problem is asked."""
        apart = np.sqrt(np.einsum("bld,bld->bl", self.differences, self.differences))
        longest = np.maximum.reduceat(apart, self._offsets[:-1], axis=1)
        reach = NEAR * lengths(self.points)[:, None] * longest
        near = self.leads <= np.repeat(reach, self._sizes, axis=1)
        clear = near.sum(axis=1) == len(self._sizes)
        return [
            tuple((t,) for t in tops) if alone else path.selection().sets
            for path, tops, alone in zip(self.paths, self.tops.tolist(), clear.tolist(), strict=True)
        ]

    @cached_property
    def score_leads(self) -> np.ndarray:
        """Score of the top token minus score at every slot."""
        return np.stack(
            [slot_gaps(path.problem, top) for path, top in zip(self.paths, self.tops, strict=True)]
        )

    def score_gaps(self, best: Sequence[MaxMargin | None]) -> np.ndarray:
        """Least score by which a selected token beats its neighbours; nan without p_mm, or in doubt."""
        enclose_many([each for each in best if each is not None])
        gaps = [
            math.nan if each is None else known_gap(each, row_gaps(path.problem, each))
            for path, each in zip(self.paths, best, strict=True)
        ]
        return np.array(gaps)

    @property
    def are_best(self) -> np.ndarray:
        """Whether no token scores above the selected one of its input."""
        return np.min(self.score_leads, axis=1) >= 0.0

    @property
    def _copies(self) -> np.ndarray:
        """The slots of the top token and of its copies."""
        groups = np.stack([path.problem.groups for path in self.paths])
        tops = np.take_along_axis(groups, self._top_slots, axis=1)
        same: np.ndarray = groups == np.repeat(tops, self._sizes, axis=1)
        return same

    @property
    def _offsets(self) -> np.ndarray:
        return self.paths[0].problem.offsets

    @property
    def _sizes(self) -> np.ndarray:
        return self.paths[0].problem.sizes

    @property
    def _top_slots(self) -> np.ndarray:
        return self.tops + self._offsets[:-1]


def blocks(paths: Sequence[Run]) -> Iterator[Block]:
    """Group trajectories by the layout of their problems, in blocks of limited size.

    >>> import hardmax as hm
    >>> from hardmax.trials.experiments_blocks import blocks
    >>> problems = [hm.data.sphere(2, 3, d, rng=0) for d in (2, 5, 2)]
    >>> [block.members for block in blocks(hm.descend_batch(problems, hm.steps.Normalized(1.0), steps=10))]
    [[0, 2], [1]]
    """
    groups: dict[tuple[bytes, int], list[int]] = {}
    for i, path in enumerate(paths):
        groups.setdefault((path.problem.offsets.tobytes(), path.problem.d), []).append(i)
    for members in groups.values():
        problem = paths[members[0]].problem
        size = max(1, min(SIZE, NUMBERS // (len(problem.tokens) * problem.d)))
        for first in range(0, len(members), size):
            chosen = members[first : first + size]
            yield Block(chosen, [paths[i] for i in chosen])


def _times(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """rows @ vector, problem by problem: a sum over the whole block could depend on what is in it."""
    return np.matmul(rows, vectors[:, :, None])[:, :, 0]
