"""Compiled loops of a training step, for float32 and float64: updates of the optimisers, and passes over E.

They share a file because numba's cache looks at one file only: a pass compiled with an older update would
otherwise stay in use.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float32, float64, intp, njit, types

from hardmax._lib.compiled import VECTORIZED

TILE = 512  # columns; five stretches of them fit into the first-level cache
TINY = 2.0**-126  # the least normal number of float32


def stretch(kind: Any, readonly: bool = False) -> Any:
    """Type of a contiguous array of numbers, as the kernels take it."""
    return types.Array(kind, 1, "C", readonly=readonly)


_UPDATES = [types.void(*[stretch(kind)] * 4, stretch(kind, readonly=True)) for kind in (float32, float64)]


@njit(_UPDATES, cache=True, nogil=True, error_model="numpy", fastmath=VECTORIZED)
def update_adamw(x, g, first, second, k):  # type: ignore[no-untyped-def]
    """One AdamW step of the parameters x with gradient g, in place, with the scalars k.

    Moments below the normal numbers of float32 become zero. They are so far below eps that x does not see it;
    arithmetic with them is slow, and a decaying one would be rounded to itself and never end.
    """
    keep, gain, hold, gain2, rate, scale, eps = k[0], k[1], k[2], k[3], k[4], k[5], k[6]
    zero, tiny = x.dtype.type(0), x.dtype.type(TINY)
    for j in range(x.size):
        m = first[j] + gain * (g[j] - first[j])
        s = hold * second[j] + gain2 * g[j] * g[j]
        m = m if abs(m) >= tiny else zero
        s = s if s >= tiny else zero
        first[j] = m
        second[j] = s
        x[j] = keep * x[j] - rate * (m / (math.sqrt(s) * scale + eps))


@njit(_UPDATES, cache=True, nogil=True, fastmath=VECTORIZED)
def update_sgd(x, g, first, second, k):  # type: ignore[no-untyped-def]
    """One step of SGD; the second moment is not used."""
    decay, momentum, rate = k[0], k[1], k[2]
    for j in range(x.size):
        m = momentum * first[j] + (g[j] + decay * x[j])
        first[j] = m
        x[j] = x[j] - rate * m


def _read(kind: types.Type, dimensions: int) -> types.Type:
    return types.Array(kind, dimensions, "C", readonly=True)


_GATHER = [
    types.void(_read(x, 2), _read(intp, 1), _read(x, 1), _read(x, 1), intp, intp, x[:, :, ::1])
    for x in (float32, float64)
]
_ADVANCE = [
    types.void(
        x[:, ::1], x[:, ::1], x[:, ::1], _read(intp, 1), intp[::1], stretch(x), stretch(x),
        _read(x, 3), _read(x, 2), intp, _read(x, 2), boolean, stretch(x), stretch(x),
    )
    for x in (float32, float64)
]  # fmt: skip


@njit(_GATHER, cache=True, nogil=True, fastmath=VECTORIZED)
def gradients_of_vectors(E, rows, A, C, first, stride, out):  # type: ignore[no-untyped-def]
    """E' A and E' C over a list of rows, in as many blocks as ``out`` has; here each stride-th of them."""
    blocks = len(out)
    for block in range(first, blocks, stride):
        by_p, by_v = out[block, 0], out[block, 1]
        by_p[:] = 0
        by_v[:] = 0
        for r in range(block * rows.size // blocks, (block + 1) * rows.size // blocks):
            s = rows[r]
            x, y = A[s], C[s]
            row = E[s]
            for j in range(row.size):
                by_p[j] += x * row[j]
                by_v[j] += y * row[j]


@njit(_ADVANCE, cache=True, nogil=True, fastmath=VECTORIZED)
def advance_rows(  # type: ignore[no-untyped-def]
    E, first, second, rows, done, A, C, vectors_at, k_at, now, vectors, adaptive, a, c
):
    """Take a list of rows through the steps they missed, and form a and c with today's p and v.

    Row s stands before step done[s], whose gradient is A_s p + C_s v with that step's p and v; in the steps
    after it, up to ``now``, no batch held its token and the gradient is zero.
    """
    d = E.shape[1]
    g, none = np.empty(TILE, E.dtype), np.zeros(TILE, E.dtype)
    zero = E.dtype.type(0)
    for r in range(rows.size):
        s = rows[r]
        x, y, begin = A[s], C[s], done[s]
        total_a, total_c = zero, zero
        for start in range(0, d, TILE):
            end = min(start + TILE, d)
            size = end - start
            row, m = E[s][start:end], first[s][start:end]
            if begin < now:
                p, v = vectors_at[begin, 0][start:end], vectors_at[begin, 1][start:end]
                for j in range(size):
                    g[j] = x * p[j] + y * v[j]
            gradient = g[:size]
            for step in range(begin, now):
                if adaptive:
                    update_adamw(row, gradient, m, second[s][start:end], k_at[step])
                else:
                    update_sgd(row, gradient, m, m, k_at[step])
                gradient = none[:size]
            p, v = vectors[0][start:end], vectors[1][start:end]
            for j in range(size):
                total_a += row[j] * p[j]
                total_c += row[j] * v[j]
        a[s] = total_a
        c[s] = total_c
        A[s] = zero
        C[s] = zero
        done[s] = now
