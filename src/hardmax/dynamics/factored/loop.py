"""Compiled steps of the factors of W = K Q' (D-DEF-2). Neither W nor its gradient is ever formed.

With minus the gradient by W = exp(M) sum_i c_i z_i', c_i = sum_t w_it (x_it - x_i,top), that by K is exp(M)
sum_i c_i (Q'z_i)' and that by Q is exp(M) sum_i z_i (K'c_i)': both of the size of the factors, and with one
exponent.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_TABLE,
    SLOPE,
    TABLE,
    UNDERFLOW,
    VECTOR,
    dot,
    fill_rows,
    njit,
    set_row,
)
from hardmax._lib.kernels import kernel
from hardmax.dynamics.loops import (
    BY_RULE,
    DONE,
    ENDED,
    NO_COMPETITOR,
    STATIONARY,
    UNIT_ALONG,
    move_by_rule,
    rescale,
    scale_inputs,
    step_factor,
)
from hardmax.dynamics.rules.loop import RUNAWAY
from hardmax.dynamics.softmax import settle, take_logs
from hardmax.dynamics.updates import UPDATE
from hardmax.problem.kernels import gaps_along, pull_along

# Left and right factors of the keys, where they stand; slots; what the head says of them.
PROBLEM = (TABLE, TABLE, INDEX, INDEX, INDEX, INDEX, VECTOR, VECTOR, VECTOR)
RULE = (VECTOR, int64, VECTOR, UPDATE, OUT_TABLE, float64)


@kernel(signature=lambda: float64(*PROBLEM, VECTOR, int64, SLOPE, boolean, OUT))
def factor_force(  # type: ignore[no-untyped-def]
    left, right, token, query, tokens, offsets, counts, scores, log_weights, x, m, log_slope, in_log, V
):
    """V exp(F) = minus the gradient times the total, by x = (K, Q), both row by row; returns F."""
    n, slots, wide, high = offsets.size - 1, tokens.size, left.shape[1], right.shape[1]
    K, Q = x[: wide * m].reshape(wide, m), x[wide * m :].reshape(high, m)
    by_K, by_Q = V[: wide * m].reshape(wide, m), V[wide * m :].reshape(high, m)
    gaps, weights, tops = np.empty(slots), np.empty(slots), np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    seen, slopes, log_scale = np.empty(n), np.empty(n), np.empty(n)
    seen[:] = np.nan
    shadows, view, pull = np.empty((n, m)), np.empty(wide), np.empty(wide)
    for i in range(n):
        z = right[query[tokens[offsets[i]]]]
        for b in range(m):
            shadow = 0.0
            for c in range(high):
                shadow += Q[c, b] * z[c]
            shadows[i, b] = shadow  # Q'z
        for a in range(wide):
            view[a] = dot(K[a], shadows[i])
        tops[i] = gaps_along(left, token, tokens, offsets[i], offsets[i + 1], view, gaps)
    settle(gaps, tops, scores, counts, offsets, 0.0, weights, u, depth, lean, log_mass)
    if in_log:
        take_logs(tops, scores, lean, 0.0, depth, u)
    common = scale_inputs(u, depth, log_mass, log_weights, log_slope, seen, slopes, log_scale)
    V[:] = 0.0
    if common == -np.inf:
        return common
    for i in range(n):
        behind = log_scale[i] - common
        if behind > UNDERFLOW:
            first, last = offsets[i], offsets[i + 1]
            pull_along(left, token, tokens, first, last, tops[i], weights, math.exp(behind), pull)
            z = right[query[tokens[first]]]
            for a in range(wide):
                for b in range(m):
                    by_K[a, b] += pull[a] * shadows[i, b]
            for b in range(m):
                share = 0.0
                for a in range(wide):
                    share += K[a, b] * pull[a]
                for c in range(high):
                    by_Q[c, b] += z[c] * share
    return common


@njit(boolean(OUT, OUT, float64, int64, *RULE), cache=True, nogil=True)
def advance(x, V, log_scale, k, rates, kind, constants, update, state, unit):  # type: ignore[no-untyped-def]
    """Optimizer k of a block by its rule; False if nothing pulls it."""
    shrunk = rescale(V) if x.size else -np.inf
    if shrunk == -np.inf:
        return False
    total = log_scale + shrunk
    if kind == BY_RULE:
        move_by_rule(
            x, V, total, rates[k], k, constants, update, state, unit, np.empty(x.size), np.empty(x.size)
        )
    else:
        factor = step_factor(rates[k], math.sqrt(dot(V, V)), total, kind == UNIT_ALONG, constants[0])
        for j in range(x.size):
            x[j] += factor * V[j]
    return True


@kernel(
    signature=lambda: ENDED(
        *PROBLEM, float64, OUT, int64, int64, INDEX, OUT_TABLE, SLOPE, boolean, float64, *RULE, *RULE
    )
)
def descend_factors(  # type: ignore[no-untyped-def]
    left,
    right,
    token,
    query,
    tokens,
    offsets,
    counts,
    scores,
    log_weights,
    log_total,
    x,
    m,
    split,
    record,
    points,
    log_slope,
    in_log,
    limit,
    rates,
    kind,
    constants,
    update,
    state,
    unit,
    rates_2,
    kind_2,
    constants_2,
    update_2,
    state_2,
    unit_2,
):
    """Steps x = (K, Q) in place: its first ``split`` entries by one rule, the others by another."""
    V, before, saved = np.empty(x.size), np.empty(x.size), 0
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_row(points, saved, x)
            saved += 1
        if k == rates.size:
            break
        common = factor_force(
            left,
            right,
            token,
            query,
            tokens,
            offsets,
            counts,
            scores,
            log_weights,
            x,
            m,
            log_slope,
            in_log,
            V,
        )
        for j in range(x.size):
            before[j] = x[j]
        total = common - log_total
        first = advance(x[:split], V[:split], total, k, rates, kind, constants, update, state, unit)
        other = advance(
            x[split:], V[split:], total, k, rates_2, kind_2, constants_2, update_2, state_2, unit_2
        )
        if not (first or other):
            fill_rows(points, saved, x)
            return (NO_COMPETITOR if common == -np.inf else STATIONARY), k
        for j in range(x.size):
            if not abs(x[j]) <= limit:
                fill_rows(points, saved, before)
                return RUNAWAY, k
    return DONE, rates.size
