"""The search for least risk: where it begins, a scan of the circle, and Newton with a trust region.

Steps are measured in p, not in angles: log E bends on the scale 1 of p whatever the radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardmax._lib import expect
from hardmax.directions.enumerate import feasible_selections
from hardmax.limits.landscape import Expanded, Landscape
from hardmax.problem import Problem

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
    """A local minimiser from ``start``, on the sphere of that radius if one is given.

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
        if fall <= SETTLED * size:
            if np.linalg.norm(new[0]) >= np.linalg.norm(slope) or then.value > at.value + NOISE * size:
                break
            p, at, (slope, bend, frame) = trial, then, new
            continue
        gain = (at.value - then.value) / fall
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
            longer = np.linalg.norm(pull / (values + shift)) > reach
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


# Feasible selections looked at before the starts are chosen from them; there may be T^n in all.
LOOKED_AT = 1000


def attracting_directions(problem: Problem, count: int) -> list[np.ndarray]:
    """Directions of feasible p_mm, locally optimal ones first, and among equals the larger margin first."""
    found = [each for each in feasible_selections(problem, limit=LOOKED_AT) if each.direction is not None]
    found.sort(key=lambda each: (not each.locally_optimal, -each.max_margin.margin))
    return [each.direction for each in found[:count] if each.direction is not None]


def random_directions(d: int, pairs: int, rng: int | np.random.Generator) -> list[np.ndarray]:
    """Unit vectors in opposite pairs."""
    drawn = expect.generator(rng).normal(size=(pairs, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return [sign * q for q in drawn for sign in (1.0, -1.0)]
