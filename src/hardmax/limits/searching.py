"""The search for least risk: the risk seen from its floor, where a search begins, and how it goes on.

log E, E the excess risk, is a smooth function of order |p| where the risk itself is flat to the last digit,
so paths are computed on it, for many points at once, with gradient and Hessian. Points live in an orthonormal
basis of the key differences, outside of which the risk does not change. A search is a scan of the circle, or
Newton with a trust region; steps are measured in p, not in angles: log E bends on the scale 1 of p whatever
the radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import cosine_distance
from hardmax.directions.enumerate import selections
from hardmax.dynamics.gradient import expand, settle_at
from hardmax.problem import Problem
from hardmax.problem.coordinates import in_basis, orthonormal_basis
from hardmax.problem.problem import slots_of
from hardmax.problem.selection import chosen_slots, score_gaps

# A fall of the prediction by less than exp of this leaves the loss's slope the same to the last digit.
VANISHED = -40.0

STEEPEST = 300.0  # log of the largest slope of log|E| that is returned


@dataclass(frozen=True, eq=False)
class Expanded:
    """Value, gradient and Hessian of a function at a point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


class Landscape:
    """Excess risk of a problem over a reference selection, in the span of the key differences.

    Another orthonormal ``basis`` may be given: the identity where constraints on p reach out of the span.
    """

    def __init__(self, problem: Problem, selection: Sequence[int], basis: np.ndarray | None = None) -> None:
        problem.need_decreasing_loss()
        slots = slots_of(problem)
        self.problem = problem
        self.selection = tuple(int(t) for t in selection)
        self.basis = orthonormal_basis(slots) if basis is None else basis
        self.reduced, self.slots = in_basis(problem, slots, self.basis)
        chosen = chosen_slots(problem, self.selection)
        self.scores = problem.scores[chosen]
        self.gaps = score_gaps(problem, self.scores)
        self._log_counts = 0.0 if problem.counts is None else np.log(problem.counts)
        table = self.reduced.keys[problem.tokens]
        self.rows = table - np.repeat(table[chosen], problem.sizes, axis=0)
        with np.errstate(divide="ignore"):
            self._log_gaps = np.log(np.abs(self.gaps))
        self._log_slopes = problem.loss.log_slopes(self.scores)

    @property
    def d(self) -> int:
        """Dimension of the span."""
        return self.basis.shape[1]

    def lift(self, points: np.ndarray) -> np.ndarray:
        """Points of the span in the coordinates of the keys."""
        return points @ self.basis.T

    def excess(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(sign, log|E|) at points (m, d): `hm.dynamics.excess_loss` for many points.

        Differences are taken to the reference token, so that nothing cancels when it scores best.
        """
        firsts, sizes = self.problem.offsets[:-1], self.problem.sizes
        logits = points @ self.rows.T + self._log_counts  # (m, slots), zero at a reference without copies
        top = np.maximum.reduceat(logits, firsts, axis=1)
        masses = np.exp(logits - np.repeat(top, sizes, axis=1))
        log_mass = top + np.log(np.add.reduceat(masses, firsts, axis=1))
        terms = logits - np.repeat(log_mass, sizes, axis=1) + self._log_gaps
        peak = _finite(np.maximum.reduceat(terms, firsts, axis=1))
        signed = np.sign(self.gaps) * np.exp(terms - np.repeat(peak, sizes, axis=1))
        falls = np.add.reduceat(signed, firsts, axis=1)
        sign, log = np.sign(falls), _log(np.abs(falls)) + peak  # score - u_i, (m, n)
        falls = np.where(log < VANISHED, 0.0, sign * np.exp(log))
        slopes = np.tile(self._log_slopes, (len(falls), 1))  # late nearly all falls have vanished
        m, i = np.nonzero(falls)
        mean, pairs = self.problem.loss.log_mean_slope, zip(self.scores[i], falls[m, i], strict=True)
        slopes[m, i] = [mean(float(score), float(fall)) for score, fall in pairs]
        log = log + slopes + self.problem.log_weights
        peak = _finite(log.max(axis=1))
        total = (sign * np.exp(log - peak[:, None])).sum(axis=1)
        return np.sign(total), _log(np.abs(total)) + peak - math.log(self.problem.total)

    def log_excess(self, p: np.ndarray) -> float:
        """Return log E at one point; for references that score best E is never negative."""
        return float(self.excess(p[None])[1][0])

    def least(self, points: np.ndarray) -> int:
        """Which point has the least risk: E negative before positive, whatever its size."""
        sign, log = self.excess(points)
        order = np.where(sign == sign.min(), sign.min() * log if sign.min() else 0.0, np.inf)
        return int(np.argmin(order))

    def expanded(self, p: np.ndarray) -> Expanded:
        """log|E| with gradient and Hessian, all relative to E and so free of underflow."""
        settled = settle_at(self.reduced, p, self.slots)
        second = expand(self.reduced, settled, settled.differences(self.slots.keys))
        sign, log = self.excess(p[None])
        value = float(log[0])
        if not math.isfinite(value) or second.common == -math.inf:
            return Expanded(value, np.zeros(self.d), np.zeros((self.d, self.d)))
        # Where E changes its sign log|E| falls without bound: the slope is capped, its square is a float.
        scale = float(sign[0]) * math.exp(min(second.common - math.log(self.problem.total) - value, STEEPEST))
        slope = -scale * second.V
        return Expanded(value, slope, -scale * second.H - np.outer(slope, slope))


def _finite(peaks: np.ndarray) -> np.ndarray:
    """Largest exponents, with zero for sums without a term."""
    return np.where(np.isfinite(peaks), peaks, 0.0)


def _log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(x)


Expand = Callable[[np.ndarray], Expanded]
STEPS = 200

# Relative rounding error of a value, and the promised fall below which the gradient decides instead of it.
NOISE, SETTLED = 1e-13, 1e-10


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where Newton's method ended: the point, the value there, the slope that is left and the radial one."""

    p: np.ndarray
    value: float
    slope: float
    outward: float


def minimize(
    expand: Expand, start: np.ndarray, radius: float | None = None, *, within: float = math.inf
) -> Minimum:
    """A local minimizer from ``start``, on the sphere of that radius if one is given.

    In free space it stops where it leaves the ball of radius ``within``.
    """
    p = start if radius is None else start * (radius / np.linalg.norm(start))
    at = expand(p)
    slope, bend, frame = _model(p, at, radius)
    reach = max(1.0, 0.1 * float(np.linalg.norm(p)))
    for _ in range(STEPS):
        step, fall = _trusted_step(slope, bend, reach)
        length = float(np.linalg.norm(step))
        norm = float(np.linalg.norm(p))
        if length <= 1e-16 * max(1.0, norm) or (radius is None and norm > within):
            break
        trial = p + frame @ step
        trial = trial if radius is None else trial * (radius / np.linalg.norm(trial))
        then = expand(trial)
        new = _model(trial, then, radius)
        size = 1.0 + abs(at.value)
        gain = 0.5  # by the gradient, where the promised fall cannot be seen in the value
        if fall > SETTLED * size:
            gain = (at.value - then.value) / fall
        elif np.linalg.norm(new[0]) >= np.linalg.norm(slope) or then.value > at.value + NOISE * size:
            break
        if gain > 1e-3:
            p, at, (slope, bend, frame) = trial, then, new
        if gain < 0.25 or not math.isfinite(gain):
            reach = 0.25 * length
        elif gain > 0.75:
            reach = max(reach, 2.5 * length)
    return Minimum(p, at.value, float(np.linalg.norm(slope)), float(at.gradient @ p))


def _model(p: np.ndarray, at: Expanded, radius: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradient and Hessian in an orthonormal frame of the tangent space, and the frame.

    The sphere's curvature adds -(g.p)/radius^2 to the Hessian.
    """
    d = len(p)
    if radius is None:
        return at.gradient, at.hessian, np.eye(d)
    unit = p / radius
    mirror = unit.copy()
    mirror[0] += math.copysign(1.0, unit[0])
    frame = (np.eye(d) - np.outer(mirror, mirror) * (2.0 / (mirror @ mirror)))[:, 1:]
    bend = frame.T @ at.hessian @ frame - (at.gradient @ unit) / radius * np.eye(d - 1)
    return frame.T @ at.gradient, bend, frame


def _trusted_step(slope: np.ndarray, bend: np.ndarray, reach: float) -> tuple[np.ndarray, float]:
    """The step of length at most ``reach`` that the quadratic model likes best, and the fall it promises."""
    if not slope.any():
        return np.zeros(len(slope)), 0.0
    values, vectors = np.linalg.eigh(0.5 * (bend + bend.T))
    pull = vectors.T @ slope
    lowest, shift = float(values[0]), 0.0
    if lowest <= 0.0 or np.linalg.norm(pull / values) > reach:
        # |step| falls to zero as the shift grows beyond -lowest: bracket and bisect.
        bottom = max(0.0, -lowest) * (1.0 + 1e-12) + 1e-100
        top = bottom + float(np.linalg.norm(pull)) / reach
        for _ in range(50):
            shift = 0.5 * (bottom + top)
            x = pull / (values + shift)
            longer = math.sqrt(x.dot(x)) > reach  # to the bit numpy's norm, which takes three times as long
            bottom, top = (shift, top) if longer else (bottom, shift)
        shift = top
    move = -pull / (values + shift)
    return vectors @ move, -float(pull @ move + 0.5 * move @ (values * move))


POINTS, LEVELS = 2001, 7


def scan_circle(landscape: Landscape, radius: float) -> np.ndarray:
    """The point of least excess risk on a circle: 2001 angles, then seven times as many around the best."""
    middle, half = 0.0, np.pi
    for _ in range(LEVELS):
        angles = middle + np.linspace(-half, half, POINTS)
        circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
        best = int(np.argmin(landscape.excess(circle)[1]))
        middle, half = float(angles[best]), 3.0 * half / (POINTS - 1)
    return circle[best]


def angles(points: np.ndarray, other: Any) -> np.ndarray:
    """The angle in radians of every point to a direction."""
    return np.array([2.0 * math.asin(math.sqrt(cosine_distance(p, other) / 2.0)) for p in points])


# Feasible selections looked at before the starts are chosen from them; there may be T^n in all.
LOOKED_AT = 1000


def attracting_directions(problem: Problem, count: int) -> list[np.ndarray]:
    """Directions of feasible p_mm, locally optimal ones first, and among equals the larger margin first."""
    feasible = [s for s in selections(problem, limit=LOOKED_AT) if s.direction is not None]
    feasible.sort(key=lambda s: (not s.attracts.verdict, -s.max_margin.margin))
    return [s.direction for s in feasible[:count] if s.direction is not None]


def random_directions(d: int, pairs: int, rng: int | np.random.Generator) -> list[np.ndarray]:
    """Unit vectors in opposite pairs."""
    units = expect.generator(rng).normal(size=(pairs, d))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return [sign * q for q in units for sign in (1.0, -1.0)]
