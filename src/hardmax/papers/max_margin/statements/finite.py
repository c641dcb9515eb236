"""The paper's bounds at a finite radius: lost attention, risk (75), relaxed directions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.expect import generator
from hardmax.directions.assumptions import assumption_c
from hardmax.directions.joint_margins import label_max_margin, relaxed_max_margin
from hardmax.dynamics.measures import attention
from hardmax.margin.att_svm import AttentionRows, max_margin, set_max_margin
from hardmax.margin.label_svm import label_svm
from hardmax.margin.solve import solve
from hardmax.papers.checking.balls import BallProblem, settle
from hardmax.papers.checking.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.papers.checking.common import (
    ROUNDING,
    log_lost,
    longest_difference,
    nothing_outside,
    one_selection,
    unit_directions,
    unit_length,
    with_copies,
)
from hardmax.papers.checking.proof import balls, largest, least, length
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

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


def log_lost_between(log_T: Any, margin: Any, R: Any) -> tuple[Any, Any]:
    """Where the log of the largest lost attention lies at R times a unit direction of that margin."""
    return -margin * R - log_T, -margin * R + log_T


def measure_bounds(problem: Problem, p_unit: np.ndarray, margin: float, sets: Sets, rng: int) -> Outcome:
    """p_mm at its two-sided bound, other directions at their lower one, with and without negative margins."""
    log_T, chance = math.log(int(problem.sizes.max())), generator(rng)
    rooms: list[tuple[float, Any, Any]] = []  # the room, the same in balls, and where
    paper: list[tuple[float, Any, Any]] = []
    for R in (np.array([1.0, 10.0, 100.0, 1000.0]) / margin).tolist():
        lost = float(log_lost(problem, R * p_unit, sets).max())
        low, high = log_lost_between(log_T, margin, R)
        rooms.append((min(lost - low, high - lost), partial(_best_room, sets, R * p_unit, margin), p_unit))
        for q in unit_directions(problem.d, 90, chance):
            own = set_margin(problem, q, sets)
            lost = float(log_lost(problem, R * q, sets).max())
            # a negative margin bounds nothing beyond 1/T: attention cannot be lost more than entirely
            for taken, found in ((max(own, 0.0), rooms), (own, paper)):
                again = partial(_other_room, sets, R * q, taken == own)
                found.append((lost - log_lost_between(log_T, taken, R)[0], again, q))
    tightest, literal = (min(found, key=lambda each: each[0]) for found in (rooms, rooms + paper))
    slack, proof = settle(problem, tightest[0] + ROUNDING, tightest[1])
    paper_slack, paper_proof = settle(problem, literal[0] + ROUNDING, literal[1])
    measured = {"least slack": tightest[0], "largest": max(room for room, _, _ in rooms)}
    return Outcome(
        slack=slack,
        measured=measured,
        witness=literal[2],
        proof=proof,
        paper_slack=paper_slack,
        paper_proof=paper_proof,
    )


def _best_room(sets: Sets, p: np.ndarray, margin: float, exact: BallProblem) -> Any:
    """Room of p_mm between its bounds in balls; the margin comes with the rounding of its certificate."""
    point = balls(p)
    lost, log_T = exact.most_lost(point, sets), arb(max(map(len, exact.keys))).log()
    low, high = log_lost_between(log_T, arb(margin), length(point))
    give = arb(ROUNDING) * (1 + arb(margin) * length(point))
    return least([lost - low, high - lost]) + give


def _other_room(sets: Sets, p: np.ndarray, literal: bool, exact: BallProblem) -> Any:
    """Room of another direction above its lower bound, in balls; ``literal`` keeps a margin below 0."""
    point = balls(p)
    leads = []
    for i, inside in enumerate(sets):
        logits = exact.gaps(i, point, inside[0])
        outside = [x for t, x in enumerate(logits) if t not in set(inside)]
        if outside:
            leads.append(largest(logits[t] for t in inside) - largest(outside))
    own = least(leads)
    taken = own if literal or float(own.mid()) > 0 else arb(0)
    log_T = arb(max(map(len, exact.keys))).log()
    # the logits are at p itself, so the radius is part of the margin
    return exact.most_lost(point, sets) - log_lost_between(log_T, taken, 1)[0]


@statement(
    "B-EQ-73",
    "Bound (73): attention lost at radius R",
    "At R p_mm/|p_mm| the log of the largest lost attention is -R Xi within log T; at a p of margin m it is "
    "at least -max(m, 0) R - log T.",
    kind="finite",
)
def lost_attention(problem: Problem, *, selection: Iterable[int] | None = None, rng: int = 0) -> Outcome:
    """Radii from 1 to 1000 margins, directions all around."""
    hypotheses, tokens = one_selection(problem, selection)
    best = max_margin(problem, tokens)
    hypotheses.append(Hypothesis("selection separable", best.is_feasible, best.margin))
    if unmet(hypotheses) or best.direction is None:
        return unsaid(hypotheses)
    found = measure_bounds(
        problem, best.direction, best.margin, with_copies(problem, [(t,) for t in tokens]), rng
    )
    return replace(found, hypotheses=tuple(hypotheses))


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
    inside = best_tokens(problem).sets if sets is None else tuple(tuple(s) for s in sets)
    solved = set_max_margin(problem, inside)
    hypotheses = [Hypothesis("ATT-SVM' feasible", bool(solved.solutions), solved.margin)]
    if unmet(hypotheses) or not math.isfinite(solved.margin):
        return unsaid(hypotheses)
    p = solved.minimizers[0]
    found = measure_bounds(problem, p / np.linalg.norm(p), solved.margin, with_copies(problem, inside), rng)
    return replace(found, hypotheses=tuple(hypotheses))


MARGINS = 1000.0  # the largest radius of (79) that is tried, in margins
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
    data="tokens",
    hunt={"draws": 10},
)
def risk_pays_for_attention(
    problem: Problem, *, selection: Iterable[int], rng: int = 0, draws: int = 200
) -> Outcome:
    """Sample p, and for each the v of largest label margin, which makes the risk about the lowest.

    nu comes from a search and is no certificate, so that a risk below the bound refutes nothing; what the
    sampled p themselves say about nu counts too.
    """
    tokens = tuple(selection)
    head = problem.readout.linear
    hypotheses = [
        Hypothesis("values and labels", head is not None),
        Hypothesis("logistic loss", problem.loss.name == "logistic", problem.loss.name),
    ]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert head is not None
    if nothing_outside(problem, [(t,) for t in tokens]):
        return unsaid(hypotheses)
    C = assumption_c(problem, tokens, rng=rng, draws=400)
    if not C.holds:
        return Outcome((*hypotheses, Hypothesis("B-ASM-C", C.holds, C.nu)))
    chance, slack, witness, nu = generator(rng), math.inf, None, C.nu
    values = problem.split(head.values[problem.tokens])
    sets, unit = with_copies(problem, [(t,) for t in tokens]), unit_length(problem)
    met: list[tuple[np.ndarray, float, np.ndarray]] = []  # p, the attention it loses, margins at |v| = 1
    for scale in np.geomspace(0.1 * unit, 100.0 * unit, draws):
        p = scale * chance.normal(size=problem.d)
        lost = math.exp(float(log_lost(problem, p, sets).max()))
        seen = np.array([s @ x for s, x in zip(attention(problem, p), values, strict=True)])
        best = label_svm(seen, head.labels)
        v = best.direction if best.direction is not None else unit_directions(seen.shape[1], 3, chance)[0]
        met.append((p, lost, head.labels * (seen @ v)))
        if lost > ROUNDING:  # below, the quotient is rounding
            nu = min(nu, (C.Gamma - float(met[-1][2].min())) / lost)
    hypotheses.append(Hypothesis("B-ASM-C", nu > 0, nu))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    for (p, lost, margins), r in itertools.product(met, (1.0 / C.Gamma, 10.0 / C.Gamma, 100.0 / C.Gamma)):
        log_risk = math.log(float(np.logaddexp(0.0, -r * margins).mean()))
        room = log_risk - log_risk_at_least(problem.n, r, C.Gamma, SURE * nu, lost)
        if room < slack:
            slack, witness = room, {"p": p, "r": r}
    return Outcome(tuple(hypotheses), slack, {"nu": nu, "Gamma": C.Gamma, "least room": slack}, witness)


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
    data="tokens",
)
def relaxed_lost_attention(problem: Problem, *, selection: Iterable[int]) -> Outcome:
    """Three values of epsilon, radii from 1 to 1000 margins."""
    tokens = tuple(selection)
    hypotheses = [Hypothesis("values and labels", problem.readout.linear is not None)]
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
    # the direction is one of doubles: so far out, logits are known to this
    noise = MARGINS * longest_difference(problem) / relaxed.margin * float(np.finfo(float).eps)
    hypotheses.append(Hypothesis("logits resolved", noise < ROUNDING or None, noise))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    log_T, slacks, margins = math.log(int(problem.sizes.max())), [], []
    for epsilon in (0.5, 0.1, 0.01):
        solved = solve(replace(rows, h=np.where(inside, 1.0, epsilon)))
        if solved.direction is None:
            return Outcome(tuple(hypotheses))
        margins.append(solved.margin)
        slacks.append(solved.margin / margin_kept(relaxed.margin, full.margin, epsilon) - 1)
        for R in (1.0, 10.0, 100.0, MARGINS):
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
