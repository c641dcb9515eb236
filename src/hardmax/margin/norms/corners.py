"""Max-margin problems in l1 and linf in floats, one or thousands: the compiled simplex method, and HiGHS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.norms.definition import Power
from hardmax.margin.norms.simplex import solve_each

_TAME = 1e6  # rows and bounds within this factor of 1 are for the compiled method
_TABLE = 20_000  # entries of p times rows; larger tables are for HiGHS
_CHUNK = 64


class Corners(NamedTuple):
    """A stack of solutions: p with row_j . p >= h_j, and multipliers with N*(sum_j l_j row_j) = N(p).

    ``found`` marks those that there are. ``strict`` ones are proved, in floats, to be the only optimum, and
    to meet with equality exactly the rows that have a multiplier.
    """

    p: Floats
    weights: Floats
    found: Bools
    strict: Bools


def at_corners(A: Floats, h: Floats, equal: Bools, norm: Power, workers: int = 1) -> Corners:
    """Rows (B, m, d), bounds and equalities (B, m): problems with equalities or wild numbers are not found.

    A serial kernel takes each problem by itself, so the results do not depend, to the bit, on the stack.

    >>> from hardmax.margin.norms import norm
    >>> one = np.ones((1, 1))
    >>> at_corners(np.array([[[2.0, 1.0]]]), one, one < 0, norm("l1")).p.tolist()
    [[0.5, 0.0]]
    """
    B, m, d = A.shape
    sizes = np.abs(A).max(axis=2, initial=0.0)
    tame = (sizes > 1 / _TAME) & (sizes < _TAME) & (h > 1 / _TAME) & (h < _TAME) & ~equal
    todo = np.flatnonzero(tame.all(axis=1)) if 0 < m * d <= _TABLE else np.zeros(0, dtype=np.int64)
    # The method's tolerances are absolute: the units of rows and bounds must not reach it.
    a, b = np.frexp(sizes.max(axis=1, initial=0.0))[1], np.frexp(h.max(axis=1, initial=0.0))[1]
    p, weights, t, strict = np.zeros((B, d)), np.zeros((B, m)), np.zeros(B), np.zeros(B, dtype=bool)

    def work(start: int) -> None:
        of = todo[start : start + _CHUNK]
        made = np.zeros((len(of), d)), np.zeros((len(of), m)), np.zeros(len(of)), np.zeros(len(of), np.bool_)
        rows, bounds = np.ldexp(A[of], -a[of, None, None]), np.ldexp(h[of], -b[of, None])
        solve_each(rows, bounds, norm.r == 1, *made)
        for whole, part in zip((p, weights, t, strict), made, strict=True):
            whole[of] = part

    starts = range(0, len(todo), _CHUNK)
    if workers == 1 or len(starts) == 1:
        for start in starts:
            work(start)
    else:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            list(pool.map(work, starts))
    found = t > 0
    unit = np.where(found, t, 1.0)[:, None]
    p, weights = np.ldexp(p / unit, (b - a)[:, None]), np.ldexp(weights / unit**2, (b - 2 * a)[:, None])
    return Corners(p, weights, found, strict & found)


def by_highs(A: Floats, h: Floats, equal: Bools, norm: Power) -> tuple[Floats, Floats]:
    """p and multipliers of one problem by scipy's solver, N*(A'l) = N(p); zeros if it has none.

    >>> from hardmax.margin.norms import norm
    >>> one = np.ones(1)
    >>> by_highs(np.array([[2.0, 1.0]]), one, one < 0, norm("l1"))[0].tolist()
    [0.5, 0.0]
    """
    from scipy.optimize import linprog

    m, d = A.shape
    sizes = np.maximum(np.abs(A).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        A, h = A / sizes[:, None], h / sizes
        top = np.abs(h).max()
    if not np.isfinite(top):
        return np.zeros(d), np.zeros(m)
    if norm.r == 1:
        balls = np.vstack([-np.eye(2 * d + 1)[: 2 * d], np.append(np.ones(2 * d), 0.0)])
        lines, limits = np.column_stack([-A, A, h / top]), np.append(np.zeros(2 * d), 1.0)
    else:
        balls = np.repeat(np.eye(d + 1)[:d], 2, axis=0) * np.tile([1.0, -1.0], d)[:, None]
        lines, limits = np.column_stack([-A, h / top]), np.ones(2 * d)
    goal = np.zeros(lines.shape[1])
    goal[-1] = -1.0
    some = int((~equal).sum())
    found = linprog(
        goal,
        np.vstack([lines[~equal], balls]),
        np.append(np.zeros(some), limits),
        lines[equal],
        np.zeros(m - some),
        bounds=(None, None),
        method="highs",
    )
    weights = np.zeros(m)
    if found.status != 0 or not found.x[-1] > 0:
        return np.zeros(d), weights
    p = found.x[:d] if norm.r > 1 else found.x[:d] - found.x[d:-1]
    weights[~equal] = np.maximum(-found.ineqlin.marginals[:some], 0.0)
    weights[equal] = -found.eqlin.marginals
    p, other = p * (top / found.x[-1]), norm.dual.value(A.T @ weights)
    return p, weights / sizes * (norm.value(p) / other if other > 0 else 0.0)
