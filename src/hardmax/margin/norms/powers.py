"""The norms l_r of the entries of a vector, and how problems in 1 < r < inf are solved.

Newton's method, a weighted l2 problem per step: minimize sum_k |p_k|^r / r over the rows. With
g = sum_j l_j row_j, optimality is p = sign(g)|g|^(1/(r-1)).
With H = (r-1)|p|^(r-2), the quadratic model at p is the problem of the shortest sqrt(H)(x - a), where
a = p (r-2)/(r-1), over the same rows: an active-set solver takes it, and gives multipliers too. The model is
the same whether p or g is given; for r > 2 the step is taken in p and for r < 2 in the multipliers, where
nothing is infinite at an entry that tends to zero. Far from r = 2 the powers between come first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax._lib.expect import _short
from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.engines import by_daqp, by_nnls, polish
from hardmax.margin.measure import EPS, Tight, rounding
from hardmax.margin.mirrors import PowerMap
from hardmax.margin.norms.solving import Pair, enclose_by, scored, solve_by
from hardmax.margin.rationals import integer_rows
from hardmax.margin.registry import Norm
from hardmax.margin.solution import MaxMargin

MOST = 1e300  # a power; beyond it the solver's steps vanish in rounding
STEEPEST = 3e3  # slope up to which a flow follows a power; ten times as much stops it where it slides


@dataclass(frozen=True)
class Power(Norm):
    """l_r of the entries of p, 1 <= r <= inf; its subclasses solve problems."""

    r: float

    ignores_zeros: ClassVar[bool] = True

    @property
    def power(self) -> float:
        """The power r of l_r."""
        return self.r

    @property
    def name(self) -> str:
        """Its name, from which `norm` makes it again."""
        return "linf" if math.isinf(self.r) else f"l{self.r!r}".removesuffix(".0")

    @property
    def dual(self) -> Power:
        """l_q with 1/r + 1/q = 1."""
        if self.r == 1 or math.isinf(self.r):
            return type(self)(math.inf if self.r == 1 else 1.0)
        return type(self)(self.r / (self.r - 1))

    def value(self, p: ArrayLike) -> float:
        """N(p), without over- or underflow on the way; off by at most a relative `rounding`."""
        return float(lengths(np.ravel(np.asarray(p, dtype=np.float64)), self.r))

    def of_rows(self, rows: Floats) -> Floats:
        """N of every row."""
        return np.asarray(lengths(np.asarray(rows, dtype=np.float64), self.r))

    def rounding(self, terms: int) -> float:
        """Relative error bound of `value` with this many numbers: sums and maxima, or powers and roots."""
        return (1 if self.is_polyhedral else 8) * (terms + 1) * EPS

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """A number c with N(p) <= c |p|, |p| in l2."""
        return float(math.prod(shape) ** max(0.0, 1 / self.r - 0.5))

    def step(self, g: ArrayLike) -> Floats:
        """The steepest step: the d with N(d) = 1 that makes g.d largest; zero if g is.

        Among several it is the one that moves the first of the largest entries only (l1), or that leaves
        alone the entries where g is zero (linf).
        """
        slope = np.asarray(g, dtype=np.float64)
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(slope)
        return along((slope / largest).ravel(), self.r).reshape(slope.shape)

    def speed(self, F: Floats, parts: Callable[[], Floats] | None = None) -> tuple[Floats, Floats]:
        """|F|_q^(2-q) sign(F) |F|^(q-1), the gradient of |F|_q^2/2, and its derivative.

        For r > 2 its slope is infinite where F_k crosses zero. There |F_k|^(q-1) is rounded off: F_k within a
        ``near`` of the parts it is summed from has a slope of about 3e3.
        """
        q, size = self.r / (self.r - 1.0), float(np.abs(F).max(initial=0.0))
        if not 0.0 < size < math.inf:
            return np.full(len(F), math.nan if size else 0.0), np.zeros((len(F), len(F)))
        f = F / size
        S = float((np.abs(f) ** q).sum())
        scale = size * S ** ((2.0 - q) / q)
        if q >= 2.0 or parts is None:
            unit, slope = np.sign(f) * np.abs(f) ** (q - 1.0), (q - 1.0) * np.abs(f) ** (q - 2.0)
        else:
            with np.errstate(over="ignore"):  # at a trial point next to no force may be left
                near = np.clip(STEEPEST ** (-1.0 / (2.0 - q)) * parts() / size, 1e-150, 1.0)
            square = f * f + near * near
            bent = square ** ((q - 2.0) / 2.0)
            unit, slope = f * bent, bent * ((q - 1.0) * f * f + near * near) / square
        # of |f|_q^(2-q) unit: the derivative of the unit, and that of its length
        grown = (2.0 - q) / S * np.outer(unit, np.sign(F) * np.abs(f) ** (q - 1.0))
        return scale * unit, (np.diag(slope) + grown) * (scale / size)


def along(slope: Floats, r: float) -> Floats:
    """The steepest step for a slope whose largest entry is 1."""
    if r == 1:
        first = int(np.argmax(np.abs(slope)))
        step = np.zeros_like(slope)
        step[first] = np.sign(slope[first])
        return step
    if math.isinf(r):
        return np.sign(slope)
    step = np.sign(slope) * np.abs(slope) ** (r / (r - 1) - 1)
    return np.asarray(step / lengths(step, r))


def lengths(x: NDArray[Any], r: float) -> Any:
    """l_r along the last axis."""
    sizes = np.abs(x)
    top = sizes.max(axis=-1, initial=0.0)
    if math.isinf(r):
        return top
    if r == 1:
        return sizes.sum(axis=-1)
    unit = np.where(top > 0, top, 1.0)
    return unit * np.sum((sizes / unit[..., None]) ** r, axis=-1) ** (1 / r)


def read_power(name: Any) -> float | None:
    """The power in "l1.5" or "1.5", or the number itself; None if it is neither."""
    power = _number(name)
    if power is None:
        return None
    if power <= 1:
        raise ValueError(
            f'norm must be a power above 1, got {name!r}; "l1" is the least power that gives a norm'
        )
    if power > MOST:
        raise ValueError(
            f'norm must be a power of at most {MOST:g}, got {_short(name)}; write "linf" instead'
        )
    return power


def _number(name: Any) -> float | None:
    if isinstance(name, str):
        text = name.removeprefix("l")
        return float(text) if re.fullmatch(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", text) else None
    if isinstance(name, bool | np.bool_) or not isinstance(name, int | float | np.integer | np.floating):
        return None
    if isinstance(name, int):
        return float(min(max(name, -1), 10**300))  # a number above float64 is above every power allowed
    return None if math.isnan(name) else float(name)


STEPS = 60  # Newton steps for one power
CONDITION = 1e-14  # ratio of the least to the largest slope that a model may have
TINY = 1e-6  # an entry of p, relative to the largest, that may be zero
LARGE = 600.0  # logarithms of multipliers go so far
GOOD = 1e-14  # relative width at which to stop,
AFTER = 3  # and for how many steps more: it is the square of the error of p
DENOMINATOR = 10_000  # of fractions that a float is taken for, where they can then be proved right
MOST_POWER = 16  # numerator and denominator of r - 1 up to which powers of fractions are compared


class Smooth(Power):
    """l_r with 1 < r < inf, r not 2: its ball is round."""

    @property
    def mirror(self) -> PowerMap:
        """The map of |p|_r^r/r."""
        return PowerMap(self.r)

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """By Newton's method from the l2 solution."""
        return solve_by(
            self,
            constraints,
            lambda scaled, start: newton(scaled.A, scaled.h, scaled.equal, self.r, *start)[:2],
            exact,
        )

    def enclose(self, best: MaxMargin) -> Tight:
        """By how round the ball is; the remaining doubts by fractions, where p consists of them."""
        c = best.constraints
        plain = best.p is not None and best.p_norm > 0 and not c.equal.any() and bool((c.h > 0).all())
        tight = enclose_by(best, _near(best, self) if plain else None)
        if not plain or not tight.doubtful.any():
            return tight
        exact = _rational(best, self)
        return tight if exact is None else Tight(exact, exact)


