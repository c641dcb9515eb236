"""Finite stationary points of the risk on the line and in the plane, their index, and where basins end.

The direction of the gradient is interpolated linearly on a grid whose cells grow with |p|; every simplex on
which the interpolant vanishes starts Newton's method. Every point is checked; that none is missing is not
proved, but the index theorem (B-NEW-4) gives the sum of the indices: it is the degree of the gradient on a
sphere that holds all stationary points, how often its direction covers the sphere around them.

All in an orthonormal basis of the key differences, outside of which nothing happens, and in units in which
the keys are near 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from scipy.spatial import ConvexHull

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.compiled import OUT_TABLE, TABLE, njit
from hardmax.dynamics.flow import flow
from hardmax.dynamics.forces import LAYOUT, MOVES, WORKSPACE, V, dense, layout_of, workspace
from hardmax.dynamics.gradient import expand, settle_at
from hardmax.problem import Problem
from hardmax.problem.coordinates import divided, in_basis, orthonormal_basis
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
        scale = divided(problem, problem.table.exponent)
        self.unit = math.ldexp(1.0, scale.exponent)
        self.problem, self.slots = in_basis(scale.problem, slots, self.basis)
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


CELLS = {1: 400, 2: 96}  # along each axis of the first grid
ALONG, ASIDE, WIDE = 60, 24, 12.0  # cells of a tube, and half its width
FINER = (1.0, 1.9, 3.4)  # grids that are tried in turn
STEPS, LONGEST = 60, 2.0  # of Newton's method
FLAT = 1e-7  # a Hessian with an eigenvalue below this, relative to the largest, is degenerate


@dataclass(frozen=True, eq=False)
class StationaryPoint:
    """Where the gradient vanishes: the point, and how many eigenvalues of the Hessian are negative there.

    ``index`` is None if an eigenvalue is too small for its sign to be known.
    """

    p: np.ndarray
    index: int | None


def stationary_points(
    field: DescentField, radius: float, corners: np.ndarray, total: int | None = None
) -> list[StationaryPoint]:
    """Stationary points with |p| up to ``radius``, nearest first.

    Far out they are near the directions ``corners`` of `CriticalDirections`: tubes around these get grids
    each. Grids get finer until (-1)^index sum to ``total``, if it is given.
    """
    points: list[StationaryPoint] = []
    corners = np.reshape(corners, (-1, field.basis.shape[0])) @ field.basis
    radius = radius * field.unit
    for finer in FINER:
        for grid in _grids(field.d, radius, corners, finer):
            for start in _zeros(field, grid):
                point = _newton(field, start, radius)
                if point is not None and all(np.linalg.norm(point.p - q.p) > 1e-6 for q in points):
                    points.append(point)
        if total is None or sum((-1) ** q.index for q in points if q.index is not None) == total:
            break
    points.sort(key=lambda q: float(np.linalg.norm(q.p)))
    return [StationaryPoint(field.basis @ q.p / field.unit, q.index) for q in points]


def _grids(d: int, radius: float, corners: np.ndarray, finer: float) -> Iterator[np.ndarray]:
    """Grids (.., d) of points: a square, and a tube around every corner."""
    cells, reach = int(CELLS[d] * finer), math.asinh(radius)
    # the odd shift keeps grid points off the walls of symmetric data
    line = np.sinh(np.linspace(-reach, reach, cells + 1) + 0.0137 * reach / cells)
    yield np.stack(np.meshgrid(*[line] * d, indexing="ij"), axis=-1)
    if d == 1:
        return
    along = np.sinh(np.linspace(0.0, reach, int(ALONG * finer) + 1) + 0.0137)
    aside = np.linspace(-WIDE, WIDE, int(ASIDE * finer) + 1) + 0.0137
    places = np.stack(np.meshgrid(along, aside, indexing="ij"), axis=-1)
    for x, y in corners:
        yield places @ np.array([[x, y], [-y, x]])


def _zeros(field: DescentField, grid: np.ndarray) -> np.ndarray:
    """Zeros of the field interpolated linearly on the simplices of a grid, and the simplices' middles."""
    d = field.d
    images = field.at(grid.reshape(-1, d)).reshape(grid.shape)
    starts = [np.zeros((0, d))]
    for order in itertools.permutations(range(d)):
        # one simplex of every cell: from its lowest corner along the axes in this order
        steps = np.zeros((d + 1, d), dtype=int)
        for k, axis in enumerate(order):
            steps[k + 1 :, axis] = 1
        picks = [
            tuple(slice(o, size - 1 + o) for o, size in zip(step, grid.shape[:d], strict=True))
            for step in steps.tolist()
        ]
        values = np.stack([images[pick].reshape(-1, d) for pick in picks], axis=1)  # (m, d+1, d)
        mixed = ((values.min(axis=1) <= 0) & (values.max(axis=1) >= 0)).all(axis=1)
        values = values[mixed]
        edges = np.swapaxes(values[:, 1:] - values[:, :1], 1, 2)
        good = np.abs(np.linalg.det(edges)) > 1e-12
        weights = np.linalg.solve(edges[good], -values[good][:, 0, :, None])[..., 0]
        weights = np.column_stack([1 - weights.sum(axis=1), weights])
        inside = (weights >= -1e-9).all(axis=1)
        places = np.stack([grid[pick].reshape(-1, d) for pick in picks], axis=1)[mixed][good][inside]
        starts += [(weights[inside][..., None] * places).sum(axis=1), places.mean(axis=1)]
    return np.concatenate(starts)


