"""The paper's bounds at a finite radius for joint training: risk (75) and relaxed direction (79)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hardmax._inputs import generator
from hardmax.dynamics.measures import attention
from hardmax.heads import LinearHead
from hardmax.margin.assumptions import assumption_c
from hardmax.margin.attention import AttentionRows, max_margin
from hardmax.margin.joint import label_max_margin, relaxed_max_margin
from hardmax.margin.named import label_svm
from hardmax.margin.solve import solve
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import (
    ROUNDING,
    log_lost,
    longest_difference,
    nothing_outside,
    unit_directions,
    with_copies,
)
from hardmax.theory.paper_b.finite import log_lost_between

SURE = 0.999  # nu comes from a search: take a little less than the least that it found


def log_risk_at_least(n: int, r: float, Gamma: float, nu: float, lost: float) -> float:
    """(75): log of the least logistic risk with |v| <= r where that much attention is lost."""
    return -r * (Gamma - nu * lost) - math.log(2 * n)


@statement(
    "B-EQ-75",
    "Bound (75): lost attention costs risk, whatever v",
    "Under Assumption C the logistic risk with |v| <= r is at least exp(-r (Gamma - nu q)) / 2n, q the "
    "largest lost attention.",
    kind="finite",
)
def risk_pays_for_attention(
    problem: Problem, *, selection: Iterable[int], rng: int = 0, draws: int = 200
) -> Outcome:
    """Sample p, and for each the v of largest label margin, which makes the risk about the lowest.

    nu comes from a search and is no certificate, so that a risk below the bound refutes nothing.
    """
    tokens = tuple(selection)
    head = problem.head
    hypotheses = [
        Hypothesis("values and labels", isinstance(head, LinearHead)),
        Hypothesis("logistic loss", problem.loss.name == "logistic", problem.loss.name),
    ]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert isinstance(head, LinearHead)
    if nothing_outside(problem, [(t,) for t in tokens]):
        return unsaid(hypotheses)
    C = assumption_c(problem, tokens, rng=rng, draws=400)
    hypotheses.append(Hypothesis("B-ASM-C", C.holds, C.nu))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    chance, slack, witness = generator(rng), math.inf, None
    values = problem.split(head.values[problem.tokens])
    sets, unit = with_copies(problem, [(t,) for t in tokens]), 1 / longest_difference(problem)
    for scale in np.geomspace(0.1 * unit, 100.0 * unit, draws):
        p = scale * chance.normal(size=problem.d)
        lost = math.exp(float(log_lost(problem, p, sets).max()))
        seen = np.array([s @ x for s, x in zip(attention(problem, p), values, strict=True)])
        best = label_svm(seen, head.labels)
        v = best.direction if best.direction is not None else unit_directions(seen.shape[1], 3, chance)[0]
        for r in (1.0 / C.Gamma, 10.0 / C.Gamma, 100.0 / C.Gamma):
            margins = r * head.labels * (seen @ v)
            log_risk = math.log(float(np.logaddexp(0.0, -margins).mean()))
            room = log_risk - log_risk_at_least(problem.n, r, C.Gamma, SURE * C.nu, lost)
            if room < slack:
                slack, witness = room, {"p": p, "r": r}
    return Outcome(tuple(hypotheses), slack, {"nu": C.nu, "Gamma": C.Gamma, "least room": slack}, witness)


def margin_kept(relaxed: float, full: float, epsilon: float) -> float:
    """The margin that an epsilon on the non-support inputs leaves at least."""
    return full * relaxed / (full + epsilon * (relaxed - full))


@statement(
    "B-EQ-79",
    "Bound (79): attention lost by the tightened relaxed direction",
    "With bound epsilon on the inputs outside the label SVM's support, the margin falls by O(epsilon), and "
    "at radius R the log of the attention lost by the support inputs lies between -R Xi - log T and -R "
    "Xi_epsilon + log T.",
    kind="finite",
)
def relaxed_lost_attention(problem: Problem, *, selection: Iterable[int]) -> Outcome:
    """Three values of epsilon, radii from 1 to 1000 margins."""
    tokens = tuple(selection)
    hypotheses = [Hypothesis("values and labels", isinstance(problem.head, LinearHead))]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    label, full = label_max_margin(problem, tokens), max_margin(problem, tokens)
    hypotheses += [
        Hypothesis("labels separable", label.is_feasible, label.margin),
        Hypothesis("selection separable", full.is_feasible, full.margin),
    ]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    if nothing_outside(problem, [(t,) for t in tokens]):
        return unsaid(hypotheses)
    support = np.flatnonzero(label.tight).tolist()  # one row per input
    relaxed = relaxed_max_margin(problem, tokens)
    rows = AttentionRows(problem).constraints(enumerate(tokens))
    inside = np.array([each[0] in support for each in rows.labels or ()])
    sets = with_copies(problem, [(t,) for t in tokens])
    log_T, slacks, margins = math.log(int(problem.sizes.max())), [], []
    for epsilon in (0.5, 0.1, 0.01):
        solved = solve(replace(rows, h=np.where(inside, 1.0, epsilon)))
        assert solved.direction is not None
        margins.append(solved.margin)
        slacks.append(solved.margin / margin_kept(relaxed.margin, full.margin, epsilon) - 1)
        for R in (1.0, 10.0, 100.0, 1000.0):
            lost = log_lost(problem, R / relaxed.margin * solved.direction, sets)
            worst = float(lost[support].max())
            low = log_lost_between(log_T, relaxed.margin, R / relaxed.margin)[0]
            high = log_lost_between(log_T, solved.margin, R / relaxed.margin)[1]
            slacks += [worst - low, high - worst]
    found = {
        "support": support,
        "margins": margins,
        "relaxed margin": relaxed.margin,
        "full margin": full.margin,
    }
    least = min(slacks)
    # all that enters are certified margins and logs of attention at a few hundred margins: good to 1e-9
    proof = "certified margins, rounding below 1e-9" if least < -1e-5 else None
    return Outcome(tuple(hypotheses), least + ROUNDING, found, vacuous=len(support) == problem.n, proof=proof)
