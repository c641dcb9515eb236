"""Regularization paths: the point of least risk in every ball, of p alone, in a cone, or of v and p together.

The first is B-ALG-1, B-THM-1 and B-THM-8; the second, which shows which directions can attract one, B-ALG-2
and B-THM-4; the third B-ALG-3, B-THM-5, B-THM-6 and B-NEW-1.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, lengths
from hardmax.dynamics.gradient import attended_values, pull_of, settle_at, with_readout
from hardmax.limits.late import path_offset
from hardmax.limits.searching import (
    NOISE,
    Expand,
    Expanded,
    Landscape,
    Minimum,
    angles,
    attracting_directions,
    minimize,
    random_directions,
    scan_circle,
)
from hardmax.margin.att_svm import SetMaxMargin, max_margin, set_max_margin
from hardmax.problem import Problem
from hardmax.problem.coordinates import scaled, scaled_readout
from hardmax.problem.selection import best_tokens, chosen_slots, selected_tokens

# Starts agree when they end this close, in radians: the requirement of B-ALG-1 on a reliable path.
AGREE = 1e-6

# As good as the winner and this far from it, over R: another minimizer, not the same one less well resolved.
APART = 1e-3

# At a smaller radius, with keys of size one, the first order decides to the last digit. Newton's method would
# compare risks that differ by less than rounding.
TINY = 1e-14

# Radii of the continuation grow by this factor.
STRIDE = 1.5

ROUNDS = 100

# From here on log l(u) and log|l'(u)| are the same number, and l itself may underflow.
TAIL = 30.0

# Predictions beyond this were not tried: losses far smaller than float64 holds are known by their logs.
LARGEST = 1e4


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """p(R) = argmin of the risk over |p| <= R, at every R in ``radii``.

    ``log_excess`` is the log of the risk above that of attending to the best tokens only. ``interior`` marks
    where a point inside the ball beats its boundary. ``agreement`` is the distance, over R, to the nearest
    end of an independent start (an angle in radians on the boundary) and ``agreeing`` the number of starts
    that ended within 1e-6 of the winner, itself included. The risk is not convex: other points that are as
    good as the winner, to rounding, are listed in ``ties`` (B-ERR-20). ``target`` is p_mm of the best-scoring
    tokens.

    >>> import numpy as np, hardmax as hm
    >>> path = hm.limits.regularization_path(hm.data.example("B-FIG-8"), [10.0, 100.0])
    >>> np.degrees(path.angle([1.0, 3.0])).round(4).tolist(), path.is_reliable.all().item()
    ([1.5846, 0.1533], True)
    """

    problem: Problem
    radii: np.ndarray  # (k,)
    points: np.ndarray  # (k, d)
    log_excess: np.ndarray  # (k,)
    interior: np.ndarray  # (k,) bool
    agreement: np.ndarray  # (k,)
    agreeing: np.ndarray  # (k,) int
    ties: tuple[tuple[np.ndarray, ...], ...]
    target: SetMaxMargin

    @property
    def directions(self) -> np.ndarray:
        """Unit vectors p/|p|; rows of nan where p is zero."""
        with np.errstate(invalid="ignore"):
            return self.points / lengths(self.points)[:, None]

    @property
    def is_reliable(self) -> np.ndarray:
        """Whether at least two independent starts agree to 1e-6, at every radius."""
        return self.agreeing >= 2

    def angle(self, other: Any) -> np.ndarray:
        """Angle in radians to a direction (a vector or a MaxMargin), at every radius; nan where p is zero."""
        return 2.0 * np.arcsin(np.sqrt(self.cosine_distances(other) / 2.0))

    def cosine_distance(self, other: Any, at: int = -1) -> float:
        """1 - cos to a direction (a vector, a MaxMargin or a run) at one radius, the last by default."""
        return cosine_distance(self.points[at], other)

    def cosine_distances(self, other: Any) -> np.ndarray:
        """1 - cos to a direction, at every radius; nan where p is zero."""
        return np.array([cosine_distance(p, other) if p.any() else math.nan for p in self.points])


@check_arguments
def regularization_path(
    problem: Problem, radii: Iterable[float], *, starts: int = 8, rng: int | np.random.Generator = 0
) -> RegularizationPath:
    """Minimize the loss in the ball of each radius, up to a radius of about 1e4 over the margin.

    The log of the excess risk is minimized by Newton's method from many starts: the directions of up to
    ``starts`` feasible p_mm, locally optimal ones first, and of the best-scoring tokens, moved by the offset
    of B-NEW-2 where it exists; as many random directions, followed from small radii to large ones; and the
    winner at the next larger radius, followed back. In the plane a grid over all angles is one more.

    Args:
        problem: with fixed scores, of which not all tie.
        radii: radii of the balls.
        starts: number of feasible directions, and of random directions, to start from.
        rng: seed or Generator of the random directions.

    >>> import hardmax as hm
    >>> opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]])
    >>> path = hm.limits.regularization_path(opposed, [10.0])  # no p separates the best tokens
    >>> path.points.round(4).tolist(), path.interior.tolist()
    ([[-0.6921]], [True])
    """
    wanted = np.array([expect.positive("radii", R) for R in radii])
    if not wanted.size:
        raise ValueError("radii must hold at least one radius, got none")
    scale = scaled(problem, to_one=True)  # Newton's method measures its steps in such a p
    balls = scale.point(wanted, "radii")
    search = _PathSearch(scale.problem, expect.whole("starts", starts, 1), rng)
    winners = search.run(np.unique(balls))
    columns = zip(*(winners[R] for R in balls.tolist()), strict=True)
    points, values, interior, agreement, agreeing, ties = map(list, columns)

    def lift(p: np.ndarray) -> np.ndarray:
        return scale.back(search.landscape.lift(p))

    return RegularizationPath(
        problem,
        wanted,
        np.array([lift(p) for p in points]),
        np.array(values),
        np.array(interior),
        np.array(agreement),
        np.array(agreeing),
        tuple(tuple(lift(p) for p in others) for others in ties),
        search.target if scale.exponent == 0 else set_max_margin(problem),
    )


class _Winner(NamedTuple):
    p: np.ndarray
    value: float
    interior: bool
    agreement: float
    agreeing: int
    ties: tuple[np.ndarray, ...]


class _PathSearch:
    def __init__(self, problem: Problem, starts: int, rng: int | np.random.Generator) -> None:
        best = best_tokens(problem).sets
        self.landscape = Landscape(problem, [tokens[0] for tokens in best])
        if all(len(tokens) == size for tokens, size in zip(best, problem.sizes.tolist(), strict=True)):
            raise ValueError("problem must have a token that scores below another of its input, got none")
        self.target = set_max_margin(problem)
        to_span = self.landscape.basis.T
        self.offset = np.zeros(self.landscape.d)  # that of B-NEW-2 for the best tokens, zero without one
        if len(self.target.solutions) == 1:
            # without a direction, or where the hypotheses fail, the predictor is p_mm alone
            with contextlib.suppress(ValueError):
                self.offset = to_span @ path_offset(problem, self.target.solutions[0])
        self.goals = [to_span @ (p / np.linalg.norm(p)) for p in self.target.minimizers if p.any()]
        self.attracting = [to_span @ q for q in attracting_directions(problem, starts)]
        self.random = random_directions(self.landscape.d, (starts + 1) // 2, rng)
        self.inwards: list[Minimum] = []  # ends on spheres at which the risk falls towards the origin
        self.finite: list[Minimum] = []

    def run(self, radii: np.ndarray) -> dict[float, _Winner]:
        direction = self._descent_at_zero()
        tiny = radii[radii < TINY] if direction is not None else radii[:0]
        winners = {R: self._first_order(R * direction) for R in tiny.tolist()}
        return winners | (self._run(radii[len(tiny) :]) if len(tiny) < len(radii) else {})

    def _descent_at_zero(self) -> np.ndarray | None:
        """Return the unit vector along which the risk falls fastest at zero; None if it is stationary."""
        zero = np.zeros(self.landscape.d)
        descent = -self.landscape.excess(zero[None])[0][0] * self.landscape.expanded(zero).gradient
        length = float(np.linalg.norm(descent))
        return descent / length if length > 0.0 else None

    def _first_order(self, p: np.ndarray) -> _Winner:
        starts = max(2, len(self.random) + len(self.goals))  # all of them end there
        return _Winner(p, self.landscape.log_excess(p), False, 0.0, starts, ())

    def _run(self, radii: np.ndarray) -> dict[float, _Winner]:
        ends = self._forward(radii)
        for R, larger in zip(radii[-2::-1].tolist(), radii[:0:-1].tolist(), strict=True):  # and back
            q = min(ends[larger], key=lambda end: end.value).p
            for r in reversed(self._between(R, larger)):
                q = self._slide([q], r)[0].p
            ends[R] += self._slide([q], R)
        # finite minima: below the ends at which the risk falls inwards, and below the origin
        for start in [np.zeros(self.landscape.d), *(end.p for end in self.inwards)]:
            end = minimize(self.landscape.expanded, start, within=float(radii[-1]))
            if end.slope <= 1e-9:
                self.finite.append(end)
        if not self.goals:
            for R in radii.tolist():
                ends[R] += self._sharpen(R, min(ends[R], key=lambda end: end.value))
        return {R: self._judge(R, ends[R]) for R in radii.tolist()}

    def _forward(self, radii: np.ndarray) -> dict[float, list[Minimum]]:
        """Starts followed outwards from a small radius, and fresh ones at every given radius."""
        ends: dict[float, list[Minimum]] = {}
        tracks, reached = self.random + self.goals, 0.0
        for R in radii.tolist():
            for r in self._between(reached, R):
                tracks = [end.p for end in self._slide(tracks, r)]
            followed = self._slide(tracks, R)
            fresh = [R * q + self.offset for q in self.goals] + self.goals + self.attracting
            ends[R] = followed + self._slide(fresh, R)
            if self.landscape.d == 2:
                # the grid's own point, and Newton's method from it where no start reached that basin
                p = scan_circle(self.landscape, R)
                value = self.landscape.log_excess(p)
                if value < min(end.value for end in ends[R]) - _noise(value):
                    ends[R] += self._slide([p], R)
                ends[R].append(Minimum(p, value, math.inf, 0.0))
            tracks, reached = [end.p for end in followed], R
        return ends

    def _between(self, low: float, high: float) -> list[float]:
        """Radii of the continuation below ``high``; from nothing it begins where logits have size one."""
        if low == 0.0:
            low = 0.5 / float(np.linalg.norm(self.landscape.rows, axis=1).max())
        count = int(math.log(high / low) / math.log(STRIDE)) if high > low else 0
        return [high / STRIDE**k for k in range(count, 0, -1)]

    def _slide(self, starts: list[np.ndarray], R: float) -> list[Minimum]:
        """Minima on the sphere; equal starts go on as one, and every one of them counts."""
        done: list[tuple[np.ndarray, Minimum]] = []
        for start in starts:
            q = start / np.linalg.norm(start)
            end = next((end for other, end in done if np.linalg.norm(q - other) <= 1e-9), None)
            if end is None:
                end = minimize(self.landscape.expanded, start, R)
                if end.outward > 0.0:
                    self.inwards.append(end)
            done.append((q, end))
        return [end for _, end in done]

    def _sharpen(self, R: float, winner: Minimum) -> list[Minimum]:
        """Ends seen from the floor of the winner's own selection.

        Where no p separates the best tokens, the risk may still fall forever along another selection: flat
        to the last digit above the common floor, but not above its own.
        """
        problem, lift = self.landscape.problem, self.landscape.lift
        chosen = selected_tokens(problem, lift(winner.p))
        best = max_margin(problem, chosen) if chosen.is_unique else None
        if best is None or best.direction is None:
            return []
        scores = problem.scores[chosen_slots(problem, chosen.tokens)]
        if problem.readout.in_log is not None and not scores.all():
            return []  # without its label an input has no floor
        view = Landscape(problem, chosen.tokens)
        starts = [winner.p, self.landscape.basis.T @ best.direction * R]
        if any(view.excess(p[None])[0][0] <= 0.0 for p in starts):
            return []
        ends = [minimize(view.expanded, p, R) for p in starts]
        # The slope is relative to the smaller excess, so these precede the blurred ends of equal value.
        return [replace(end, value=self.landscape.log_excess(end.p), slope=-1.0) for end in ends]

    def _judge(self, R: float, ends: list[Minimum]) -> _Winner:
        inner = [end for end in self.finite if np.linalg.norm(end.p) < R * (1.0 - 1e-12)]
        least = min(end.value for end in ends + inner)
        as_good = [end for end in ends + inner if end.value <= least + _noise(least)]
        winner = min(as_good, key=lambda end: end.slope)
        interior = any(winner is end for end in inner)
        agreement, agreeing = _agreement(winner.p, [end.p for end in (inner if interior else ends)], R)
        ties: list[np.ndarray] = []
        for end in [end for end in as_good if winner.slope >= 0.0 or end.slope < 0.0]:
            if all(np.linalg.norm(end.p - p) > APART * R for p in [winner.p, *ties]):
                ties.append(end.p)
        return _Winner(winner.p, winner.value, interior, agreement, agreeing, tuple(ties))


def _noise(value: float) -> float:
    return 10 * NOISE * (1.0 + abs(value))


def _agreement(p: np.ndarray, ends: list[np.ndarray], R: float) -> tuple[float, int]:
    """Distance of p, over R, to the nearest other end, and the number of ends that agree with p.

    Starts that ended together share one end. Each counts, and the first zero is p's distance to itself.
    """
    distances = sorted(float(np.linalg.norm(end - p)) / R for end in ends)[1:]
    return min(distances, default=math.inf), 1 + sum(x <= AGREE for x in distances)


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


@dataclass(frozen=True, eq=False)
class JointPath:
    """(v, p) of least risk over |v| <= r, |p| <= R, at every R in ``radii`` with its r in ``budgets``.

    ``log_risk`` is the log of the risk. ``agreement`` is the distance of p, over R, to the nearest end of
    another start, and ``agreeing`` the number of starts within 1e-6, the winner included.

    >>> import numpy as np, hardmax as hm
    >>> path = hm.limits.joint_path(hm.data.example("B-FIG-3b"), [10.0, 20.0, 30.0], rho=1.5)
    >>> np.degrees(path.angle([1.0, 0.0])).round(3).tolist()    # the relaxed SVM's direction (B-THM-6)
    [0.476, 0.02, 0.001]
    """

    problem: Problem
    radii: np.ndarray  # (k,)
    budgets: np.ndarray  # (k,)
    points: np.ndarray  # (k, d)
    v_points: np.ndarray  # (k, e)
    log_risk: np.ndarray  # (k,)
    agreement: np.ndarray  # (k,)
    agreeing: np.ndarray  # (k,) int

    def angle(self, other: Any) -> np.ndarray:
        """Angle in radians of p to a direction, at every radius."""
        return angles(self.points, other)

    def head_angle(self, other: Any) -> np.ndarray:
        """Angle in radians of v to a direction, at every radius."""
        return angles(self.v_points, other)


@check_arguments
def joint_path(
    problem: Problem,
    radii: Iterable[float],
    *,
    rho: float | None = None,
    r: float | None = None,
    starts: int = 6,
    rng: int | np.random.Generator = 0,
) -> JointPath:
    """Minimize the loss over |v| <= r, |p| <= R with r = rho R or a fixed r; the limit depends on it.

    For a given p the best v is a convex problem, for a given v the best p minimizes an excess risk in the log
    domain; the two steps alternate, by Newton's method, from the directions of ``starts`` feasible p_mm, from
    random ones and from the answer at the next smaller radius. Ends are compared by their risk. Where its
    last digits no longer distinguish them (R times the margin above 35 or so), the followed one is kept.

    Args:
        problem: with values and labels, whose head is free.
        radii: the bounds R on |p|.
        rho: the ratio r/R; one of rho and r.
        r: a fixed bound on |v|.
        starts: number of feasible directions, and of random directions, to start from.
        rng: seed or Generator of the random directions.

    >>> import numpy as np, hardmax as hm
    >>> path = hm.limits.joint_path(hm.data.example("B-FIG-3a"), [5.0, 10.0], rho=1.0)
    >>> np.degrees([path.angle([1.0, 0.0]), path.head_angle([1.0, 0.0])]).round(2).tolist()
    [[11.82, 12.45], [88.1, 88.88]]
    """
    head = problem.readout.linear
    if head is None or problem.loss.name not in ("logistic", "exponential"):
        raise ValueError("problem must have values, labels and the logistic or the exponential loss")
    if problem.weights is not None or problem.counts is not None:
        raise ValueError("problem must have no weights or counts here; repeat its inputs and tokens instead")
    if (rho is None) == (r is None):
        got = "neither" if rho is None else "both"
        raise ValueError(f"pass exactly one of rho (for |v| <= rho R) and r (a fixed radius), got {got}")
    wanted = np.sort([expect.positive("radii", R) for R in radii])
    if not wanted.size:
        raise ValueError("radii must hold at least one radius, got none")
    fixed = np.full(len(wanted), 0.0 if r is None else expect.positive("r", r))
    budgets = fixed if rho is None else expect.positive("rho", rho) * wanted
    reach = float(budgets[-1] * lengths(head.values).max())
    if reach > LARGEST:
        raise ValueError(f"r times the longest value must be at most {LARGEST:g}, got {reach:.4g}")
    scale, (by_head, head) = scaled(problem, to_one=True), scaled_readout(problem, to_one=True)
    unit = scale.problem._with(readout=head)
    balls, bounds = scale.point(wanted, "radii"), by_head.point(budgets, "r")
    starts = expect.whole("starts", starts, 1)
    directions = attracting_directions(unit, starts) + random_directions(problem.d, (starts + 1) // 2, rng)
    rows: list[tuple[np.ndarray, np.ndarray, float, float, int]] = []
    for R, budget in zip(balls.tolist(), bounds.tolist(), strict=True):
        followed = [rows[-1][0] / np.linalg.norm(rows[-1][0])] if rows and rows[-1][0].any() else []
        ends = [_alternate(unit, R * q, R, budget) for q in followed + directions]
        least = min(value for _, _, value in ends)
        winner = next(end for end in ends if end[2] <= least + 100 * NOISE * (1.0 + abs(least)))
        rows.append((*winner, *_agreement(winner[0], [end[0] for end in ends], R)))
    p, v, *columns = (np.array(column) for column in zip(*rows, strict=True))
    return JointPath(problem, wanted, budgets, scale.back(p), by_head.back(v), *columns)


def _alternate(problem: Problem, p: np.ndarray, R: float, r: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Best v for p, best p for v, until neither moves: p, v and the log of the risk."""
    features = _features(problem, p)
    assert problem.readout.values is not None
    longest = problem.readout.values[np.linalg.norm(problem.readout.values, axis=1).argmax()]
    # where all attention is on a value of zero, up to underflow, every v is as good: one with a direction
    v = next((x for x in (features.sum(axis=0), features[0]) if np.linalg.norm(x) > 1e-100), longest)
    for _ in range(ROUNDS):
        step = _in_ball(_head_risk(problem, features), v, r)
        here = with_readout(problem, step)
        best = [tokens[0] for tokens in best_tokens(here).sets]
        landscape = Landscape(here, best, basis=np.eye(problem.d))
        q = _in_ball(landscape.expanded, p, R)
        still = np.linalg.norm(q - p) <= 1e-11 * R and np.linalg.norm(step - v) <= 1e-11 * r
        p, v, features = q, step, _features(problem, q)
        if still:
            break
    return p, v, _head_risk(problem, features)(v).value


