"""Steps that remember: momentum freezes (D-THM-7), Adam grows by a law (D-THM-9), or runs away (D-THM-9b)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.laws import adam_growth, adam_waiting, freezing_rate, runaway_rate
from hardmax.dynamics.optim import Adam, Momentum
from hardmax.dynamics.run import Run
from hardmax.margin.att_svm import max_margin
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores, late_radius, second_gap
from hardmax.papers.geometry.statements.common import (
    chosen,
    no_still_coordinate,
    row_margins,
    selects,
    separable,
    strong,
    trained,
)
from hardmax.problem import Problem

BELOW, ABOVE = 0.8, 2.0  # shares of a threshold at which runs are taken
NEAR = 0.02  # how far below and above the rate of runaway
AHEAD = 40.0  # margin at which a late run begins at least
FARTHEST = 1e9  # margin up to which logits tell steps of a run
STEADY = 1e-3  # how much the growth may change over the last half of a run
LAW = 1e-2  # measured against predicted growth
LATE = 100.0  # log t to which a flow goes on
FALL = 0.5  # of the l2 deficit meanwhile
GROWN = 1e-6  # least relative growth of p meanwhile


@statement(
    "D-THM-7",
    "Momentum before normalization freezes",
    "With a rate below -log(beta)/margin the mean of gradients cannot outlive them. A run far above it "
    "freezes: it goes along a constant direction forever, whose margins exceed -log(beta)/rate.",
    kind="limit",
    label="derived",
    errata=("D-ERR-4",),
)
def frozen_momentum(
    problem: Problem,
    *,
    norm: str = "l2",
    beta: float = 0.9,
    selection: Iterable[int] | None = None,
    steps: int = 3000,
) -> Outcome:
    """One run at 0.8 of the threshold, one at twice the threshold.

    A gradient may be silent for thousands of steps and come back, along a move whose margins are too small to
    keep it down: what is frozen only for now leaves the claim open. So what can fail is the first half.
    """
    best = separable(problem, norm, selection)
    threshold = freezing_rate(best, beta)
    hypotheses = need(Hypothesis("beta > 0", math.isfinite(threshold), beta))
    slow, fast = (
        trained(problem, Momentum(factor * threshold, beta, norm), steps=steps, record=[steps - 1])
        for factor in (BELOW, ABOVE)
    )
    hypotheses.need(*(selects(run, best) for run in (slow, fast)))
    reached = reach(fast, best, beta)
    found = {
        "threshold": threshold,
        "below: event": slow.event,
        "below: deficit": slow.margin_gap(best),
        "above: event": fast.event,
        "above: deficit": fast.margin_gap(best),
        "above: reach": reached,
    }
    if frozen(slow, best, beta):
        return Outcome(hypotheses, -1.0, found)
    settled = frozen(fast, best, beta) and slow.event is None
    return Outcome(hypotheses, reached - 1 if settled else None, found)


def reach(run: Run, best: MaxMargin, beta: float) -> float:
    """By how much the last move shrinks the gradient in a step, in units of what the mean shrinks by."""
    move = np.asarray(run.points)[-1] - np.asarray(run.points)[-2]
    return float(row_margins(best, move)[0]) / -math.log(beta)


def frozen(run: Run, best: MaxMargin, beta: float) -> bool:
    """Whether the gradient has no say any more, and never will: above 1 the reach is absorbing."""
    return run.event == "frozen momentum" and reach(run, best, beta) > 1


@statement(
    "D-THM-9",
    "The growth law of Adam with a constant rate",
    "Without epsilon, with beta1^2 < beta2 and where the growth is steady, the margins grow per step by the "
    "root of x = rate margin (1 - beta1)/(1 - beta1 e^x) sqrt((1 - beta2 e^2x)/(1 - beta2)), margin that of "
    "linf.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_grows(
    problem: Problem, *, rate: float = 0.001, betas: tuple[float, float] = (0.9, 0.99), steps: int = 30_000
) -> Outcome:
    """The growth in the last tenth of a run, once it is three waiting times old."""
    slow = Hypothesis("beta1^2 < beta2", betas[0] ** 2 < betas[1], betas)
    need(fixed_scores(problem), slow)
    run = trained(
        problem,
        Adam(rate, betas, eps=0.0),
        steps=steps,
        record=[steps // 2, steps * 6 // 10, steps * 9 // 10],
    )
    one = chosen(run)
    need(slow, one)
    best = separable(problem, "linf", one.measured, given=(slow,))
    hypotheses = need(slow, strong(problem, best), no_still_coordinate(best))
    waiting = adam_waiting(rate, best.margin, betas)
    waited = Hypothesis("the run is three waiting times old", steps >= 3 * waiting, waiting)
    margins = row_margins(best, np.asarray(run.points))
    early, late = (growth(run, margins, at) for at in (2, -1))
    steady = Hypothesis("steady growth", abs(early - late) < STEADY * abs(late) or None, (early, late))
    hypotheses.need(waited, steady)
    law = adam_growth(rate, best.margin, betas)
    found = {"measured growth": late, "predicted": law, "deficit": run.margin_gap(best)}
    return Outcome(hypotheses, 1 - abs(late / law - 1) / LAW, found)


def growth(run: Run, margins: np.ndarray, at: int) -> float:
    """By how much the least margin grows per step up to a snapshot, from the one before."""
    return float((margins[at] - margins[at - 1]) / (run.times[at] - run.times[at - 1]))


@statement(
    "D-THM-9b",
    "Adam with beta1^2 >= beta2 runs away above a rate",
    "Without epsilon the growth law has a root only up to a rate c(beta1, beta2)/margin. Late, where the "
    "rows of the margin alone shape the gradient, above it the first moment outlives the second and "
    "the steps grow without bound; below it they do not.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_runs_away(
    problem: Problem,
    *,
    betas: tuple[float, float] = (0.9, 0.5),
    selection: Iterable[int] | None = None,
    steps: int = 20_000,
) -> Outcome:
    """Two runs, 2 percent below and above the rate, from where it is late: at a margin of 40 or more.

    From the origin p may run away below it too, while other rows fall faster than those of the margin; what
    happens there is reported too.
    """
    best = separable(problem, "linf", selection)
    limit = runaway_rate(best.margin, betas)
    pole = Hypothesis("beta1^2 >= beta2", math.isfinite(limit), betas)
    hypotheses = need(pole, strong(problem, best), no_still_coordinate(best))
    # other rows weigh nothing from here on, however small their gap and however large their scores
    from_here = max(AHEAD, best.margin * late_radius(problem, min(best.margin, second_gap(best))))
    hypotheses.need(Hypothesis("late within reach", from_here <= FARTHEST or None, from_here))
    ahead = from_here * best.need()
    # tight rows whose score gaps are far from balanced turn a coordinate back at first, and fall faster so
    down = gradient(problem, ahead).direction
    onward = bool((down * ahead > 0).all()) or None
    hypotheses.need(Hypothesis("descent goes on along it", onward, down.tolist()))
    below, above, whole = (
        trained(problem, Adam(factor * limit, betas, eps=0.0), steps=steps, start=start)
        for factor, start in ((1 - NEAR, ahead), (1 + NEAR, ahead), (1 - NEAR, None))
    )
    hypotheses.need(selects(below, best))
    right = below.event is None and above.event == "runaway"
    found = {
        "rate": limit,
        "margin at the start": from_here,
        "below: event": below.event,
        "below: |p|": below.p_norm,
        "above: event": above.event,
        "below, from the origin: event": whole.event,
    }
    return Outcome(hypotheses, 1.0 if right else -1.0, found)


@statement(
    "D-CONJ-3",
    "Adam with epsilon > 0 tends to l2 in the end",
    "Once the gradient is far below epsilon, Adam is heavy-ball descent of rate over epsilon, and its "
    "direction goes on to the max margin in l2, not in linf.",
    kind="limit",
    hunt={"steps": 8000},
    label="conjecture",
    errata=("D-ERR-3",),
)
def adam_with_epsilon(
    problem: Problem, *, rate: float = 0.01, epsilon: float = 1e-3, steps: int = 20_000
) -> Outcome:
    """Adam until the gradient is below epsilon, then gradient flow, which a heavy ball follows."""
    positive = Hypothesis("epsilon > 0", epsilon > 0, epsilon)
    need(fixed_scores(problem), positive)
    run = trained(problem, Adam(rate, (0.9, 0.99), eps=epsilon), steps=steps)
    one = chosen(run)
    need(positive, one)
    best = separable(problem, "l2", one.measured, given=(positive,))
    size = math.exp(gradient(problem, run.p).log_norm)
    small = Hypothesis("the gradient is below epsilon", size < epsilon or None, size)
    hypotheses = need(positive, small, strong(problem, best))
    late = flow(problem, start=run.p, until_log_time=LATE)
    other = max_margin(problem, one.measured, norm="linf")
    first, last = run.margin_gap(best), late.margin_gap(best)
    found = {"l2 deficit after Adam": first, "l2 deficit late": last}
    if other.is_certified:
        found |= {
            "linf deficit after Adam": run.margin_gap(other),
            "linf deficit late": late.margin_gap(other),
        }
    kept = Hypothesis("the selection is kept", chosen(late).measured == one.measured or None, late.event)
    longer = bool(late.p_norm > (1 + GROWN) * run.p_norm)  # else it is at a finite minimum
    grows = Hypothesis("p goes on", longer or None, late.p_norm)
    slack = 1 - last / (FALL * first) if first > 0 else 0.0
    return Outcome((*hypotheses, kept, grows), slack, found)
