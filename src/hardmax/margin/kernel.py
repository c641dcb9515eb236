"""The float dual active-set kernel for many rows and for many problems.

Goldfarb and Idnani's method for min |p| s.t. A p >= h, with an orthonormal basis Q of the active rows and
the triangle R (A_W = R' Q) kept by Gram-Schmidt and Givens rotations. A violated row is sought in a short
list, then in a pool of the rows nearest to violation, and among all rows only if the pool has none: that is
why 50,000 rows are cheap. Its verdicts are guesses: `solve` and `solve_batch` measure them, exact
arithmetic overrules.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Bools, Floats, Ints

FOUND, CONTRADICTION, STUCK, SKIPPED = 0, 1, 2, 3
_POOL, _SHORT = 2048, 128
_FEASIBLE = 1e-13  # a violation below this, relative to |row||p|, is rounding
_DEPENDENT = 1e-11  # the rest of a row after projection, relative to its length

_ORDERED = 8  # sums of at most this many terms are taken in order, the same with and without the compiler


def work(A: Floats, *_: Any) -> float:
    """Elementary steps that a problem or a stack of them takes, as a rule; only ordered sums run plain."""
    m, d = A.shape[-2:]
    return A.size * (min(m, d) + 2) if d <= _ORDERED else math.inf


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _vector_sum(a: Floats, b: Floats) -> float:
    """Inner product by vector instructions, in an order that is fixed at compile time."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel()
def dot(a: Floats, b: Floats) -> float:
    """Inner product; the order of summation is the same in every call."""
    if a.shape[0] > _ORDERED:
        return _vector_sum(a, b)
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel(inline="always")
def _project(Q: Floats, k: int, row: Floats, rest: Floats, coefficients: Floats) -> float:
    """Coefficients of a row over the basis; its remainder in ``rest``, whose length is returned."""
    for x in range(rest.shape[0]):
        rest[x] = row[x]
    for i in range(k):
        coefficients[i] = 0.0
    before = math.sqrt(dot(row, row))
    for _ in range(3):
        for i in range(k):
            c = dot(Q[i], rest)
            coefficients[i] += c
            q = Q[i]
            for x in range(rest.shape[0]):
                rest[x] -= c * q[x]
        after = math.sqrt(dot(rest, rest))
        if after > 0.1 * before:  # little canceled, so the remainder is orthogonal to rounding
            break
        before = after
    return after


@kernel(inline="always")
def _drop(
    Q: Floats, R: Floats, active: Ints, weights: Floats, coefficients: Floats, rest: Floats, k: int, at: int
) -> float:
    """Remove active row ``at``: shift R's columns left, rotate basis and coefficients back to a triangle.

    The last basis vector leaves and its share of the projected row returns to ``rest``, whose length is
    returned.
    """
    for column in range(at, k - 1):
        active[column] = active[column + 1]
        weights[column] = weights[column + 1]
        for line in range(column + 2):
            R[line, column] = R[line, column + 1]
    for line in range(at, k - 1):
        a, b = R[line, line], R[line + 1, line]
        length = np.hypot(a, b)
        if length == 0.0:
            continue
        c, s = a / length, b / length
        for column in range(line, k - 1):
            x, y = R[line, column], R[line + 1, column]
            R[line, column] = c * x + s * y
            R[line + 1, column] = c * y - s * x
        upper, lower = Q[line], Q[line + 1]
        for i in range(Q.shape[1]):
            u, v = upper[i], lower[i]
            upper[i] = c * u + s * v
            lower[i] = c * v - s * u
        x, y = coefficients[line], coefficients[line + 1]
        coefficients[line] = c * x + s * y
        coefficients[line + 1] = c * y - s * x
    for i in range(rest.shape[0]):
        rest[i] += coefficients[k - 1] * Q[k - 1, i]
    return math.sqrt(dot(rest, rest))


