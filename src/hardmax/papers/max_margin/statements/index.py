"""The index theorem of attention: stationary points and directions at infinity balance (B-NEW-4)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import hardmax as hm
from hardmax.directions.critical import LIMIT, CriticalDirections, critical_directions
from hardmax.limits.field import DescentField, degree
from hardmax.limits.stationary import stationary_points
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import decreasing_loss, fixed_scores, late_radius

DIGITS = 1e-3  # largest rounding error of a logit on the late sphere
PROOF = "infinity in fractions; the degree beyond a radius that bounds every stationary point"
MISSING = "a stationary point is missing"


def empty_beyond(problem: hm.Problem, found: CriticalDirections) -> float:
    """A radius beyond which there is no stationary point, from the gaps at infinity.

    Every direction is a positive combination of at most r corners, so one of them has a share of 1/r or more,
    and rows within gap/r of the least margin count together at that corner. There they are independent, with
    the least singular value |longest row| / spread; the others are smaller by exp(-R gap/r).
    """
    share = found.gap / found.dimension
    return late_radius(problem, share) + math.log(found.spread) / share


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
def index_theorem(problem: hm.Problem, *, limit: int = LIMIT) -> Outcome:
    """Infinity in fractions, against the degree of the gradient on a late circle or sphere.

    On the line and in the plane finite stationary points are listed too, for Morse's inequality.
    """
    hypotheses = need(fixed_scores(problem))
    found = critical_directions(problem, limit=limit)
    whole = found.status == "complete" or None
    rows = found.degenerate[0] if found.degenerate else "independent, no multiplier is zero"
    hypotheses.need(
        decreasing_loss(problem),
        Hypothesis("nondegenerate at infinity", False if found.degenerate else whole, rows),
    )
    field, radius = DescentField(problem), empty_beyond(problem, found)
    reached = radius * field.unit * np.finfo(float).eps <= DIGITS and field.d == found.dimension
    hypotheses.need(
        Hypothesis("at most 3 dimensions", found.dimension <= 3 or None, found.dimension),
        Hypothesis("a late sphere in reach", reached or None, radius),
    )
    turns = {degree(field, R, found.corners) for R in (radius, 2 * radius)}
    asked = 1 - found.sum  # of (-1)^index of the finite stationary points
    at_infinity = [each.index for each in found.directions]
    measured = {
        "indices at infinity": at_infinity,
        "sum at infinity": found.sum,
        "radius": radius,
        "degree of the gradient": sorted(turns, key=str),
        "1 - sum at infinity": asked,
    }
    if len(turns) > 1 or None in turns:
        return Outcome(hypotheses, None, measured)
    (turn,) = turns
    if turn != asked:
        # turns below a right angle, with logits good to 1e-3, cannot be miscounted; triangles in space could
        proof = PROOF if found.dimension <= 2 else None
        return Outcome(hypotheses, -1.0, measured, witness=[turn, at_infinity], proof=proof)
    slack: float | None = 1.0
    if found.dimension <= 2:
        points = stationary_points(field, radius, found.corners, turn)
        finite = [each.index for each in points if each.index is not None]
        measured["finite stationary points"] = [each.p for each in points]
        measured["their indices"] = [each.index for each in points]
        if len(finite) == len(points):
            *quotient, rest = morse_quotient([*finite, *at_infinity])
            measured["Q"] = quotient if rest == 0 and min(quotient, default=0) >= 0 else MISSING
            slack = None if measured["Q"] == MISSING else 1.0
    return Outcome(hypotheses, slack, measured)
