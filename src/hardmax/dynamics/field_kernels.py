"""Compiled parts of a flow: the force, one extrapolated step along it, and differences to the top slots."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from hardmax._lib.compiled import INDEX, OUT, OUT_TABLE, TABLE, VECTOR, VECTORIZED, inlined, njit, uncounted
from hardmax.dynamics.forces import GAPS, LAYOUT, WEIGHTS, WORKSPACE, settle_inputs
from hardmax.dynamics.softmax import LOG_SCALE

# The force at a trial point may be anything; its exponents are capped here instead of overflowing.
OVERFLOW = 300.0


class Frame(NamedTuple):
    """One step's own coordinates: state = start + sigma heading + z."""

    D: np.ndarray  # (M, r) keys minus that of their input's top slot
    exponents: np.ndarray  # (M,) tau + D p at the start
    rise: np.ndarray  # (M,) their change along the heading
    heading: np.ndarray  # (size,)
    jacobian: np.ndarray  # (size, size) derivative of the speed by the state, at the start
    tau: float
    tau_rate: float  # its change along the heading


FRAME = types.NamedTuple((OUT_TABLE, OUT, OUT, OUT, OUT_TABLE, float64, float64), Frame)


@uncounted(types.void(LAYOUT, TABLE, float64, WORKSPACE, OUT))
def fill_force(layout, D, shift, work, F):  # type: ignore[no-untyped-def]
    """F = exp(shift) (-gradient), from gaps that carry the shift already; exponents are capped."""
    settle_inputs(layout, layout.scores, shift, work)
    weights, offsets = work.slots[WEIGHTS], layout.offsets
    F[:] = 0.0
    for i in range(offsets.size - 1):
        scale = math.exp(min(work.inputs[LOG_SCALE, i], OVERFLOW)) / layout.total
        for slot in range(offsets[i], offsets[i + 1]):
            weight = scale * weights[slot]
            if weight != 0.0 and slot != work.tops[i]:
                for j in range(F.size):
                    F[j] += weight * D[slot, j]


@njit(types.void(FRAME, float64, VECTOR, OUT), cache=True, nogil=True, fastmath=VECTORIZED)
def _fill_gaps(frame, sigma, z, gaps):  # type: ignore[no-untyped-def]
    """tau + logit gaps to the top slots at the distance sigma along the heading, and z next to it."""
    exponents, rise, D = frame.exponents, frame.rise, frame.D
    r = D.shape[1]
    later = z[r] if z.size > r else 0.0
    for slot in range(gaps.size):
        gap = 0.0
        for j in range(r):
            gap += D[slot, j] * z[j]
        gaps[slot] = exponents[slot] + sigma * rise[slot] + gap + later


@inlined()
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


@inlined()
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


@njit(float64(LAYOUT, FRAME, float64, int64, WORKSPACE, OUT), cache=True, nogil=True, error_model="numpy")
def leap(layout, frame, sigma, order, work, end):  # type: ignore[no-untyped-def]
    """`flow.extrapolated` of the force itself, on either clock: fill in z at the end, return the error."""
    D, heading, jacobian = frame.D, frame.heading, frame.jacobian
    size, r = heading.size, D.shape[1]
    timed = size > r
    A, pivots = np.empty((size, size)), np.empty(size, np.intp)
    gaps, F, z, move = work.slots[GAPS], np.empty(r), np.empty(size), np.empty(size)
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
            _fill_gaps(frame, along, z, gaps)
            now = frame.tau + along * frame.tau_rate + (z[r] if timed else 0.0)
            fill_force(layout, D, now, work, F)
            square = 1.0 if timed else 0.0
            for j in range(r):
                square += F[j] * F[j]
            length = math.sqrt(square)
            for j in range(r):
                move[j] = h * (F[j] / length - heading[j])
            if timed:
                move[r] = h * (1.0 / length - heading[r])
            _solve(A, pivots, move)
            for j in range(size):
                z[j] += move[j]
        above, row = row, above
        for j in range(size):
            row[0, j] = z[j]
        for k in range(1, parts):
            ratio = parts / (parts - k) - 1.0
            for j in range(size):
                row[k, j] = row[k - 1, j] + (row[k - 1, j] - above[k - 1, j]) / ratio
    error = 0.0
    for j in range(size):
        end[j] = row[order - 1, j]
        change = abs(row[order - 1, j] - row[order - 2, j])
        error = change if change > error or math.isnan(change) else error
    return error if math.isfinite(error) else np.inf


@njit(types.void(TABLE, INDEX, INDEX, INDEX, OUT_TABLE), cache=True, nogil=True)
def from_tops(keys, offsets, tops, before, D):  # type: ignore[no-untyped-def]
    """D = keys minus that of their input's top slot, where that is not the one that D was made for."""
    top = np.empty(D.shape[1])
    for i in range(tops.size):
        if tops[i] != before[i]:
            for j in range(D.shape[1]):  # D may be keys itself
                top[j] = keys[tops[i], j]
            for slot in range(offsets[i], offsets[i + 1]):
                for j in range(D.shape[1]):
                    D[slot, j] = keys[slot, j] - top[j]
