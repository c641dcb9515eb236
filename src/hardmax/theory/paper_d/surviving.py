"""Conjectures about data that do not separate: other norms (D-CONJ-4), and scores (D-CONJ-5)."""

from __future__ import annotations

import math

import numpy as np

from hardmax._lib.arrays import misalignment
from hardmax.margin.att_svm import max_margin
from hardmax.margin.constraints import Constraints
from hardmax.margin.norms import norm as norm_of
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.paper_b.common import fixed_scores
from hardmax.theory.paper_d.common import trained
from hardmax.theory.paper_d.split import convex_and_mixed
from hardmax.train.flow import flow
from hardmax.train.gradient import gradient
from hardmax.train.measures import attention
from hardmax.train.steps import GD

FALL = 0.7  # of the deficit over the last two decades of steps, unless it is small
SMALL = 0.02
KEPT, LOST = 1e-3, 1e-6  # attention of a surviving token, and of one that is gone
LATE = 30.0  # log t
NEAR = 0.01  # of 1 - cos beside S
STILL = 1e-6  # of the gradient of what survives


@statement(
    "D-CONJ-4",
    "Plain steepest descent on data that do not separate",
    "With steps that shrink with the gradient, steepest descent in any norm tends to the max margin in that "
    "norm among the p that tie the bound rows. What is seen: the deficit falls.",
    kind="limit",
    label="conjecture",
)
def plain_steepest(problem: Problem, *, norm: str = "linf", steps: int = 100_000) -> Outcome:
    """The deficit after all steps and after a hundredth of them."""
    hypotheses, found = convex_and_mixed(problem)
    if found is None:
        return Outcome(hypotheses)
    best = found.max_margin(norm)
    solved = Hypothesis("max margin certified", best.is_certified or None, best.status)
    if not solved.holds:
        return Outcome((*hypotheses, solved))
    dual = norm_of(norm).dual
    longest = max(dual.value(row) for row in found.partition.constraints.rows())
    run = trained(problem, GD(longest**-2.0, norm=norm), steps=steps, record=[steps // 100])
    early, late = (abs(best.deficit(run.points[k])) for k in (-2, -1))
    told = {"deficit after a hundredth of the steps": early, "deficit": late, "margin": best.margin}
    return Outcome((*hypotheses, solved), 1 - late / max(FALL * early, SMALL), told)


@statement(
    "D-CONJ-5",
    "Tokens that survive together",
    "Attention with scores may keep several tokens of an input for ever. Then p is, in the span of their "
    "differences, a stationary point of the risk of the survivors, and beside it grows along the max margin "
    "of the survivors over the others.",
    kind="limit",
    label="conjecture",
)
def survivors(problem: Problem) -> Outcome:
    """Gradient flow to log t = 30; survivors have attention above 1e-3, others below 1e-6, or it is early."""
    fixed = fixed_scores(problem)
    if not fixed.holds:
        return Outcome((fixed,))
    run = flow(problem, until_log_time=LATE)
    shares = attention(problem, run.p)
    between = max((float(x) for each in shares for x in each if LOST < x < KEPT), default=0.0)
    settled = Hypothesis("no token is in between", between == 0 or None, between)
    sets = [np.flatnonzero(each >= KEPT) for each in shares]
    several = Hypothesis("several tokens survive in an input", any(s.size > 1 for s in sets))
    some_lost = Hypothesis(
        "some token is lost", any(s.size < x.size for s, x in zip(sets, shares, strict=True))
    )
    hypotheses = (settled, several, some_lost)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    won, tied = [], []
    for own, inside in zip(keys, sets, strict=True):
        won += [own[inside[0]] - own[t] for t in range(len(own)) if t not in inside]
        tied += [own[inside[0]] - own[t] for t in inside[1:]]
    best = max_margin(Constraints.dense(won, E=tied))
    apart = Hypothesis("survivors separable from the others", best.is_certified or None, best.status)
    if not apart.holds:
        return Outcome((*hypotheses, apart))
    S = np.linalg.svd(np.array(tied).T, full_matrices=False)
    span = S[0][:, S[1] > 1e-9 * S[1][0]] if S[1][0] > 0 else S[0][:, :0]
    beside = run.p - span @ (span.T @ run.p)
    left = Problem.from_scores(
        [own[s] for own, s in zip(keys, sets, strict=True)],
        [own[s] for own, s in zip(scores, sets, strict=True)], problem.loss,
    )  # fmt: skip
    pull = gradient(left, run.p)
    rest = math.exp(pull.log_norm) if pull.direction.any() else 0.0
    gap = misalignment(beside, best.need())
    told = {"survivors": [s.tolist() for s in sets], "1 - cos beside S": gap, "gradient of survivors": rest}
    return Outcome((*hypotheses, apart), min(1 - gap / NEAR, 1 - rest / STILL), told)
