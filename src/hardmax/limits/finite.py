"""The finite part of training on data that do not separate: where p comes to rest on the span of bound rows.

Restricted to the selected token of each input and those it is bound to, the log loss is coercive and
strictly convex on that span S, so it has one minimiser p_fin (D-THM-11), which Newton's method finds. How far
that may be off is proved in coordinates in which the curvature there is the identity, from the gradient g and
the diameter R of an input's keys: third derivatives are at most R times second ones along the way, so the
minimiser is within -log(1 - R g)/R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hardmax.problem import Problem
from hardmax.problem.coordinates import scaled
from hardmax.problem.keys import Dense
from hardmax.problem.layout import slots_of
from hardmax.train.flow import flow
from hardmax.train.gradient import Expansion, expand, risk_of, settle_at

ROUNDS = 1_000
ENOUGH = 1e-4  # of the fall that the slope promises
RESOLVED = 1e-13  # a promised fall below this fraction of the risk cannot be seen in it


@dataclass(frozen=True, eq=False)
class Finite:
    """A minimiser ``p`` of the risk on a span, the ``risk`` there, and a ``radius`` proved to hold it.

    For a risk that is not convex it is a local one, and no radius is known (None).
    """

    p: np.ndarray
    risk: float
    radius: float | None


def restricted(problem: Problem, kept: np.ndarray) -> Problem:
    """The same problem with some of its slots, at least one of every input.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_scores([[[1.0], [0.0], [2.0]]], [[1, 0, 0]], loss="log")
    >>> restricted(problem, np.array([True, False, True])).keys[[0, 2]].tolist()
    [[1.0], [2.0]]
    """
    return replace(
        problem,
        tokens=problem.tokens[kept],
        offsets=np.concatenate([[0], np.cumsum(np.add.reduceat(kept.astype(np.intp), problem.offsets[:-1]))]),
        head=problem.head.restricted(kept),
        counts=None if problem.counts is None else problem.counts[kept],
    )


def convex_minimum(problem: Problem, S: np.ndarray) -> Finite:
    """The minimiser over the columns' span of a convex log loss that is coercive there.

    >>> import hardmax as hm
    >>> tied = hm.Problem.from_scores([[[1.0], [0.0]]] * 3, [[1, 0], [1, 0], [0, 1]], loss="log")
    >>> found = convex_minimum(tied, np.eye(1))
    >>> round(float(found.p[0]), 12) == round(math.log(2), 12), found.radius < 1e-14
    (True, True)
    """
    if not S.shape[1]:
        zero = np.zeros(problem.d)
        return Finite(zero, risk_of(problem, settle_at(problem, zero)), 0.0)
    scale = scaled(problem, to_one=True)
    slots = slots_of(scale.problem)
    table = Dense(np.ascontiguousarray(scale.problem.keys @ S))
    seen, slots = replace(scale.problem, table=table, W=None), replace(slots, table=table)
    inputs = np.split(slots.keys[slots.tokens], slots.offsets[1:-1])
    y, least = np.zeros(S.shape[1]), math.inf
    settled = settle_at(seen, y, slots)
    at = expand(seen, settled, settled.differences(slots.keys))
    for _ in range(ROUNDS):
        step, risk = _newton(at), risk_of(seen, settled)
        fall = float(at.V @ step) * math.exp(at.common) / problem.total
        # While logits move by at most 1 the curvature keeps its size.
        t = 1.0 / max(1.0, *(float(np.ptp(keys @ step)) for keys in inputs))
        if resolved := fall > RESOLVED * risk:
            while risk_of(seen, settle_at(seen, y + t * step, slots)) > risk - ENOUGH * t * fall:
                t /= 2
        elif not fall < least:  # what is left to fall is rounding
            break
        least = math.inf if resolved else fall
        y = y + t * step
        settled = settle_at(seen, y, slots)
        at = expand(seen, settled, settled.differences(slots.keys))
    p = scale.back(S @ y)
    weights = settled.weights * settled.per_slot(np.exp(settled.log_scale - at.common))
    pulls = weights[:, None] * settled.differences(slots.keys)
    return Finite(p, risk_of(seen, settled), math.ldexp(_radius(at, pulls, inputs), -scale.exponent))


def _newton(at: Expansion) -> np.ndarray:
    """The step to the minimum of the second-order expansion."""
    try:
        return np.asarray(np.linalg.solve(-at.H, at.V))
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(-at.H, at.V, rcond=None)[0]


def _radius(at: Expansion, pulls: np.ndarray, inputs: list[np.ndarray]) -> float:
    """How far the minimiser can be: infinite if the curvature does not tell.

    ``pulls`` are the terms of the gradient, whose sizes bound its rounding. In coordinates in which the
    curvature is the identity.
    """
    try:
        white = np.linalg.inv(np.linalg.cholesky(-at.H))
    except np.linalg.LinAlgError:
        return math.inf
    R = max(_diameter(keys @ white.T) for keys in inputs)
    rounding = np.finfo(float).eps * (len(white) + 8) * float(np.linalg.norm(pulls @ white.T, axis=1).sum())
    share = R * (float(np.linalg.norm(white @ at.V)) + rounding)
    return -math.log1p(-share) / R * float(np.linalg.norm(white, 2)) if share < 1 else math.inf


def local_minimum(problem: Problem, start: np.ndarray | None = None) -> Finite | None:
    """Where gradient flow from the origin or a start rests, for a risk that need not be convex, if it does.

    >>> import hardmax as hm
    >>> opposed = hm.Problem.from_scores([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]])
    >>> local_minimum(opposed).p.round(4).tolist()
    [-0.6921]
    """
    if problem.head.moves:
        return None
    run = flow(problem, start=start)
    if run.event not in ("stationary point", "no competing token"):
        return None
    return Finite(run.p, risk_of(problem, settle_at(problem, run.p)), None)


def _diameter(keys: np.ndarray) -> float:
    return max(float(np.linalg.norm(keys - key, axis=1).max()) for key in keys)
