"""The norms l_r, 1 < r < inf: Newton's method, a weighted l2 problem per step (D-ALG-1).

Minimise sum_k |p_k|^r / r over the rows. With g = sum_j l_j row_j, optimality is p = sign(g)|g|^(1/(r-1)).
With H = (r-1)|p|^(r-2), the quadratic model at p is the problem of the shortest sqrt(H)(x - a), where
a = p (r-2)/(r-1), over the same rows: an active-set solver takes it, and gives multipliers too. The model is
the same whether p or g is given; for r > 2 the step is taken in p and for r < 2 in the multipliers, where
nothing is infinite at an entry that tends to zero. Far from r = 2 the powers between come first.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.engines import by_daqp, by_nnls, polish
from hardmax.margin.measure import EPS, Tight, rounding
from hardmax.margin.norms.definition import Power
from hardmax.margin.norms.pair import Pair, scored
from hardmax.margin.norms.solving import enclose_by, solve_by
from hardmax.margin.rationals import integer_rows
from hardmax.margin.solution import MaxMargin

STEPS = 60  # Newton steps for one power
CONDITION = 1e-14  # ratio of the least to the largest slope that a model may have
TINY = 1e-6  # an entry of p, relative to the largest, that may stand for zero
LARGE = 600.0  # logarithms of multipliers go so far
GOOD = 1e-14  # relative width at which to stop,
AFTER = 3  # and for how many steps more: it is the square of the error of p
DENOMINATOR = 10_000  # of fractions that a float is taken for, where they can then be proved right
MOST_POWER = 16  # numerator and denominator of r - 1 up to which powers of fractions are compared


class Smooth(Power):
    """l_r with 1 < r < inf, r not 2: its ball is round.

    >>> Smooth(3.0).solve(Constraints.dense([[2.0, 0.0]])).margin
    2.0
    """

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """By Newton's method from the l2 solution."""
        return solve_by(
            self,
            constraints,
            lambda scaled, start: newton(scaled.A, scaled.h, scaled.equal, self.r, *start)[:2],
            exact,
        )

    def enclose(self, best: MaxMargin) -> Tight:
        """By how round the ball is; what stays in doubt by fractions, where the solution is made of such."""
        c = best.constraints
        asks = best.p is not None and best.p_norm > 0 and not c.equal.any() and bool((c.h > 0).all())
        found = enclose_by(best, _near(best, self) if asks else None)
        if not asks or not found.doubtful.any():
            return found
        exactly = _rational(best, self)
        return found if exactly is None else Tight(exactly, exactly)


def newton(A: Floats, h: Floats, equal: Bools, power: float, p: Floats, weights: Floats) -> Pair:
    """p and multipliers for l_r from those for l2, multipliers scaled to N*(A'l) = N(p).

    >>> rows, one = np.array([[2.0, 1.0]]), np.ones(1)
    >>> found = newton(rows, one, one < 0, 3.0, np.array([0.4, 0.2]), np.array([0.2]))
    >>> (found.p**2 / found.p[1] ** 2).round(12).tolist(), found.width < 1e-12
    ([2.0, 1.0], True)
    """
    stages = max(1, math.ceil(abs(math.log2(power - 1)) / 1.5))
    best = _scored(A, h, equal, power, p, weights)
    for stage in range(1, stages + 1):
        r = 1 + (power - 1) ** (stage / stages)
        found = _stage(A, h, equal, r if stage < stages else power, p, weights)
        p, weights = found.p, found.weights
    best = found if found.width < best.width else best
    # For r > 2 an entry that tends to zero gets there by a factor per step only.
    small = np.abs(best.p) < TINY * np.abs(best.p).max()
    flat = _scored(A, h, equal, power, np.where(small, 0.0, best.p), best.weights)
    return flat if flat.width <= max(best.width, GOOD) else best


