"""Kernels of keys and heads; imported where they are called, because numba takes half a second to import."""

from __future__ import annotations

import math

import numpy as np
from numba import float64, intp, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_INDEX,
    OUT_TABLE,
    TABLE,
    UNDERFLOW,
    VECTOR,
    VECTORIZED,
    dot,
    inlined,
    maximum,
    uncounted,
)
from hardmax._lib.kernels import kernel


@uncounted(types.void(TABLE, INDEX, INDEX, VECTOR, OUT, OUT_INDEX), fastmath=VECTORIZED)
def gaps_to_top(keys, tokens, offsets, p, gaps, tops):  # type: ignore[no-untyped-def]
    """Top slot of each input and every slot's logit gap to it: (k_t - k_top).p <= 0.

    The difference of keys is taken first, which is exact where a difference of logits would cancel.
    """
    for i in range(offsets.size - 1):
        first, last = np.uintp(offsets[i]), np.uintp(offsets[i + 1])
        top = first
        best = -np.inf
        for slot in range(first, last):
            token = np.uintp(tokens[slot])
            logit = 0.0
            for j in range(p.size):
                logit += keys[token, j] * p[j]
            if logit > best:
                best = logit
                top = np.uintp(slot)
        tops[i] = top
        reference = np.uintp(tokens[top])
        for slot in range(first, last):
            token = np.uintp(tokens[slot])
            gap = 0.0
            for j in range(p.size):
                gap += (keys[token, j] - keys[reference, j]) * p[j]
            gaps[slot] = min(gap, 0.0)  # above it by rounding: of huge logits by any number


@uncounted(float64(TABLE, INDEX, INDEX, INDEX, VECTOR, VECTOR, OUT))
def gather(table, tokens, offsets, tops, weights, log_scale, V):  # type: ignore[no-untyped-def]
    """V = sum_i exp(log_scale_i - F) sum_t w_t (row_t - row_top); returns F, the exponent taken out."""
    common = maximum(log_scale)
    V[:] = 0.0
    if common == -np.inf:
        return common
    for i in range(offsets.size - 1):
        x = log_scale[i] - common
        if x > UNDERFLOW:
            scale = math.exp(x)
            top = np.uintp(tops[i])
            reference = np.uintp(tokens[top])
            for slot in range(np.uintp(offsets[i]), np.uintp(offsets[i + 1])):
                weight = scale * weights[slot]
                if weight != 0.0 and slot != top:
                    token = np.uintp(tokens[slot])
                    for j in range(V.size):
                        V[j] += weight * (table[token, j] - table[reference, j])
    return common


@kernel(signature=lambda: types.void(INDEX, INDEX, VECTOR, OUT, OUT_INDEX))
def one_hot_gaps(tokens, offsets, p, gaps, tops):  # type: ignore[no-untyped-def]
    """Top slot of each input and logit gaps p_t - p_top, for unit vectors as keys."""
    for i in range(offsets.size - 1):
        top, best = offsets[i], -np.inf
        for slot in range(offsets[i], offsets[i + 1]):
            if p[tokens[slot]] > best:
                top, best = slot, p[tokens[slot]]
        tops[i] = top
        for slot in range(offsets[i], offsets[i + 1]):
            gaps[slot] = p[tokens[slot]] - best


@kernel(signature=lambda: float64(INDEX, INDEX, INDEX, VECTOR, VECTOR, OUT))
def one_hot_gather(tokens, offsets, tops, weights, log_scale, V):  # type: ignore[no-untyped-def]
    """Fill V as `gather` does for unit vectors; an input's weights sum to zero, so each goes to its entry."""
    common = maximum(log_scale)
    V[:] = 0.0
    if common == -np.inf:
        return common
    for i in range(offsets.size - 1):
        x = log_scale[i] - common
        if x > UNDERFLOW:
            scale = math.exp(x)
            for slot in range(offsets[i], offsets[i + 1]):
                V[tokens[slot]] += scale * weights[slot]
    return common


@inlined()
def gaps_along(left, rows, first, last, view, gaps):  # type: ignore[no-untyped-def]
    """The top slot of one input whose tokens x have the logits x.view, and the gaps (x_t - x_top).view."""
    top, best = first, -np.inf
    for slot in range(first, last):
        logit = dot(left[rows[slot]], view)
        if logit > best:
            top, best = slot, logit
    reference = rows[top]
    for slot in range(first, last):
        row, gap = rows[slot], 0.0
        for a in range(view.size):
            gap += (left[row, a] - left[reference, a]) * view[a]
        gaps[slot] = min(gap, 0.0)
    return top


@inlined()
def pull_along(left, rows, first, last, top, weights, scale, pull):  # type: ignore[no-untyped-def]
    """Fill ``pull`` with scale sum_t w_t (x_t - x_top) of one input."""
    reference = rows[top]
    pull[:] = 0.0
    for slot in range(first, last):
        weight = scale * weights[slot]
        if weight != 0.0 and slot != top:
            row = rows[slot]
            for a in range(pull.size):
                pull[a] += weight * (left[row, a] - left[reference, a])


