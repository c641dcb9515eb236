"""`train.softmax` in lanes: the exponential, and the weights of every token seen from its input's top one.

The formulas are those of `softmax.settle`, with each branch taken lane by lane, and in passes over all inputs
of a problem: what one pass computes for one token does not wait for another.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax._lib.compiled import njit
from hardmax.dynamics.lanes.vectors import (
    LANES,
    any_lane,
    load,
    plus_product,
    power_of_two,
    spread,
    store,
    where,
)
from hardmax.dynamics.softmax import NEGLIGIBLE

# log 2 in two parts: the first has 21 zeros at its end, so that its product with a whole number is exact.
_HIGH, _LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
_PER_LOG_2 = 1.0 / math.log(2.0)
_SHIFT = 1.5 * 2.0**52  # a number that is added to this is rounded to a whole one
_C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(3, 14))

# e^-345 is 1e-150: beside one it is nothing, and the product of two such numbers does not underflow, which
# would take its time.
FAINT = -345.0


@njit(cache=True, nogil=True)
def exp(x, least):  # type: ignore[no-untyped-def]
    """e^x of lanes that are not positive, within 1 ulp; zero below ``least``, which is UNDERFLOW or above it.

    x = k log 2 + r, and e^r is its series up to r^13. Below the normal range e^x is rounded once more.
    """
    nothing = x < least
    x = where(nothing, 0.0, x)
    shifted = plus_product(_SHIFT, x, _PER_LOG_2)
    k = shifted - _SHIFT
    high = plus_product(x, k, -_HIGH)
    r = plus_product(high, k, -_LOW)
    lost = plus_product(high - r, k, -_LOW)  # what rounding took from r
    r2 = r * r
    r4 = r2 * r2
    q = plus_product(plus_product(0.5, r, _C3), r2, plus_product(_C4, r, _C5))
    middle = plus_product(plus_product(_C6, r, _C7), r2, plus_product(_C8, r, _C9))
    end = plus_product(plus_product(_C10, r, _C11), r2, plus_product(_C12, r, _C13))
    q = plus_product(q, r4, plus_product(middle, r4, end))
    near = 1.0 + (r + plus_product(lost, r2, q))
    deep = x < -700.0  # 2^k itself may be no normal number
    power = power_of_two(where(deep, shifted + 100.0, shifted))
    return where(nothing, 0.0, near * power * where(deep, 2.0**-100, 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def settle(  # type: ignore[no-untyped-def]
    offsets, gaps, scores, counts, tops, depth, reach, weights, u, mass
):
    """What `softmax.settle` says, from the gaps and the numbers of the top slots; ``gaps`` is overwritten.

    The weights are over exp(depth)/mass, and mass itself is returned in place of its log.
    """
    for i in range(tops.shape[0]):
        first, last, top = offsets[i], offsets[i + 1], load(tops, i)
        score, deepest = spread(0.0), spread(-np.inf)
        for slot in range(first, last):
            score = where(top == float(slot), load(scores, slot), score)
        for slot in range(first, last):
            gap = load(gaps, slot)
            deepest = where((gap > deepest) & (load(scores, slot) != score), gap, deepest)
        for slot in range(first, last):
            store(gaps, slot, load(gaps, slot) - where(load(scores, slot) != score, deepest, 0.0))
        store(depth, i, deepest)
        store(u, i, score)
    for slot in range(gaps.shape[0]):
        store(weights, slot, load(counts, slot) * exp(load(gaps, slot), FAINT))
    for i in range(tops.shape[0]):
        store(reach, i, exp(load(depth, i), NEGLIGIBLE))
    for i in range(tops.shape[0]):
        first, last, top, score = offsets[i], offsets[i + 1], load(tops, i), load(u, i)
        tied, untied, pull = spread(0.0), spread(0.0), spread(0.0)
        for slot in range(first, last):  # the share of the top slot is its count
            share, rise = load(weights, slot), load(scores, slot) - score
            apart = rise != 0.0
            tied = tied + where(apart, 0.0, share)
            untied = untied + where(apart, share, 0.0)
            pull = pull + share * rise
        whole = tied + load(reach, i) * untied
        lean = pull / whole
        drift = load(reach, i) * lean
        total = spread(0.0)
        for slot in range(first, last):
            rise = load(scores, slot) - score
            weight = load(weights, slot) * where(rise != 0.0, rise - drift, -lean)
            weight = where(top == float(slot), 0.0, weight)
            total = total + weight
            store(weights, slot, weight)
        for slot in range(first, last):
            store(weights, slot, load(weights, slot) + where(top == float(slot), -total, 0.0))
        store(u, i, score + drift)
        store(mass, i, whole)


@njit(cache=True, nogil=True, error_model="numpy")
def scale(u, depth, log_weights, log_slope, seen, slopes, log_scale):  # type: ignore[no-untyped-def]
    """log of every input's factor in the gradient, without its mass; a saturated input keeps its slope.

    Returns the largest of each lane.
    """
    common = spread(-np.inf)
    for i in range(u.shape[0]):
        if any_lane(load(u, i) != load(seen, i)):
            for lane in range(LANES):
                if u[i, lane] != seen[i, lane]:
                    slopes[i, lane] = log_slope(u[i, lane]) + log_weights[i, lane]
            store(seen, i, load(u, i))
        size = load(depth, i) + load(slopes, i)
        common = where(size > common, size, common)
        store(log_scale, i, size)
    return common
