"""Which rows are tight at the optimum, or on all of several optima: what local optimality asks (D-DEF-5)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hardmax.margin.constraints import Floats
from hardmax.margin.measure import EPS, Tight, rounding
from hardmax.margin.norms.definition import Norm, norm
from hardmax.margin.norms.in_norm import solve_in
from hardmax.margin.rationals import integer_rows
from hardmax.margin.solution import MaxMargin

DENOMINATOR = 10_000  # of fractions that a float is taken for, where they can then be proved right
MOST_POWER = 16  # numerator and denominator of r - 1 up to which powers of fractions are compared


def enclose_in(best: MaxMargin) -> Tight:
    """Which rows are tight at every optimal p, and which may be at some: what decides local optimality.

    On a face rows are tight on all of it or on a part. In l_r the optimum is near p, by as much as the ball
    is round, so that rows with more slack are not tight. In the nuclear and the spectral norm a row is tight
    nowhere if the margin is smaller with this row as an equality. A row without which the margin is larger is
    tight everywhere.

    >>> rows = Constraints.dense([[1.0, 0.0], [1.0, 2.0]])
    >>> enclose_in(solve_in(rows, "l3")).doubtful.tolist()
    [False, False]
    """
    c, ball = best.constraints, norm(best.norm)
    none = np.zeros(c.count, dtype=bool)
    if best.face is not None:
        return Tight(best.face.essential, best.face.essential | best.face.sometimes)
    if best.p_norm == 0 or best.p is None:
        return Tight(none, ~none if math.isnan(best.p_norm) else none)
    if c.equal.any() or not (c.h > 0).all() or ball.is_polyhedral:
        return Tight(c.equal, ~none)
    near = _near(best, ball) if ball.strictly_convex else ~none
    tight, slack = none.copy(), np.asarray(best.slack) / c.h
    shares = np.asarray(best.multipliers) * c.h  # of N(p)^2, which is their sum
    shares = shares / shares.sum()
    for j in np.flatnonzero(near):
        if ball.strictly_convex or shares[j] > slack[j]:
            without = solve_in(c.subset(np.delete(np.arange(c.count), j)), ball)
            tight[j] = without.margin_interval[0] > best.margin_interval[1]
        if not (ball.strictly_convex or tight[j]):
            tied = solve_in(replace(c, equal=np.arange(c.count) == j), ball)
            near[j] = not tied.margin_interval[1] < best.margin_interval[0]
    if ball.strictly_convex and (near & ~tight).any():
        exactly = _rational(best, ball)
        return Tight(tight, near) if exactly is None else Tight(exactly, exactly)
    return Tight(tight, near)


def _rational(best: MaxMargin, ball: Norm) -> np.ndarray | None:
    """The tight rows, exactly, where p and its multipliers are small fractions up to a factor; else None.

    With r - 1 = a/b and g = sum_j l_j row_j, p is optimal if it has the signs of g, if |p_k|^a is
    proportional to |g_k|^b, and if the rows with a multiplier are those that p meets by least.
    """
    slope = Fraction(ball.power) - 1
    if max(slope.numerator, slope.denominator) > MOST_POWER or best.p is None or best.multipliers is None:
        return None
    rows, _, _ = integer_rows(best.constraints)
    p, weights = _small(best.p.ravel()), _small(best.multipliers)
    every = range(best.constraints.count)
    g = [sum((weights[j] * int(rows[j, k]) for j in every), Fraction(0)) for k in range(len(p))]
    reach = [
        sum((x * int(rows[j, k]) for k, x in enumerate(p)), Fraction(0)) / Fraction(h)
        for j, h in enumerate(best.constraints.h.tolist())
    ]
    tight = [value == min(reach) for value in reach]
    first = max(range(len(p)), key=lambda k: abs(p[k]))
    if g[first] == 0 or min(reach) <= 0 or not all(tight[j] or not weights[j] for j in every):
        return None
    matches = all(
        x * y >= 0 and abs(x / p[first]) ** slope.numerator == abs(y / g[first]) ** slope.denominator
        for x, y in zip(p, g, strict=True)
    )
    return np.array(tight, dtype=bool) if matches and g[first] * p[first] > 0 else None


def _small(values: Floats) -> list[Fraction]:
    """Fractions of small denominators near the values divided by the largest."""
    return [Fraction(float(x)).limit_denominator(DENOMINATOR) for x in values / np.abs(values).max()]


def _near(best: MaxMargin, ball: Norm) -> np.ndarray:
    """Rows that the true optimum may meet with equality, by the uniform convexity of l_r.

    For unit x, y whose mean is no shorter than s: |x - y|^r <= 2^r (1 - s^r) if r >= 2 (Clarkson), and
    |x - y|^2 <= 4 (1 - s^2)/(r - 1) if r < 2 (Ball, Carlen and Lieb). Here s is the ratio of the bounds.
    """
    c, r, p = best.constraints, ball.power, np.asarray(best.p).ravel()
    lower, upper = best.margin_interval
    with np.errstate(all="ignore"):
        share = 16 * len(p) * EPS + (upper - lower) / upper
        loss = -math.expm1(max(r, 2.0) * math.log1p(-min(share, 1 - EPS)))
        apart = 2 * loss ** (1 / r) if r >= 2 else 2 * math.sqrt(loss / (r - 1))
        rows = c.rows()
        lengths = ball.dual.of_rows(rows) * (1 + ball.dual.rounding(len(p)))
        reach = rows @ (p / ball.value(p)) - lengths * (apart + 2 * rounding(len(p)) + ball.rounding(len(p)))
        loose: np.ndarray = reach > c.h * upper
    return ~loose
