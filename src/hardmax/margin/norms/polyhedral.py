"""The norms l1 and linf: corners in floats, and one linear program in rational numbers (D-ALG-1).

Maximise t over p of norm at most 1 with ``row_j . p >= h_j t``. A float solver guesses the tight rows of the
optimum; the rational simplex method starts there, and usually has only to confirm it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq  # type: ignore[import-untyped, unused-ignore]

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.exact import Exact
from hardmax.margin.measure import Tight
from hardmax.margin.norms.corners import at_corners, by_highs
from hardmax.margin.norms.definition import Power
from hardmax.margin.norms.face import Face, face_of
from hardmax.margin.norms.linear import Polyhedron
from hardmax.margin.norms.solving import answer, measured_at, measured_in
from hardmax.margin.rationals import integer_rows, integers
from hardmax.margin.solution import MaxMargin, from_exact
from hardmax.margin.solve import EXACT_ROWS, Scaled, proves, scale, solve

EXACT_WIDTH = 40  # entries of p up to which l1 and linf are solved in fractions
_NEAR = 1e-7  # a slack or a multiplier, for rows and p of size 1, that may stand for zero


class Polyhedral(Power):
    """l1 or linf: of several optimal p the shortest in l2 is given, with the face of all.

    >>> Polyhedral(np.inf).solve(Constraints.dense([[1.0, 1.0]])).p.tolist()
    [0.5, 0.5]
    """

    strictly_convex, is_polyhedral = False, True

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """A corner in floats, which proves that there is a p at all, then fractions if small.

        That is up to 200 rows and 40 entries of p, or with ``exact``.
        """
        self.refuse(constraints, exact)
        if not constraints.h.any():
            return replace(solve(constraints), norm=self.name)
        scaled = scale(constraints)
        stack = scaled.A[None], scaled.h[None], scaled.equal[None]
        (p,), (weights,), _, (strict,) = at_corners(*stack, self)
        if not measured_at(scaled, self, p, weights, constraints.shape).lower > 0:
            plain = solve(constraints)
            if plain.is_feasible is False:
                return replace(plain, norm=self.name)
            p, weights = by_highs(scaled.A, scaled.h, scaled.equal, self)
        if exact or is_small(constraints):
            return solve_polyhedral(constraints, self, tight_lines(scaled, self, p, weights))
        found = answer(constraints, scaled, self, p, weights)
        return only_optimum(found) if strict and found.is_certified else found

    def solve_many(
        self, problems: list[Constraints], A: Floats, h: Floats, equal: Bools, workers: int
    ) -> list[MaxMargin]:
        """A corner that is proved to be the only optimum is the answer, in floats; it can make its face."""
        for each in problems:
            self.refuse(each)
        p, weights, _, strict = at_corners(A, h, equal, self, workers)
        Mp, u = (A @ p[..., None])[..., 0], (weights[:, None] @ A)[:, 0]
        lengths = self.dual.of_rows(A) * (1 + self.dual.rounding(A.shape[2]))
        measured = measured_in(
            self,
            h,
            equal,
            weights,
            Mp,
            (u * p).sum(axis=1),
            self.of_rows(p),
            self.dual.of_rows(u),
            lengths,
            A.shape[2],
        )
        good = strict & proves(measured)
        kkt, lower, upper = (np.asarray(x).tolist() for x in measured)
        return [
            only_optimum(
                MaxMargin(
                    c,
                    "certified",
                    "float",
                    p[b].reshape(c.shape),
                    weights[b],
                    (lower[b], upper[b]),
                    kkt[b],
                    norm=self.name,
                )
            )
            if good[b]
            else self.solve(c)
            for b, c in enumerate(problems)
        ]

    def enclose(self, best: MaxMargin) -> Tight:
        """Rows are tight on all of the face or on a part of it; nothing is known beyond the size of faces."""
        if best.face is not None:
            return Tight(best.face.essential, best.face.essential | best.face.sometimes)
        none = np.zeros(best.constraints.count, dtype=bool)
        if best.p_norm == 0 or best.p is None:
            return Tight(none, ~none if np.isnan(best.p_norm) else none)
        return Tight(best.constraints.equal, ~none)

    def face(self, best: MaxMargin) -> Face | None:
        """All optimal p, in fractions; None beyond the size of these."""
        if best.p is None or best.multipliers is None or not is_small(best.constraints):
            return None
        scaled = scale(best.constraints)
        p, weights = np.ldexp(best.p.ravel(), scaled.b), np.ldexp(best.multipliers, scaled.a + scaled.b)
        return solve_polyhedral(best.constraints, self, tight_lines(scaled, self, p, weights)).face


def only_optimum(best: MaxMargin) -> MaxMargin:
    """The same solution, which is proved to be the only one, and tight where it has multipliers.

    >>> only_optimum(Polyhedral(1.0).solve(Constraints.dense([[2.0, 1.0]]))).unique
    True
    """
    tight = np.asarray(best.multipliers) > 0
    best.__dict__.update(unique=True, enclosure=Tight(tight, tight))  # where cached_property looks
    return best


def is_small(constraints: Constraints) -> bool:
    """Whether l1 and linf are solved in fractions.

    >>> is_small(Constraints.dense([[2.0, 1.0]]))
    True
    """
    return constraints.count <= EXACT_ROWS and math.prod(constraints.shape) <= EXACT_WIDTH


def solve_polyhedral(constraints: Constraints, norm: Power, tight: Iterable[int] = ()) -> MaxMargin:
    """The shortest p in l1 or linf of a problem that has one; of several the shortest in l2, with the face.

    ``tight`` are lines of the program that are believed to be tight (`tight_lines`); they only save time.

    >>> best = solve_polyhedral(Constraints.dense([[1.0, 1.0], [1.0, 0.0]]), Polyhedral(np.inf))
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
    p = found.x[:d] if norm.r > 1 else [a - b for a, b in zip(found.x[:d], found.x[d:-1], strict=True)]
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


