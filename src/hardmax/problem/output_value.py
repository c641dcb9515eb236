"""W_ov in token-index space: a table B[v, x], or a multiple of W_ov*, of which nothing dense is stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import expect
from hardmax._lib.arrays import half_square

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OutputValue:
    """B = W_ov E, a table B[v, x]: ``margin`` times W_ov* (C-DEF-STRUCT), or ``entries`` if margin is None.

    A token without an n(x) has a zero column in W_ov*: no sample of stage 1 moves it.

    >>> from hardmax.problem.output_value import OutputValue
    >>> W_ov = OutputValue.aligned([1, 2, 0], margin=3.0)
    >>> round(W_ov.norm**2, 12), W_ov.misalignment_ov, W_ov.table[:, 0].tolist()
    (18.0, 0.0, [-1.0, 2.0, -1.0])
    """

    collocation: Ints
    margin: float | None
    entries: Floats | None = None

    @classmethod
    def aligned(cls, collocation: Any, margin: float) -> OutputValue:
        """``margin`` times W_ov*."""
        if not (math.isfinite(margin) and margin >= 0.0):
            raise ValueError(f"margin must be a number >= 0, got {margin!r}")
        return cls(checked(collocation), float(margin))

    @classmethod
    def of_table(cls, collocation: Any, table: Any) -> OutputValue:
        """Any table B[v, x]."""
        n = checked(collocation)
        return cls(n, None, expect.finite_array("table", table, (len(n), len(n))))

    @property
    def V(self) -> int:
        """Size of the vocabulary."""
        return len(self.collocation)

    @cached_property
    def table(self) -> Floats:
        """The V x V table B[v, x]."""
        if self.entries is not None:
            return self.entries
        assert self.margin is not None
        return self.margin * star_table(self.collocation)

    @property
    def norm(self) -> float:
        """Frobenius norm."""
        if self.margin is not None:
            return self.margin * star_norm(self.collocation)
        return float(np.linalg.norm(self.table))

    @property
    def misalignment_ov(self) -> float:
        """1 - cos to W_ov*; nan for zero weights."""
        if self.norm == 0.0:
            return math.nan
        if self.margin is not None:
            return 0.0
        star = star_table(self.collocation) / star_norm(self.collocation)
        return half_square(self.table / self.norm, star)

    @property
    def stage_1_loss(self) -> float:
        """L_0, a sum over the tokens that have an n(x)."""
        if self.margin is not None:
            named = int((self.collocation >= 0).sum())
            return named * best_loss(self.V, self.margin)
        return float(np.logaddexp(0.0, -_margins(self.collocation, self.table)).sum())


def star_norm(collocation: Any) -> float:
    """|W_ov*| = sqrt(V - 1) if every token has an n(x) (C-DEF-OVSTAR).

    >>> from hardmax.problem.output_value import star_norm
    >>> round(star_norm([1, 2, 3, 0]) ** 2, 12)
    3.0
    """
    n = checked(collocation)
    return math.sqrt(int((n >= 0).sum()) * (1.0 - 1.0 / len(n)))


def star_table(collocation: Any) -> Floats:
    """W_ov* in float64; `hardmax.margin.closed_forms.next_token.ov_star` has the fractions.

    >>> from hardmax.problem.output_value import star_table
    >>> star_table([1, 0]).tolist()
    [[-0.5, 0.5], [0.5, -0.5]]
    """
    n = checked(collocation)
    named = np.flatnonzero(n >= 0)
    table = np.zeros((len(n), len(n)))
    table[:, named] = -1.0 / len(n)
    table[n[named], named] += 1.0
    return table


def best_loss(V: int, margin: float) -> float:
    """L* = log(1 + (V - 1) e^-margin): the loss of a sentence that attends to the right token only."""
    return float(np.logaddexp(0.0, math.log(V - 1) - margin))


def _margins(n: Ints, table: Floats) -> Floats:
    """z_n(x) minus the log-sum-exp of the wrong logits, for each token that has an n(x)."""
    from scipy.special import logsumexp

    named = np.flatnonzero(n >= 0)
    z = np.array(table[:, named])
    z_y = z[n[named], np.arange(len(named))].copy()
    z[n[named], np.arange(len(named))] = -np.inf
    return z_y - logsumexp(z, axis=0)


def checked(collocation: Any) -> Ints:
    """A collocation as numbers, or a ValueError."""
    n = np.asarray(collocation, dtype=np.int64)
    if n.shape == (1,):
        raise ValueError("collocation: with one token there is no wrong next token and nothing to learn")
    if n.ndim != 1 or len(n) < 2 or n.min() < -1 or n.max() >= len(n):
        raise ValueError(
            f"collocation must list n(x) in 0..V-1, or -1, for V >= 2 tokens, got {collocation!r:.80}"
        )
    return n
