"""The optimal face of a max-margin problem whose norm has corners, in rational numbers (D-DEF-4).

With multipliers y of the optimum and u = sum_j y_j row_j, a p of norm 1 is optimal exactly if it meets every
row by the margin, those with y_j > 0 with equality, and

* l1: p_k = 0 where |u_k| is not the largest, p_k has the sign of u_k where it is, and the |p_k| add up to 1;
* linf: p_k is the sign of u_k where u_k is not 0, and |p_k| <= 1 elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.exact import active_set
from hardmax.margin.norms.definition import Power
from hardmax.margin.norms.linear import Polyhedron
from hardmax.margin.rationals import root, to_float

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
    def _known(self) -> tuple[list[list[Any]], frozenset[int]]:
        """Points that leave every row that some point leaves, and the rows that none does."""
        body = self.polyhedron
        points, fixed = [self.vertex[0]], {j for j, e in enumerate(body.equal) if e}
        if len(body.independent(sorted(fixed))) == body.width:
            fixed |= {j for j, s in enumerate(body.slack(points[0])) if s == 0}
            return points, frozenset(fixed)
        left = {j for j, s in enumerate(body.slack(points[0])) if s}
        for j in range(len(body.rows)):
            if j in fixed or j in left:
                continue
            found = body.climb([-x for x in body.rows[j]], *self.vertex)
            slack = body.slack(found.x)
            left |= {i for i, s in enumerate(slack) if s}
            points.append(found.x)
            fixed |= {j} if slack[j] == 0 else set()
        return points, frozenset(fixed)

    @cached_property
    def dim(self) -> int:
        """Its dimension; 0 if the optimum is unique."""
        return self.polyhedron.width - len(self.polyhedron.independent(sorted(self._known[1])))

    @property
    def unique(self) -> bool:
        """Whether it is one point."""
        return self.dim == 0

    @property
    def essential(self) -> Bools:
        """Rows tight on all of it."""
        return np.array([j in self._known[1] for j in range(self.count)], dtype=bool)

    @cached_property
    def sometimes(self) -> Bools:
        """Rows tight on a part of it, and not on all."""
        body, found = self.polyhedron, np.zeros(self.count, dtype=bool)
        for point in self._known[0]:
            found |= np.array([s == 0 for s in body.slack(point)[: self.count]], dtype=bool)
        for j in np.flatnonzero(~found).tolist():
            if self.unique:
                break
            near = body.climb(body.rows[j], *self.vertex)
            found |= np.array([s == 0 for s in body.slack(near.x)[: self.count]], dtype=bool)
        return found & ~self.essential

    @cached_property
    def box(self) -> Floats:
        """Least and largest value of every entry of p over it, (d, 2)."""
        ends = np.empty((self.polyhedron.width, 2))
        for k in range(self.polyhedron.width):
            for side, sign in enumerate((-1, 1)):
                goal = [sign * (i == k) for i in range(self.polyhedron.width)]
                best = self.vertex[0] if self.unique else self.polyhedron.climb(goal, *self.vertex).x
                ends[k, side] = to_float(_fraction(best[k]))
        return ends

    @cached_property
    def vertices(self) -> tuple[tuple[Fraction, ...], ...] | None:
        """Its corners, sorted; None beyond 6 entries of p, or with too many sets of rows to try."""
        body = self.polyhedron
        fixed = sorted(self._known[1])
        others = [j for j in range(len(body.rows)) if j not in self._known[1]]
        if not self.unique and (body.width > MOST_AXES or math.comb(len(others), self.dim) > MOST_SETS):
            return None
        corners = {tuple(_fraction(x) for x in self.vertex[0])}
        for chosen in itertools.combinations(others, self.dim):
            found = body.vertex([*fixed, *chosen])
            if found is not None:
                corners.add(tuple(_fraction(x) for x in found[0]))
        return tuple(sorted(corners))

    def nearest(self, point: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """The point of it that is nearest in l2; from the origin that is the one that stands for it."""
        if self.unique:
            return tuple(_fraction(x) for x in self.vertex[0])
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
        return tuple(_fraction(x) for x in moved)

    def distance(self, u: ArrayLike) -> float:
        """The Euclidean distance of u/N(u) to it: zero exactly if u is optimal."""
        given = np.asarray(u, dtype=np.float64).ravel()
        if len(given) != self.polyhedron.width or not np.isfinite(given).all() or not given.any():
            raise ValueError(
                f"u must be {self.polyhedron.width} finite numbers, not all zero, got {np.asarray(u)!s:.60}"
            )
        whole = [Fraction(x) for x in given.tolist()]
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
    """The face of the vertex p with its multipliers, for integer rows and bounds times the margin.

    >>> from hardmax.margin.norms import norm
    >>> rows = fmpz_mat([[1, 1]])
    >>> face_of(norm("l1"), rows, [fmpq(1)], [False], [fmpq(1), fmpq(0)], [fmpq(1)]).dim
    1
    """
    m, d = rows.nrows(), rows.ncols()
    table = [[rows[j, k] for k in range(d)] for j in range(m)]
    u = [sum((w * row[k] for w, row in zip(weights, table, strict=True) if w), fmpq(0)) for k in range(d)]
    lines = [[-x for x in row] for row in table]
    limits = [-b for b in bounds]
    ties = [bool(e or w) for e, w in zip(equal, weights, strict=True)]
    top = max(abs(x) for x in u)
    signs = [(x > 0) - (x < 0) for x in u]

    def add(line: list[Any], limit: int, tie: bool) -> None:
        lines.append([fmpz(x) for x in line])
        limits.append(fmpq(limit))
        ties.append(tie)

    axis = np.eye(d, dtype=int).tolist()
    if norm.r == 1:
        carried = [abs(x) == top for x in u]
        for k in range(d):
            add([-signs[k] * x for x in axis[k]] if carried[k] else axis[k], 0, not carried[k])
        add([s if c else 0 for s, c in zip(signs, carried, strict=True)], 1, True)
    else:
        for k in range(d):
            if signs[k]:
                add([signs[k] * x for x in axis[k]], 1, True)
            else:
                add(axis[k], 1, False)
                add([-x for x in axis[k]], 1, False)
    body = Polyhedron(lines, limits, ties)
    vertex = body.vertex(j for j, s in enumerate(body.slack(p)) if s == 0)
    assert vertex is not None, "an optimal vertex of the problem is one of its face"
    return Face(norm, m, body, vertex)


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))
