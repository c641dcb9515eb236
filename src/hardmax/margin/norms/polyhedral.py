"""The norms l1 and linf: a corner in floats, one linear program in rational numbers, and its face.

Maximize t over p of norm at most 1 with ``row_j . p >= h_j t``. A float solver guesses the tight rows of the
optimum; the rational simplex method starts there, and usually has only to confirm it. It has the active-set
form: a vertex is a set of independent tight rows; the multipliers of the goal over them show whether it is
the best, and otherwise which row to leave. After a step of length zero rows are chosen by their number
(Bland's rule) until the value grows, so no vertex comes twice and the method ends.

Several p may be optimal. With multipliers y of the optimum and u = sum_j y_j row_j, a p of norm 1
is optimal exactly if it meets every row by the margin, those with y_j > 0 with equality, and

* l1: p_k = 0 where |u_k| is not the largest, p_k has the sign of u_k where it is, and the |p_k| add up to 1;
* linf: p_k is the sign of u_k where u_k is not 0, and |p_k| <= 1 elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import fmpq, fmpz, fmpz_mat  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.exact import Exact, active_set
from hardmax.margin.measure import Tight
from hardmax.margin.norms.corners import at_corners
from hardmax.margin.norms.powers import Power
from hardmax.margin.norms.solving import answer, measured_at, measured_in
from hardmax.margin.rationals import fraction, independent_columns, integer_rows, integers, root, to_float
from hardmax.margin.solution import MaxMargin, from_exact
from hardmax.margin.solve import EXACT_ROWS, Scaled, proves, scale, solve, stacked


class Vertex(NamedTuple):
    """A vertex of a polyhedron, the rows that fix it, and the multipliers of the goal over all rows."""

    x: list[Any]
    working: list[int]
    weights: list[Any]


class Polyhedron:
    """All x with ``rows_j . x <= bounds_j``, or ``=`` where ``equal[j]``; rows are integers."""

    def __init__(self, rows: Sequence[Sequence[int]], bounds: Sequence[Any], equal: Sequence[bool]) -> None:
        self.width = len(rows[0])
        self.rows = [[fmpz(x) for x in row] for row in rows]
        self.bounds = [fmpq(b) for b in bounds]
        self.equal = list(equal)
        self._matrix = fmpz_mat(len(rows), self.width, [x for row in self.rows for x in row])

    def _times(self, x: Sequence[Any]) -> list[Any]:
        whole, common = _column(x)
        return [fmpq(v, common) for v in (self._matrix * whole).entries()]

    def slack(self, x: Sequence[Any]) -> list[Any]:
        """``bounds - rows . x``."""
        return [b - v for b, v in zip(self.bounds, self._times(x), strict=True)]

    def holds(self, x: Sequence[Any]) -> bool:
        """Whether x is in the polyhedron."""
        return all(s == 0 or (s > 0 and not e) for s, e in zip(self.slack(x), self.equal, strict=True))

    def independent(self, rows: Iterable[int]) -> list[int]:
        """A maximal independent subset, earlier rows first."""
        names = list(rows)
        if not names:
            return []
        columns = fmpz_mat([self.rows[j] for j in names]).transpose()
        return [names[k] for k in independent_columns(columns)]

    def vertex(self, rows: Iterable[int]) -> tuple[list[Any], list[int]] | None:
        """The point at which these rows are tight and the rows that fix it; None outside the polyhedron."""
        working = self.independent([*(j for j, e in enumerate(self.equal) if e), *rows])
        if len(working) < self.width:
            return None
        x = _solved(fmpz_mat([self.rows[j] for j in working]), [self.bounds[j] for j in working])
        return (x, working) if self.holds(x) else None

    def climb(self, goal: Sequence[Any], x: Sequence[Any], working: Sequence[int] | None = None) -> Vertex:
        """The best vertex for ``goal``, from a point x inside, or from a vertex and the rows that fix it.

        The polyhedron must be bounded in the direction of the goal, and must have a vertex.
        """
        point, aim = [fmpq(v) for v in x], [fmpq(c) for c in goal]
        fixed = self.independent(j for j, e in enumerate(self.equal) if e)
        chosen = self._descend_to_vertex(aim, point, fixed) if working is None else list(working)
        stalls = False
        while True:
            matrix = fmpz_mat([self.rows[j] for j in chosen])
            weights = _solved(matrix.transpose(), aim)
            leaving = [k for k, j in enumerate(chosen) if weights[k] < 0 and j not in fixed]
            if not leaving:
                full = [fmpq(0)] * len(self.rows)
                for j, weight in zip(chosen, weights, strict=True):
                    full[j] = weight
                return Vertex(point, chosen, full)
            order: list[Any] = chosen if stalls else weights
            k = min(leaving, key=order.__getitem__)
            edge = _solved(matrix, [-int(i == k) for i in range(self.width)])
            length, chosen[k] = self._first_wall(point, edge)
            stalls = length == 0

    def _first_wall(self, point: list[Any], edge: list[Any]) -> tuple[Any, int]:
        """Move the point along the edge up to the first row that stops it; the lowest of several."""
        steps = [
            (s / v, j)
            for j, (s, v) in enumerate(zip(self.slack(point), self._times(edge), strict=True))
            if v > 0 and not self.equal[j]
        ]
        if not steps:
            raise ValueError("the linear program of goal is unbounded over the polyhedron")
        length, entering = min(steps)
        point[:] = [a + length * b for a, b in zip(point, edge, strict=True)]
        return length, entering

    def _descend_to_vertex(self, goal: list[Any], point: list[Any], fixed: list[int]) -> list[int]:
        """Move the point, never against the goal, until as many rows are tight as there are unknowns."""
        chosen = list(fixed)
        while len(chosen) < self.width:
            # a direction along which the chosen rows stay as they are
            free = fmpz_mat(len(chosen), self.width, [x for j in chosen for x in self.rows[j]]).nullspace()[0]
            edge = [fmpq(free[i, 0]) for i in range(self.width)]
            gain = sum((a * b for a, b in zip(goal, edge, strict=True)), fmpq(0))
            walls = (v > 0 for v, e in zip(self._times(edge), self.equal, strict=True) if not e)
            if gain < 0 or (gain == 0 and not any(walls)):
                edge = [-v for v in edge]
            chosen.append(self._first_wall(point, edge)[1])
        return chosen


def _column(values: Sequence[Any]) -> tuple[Any, Any]:
    """Rational numbers as a column of integers over one denominator."""
    numbers, common = [fmpq(v) for v in values], fmpz(1)
    for v in numbers:
        common = common.lcm(v.q)
    return fmpz_mat(len(numbers), 1, [(v * common).p for v in numbers]), common


def _solved(matrix: Any, values: Sequence[Any]) -> list[Any]:
    """The x with ``matrix x = values``."""
    whole, common = _column(values)
    return [v / common for v in matrix.solve(whole).entries()]


MOST_SETS = 5_000  # of rows that may fix a vertex
MOST_AXES = 6  # beyond, vertices are not listed


@dataclass(frozen=True, eq=False)
class Face:
    """All optimal p of norm 1, as a polyhedron of which one vertex is known; numbers are fractions.

    ``essential`` are the rows tight on all of it, ``sometimes`` those tight on a part only.

    >>> import hardmax as hm
    >>> face = hm.max_margin(hm.Constraints.dense([[1.0, 1.0]]), norm="l1").face
    >>> face.dim, face.unique, [[str(x) for x in vertex] for vertex in face.vertices]
    (1, False, [['0', '1'], ['1', '0']])
    >>> face.box.tolist(), face.distance([3.0, 1.0]), round(face.distance([1.0, -1.0]), 6)
    ([[0.0, 1.0], [0.0, 1.0]], 0.0, 0.707107)
    """

    norm: Power
    count: int
    polyhedron: Polyhedron
    vertex: tuple[list[Any], list[int]]

    @cached_property
    def _extent(self) -> tuple[list[list[Any]], frozenset[int]]:
        """Points of it, of which one leaves every row that can be left, and the rows tight on all of it."""
        body = self.polyhedron
        points, fixed = [self.vertex[0]], {j for j, e in enumerate(body.equal) if e}
        if len(body.independent(sorted(fixed))) == body.width:
            fixed |= {j for j, s in enumerate(body.slack(points[0])) if s == 0}
            return points, frozenset(fixed)
        loose = {j for j, s in enumerate(body.slack(points[0])) if s}
        for j in range(len(body.rows)):
            if j not in fixed | loose:
                points.append(body.climb([-x for x in body.rows[j]], *self.vertex).x)
                slack = body.slack(points[-1])
                loose |= {i for i, s in enumerate(slack) if s}
                fixed |= {j} if slack[j] == 0 else set()
        return points, frozenset(fixed)

    @cached_property
    def dim(self) -> int:
        """Its dimension; 0 if the optimum is unique."""
        return self.polyhedron.width - len(self.polyhedron.independent(sorted(self._extent[1])))

    @property
    def unique(self) -> bool:
        """Whether only one p is optimal."""
        return self.dim == 0

    @property
    def essential(self) -> Bools:
        """Rows tight on all of it."""
        return np.array([j in self._extent[1] for j in range(self.count)], dtype=bool)

    @cached_property
    def sometimes(self) -> Bools:
        """Rows tight on a part of it, and not on all."""
        body, rows = self.polyhedron, range(self.count)
        tight = np.zeros(self.count, dtype=bool)
        for point in self._extent[0]:
            tight |= np.array([s == 0 for s in body.slack(point)[: self.count]], dtype=bool)
        for j in () if self.unique else [j for j in rows if not tight[j]]:
            nearest = body.climb(body.rows[j], *self.vertex).x
            tight |= np.array([s == 0 for s in body.slack(nearest)[: self.count]], dtype=bool)
        return tight & ~self.essential

    @cached_property
    def box(self) -> Floats:
        """Least and largest value of every entry of p over it, (d, 2)."""
        d = self.polyhedron.width
        ends = np.empty((d, 2))
        for k, side in itertools.product(range(d), (0, 1)):
            goal = [(2 * side - 1) * (i == k) for i in range(d)]
            best = self.vertex[0] if self.unique else self.polyhedron.climb(goal, *self.vertex).x
            ends[k, side] = to_float(fraction(best[k]))
        return ends

    @cached_property
    def vertices(self) -> tuple[tuple[Fraction, ...], ...] | None:
        """Its corners, sorted; None beyond 6 entries of p, or with too many sets of rows to try."""
        body = self.polyhedron
        fixed = sorted(self._extent[1])
        others = [j for j in range(len(body.rows)) if j not in self._extent[1]]
        if not self.unique and (body.width > MOST_AXES or math.comb(len(others), self.dim) > MOST_SETS):
            return None
        corners = {tuple(fraction(x) for x in self.vertex[0])}
        for chosen in itertools.combinations(others, self.dim):
            if (corner := body.vertex([*fixed, *chosen])) is not None:
                corners.add(tuple(fraction(x) for x in corner[0]))
        return tuple(sorted(corners))

    def nearest(self, point: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """The point of it that is nearest in l2; from the origin that is its representative."""
        if self.unique:
            return tuple(fraction(x) for x in self.vertex[0])
        body = self.polyhedron
        start = [fmpq(x.numerator, x.denominator) for x in point]
        slack = body.slack(start)
        rows = [[-x * s.q for x in row] for row, s in zip(body.rows, slack, strict=True)]
        matrix = fmpz_mat(rows)
        weights = active_set(matrix * matrix.transpose(), [int(-s.p) for s in slack], body.equal)
        moved = [
            x + sum((w * row[k] for w, row in zip(weights, rows, strict=True) if w), fmpq(0))
            for k, x in enumerate(start)
        ]
        return tuple(fraction(x) for x in moved)

    def distance(self, u: ArrayLike) -> float:
        """The Euclidean distance of u/N(u) to it: zero exactly if u is optimal."""
        direction = np.asarray(u, dtype=np.float64).ravel()
        if direction.size != self.polyhedron.width or not np.isfinite(direction).all() or not direction.any():
            raise ValueError(
                f"u must be {self.polyhedron.width} finite numbers, not all zero, got {np.asarray(u)!s:.60}"
            )
        whole = [Fraction(x) for x in direction.tolist()]
        sizes = [abs(x) for x in whole]
        size = sum(sizes, Fraction(0)) if self.norm.r == 1 else max(sizes)
        point = [x / size for x in whole]
        near = self.nearest(point)
        return root(sum(((a - b) ** 2 for a, b in zip(point, near, strict=True)), Fraction(0)))


def face_of(
    norm: Power,
    rows: Any,
    bounds: Sequence[Any],
    equal: Sequence[bool],
    p: Sequence[Any],
    weights: Sequence[Any],
) -> Face:
    """The face of the vertex p with its multipliers, for integer rows and bounds times the margin."""
    table = rows.tolist()
    m, d = len(table), len(table[0])
    u = [sum((w * row[k] for w, row in zip(weights, table, strict=True) if w), fmpq(0)) for k in range(d)]
    top, axis = max(abs(x) for x in u), np.eye(d, dtype=int)
    signs = np.array([(x > 0) - (x < 0) for x in u])
    ball: list[tuple[Any, int, bool]]  # lines, their limits, and whether they are equalities
    if norm.r == 1:
        share = np.where([abs(x) == top for x in u], signs, 0)
        ball = [(axis[k] * (-share[k] or 1), 0, not share[k]) for k in range(d)]
        ball.append((share, 1, True))
    else:
        sides = [(k, s) for k in range(d) for s in ([signs[k]] if signs[k] else [1, -1])]
        ball = [(s * axis[k], 1, bool(signs[k])) for k, s in sides]
    lines = [*([-x for x in row] for row in table), *(line.tolist() for line, _, _ in ball)]
    limits = [*(-b for b in bounds), *(limit for _, limit, _ in ball)]
    ties = [*(bool(e or w) for e, w in zip(equal, weights, strict=True)), *(tie for _, _, tie in ball)]
    body = Polyhedron(lines, limits, ties)
    vertex = body.vertex(j for j, s in enumerate(body.slack(p)) if s == 0)
    assert vertex is not None, "an optimal vertex of the problem is one of its face"
    return Face(norm, m, body, vertex)


EXACT_WIDTH = 40  # entries of p up to which l1 and linf are solved in fractions
_NEAR = 1e-7  # a slack or a multiplier, for rows and p of size 1, that may be zero


class Polyhedral(Power):
    """l1 or linf: of several optimal p the shortest in l2 is given, with the face of all."""

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
        best = answer(constraints, scaled, self, p, weights)
        return only_optimum(best) if strict and best.is_certified else best

    def solve_many(
        self, problems: list[Constraints], A: Floats, h: Floats, equal: Bools, workers: int
    ) -> list[MaxMargin]:
        """A corner that is proved to be the only optimum is the answer, in floats; it can make its face."""
        for constraints in problems:
            self.refuse(constraints)
        p, weights, _, strict = at_corners(A, h, equal, self, workers)
        Mp, u = (A @ p[..., None])[..., 0], (weights[:, None] @ A)[:, 0]
        d, pull, size, other = A.shape[2], (u * p).sum(axis=1), self.of_rows(p), self.dual.of_rows(u)
        lengths = self.dual.of_rows(A) * (1 + self.dual.rounding(d))
        measured = measured_in(self, h, equal, weights, Mp, pull, size, other, lengths, d)
        shaped = p.reshape(len(p), *problems[0].shape) if problems else p
        good = strict & proves(measured)
        solutions = stacked(self, problems, shaped, weights, measured, good)
        return [only_optimum(best) if good[b] else best for b, best in enumerate(solutions)]

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
    """Record that a solution is proved to be the only one, and tight where it has multipliers."""
    tight = np.asarray(best.multipliers) > 0
    best.__dict__.update(unique=True, enclosure=Tight(tight, tight))  # where cached_property looks
    return best


def is_small(constraints: Constraints) -> bool:
    """Whether l1 and linf are solved in fractions."""
    return constraints.count <= EXACT_ROWS and math.prod(constraints.shape) <= EXACT_WIDTH


def solve_polyhedral(constraints: Constraints, norm: Power, tight: Iterable[int] = ()) -> MaxMargin:
    """The shortest p in l1 or linf of a problem that has one; of several the shortest in l2, with the face.

    ``tight`` are lines of the program that are believed to be tight (`tight_lines`); they only save time.
    """
    rows, _, power = integer_rows(constraints)
    bounds, h_power = integers(constraints.h)
    m, d = constraints.count, rows.ncols()
    table = np.array([int(x) for x in rows.entries()], dtype=object).reshape(m, d)
    lines, ball, limits, goal = _program(norm, table, np.array(bounds, dtype=object))
    equal = [*constraints.equal.tolist(), *[False] * len(ball)]
    body = Polyhedron([*lines.tolist(), *ball.tolist()], [0] * m + limits.tolist(), equal)
    start = body.vertex(tight) or ([0] * len(goal), None)
    best = body.climb(goal.tolist(), *start)
    t, weights = best.x[-1], best.weights[:m]
    p = best.x[:d] if norm.r > 1 else [a - b for a, b in zip(best.x[:d], best.x[d:-1], strict=True)]
    face = face_of(norm, rows, [b * t for b in bounds], constraints.equal.tolist(), p, weights)
    unit = face.nearest([Fraction(0)] * d)
    # The rows as they are: integers times 2^power, with bounds that are integers times 2^h_power.
    margin = Fraction(2) ** (power - h_power) * fraction(t)
    point = tuple(x / margin for x in unit)
    multipliers = tuple(fraction(w) * (Fraction(2) ** (-h_power) / margin**2) for w in weights)
    rest = face.polyhedron.slack([fmpq(x.numerator, x.denominator) for x in unit])[:m]
    slack = tuple(fraction(s) * Fraction(2) ** power / margin for s in rest)
    exact = Exact(True, multipliers, slack, 1 / margin**2, point)
    solution = replace(from_exact(constraints, exact), norm=norm.name)
    solution.__dict__["face"] = face  # where cached_property looks
    return solution


def _program(norm: Power, A: Any, h: Any) -> tuple[Any, Any, Any, Any]:
    """Lines of the rows, which are at most 0, lines of the ball with their limits, and the goal t.

    The unknown is (p, t) for linf and (p+, p-, t) for l1.
    """
    d = A.shape[1]
    if norm.r == 1:
        lines, limits = np.column_stack([-A, A, h]), np.append(np.zeros(2 * d, int), 1)
        ball = np.vstack([-np.eye(2 * d, 2 * d + 1, dtype=int), np.append(np.ones(2 * d, int), 0)])
    else:
        lines, limits = np.column_stack([-A, h]), np.ones(2 * d, int)
        ball = np.kron(np.eye(d, d + 1, dtype=int), [[1], [-1]])
    return lines, ball, limits, np.eye(1, lines.shape[1], lines.shape[1] - 1, dtype=int)[0]


def tight_lines(scaled: Scaled, norm: Power, p: Floats, weights: Floats) -> list[int]:
    """Lines of the program that are tight at a float solution, those with a multiplier first."""
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


def by_highs(A: Floats, h: Floats, equal: Bools, norm: Power) -> tuple[Floats, Floats]:
    """Solve one problem by scipy: p and multipliers with N*(A'l) = N(p); zeros if it has none."""
    from scipy.optimize import linprog

    m, d = A.shape
    sizes = np.maximum(np.abs(A).max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        A, h = A / sizes[:, None], h / sizes
        top = np.abs(h).max()
    if not np.isfinite(top):
        return np.zeros(d), np.zeros(m)
    lines, ball, limits, goal = _program(norm, A, h / top)
    some = int((~equal).sum())
    below = np.vstack([lines[~equal], ball]), np.append(np.zeros(some), limits)
    result = linprog(-goal, *below, lines[equal], np.zeros(m - some), bounds=(None, None), method="highs")
    weights = np.zeros(m)
    if result.status != 0 or not result.x[-1] > 0:
        return np.zeros(d), weights
    p = result.x[:d] if norm.r > 1 else result.x[:d] - result.x[d:-1]
    weights[~equal] = np.maximum(-result.ineqlin.marginals[:some], 0.0)
    weights[equal] = -result.eqlin.marginals
    p, other = p * (top / result.x[-1]), norm.dual.value(A.T @ weights)
    return p, weights / sizes * (norm.value(p) / other if other > 0 else 0.0)