@kernel(inline="always")
def _back(R: Floats, k: int, x: Floats) -> None:
    """Solve R x = x in place."""
    for i in range(k - 1, -1, -1):
        x[i] = (x[i] - dot(R[i, i + 1 : k], x[i + 1 : k])) / R[i, i]


@kernel(inline="always")
def _forward(R: Floats, k: int, x: Floats) -> None:
    """Solve R' x = x in place."""
    for i in range(k):
        x[i] /= R[i, i]
        for j in range(i + 1, k):
            x[j] -= R[i, j] * x[i]


@kernel(inline="always")
def _most_violated(
    A: Floats, h: Floats, equal: Bools, norms: Floats, p: Floats, rows: Ints, depth: Floats
) -> int:
    """The listed row deepest on the wrong side, in units of its length (all written to ``depth``), or -1."""
    row, worst = -1, _FEASIBLE * math.sqrt(dot(p, p))
    for i in range(rows.shape[0]):
        j = rows[i]
        depth[i] = -math.inf if equal[j] else (h[j] - dot(A[j], p)) / norms[j]
        if depth[i] > worst:
            row, worst = j, depth[i]
    return row


@kernel(inline="always")
def _nearest(depth: Floats, rows: Ints, chosen: Ints) -> None:
    """Fill ``chosen`` with the rows deepest or nearest to violation, by bisection on the depth.

    (A partial sort would do, but takes ten seconds to compile.)
    """
    low, high = math.inf, -math.inf
    for x in depth:
        if x > -math.inf:
            low = min(low, x)
        high = max(high, x)
    for _ in range(60):
        middle = 0.5 * (low + high)
        count = 0
        for x in depth:
            if x > middle:
                count += 1
        if count <= chosen.shape[0]:
            high = middle
            if 2 * count >= chosen.shape[0]:
                break
        else:
            low = middle
    filled = 0
    for i in range(rows.shape[0]):
        if depth[i] > high:
            chosen[filled] = rows[i]
            filled += 1
    for i in range(rows.shape[0]):
        if filled < chosen.shape[0] and depth[i] <= high:
            chosen[filled] = rows[i]
            filled += 1


@kernel(inline="always")
def _append(
    Q: Floats, R: Floats, active: Ints, k: int, row: int, rest: Floats, length: float, coefficients: Floats
) -> int:
    """Make ``row`` the last active one; returns the new number of active rows."""
    for x in range(rest.shape[0]):
        Q[k, x] = rest[x] / length
    for i in range(k):
        R[i, k] = coefficients[i]
    R[k, k] = length
    active[k] = row
    return k + 1


@kernel(inline="always")
def _finish(
    A: Floats,
    h: Floats,
    equal: Bools,
    Q: Floats,
    R: Floats,
    active: Ints,
    k: int,
    p: Floats,
    multipliers: Floats,
) -> None:
    """The solution of the final active set, computed afresh and refined once."""
    y = np.zeros(k)
    p[:] = 0.0
    for _ in range(2):
        for i in range(k):
            y[i] = h[active[i]] - dot(A[active[i]], p)
        _forward(R, k, y)
        for i in range(k):
            for x in range(p.shape[0]):
                p[x] += y[i] * Q[i, x]
    for i in range(k):
        y[i] = dot(Q[i], p)
    _back(R, k, y)
    for i in range(k):
        multipliers[active[i]] = y[i] if equal[active[i]] else max(y[i], 0.0)


