"""A p and multipliers side by side, and how much of the margin they leave open; rounding is for `measure`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.registry import Norm


class Pair(NamedTuple):
    """A p with row_j . p >= h_j, multipliers with N*(sum_j l_j row_j) = N(p), and the relative width.

    The width is that of the interval for the margin that they prove, infinite if they prove none.
    """

    p: Floats
    weights: Floats
    width: float


def scored(
    A: Floats, h: Floats, equal: Bools, norm: Norm, p: Floats, weights: Floats, shape: tuple[int, ...]
) -> Pair:
    """The pair on the rays of p and of the multipliers, as scaled above; as given where that is impossible.

    If an equality has a bound that is not zero, p cannot be scaled: what it misses counts as width.

    >>> from hardmax.margin.norms import norm
    >>> one = np.ones(1)
    >>> scored(np.array([[2.0, 1.0]]), one, one < 0, norm("l1"), np.array([3.0, 0.0]), one, (2,))
    Pair(p=array([0.5, 0. ]), weights=array([0.25]), width=0.0)
    """
    reach, u = A @ p, A.T @ weights
    asks, fixed = h > 0, bool(h[equal].any())
    t = 1.0 if fixed else float((reach[asks] / h[asks]).min(initial=np.inf))
    size, other = norm.value(p.reshape(shape)), norm.dual.value(u.reshape(shape))
    gain = float(h @ weights)
    if not (t > 0 and size > 0 and other > 0 and gain > 0 and math.isfinite(size * other)):
        return Pair(p, weights, math.inf)
    if math.isfinite(t):
        p, size = p / t, size / t
    width = abs(1 - gain / (size * other))
    if fixed:
        wrong = np.where(equal, np.abs(reach - h), np.maximum(h - reach, 0.0))
        width += float((wrong / (np.abs(A) @ np.abs(p))).max())
    return Pair(p, weights * (size / other), width if math.isfinite(width) else math.inf)
