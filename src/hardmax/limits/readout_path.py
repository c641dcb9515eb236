"""Joint regularisation path of the head v and of p (B-ALG-3, B-THM-5, B-THM-6, B-NEW-1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, lengths
from hardmax.dynamics.gradient import attended_values, settle_at, with_readout
from hardmax.limits.global_path import AGREE
from hardmax.limits.searching import (
    NOISE,
    Expand,
    Expanded,
    Landscape,
    attracting_directions,
    minimize,
    random_directions,
)
from hardmax.problem import Problem
from hardmax.problem.coordinates import scaled, scaled_readout
from hardmax.problem.selection import best_tokens

ROUNDS = 100

# From here on log l(u) and log|l'(u)| are the same number, and l itself may underflow.
TAIL = 30.0

# Predictions beyond this were not tried: losses far smaller than float64 holds are known by their logs.
LARGEST = 1e4


@dataclass(frozen=True, eq=False)
class JointPath:
    """(v, p) of least risk over |v| <= r, |p| <= R, at every R in ``radii`` with its r in ``budgets``.

    ``log_risk`` is the log of the risk. ``agreement`` is the distance of p, over R, to the nearest end of
    another start, and ``agreeing`` the number of starts within 1e-6, the winner included.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.limits import joint_path
    >>> path = joint_path(hm.data.example("B-FIG-3b"), [10.0, 20.0, 30.0], rho=1.5)
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
        return _angles(self.points, other)

    def head_angle(self, other: Any) -> np.ndarray:
        """Angle in radians of v to a direction, at every radius."""
        return _angles(self.v_points, other)


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
    """Least risk over |v| <= r, |p| <= R: r = rho R, or a fixed r (B-ERR-02: the limit depends on which).

    For a given p the best v is a convex problem, for a given v the best p minimises an excess risk in the log
    domain; the two steps alternate, by Newton's method, from the directions of ``starts`` feasible p_mm, from
    random ones and from the answer at the next smaller radius. Ends are compared by their risk. Where its
    last digits no longer tell them apart (R times the margin above 35 or so), the followed one is kept.

    Args:
        problem: with values and labels, whose head is free.
        radii: the bounds R on |p|.
        rho: the ratio r/R; one of rho and r.
        r: a fixed bound on |v|.
        starts: how many feasible directions to start from, and random ones.
        rng: a seed or a Generator, for the random ones.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.limits import joint_path
    >>> path = joint_path(hm.data.example("B-FIG-3a"), [5.0, 10.0], rho=1.0)
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
    seen = scale.problem._with(readout=head)
    balls, bounds = scale.point(wanted, "radii"), by_head.point(budgets, "r")
    starts = expect.whole("starts", starts, 1)
    directions = attracting_directions(seen, starts) + random_directions(problem.d, (starts + 1) // 2, rng)
    rows: list[_End] = []
    for R, budget in zip(balls.tolist(), bounds.tolist(), strict=True):
        followed = [rows[-1].p / np.linalg.norm(rows[-1].p)] if rows and rows[-1].p.any() else []
        rows.append(_best([_alternate(seen, R * q, R, budget) for q in followed + directions], R))
    return JointPath(
        problem,
        wanted,
        budgets,
        scale.back(np.array([row.p for row in rows])),
        by_head.back(np.array([row.v for row in rows])),
        np.array([row.value for row in rows]),
        np.array([row.agreement for row in rows]),
        np.array([row.agreeing for row in rows]),
    )


@dataclass(frozen=True, eq=False)
class _End:
    p: np.ndarray
    v: np.ndarray
    value: float
    agreement: float = math.inf
    agreeing: int = 1


def _best(ends: list[_End], R: float) -> _End:
    least = min(end.value for end in ends)
    winner = next(end for end in ends if end.value <= least + 100 * NOISE * (1.0 + abs(least)))
    distances = sorted(float(np.linalg.norm(end.p - winner.p)) / R for end in ends)[1:]
    agreeing = 1 + sum(x <= AGREE for x in distances)
    return _End(winner.p, winner.v, winner.value, min(distances, default=math.inf), agreeing)


def _alternate(problem: Problem, p: np.ndarray, R: float, r: float) -> _End:
    """Best v for p, best p for v, until neither moves."""
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
    return _End(p, v, _head_risk(problem, features)(v).value)


def _in_ball(expand: Expand, start: np.ndarray, radius: float) -> np.ndarray:
    """A local minimiser on the sphere, or inside it where the function falls inwards."""
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
    """log L as a function of v, for fixed attention."""
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


def _angles(points: np.ndarray, other: Any) -> np.ndarray:
    return np.array([2.0 * math.asin(math.sqrt(cosine_distance(p, other) / 2.0)) for p in points])