def _in_ball(expand: Expand, start: np.ndarray, radius: float) -> np.ndarray:
    """A local minimizer on the sphere, or inside it where the function falls inwards."""
    end = minimize(expand, start, radius)
    if end.outward > 0.0:
        inside = minimize(expand, end.p, within=radius)
        if np.linalg.norm(inside.p) < radius:
            return inside.p
    return end.p


def _features(problem: Problem, p: np.ndarray) -> np.ndarray:
    """Y_i times the attended value of every input."""
    labels = problem.readout.labels
    assert labels is not None
    z, _ = attended_values(problem, settle_at(problem, p))
    return labels[:, None] * z


def _head_risk(problem: Problem, features: np.ndarray) -> Expand:
    """Return the log of the risk as a function of v, for fixed attention."""
    loss = problem.loss

    def expand(v: np.ndarray) -> Expanded:
        u = features @ v
        log_slopes = loss.log_slopes(u)
        logs = np.where(u > TAIL, log_slopes, np.log(loss.value(np.minimum(u, TAIL))))
        top = float(logs.max())
        share = np.exp(logs - top)
        value = top + math.log(share.mean())
        share /= share.sum()
        steep = share * np.exp(log_slopes - logs)  # |l'_i| / sum l
        slope = -steep @ features
        bend = (-(steep * loss.slope_rates(u))[:, None] * features).T @ features
        return Expanded(value, slope, bend - np.outer(slope, slope))

    return expand
