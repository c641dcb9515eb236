"""Appendix E's remark: where a neighbour scores higher, ATT-SVM' is the better proxy of the direction."""

from __future__ import annotations

import math

import numpy as np

from hardmax.dynamics.descent import descend
from hardmax.dynamics.trajectory import misalignment
from hardmax.margin.attention import max_margin
from hardmax.margin.neighbours import neighbours, score_gap
from hardmax.margin.several import set_max_margin
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet

SATURATED = 1e-5


def joined_sets(
    problem: Problem, tokens: tuple[int, ...], near: tuple[tuple[int, ...], ...]
) -> list[list[int]]:
    """Each selected token with those of its neighbours that score at least as high."""
    scores = problem.split(problem.scores)
    return [
        [t, *(other for other in beside if gamma[other] >= gamma[t])]
        for t, beside, gamma in zip(tokens, near, scores, strict=True)
    ]


@statement(
    "B-APP-E",
    "Appendix E: ATT-SVM' as the better proxy",
    "Where normalised descent saturates on tokens with a higher-scoring neighbour, its direction is closer "
    "to a minimiser of ATT-SVM' with that neighbour joined in than to p_mm of the selection.",
    kind="finite",
    label="measured",
    errata=("B-ERR-11",),
)
def set_proxy_is_closer(problem: Problem, *, steps: int = 1000, rate: float = 1.0) -> Outcome:
    """The protocol of B-FIG-9 on one problem; slack is the log of how many times closer the proxy is."""
    path = descend(problem, steps, rate, record=())
    lost = path.defect()
    chosen = path.selection()
    hypotheses = [Hypothesis("saturated", lost <= SATURATED and chosen.is_unique, lost)]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    best = max_margin(problem, chosen.tokens)
    hypotheses.append(Hypothesis("selection separable", best.is_feasible, best.margin))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    gap = score_gap(problem, best)
    hypotheses.append(Hypothesis("a neighbour scores higher", gap < 0, gap))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    sets = joined_sets(problem, chosen.tokens, neighbours(problem, best).sets)
    solved = set_max_margin(problem, sets)
    plain = path.misalignment(best)
    joined = min(misalignment(path.p, p) for p in solved.minimisers)
    # as close is not closer, so that a log of exactly zero is a failure
    found = {"1 - cos to ATT-SVM": plain, "1 - cos to ATT-SVM'": joined, "sets": sets, "gap": gap}
    return Outcome(
        tuple(hypotheses), (math.log(plain / joined) if joined else np.inf) or -1.0, found, witness=path.p
    )
