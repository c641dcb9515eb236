"""What theory expects of a step rule at its rate, for a stated selection; and the warning of `train`."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from hardmax._lib.arguments import check_arguments
from hardmax.dynamics.blocks import need_optimizer
from hardmax.dynamics.laws.thresholds import (
    adam_growth,
    adam_waiting,
    critical_rate,
    freezing_rate,
    mirror_onset,
    runaway_rate,
)
from hardmax.dynamics.optim import Mirror, Optimizer
from hardmax.dynamics.optim.adaptive import Adaptive
from hardmax.dynamics.optim.momentum import Averaged
from hardmax.dynamics.optim.steepest import Steepest
from hardmax.margin.att_svm import max_margin
from hardmax.margin.norms import norm
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem


class RateWarning(UserWarning):
    """A constant rate is beyond the threshold above which the rule loses the direction that it is known for.

    The run is taken all the same: what happens then is there to be seen.

    >>> import warnings, hardmax as hm
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Momentum(1.0))
    >>> told[0].category is hm.limits.RateWarning, run.event
    (True, 'frozen momentum')
    """


@dataclass(frozen=True, eq=False)
class Forecast:
    """What theory expects of a rule, late, if it selects what ``best`` is the max margin of.

    ``threshold`` is the constant rate above which the direction is lost, infinite if there is none, nan if
    none is known, and ``law`` where that is stated. ``swing`` is the rate above which p swings about its
    direction, ``onset`` the step at which mirror descent begins to; ``growth`` is by how much the margins of
    the rows grow in a step, ``waiting`` how long Adam remembers its beginning. What does not concern the rule
    is nan. A ``rate`` that is no constant is nan too: thresholds say nothing of it.

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
        """What is lost beyond the threshold."""
        lost = {
            "D-THM-5": "p swings and its direction is not the max margin",
            "D-THM-7": "the mean outlives the gradient and its direction freezes",
            "D-THM-9b": "the first moment outlives the second and p runs away",
        }.get(self.law, "")
        return f"above a rate of {self.threshold:.6g} {lost} ({self.law})"

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
    """What theory expects of a rule at its rate, if it comes to select these tokens.

    The selection decides thresholds and times; what a run will select is not known before. `Run.forecast`
    asks once more, for what it did select.

    Args:
        problem: what is trained on.
        optimizer: with its learning rate.
        selection: one token per input, or a run; the best-scoring tokens by default.

    >>> import hardmax as hm
    >>> said = hm.limits.forecast(hm.data.example("B-FIG-8"), hm.optim.Momentum(1.0))
    >>> said.is_beyond, said.law, round(said.threshold, 6)
    (True, 'D-THM-7', 0.333179)
    """
    need_optimizer(optimizer)
    best = max_margin(problem, selection, norm=optimizer.norm)
    return _of(optimizer, best, optimizer.constant_rate)


def _of(step: Optimizer, best: MaxMargin, rate: float) -> Forecast:
    """The laws that hold for the rule."""
    plain = Forecast(step, best, rate)
    if not best.is_certified or best.margin in (0.0, math.inf):
        return plain
    if isinstance(step, Averaged):
        threshold = freezing_rate(best, step.fading) if step.normalized else math.inf
        growth = rate * best.margin if step.normalized else math.nan
        return Forecast(step, best, rate, "D-THM-7", threshold, growth=growth)
    if isinstance(step, Steepest) and step.normalized and not step.damping:
        growth = rate * best.margin
        if not _is_smooth(step):
            return Forecast(step, best, rate, "D-THM-6", growth=growth)
        swing = critical_rate(best)
        threshold = math.inf if norm(step.norm).inner_product else swing
        return Forecast(step, best, rate, "D-THM-5", threshold, swing, growth=growth)
    if isinstance(step, Mirror) and step.normalized:
        onset = math.nan if math.isnan(rate) else mirror_onset(best, rate)
        return Forecast(step, best, rate, "D-THM-5", math.inf, onset=onset)
    if isinstance(step, Adaptive) and step.is_pure:
        betas, margin = step.moments, best.margin
        threshold = runaway_rate(margin, betas)
        if math.isnan(rate):
            return Forecast(step, best, rate, "D-THM-9b", threshold)
        growth, waiting = adam_growth(rate, margin, betas), adam_waiting(rate, margin, betas)
        return Forecast(step, best, rate, "D-THM-9b", threshold, growth=growth, waiting=waiting)
    return plain


def _is_smooth(step: Optimizer) -> bool:
    ball = norm(step.norm)
    return ball.strictly_convex and not ball.of_matrix


def warn_of_rate(problem: Problem, step: Optimizer) -> None:
    """Warn the caller of `train` of a rate beyond a threshold, for the best-scoring selection."""
    try:
        said = forecast(problem, step)
    except (ValueError, ImportError):  # no best selection, or a norm without its solver: nothing is known
        return
    if said.is_beyond:
        text = f"rate {said.rate:g} of {step.name} is large for the best-scoring selection: {said.warning}"
        warnings.warn(text, RateWarning, stacklevel=3)
