"""Cone-restricted regularization path: which directions can attract one (B-ALG-2, B-THM-4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, lengths
from hardmax.dynamics.gradient import pull_of, settle_at
from hardmax.limits.searching import Landscape, angles, minimize
from hardmax.problem import Problem
from hardmax.problem.coordinates import scaled
from hardmax.problem.selection import selected_tokens

# The plane: angles and radii of a grid, and how often it is refined around its best point.
ANGLES, RADII, LEVELS = 201, 61, 6

# Elsewhere: points on the rim to start from, steps of the projected method from each, and from the best end.
RIM, SCOUT, STEPS = 6, 60, 1000


@dataclass(frozen=True, eq=False)
class LocalPath:
    """p(R) = argmin of the risk over cos(p, q) >= 1 - mu, R0 <= |p| <= R, at every R in ``radii``.

    ``sign`` and ``log_excess`` give the risk minus that of the tokens q selects; where q selects several of
    an input, minus that of the best-scoring one.

    >>> import numpy as np, hardmax as hm
    >>> problem = hm.data.example("B-FIG-1b")
    >>> path = hm.limits.local_path(problem, [1.0, 0.0], mu=2e-4, R0=20.0, radii=[50.0, 200.0])
    >>> np.degrees(path.angles).round(3).tolist(), path.is_bounded, path.tends_to_q
    ([0.045, 0.0], False, True)
    """

    problem: Problem
    q: np.ndarray  # unit
    mu: float
    R0: float
    radii: np.ndarray  # (k,)
    points: np.ndarray  # (k, d)
    sign: np.ndarray  # (k,)
    log_excess: np.ndarray  # (k,)

    @property
    def half_angle(self) -> float:
        """Half the opening of the cone, in radians."""
        return _angle(self.mu)

    @property
    def norms(self) -> np.ndarray:
        """Length of p at every radius."""
        return lengths(self.points)

    @property
    def angles(self) -> np.ndarray:
        """Angle of p(R) to q in radians."""
        return angles(self.points, self.q)

    @property
    def is_bounded(self) -> bool:
        """Whether the path ends inside its largest ball."""
        return bool(self.norms[-1] < (1.0 - 1e-6) * self.radii[-1])

    @property
    def tends_to_q(self) -> bool:
        """Whether p reaches out to the largest radius within half the cone's angle of q."""
        return not self.is_bounded and bool(self.angles[-1] < 0.5 * self.half_angle)


@check_arguments
def local_path(
    problem: Problem,
    q: Any,
    *,
    mu: float,
    R0: float,
    radii: Iterable[float],
    rng: int | np.random.Generator = 0,
) -> LocalPath:
    """Minimize the loss in a cone around q, outside of R0 and inside each radius.

    In the plane refined grids over angle and radius find it. Elsewhere a projected gradient method runs from
    the center and from ``rng``'s points on the rim of the cone, at the inner, a middle and the outer radius,
    and Newton's method finishes on the outer sphere: a minimum, with no claim to be the global one.

    Args:
        problem: whose risk is minimized.
        q: the axis of the cone.
        mu: its width: p with 1 - cos to q of at most mu.
        R0: the least |p|.
        radii: the largest |p|; the path has them in ascending order.
        rng: a seed or a Generator, for points on the rim.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-1b")
    >>> path = hm.limits.local_path(problem, [-1.0, -1.1], mu=2e-4, R0=20.0, radii=[50.0, 1000.0])
    >>> path.norms.round(6).tolist(), path.sign.tolist()    # its neighbors score higher: it stays behind
    ([20.0, 20.0], [-1.0, -1.0])
    """
    axis = problem.vector("q", q)
    if not axis.any():
        raise ValueError("q is zero and has no direction")
    axis = axis / lengths(axis)
    if not 0.0 < mu < 1.0:
        raise ValueError(f"mu must lie between 0 and 1, got {mu}")
    inner = expect.positive("R0", R0)
    wanted = np.sort([expect.positive("radii", R) for R in radii])
    if not wanted.size or wanted[0] < inner:
        raise ValueError(f"radii must hold numbers of at least R0 = {inner:g}, got {wanted.tolist()}")
    scale = scaled(problem, to_one=True)
    cone = _Cone(scale.problem, axis, _angle(mu), float(scale.point(np.array(inner), "R0")))
    generator = expect.generator(rng)
    points: list[np.ndarray] = []
    for R in scale.point(wanted, "radii").tolist():
        # The best point of a smaller ball still competes.
        ends = [*points[-1:], *(cone.scan(R) if problem.d == 2 else cone.search(R, points, generator))]
        points.append(ends[cone.landscape.least(np.array(ends))])
    sign, log = cone.landscape.excess(np.array(points))
    return LocalPath(problem, axis, mu, inner, wanted, scale.back(np.array(points)), sign, log)


