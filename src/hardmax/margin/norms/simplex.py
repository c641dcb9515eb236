"""A small dense simplex method in floats for max-margin problems in l1 and linf, compiled.

Maximise t over p of norm 1 with ``row_j . p >= h_j t``, for bounds h_j > 0. Slacks s_j = row_j . p / h_j - t
and the entries of p are the variables: in linf the entries lie in [-1, 1], in l1 p is a mean of the 2d unit
vectors +-e_k, whose shares add up to 1. The table holds how basic variables change with the others. It starts
at a corner of the ball, so there is no first phase; after idle steps variables are taken by their number
(Bland's rule). What its corner is worth is said by the rows themselves (`corner_system`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.norms.corner_system import solve_corner

_GAIN = 1e-11  # a slope of t below this, relative to the largest entry of the rows, is rounding
_PIVOT = 1e-9  # so is such an entry of the table
_IDLE = 1e-13  # a step below this is none


def work(A: Floats, *_: Any) -> float:
    """Elementary steps that a stack of problems takes, as a rule."""
    m, d = A.shape[-2:]
    return A.size * 4.0 * (m + d)


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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

    ``weights`` receive the multipliers, h.l = 1. ``strict`` says where it is proved that p is the only
    optimum and that its tight rows are those with a multiplier; ``t`` is zero where nothing was found.

    >>> A, h = np.array([[[2.0, 1.0], [0.0, 1.0]]]), np.ones((1, 2))
    >>> p, weights, t, strict = np.zeros((1, 2)), np.zeros((1, 2)), np.zeros(1), np.zeros(1, np.bool_)
    >>> solve_each(A, h, True, p, weights, t, strict)
    >>> p.tolist(), weights.tolist(), t.tolist(), strict.tolist()
    ([[0.0, 1.0]], [[0.5, 0.5]], [1.0], [False])
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
