"""Feasible selections in the plane by a rotating direction (B-DEF-13), in exact integer arithmetic.

As q turns once around, the selected token of input i steps along the vertices of the hull of its keys, at
the normals of the hull's edges. Between two such normals every input selects one token; those are all the
feasible selections, and there are at most as many as hull edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import NamedTuple

from hardmax.margin.constraints import Floats
from hardmax.margin.rationals import integers

Point = tuple[int, int]


class Turn(NamedTuple):
    """At the normal of an edge an input passes from one token to another."""

    edge: Point
    input: int
    before: int
    after: int


def sweep(keys: list[Floats], goes_on: Callable[[], bool] = lambda: True) -> Iterator[tuple[int, ...]]:
    """Every selection that some direction makes strictly, once each; inputs have two tokens or more.

    ``goes_on`` is asked before each input; its no ends the search.

    >>> import numpy as np
    >>> list(sweep([np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.5]])]))
    [(0, 1), (0, 0), (1, 0), (1, 1)]
    """
    turns: list[Turn] = []
    twins: list[set[int]] = []
    for i, table in enumerate(keys):
        if not goes_on():
            return
        entries, _ = integers(table)
        points = list(zip(entries[::2], entries[1::2], strict=True))
        if len(set(points)) == 1:
            return  # the tokens are one point, so none beats the others
        first = {point: t for t, point in reversed(list(enumerate(points)))}
        twins.append({first[point] for point, count in Counter(points).items() if count > 1})
        corners = _hull(sorted(first))
        for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
            turns.append(Turn((b[0] - a[0], b[1] - a[1]), i, first[a], first[b]))
    angle = cmp_to_key(_compare)
    turns.sort(key=lambda turn: angle(turn.edge))
    current = [-1] * len(keys)
    for turn in reversed(turns):
        current[turn.input] = turn.before
    for turn, after in zip(turns, turns[1:] + turns[:1], strict=True):
        current[turn.input] = turn.after
        is_last_here = _compare(turn.edge, after.edge) != 0  # several inputs may turn at once
        if is_last_here and not any(t in twins[i] for i, t in enumerate(current)):
            yield tuple(current)


def _hull(points: list[Point]) -> list[Point]:
    """Strict vertices of the convex hull of sorted points, counter-clockwise (Andrew's monotone chain)."""

    def chain(along: list[Point]) -> list[Point]:
        kept: list[Point] = []
        for point in along:
            while len(kept) > 1 and _cross(_from(kept[-2], kept[-1]), _from(kept[-2], point)) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return chain(points) + chain(points[::-1])


def _from(a: Point, b: Point) -> Point:
    return b[0] - a[0], b[1] - a[1]


def _cross(a: Point, b: Point) -> int:
    return a[0] * b[1] - a[1] * b[0]


def _compare(a: Point, b: Point) -> int:
    """Order of two edges by their angle in [0, 2 pi), the same as that of their outward normals."""
    half_a, half_b = a < (0, 0) if a[1] == 0 else a[1] < 0, b < (0, 0) if b[1] == 0 else b[1] < 0
    if half_a != half_b:
        return 1 if half_a else -1
    cross = _cross(a, b)
    return -1 if cross > 0 else int(cross < 0)
