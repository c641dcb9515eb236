"""Stage 1 of Algorithm 1: W_ov, in closed form from zero and step by step from anywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax import _inputs
from hardmax.nexttoken.output_value import OutputValue, gradient_ov, star_norm


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
        collocation, _inputs.whole("steps", steps) * _inputs.positive("rate", rate) / length
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
    table = np.zeros((V, V)) if start is None else np.array(_inputs.finite_array("start", start, (V, V)))
    rate = _inputs.positive("rate", rate)
    for _ in range(_inputs.whole("steps", steps)):
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
    table = _inputs.finite_array("start", start, (None, None))
    sums = table.sum(axis=0)
    return float(sums @ sums) / (2.0 * len(table) * _inputs.positive("rate", rate) ** 2)
