"""Max-margin problems in l1 and linf, in rational numbers: one linear program (D-ALG-1).

Maximise t over p of norm at most 1 with ``row_j . p >= h_j t``. A float solver guesses the tight rows of the
optimum; the rational simplex method starts there, and usually has only to confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq  # type: ignore[import-untyped, unused-ignore]

from hardmax.margin.constraints import Constraints, Floats
from hardmax.margin.exact import Exact
from hardmax.margin.norms.definition import Norm
from hardmax.margin.norms.face import Face, face_of
from hardmax.margin.norms.linear import Polyhedron
from hardmax.margin.rationals import integer_rows, integers
from hardmax.margin.solution import MaxMargin, from_exact
from hardmax.margin.solve import Scaled

_NEAR = 1e-7  # a slack or a multiplier, for rows and p of size 1, that may stand for zero


def solve_polyhedral(constraints: Constraints, norm: Norm, tight: Iterable[int] = ()) -> MaxMargin:
    """The shortest p in l1 or linf of a problem that has one; of several the shortest in l2, with the face.

    ``tight`` are lines of the program that are believed to be tight (`tight_lines`); they only save time.

    >>> best = solve_polyhedral(Constraints.dense([[1.0, 1.0], [1.0, 0.0]]), Norm(np.inf))
    >>> best.exact.p, best.margin, best.face.dim
    ((Fraction(1, 1), Fraction(0, 1)), 1.0, 1)
    """
    rows, _, power = integer_rows(constraints)
    bounds, h_power = integers(constraints.h)
    m, d = constraints.count, rows.ncols()
    lines, limits, goal = _program(norm, rows, bounds)
    body = Polyhedron(lines, limits, [*constraints.equal.tolist(), *([False] * (len(lines) - m))])
    start = body.vertex(tight) or ([0] * len(goal), None)
    found = body.climb(goal, *start)
    t, weights = found.x[-1], found.weights[:m]
    p = found.x[:d] if norm.power > 1 else [a - b for a, b in zip(found.x[:d], found.x[d:-1], strict=True)]
    face = face_of(norm, rows, [b * t for b in bounds], constraints.equal.tolist(), p, weights)
    unit = face.nearest([Fraction(0)] * d)
    exact = _exact(constraints, face, unit, weights, t, power, h_power)
    best = replace(from_exact(constraints, exact), norm=norm.name)
    best.__dict__["face"] = face  # where cached_property looks
    return best


def _exact(
    constraints: Constraints,
    face: Face,
    unit: tuple[Fraction, ...],
    weights: list[Any],
    t: Any,
    power: int,
    h_power: int,
) -> Exact:
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


def tight_lines(scaled: Scaled, norm: Norm, p: Floats, weights: Floats) -> list[int]:
    """Lines of the program that are tight at a float solution, those with a multiplier first.

    >>> from hardmax.margin.solve import scale
    >>> scaled = scale(Constraints.dense([[2.0, 1.0]]))
    >>> tight_lines(scaled, Norm(1.0), np.ldexp([0.5, 0.0], scaled.b), np.array([0.125]))
    [0, 2, 3, 4, 5]
    """
    A, h, m = scaled.A, scaled.h, len(scaled.h)
    with np.errstate(all="ignore"):
        q, u, size, other = p / norm.value(p), weights @ A, norm.value(p), norm.dual.value(weights @ A)
        sizes = np.abs(A).max(axis=1, initial=0.0)
        slack, gain, u = (A @ q - h / size) / sizes, weights * sizes / other, u / other
    if norm.power == 1:
        room = np.concatenate([np.maximum(q, 0.0), np.maximum(-q, 0.0), [0.0]])
        gains = np.concatenate([1 - u, 1 + u, [1.0]])
    else:
        room, gains = np.column_stack([1 - q, 1 + q]).ravel(), np.column_stack([u, -u]).ravel()
    slack, gain = np.concatenate([slack, room]), np.concatenate([gain, gains])
    near = slack < _NEAR
    near[:m] &= ~scaled.equal
    names = np.flatnonzero(near)
    chosen: list[int] = names[np.lexsort((slack[names], gain[names] < _NEAR))].tolist()
    return chosen
