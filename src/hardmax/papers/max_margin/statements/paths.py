"""Theorem 1, its first-order correction (B-NEW-2), late descent (B-NEW-3), and infinity (B-NEW-4).

Late normalized descent is gradient descent on a convex function, with a stability threshold. By the index
theorem of attention, stationary points and directions at infinity balance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.directions.critical import LIMIT, CriticalDirections, critical_directions
from hardmax.limits.stationary import DescentField, degree, stationary_points
from hardmax.papers.checking import common
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.papers.max_margin.statements.lemmas import best_direction
from hardmax.papers.max_margin.statements.local import local_hypotheses
from hardmax.problem import Problem

FLOOR = 1e-9  # radians: what a path of doubles resolves
FARTHEST = 1e5  # margins: ten times as far is what a path can be followed to


def path_bound(problem: Problem, best: hm.MaxMargin, R: float) -> float:
    """Return the bound c/(R margin) of Theorem 1 on 1 - cos(p(R), p_mm), for every R beyond c/margin.

    c is the log of n T (T - 1) times the ratios of score gaps and of slopes.
    A p of least lead m over the other tokens, m >= 0, loses at least e^-m/T attention in some input, which
    costs n times less than that times the least slope and gap; p_mm at radius R loses at most (T - 1)
    e^(-R margin). So the best p has m >= R margin - c, and p.p_mm >= m |p_mm|^2 because p/m is feasible.
    """
    T = int(problem.sizes.max())
    c = math.log(problem.n * T * max(T - 1, 1)) + common.log_spread(problem)
    return c / (R * best.margin)


@statement(
    "B-THM-1",
    "Theorem 1: the global regularization path",
    "With a decreasing loss, one best token per input and the best tokens separable, p(R)/R tends to "
    "p_mm/|p_mm|; explicitly, 1 - cos <= log(n T (T-1) ratio of score gaps, ratio of slopes)/(R margin).",
    kind="limit",
    errata=("B-ERR-01", "B-ERR-07"),
)
def global_path(problem: Problem) -> Outcome:
    """The angle when it is late and at ten times that radius: within the explicit bound, and halved."""
    separable, best = common.separable_best(problem)
    hypotheses = (common.decreasing_loss(problem), common.strict_best(problem), separable)
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if best is None or best.direction is None:
        if separable.holds is not False:
            return unsaid(hypotheses)
        farkas = "Farkas vector: no p separates the best tokens, so there is no p_mm to tend to"
        return Outcome(hypotheses, paper_slack=(-1.0, farkas))
    late = common.late_for(problem, best)
    within = path_bound(problem, best, late)
    measured: dict[str, Any] = {"late from": late, "explicit bound on 1 - cos there": within}
    slack, inside = None, math.inf
    for radius in common.later(late, FARTHEST / best.margin):
        path = hm.limits.regularization_path(problem, [radius, 10 * radius])
        if not path.is_reliable.all() or path.interior.any():
            break
        near, nearer = path.angle(best).tolist()
        measured |= {"radii": path.radii, "angles in degrees": np.degrees([near, nearer])}
        bounds = [path_bound(problem, best, R) for R in path.radii.tolist()]
        inside = min(inside, *(1 - path.cosine_distances(best) / bounds).tolist())  # claimed of every radius
        # half of the angle may be left: the law is 1/R, or (log R)/R where a tight row has no multiplier
        slack = min(inside, 1 - nearer / max(0.5 * near, FLOOR))
        if slack >= 0 or inside < 0:
            break
    return Outcome(hypotheses, slack, measured, paper_slack=slack)


@statement(
    "B-NEW-2",
    "First-order correction of the path",
    "If the support rows are independent with positive multipliers, p(R) = R p_mm/|p_mm| + w + O(1/R) with "
    "the explicit w of the bordered system.",
    kind="limit",
    label="derived",
)
def first_order_path(problem: Problem) -> Outcome:
    """The residual when it is late and at ten times that radius: it must fall like 1/R.

    Where terms in 1/R^2 still weigh, as where a row is ten times as long as p_mm asks, it is looked at again
    ten times as far out.
    """
    hypotheses, best, along = best_direction(
        problem, common.decreasing_loss(problem), common.strict_best(problem)
    )
    independent = "independent support, positive multipliers"
    try:
        w = hm.limits.path_offset(problem, best)
    except ValueError as reason:
        return Outcome((*hypotheses, Hypothesis(independent, False, str(reason))))
    hypotheses.append(Hypothesis(independent, True, len(best.support)))
    late = common.late_for(problem, best)
    slack, measured = None, {"late from": late, "|w|": float(np.linalg.norm(w)), "w": w}
    rounding = 1e-9 * 10 * late
    for radius in common.later(late, FARTHEST / best.margin):
        path = hm.limits.regularization_path(problem, [radius, 10 * radius])
        if not path.is_reliable.all():
            break
        pairs = zip(path.points, path.radii, strict=True)
        near, nearer = (float(np.linalg.norm(p - (float(R) * along + w))) for p, R in pairs)
        measured |= {"radii": path.radii, "residuals": [near, nearer]}
        slack = 1 - nearer / max(0.3 * near, rounding)
        if slack >= 0:
            break
    return Outcome(hypotheses, slack, measured)


NEAR = 0.03  # how far below and above the threshold the step is taken
STEPS = 6000
RATIO = 0.01  # measured against predicted 1 - cos
OFF = 0.01  # of |p_mm|: how far from the residual a run starts
RESOLVED = 1e-8  # of |p| at the end: swings of the size of a step, or of OFF |p_mm|, are resolved
ROUNDING = 1e-26  # of 1 - cos: where w is zero that is all there is to see


@statement(
    "B-NEW-3",
    "The late residual and its stability threshold",
    "Late normalized descent settles at the residual w of B-NEW-2 plus a frozen part if its step is below "
    "eta_c = 2/(|p_mm| lambda_max), and not above it, where it swings with period 2 at first.",
    kind="limit",
    label="derived",
)
def late_descent(problem: Problem, *, selection: Iterable[int] | None = None) -> Outcome:
    """Two descents that start far out near p_mm, with a step 3 % below the threshold and 3 % above it."""
    hypotheses, tokens = common.one_selection(problem, selection)
    best = hm.max_margin(problem, tokens)
    hypotheses.need(*local_hypotheses(problem, best))
    late = hm.limits.late_residual(problem, best)
    hypotheses.need(Hypothesis("the residual has a limit", late.w is not None, late.status))
    assert late.w is not None
    eta = late.eta_c
    hypotheses.need(Hypothesis("several support rows", math.isfinite(eta), len(late.curvatures) + 1))
    # the residual is reached from a point off it along every direction in which it can move
    radius = max(100 * best.p_norm, common.late_for(problem, best))
    off = OFF * best.p_norm
    start = radius * common.along(best) + late.w + off * late.span.sum(axis=1)
    size = min(eta, off) / (float(np.linalg.norm(start)) + STEPS * eta)
    hypotheses.need(Hypothesis("a swing can be seen beside |p|", size >= RESOLVED or None, size))
    end = range(STEPS - 10, STEPS + 1)
    below, above = (
        late.compare(
            hm.train(problem, hm.optim.Normalized(factor * eta), steps=STEPS, start=start, record=end)
        )
        for factor in (1 - NEAR, 1 + NEAR)
    )
    settled = 1 - abs(below.measured - below.predicted) / max(RATIO * below.predicted, ROUNDING)
    measured: dict[str, Any] = {"eta_c": eta}
    for name, run in (("below", below), ("above", above)):
        measured |= {f"{name}: measured over predicted": run.ratio, f"{name}: swing": run.swing}
    measured["|w|"] = float(np.linalg.norm(late.w))
    return Outcome(hypotheses, settled if above.swing > 0 and below.swing == 0 else -1.0, measured)


DIGITS = 1e-3  # largest rounding error of a logit on the late sphere
PROOF = "infinity in fractions; the degree beyond a radius that bounds every stationary point"
MISSING = "a stationary point is missing"


def empty_beyond(problem: Problem, infinity: CriticalDirections) -> float:
    """A radius beyond which there is no stationary point, from the gaps at infinity.

    Every direction is a positive combination of at most r corners, so one of them has a share of 1/r or more,
    and rows within gap/r of the least margin count together at that corner. There they are independent, with
    the least singular value |longest row| / spread; the others are smaller by exp(-R gap/r).
    """
    share = infinity.gap / infinity.dimension
    return common.late_radius(problem, share) + math.log(infinity.spread) / share


def morse_quotient(indices: Iterable[int]) -> list[int]:
    """Coefficients of Q in sum x^index = 1 + (1 + x) Q(x), lowest first, then the remainder."""
    counts = np.bincount(list(indices), minlength=1)
    counts[0] -= 1
    quotient: list[int] = []
    for count in counts.tolist():
        quotient.append(int(count) - (quotient[-1] if quotient else 0))
    return quotient


@statement(
    "B-NEW-4",
    "The index theorem of attention",
    "(-1)^index of the finite stationary points and (-1)^(m_-) of the critical directions at infinity sum to "
    "1; the sum of x^index and x^(m_-) is 1 + (1 + x) Q(x), and no coefficient of Q is negative.",
    label="derived",
)
def index_theorem(problem: Problem, *, limit: int = LIMIT) -> Outcome:
    """Infinity in fractions, against the degree of the gradient on a late circle or sphere.

    On the line and in the plane finite stationary points are listed too, for Morse's inequality.
    """
    hypotheses = need(common.fixed_scores(problem))
    infinity = critical_directions(problem, limit=limit)
    whole = infinity.status == "complete" or None
    rows = infinity.degenerate[0] if infinity.degenerate else "independent, no multiplier is zero"
    hypotheses.need(
        common.decreasing_loss(problem),
        Hypothesis("nondegenerate at infinity", False if infinity.degenerate else whole, rows),
    )
    field, radius = DescentField(problem), empty_beyond(problem, infinity)
    reached = radius * field.unit * np.finfo(float).eps <= DIGITS and field.d == infinity.dimension
    hypotheses.need(
        Hypothesis("at most 3 dimensions", infinity.dimension <= 3 or None, infinity.dimension),
        Hypothesis("a late sphere in reach", reached or None, radius),
    )
    turns = {degree(field, R, infinity.corners) for R in (radius, 2 * radius)}
    total = 1 - infinity.sum  # of (-1)^index of the finite stationary points
    at_infinity = [direction.index for direction in infinity.directions]
    measured = {
        "indices at infinity": at_infinity,
        "sum at infinity": infinity.sum,
        "radius": radius,
        "degree of the gradient": sorted(turns, key=str),
        "1 - sum at infinity": total,
    }
    if len(turns) > 1 or None in turns:
        return Outcome(hypotheses, None, measured)
    (turn,) = turns
    if turn != total:
        # turns below a right angle, with logits good to 1e-3, cannot be miscounted; triangles in space could
        proof = PROOF if infinity.dimension <= 2 else None
        return Outcome(hypotheses, -1.0, measured, witness=[turn, at_infinity], proof=proof)
    slack: float | None = 1.0
    if infinity.dimension <= 2:
        points = stationary_points(field, radius, infinity.corners, turn)
        finite = [point.index for point in points if point.index is not None]
        measured["finite stationary points"] = [point.p for point in points]
        measured["their indices"] = [point.index for point in points]
        if len(finite) == len(points):
            *quotient, rest = morse_quotient([*finite, *at_infinity])
            measured["Q"] = quotient if rest == 0 and min(quotient, default=0) >= 0 else MISSING
            slack = None if measured["Q"] == MISSING else 1.0
    return Outcome(hypotheses, slack, measured)
