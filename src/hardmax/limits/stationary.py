"""Finite stationary points of the risk and their index, on the line and in the plane; where basins end.

The direction of the gradient is interpolated linearly on a grid whose cells grow with |p|; every simplex on
which the interpolant vanishes starts Newton's method. Every point is checked; that none is missing is not
proved, but the index theorem (B-NEW-4) gives the sum of the indices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import expand, settle_at
from hardmax.limits.field import DescentField
from hardmax.problem import Problem

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
