"""The numerical heart: one input's softmax relative to its top token, in the log domain.

The gradient is a sum of weights s_t (gamma_t - u) times keys, and these weights sum to zero in each input.
Once the softmax saturates, gamma_top - u cancels and a plain backward pass returns a wrong direction. Here
every weight of a token other than the top one is formed from score gaps to the top token, with the common
exponent taken out, and the top token's weight is minus the sum of the others.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, types

from hardmax._lib.compiled import INDEX, OUT, OUT_TABLE, SLOPE, UNDERFLOW, VECTOR, inlined, uncounted

# 1 + exp(x) is one in float64 far above this, and a score gap is unmoved by this fraction of it.
NEGLIGIBLE = -45.0

# Rows of a table with one column per input: what `settle` finds, what `scale_inputs` makes of it, and a copy
# of the depth for those who need it after `take_logs`.
U, DEPTH, LEAN, LOG_MASS, SEEN, SLOPES, LOG_SCALE, DEEP = range(8)


@uncounted(types.void(VECTOR, INDEX, VECTOR, VECTOR, INDEX, float64, OUT, OUT_TABLE), error_model="numpy")
def settle(gaps, tops, scores, counts, offsets, shift, weights, inputs):  # type: ignore[no-untyped-def]
    """Weights s_t (gamma_t - u) of every slot, divided by exp(depth)/mass so that they never underflow.

    depth is the largest gap among the tokens whose score differs from the top one's, mass the sum of
    counts times exp(gap), and u - gamma_top = exp(depth) lean. A token that ties with the top one in score
    has the weight -s_t (u - gamma_top), which stays in the log domain because lean does.

    The gaps of all but the top slots are given with ``shift`` added, and so is depth. Gradient flow shifts by
    log t, which makes gaps of size one out of differences between huge numbers.
    """
    u, depth, lean, log_mass = inputs[U], inputs[DEPTH], inputs[LEAN], inputs[LOG_MASS]
    for i in range(offsets.size - 1):
        # Unsigned indices spare the check for negative ones, a tenth of the time here.
        first, last, top = np.uintp(offsets[i]), np.uintp(offsets[i + 1]), np.uintp(tops[i])
        score = scores[top]
        deepest = -np.inf
        for slot in range(first, last):
            if gaps[slot] > deepest and scores[slot] != score:
                deepest = gaps[slot]
        tied = counts[top]
        untied = 0.0
        pull = 0.0
        for slot in range(first, last):
            rise = scores[slot] - score
            if rise != 0.0:
                x = gaps[slot] - deepest
                share = counts[slot] * math.exp(x) if x > UNDERFLOW else 0.0
                untied += share
                pull += share * rise
                weights[slot] = share
            elif slot != top:
                share = counts[slot] * math.exp(gaps[slot] - shift)
                tied += share
                weights[slot] = share
        reach = math.exp(deepest - shift) if deepest - shift > NEGLIGIBLE else 0.0
        mass = tied + reach * untied
        lean_i = pull / mass
        drift = reach * lean_i
        total = 0.0
        for slot in range(first, last):
            if slot != top:
                rise = scores[slot] - score
                weight = weights[slot] * (rise - drift if rise != 0.0 else -lean_i)
                weights[slot] = weight
                total += weight
        weights[top] = -total
        u[i] = score + drift
        depth[i] = deepest
        lean[i] = lean_i
        log_mass[i] = math.log(mass) if mass != 1.0 else 0.0


@uncounted(types.void(VECTOR, SLOPE, OUT))
def log_slopes(u, log_slope, out):  # type: ignore[no-untyped-def]
    """log|l'(u)| of an array."""
    for i in range(u.size):
        out[i] = log_slope(u[i])


@inlined()
def take_logs(tops, scores, shift, inputs):  # type: ignore[no-untyped-def]
    """log u in place of u, for scores that are never negative, from what `settle` leaves.

    u = score_top + exp(depth - shift) lean. Below a top token that scores zero u may underflow, and the slope
    1/u takes exp(depth) out of the weights again: then depth becomes the shift, and u log(lean), without it.
    """
    u, depth, lean = inputs[U], inputs[DEPTH], inputs[LEAN]
    for i in range(u.size):
        score = scores[tops[i]]
        if score > 0.0:
            u[i] = math.log1p(math.exp(depth[i] - shift) * lean[i] / score) + math.log(score)
        else:
            depth[i] = shift
            u[i] = math.log(lean[i])


@inlined()
def scale_inputs(inputs, log_weights, log_slope):  # type: ignore[no-untyped-def]
    """log of each input's factor in the gradient, and the largest; a saturated input keeps its slope."""
    u, depth, log_mass = inputs[U], inputs[DEPTH], inputs[LOG_MASS]
    seen, slopes, log_scale = inputs[SEEN], inputs[SLOPES], inputs[LOG_SCALE]
    common = -np.inf
    for i in range(u.size):
        if u[i] != seen[i]:
            seen[i] = u[i]
            slopes[i] = log_slope(u[i]) + log_weights[i]
        log_scale[i] = depth[i] - log_mass[i] + slopes[i]
        common = max(common, log_scale[i])
    return common
