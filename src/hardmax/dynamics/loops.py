"""Compiled loops of the two rules along minus the gradient, in primal and in Gram coordinates.

Both stand on `softmax.settle`; `train.rules.loop` has the loop of all other rules.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_TABLE,
    SLOPE,
    TABLE,
    UNDERFLOW,
    VECTOR,
    VECTORIZED,
    dot,
    fill_rows,
    njit,
    set_row,
)
from hardmax._lib.kernels import kernel
from hardmax.dynamics.softmax import settle, take_logs
from hardmax.dynamics.updates import UPDATE
from hardmax.problem.kernels import gaps_to_top, gather

# How a loop ended.
DONE, STATIONARY, NO_COMPETITOR, CANCELLED = 0, 1, 2, 3

# How a step rule moves: by one factor along minus the gradient, or along its unit vector, or by an update.
ALONG, UNIT_ALONG, BY_RULE = 0, 1, 2

# Below this fraction of its uncancelled size, a squared norm from inner products has lost half its digits.
CANCELLATION = 1e-12

ENDED = types.Tuple((int64, int64))


@njit(float64(float64, float64, float64, boolean, float64), cache=True, nogil=True)
def step_factor(rate, length, log_scale, normalized, epsilon):  # type: ignore[no-untyped-def]
    """The number that V is multiplied by in one step, when minus the gradient is exp(log_scale) V."""
    if not normalized:
        return rate * math.exp(log_scale)
    if epsilon > 0.0:
        return rate / (length + epsilon * math.exp(min(-log_scale, 700.0)))
    return rate / length


@njit(float64(VECTOR, VECTOR, VECTOR, VECTOR, SLOPE, OUT, OUT, OUT), cache=True, nogil=True)
def scale_inputs(u, depth, log_mass, log_weights, log_slope, seen, slopes, log_scale):  # type: ignore[no-untyped-def]
    """log of each input's factor in the gradient, and the largest; a saturated input keeps its slope."""
    common = -np.inf
    for i in range(u.size):
        if u[i] != seen[i]:
            seen[i] = u[i]
            slopes[i] = log_slope(u[i]) + log_weights[i]
        log_scale[i] = depth[i] - log_mass[i] + slopes[i]
        common = max(common, log_scale[i])
    return common


@njit(float64(TABLE, VECTOR, OUT), cache=True, nogil=True, fastmath=VECTORIZED)
def times(gram, beta, pull):  # type: ignore[no-untyped-def]
    """pull = gram beta; returns beta.pull."""
    square = 0.0
    for r in range(beta.size):
        total = 0.0
        for q in range(beta.size):
            total += gram[r, q] * beta[q]
        pull[r] = total
        square += total * beta[r]
    return square


@njit(float64(VECTOR, VECTOR), cache=True, nogil=True, fastmath=VECTORIZED)
def dot_square(beta, squares):  # type: ignore[no-untyped-def]
    """sum of beta_r^2 |row_r|^2; m times it bounds the square of the uncancelled length."""
    total = 0.0
    for r in range(beta.size):
        total += beta[r] * beta[r] * squares[r]
    return total


@njit(float64(OUT), cache=True, nogil=True)
def rescale(V):  # type: ignore[no-untyped-def]
    """Divide V by its largest entry if its square would leave the range; returns the log of that entry."""
    square = dot(V, V)
    if 1e-250 < square < 1e250:
        return 0.0
    largest = 0.0
    for j in range(V.size):
        largest = max(largest, abs(V[j]))
    if largest == 0.0:
        return -np.inf
    for j in range(V.size):
        V[j] /= largest
    return math.log(largest)


@njit(
    types.void(OUT, VECTOR, float64, float64, int64, VECTOR, UPDATE, OUT_TABLE, float64, OUT, OUT),
    cache=True,
    nogil=True,
)
def move_by_rule(  # type: ignore[no-untyped-def]
    x, V, log_scale, rate, k, constants, update, state, unit, exponents, move
):
    """Optimizer k of x, where minus the gradient is exp(log_scale) V; the rule sees the user's units."""
    exponents[:] = log_scale + math.log(unit)
    update(V, exponents, constants, state, rate, k, move)
    for j in range(x.size):
        x[j] += unit * move[j]


