"""Slots: the flat arrays that the kernels read, with twins (equal keys in one input) merged.

Tokens of one input that share a key always share their attention, so a group of them acts as one token
with their number as its count and the mean of their scores. This is exact for every head, and it keeps
zero key differences out of the log-domain factoring (B-DEF-5, B-ERR-15).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardmax.problem.keys import Keys

if TYPE_CHECKING:
    from hardmax.problem import Problem


@dataclass(frozen=True, eq=False)
class Slots:
    """Merged slots of a problem: table rows, offsets, counts, and the way back to the original slots."""

    table: Keys
    tokens: np.ndarray  # (M,)
    offsets: np.ndarray  # (n + 1,)
    counts: np.ndarray  # (M,) float
    leaders: np.ndarray  # (M,) original slot, the first of those that were merged
    group: np.ndarray | None = None  # (L,) merged slot of each original slot; None when nothing was merged
    own: np.ndarray | None = None  # (L,) counts of the original slots; None where all are 1

    @property
    def keys(self) -> np.ndarray:
        """The keys as a table."""
        return self.table.dense()

    def merge(self, flat: np.ndarray) -> np.ndarray:
        """Mean over each group of a per-slot quantity; copies keep their value to the last bit."""
        if self.group is None:
            return flat
        out = flat[self.leaders]
        apart = (flat != out[self.group]).reshape(len(flat), -1).any(axis=1)
        if not apart.any():
            return out
        members = np.flatnonzero(np.isin(self.group, self.group[apart]))
        members = members[np.argsort(self.group[members], kind="stable")]
        bounds = np.flatnonzero(np.diff(self.group[members])) + 1
        for rows in np.split(members, bounds):
            counts = None if self.own is None else self.own[rows].tolist()
            means = [_mean(column, counts) for column in flat[rows].reshape(len(rows), -1).T.tolist()]
            out[self.group[rows[0]]] = np.reshape(means, flat.shape[1:])
        return out

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """A merged per-slot share back on the original slots, each member of a group with its part."""
        if self.group is None:
            return flat
        each: np.ndarray = (flat / self.counts)[self.group]
        return each if self.own is None else each * self.own


def _mean(x: list[float], counts: list[float] | None) -> float:
    """The mean; exact where it is a float, so that scores that balance give a gradient of exactly zero."""
    if counts is None:
        near = math.fsum(x) / len(x)
        return near + math.fsum([*x, *[-near] * len(x)]) / len(x)
    total = math.fsum(counts)
    near = math.fsum(c * y for c, y in zip(counts, x, strict=True)) / total
    return near + math.fsum(c * (y - near) for c, y in zip(counts, x, strict=True)) / total


def slots_of(problem: Problem) -> Slots:
    """The kernels' view of a problem."""
    table, own = problem.table, problem.counts
    leader = table.leaders(problem.tokens, problem.offsets, np.empty((len(problem.tokens), 0)))
    kept = leader == np.arange(leader.size)
    if kept.all():
        counts = np.ones(leader.size) if own is None else own
        return Slots(table, problem.tokens, problem.offsets, counts, leader, None, own)
    group = (np.cumsum(kept) - 1)[leader]
    counts = np.bincount(group, own).astype(float)
    offsets = np.concatenate([[0], np.cumsum(kept)])[problem.offsets]
    return Slots(table, problem.tokens[kept], offsets, counts, np.flatnonzero(kept), group, own)