def _program(norm: Power, rows: Any, bounds: list[int]) -> tuple[list[list[int]], list[int], list[int]]:
    """Rows, limits and goal over (p, t) for linf, over (p+, p-, t) for l1."""
    m, d = rows.nrows(), rows.ncols()
    table = [[int(rows[j, k]) for k in range(d)] for j in range(m)]
    if norm.r == 1:
        lines = [[*(-x for x in row), *row, b] for row, b in zip(table, bounds, strict=True)]
        lines += [[-int(i == k) for i in range(2 * d + 1)] for k in range(2 * d)] + [[1] * (2 * d) + [0]]
        return lines, [0] * (m + 2 * d) + [1], [0] * (2 * d) + [1]
    lines = [[*(-x for x in row), b] for row, b in zip(table, bounds, strict=True)]
    lines += [[sign * int(i == k) for i in range(d + 1)] for k in range(d) for sign in (1, -1)]
    return lines, [0] * m + [1] * (2 * d), [0] * d + [1]


def tight_lines(scaled: Scaled, norm: Power, p: Floats, weights: Floats) -> list[int]:
    """Lines of the program that are tight at a float solution, those with a multiplier first.

    >>> from hardmax.margin.solve import scale
    >>> scaled = scale(Constraints.dense([[2.0, 1.0]]))
    >>> tight_lines(scaled, Polyhedral(1.0), np.ldexp([0.5, 0.0], scaled.b), np.array([0.125]))
    [0, 2, 3, 4, 5]
    """
    A, h, m = scaled.A, scaled.h, len(scaled.h)
    with np.errstate(all="ignore"):
        q, u, size, other = p / norm.value(p), weights @ A, norm.value(p), norm.dual.value(weights @ A)
        sizes = np.abs(A).max(axis=1, initial=0.0)
        slack, gain, u = (A @ q - h / size) / sizes, weights * sizes / other, u / other
    if norm.r == 1:
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