def _newton(field: DescentField, start: np.ndarray, radius: float) -> StationaryPoint | None:
    """Newton's method on the gradient, with bounded steps."""
    p = start
    for _ in range(STEPS):
        settled = settle_at(field.problem, p, field.slots)
        second = expand(field.problem, settled, settled.differences(field.slots.keys))
        if second.size == 0.0 or not np.isfinite(second.H).all() or np.linalg.norm(p) > radius:
            return None
        try:
            step = -np.linalg.solve(second.H, second.V)
        except np.linalg.LinAlgError:
            return None
        length = float(np.linalg.norm(step))
        if not math.isfinite(length):
            return None
        if length <= 1e-9 and float(np.linalg.norm(second.V)) <= 1e-8 * second.size:
            curvatures = -np.linalg.eigvalsh(0.5 * (second.H + second.H.T))
            size = float(np.abs(curvatures).max())
            flat = float(np.abs(curvatures).min()) <= FLAT * size
            return StationaryPoint(p + step, None if flat else int((curvatures < 0).sum()))
        p = p + step * min(1.0, LONGEST / length)
    return None


# Flows are followed until p is this many times longer than where they began: near the boundary, too, they
# have left it by then.
FAR = 10.0


@check_arguments
def basin_boundary(problem: Problem, start: Any, other: Any, *, tolerance: float = 1e-6) -> np.ndarray:
    """Find the point between two starts at which the basin of the first one's selection ends.

    The boundary is itself made of trajectories: from it p goes to no locally optimal direction, which is why
    "gradient descent can only go to locally optimal directions" holds for almost every start at best.

    Args:
        problem: whose gradient flow is followed.
        start: a p(0) of the basin.
        other: a p(0) outside of it.
        tolerance: how near to the boundary the answer is.

    >>> import numpy as np, hardmax as hm
    >>> x, y = hm.limits.basin_boundary(hm.data.example("B-FIG-1b"), [20.0, 1.5], [20.0, 2.0], tolerance=1e-4)
    >>> bool(abs(y - (0.1 * x + np.log(90 / 111))) < 1e-4)
    True
    """
    near, far = problem.vector("start", start), problem.vector("other", other)
    expect.positive("tolerance", tolerance)
    least = 4 * math.sqrt(near.size) * float(np.spacing(np.abs([near, far]).max()))
    if tolerance < least:
        raise ValueError(
            f"tolerance must be at least {least:.1e}, the spacing of floats as large as start and other, "
            f"got {tolerance:g}"
        )
    norm = FAR * max(1.0, float(np.linalg.norm(near)), float(np.linalg.norm(far)))

    def end(p: np.ndarray) -> tuple[tuple[int, ...], ...]:
        return flow(problem, start=p, until_norm=norm).selection.sets

    home = end(near)
    if end(far) == home:
        raise ValueError(f"start and other must end at different selections, both end at {home}")
    while np.linalg.norm(far - near) > tolerance:
        middle = 0.5 * (near + far)
        if end(middle) == home:
            near = middle
        else:
            far = middle
    return 0.5 * (near + far)
