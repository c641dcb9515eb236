"""Slots: the flat arrays that the kernels read, with twins (equal keys in one input) merged.

Tokens of one input that share a key always share their attention, so a group of them acts as one token
with their number as its count and the mean of their scores. This is exact for every head, and it keeps
zero key differences out of the log-domain factoring (B-DEF-5, B-ERR-15).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.dynamics.softmax import find_twins
from hardmax.problem import Problem


@dataclass(frozen=True, eq=False)
class Slots:
    """Merged slots of a problem: table rows, offsets, counts, and the way back to the original slots."""

    keys: np.ndarray  # (N, d)
    tokens: np.ndarray  # (M,)
    offsets: np.ndarray  # (n + 1,)
    counts: np.ndarray  # (M,) float
    group: np.ndarray | None  # (L,) merged slot of each original slot; None when nothing was merged

    def merge(self, flat: np.ndarray) -> np.ndarray:
        """Mean over each group of a per-slot quantity."""
        if self.group is None:
            return flat
        out = np.zeros((len(self.tokens), *flat.shape[1:]))
        np.add.at(out, self.group, flat)
        return out / self.counts.reshape(-1, *[1] * (flat.ndim - 1))

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """A merged per-slot share back on the original slots, each member of a group with its part."""
        return flat if self.group is None else (flat / self.counts)[self.group]


def slots_of(problem: Problem) -> Slots:
    """The kernels' view of a problem."""
    leader = find_twins(problem.keys, problem.tokens, problem.offsets)
    kept = leader == np.arange(leader.size)
    if kept.all():
        ones = np.ones(leader.size)
        return Slots(problem.keys, problem.tokens, problem.offsets, ones, None)
    group = (np.cumsum(kept) - 1)[leader]
    counts = np.bincount(group).astype(float)
    offsets = np.concatenate([[0], np.cumsum(kept)])[problem.offsets]
    return Slots(problem.keys, problem.tokens[kept], offsets, counts, group)
