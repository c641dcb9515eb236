"""W_ov in token-index space: its gradient (5), the loss L_0, and stage 1 in closed form or step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from hardmax._lib import expect
from hardmax.nexttoken.pairs import Floats, Ints


@dataclass(frozen=True, eq=False)
class OutputValue:
    """B = W_ov E, a table B[v, x]: ``margin`` times W_ov* (C-DEF-STRUCT), or ``entries`` if margin is None.

    A token without an n(x) has a zero column in W_ov*: no sample of stage 1 moves it.

    >>> from hardmax.nexttoken.output_value import OutputValue
    >>> W_ov = OutputValue.aligned([1, 2, 0], margin=3.0)
    >>> round(W_ov.norm**2, 12), W_ov.misalignment, W_ov.table[:, 0].tolist()
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
        return cls(_checked(collocation), float(margin))

    @classmethod
    def of_table(cls, collocation: Any, table: Any) -> OutputValue:
        """Any table B[v, x]."""
        n = _checked(collocation)
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
    def misalignment(self) -> float:
        """1 - cos to W_ov*; nan for zero weights."""
        if self.norm == 0.0:
            return math.nan
        if self.margin is not None:
            return 0.0
        off = self.table / self.norm - star_table(self.collocation) / star_norm(self.collocation)
        return 0.5 * float(np.vdot(off, off))

    @property
    def stage_1_loss(self) -> float:
        """L_0, a sum over the tokens that have an n(x)."""
        if self.margin is not None:
            named = int((self.collocation >= 0).sum())
            return named * best_loss(self.V, self.margin)
        return float(np.logaddexp(0.0, -_margins(self.collocation, self.table)).sum())


def star_norm(collocation: Any) -> float:
    """|W_ov*| = sqrt(V - 1) if every token has an n(x) (C-DEF-OVSTAR).

    >>> from hardmax.nexttoken.output_value import star_norm
    >>> round(star_norm([1, 2, 3, 0]) ** 2, 12)
    3.0
    """
    n = _checked(collocation)
    return math.sqrt(int((n >= 0).sum()) * (1.0 - 1.0 / len(n)))


def star_table(collocation: Any) -> Floats:
    """W_ov* in float64; `hardmax.margin.closed_forms.ov_star` has the fractions.

    >>> from hardmax.nexttoken.output_value import star_table
    >>> star_table([1, 0]).tolist()
    [[-0.5, 0.5], [0.5, -0.5]]
    """
    n = _checked(collocation)
    named = np.flatnonzero(n >= 0)
    table = np.zeros((len(n), len(n)))
    table[:, named] = -1.0 / len(n)
    table[n[named], named] += 1.0
    return table


def best_loss(V: int, margin: float) -> float:
    """L* = log(1 + (V - 1) e^-margin): the loss of a sentence that attends to the right token only."""
    return float(np.logaddexp(0.0, math.log(V - 1) - margin))


def gradient_ov(collocation: Any, table: Floats) -> tuple[Floats, float]:
    """(5) as a unit table and the log of its norm; a norm of zero has the log -inf and a zero table.

    Each column is (1 - T) times (softmax over the wrong tokens minus e_n(x)), so the right token's entry is
    never a difference of numbers close to 1.

    >>> import numpy as np
    >>> from hardmax.nexttoken.output_value import gradient_ov
    >>> unit, log_norm = gradient_ov([1, 2, 0], np.zeros((3, 3)))
    >>> unit[:, 0].round(6).tolist(), round(float(np.exp(log_norm)), 6)
    ([0.235702, -0.471405, 0.235702], 1.414214)
    """
    n = _checked(collocation)
    named = np.flatnonzero(n >= 0)
    if not len(named):
        return np.zeros(table.shape), -math.inf
    z = np.array(table[:, named], dtype=np.float64)
    right = n[named], np.arange(len(named))
    z_y = z[right]
    z[right] = -np.inf
    largest = z.max(axis=0)
    column = np.exp(z - largest)
    total = column.sum(axis=0)
    log_miss = -np.logaddexp(0.0, z_y - largest - np.log(total))
    column /= total
    column[right] = -1.0
    top = float(log_miss.max())
    unit = np.zeros(table.shape)
    unit[:, named] = column * np.exp(log_miss - top)
    length = float(np.linalg.norm(unit))
    return unit / length, top + math.log(length)


def _margins(n: Ints, table: Floats) -> Floats:
    """z_n(x) minus the log-sum-exp of the wrong logits, for each token that has an n(x)."""
    named = np.flatnonzero(n >= 0)
    z = np.array(table[:, named])
    z_y = z[n[named], np.arange(len(named))].copy()
    z[n[named], np.arange(len(named))] = -np.inf
    return z_y - logsumexp(z, axis=0)


def _checked(collocation: Any) -> Ints:
    n = np.asarray(collocation, dtype=np.int64)
    if n.shape == (1,):
        raise ValueError("collocation: with one token there is no wrong next token and nothing to learn")
    if n.ndim != 1 or len(n) < 2 or n.min() < -1 or n.max() >= len(n):
        raise ValueError(
            f"collocation must list n(x) in 0..V-1, or -1, for V >= 2 tokens, got {collocation!r:.80}"
        )
    return n


def stage_1(collocation: Any, steps: int, rate: float) -> OutputValue:
    """C-THM-S1: after t steps from zero W_ov is exactly t rate W_ov*/|W_ov*|.

    >>> from hardmax.nexttoken.output_value import stage_1
    >>> W_ov = stage_1([1, 2, 3, 0], steps=20, rate=0.1)
    >>> round(W_ov.norm, 12), round(W_ov.margin, 6), round(W_ov.stage_1_loss, 6)
    (2.0, 1.154701, 2.661985)
    """
    length = star_norm(collocation)
    if length == 0.0:
        raise ValueError("collocation: stage 1 has gradient 0, no token has a next token to learn")
    return OutputValue.aligned(
        collocation, expect.whole("steps", steps) * expect.positive("rate", rate) / length
    )


def descend_stage_1(collocation: Any, steps: int, rate: float, *, start: Any = None) -> OutputValue:
    """The same steps one by one, from any ``start`` table B[v, x] (zero by default).

    >>> import numpy as np
    >>> from hardmax.nexttoken.output_value import descend_stage_1, stage_1
    >>> step_by_step = descend_stage_1([1, 2, 3, 0], steps=20, rate=0.1)
    >>> bool(np.allclose(step_by_step.table, stage_1([1, 2, 3, 0], 20, 0.1).table, atol=1e-14))
    True
    """
    V = len(collocation)
    table = np.zeros((V, V)) if start is None else np.array(expect.finite_array("start", start, (V, V)))
    rate = expect.positive("rate", rate)
    for _ in range(expect.whole("steps", steps)):
        unit, log_norm = gradient_ov(collocation, table)
        if math.isinf(log_norm):
            raise ValueError("collocation: stage 1 has gradient 0, no token has a next token to learn")
        table -= rate * unit
    return OutputValue.of_table(collocation, table)


def misalignment_constant(start: Any, rate: float) -> float:
    """K of 1 - cos = K/t^2 from a random start: what stage 1 cannot move are the column means (C-THM-S1).

    >>> from hardmax.nexttoken.output_value import misalignment_constant
    >>> misalignment_constant([[1.0, 0.0], [1.0, 0.0]], rate=0.5)
    4.0
    """
    table = expect.finite_array("start", start, (None, None))
    sums = table.sum(axis=0)
    return float(sums @ sums) / (2.0 * len(table) * expect.positive("rate", rate) ** 2)