def _stage(A: Floats, h: Floats, equal: Bools, r: float, p: Floats, weights: Floats) -> Pair:
    best = _scored(A, h, equal, r, p, weights)
    idle = settled = 0
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            weights = _on_ray(A, h, r, weights)
            x, target = _model(A, h, equal, r, p if r > 2 else _point(A, r, weights), weights)
            if r > 2:
                p, weights = _towards(lambda q: _energy(q, r), p, x), target
            else:
                weights = _towards(lambda w: _energy(A.T @ w, r / (r - 1)) - h @ w, weights, target)
                p = _point(A, r, weights)
            tried = [_scored(A, h, equal, r, q, weights) for q in (p, x)]
            found = min(tried, key=lambda pair: max(pair.width, GOOD))
            idle = 0 if found.width < 0.9 * best.width else idle + 1
            best = min(found, best, key=lambda pair: max(pair.width, GOOD))
            settled += best.width < GOOD
            if settled == AFTER or idle == 8:
                break
    return best


def _model(A: Floats, h: Floats, equal: Bools, r: float, p: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The best x of the quadratic model at p, and its multipliers; both as they were if no solver has it."""
    sizes = np.abs(p) / np.abs(p).max()
    unit = _raised(np.abs(p).max(), r - 2) * (r - 1)  # H is taken relative to this, and so are multipliers
    slope = sizes ** (r - 2)
    slope = (
        np.maximum(slope, CONDITION * slope.max()) if r > 2 else np.minimum(slope, slope.min() / CONDITION)
    )
    centre, scale = p * ((r - 2) / (r - 1)), 1 / np.sqrt(slope)
    rows, bounds = A * scale, h - A @ centre
    if not (np.isfinite(rows).all() and np.isfinite(bounds).all()):
        return p, weights
    for engine in (by_daqp, by_nnls):
        guess = engine(rows, bounds, equal)
        polished = (
            None if guess is None or guess.contradiction else polish(rows, bounds, equal, guess.multipliers)
        )
        if polished is not None:
            return centre + scale * polished[0], polished[1] * unit
    return p, weights


def _towards(energy: object, start: Floats, end: Floats) -> Floats:
    """The first of the points at 1, 1/2, 1/4, ... of the way at which a convex energy is not larger."""
    assert callable(energy)
    before, share = energy(start), 1.0
    for _ in range(40):
        point = start + share * (end - start)
        if energy(point) <= before:
            return point
        share /= 2
    return start


def _energy(x: Floats, power: float) -> float:
    return float(np.sum(np.abs(x) ** power)) / power


def _point(A: Floats, r: float, weights: Floats) -> Floats:
    g = A.T @ weights
    point: Floats = np.sign(g) * np.abs(g) ** (1 / (r - 1))
    return point


def _on_ray(A: Floats, h: Floats, r: float, weights: Floats) -> Floats:
    """The multipliers scaled to the best of their ray."""
    q = r / (r - 1)
    g = A.T @ weights
    top = np.abs(g).max()
    scaled = weights / top
    return scaled * _raised(float(h @ scaled) / float(np.sum(np.abs(g / top) ** q)), r - 1)


def _raised(x: float, power: float) -> float:
    """x^power, within the range of floats: beyond it only the ratios of multipliers count."""
    return math.exp(min(max(power * math.log(x), -LARGE), LARGE)) if x > 0 else 0.0


def _scored(A: Floats, h: Floats, equal: Bools, r: float, p: Floats, weights: Floats) -> Pair:
    return scored(A, h, equal, Smooth(r), p, weights, p.shape)


def _rational(best: MaxMargin, ball: Smooth) -> np.ndarray | None:
    """The tight rows, exactly, where p and its multipliers are small fractions up to a factor; else None.

    With r - 1 = a/b and g = sum_j l_j row_j, p is optimal if it has the signs of g, if |p_k|^a is
    proportional to |g_k|^b, and if the rows with a multiplier are those that p meets by least.
    """
    slope = Fraction(ball.r) - 1
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


def _near(best: MaxMargin, ball: Smooth) -> np.ndarray:
    """Rows that the true optimum may meet with equality, by the uniform convexity of l_r.

    For unit x, y whose mean is no shorter than s: |x - y|^r <= 2^r (1 - s^r) if r >= 2 (Clarkson), and
    |x - y|^2 <= 4 (1 - s^2)/(r - 1) if r < 2 (Ball, Carlen and Lieb). Here s is the ratio of the bounds.
    """
    c, r, p = best.constraints, ball.r, np.asarray(best.p).ravel()
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
