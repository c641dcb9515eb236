"""Linear programs in rational numbers: largest values over a polyhedron, from a point that is known in it.

The active-set form of the simplex method. A vertex is a set of independent tight rows; the multipliers of the
goal over them say whether it is the best, and otherwise which row to leave. After a step of length zero rows
are chosen by their number (Bland's rule) until the value grows, so no vertex comes twice and the method ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from flint import fmpq, fmpz, fmpz_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax.margin.rationals import independent_columns


class Vertex(NamedTuple):
    """A vertex of a polyhedron, the rows that fix it, and the multipliers of the goal over all rows."""

    x: list[Any]
    working: list[int]
    weights: list[Any]


class Polyhedron:
    """All x with ``rows_j . x <= bounds_j``, or ``=`` where ``equal[j]``; rows are integers.

    >>> square = Polyhedron([[1, 0], [-1, 0], [0, 1], [0, -1]], [1, 1, 1, 1], [False] * 4)
    >>> square.climb([1, 2], [0, 0]).x
    [1, 1]
    """

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
        """The point at which these rows are tight and the rows that fix it, if it is one of the polyhedron.

        >>> Polyhedron([[1], [-1]], [1, 1], [False, False]).vertex([1])
        ([-1], [1])
        """
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
        held, stalls = set(fixed), False
        while True:
            matrix = fmpz_mat([self.rows[j] for j in chosen])
            weights = _solved(matrix.transpose(), aim)
            leaving = [k for k, j in enumerate(chosen) if weights[k] < 0 and j not in held]
            if not leaving:
                full = [fmpq(0)] * len(self.rows)
                for j, weight in zip(chosen, weights, strict=True):
                    full[j] = weight
                return Vertex(point, chosen, full)
            order: Callable[[int], Any] = chosen.__getitem__ if stalls else weights.__getitem__
            k = min(leaving, key=order)
            length, entering = self._first_wall(
                point, _solved(matrix, [-int(i == k) for i in range(self.width)])
            )
            stalls = length == 0
            chosen[k] = entering

    def _first_wall(self, point: list[Any], edge: list[Any]) -> tuple[Any, int]:
        """Move the point along the edge up to the first row that stops it; the lowest of several."""
        steps = [
            (s / v, j)
            for j, (s, v) in enumerate(zip(self.slack(point), self._times(edge), strict=True))
            if v > 0 and not self.equal[j]
        ]
        if not steps:
            raise ValueError("goal must be bounded over the polyhedron, got a direction without an end")
        length, entering = min(steps)
        point[:] = [a + length * b for a, b in zip(point, edge, strict=True)]
        return length, entering

    def _descend_to_vertex(self, goal: list[Any], point: list[Any], fixed: list[int]) -> list[int]:
        """Move the point, never against the goal, until as many rows are tight as there are unknowns."""
        chosen = list(fixed)
        while len(chosen) < self.width:
            edge = self._free_direction(chosen)
            gain = sum((a * b for a, b in zip(goal, edge, strict=True)), fmpq(0))
            if gain < 0 or (gain == 0 and not any(v > 0 for v in self._inner(edge))):
                edge = [-v for v in edge]
            _, entering = self._first_wall(point, edge)
            chosen.append(entering)
        return chosen

    def _inner(self, edge: list[Any]) -> list[Any]:
        return [v for v, e in zip(self._times(edge), self.equal, strict=True) if not e]

    def _free_direction(self, chosen: list[int]) -> list[Any]:
        """A direction along which the chosen rows stay as they are."""
        if not chosen:
            return [fmpq(i == 0) for i in range(self.width)]
        reduced, denominator, rank = fmpz_mat([self.rows[j] for j in chosen]).rref()
        pivots, column = [], 0
        for line in range(rank):
            while reduced[line, column] == 0:
                column += 1
            pivots.append(column)
        free = next(i for i in range(self.width) if i not in pivots)
        edge = [fmpq(i == free) for i in range(self.width)]
        for line, column in enumerate(pivots):
            edge[column] = -fmpq(reduced[line, free], denominator)
        return edge


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
