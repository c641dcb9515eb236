"""Lemma 2: when the best-scoring tokens can be separated at all."""

from __future__ import annotations

import numpy as np

from hardmax.heads import LinearHead
from hardmax.margin.attention import AttentionRows, max_margin
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens, score_gaps
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import ROUNDING, strict_best


def explicit_separator(problem: Problem) -> np.ndarray:
    """The vector that Lemma 2 names: the head pulled back through W', over the least score gap."""
    assert isinstance(problem.head, LinearHead)
    assert problem.key_map is not None
    best = np.array(optimal_tokens(problem).tokens)
    gaps = score_gaps(problem, problem.scores[problem.offsets[:-1] + best])
    pulled: np.ndarray = np.linalg.pinv(problem.key_map.T) @ (problem.head.labels[0] * problem.head.v)
    return pulled / float(gaps[gaps > 0].min())


@statement(
    "B-THM-L2",
    "Lemmas 2 and 11: the globally best direction exists",
    "With equal labels, one best token per input and v in the range of W', the vector (W')^+ v over the "
    "least score gap separates the best tokens by 1.",
    kind="finite",
)
def best_tokens_separable(problem: Problem) -> Outcome:
    """Test the explicit separator, and ask the certified solver too."""
    head, W = problem.head, problem.key_map
    hypotheses = [Hypothesis("keys are W x of the values", W is not None and isinstance(head, LinearHead))]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert isinstance(head, LinearHead)
    assert W is not None
    outside = head.v - W.T @ (np.linalg.pinv(W.T) @ head.v)
    share = float(np.linalg.norm(outside) / np.linalg.norm(head.v)) if head.v.any() else 1.0
    hypotheses += [
        Hypothesis("equal labels", len(set(head.labels.tolist())) == 1, head.labels),
        strict_best(problem),
        Hypothesis("v in the range of W'", share <= ROUNDING, share),
    ]
    solved = max_margin(problem) if hypotheses[2].holds else None
    found = {} if solved is None else {"solver": solved.status, "margin": solved.margin}
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses), measured=found)
    assert solved is not None
    rows = AttentionRows(problem).constraints(enumerate(optimal_tokens(problem).tokens)).rows()
    if not len(rows):
        return unsaid(hypotheses)
    p = explicit_separator(problem)
    least = float((rows @ p).min(initial=np.inf))
    # keys are W x rounded: what the separator amplifies of that is no refutation
    noise = ROUNDING + 1e-13 * float(np.linalg.norm(p) * np.linalg.norm(problem.keys, axis=1).max())
    short = least - 1 + noise
    proof = None
    if solved.is_feasible is False:
        proof = "Farkas vector: no p separates the best tokens"
    elif short < 0 and noise < 1e-6:
        proof = f"the separator misses by more than {noise:.1e}, all that rounding can do"
    slack = -1.0 if solved.is_feasible is False else short
    return Outcome(
        tuple(hypotheses), slack, {"least margin of the separator": least, **found}, witness=p, proof=proof
    )
