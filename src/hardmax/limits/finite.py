"""The finite part of training on data that do not separate: where p comes to rest on the span of bound rows.

Restricted to the selected token of each input and those it is bound to, the log loss is coercive and
strictly convex on that span S, so it has one minimiser p_fin (D-THM-11), which Newton's method finds. How far
that may be off is proved from the gradient g, the least curvature l on S and the diameter R of an input's
keys: third derivatives are at most R times second ones, so the minimiser is within -log(1 - R g/l)/R.
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
from hardmax.train.gradient import expand, risk_of, settle_at

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
    y = np.zeros(S.shape[1])
    settled = settle_at(seen, y, slots)
    risk = risk_of(seen, settled)
    for _ in range(ROUNDS):
        at = expand(seen, settled, settled.differences(slots.keys))
        step = np.linalg.lstsq(-at.H, at.V, rcond=None)[0]
        fall = float(at.V @ step) * math.exp(at.common) / problem.total
        if fall <= RESOLVED * risk:
            y = y + step
            break
        t = 1.0
        while (trial := risk_of(seen, settle_at(seen, y + t * step, slots))) > risk - ENOUGH * t * fall:
            t /= 2
        y, risk = y + t * step, trial
        settled = settle_at(seen, y, slots)
    settled = settle_at(seen, y, slots)
    at = expand(seen, settled, settled.differences(slots.keys))
    rounding = np.finfo(float).eps * (problem.d + 8) * at.size
    slope, curvature = float(np.linalg.norm(at.V)) + rounding, float(np.linalg.eigvalsh(-at.H)[0])
    R = max(_diameter(keys) for keys in np.split(slots.keys[slots.tokens], slots.offsets[1:-1]))
    share = R * slope / curvature if curvature > 0 else math.inf
    radius = -math.log1p(-share) / R if share < 1 else math.inf
    p = scale.back(S @ y)
    return Finite(p, risk_of(seen, settled), math.ldexp(radius, -scale.exponent))


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