@kernel(signature=lambda: types.void(TABLE, TABLE, INDEX, INDEX, INDEX, TABLE, OUT, OUT_INDEX))
def product_gaps(left, right, rows, queries, offsets, W, gaps, tops):  # type: ignore[no-untyped-def]
    """Top slot of each input and gaps (x_t - x_top).Wz, for products of tokens x and their queries z."""
    view, before = np.empty(W.shape[0]), -1
    for i in range(offsets.size - 1):
        z = queries[i]
        if z != before:
            before = z
            for a in range(W.shape[0]):
                view[a] = dot(W[a], right[z])
        tops[i] = gaps_along(left, rows, offsets[i], offsets[i + 1], view, gaps)


@kernel(signature=lambda: float64(TABLE, TABLE, INDEX, INDEX, INDEX, INDEX, VECTOR, VECTOR, OUT_TABLE))
def product_gather(  # type: ignore[no-untyped-def]
    left, right, rows, queries, offsets, tops, weights, log_scale, G
):
    """Fill G as `gather` does for outer products: each input adds (sum_t w_t (x_t - x_top)) z'."""
    common = maximum(log_scale)
    G[:] = 0.0
    if common == -np.inf:
        return common
    pull = np.empty(G.shape[0])
    for i in range(offsets.size - 1):
        x = log_scale[i] - common
        if x > UNDERFLOW:
            first, last, top = offsets[i], offsets[i + 1], tops[i]
            pull_along(left, rows, first, last, top, weights, math.exp(x), pull)
            z = queries[i]
            for a in range(pull.size):
                for b in range(G.shape[1]):
                    G[a, b] += pull[a] * right[z, b]
    return common


@kernel(signature=lambda: types.void(INDEX, INDEX, VECTOR, INDEX, INDEX, intp, float64, OUT, OUT))
def attend_aligned(outputs, offsets, shares, tops, targets, V, margin, h, u):  # type: ignore[no-untyped-def]
    """For W_ov = margin W_ov*: the common part of the columns cancels, so z_v = margin M_v."""
    mass, counted = np.empty(V), np.empty(V, np.bool_)
    mass[:], counted[:] = 0.0, False
    for i in range(targets.size):
        first, last, y = offsets[i], offsets[i + 1], targets[i]
        for slot in range(first, last):
            if outputs[slot] >= 0:
                mass[outputs[slot]] += shares[slot]
        lead = margin * mass[y]
        mass[y] = 0.0
        peak = 0.0
        for slot in range(first, last):
            if outputs[slot] >= 0 and outputs[slot] != y:
                peak = max(peak, margin * mass[outputs[slot]])
        rest, total = V - 1, 0.0
        for slot in range(first, last):
            out = outputs[slot]
            if out >= 0 and out != y and not counted[out]:
                counted[out] = True
                mass[out] = math.exp(margin * mass[out] - peak)
                total += mass[out]
                rest -= 1
        total += rest * math.exp(-peak)
        for slot in range(first, last):
            out = outputs[slot]
            h[slot] = 0.0 if out < 0 else (margin if out == y else -margin * (mass[out] / total))
        top = h[tops[i]]
        for slot in range(first, last):
            h[slot] -= top
            if outputs[slot] >= 0:
                mass[outputs[slot]], counted[outputs[slot]] = 0.0, False
        u[i] = lead - peak - math.log(total)


@kernel(
    signature=lambda: types.void(INDEX, INDEX, VECTOR, INDEX, INDEX, TABLE, OUT, OUT), fastmath=VECTORIZED
)
def attend_table(words, offsets, shares, tops, targets, columns, h, u):  # type: ignore[no-untyped-def]
    """For any table; ``columns`` holds the columns B[:, x] as rows."""
    V = columns.shape[1]
    z, r = np.empty(V), np.empty(V)
    for i in range(targets.size):
        first, last, y = offsets[i], offsets[i + 1], targets[i]
        z[:] = 0.0
        for slot in range(first, last):
            for v in range(V):
                z[v] += shares[slot] * columns[words[slot], v]
        peak = -np.inf
        for v in range(V):
            if v != y:
                peak = max(peak, z[v])
        total = 0.0
        for v in range(V):
            r[v] = math.exp(z[v] - peak) if v != y else 0.0
            total += r[v]
        u[i] = z[y] - peak - math.log(total)
        top = words[tops[i]]
        for slot in range(first, last):
            word = words[slot]
            ahead = columns[word, y] - columns[top, y]
            rise = 0.0
            for v in range(V):
                rise += r[v] * (ahead - (columns[word, v] - columns[top, v]))
            h[slot] = rise / total