def newton(A: Floats, h: Floats, equal: Bools, power: float, p: Floats, weights: Floats) -> Pair:
    """Find p and multipliers for l_r from those for l2, multipliers scaled to N*(A'l) = N(p)."""
    stages = max(1, math.ceil(abs(math.log2(power - 1)) / 1.5))
    best = scored(A, h, equal, Smooth(power), p, weights, p.shape)
    for stage in range(1, stages + 1):
        r = 1 + (power - 1) ** (stage / stages)
        end = _stage(A, h, equal, r if stage < stages else power, p, weights)
        p, weights = end.p, end.weights
    best = end if end.width < best.width else best
    # For r > 2 an entry that tends to zero gets there by a factor per step only.
    small = np.abs(best.p) < TINY * np.abs(best.p).max()
    flat = scored(A, h, equal, Smooth(power), np.where(small, 0.0, best.p), best.weights, p.shape)
    return flat if flat.width <= max(best.width, GOOD) else best


def _stage(A: Floats, h: Floats, equal: Bools, r: float, p: Floats, weights: Floats) -> Pair:
    best = scored(A, h, equal, Smooth(r), p, weights, p.shape)
    idle = settled = 0
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            # the multipliers scaled to the best of their ray
            g = A.T @ weights
            top = np.abs(g).max()
            scaled = weights / top
            weights = scaled * _raised(
                float(h @ scaled) / float(np.sum(np.abs(g / top) ** (r / (r - 1)))), r - 1
            )
            x, target = _model(A, h, equal, r, p if r > 2 else _point(A, r, weights), weights)
            if r > 2:
                p, weights = _towards(lambda q: _energy(q, r), p, x), target
            else:
                weights = _towards(lambda w: _energy(A.T @ w, r / (r - 1)) - float(h @ w), weights, target)
                p = _point(A, r, weights)
            pairs = [scored(A, h, equal, Smooth(r), q, weights, p.shape) for q in (p, x)]
            pair = min(pairs, key=lambda pair: max(pair.width, GOOD))
            idle = 0 if pair.width < 0.9 * best.width else idle + 1
            best = min(pair, best, key=lambda pair: max(pair.width, GOOD))
            settled += best.width < GOOD
            if settled == AFTER or idle == 8:
                break
    return best


