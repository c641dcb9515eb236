"""Max-margin problems in l1 and linf in floats, one or thousands, by a small dense simplex method, compiled.

Maximize t over p of norm 1 with ``row_j . p >= h_j t``, for bounds h_j > 0. Slacks s_j = row_j . p / h_j - t
and the entries of p are the variables: in linf the entries lie in [-1, 1], in l1 p is a mean of the 2d unit
vectors +-e_k, whose shares add up to 1. The table holds how basic variables change with the others. It starts
at a corner of the ball, without a first phase; after idle steps variables are taken by their number
(Bland's rule).

The value of a corner follows from its square system. With F the entries of p that are free (in l1: not zero)
and W the rows without slack, B is that of

    linf:  row_W . p = h_W t, p given outside F;      l1:  row_W . p = h_W t, sum of |p_F| = 1,

in the unknown (p_F, t), and the multipliers of W are the last row of -B^-1. If an approximate inverse X has
|I - XB| < 1/2, then B is regular, and the true solution is within |X||residual| / (1 - |I - XB|) of the
computed one. If within these bounds no inequality outside the system is tight and no multiplier is zero, the
corner is the only optimum and W are exactly its tight rows: a proof in floats, which allows for rounding.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.measure import EPS
from hardmax.margin.norms.powers import Power
from hardmax.margin.solve import TAME, in_chunks


@kernel(inline="always")
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
            old_B, old_X = B[c, x], X[c, x]
            B[c, x], X[c, x] = B[best, x] / pivot, X[best, x] / pivot
            if best != c:
                B[best, x], X[best, x] = old_B, old_X
        for i in range(n):
            factor = B[i, c]
            if i == c or factor == 0.0:
                continue
            for x in range(n):
                B[i, x] -= factor * B[c, x]
                X[i, x] -= factor * X[c, x]
    return True


@kernel(inline="always")
def _refined(B: Floats, X: Floats, b: Floats, z: Floats, r: Floats, error: float, turned: bool) -> float:
    """Solve B z = b, or B'z = b if turned, by the approximate inverse X; how far z may be off, or inf."""
    n = B.shape[0]
    off, norm = 0.0, 0.0
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
        norm = max(norm, line)
    return off / (1.0 - norm) if norm < 0.5 else math.inf