@kernel(
    signature=lambda: ENDED(
        TABLE,
        INDEX,
        INDEX,
        VECTOR,
        VECTOR,
        VECTOR,
        float64,
        OUT,
        INDEX,
        OUT_TABLE,
        SLOPE,
        boolean,
        VECTOR,
        boolean,
        float64,
    )
)
def descend_primal(  # type: ignore[no-untyped-def]
    keys,
    tokens,
    offsets,
    counts,
    scores,
    log_weights,
    log_total,
    p,
    record,
    points,
    log_slope,
    in_log,
    rates,
    normalized,
    epsilon,
):
    """Steps p in place; ``points`` receives p after the steps named in ``record`` (sorted, ends included)."""
    n, slots, d = offsets.size - 1, tokens.size, p.size
    gaps, weights, V = np.empty(slots), np.empty(slots), np.empty(d)
    tops = np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    seen, slopes, log_scale = np.empty(n), np.empty(n), np.empty(n)
    seen[:] = np.nan
    saved = 0
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_row(points, saved, p)
            saved += 1
        if k == rates.size:
            break
        gaps_to_top(keys, tokens, offsets, p, gaps, tops)
        settle(gaps, tops, scores, counts, offsets, 0.0, weights, u, depth, lean, log_mass)
        if in_log:
            take_logs(tops, scores, lean, 0.0, depth, u)
        scale_inputs(u, depth, log_mass, log_weights, log_slope, seen, slopes, log_scale)
        common = gather(keys, tokens, offsets, tops, weights, log_scale, V)
        shrunk = rescale(V)
        if shrunk == -np.inf:
            fill_rows(points, saved, p)
            return (NO_COMPETITOR if common == -np.inf else STATIONARY), k
        length = math.sqrt(dot(V, V))
        factor = step_factor(rates[k], length, common + shrunk - log_total, normalized, epsilon)
        for j in range(d):
            p[j] += factor * V[j]
    return DONE, rates.size


@kernel(
    signature=lambda: ENDED(
        TABLE,
        INDEX,
        INDEX,
        VECTOR,
        VECTOR,
        VECTOR,
        float64,
        VECTOR,
        VECTOR,
        INDEX,
        OUT_TABLE,
        boolean,
        float64,
        SLOPE,
        boolean,
    )
)
def descend_gram(  # type: ignore[no-untyped-def]
    gram,
    row,
    offsets,
    counts,
    scores,
    log_weights,
    log_total,
    start,
    rates,
    record,
    coefficients,
    normalized,
    epsilon,
    log_slope,
    in_log,
):
    """The same in Gram coordinates; ``start`` holds the rows' logits at p(0), ``coefficients`` receives c."""
    n, slots, m = offsets.size - 1, row.size, start.size
    gaps, weights = np.empty(slots), np.empty(slots)
    tops = np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    seen, slopes, log_scale = np.empty(n), np.empty(n), np.empty(n)
    seen[:] = np.nan
    c, pull = np.zeros(m), np.empty(m)
    logits, padded = np.zeros(m + 1), np.zeros(m + 1)  # the last entry stands for the reference tokens
    beta = padded[:m]
    squares = np.empty(m)
    for r in range(m):
        logits[r], squares[r] = start[r], gram[r, r]
    saved = 0
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_row(coefficients, saved, c)
            saved += 1
        if k == rates.size:
            break
        if k % 1000 == 999:  # rounding drifts in a running sum: refresh from the coefficients
            for r in range(m):
                logits[r] = start[r] + dot(gram[r], c)
        for i in range(n):
            first, last = np.uintp(offsets[i]), np.uintp(offsets[i + 1])
            top = first
            best = -np.inf
            for slot in range(first, last):
                gaps[slot] = logits[np.uintp(row[slot])]
                if gaps[slot] > best:
                    best = gaps[slot]
                    top = np.uintp(slot)
            tops[i] = top
            for slot in range(first, last):
                gaps[slot] -= best
        settle(gaps, tops, scores, counts, offsets, 0.0, weights, u, depth, lean, log_mass)
        if in_log:
            take_logs(tops, scores, lean, 0.0, depth, u)
        common = scale_inputs(u, depth, log_mass, log_weights, log_slope, seen, slopes, log_scale)
        if common == -np.inf:
            fill_rows(coefficients, saved, c)
            return NO_COMPETITOR, k
        padded[:] = 0.0
        for i in range(n):
            x = log_scale[i] - common
            if x > UNDERFLOW:
                scale = math.exp(x)
                for slot in range(np.uintp(offsets[i]), np.uintp(offsets[i + 1])):
                    padded[np.uintp(row[slot])] += scale * weights[slot]
        shrunk = rescale(beta)
        if shrunk == -np.inf:
            fill_rows(coefficients, saved, c)
            return STATIONARY, k
        square = times(gram, beta, pull)
        if normalized and square < CANCELLATION * m * dot_square(beta, squares):
            return CANCELLED, k
        length = math.sqrt(square) if normalized else 0.0
        factor = step_factor(rates[k], length, common + shrunk - log_total, normalized, epsilon)
        for r in range(m):
            c[r] += factor * beta[r]
            logits[r] += factor * pull[r]
    return DONE, rates.size
