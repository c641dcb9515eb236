"""The direction of minus the gradient at many points, and how often it covers the sphere around them.

All in an orthonormal basis of the key differences, outside of which nothing happens, and in units in which
the keys are near 1. The degree of the gradient on a sphere that holds all stationary points is the sum of
their indices, whatever they are.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numba import types
from scipy.spatial import ConvexHull

from hardmax._lib.arrays import exponent
from hardmax._lib.compiled import OUT_TABLE, TABLE, njit
from hardmax.dynamics.forces import LAYOUT, MOVES, WORKSPACE, V, dense, layout_of, workspace
from hardmax.problem import Problem
from hardmax.problem.coordinates import orthonormal_basis
from hardmax.problem.keys import Dense
from hardmax.problem.problem import slots_of

TURN = 0.5 * math.pi  # two neighbors on the circle may differ by less than this

# On a late sphere the rows that count together are independent, and directions between two neighbors are
# positive combinations of theirs: the shorter way between them is the right one unless they are opposite.
FOLD = 0.99 * math.pi
EVEN = 4000  # points of the first sphere, besides those around the corners
ROUNDS = 60
MOST = 2_000_000  # points of a sphere


_force = dense.function


@njit(types.void(LAYOUT, TABLE, WORKSPACE, OUT_TABLE), cache=True, nogil=True)
def _directions(layout, points, work, out):  # type: ignore[no-untyped-def]
    """`gradient(...).direction` at every row of ``points``."""
    at, direction = np.empty(points.shape[1]), work.vectors[V]
    for m in range(points.shape[0]):
        for j in range(at.size):
            at[j] = points[m, j]
        moves = _force(layout, at, work) == MOVES
        for j in range(at.size):
            out[m, j] = direction[j] / work.lengths[0] if moves else 0.0


class DescentField:
    """Directions of minus the gradient of a problem with fixed scores, in a basis of its key differences.

    Keys are divided by ``unit``, a power of two, so points are ``unit`` times those of the problem.
    """

    def __init__(self, problem: Problem) -> None:
        slots = slots_of(problem)
        basis = orthonormal_basis(slots)
        self.basis = np.eye(problem.d) if basis.shape[1] == problem.d else basis
        power = exponent(problem.keys)
        self.unit = math.ldexp(1.0, power)
        keys = np.ascontiguousarray(np.ldexp(problem.keys, -power) @ self.basis)
        self.problem = problem._with(table=Dense(keys), W=None)
        self.slots = replace(slots, table=Dense(keys))
        self._layout = layout_of(self.problem, self.slots)

    @property
    def d(self) -> int:
        """Dimension of the key differences."""
        return self.basis.shape[1]

    def at(self, points: np.ndarray) -> np.ndarray:
        """Unit directions at points (m, d) of the basis; zero rows at stationary points."""
        points = np.ascontiguousarray(points, dtype=float)
        out = np.empty_like(points)
        bounds = [0, points.shape[1]]
        _directions(self._layout, points, workspace(len(self.slots.tokens), self.problem.n, bounds), out)
        return out


def degree(field: DescentField, radius: float, corners: np.ndarray) -> int | None:
    """Degree of the gradient on the sphere of a radius: the sum of the indices of the points inside.

    ``corners`` are unit directions near which the gradient turns fast, so that no turn is overlooked. None if
    the refinement does not end, or the dimension is above 3.
    """
    radius, turned = radius * field.unit, corners @ field.basis
    if field.d == 1:
        ends = field.at(radius * np.array([[1.0], [-1.0]]))[:, 0]
        return round(-(ends[0] - ends[1]) / 2)
    if field.d == 2:
        return _winding(field, radius, turned)
    return _sphere_degree(field, radius, turned) if field.d == 3 else None


def _steps(radius: float) -> np.ndarray:
    """Distances from a corner at which to look: from a hundredth of 1/radius to a radian, doubling."""
    return np.geomspace(0.01 / radius, 1.0, 2 + int(math.log2(100.0 * max(radius, 1.0))))


def _winding(field: DescentField, radius: float, corners: np.ndarray) -> int | None:
    middle = np.arctan2(corners[:, 1], corners[:, 0])
    steps = np.concatenate([-_steps(radius), [0.0], _steps(radius)])
    angles = np.concatenate([np.linspace(-math.pi, math.pi, 65)[1:], (middle[:, None] + steps).ravel()])
    angles = np.unique(np.mod(angles, 2 * math.pi))
    images = field.at(radius * np.column_stack([np.cos(angles), np.sin(angles)]))
    for _ in range(ROUNDS):
        after = np.roll(images, -1, axis=0)
        cross = images[:, 0] * after[:, 1] - images[:, 1] * after[:, 0]
        turns = np.arctan2(cross, (images * after).sum(axis=1))
        wide = np.flatnonzero(np.abs(turns) >= TURN)
        if not len(wide):
            return round(float(turns.sum()) / (2 * math.pi))
        gaps = np.mod(np.roll(angles, -1) - angles, 2 * math.pi)[wide]
        between = angles[wide] + 0.5 * gaps
        new = field.at(radius * np.column_stack([np.cos(between), np.sin(between)]))
        angles, images = np.insert(angles, wide + 1, between), np.insert(images, wide + 1, new, axis=0)
    return None


def _sphere_degree(field: DescentField, radius: float, corners: np.ndarray) -> int | None:
    points = _sphere_points(radius, corners)
    hull = ConvexHull(points)
    triangles = hull.simplices.astype(np.int64)
    flip = np.linalg.det(points[triangles]) < 0
    triangles[flip] = triangles[flip][:, ::-1]
    images = field.at(radius * points)
    area = 0.0
    for _ in range(ROUNDS):
        edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]], axis=2)
        keys, back = np.unique(edges[..., 0] * len(points) + edges[..., 1], return_inverse=True)
        first, second = keys // len(points), keys % len(points)
        wide = (images[first] * images[second]).sum(axis=1) <= math.cos(FOLD)
        split = np.where(wide, len(points) + np.cumsum(wide) - 1, -1)[back.reshape(len(triangles), 3)]
        done = (split < 0).all(axis=1)
        area += float(_solid_angles(images[triangles[done]]).sum())
        if done.all():
            return round(-area / (4 * math.pi))
        middle = points[first[wide]] + points[second[wide]]
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        points, images = np.concatenate([points, middle]), np.concatenate([images, field.at(radius * middle)])
        if len(points) > MOST:
            return None
        triangles = _split(triangles[~done], split[~done])
    return None


def _sphere_points(radius: float, corners: np.ndarray) -> np.ndarray:
    """Even points, and rings around each corner whose radii double."""
    height = 1 - (2 * np.arange(EVEN) + 1) / EVEN
    turn = math.pi * (3 - math.sqrt(5)) * np.arange(EVEN)
    flat = np.sqrt(1 - height**2)
    even = np.column_stack([flat * np.cos(turn), flat * np.sin(turn), height])
    rings = [even, corners]
    around = 2 * math.pi * np.arange(6) / 6
    for q in corners:
        _, _, frame = np.linalg.svd(q[None])
        for k, step in enumerate(_steps(radius)[::2]):
            angle = around + k
            ring = np.cos(angle)[:, None] * frame[1] + np.sin(angle)[:, None] * frame[2]
            rings.append(math.cos(step) * q + math.sin(step) * ring)
    points = np.unique(np.concatenate(rings), axis=0)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _split(triangles: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Triangles cut at the middles of their marked edges (01, 12, 20); -1 marks an edge that stays whole."""
    count = (split >= 0).sum(axis=1)
    # turn each triangle so that its first edge is cut, and with two cuts its first two
    turn = np.where(count == 2, (np.argmin(split, axis=1) + 1) % 3, np.argmax(split >= 0, axis=1))
    order = (turn[:, None] + np.arange(3)) % 3
    (a, b, c), (ab, bc, ca) = (np.take_along_axis(x, order, axis=1).T for x in (triangles, split))
    pieces = []
    for which, parts in (
        (count == 1, ((a, ab, c), (ab, b, c))),
        (count == 2, ((ab, b, bc), (a, ab, bc), (a, bc, c))),
        (count == 3, ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))),
    ):
        pieces += [np.column_stack(part)[which] for part in parts]
    return np.concatenate(pieces)


def _solid_angles(corners: np.ndarray) -> np.ndarray:
    """Signed area of spherical triangles (m, 3, 3) of unit vectors."""
    a, b, c = np.swapaxes(corners, 0, 1)
    volume = (a * np.cross(b, c)).sum(axis=1)
    return 2 * np.arctan2(volume, 1 + (a * b).sum(axis=1) + (b * c).sum(axis=1) + (c * a).sum(axis=1))
