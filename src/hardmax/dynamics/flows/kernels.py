"""Compiled parts of a flow: the force, and one extrapolated step along it."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_INDEX,
    OUT_TABLE,
    SLOPE,
    TABLE,
    VECTOR,
    VECTORIZED,
    njit,
    set_row,
)
from hardmax.dynamics.softmax import settle, take_logs


@njit(
    types.void(
        VECTOR, INDEX, VECTOR, VECTOR, INDEX, VECTOR, float64, SLOPE, boolean, OUT, OUT, OUT, OUT, OUT, OUT
    ),
    cache=True,
    nogil=True,
)
def shifted_scales(  # type: ignore[no-untyped-def]
    gaps,
    tops,
    scores,
    counts,
    offsets,
    log_weights,
    shift,
    log_slope,
    in_log,
    weights,
    u,
    depth,
    lean,
    log_mass,
    log_scale,
):
    """Weights of the slots, and log of what those of each input are to be multiplied with."""
    inputs = np.empty((4, u.size))
    settle(gaps, tops, scores, counts, offsets, shift, weights, inputs)
    if in_log:
        take_logs(tops, scores, shift, inputs)
    for i in range(offsets.size - 1):
        u[i], depth[i], lean[i], log_mass[i] = inputs[0, i], inputs[1, i], inputs[2, i], inputs[3, i]
        log_scale[i] = depth[i] - log_mass[i] + (log_slope(u[i]) + log_weights[i])


@njit(
    types.void(
        VECTOR,
        TABLE,
        INDEX,
        VECTOR,
        VECTOR,
        INDEX,
        VECTOR,
        float64,
        float64,
        SLOPE,
        boolean,
        float64,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
    ),
    cache=True,
    nogil=True,
)
def shifted_force(  # type: ignore[no-untyped-def]
    gaps,
    D,
    tops,
    scores,
    counts,
    offsets,
    log_weights,
    total,
    shift,
    log_slope,
    in_log,
    cap,
    weights,
    u,
    depth,
    lean,
    log_mass,
    log_scale,
    F,
):
    """F = exp(shift) (-gradient), from gaps that carry the shift already; exponents are capped."""
    shifted_scales(
        gaps,
        tops,
        scores,
        counts,
        offsets,
        log_weights,
        shift,
        log_slope,
        in_log,
        weights,
        u,
        depth,
        lean,
        log_mass,
        log_scale,
    )
    F[:] = 0.0
    for i in range(offsets.size - 1):
        scale = math.exp(min(log_scale[i], cap)) / total
        for slot in range(offsets[i], offsets[i + 1]):
            weight = scale * weights[slot]
            if weight != 0.0 and slot != tops[i]:
                for j in range(F.size):
                    F[j] += weight * D[slot, j]


@njit(
    types.void(VECTOR, VECTOR, float64, float64, VECTOR, VECTOR, INDEX, float64, boolean[::1], OUT_INDEX),
    cache=True,
    nogil=True,
)
def weigh(logits, ends, tau, last, log_counts, base, offsets, cut, kept, tops):  # type: ignore[no-untyped-def]
    """Which slots may weigh more than exp(cut) between a start and an end, and the top slots at the start.

    Of an input of which no other slot is kept the top one is not kept either: it would have no pull.
    """
    for i in range(tops.size):
        top = offsets[i]
        for slot in range(offsets[i], offsets[i + 1]):
            if logits[slot] > logits[top]:
                top = slot
        tops[i] = top
        least = cut - base[i]
        some = False
        for slot in range(offsets[i], offsets[i + 1]):
            rise = max(tau + logits[slot] - logits[top], last + ends[slot] - ends[top])
            kept[slot] = slot != top and rise + log_counts[slot] > least
            some = some or kept[slot]
        kept[top] = some


@njit(types.void(TABLE, INDEX, INDEX, INDEX, OUT_TABLE), cache=True, nogil=True)
def from_tops(keys, offsets, tops, seen, D):  # type: ignore[no-untyped-def]
    """D = keys minus that of their input's top slot, where that is not the one that D was made for."""
    top = np.empty(D.shape[1])
    for i in range(tops.size):
        if tops[i] != seen[i]:
            for j in range(D.shape[1]):  # D may be keys itself
                top[j] = keys[tops[i], j]
            for slot in range(offsets[i], offsets[i + 1]):
                for j in range(D.shape[1]):
                    D[slot, j] = keys[slot, j] - top[j]


