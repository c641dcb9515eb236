"""Stage 1: the gradient (5) of the loss L_0 by W_ov, and its steps, in closed form and one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem.output_value import Floats, OutputValue, checked, star_norm


def gradient_ov(collocation: Any, table: Floats) -> tuple[Floats, float]:
    """(5) as a unit table and the log of its norm; a norm of zero has the log -inf and a zero table.

    Each column is (1 - T) times (softmax over the wrong tokens minus e_n(x)), so the right token's entry is
    never a difference of numbers close to 1.

    >>> import numpy as np
    >>> from hardmax.nexttoken.stage1 import gradient_ov
    >>> unit, log_norm = gradient_ov([1, 2, 0], np.zeros((3, 3)))
    >>> unit[:, 0].round(6).tolist(), round(float(np.exp(log_norm)), 6)
    ([0.235702, -0.471405, 0.235702], 1.414214)
    """
    n = checked(collocation)
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


def stage_1(collocation: Any, steps: int, rate: float) -> OutputValue:
    """C-THM-S1: after t steps from zero W_ov is exactly t rate W_ov*/|W_ov*|.

    >>> from hardmax.nexttoken.stage1 import stage_1
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
    >>> from hardmax.nexttoken.stage1 import descend_stage_1, stage_1
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

    >>> from hardmax.nexttoken.stage1 import misalignment_constant
    >>> misalignment_constant([[1.0, 0.0], [1.0, 0.0]], rate=0.5)
    4.0
    """
    table = expect.finite_array("start", start, (None, None))
    sums = table.sum(axis=0)
    return float(sums @ sums) / (2.0 * len(table) * expect.positive("rate", rate) ** 2)
