"""The layout of a problem, which needs no head: slots of tokens by input, and twins merged for kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem.keys import Keys


class Layout:
    """The part of a `Problem` that needs no head."""

    table: Keys
    tokens: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray | None
    weights: np.ndarray | None

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.offsets) - 1

    @property
    def d(self) -> int:
        """Dimension of the keys."""
        return self.table.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is trained: (d,) of a vector p, (d_x, d_z) where p is a matrix read row by row."""
        return self.table.unknown

    @property
    def keys(self) -> np.ndarray:
        """The token table, (N, d)."""
        return self.table.dense()

    @property
    def gram(self) -> np.ndarray | None:
        """(N, N) inner products, where the keys are known by these only."""
        return self.table.inner

    @property
    def sizes(self) -> np.ndarray:
        """Tokens per input, T_i."""
        return np.diff(self.offsets)

    @property
    def total(self) -> float:
        """What a sum over the inputs is divided by: n for the mean, 1 where the inputs have weights."""
        return float(self.n) if self.weights is None else 1.0

    @cached_property
    def log_weights(self) -> np.ndarray:
        """log of every input's weight beside `total`."""
        return np.zeros(self.n) if self.weights is None else np.log(self.weights)

    def average(self, x: np.ndarray) -> float:
        """The mean over the inputs, or their sum with the weights."""
        return float(x.mean() if self.weights is None else self.weights @ x)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """A flat per-slot array as one array per input."""
        return np.split(flat, self.offsets[1:-1])

    def vector(self, name: str, p: Any) -> np.ndarray:
        """p as a float64 vector of the keys' dimension; None is the origin.

        A matrix with d entries is read row by row, as keys outer(x, z).ravel() of a query z per input are.
        """
        if p is None:
            return np.zeros(self.d)
        p = expect.detached(p)
        if isinstance(p, list | tuple) and p and isinstance(p[0], list | tuple | np.ndarray):
            p = expect.finite_array(name, p, (None, None))
        if np.ndim(p) == 2 and np.size(p) == self.d:
            p = np.asarray(p).reshape(-1)
        try:
            return expect.finite_array(name, p, (self.d,))
        except ValueError as error:
            if self.gram is None:
                raise
            raise ValueError(
                f"{error}; where keys are known by inner products, make it of tokens with "
                "problem.combination(coefficients)"
            ) from None

    def combination(self, coefficients: Any) -> np.ndarray:
        """sum_j c_j k_j over the rows of the token table, as a p: a start for keys known by inner products.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_gram([[2.0, 1.0], [1.0, 2.0]], [[0, 1]], [[1.0, 0.0]])
        >>> p = problem.combination([3.0, 0.0])   # three times token 0
        >>> (problem.keys @ p).round(12).tolist(), round(float(p @ p), 9)
        ([6.0, 3.0], 18.0)
        """
        keys = self.keys
        return expect.finite_array("coefficients", coefficients, (len(keys),)) @ keys


def all_slots(offsets: np.ndarray) -> np.ndarray:
    """The rows of a table that lists every slot's token by itself."""
    slots = np.arange(offsets[-1])
    slots.setflags(write=False)
    return slots


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
