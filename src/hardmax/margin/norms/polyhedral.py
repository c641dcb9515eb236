"""Max-margin problems in l1 and linf, in rational numbers: one linear program (D-ALG-1).

Maximise t over p of norm at most 1 with ``row_j . p >= h_j t``. A float solver guesses the tight rows of the
optimum; the rational simplex method starts there, and usually has only to confirm it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq  # type: ignore[import-untyped, unused-ignore]

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.exact import Exact
from hardmax.margin.norms.definition import Norm
from hardmax.margin.norms.face import Face, face_of
from hardmax.margin.norms.linear import Polyhedron
from hardmax.margin.rationals import integer_rows, integers
from hardmax.margin.solution import MaxMargin, from_exact


def solve_polyhedral(constraints: Constraints, norm: Norm) -> MaxMargin:
    """The shortest p in l1 or linf of a problem that has one; of several the shortest in l2, with the face.

    >>> best = solve_polyhedral(Constraints.dense([[1.0, 1.0], [1.0, 0.0]]), Norm(math.inf))
    >>> best.exact.p, best.margin, best.face.dim
    ((Fraction(1, 1), Fraction(0, 1)), 1.0, 1)
    """
    rows, _, power = integer_rows(constraints)
    bounds, h_power = integers(constraints.h)
    m, d = constraints.count, rows.ncols()
    lines, limits, goal = _program(norm, rows, bounds)
    body = Polyhedron(lines, limits, [*constraints.equal.tolist(), *([False] * (len(lines) - m))])
    start = body.vertex(_guess(constraints, norm)) or ([0] * len(goal), None)
    found = body.climb(goal, *start)
    t, weights = found.x[-1], found.weights[:m]
    p = found.x[:d] if norm.power > 1 else [a - b for a, b in zip(found.x[:d], found.x[d:-1], strict=True)]
    face = face_of(norm, rows, [b * t for b in bounds], constraints.equal.tolist(), p, weights)
    unit = face.nearest([Fraction(0)] * d)
    return replace(
        from_exact(constraints, _exact(constraints, face, unit, weights, t, power, h_power)),
        norm_name=norm.name,
        face=face,
    )


def _exact(
    constraints: Constraints, face: Face, unit: tuple[Fraction, ...], weights: list[Any], t: Any,
    power: int, h_power: int,
) -> Exact:  # fmt: skip
    """The answer for the rows as they are: rows are integers times 2^k, bounds integers times 2^l."""
    scale = Fraction(2) ** (power - h_power) * Fraction(int(t.p), int(t.q))  # the margin
    point = tuple(x / scale for x in unit)
    share = Fraction(2) ** (-h_power) / scale**2
    multipliers = tuple(Fraction(int(w.p), int(w.q)) * share for w in weights)
    left = face.polyhedron.slack([fmpq(x.numerator, x.denominator) for x in unit])[: constraints.count]
    slack = tuple(Fraction(int(s.p), int(s.q)) * Fraction(2) ** power / scale for s in left)
    return Exact(True, multipliers, slack, 1 / scale**2, len(point), point=point)


def _program(norm: Norm, rows: Any, bounds: list[int]) -> tuple[list[list[int]], list[int], list[int]]:
    """Rows, limits and goal over (p, t) for linf, over (p+, p-, t) for l1."""
    m, d = rows.nrows(), rows.ncols()
    table = [[int(rows[j, k]) for k in range(d)] for j in range(m)]
    if norm.power == 1:
        lines = [[*(-x for x in row), *row, b] for row, b in zip(table, bounds, strict=True)]
        lines += [[-int(i == k) for i in range(2 * d + 1)] for k in range(2 * d)] + [[1] * (2 * d) + [0]]
        return lines, [0] * (m + 2 * d) + [1], [0] * (2 * d) + [1]
    lines = [[*(-x for x in row), b] for row, b in zip(table, bounds, strict=True)]
    lines += [[sign * int(i == k) for i in range(d + 1)] for k in range(d) for sign in (1, -1)]
    return lines, [0] * m + [1] * (2 * d), [0] * d + [1]


def _guess(constraints: Constraints, norm: Norm) -> list[int]:
    """Rows of the program that are tight at the float solver's optimum, those with a multiplier first."""
    A, h = constraints.rows(), constraints.h
    size = np.maximum(np.abs(A).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        A, h = A / size[:, None], h / size
        h = h / np.abs(h).max()
    found = _highs(A, h, constraints.equal, norm) if np.isfinite(h).all() else None
    if found is None:
        return []
    tight = found.slack < 1e-7
    order = np.lexsort((found.slack[tight], found.ineqlin.marginals[tight] > -1e-9))
    names = np.flatnonzero(np.concatenate([~constraints.equal, np.ones(len(tight), dtype=bool)]))[
        : len(tight)
    ]
    chosen: list[int] = names[tight][order].tolist()
    return chosen


def by_floats(A: Floats, h: Floats, equal: Bools, norm: Norm) -> tuple[Floats, Floats]:
    """p and multipliers by the float solver, N*(A'l) = N(p); zeros if it has none.

    >>> one = np.ones(1)
    >>> by_floats(np.array([[2.0, 1.0]]), one, one < 0, Norm(1.0))[0].tolist()
    [0.5, 0.0]
    """
    m, d = A.shape
    found = _highs(A, h, equal, norm)
    if found is None or not found.x[-1] > 0:
        return np.zeros(d), np.zeros(m)
    p = found.x[:d] if norm.power > 1 else found.x[:d] - found.x[d:-1]
    weights = np.zeros(m)
    weights[~equal] = np.maximum(-found.ineqlin.marginals[: m - int(equal.sum())], 0.0)
    weights[equal] = -found.eqlin.marginals
    p, other = p / found.x[-1], norm.dual.value(A.T @ weights)
    return p, weights * (norm.value(p) / other if other > 0 else 0.0)


def _highs(A: Floats, h: Floats, equal: Bools, norm: Norm) -> Any:
    """The program in floats, for rows near 1, by scipy's solver; None if it found nothing."""
    from scipy.optimize import linprog

    m, d = A.shape
    if norm.power == 1:
        balls = np.vstack([-np.eye(2 * d + 1)[: 2 * d], np.append(np.ones(2 * d), 0.0)])
        lines, limits = np.column_stack([-A, A, h]), np.append(np.zeros(2 * d), 1.0)
    else:
        balls = np.repeat(np.eye(d + 1)[:d], 2, axis=0) * np.tile([1.0, -1.0], d)[:, None]
        lines, limits = np.column_stack([-A, h]), np.ones(2 * d)
    goal = np.zeros(lines.shape[1])
    goal[-1] = -1.0
    some = int((~equal).sum())
    found = linprog(
        goal, np.vstack([lines[~equal], balls]), np.append(np.zeros(some), limits), lines[equal],
        np.zeros(m - some), bounds=(None, None), method="highs",
    )  # fmt: skip
    return found if found.status == 0 else None
