"""Compiled loops of a training step in float32 and float64: optimizer updates, and the pass over E.

They share a file because numba's cache looks at one file only: a pass compiled with an older update would
otherwise stay in use.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float32, float64, intp, types

from hardmax._lib.compiled import INDEX, OUT_TABLE, TABLE, VECTORIZED, njit

TILE = 1024  # columns at most: p and v of two steps, on this many, stay in the first-level cache
TERMS = 8  # of the series for steps without a gradient
REST = 4 + TERMS  # numbers that sum up such steps: see `extend_rests`


KINDS = (float32, float64)  # of the parameters


@njit(nogil=True, fastmath=VECTORIZED)
def _moments(m, s, g, gain, hold, gain2, tiny, zero):  # type: ignore[no-untyped-def]
    """Both moments after a gradient.

    Moments below the normal numbers become zero. They are so far below eps that x does not see it (`train`
    refuses a smaller eps); arithmetic with them is slow, and a decaying one would be rounded to itself and
    never end.
    """
    m = m + gain * (g - m)
    s = hold * s + gain2 * g * g
    return m if abs(m) >= tiny else zero, s if s >= tiny else zero


@njit(nogil=True, error_model="numpy", fastmath=VECTORIZED)
def _adamw(x, m, s, keep, rate, scale, eps):  # type: ignore[no-untyped-def]
    """A parameter after a step of AdamW, from its moments."""
    return keep * x - rate * (m / (math.sqrt(s) * scale + eps))


@njit(
    [types.void(*5 * (x[::1],)) for x in KINDS],
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath=VECTORIZED,
)
def update_adamw(x, g, first, second, k):  # type: ignore[no-untyped-def]
    """One AdamW step of the parameters x with gradient g, in place, with the scalars k."""
    keep, gain, hold, gain2, rate, scale, eps = k[0], k[1], k[2], k[3], k[4], k[5], k[6]
    zero, tiny = x.dtype.type(0), np.finfo(x.dtype).tiny
    for j in range(x.size):
        m, s = _moments(first[j], second[j], g[j], gain, hold, gain2, tiny, zero)
        first[j] = m
        second[j] = s
        x[j] = _adamw(x[j], m, s, keep, rate, scale, eps)


@njit(nogil=True, fastmath=VECTORIZED)
def update_sgd(x, g, first, k):  # type: ignore[no-untyped-def]
    """One step of SGD."""
    decay, momentum, rate = k[0], k[1], k[2]
    for j in range(x.size):
        m = momentum * first[j] + (g[j] + decay * x[j])
        first[j] = m
        x[j] = x[j] - rate * m


@njit(nogil=True, error_model="numpy", fastmath=VECTORIZED)
def _step_of_row(E, first, second, s, size, pv, b, A, C, k):  # type: ignore[no-untyped-def]
    """Row s takes the AdamW step b, with the gradient A p + C v; v is TILE numbers behind p.

    Rows are indexed, not sliced: numba counts the references to a slice, which takes as long as a tenth of
    the work.
    """
    keep, gain, hold, gain2, rate, scale, eps = k[b, 0], k[b, 1], k[b, 2], k[b, 3], k[b, 4], k[b, 5], k[b, 6]
    zero, tiny = E.dtype.type(0), np.finfo(E.dtype).tiny
    for j in range(size):
        g = A * pv[b, j] + C * pv[b, j + TILE]
        m, v = _moments(first[s, j], second[s, j], g, gain, hold, gain2, tiny, zero)
        first[s, j] = m
        second[s, j] = v
        E[s, j] = _adamw(E[s, j], m, v, keep, rate, scale, eps)


@njit(nogil=True, error_model="numpy", fastmath=VECTORIZED)
def _steps_of_row(E, first, second, s, size, pv, b, A, C, k, rests):  # type: ignore[no-untyped-def]
    """The same step and the ones after it without a gradient, which row b of ``rests`` sums up."""
    gain, hold, gain2, scale, eps = k[b, 1], k[b, 2], k[b, 3], k[b, 5], k[b, 6]
    keep, fade, fade2 = rests[b, 0], rests[b, 1], rests[b, 2]
    c0, c1, c2, c3 = rests[b, 4], rests[b, 5], rests[b, 6], rests[b, 7]
    c4, c5, c6, c7 = rests[b, 8], rests[b, 9], rests[b, 10], rests[b, 11]
    zero, tiny, one = E.dtype.type(0), np.finfo(E.dtype).tiny, E.dtype.type(1)
    for j in range(size):
        g = A * pv[b, j] + C * pv[b, j + TILE]
        m, v = _moments(first[s, j], second[s, j], g, gain, hold, gain2, tiny, zero)
        root = math.sqrt(v) * scale
        u = one / (root + eps)
        w = root * u
        total = c0 + w * (c1 + w * (c2 + w * (c3 + w * (c4 + w * (c5 + w * (c6 + w * c7))))))
        E[s, j] = keep * E[s, j] - (m * u) * total
        m *= fade
        v *= fade2
        first[s, j] = m if abs(m) >= tiny else zero
        second[s, j] = v if v >= tiny else zero


@njit(types.void(TABLE, intp, OUT_TABLE), cache=True, nogil=True, error_model="numpy")
def extend_rests(k_at, last, rests):  # type: ignore[no-untyped-def]
    """Let the sums for a gradient at each step up to ``last`` take in that step.

    After a gradient at step b the moments only fade, m_i = beta1^i m and s_i = beta2^i s in the i-th step
    after it, so that x moves by m times the sum of c_i / (q_i sqrt(s) + eps) with c_i the rate times beta1^i
    and q_i the scale of that step times beta2^(i/2). With u = 1 / (q_0 sqrt(s) + eps), w = q_0 sqrt(s) u and
    delta_i = 1 - q_i / q_0, both of 0 to 1, the sum is u times the series of w^n sum_i c_i delta_i^n: a
    polynomial that depends on b and ``last`` only. A row of ``rests`` holds the product of the decays, how
    far both moments have faded, the remainder of the series over its first term, and the coefficients.
    """
    keep, rate, scale = k_at[last, 0], k_at[last, 4], k_at[last, 5]
    beta, beta2 = 1.0 - k_at[last, 1], k_at[last, 2]
    rests[last] = 0.0
    rests[last, 0] = keep
    rests[last, 1] = 1.0
    rests[last, 2] = 1.0
    rests[last, 4] = rate
    for b in range(last):
        rest = rests[b]
        rest[0] *= keep
        rest[1] *= beta
        rest[2] *= beta2
        delta = max(1.0 - math.sqrt(rest[2]) * scale / k_at[b, 5], 0.0)
        beyond = rest[3] * rest[4] * keep
        term = rate * rest[1]
        for n in range(TERMS):
            rest[4 + n] = keep * rest[4 + n] + term
            term *= delta
        rest[3] = (beyond + term / (1.0 - delta)) / rest[4]


@njit(nogil=True, fastmath=VECTORIZED)
def _weighted_rows(E, size, rows, A, C, out):  # type: ignore[no-untyped-def]
    """E' A and E' C over a list of rows, four at a time: the sums are loaded and stored less often."""
    many = rows.size
    by_p, by_v = out[:size], out[TILE : TILE + size]
    by_p[:] = 0
    by_v[:] = 0
    none = E.dtype.type(0)
    for r in range(0, many, 4):
        last = many - 1 - r
        i, j, k, l = rows[r], rows[r + min(1, last)], rows[r + min(2, last)], rows[r + min(3, last)]
        A1, A2, A3 = A[j] if last >= 1 else none, A[k] if last >= 2 else none, A[l] if last >= 3 else none
        C1, C2, C3 = C[j] if last >= 1 else none, C[k] if last >= 2 else none, C[l] if last >= 3 else none
        A0, C0 = A[i], C[i]
        for t in range(size):
            by_p[t] += A0 * E[i, t] + A1 * E[j, t] + A2 * E[k, t] + A3 * E[l, t]
            by_v[t] += C0 * E[i, t] + C1 * E[j, t] + C2 * E[k, t] + C3 * E[l, t]


_FINISH = [
    types.void(*(x[:, ::1], intp, INDEX, *5 * (x[::1],), *2 * (x[:, ::1],), intp, boolean)) for x in KINDS
]
_ADVANCE = [
    types.void(
        *(*3 * (x[:, ::1],), intp, INDEX, INDEX, *3 * (x[::1],), *3 * (x[:, ::1],)),
        *(intp, boolean, *2 * (x[::1],)),
    )
    for x in KINDS
]


@njit(_FINISH, cache=True, nogil=True, fastmath=VECTORIZED)
def finish_tile(  # type: ignore[no-untyped-def]
    E, size, rows, A, C, pv, pv_first, pv_second, pv_at, k_at, last, adaptive
):
    """On a tile of columns: p and v take the step ``last``; A and C are not zero in ``rows`` only."""
    g = np.empty(2 * TILE, E.dtype)
    _weighted_rows(E, size, rows, A, C, g)
    for j in range(pv.size):
        pv_at[last, j] = pv[j]
    for start in (0, TILE):
        part = slice(start, start + size)
        if adaptive:
            update_adamw(pv[part], g[part], pv_first[part], pv_second[part], k_at[last])
        else:
            update_sgd(pv[part], g[part], pv_first[part], k_at[last])


@njit(_ADVANCE, cache=True, nogil=True, fastmath=VECTORIZED)
def advance_tile(  # type: ignore[no-untyped-def]
    E, first, second, size, rows, done, A, C, pv, pv_at, k_at, rests, now, adaptive, a, c
):
    """On a tile of columns: bring rows up to date, and take the tile's part of their a = E p and c = E v.

    Row s is the state before step done[s], whose gradient is A_s p + C_s v with that step's p and v. In the
    steps after it, up to ``now``, no batch held its token and the gradient is zero.
    """
    row, none = np.empty(TILE, E.dtype), np.empty(TILE, E.dtype)
    none[:] = 0
    exact = 2.0**-24 if E.itemsize == 4 else 2.0**-53
    for r in range(rows.size):
        s = rows[r]
        begin = done[s]
        if adaptive and now - begin == 1:
            _step_of_row(E, first, second, s, size, pv_at, begin, A[s], C[s], k_at)
        elif adaptive and now - begin > 1 and rests[begin, 3] <= exact:
            _steps_of_row(E, first, second, s, size, pv_at, begin, A[s], C[s], k_at, rests)
        elif begin < now:
            gradient = row[:size]
            for j in range(size):
                gradient[j] = A[s] * pv_at[begin, j] + C[s] * pv_at[begin, j + TILE]
            for step in range(begin, now):
                if adaptive:
                    update_adamw(E[s, :size], gradient, first[s, :size], second[s, :size], k_at[step])
                else:
                    update_sgd(E[s, :size], gradient, first[s, :size], k_at[step])
                gradient = none[:size]
        total_a, total_c = E.dtype.type(0), E.dtype.type(0)
        for j in range(size):
            total_a += E[s, j] * pv[j]
            total_c += E[s, j] * pv[j + TILE]
        a[r] = total_a
        c[r] = total_c