def _angle(mu: float) -> float:
    """The angle whose cosine is 1 - mu."""
    return 2.0 * math.asin(math.sqrt(mu / 2.0))


class _Cone:
    def __init__(self, problem: Problem, q: np.ndarray, half: float, R0: float) -> None:
        scores = problem.split(problem.scores)
        tied = selected_tokens(problem, q).sets
        chosen = [max(near, key=lambda t, i=i: scores[i][t]) for i, near in enumerate(tied)]  # type: ignore[misc]
        self.landscape = Landscape(problem, chosen, basis=np.eye(problem.d))
        self.q, self.half, self.R0 = q, half, R0

    def scan(self, R: float) -> list[np.ndarray]:
        """The best point of nested grids over angle and radius."""
        side = np.array([-self.q[1], self.q[0]])
        low, high = np.array([-self.half, math.log(self.R0)]), np.array([self.half, math.log(R)])
        bottom, top = low, high
        for _ in range(LEVELS):
            turns, stretches = (
                np.linspace(bottom[k], top[k], count) for k, count in enumerate((ANGLES, RADII))
            )
            a, log_r = np.repeat(turns, RADII), np.tile(stretches, ANGLES)
            rays = np.cos(a)[:, None] * self.q + np.sin(a)[:, None] * side
            grid = np.clip(np.exp(log_r), self.R0, R)[:, None] * rays
            best = self.landscape.least(grid)
            middle = np.array([a[best], log_r[best]])
            reach = 3.0 * (top - bottom) / (ANGLES - 1, RADII - 1)
            bottom, top = np.maximum(low, middle - reach), np.minimum(high, middle + reach)
        return [grid[best]]

    def search(self, R: float, before: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
        """Ends of the projected method, and of Newton's where they stay in the cone."""
        sides = (_across(self.q, rng.normal(size=len(self.q))) for _ in range(RIM))
        rim = [self.project(self.q + 10.0 * side, R) for side in sides]
        rays = [p / np.linalg.norm(p) for p in [self.q, *rim, *before[-1:]]]
        radii = sorted({self.R0, math.sqrt(self.R0 * R), R})
        ends = [self.descend(r * ray, R, SCOUT) for ray in rays for r in radii]
        best = self.descend(ends[self.landscape.least(np.array(ends))], R, STEPS)
        ends.append(best)
        if self.landscape.excess(best[None])[0][0] > 0.0:
            polished = minimize(self.landscape.expanded, best, R).p
            if cosine_distance(polished, self.q) <= 2.0 * math.sin(0.5 * self.half) ** 2:
                ends.append(polished)
        return ends

    def descend(self, p: np.ndarray, R: float, steps: int) -> np.ndarray:
        """Steps along the normalized gradient, projected; the step grows with success and shrinks without."""
        problem, slots = self.landscape.problem, self.landscape.slots
        step = 0.1 * float(np.linalg.norm(p))
        for _ in range(steps):
            pull = pull_of(settle_at(problem, p, slots), slots.table, problem.total)
            while not self.landscape.least(np.array([p, self.project(p + step * pull.direction, R)])):
                step *= 0.25
                if step < 1e-9 * R:
                    return p
            p, step = self.project(p + step * pull.direction, R), 2.0 * step
        return p

    def project(self, p: np.ndarray, R: float) -> np.ndarray:
        """Into the cone, by rotation towards q, and between the radii."""
        radius = float(np.clip(np.linalg.norm(p), self.R0, R))
        across = _across(self.q, p)
        aside, ahead = float(np.linalg.norm(across)), float(p @ self.q)
        if aside == 0.0 and ahead <= 0.0:  # opposite to q, where every way back is as short
            return radius * self.q
        if math.atan2(aside, ahead) <= self.half:
            return p * (radius / np.linalg.norm(p))
        return radius * (math.cos(self.half) * self.q + (math.sin(self.half) / aside) * across)


def _across(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    return p - (p @ q) * q
