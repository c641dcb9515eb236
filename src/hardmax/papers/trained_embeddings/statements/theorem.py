"""Theorem 5 with Lemmas 14 and 18, and A-THM-5S: what p selects after the first step, and where it goes.

A-THM-5S has three tests on fixed keys under which the flow must select exactly the designated tokens.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.flow import flow
from hardmax.embeddings import theorem5
from hardmax.embeddings.theorem5 import StrongConditions, TheoremFive
from hardmax.margin.att_svm import max_margin
from hardmax.margin.rationals import to_float
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, Unmet, need, statement, unsaid
from hardmax.papers.checking.common import decreasing_loss, fixed_scores, strict_best
from hardmax.papers.trained_embeddings.statements import common
from hardmax.papers.trained_embeddings.statements.common import DELTA, Rate, Width
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

ALIGNED = 1e-8
RISE = 1e-13  # a relative rise of the loss that is rounding


def flow_after_first_step(
    corpus: Corpus, d: Width, first_rate: Rate, delta: float, rng: int
) -> tuple[Conditions, TheoremFive]:
    """Return Assumption 4, (10) and event (14), and the run; end the test if no token competes."""
    hypotheses, _ = common.important_tokens(corpus)
    first_rate = common.step_of(corpus, first_rate)
    least = theorem5.theorem_5_thresholds(corpus.n, corpus.T, corpus.S, delta=delta, first_rate=first_rate)
    width = least.width if d is None else d
    hypotheses.need(
        Hypothesis("eta0 >= 4 n^2 T^2", least.first_rate >= least.least_eta0, float(least.first_rate)),
        Hypothesis("d as in (10)", width >= least.width, to_float(Fraction(width, least.width))),
    )
    if int(np.diff(corpus.offsets).max()) == 1:
        raise Unmet(hypotheses)
    run = theorem5.run_theorem_5(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    hypotheses.append(Hypothesis("event (14)", run.event.holds, run.event.overlap))
    return hypotheses, run


def far_enough(run: TheoremFive) -> Hypothesis:
    """Return the hypothesis that the end of the flow may be taken for its limit."""
    return common.late_enough(run.path.problem, run.best, run.path.p_norm)


def described(run: TheoremFive) -> dict[str, Any]:
    """Return the values that every statement about a run reports."""
    return {
        "d": to_float(Fraction(run.d)),
        "norm": run.path.p_norm,
        "event": run.path.event,
        "selected": run.pattern,
        "only important tokens": run.selects_only_important,
        "1 - cos to its own": run.misalignment_p,
        "(H1)-(H3)": run.conditions.holds,
    }


def own_direction(run: TheoremFive) -> float:
    """Return the slack of 1 - cos between p and the max-margin direction of its own selection."""
    return 1 - run.misalignment_p / ALIGNED


@statement(
    "A-THM-5",
    "Theorem 5: p selects the important tokens, by the largest margin",
    "Under Assumption 4 and (10), with probability at least 1 - delta, |p_t| grows without bound, and the "
    "limit of p_t/|p_t| selects the important token of every sequence and is the max-margin direction of its "
    "own selection.",
    kind="limit",
    errata=("A-ERR-11", "A-ERR-12"),
)
def important_tokens_win(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Draw a first step at width d, by default the least that (10) allows, and follow the flow from there."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    slack = own_direction(run) if run.selects_important else -1.0
    hypotheses.append(far_enough(run))
    return Outcome(hypotheses, slack if common.went_out(run.path) else None, described(run), run.pattern)


@statement(
    "A-LEM-14",
    "Lemma 14: important tokens are selected",
    "Under Assumption 4 and (10) the loss after the first step is below 1/(2n) and never rises, and a limit "
    "of p_t/|p_t| selects the important token of every sequence.",
    kind="limit",
    errata=("A-ERR-17",),
)
def loss_settles_the_selection(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure the loss along the flow, and the lead of the important tokens at its end."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    losses = run.path.losses
    rise = float(np.diff(losses).max(initial=-np.inf)) / float(losses[0]) if losses[0] else 0.0
    # the least score of an important token over another of its sequence at the end, over |p|
    a, stars = run.state.E @ run.path.direction, run.corpus.per_slot(np.array(run.important))
    other = run.corpus.tokens != stars
    lead = float((a[stars] - a[run.corpus.tokens])[other].min(initial=np.inf))
    # a loss below 1/(2n) leaves no sequence without its important token
    slack = min(1 - run.loss / (1 / (2 * run.corpus.n)), lead, 1 - rise / RISE)
    extra = {"loss after the first step": run.loss, "largest rise": rise, "least lead over |p|": lead}
    hypotheses.append(far_enough(run))
    return Outcome(hypotheses, slack, described(run) | extra, witness=run.pattern)


@statement(
    "A-LEM-18",
    "Lemma 18: the limit is its own max-margin direction",
    "Under the conditions of Lemma 14 a limit of p_t/|p_t| that selects one token per sequence is the "
    "max-margin direction of its own selection.",
    kind="limit",
    errata=("A-ERR-12",),
)
def limit_is_its_own_direction(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure 1 - cos of the end of the flow with the max-margin direction of its selection."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    tied = max(len(chosen) for chosen in run.pattern)
    untied = Hypothesis("the limit has no ties", tied == 1, tied, erratum="A-ERR-12")
    slack = own_direction(run)
    hypotheses += [untied, far_enough(run)]
    return Outcome(hypotheses, slack, described(run), witness=run.pattern, paper_slack=slack)


FAR = 1e8  # the flow runs to this many times |p_hat|


def strong_hypotheses(problem: Problem, tests: StrongConditions) -> list[Hypothesis]:
    """Return (H1), (H2) and (H3) as hypotheses, with their implicit conditions.

    The loss must not be negative, or the loss of one input would say nothing about the mean.
    """
    least = float(np.min(problem.loss.value(problem.scores)))
    return [
        Hypothesis("designated tokens stand nowhere else", tests.apart),
        Hypothesis("the loss is never negative", least >= 0, least),
        Hypothesis("(H1) they score highest", tests.lead > 0, tests.lead),
        Hypothesis("(H2) keys linearly independent", tests.rank == tests.tokens, [tests.rank, tests.tokens]),
        # the risk at the start is below what one input without its designated token costs
        Hypothesis("(H3) a good start", tests.loss < tests.loss_bound, [tests.loss, tests.loss_bound]),
    ]


@statement(
    "A-THM-5S",
    "Theorem 5 strengthened: the flow selects exactly the designated tokens",
    "Let keys be fixed and each input have a designated token that is nowhere an ordinary one. If (H1) it "
    "scores above the other tokens of its input, (H2) the keys are linearly independent and (H3) the risk at "
    "the start is below what losing one designated token (in all copies of its input) would cost, then |p_t| "
    "grows without bound and "
    "p_t/|p_t| tends to the max-margin direction of the designated tokens.",
    kind="limit",
    label="derived",
    errata=("A-ERR-11", "A-ERR-12"),
)
def designated_tokens_win(problem: Problem, *, start: Any = None, rival: Any = None) -> Outcome:
    """Follow the flow from ``start``; the designated tokens are those that score highest.

    How near it comes to another direction ``rival`` is reported too. A flow that has not come near is not a
    counterexample.
    """
    hypotheses = need(fixed_scores(problem))
    hypotheses.need(decreasing_loss(problem), strict_best(problem))
    designated = best_tokens(problem).tokens
    hypotheses += strong_hypotheses(problem, theorem5.strong_conditions(problem, designated, start))
    best = max_margin(problem, designated)
    if best.direction is None:
        return unsaid(hypotheses) if best.is_feasible else Outcome(hypotheses)
    far = FAR * max(best.p_norm, float(np.linalg.norm(problem.vector("start", start))))
    path = flow(problem, start=start, until_norm=far)
    measured = {"norm": path.p_norm, "event": path.event}
    hypotheses.append(common.late_enough(problem, best, path.p_norm))
    if not path.p.any():
        return Outcome(hypotheses, measured=measured)
    measured["1 - cos"] = path.cosine_distance(best)
    if rival is not None:
        measured["1 - cos to the rival"] = path.cosine_distance(rival)
    slack = 1 - path.cosine_distance(best) / ALIGNED
    return Outcome(hypotheses, slack if path.event is None else None, measured)
