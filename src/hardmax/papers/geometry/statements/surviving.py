"""Conjectures about data that do not separate: other norms (D-CONJ-4), and scores (D-CONJ-5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardmax._lib.arrays import cosine_distance
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import attention
from hardmax.dynamics.optim import GD
from hardmax.dynamics.run import Run
from hardmax.margin.att_svm import max_margin
from hardmax.margin.constraints import Constraints
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores
from hardmax.papers.geometry.statements.common import trained
from hardmax.papers.geometry.statements.split import convex_and_mixed
from hardmax.problem import Problem

FALL = 0.7  # of the deficit over the last two decades of steps, unless it is small
SMALL = 0.02
KEPT, LOST = 1e-3, 1e-6  # attention of a surviving token, and of one that is gone
LATE = 30.0  # log t
NEAR = 0.01  # of 1 - cos orthogonal to S
HALF = 0.5  # of the growth p_mm log t that its offset must leave
FAINT = 0.05  # the pull of rows without a multiplier, over that of the others, which may still be felt
STILL = 1e-6  # of the gradient of what survives
NONE = 1e-9  # of the largest multiplier


@statement(
    "D-CONJ-4",
    "Plain steepest descent on data that do not separate",
    "With steps that shrink with the gradient, steepest descent in any norm tends to the max margin in that "
    "norm among the p that tie the bound rows. What is seen: the deficit falls.",
    kind="limit",
    data="labels",
    hunt={"steps": 20000},
    label="conjecture",
)
def plain_steepest(problem: Problem, *, norm: str = "linf", steps: int = 100_000) -> Outcome:
    """The deficit after all steps and after a hundredth of them."""
    hypotheses, found = convex_and_mixed(problem)
    best = found.max_margin(norm)
    hypotheses.need(Hypothesis("max margin certified", best.is_certified or None, best.status))
    dual = norm_of(norm).dual
    longest = max(dual.value(row) for row in found.partition.constraints.rows())
    run = trained(problem, GD(longest**-2.0, norm=norm), steps=steps, record=[steps // 100])
    early, late = (abs(best.margin_gap(run.points[k])) for k in (-2, -1))
    told = {"deficit after a hundredth of the steps": early, "deficit": late, "margin": best.margin}
    return Outcome(hypotheses, 1 - late / max(FALL * early, SMALL), told)


@statement(
    "D-CONJ-5",
    "Tokens that survive together",
    "Attention with scores may keep several tokens of an input forever. Then p is, in the span of their "
    "differences, a stationary point of the risk of the survivors, and off it grows along the max margin "
    "of the survivors over the others.",
    kind="limit",
    data="labels",
    label="conjecture",
)
def survivors(problem: Problem) -> Outcome:
    """Gradient flow to log t = 30; survivors have attention above 1e-3, others below 1e-6, or it is early.

    It is early, too, where p orthogonal to S has not yet outgrown its offset: see `offset_beside`.
    """
    need(fixed_scores(problem))
    run = flow(problem, until_log_time=LATE)
    shares = attention(problem, run.p)
    between = max((float(x) for each in shares for x in each if LOST < x < KEPT), default=0.0)
    settled = Hypothesis("no token is in between", between == 0 or None, between)
    sets = [np.flatnonzero(each >= KEPT) for each in shares]
    several = Hypothesis("several tokens survive in an input", any(s.size > 1 for s in sets))
    some_lost = Hypothesis(
        "some token is lost", any(s.size < x.size for s, x in zip(sets, shares, strict=True))
    )
    hypotheses = need(several, some_lost, settled)
    left, lost = kept_and_lost(problem, sets)
    tied = [row for own in left.split(left.keys[left.tokens]) for row in own[0] - own[1:]]
    best = max_margin(Constraints.dense([row for row, _, _ in lost], E=tied))
    hypotheses.need(Hypothesis("survivors separable from the others", best.is_certified or None, best.status))
    S = np.linalg.svd(np.array(tied).T, full_matrices=False)
    span = S[0][:, S[1] > 1e-9 * S[1][0]] if S[1][0] > 0 else S[0][:, :0]
    beside = run.p - span @ (span.T @ run.p)
    goal = best.need()
    offset, faint = offset_beside(left, lost, best, span, run)
    growth = run.times[-1] * goal
    off, kept = cosine_distance(growth + offset, goal), float(1 + offset @ goal / (growth @ goal))
    outgrown = (off < NEAR / 2 and kept > HALF and faint < FAINT) or None
    measured = {"expected 1 - cos": off, "share of the growth": kept, "pull of other rows": faint}
    hypotheses.need(Hypothesis("p beside S has outgrown its offset", outgrown, measured))
    pull = gradient(left, run.p)
    # in S, survivors balance what the lost tokens pull, which falls like 1/t
    balance = 2 * lost_pull(lost, best) * math.exp(-run.times[-1])
    rest = math.exp(pull.log_norm) if pull.direction.any() else 0.0
    gap = cosine_distance(beside, goal)
    told = {"survivors": [s.tolist() for s in sets], "1 - cos beside S": gap, "gradient of survivors": rest}
    return Outcome(hypotheses, min(1 - gap / NEAR, 1 - rest / max(STILL, balance)), told)


Lost = list[tuple[np.ndarray, int, float]]  # a row, its input and the score of the token that it leaves


def kept_and_lost(problem: Problem, sets: Sequence[np.ndarray]) -> tuple[Problem, Lost]:
    """The problem of the survivors, and the rows from the first of them to the others of its input."""
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    left = Problem(
        [own[s] for own, s in zip(keys, sets, strict=True)],
        [own[s] for own, s in zip(scores, sets, strict=True)],
        problem.loss,
    )
    lost = [
        (keys[i][inside[0]] - keys[i][t], i, float(scores[i][t]))
        for i, inside in enumerate(sets)
        for t in range(len(keys[i]))
        if t not in inside
    ]
    return left, lost


def lost_pull(lost: Lost, best: MaxMargin) -> float:
    """The most that rows to lost tokens pull in any direction, times t: multipliers times lengths."""
    assert best.multipliers is not None
    return float(best.multipliers[: len(lost)] @ np.linalg.norm([d for d, _, _ in lost], axis=1))


def offset_beside(
    left: Problem, lost: Lost, best: MaxMargin, span: np.ndarray, run: Run
) -> tuple[np.ndarray, float]:
    """w of p = p_mm log t + w orthogonal to S, as the part of p in S sets it, and the pull of other rows.

    A row d to a lost token pulls with a e^(-d.p): a is the slope of the loss, times how much the token scores
    below what the survivors predict, times its attention there. The flow turns to p_mm as its rows
    pull like their multipliers, which is where d.w = log(a/multiplier). Before log t outgrows w, p may go
    anywhere: a token that S alone puts e^80 behind is not felt before log t = 80. The second number is what
    rows without a multiplier pull at that w and the end of the run, over the sum of the multipliers.
    """
    assert best.multipliers is not None
    inside = span @ (span.T @ run.p)
    shares, logits = attention(left, inside), left.split(left.keys[left.tokens] @ inside)
    predicted = np.array([s @ own for s, own in zip(shares, left.split(left.scores), strict=True)])
    slopes = left.loss.log_slopes(predicted)
    with np.errstate(divide="ignore"):  # a token that scores what is predicted pulls nowhere
        falls = np.log([abs(predicted[i] - score) / left.n for _, i, score in lost])
    behind = [d @ inside + np.logaddexp.reduce(logits[i]) - logits[i][0] for d, i, _ in lost]
    pulls = slopes[[i for _, i, _ in lost]] + falls - behind
    weights, rows = best.multipliers[: len(lost)], np.array([d for d, _, _ in lost])
    own = (weights > NONE * weights.max()) & np.isfinite(pulls)
    across = rows - rows @ span @ span.T
    w = np.linalg.lstsq(across[own], pulls[own] - np.log(weights[own]), rcond=None)[0]
    others = pulls[~own] - across[~own] @ w - run.times[-1] * (rows[~own] @ best.need() - 1)
    return w, float(np.exp(np.logaddexp.reduce(others, initial=-np.inf)) / weights.sum())
