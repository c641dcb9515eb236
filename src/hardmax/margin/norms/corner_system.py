"""The square system of a corner in l1 or linf: p and multipliers, and a proof that no other p is optimal.

With F the entries of p that are free (in l1: not zero) and W the rows without slack, B is that of

    linf:  row_W . p = h_W t, p given outside F;      l1:  row_W . p = h_W t, sum of |p_F| = 1,

in the unknown (p_F, t), and the multipliers of W are the last row of -B^-1. If an approximate inverse X has
|I - XB| < 1/2, then B is regular, and the true solution is within |X||residual| / (1 - |I - XB|) of the
computed one. If within these bounds no inequality outside the system is tight and no multiplier is zero, the
corner is the only optimum and W are exactly its tight rows: a proof in floats, which allows for rounding.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.measure import EPS


@kernel()
def _inverse(B: Floats, X: Floats) -> bool:
    """X = B^-1 by elimination with row exchanges; B is used up. False if a pivot is zero."""
    n = B.shape[0]
    for i in range(n):
        for x in range(n):
            X[i, x] = 1.0 if i == x else 0.0
    for c in range(n):
        best = c
        for i in range(c + 1, n):
            if abs(B[i, c]) > abs(B[best, c]):
                best = i
        pivot = B[best, c]
        if pivot == 0.0:
            return False
        for x in range(n):
            kept, moved = B[c, x], X[c, x]
            B[c, x], X[c, x] = B[best, x] / pivot, X[best, x] / pivot
            if best != c:
                B[best, x], X[best, x] = kept, moved
        for i in range(n):
            factor = B[i, c]
            if i == c or factor == 0.0:
                continue
            for x in range(n):
                B[i, x] -= factor * B[c, x]
                X[i, x] -= factor * X[c, x]
    return True


@kernel()
def _refined(B: Floats, X: Floats, b: Floats, z: Floats, r: Floats, error: float, turned: bool) -> float:
    """Solve B z = b, or B'z = b if turned, by the approximate inverse X; how far z may be off, or inf."""
    n = B.shape[0]
    off, apart = 0.0, 0.0
    for i in range(n):
        z[i] = 0.0
    for sweep in range(3):
        for i in range(n):
            r[i], size = b[i], abs(b[i])
            for x in range(n):
                term = (B[x, i] if turned else B[i, x]) * z[x]
                r[i] -= term
                size += abs(term)
            if sweep == 2:
                r[i] = abs(r[i]) + error * size
        for i in range(n):
            change, reach = 0.0, 0.0
            for x in range(n):
                entry = X[x, i] if turned else X[i, x]
                change += entry * r[x]
                reach += abs(entry) * r[x]
            if sweep < 2:
                z[i] += change
            off = reach if sweep == 2 and reach > off else off
    for i in range(n):  # |I - XB|, or its like for the transposed, from above
        line = 0.0
        for x in range(n):
            total, size = -1.0 if i == x else 0.0, 1.0
            for k in range(n):
                term = B[x, k] * X[k, i] if turned else X[i, k] * B[k, x]
                total += term
                size += abs(term)
            line += abs(total) + error * size
        apart = max(apart, line)
    return off / (1.0 - apart) if apart < 0.5 else math.inf


@kernel()
def solve_corner(
    A: Floats, h: Floats, is_l1: bool, p: Floats, tight: Bools, weights: Floats
) -> tuple[float, bool]:
    """p and multipliers of a corner from its system; t, and whether it is proved to be the only optimum.

    ``p`` comes as the signs of its shares in l1, and in linf as its entries of +-1, with 0 for the free ones.

    >>> p, weights, one = np.array([1.0, 0.0]), np.zeros(1), np.ones(1)
    >>> solve_corner(np.array([[2.0, 1.0]]), one, True, p, one > 0, weights), p.tolist(), weights.tolist()
    ((2.0, True), [1.0, 0.0], [1.0])
    """
    m, d = A.shape
    W, F, rows, n = np.zeros(m, np.int64), np.zeros(d, np.int64), 0, 1
    free = np.zeros(d, np.bool_)
    for j in range(m):
        weights[j] = 0.0
        if tight[j]:
            W[rows] = j
            rows += 1
    for k in range(d):
        free[k] = (p[k] != 0.0) == is_l1
        if free[k]:
            F[n - 1] = k
            n += 1
    if rows != n - int(is_l1):
        return 0.0, False
    B, X, work, b, z, r = (
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
    )
    given, most = 0.0, 0.0
    for i in range(rows):
        rest = 0.0
        for k in range(d):
            if not free[k]:
                b[i] -= A[W[i], k] * p[k]
                rest += abs(A[W[i], k] * p[k])
        given = max(given, rest)
        for x in range(n - 1):
            B[i, x] = A[W[i], F[x]]
        B[i, n - 1] = -h[W[i]]
    if is_l1:
        b[n - 1] = 1.0
        for x in range(n - 1):
            B[n - 1, x] = p[F[x]]
    for i in range(n):
        for x in range(n):
            work[i, x] = B[i, x]
    if not _inverse(work, X):
        return 0.0, False
    for i in range(n):
        line = 0.0
        for x in range(n):
            line += abs(X[i, x])
        most = max(most, line)
    error = (m + d + 8) * EPS
    off = _refined(B, X, b, z, r, error, False) + 2.0 * error * given * most  # the right side is rounded, too
    t = z[n - 1]
    strict = t > off
    for x in range(n - 1):
        room = z[x] * p[F[x]] if is_l1 else 1.0 - abs(z[x])
        p[F[x]] = z[x]
        strict = strict and room > off
    for i in range(n):
        b[i] = -1.0 if i == n - 1 else 0.0
    away = _refined(B, X, b, z, r, error, True)
    for i in range(rows):
        weights[W[i]] = max(z[i], 0.0)
        strict = strict and z[i] > away
    for j in range(m):
        slack, size, moves = -h[j] * t, h[j] * abs(t), h[j]
        for k in range(d):
            slack += A[j, k] * p[k]
            size += abs(A[j, k] * p[k])
            moves += abs(A[j, k])
        strict = strict and (tight[j] or slack > error * size + off * moves)
    for k in range(d):
        u, size, moves = 0.0, 0.0, 1.0
        for i in range(rows):
            u += z[i] * A[W[i], k]
            size += abs(z[i] * A[W[i], k])
            moves += abs(A[W[i], k])
        room = -z[n - 1] - abs(u) if is_l1 else u * p[k]
        strict = strict and (free[k] or room > error * size + away * moves)
    return t, strict
