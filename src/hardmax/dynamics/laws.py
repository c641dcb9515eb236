"""Laws of a constant rate, and the forecast of an optimizer at its rate that follows for a selection.

The rates at which an optimizer begins to swing, freezes or runs away, and the growth of Adam. Each law is
about the late phase towards the max margin of one selection, in the optimizer's norm. Beyond a threshold the
run is still exact, but it may lose the direction that theory proves for small or falling rates.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.dynamics.optim import Mirror, Optimizer
from hardmax.dynamics.optim.rules import Adaptive, Averaged, Steepest, fraction, need_optimizer
from hardmax.margin.att_svm import max_margin
from hardmax.margin.norms import Norm, norm
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem

CELLS = 256  # in which a growth of Adam is looked for
ZERO = 1e-9  # multipliers and singular values below this share of the largest are zero


def swing_rate(size: float, curvature: float) -> float:
    """The rate above which steps of a late phase overshoot: two over the curvature and the norm of p_mm."""
    return 2.0 / (size * curvature) if curvature else math.inf


@check_arguments
def critical_rate(best: MaxMargin) -> float:
    """Return the constant rate above which normalized steepest descent swings about p_mm (D-THM-5, B-NEW-3).

    Below it p settles. Above it p swings forever; the direction is then still right in l2, in other powers
    it is not. The rate is infinite with one support row, and nan where the law does not apply: support rows
    that depend on each other, a tight row with multiplier zero, or in powers above 2 a p_mm with a zero.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> best = [hm.max_margin(problem, norm=name) for name in ("l1.5", "l2", "l3")]
    >>> [round(hm.limits.critical_rate(each), 6) for each in best]
    [0.251899, 0.301169, 0.213094]
    """
    ball, p = _smooth(best), np.ravel(best.need())
    rows = _support(best)
    if rows is None:
        return math.nan
    D, y = rows
    unit = p / ball.value(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = ball.speed(ball.dual.step(unit))[1] - np.outer(unit, unit)  # of the dual ball, at p_mm
    if not np.isfinite(bend).all():  # in powers above 2, at an entry that is zero
        return math.nan
    weighted = np.sqrt(y)[:, None] * D
    curvature = float(np.linalg.eigvalsh(weighted @ bend @ weighted.T)[-1])
    longest = float(np.linalg.norm(weighted, axis=1).max()) ** 2
    return swing_rate(best.p_norm, curvature if curvature > ZERO * longest else 0.0)


def _smooth(best: MaxMargin) -> Norm:
    ball = norm(best.norm)
    if ball.strictly_convex and not ball.of_matrix:
        return ball
    raise ValueError(
        f"best must be a max margin in l2 or another power, got one in {best.norm}, for whose ball with "
        "corners no such law is known (D-THM-6)"
    )


def _support(best: MaxMargin) -> tuple[np.ndarray, np.ndarray] | None:
    """The tight rows, each once, and their simplex multipliers; None if these may be others, or zero."""
    tight = np.flatnonzero(best.tight)
    D, same = np.unique(best.constraints.rows()[tight], axis=0, return_inverse=True)
    y = np.bincount(same.ravel(), np.asarray(best.multipliers)[tight])
    values = np.linalg.svd(D / np.linalg.norm(D, axis=1)[:, None], compute_uv=False)
    if len(D) > D.shape[1] or values[-1] < ZERO * values[0] or y.min() <= ZERO * y.max():
        return None
    return D, y / y.sum()


@check_arguments
def mirror_onset(best: MaxMargin, rate: float) -> float:
    """Return the step at which normalized mirror descent begins to swing (D-THM-5).

    Below power 2 the steps of p grow with p, so that this comes at any rate; above 2 it never comes.

    >>> import hardmax as hm
    >>> best = hm.max_margin(hm.data.example("B-FIG-8"), norm="l1.75")
    >>> round(hm.limits.mirror_onset(best, rate=0.1)), hm.limits.mirror_onset(best, rate=0.01) > 1e5
    (248, True)
    """
    mirror, excess = _smooth(best).mirror, critical_rate(best) / expect.positive("rate", rate)
    if mirror is None:
        raise ValueError(
            f"best must be a max margin in a norm with a mirror map, got one in {best.norm}, which has none; "
            "choose a power"
        )
    degree = mirror.degree
    if degree > 2 or excess == math.inf:
        return math.inf
    if degree == 2:
        return excess if math.isnan(excess) else math.inf if excess > 1 else 0.0
    return float(np.float64(excess) ** ((degree - 1.0) / (2.0 - degree)) / rate)


@check_arguments
def freezing_rate(best: MaxMargin, beta: float) -> float:
    """Return the constant rate above which momentum may freeze, -log(beta)/margin (D-THM-7).

    Below it freezing is impossible; that the direction is right does not follow.

    >>> import hardmax as hm
    >>> round(hm.limits.freezing_rate(hm.max_margin(hm.data.example("B-FIG-8")), beta=0.9), 6)
    0.333179
    """
    beta = fraction("beta", beta)
    return -math.log(beta) * best.p_norm if beta else math.inf


@check_arguments
def adam_limit(betas: tuple[float, float]) -> float:
    """Return the largest growth of margins in a step of Adam without epsilon: -log(beta2)/2, or -log(beta1).

    >>> import hardmax as hm
    >>> round(hm.limits.adam_limit((0.9, 0.999)), 8)
    0.00050025
    """
    beta1, beta2 = _fractions(betas)
    return min(-math.log(beta1) if beta1 else math.inf, -0.5 * math.log(beta2) if beta2 else math.inf)


def _paced(rate: float, margin: float) -> float:
    pace = expect.positive("rate", rate) * expect.positive("margin", margin)
    if pace > 1e150:
        raise ValueError(f"rate times margin must be at most 1e150, got {pace:g}")
    return pace


@check_arguments
def adam_growth(rate: float, margin: float, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """Return the growth of the margins in a late step of Adam without epsilon (D-THM-9).

    The root x of x = rate margin (1 - beta1)/(1 - beta1 e^x) sqrt((1 - beta2 e^2x)/(1 - beta2)), infinite if
    there is none: Adam runs away (`runaway_rate`). With beta2 a little above beta1^2 there can be three, of
    which this is the least, the one that runs from the origin take. ``margin`` is that in linf.

    >>> import hardmax as hm
    >>> round(hm.limits.adam_growth(0.01, margin=3.0, betas=(0.9, 0.99)), 14)
    0.00490314788243
    """
    pace = _paced(rate, margin)
    beta1, beta2 = _fractions(betas)
    if beta1 == 0.0 == beta2:  # the sign of the gradient
        return pace
    end = adam_limit(betas)
    if beta1**2 >= beta2 and beta1:
        end, most = _fastest(beta1, beta2)
        if pace > most:
            return math.inf
    # At 0 a growth needs less than this pace, at the end it does not; the first crossing counts.
    grid = np.linspace(0.0, end, CELLS + 1)
    k = next((k for k in range(1, CELLS) if _pace(float(grid[k]), beta1, beta2) >= pace), CELLS)
    low, high = float(grid[k - 1]), float(grid[k]) if k < CELLS else end
    return float(brentq(lambda x: pace - _pace(x, beta1, beta2), low, high, xtol=1e-300, rtol=1e-15))


@check_arguments
def adam_waiting(rate: float, margin: float, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """Return the steps after which Adam without epsilon forgets early gradients and turns to linf (D-THM-9).

    Much before, it is gradient descent with a fixed preconditioner. ``margin`` is that in linf.

    >>> import hardmax as hm
    >>> round(hm.limits.adam_waiting(0.1, margin=3.0, betas=(0.9, 0.99)))
    356403
    """
    _, beta2 = _fractions(betas)
    if beta2 == 0.0:
        return 0.0
    pace = _paced(rate, margin)
    return pace**2 / ((1.0 - beta2) * (0.5 * math.log(beta2)) ** 2)


@check_arguments
def runaway_rate(margin: float, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """Return the constant rate above which Adam without epsilon runs away; infinite if beta1^2 < beta2.

    ``margin`` is that in linf.

    >>> import hardmax as hm
    >>> round(hm.limits.runaway_rate(3.0, (0.9, 0.5)), 10), hm.limits.runaway_rate(3.0, (0.9, 0.999))
    (0.0095782498, inf)
    """
    beta1, beta2 = _fractions(betas)
    if beta1**2 < beta2 or beta1 == 0.0:
        return math.inf
    return _fastest(beta1, beta2)[1] / expect.positive("margin", margin)


def _pace(x: float, beta1: float, beta2: float) -> float:
    """The rate times margin at which margins grow by x."""
    first = -math.expm1(x + math.log(beta1)) / (1.0 - beta1) if beta1 else 1.0
    second = -math.expm1(2.0 * x + math.log(beta2)) / (1.0 - beta2) if beta2 else 1.0
    return x * first / math.sqrt(second) if second > 0.0 else math.inf


def _fastest(beta1: float, beta2: float) -> tuple[float, float]:
    """The growth with the largest pace, and that pace, where beta1^2 >= beta2."""
    best = minimize_scalar(
        lambda x: -_pace(x, beta1, beta2),
        bounds=(0.0, -math.log(beta1)),
        method="bounded",
        options={"xatol": 1e-14},
    )
    return float(best.x), -float(best.fun)


def _fractions(betas: tuple[float, float]) -> tuple[float, float]:
    first, second = (fraction("betas", beta) for beta in betas)
    return first, second


class RateWarning(UserWarning):
    """A constant rate is beyond the threshold above which the rule loses the direction that it is known for.

    The run is taken all the same.

    >>> import warnings, hardmax as hm
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Momentum(1.0))
    >>> caught[0].category is hm.limits.RateWarning, run.event
    (True, 'frozen momentum')
    """


@dataclass(frozen=True, eq=False)
class Forecast:
    """Expected late behavior of an optimizer that selects the tokens of ``best``.

    ``threshold`` is the constant rate above which the direction is lost, infinite if there is none, nan if
    none is known, and ``law`` where that is stated. ``swing`` is the rate above which p swings about its
    direction, ``onset`` the step at which mirror descent begins to; ``growth`` is by how much the margins of
    the rows grow in a step, ``waiting`` how long Adam remembers its beginning. Fields that do not
    concern the rule are nan. A ``rate`` that is not constant is nan too: thresholds do not apply to it.

    >>> import hardmax as hm
    >>> print(hm.limits.forecast(hm.data.example("B-FIG-8"), hm.optim.Adam(0.1, (0.9, 0.99), eps=0.0)))
    Adam at rate 0.1, tokens 0 0, linf margin 0.333333
      margins grow by 0.00492547 a step
      before some 4.4e+03 steps it is still shaped by its first gradients
    """

    optimizer: Optimizer
    best: MaxMargin
    rate: float
    law: str = ""
    threshold: float = math.nan
    swing: float = math.nan
    onset: float = math.nan
    growth: float = math.nan
    waiting: float = math.nan

    @property
    def is_beyond(self) -> bool:
        """Whether the rate is beyond the threshold."""
        return self.rate > self.threshold

    @property
    def warning(self) -> str:
        """The effect of a rate beyond the threshold."""
        effect = {
            "D-THM-5": "p swings and its direction is not the max margin",
            "D-THM-7": "the mean outlives the gradient and its direction freezes",
            "D-THM-9b": "the first moment outlives the second and p runs away",
        }.get(self.law, "")
        return f"above a rate of {self.threshold:.6g} {effect} ({self.law})"

    def __repr__(self) -> str:
        return f"<Forecast: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        chosen = "" if self.best.selection is None else f", tokens {' '.join(map(str, self.best.selection))}"
        rate = "a rate that changes" if math.isnan(self.rate) else f"rate {self.rate:g}"
        lines = [f"{self.optimizer.name} at {rate}{chosen}, {self.best.norm} margin {self.best.margin:.6g}"]
        if math.isfinite(self.threshold):
            lines.append(self.warning + (": as here" if self.is_beyond else ""))
        if math.isfinite(self.swing) and self.swing != self.threshold:
            lines.append(
                f"above a rate of {self.swing:.6g} p swings about the max margin; its direction is right"
            )
        if math.isfinite(self.onset):
            lines.append(f"from some {self.onset:.2g} steps on p swings; its direction is right")
        if math.isfinite(self.growth):
            lines.append(f"margins grow by {self.growth:.6g} a step")
        if math.isfinite(self.waiting):
            lines.append(f"before some {self.waiting:.2g} steps it is still shaped by its first gradients")
        if not self.law:
            lines.append(f"no law is known here: {self.why_none}")
        return "\n  ".join(lines)

    @property
    def why_none(self) -> str:
        """Why no law applies, or what it would need; empty where one does.

        >>> import hardmax as hm
        >>> hm.limits.forecast(hm.data.example("B-FIG-8"), hm.optim.Adam(lr=0.1)).why_none
        'with eps = 1e-08 the steps shrink with the gradient; eps=0 has laws (D-THM-9)'
        """
        if self.law:
            return ""
        if not self.best.is_certified or self.best.margin in (0.0, math.inf):
            return (
                f"the max margin of the selection is {self.best.status}, with margin {self.best.margin:.6g}"
            )
        eps = getattr(self.optimizer, "eps", 0.0)
        if eps:
            return f"with eps = {eps:g} the steps shrink with the gradient; eps=0 has laws (D-THM-9)"
        if not self.optimizer.normalized:
            return "its steps shrink with the gradient; thresholds are known for normalized steps"
        return f"thresholds are not known for {self.optimizer.name}"


@check_arguments
def forecast(problem: Problem, optimizer: Optimizer, selection: Any = None) -> Forecast:
    """Forecast the late behavior of an optimizer at its rate, if it selects these tokens.

    The selection decides thresholds and times; the selection of a run is not known before. `Run.forecast`
    uses the final selection.

    Args:
        problem: the problem to train.
        optimizer: with its learning rate.
        selection: one token per input, or a run; the best-scoring tokens by default.

    >>> import hardmax as hm
    >>> expected = hm.limits.forecast(hm.data.example("B-FIG-8"), hm.optim.Momentum(1.0))
    >>> expected.is_beyond, expected.law, round(expected.threshold, 6)
    (True, 'D-THM-7', 0.333179)
    """
    step, best = need_optimizer(optimizer), max_margin(problem, selection, norm=optimizer.norm)
    rate, margin = step.constant_rate, best.margin
    plain = Forecast(step, best, rate)
    if not best.is_certified or margin in (0.0, math.inf):
        return plain
    if isinstance(step, Averaged):
        threshold = freezing_rate(best, step.beta) if step.normalized else math.inf
        return replace(
            plain, law="D-THM-7", threshold=threshold, growth=rate * margin if step.normalized else math.nan
        )
    if isinstance(step, Steepest) and step.normalized and not step.damping:
        steady, ball = replace(plain, growth=rate * margin), norm(step.norm)
        if not ball.strictly_convex or ball.of_matrix:
            return replace(steady, law="D-THM-6")
        swing = critical_rate(best)
        return replace(
            steady, law="D-THM-5", threshold=math.inf if ball.inner_product else swing, swing=swing
        )
    if isinstance(step, Mirror) and step.normalized:
        onset = math.nan if math.isnan(rate) else mirror_onset(best, rate)
        return replace(plain, law="D-THM-5", threshold=math.inf, onset=onset)
    if isinstance(step, Adaptive) and step.is_pure:
        betas = step.constants[0], step.constants[1]
        pure = replace(plain, law="D-THM-9b", threshold=runaway_rate(margin, betas))
        if math.isnan(rate):
            return pure
        growth, waiting = adam_growth(rate, margin, betas), adam_waiting(rate, margin, betas)
        return replace(pure, growth=growth, waiting=waiting)
    return plain


def warn_of_rate(problem: Problem, step: Optimizer) -> None:
    """Warn the caller of `train` of a rate beyond a threshold, for the best-scoring selection."""
    try:
        expected = forecast(problem, step)
    except (ValueError, ImportError):  # no best selection, or a norm without its solver: nothing is known
        return
    if expected.is_beyond:
        rate = f"rate {expected.rate:g} of {step.name}"
        text = f"{rate} is large for the best-scoring selection: {expected.warning}"
        warnings.warn(text, RateWarning, stacklevel=4)  # the caller of `train`
