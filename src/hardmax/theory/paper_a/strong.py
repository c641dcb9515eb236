"""A-THM-5S: three tests on fixed keys under which the flow must select exactly the designated tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.embeddings.theorem5 import StrongConditions, strong_conditions
from hardmax.margin.att_svm import max_margin
from hardmax.problem import Problem
from hardmax.problem.selection import optimal_tokens
from hardmax.theory.check import Hypothesis, Outcome, statement, unsaid
from hardmax.theory.paper_a.common import late_enough
from hardmax.theory.paper_b.common import decreasing_loss, fixed_scores, strict_best
from hardmax.train.flow import flow

FAR = 1e8  # the flow runs to this many times |p_hat|
ALIGNED = 1e-8


def strong_hypotheses(problem: Problem, found: StrongConditions) -> list[Hypothesis]:
    """(H1), (H2) and (H3) as hypotheses, with what they take for granted: the loss must not be negative,
    or one input's loss would say nothing about the mean.
    """
    least = float(np.min(problem.loss.value(problem.scores)))
    return [
        Hypothesis("designated tokens stand nowhere else", found.apart),
        Hypothesis("the loss is never negative", least >= 0, least),
        Hypothesis("(H1) they score highest", found.lead > 0, found.lead),
        Hypothesis("(H2) keys linearly independent", found.rank == found.tokens, [found.rank, found.tokens]),
        Hypothesis("(H3) a good start", good_start(found), [found.loss, found.loss_bound]),
    ]


def good_start(found: StrongConditions) -> bool:
    """(H3): the risk at the start is below what one input without its designated token costs."""
    return found.loss < found.loss_bound


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
    """The flow from ``start``; the designated tokens are those that score highest. How near it comes to
    another direction ``rival`` is reported too. A flow that has not come near is no counterexample.
    """
    hypotheses = [fixed_scores(problem)]
    if hypotheses[0].holds:
        hypotheses += [decreasing_loss(problem), strict_best(problem)]
    if not all(h.holds for h in hypotheses):
        return Outcome(tuple(hypotheses))
    designated = optimal_tokens(problem).tokens
    hypotheses += strong_hypotheses(problem, strong_conditions(problem, designated, start))
    best = max_margin(problem, designated)
    if best.direction is None:
        return unsaid(hypotheses) if best.is_feasible else Outcome(tuple(hypotheses))
    far = FAR * max(best.norm, float(np.linalg.norm(problem.vector("start", start))))
    path = flow(problem, start=start, until_norm=far)
    measured = {"norm": path.norm, "event": path.event}
    hypotheses.append(late_enough(problem, best, path.norm))
    if not path.p.any():
        return Outcome(tuple(hypotheses), measured=measured)
    measured["1 - cos"] = path.misalignment(best)
    if rival is not None:
        measured["1 - cos to the rival"] = path.misalignment(rival)
    slack = 1 - path.misalignment(best) / ALIGNED
    return Outcome(tuple(hypotheses), slack if path.event is None else None, measured)
