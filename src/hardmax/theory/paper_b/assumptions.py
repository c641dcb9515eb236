"""Assumptions B, C and D as checks: the claim is that the data satisfy them."""

from __future__ import annotations

from collections.abc import Iterable

from hardmax.heads import LinearHead
from hardmax.margin.assumptions import assumption_b, assumption_c, assumption_d
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens
from hardmax.selection.selected import Selection
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import fixed_scores, nothing_outside

POSITIVE = 1e-6  # nu below this share of the label margin counts as zero


@statement(
    "B-ASM-B",
    "Assumption B: one best token, equal others",
    "Every input has one best token and all its other tokens share one score.",
    kind="finite",
    label="measured",
    errata=("B-ERR-14",),
)
def equal_others(problem: Problem) -> Outcome:
    """Compare the scores of each input; the witness is [input, two tokens at odds]."""
    hypotheses = (fixed_scores(problem),)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    found = assumption_b(problem)
    witness = None if found.witness is None else list(found.witness)
    return Outcome(hypotheses, 1.0 if found.holds else -1.0, witness=witness)


@statement(
    "B-ASM-C",
    "Assumption C: lost attention costs label margin",
    "For some nu > 0 the label margin of the attended values is at most Gamma - nu max_i (1 - s_i,selected).",
    kind="finite",
    label="measured",
)
def attention_costs_margin(
    problem: Problem, *, selection: Iterable[int], inputs: Iterable[int] | None = None, rng: int = 0
) -> Outcome:
    """Search for the least nu over free attention weights; ``inputs`` restricts it, as Theorem 6 does."""
    hypotheses = (Hypothesis("values and labels", isinstance(problem.head, LinearHead)),)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    kept, tokens = None if inputs is None else set(inputs), tuple(selection)
    if nothing_outside(problem, [(t,) for t in tokens]):
        return unsaid(hypotheses)
    found = assumption_c(problem, tokens, inputs=kept, rng=rng, draws=400)
    slack = found.nu / found.Gamma - POSITIVE if found.Gamma else -1.0
    witness = None if slack >= 0 else [weights.tolist() for weights in found.witness]
    return Outcome(hypotheses, slack, {"nu": found.nu, "Gamma": found.Gamma}, witness)


@statement(
    "B-ASM-D",
    "Assumption D, through Lemma 14's conditions",
    "Within each set the scores are equal and positive, and every token outside scores strictly less.",
    kind="finite",
    label="measured",
    errata=("B-ERR-07", "B-ERR-15"),
)
def sets_dominate(problem: Problem, *, sets: Iterable[Iterable[int]] | None = None) -> Outcome:
    """Test Lemma 14's sufficient conditions for the best-scoring tokens, or other sets."""
    hypotheses = (fixed_scores(problem),)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    inside = None if sets is None else Selection(tuple(tuple(s) for s in sets))
    if nothing_outside(problem, (inside or optimal_tokens(problem)).sets):
        return unsaid(hypotheses)
    found = assumption_d(problem, inside)
    measured = {"epsilon": found.epsilon, "Theta": found.Theta} if found.holds else {}
    return Outcome(hypotheses, found.epsilon if found.holds else -1.0, measured, found.witness)