@kernel(cost=work)
def active_set(
    A: Floats, h: Floats, equal: Bools, norms: Floats, p: Floats, multipliers: Floats
) -> tuple[int, int]:
    """Fill ``p`` and ``multipliers`` (a Farkas candidate after CONTRADICTION); returns verdict and steps."""
    m, d = A.shape
    size = min(m, d)
    Q, R = np.zeros((size + 1, d)), np.zeros((size + 1, size + 1))
    active, weights = np.zeros(size + 1, np.int64), np.zeros(size + 1)
    rest, coefficients, r = np.zeros(d), np.zeros(size + 1), np.zeros(size + 1)
    every = np.arange(m)
    pool, short = every[:_POOL].copy(), every[:_SHORT].copy()
    depth, pool_depth, short_depth = np.zeros(m), np.zeros(pool.shape[0]), np.zeros(short.shape[0])
    p[:] = 0.0
    multipliers[:] = 0.0
    k = 0
    for j in range(m):
        if equal[j] and k < size:
            length = _project(Q, k, A[j], rest, coefficients)
            if length > _DEPENDENT * norms[j]:
                k = _append(Q, R, active, k, j, rest, length, coefficients)
    if k > 0:  # start at the shortest p that meets the equalities
        _finish(A, h, equal, Q, R, active, k, p, multipliers)
        multipliers[:] = 0.0
    limit = 50 * (m + d) + 100
    for step in range(limit):
        row = _most_violated(A, h, equal, norms, p, short, short_depth)
        if row < 0 and m > _SHORT:
            row = _most_violated(A, h, equal, norms, p, pool, pool_depth)
            if row < 0 and m > _POOL:
                row = _most_violated(A, h, equal, norms, p, every, depth)
                _nearest(depth, every, pool)
                _most_violated(A, h, equal, norms, p, pool, pool_depth)
            _nearest(pool_depth, pool, short)
        if row < 0:
            _finish(A, h, equal, Q, R, active, k, p, multipliers)
            return FOUND, step
        missing = h[row] - dot(A[row], p)
        gained = 0.0
        length = _project(Q, k, A[row], rest, coefficients)
        while True:
            independent = length > _DEPENDENT * norms[row] and k < size
            for i in range(k):
                r[i] = coefficients[i]
            _back(R, k, r)
            block, blocked = -1, math.inf
            for i in range(k):
                if r[i] > 0.0 and not equal[active[i]] and weights[i] < blocked * r[i]:
                    block, blocked = i, weights[i] / r[i]
            if not independent and block < 0:
                for i in range(k):
                    multipliers[active[i]] = -r[i]
                multipliers[row] = 1.0
                return CONTRADICTION, step
            full = missing / (length * length) if independent else math.inf
            t = min(full, blocked)
            for i in range(k):
                weights[i] -= t * r[i]
                if weights[i] < 0.0 and not equal[active[i]]:
                    weights[i] = 0.0
            gained += t
            if independent:
                for x in range(d):
                    p[x] += t * rest[x]
                missing -= t * length * length
            if full <= blocked:
                weights[k] = gained
                k = _append(Q, R, active, k, row, rest, length, coefficients)
                break
            length = _drop(Q, R, active, weights, coefficients, rest, k, block)
            k -= 1
    return STUCK, limit


@kernel(cost=work)
def active_sets(
    A: Floats, h: Floats, equal: Bools, norms: Floats, p: Floats, weights: Floats, verdicts: Ints
) -> None:
    """`active_set` of each of a stack of problems, one after the other; ``verdicts`` of SKIPPED stay."""
    for b in range(A.shape[0]):
        if verdicts[b] != SKIPPED:
            verdicts[b], _ = active_set(A[b], h[b], equal[b], norms[b], p[b], weights[b])


@kernel(cost=work)
def combine_each(A: Floats, p: Floats, weights: Floats, Mp: Floats, sizes: Floats) -> None:
    """Fill ``Mp`` with row . p of each of a stack of problems, ``sizes`` with |p|, |u| and |p - u|.

    u is the combination of the rows by the weights.
    """
    B, m, d = A.shape
    u = np.empty(d)
    for b in range(B):
        for x in range(d):
            u[x] = 0.0
        for j in range(m):
            Mp[b, j] = dot(A[b, j], p[b])
            if weights[b, j] != 0.0:
                row, weight = A[b, j], weights[b, j]
                for x in range(d):
                    u[x] += weight * row[x]
        sizes[b, 0], sizes[b, 1] = np.sqrt(dot(p[b], p[b])), np.sqrt(dot(u, u))
        for x in range(d):
            u[x] -= p[b, x]
        sizes[b, 2] = np.sqrt(dot(u, u))