@kernel()
def solve_corner(
    A: Floats, h: Floats, is_l1: bool, p: Floats, tight: Bools, weights: Floats
) -> tuple[float, bool]:
    """Fill p and multipliers of a corner by its system; return t, and whether it is proved the only optimum.

    ``p`` comes as the signs of its shares in l1, and in linf as its entries of +-1, with 0 for the free ones.
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
    fixed, most = 0.0, 0.0
    for i in range(rows):
        rest = 0.0
        for k in range(d):
            if not free[k]:
                b[i] -= A[W[i], k] * p[k]
                rest += abs(A[W[i], k] * p[k])
        fixed = max(fixed, rest)
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
    off = _refined(B, X, b, z, r, error, False) + 2.0 * error * fixed * most  # the right side is rounded, too
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


_GAIN = 1e-11  # a slope of t below this, relative to the largest entry of the rows, is rounding
_PIVOT = 1e-9  # so is such an entry of the table
_IDLE = 1e-13  # a step below this is none


def work(A: Floats, *_: Any) -> float:
    """Elementary steps that a stack of problems takes, as a rule."""
    m, d = A.shape[-2:]
    return A.size * 4.0 * (m + d)


@kernel(inline="always")
def _pivot(T: Floats, line: int, column: int) -> None:
    """Exchange a basic and another variable; the last line of the table is t."""
    lines, columns = T.shape
    pivot = T[line, column]
    for c in range(columns):
        T[line, c] = -T[line, c] / pivot
    T[line, column] = 1.0 / pivot
    for i in range(lines):
        factor = T[i, column]
        if i == line or factor == 0.0:
            continue
        for c in range(columns):
            T[i, c] += factor * T[line, c]
        T[i, column] = factor / pivot


@kernel(inline="always")
def _climb(
    T: Floats, values: Floats, basic: Ints, others: Ints, at_top: Bools, tops: Floats, unit: float
) -> bool:
    """Pivot to the best corner; variables lie in [0, tops]. False if it did not get there."""
    lines, columns = T.shape[0] - 1, T.shape[1]
    stalls = False
    for _ in range(20 * (lines + columns) + 100):
        column, most = -1, _GAIN * unit
        for c in range(columns):
            gain = -T[lines, c] if at_top[c] else T[lines, c]
            if gain > most and (not stalls or column < 0 or others[c] < others[column]):
                column = c
                most = gain if not stalls else most
        if column < 0:
            return True
        sign = -1.0 if at_top[column] else 1.0
        length, line, size = tops[others[column]], -1, 0.0
        for i in range(lines):
            slope = sign * T[i, column]
            if abs(slope) <= _PIVOT:
                continue
            room = values[i] if slope < 0.0 else tops[basic[i]] - values[i]
            step = max(room, 0.0) / abs(slope)
            near = step <= length + _IDLE and line >= 0
            better = basic[i] < basic[line] if stalls else abs(slope) > size
            if step < length - _IDLE or (near and better):
                line, size = i, abs(slope)
                length = min(step, length) if near else step
        if not length < math.inf:
            return False
        stalls = length <= _IDLE
        for i in range(lines):
            values[i] += sign * length * T[i, column]
        if line < 0:
            at_top[column] = not at_top[column]
            continue
        leaves_at_top = sign * T[line, column] > 0.0
        start = tops[others[column]] if at_top[column] else 0.0
        _pivot(T, line, column)
        values[line] = start + sign * length
        basic[line], others[column] = others[column], basic[line]
        at_top[column] = leaves_at_top
    return False


@kernel(inline="always")
def _start_in_linf(a: Floats, T: Floats, values: Floats, basic: Ints, others: Ints, at_top: Bools) -> None:
    """The table at a corner for rows a = row/h. Variables: p_k + 1 of [0, 2], then the slacks."""
    m, d = a.shape
    for k in range(d):
        lean = 0.0
        for j in range(m):
            lean += a[j, k]
        at_top[k] = lean >= 0.0
    first, least = 0, math.inf
    for j in range(m):
        reach = 0.0
        for k in range(d):
            reach += a[j, k] if at_top[k] else -a[j, k]
        if reach < least:
            first, least = j, reach
    line = 0
    for j in range(m):
        if j == first:
            continue
        basic[line] = d + j
        for k in range(d):
            T[line, k] = a[j, k] - a[first, k]
            values[line] += T[line, k] if at_top[k] else -T[line, k]
        T[line, d] = 1.0
        line += 1
    for k in range(d):
        T[line, k], others[k] = a[first, k], k
    T[line, d], others[d] = -1.0, d + first


@kernel(inline="always")
def _start_in_l1(a: Floats, T: Floats, values: Floats, basic: Ints, others: Ints) -> None:
    """The table at a corner for rows a = row/h. Variables: shares of e_k, then of -e_k, then the slacks."""
    m, d = a.shape
    corner, first, best, side = 0, 0, -math.inf, 1.0
    for k in range(2 * d):
        row, sign = 0, 1.0 if k < d else -1.0
        for j in range(m):
            if sign * a[j, k % d] < sign * a[row, k % d]:
                row = j
        if sign * a[row, k % d] > best:
            corner, first, best, side = k, row, sign * a[row, k % d], sign
    line = 0
    for j in range(m):
        if j == first:
            continue
        here = side * (a[j, corner % d] - a[first, corner % d])
        basic[line], values[line] = 2 * d + j, here
        for k in range(d):
            T[line, k] = a[j, k] - a[first, k] - here
            T[line, d + k] = a[first, k] - a[j, k] - here
        T[line, corner] = 1.0
        line += 1
    basic[line], values[line] = corner, 1.0
    for k in range(2 * d):
        sign = 1.0 if k < d else -1.0
        T[line, k], others[k] = -1.0, k
        T[line + 1, k] = sign * a[first, k % d] - side * a[first, corner % d]
    T[line, corner], T[line + 1, corner], others[corner] = 0.0, -1.0, 2 * d + first


@kernel(inline="always")
def _best_corner(a: Floats, is_l1: bool, p: Floats, tight: Bools) -> bool:
    """The best corner: p, or the signs of its shares, with zero in free places of linf; its tight rows."""
    m, d = a.shape
    places = 2 * d if is_l1 else d
    lines, columns = (m, places) if is_l1 else (m - 1, d + 1)
    T, values, tops = np.zeros((lines + 1, columns)), np.zeros(lines), np.zeros(places + m)
    basic, others, at_top = (
        np.zeros(lines, np.int64),
        np.zeros(columns, np.int64),
        np.zeros(columns, np.bool_),
    )
    unit = 0.0
    for j in range(m):
        tight[j], tops[places + j] = False, math.inf
        for k in range(d):
            unit = max(unit, abs(a[j, k]))
    for k in range(places):
        tops[k] = math.inf if is_l1 else 2.0
    if is_l1:
        _start_in_l1(a, T, values, basic, others)
    else:
        _start_in_linf(a, T, values, basic, others, at_top)
    if not _climb(T, values, basic, others, at_top, tops, unit):
        return False
    for k in range(d):
        p[k] = 0.0
    for c in range(columns):
        if others[c] >= places:
            tight[others[c] - places] = True
        elif not is_l1:
            p[others[c]] = 1.0 if at_top[c] else -1.0
    for i in range(lines):
        if is_l1 and basic[i] < places:
            if p[basic[i] % d] != 0.0:
                return False
            p[basic[i] % d] = 1.0 if basic[i] < d else -1.0
    return True


@kernel(cost=work)
def solve_each(
    A: Floats, h: Floats, is_l1: bool, p: Floats, weights: Floats, t: Floats, strict: Bools
) -> None:
    """For each of a stack of problems, rows (B, m, d) and bounds h > 0: the best p of norm 1, and its t.

    ``weights`` receive the multipliers, h.l = 1. ``strict`` marks the problems for which p is proved to be
    the only optimum and that its tight rows are those with a multiplier; ``t`` is zero where nothing was
    found.
    """
    B, m, d = A.shape
    a, tight = np.empty((m, d)), np.zeros(m, np.bool_)
    for b in range(B):
        for j in range(m):
            for k in range(d):
                a[j, k] = A[b, j, k] / h[b, j]
        t[b], strict[b] = 0.0, False
        if _best_corner(a, is_l1, p[b], tight):
            t[b], strict[b] = solve_corner(A[b], h[b], is_l1, p[b], tight, weights[b])


_TABLE = 20_000  # entries of p times rows; larger tables are for HiGHS


class Corners(NamedTuple):
    """A stack of solutions: p with row_j . p >= h_j, and multipliers with N*(sum_j l_j row_j) = N(p).

    ``found`` marks the problems with a solution. ``strict`` ones are proved, in floats, to be the only
    optimum, and to meet with equality exactly the rows that have a multiplier.
    """

    p: Floats
    weights: Floats
    found: Bools
    strict: Bools


def at_corners(A: Floats, h: Floats, equal: Bools, norm: Power, workers: int = 1) -> Corners:
    """Rows (B, m, d), bounds and equalities (B, m): problems with equalities or wild numbers are not found.

    A serial kernel takes each problem by itself, so the results do not depend, to the bit, on the stack.
    """
    B, m, d = A.shape
    sizes = np.abs(A).max(axis=2, initial=0.0)
    tame = (sizes > 1 / TAME) & (sizes < TAME) & (h > 1 / TAME) & (h < TAME) & ~equal
    todo = np.flatnonzero(tame.all(axis=1)) if 0 < m * d <= _TABLE else np.zeros(0, dtype=np.int64)
    # The method's tolerances are absolute: the units of rows and bounds must not reach it.
    a, b = np.frexp(sizes.max(axis=1, initial=0.0))[1], np.frexp(h.max(axis=1, initial=0.0))[1]
    p, weights, t, strict = np.zeros((B, d)), np.zeros((B, m)), np.zeros(B), np.zeros(B, dtype=bool)

    def work(part: slice) -> None:
        of = todo[part]
        B = len(of)
        parts = np.zeros((B, d)), np.zeros((B, m)), np.zeros(B), np.zeros(B, np.bool_)
        rows, bounds = np.ldexp(A[of], -a[of, None, None]), np.ldexp(h[of], -b[of, None])
        solve_each(rows, bounds, norm.r == 1, *parts)
        for whole, some in zip((p, weights, t, strict), parts, strict=True):
            whole[of] = some

    in_chunks(work, len(todo), workers)
    is_solved = t > 0
    unit = np.where(is_solved, t, 1.0)[:, None]
    p, weights = np.ldexp(p / unit, (b - a)[:, None]), np.ldexp(weights / unit**2, (b - 2 * a)[:, None])
    return Corners(p, weights, is_solved, strict & is_solved)
