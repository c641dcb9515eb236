"""Late normalised descent is gradient descent on a convex function, with a stability threshold (B-NEW-3)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hardmax.limits import LateComparison, LateResidual, late_residual
from hardmax.margin.att_svm import max_margin
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.paper_b.common import one_selection
from hardmax.theory.paper_b.local import local_hypotheses
from hardmax.train.descent import descend
from hardmax.train.steps import Normalized

NEAR = 0.03  # how far below and above the threshold the step is taken
STEPS = 6000
RATIO = 0.01  # measured against predicted 1 - cos


def critical_step(late: LateResidual) -> float:
    """The step above which late normalised descent does not settle."""
    return late.eta_c


@statement(
    "B-NEW-3",
    "The late residual and its stability threshold",
    "Late normalised descent settles at the residual w of B-NEW-2 plus a frozen part if its step is below "
    "eta_c = 2/(|p_mm| lambda_max), and not above it, where it swings with period 2 at first.",
    kind="limit",
    label="derived",
)
def late_descent(problem: Problem, *, selection: Iterable[int] | None = None) -> Outcome:
    """Two descents that start far out beside p_mm, with a step 3 % below the threshold and 3 % above it."""
    hypotheses, tokens = one_selection(problem, selection)
    best = max_margin(problem, tokens)
    hypotheses += local_hypotheses(problem, best)
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    late = late_residual(problem, best)
    hypotheses.append(Hypothesis("the residual has a limit", late.w is not None, late.status))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert best.direction is not None
    assert late.w is not None
    eta = critical_step(late)
    hypotheses.append(Hypothesis("several support rows", math.isfinite(eta), len(late.curvatures) + 1))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    # the residual is reached from beside it: a hundredth off along every direction in which it can move
    start = 100 * best.norm * best.direction + late.w + 0.01 * late.span.sum(axis=1)

    def run(factor: float) -> LateComparison:
        path = descend(
            problem, Normalized(factor * eta), steps=STEPS, start=start, record=range(STEPS - 10, STEPS + 1)
        )
        return late.compare(path)

    below, above = run(1 - NEAR), run(1 + NEAR)
    swings = above.swing > 0 and below.swing == 0
    settled = 1 - abs(below.ratio - 1) / RATIO
    found = {
        "eta_c": eta, "below: measured over predicted": below.ratio, "below: swing": below.swing,
        "above: measured over predicted": above.ratio, "above: swing": above.swing,
        "|w|": float(np.linalg.norm(late.w)),
    }  # fmt: skip
    return Outcome(tuple(hypotheses), settled if swings else -1.0, found)