@njit(types.void(OUT_TABLE, types.intp[::1]), cache=True, nogil=True)
def _factor(A, pivots):  # type: ignore[no-untyped-def]
    """A = P L U in place, with partial pivoting; a small matrix is not worth a call to LAPACK."""
    n = len(A)
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        pivots[k] = best
        if best != k:
            for j in range(n):
                A[k, j], A[best, j] = A[best, j], A[k, j]
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


@njit(types.void(OUT_TABLE, types.intp[::1], OUT), cache=True, nogil=True)
def _solve(A, pivots, y):  # type: ignore[no-untyped-def]
    """y of A y = y, with the factors of A."""
    n = len(A)
    for k in range(n):
        y[k], y[pivots[k]] = y[pivots[k]], y[k]
    for i in range(1, n):
        for j in range(i):
            y[i] -= A[i, j] * y[j]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            y[i] -= A[i, j] * y[j]
        y[i] /= A[i, i]


@njit(types.void(VECTOR, VECTOR, float64, TABLE, VECTOR, OUT), cache=True, nogil=True, fastmath=VECTORIZED)
def _moved_gaps(exponents, rise, sigma, D, z, gaps):  # type: ignore[no-untyped-def]
    """tau + logit gaps to the top slots at the distance sigma along the heading, and z beside it."""
    r = D.shape[1]
    for slot in range(gaps.size):
        gap = 0.0
        for j in range(r):
            gap += D[slot, j] * z[j]
        gaps[slot] = exponents[slot] + sigma * rise[slot] + gap + z[r]


@njit(
    float64(
        float64,
        int64,
        float64,
        VECTOR,
        VECTOR,
        TABLE,
        VECTOR,
        TABLE,
        INDEX,
        VECTOR,
        VECTOR,
        INDEX,
        VECTOR,
        float64,
        SLOPE,
        boolean,
        float64,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def extrapolated_step(  # type: ignore[no-untyped-def]
    sigma,
    order,
    tau,
    exponents,
    rise,
    D,
    heading,
    jacobian,
    tops,
    scores,
    counts,
    offsets,
    log_weights,
    total,
    log_slope,
    in_log,
    cap,
    weights,
    u,
    depth,
    lean,
    log_mass,
    log_scale,
    end,
):
    """`field.extrapolated` with the speed (F, 1)/|(F, 1)| of (p, tau): fills in z, returns the error."""
    size = heading.size
    r = size - 1
    A, pivots = np.empty((size, size)), np.empty(size, np.intp)
    gaps, F, z, move = np.empty(exponents.size), np.empty(r), np.empty(size), np.empty(size)
    above, row = np.zeros((order, size)), np.zeros((order, size))
    for parts in range(1, order + 1):
        h = sigma / parts
        for i in range(size):
            for j in range(size):
                A[i, j] = (1.0 if i == j else 0.0) - h * jacobian[i, j]
        _factor(A, pivots)
        z[:] = 0.0
        for part in range(1, parts + 1):
            along = part * h
            _moved_gaps(exponents, rise, along, D, z, gaps)
            now = tau + along * heading[r] + z[r]
            shifted_force(
                gaps,
                D,
                tops,
                scores,
                counts,
                offsets,
                log_weights,
                total,
                now,
                log_slope,
                in_log,
                cap,
                weights,
                u,
                depth,
                lean,
                log_mass,
                log_scale,
                F,
            )
            square = 1.0
            for j in range(r):
                square += F[j] * F[j]
            length = math.sqrt(square)
            for j in range(r):
                move[j] = h * (F[j] / length - heading[j])
            move[r] = h * (1.0 / length - heading[r])
            _solve(A, pivots, move)
            for j in range(size):
                z[j] += move[j]
        above, row = row, above
        set_row(row, 0, z)
        for k in range(1, parts):
            ratio = parts / (parts - k) - 1.0
            for j in range(size):
                row[k, j] = row[k - 1, j] + (row[k - 1, j] - above[k - 1, j]) / ratio
    error = 0.0
    for j in range(size):
        end[j] = row[order - 1, j]
        apart = abs(row[order - 1, j] - row[order - 2, j])
        error = apart if apart > error or math.isnan(apart) else error
    return error if math.isfinite(error) else np.inf