def _model(A: Floats, h: Floats, equal: Bools, r: float, p: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The best x of the quadratic model at p, and its multipliers; both as they were if no solver has it."""
    sizes = np.abs(p) / np.abs(p).max()
    unit = _raised(np.abs(p).max(), r - 2) * (r - 1)  # H is taken relative to this, and so are multipliers
    slope = sizes ** (r - 2)
    low, high = (CONDITION * slope.max(), None) if r > 2 else (None, slope.min() / CONDITION)
    slope = np.clip(slope, low, high)
    centre, scale = p * ((r - 2) / (r - 1)), 1 / np.sqrt(slope)
    rows, bounds = A * scale, h - A @ centre
    if not (np.isfinite(rows).all() and np.isfinite(bounds).all()):
        return p, weights
    for engine in (by_daqp, by_nnls):
        guess = engine(rows, bounds, equal)
        if guess is None or guess.contradiction:
            continue
        if (polished := polish(rows, bounds, equal, guess.multipliers)) is not None:
            return centre + scale * polished[0], polished[1] * unit
    return p, weights


def _towards(energy: Callable[[Floats], float], start: Floats, end: Floats) -> Floats:
    """The first of the points at 1, 1/2, 1/4, ... of the way at which a convex energy is not larger."""
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


def _raised(x: float, power: float) -> float:
    """x^power, within the range of floats: beyond it only the ratios of multipliers count."""
    return math.exp(min(max(power * math.log(x), -LARGE), LARGE)) if x > 0 else 0.0


def _rational(best: MaxMargin, ball: Smooth) -> np.ndarray | None:
    """The tight rows, exactly, where p and its multipliers are small fractions up to a factor; else None.

    With r - 1 = a/b and g = sum_j l_j row_j, p is optimal if it has the signs of g, if |p_k|^a is
    proportional to |g_k|^b, and if the rows with a multiplier are those that p meets by least.
    """
    slope = Fraction(ball.r) - 1
    if max(slope.numerator, slope.denominator) > MOST_POWER or best.p is None or best.multipliers is None:
        return None
    rows, _, _ = integer_rows(best.constraints)
    p, weights = (
        [Fraction(float(x)).limit_denominator(DENOMINATOR) for x in values / np.abs(values).max()]
        for values in (best.p.ravel(), best.multipliers)
    )
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
        off = 2 * loss ** (1 / r) if r >= 2 else 2 * math.sqrt(loss / (r - 1))
        rows = c.rows()
        lengths = ball.dual.of_rows(rows) * (1 + ball.dual.rounding(len(p)))
        reach = rows @ (p / ball.value(p)) - lengths * (off + 2 * rounding(len(p)) + ball.rounding(len(p)))
        loose: np.ndarray = reach > c.h * upper
    return ~loose
