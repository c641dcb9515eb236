"""The paper's bounds at a finite radius: attention lost by p_mm and by any other direction, (73) and (84)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hardmax._inputs import generator
from hardmax.margin.attention import max_margin
from hardmax.margin.several import set_max_margin
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import log_lost, unit_directions

Sets = Sequence[Sequence[int]]


def set_margin(problem: Problem, q: np.ndarray, sets: Sets) -> float:
    """The least lead, over inputs, of the best token inside the set over the best one outside."""
    leads = []
    for keys, inside in zip(problem.split(problem.keys[problem.tokens]), sets, strict=True):
        logits = (keys - keys[inside[0]]) @ q
        outside = np.delete(logits, inside)
        if outside.size:
            leads.append(float(logits[list(inside)].max() - outside.max()))
    return min(leads)


def log_lost_between(T: int, margin: float, R: float) -> tuple[float, float]:
    """Where the log of the largest lost attention lies at R times a unit direction of that margin."""
    return -margin * R - math.log(T), -margin * R + math.log(T)


def measure_bounds(problem: Problem, p_unit: np.ndarray, margin: float, sets: Sets, rng: int) -> Outcome:
    """p_mm at its two-sided bound, other directions at their lower one, with and without negative margins."""
    T = int(problem.sizes.max())
    chance, slacks, paper, witness = generator(rng), [], [], None
    for R in (np.array([1.0, 10.0, 100.0, 1000.0]) / margin).tolist():
        lost = float(log_lost(problem, R * p_unit, sets).max())
        low, high = log_lost_between(T, margin, R)
        slacks += [lost - low, high - lost]
        for q in unit_directions(problem.d, 90, chance):
            own = set_margin(problem, q, sets)
            lost = float(log_lost(problem, R * q, sets).max())
            # a negative margin bounds nothing beyond 1/T: attention cannot be lost more than entirely
            slacks.append(lost - log_lost_between(T, max(own, 0.0), R)[0])
            paper.append(lost - log_lost_between(T, own, R)[0])
            if paper[-1] <= min(paper):
                witness = q
    rounding = 1e-9
    return Outcome(
        slack=min(slacks) + rounding, measured={"least slack": min(slacks), "largest": max(slacks)},
        witness=witness, paper_slack=min(*slacks, *paper) + rounding,
    )  # fmt: skip


@statement(
    "B-EQ-73",
    "Bound (73): attention lost at radius R",
    "At R p_mm/|p_mm| the log of the largest lost attention is -R Xi within log T; at a p of margin m it is "
    "at least -max(m, 0) R - log T.",
    kind="finite",
)
def lost_attention(problem: Problem, *, selection: Iterable[int] | None = None, rng: int = 0) -> Outcome:
    """Radii from 1 to 1000 margins, directions all around."""
    tokens = tuple(optimal_tokens(problem).tokens if selection is None else selection)
    best = max_margin(problem, tokens)
    hypotheses = [Hypothesis("selection separable", best.is_feasible, best.margin)]
    if unmet(hypotheses) or best.direction is None:
        return unsaid(hypotheses)
    found = measure_bounds(problem, best.direction, best.margin, [(t,) for t in tokens], rng)
    return Outcome(
        tuple(hypotheses), found.slack, found.measured, found.witness, paper_slack=found.paper_slack
    )


@statement(
    "B-EQ-84",
    "Bound (84): attention lost by sets at radius R",
    "The same with a set of tokens per input and a minimiser of ATT-SVM'.",
    kind="finite",
)
def lost_attention_of_sets(
    problem: Problem, *, sets: Iterable[Iterable[int]] | None = None, rng: int = 0
) -> Outcome:
    """The best-scoring tokens are the sets if none are given."""
    inside = optimal_tokens(problem).sets if sets is None else tuple(tuple(s) for s in sets)
    solved = set_max_margin(problem, inside)
    hypotheses = [Hypothesis("ATT-SVM' feasible", bool(solved.solutions), solved.margin)]
    if unmet(hypotheses) or not math.isfinite(solved.margin):
        return unsaid(hypotheses)
    p = solved.minimisers[0]
    found = measure_bounds(problem, p / np.linalg.norm(p), solved.margin, inside, rng)
    return Outcome(
        tuple(hypotheses), found.slack, found.measured, found.witness, paper_slack=found.paper_slack
    )
