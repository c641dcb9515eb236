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

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.directions.assumptions import assumption_c
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.label_svm import label_svm
from hardmax.margin.solve import solve
from hardmax.papers.checking import common
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement, unsaid
from hardmax.papers.checking.proof import BallProblem, balls, largest, least, length, settle
from hardmax.problem import Problem

Sets = Sequence[Sequence[int]]


def set_margin(inputs: Iterable[np.ndarray], q: np.ndarray, sets: Sets) -> Any:
    """The least lead, over inputs, of the best token inside the set over the best one outside.

    Keys and q are floats or balls.
    """
    leads = []
    for keys, inside in zip(inputs, sets, strict=True):
        logits = (keys - keys[inside[0]]) @ q
        outside = np.delete(logits, inside)
        if outside.size:
            leads.append(largest(logits[list(inside)]) - largest(outside))
    return least(leads)


def lost_rooms(lost: Any, T: Any, margin: Any, R: Any) -> tuple[Any, Any]:
    """Return how far the log of the largest lost attention is inside its bounds, of floats or of balls.

    They are -margin R -+ log T at R times a unit direction of that margin.
    """
    return lost - (-margin * R - np.log(T)), -margin * R + np.log(T) - lost


def measure_bounds(
    problem: Problem,
    hypotheses: Sequence[Hypothesis],
    along: np.ndarray,
    margin: float,
    tokens: Sets,
    rng: int,
) -> Outcome:
    """p_mm at its two-sided bound, other directions at their lower one, with and without negative margins."""
    T, chance, sets = int(problem.sizes.max()), generator(rng), common.with_copies(problem, tokens)
    keys = problem.split(problem.keys[problem.tokens])
    rooms: list[tuple[float, Any, Any]] = []  # the room, the same in balls, and where
    literal: list[tuple[float, Any, Any]] = []
    for R in (np.array([1.0, 10.0, 100.0, 1000.0]) / margin).tolist():
        lost = float(common.log_lost(problem, R * along, sets).max())
        again = partial(_best_room, sets, R * along, margin)
        rooms.append((float(min(lost_rooms(lost, T, margin, R))), again, along))
        for q in common.unit_directions(problem.d, 90, chance):
            lead = float(set_margin(keys, q, sets))
            lost = float(common.log_lost(problem, R * q, sets).max())
            # a negative margin bounds nothing beyond 1/T: attention cannot be lost more than entirely
            for bound, table in ((max(lead, 0.0), rooms), (lead, literal)):
                again = partial(_other_room, sets, R * q, bound == lead)
                table.append((float(lost_rooms(lost, T, bound, R)[0]), again, q))
    tightest, paper = (min(table, key=lambda row: row[0]) for table in (rooms, rooms + literal))
    slacks = [settle(problem, room + common.ROUNDING, again) for room, again, _ in (tightest, paper)]
    measured = {"least slack": tightest[0], "largest": max(room for room, _, _ in rooms)}
    return Outcome(hypotheses, slacks[0], measured, paper[2], paper_slack=slacks[1])


def _best_room(sets: Sets, p: np.ndarray, margin: float, exact: BallProblem) -> Any:
    """Room of p_mm between its bounds in balls; the margin comes with the rounding of its certificate."""
    point, T = balls(p), arb(max(map(len, exact.keys)))
    give = arb(common.ROUNDING) * (1 + arb(margin) * length(point))
    return least(lost_rooms(exact.most_lost(point, sets), T, arb(margin), length(point))) + give


def _other_room(sets: Sets, p: np.ndarray, literal: bool, exact: BallProblem) -> Any:
    """Room of another direction above its lower bound, in balls; ``literal`` keeps a margin below 0."""
    point, T = balls(p), arb(max(map(len, exact.keys)))
    lead = set_margin(exact.keys, point, sets)
    # the margin is at p itself, so the radius is part of it
    bound = lead if literal or float(lead.mid()) > 0 else arb(0)
    return lost_rooms(exact.most_lost(point, sets), T, bound, 1)[0]


@statement(
    "B-EQ-73",
    "Bound (73): attention lost at radius R",
    "At R p_mm/|p_mm| the log of the largest lost attention is -R Xi within log T; at a p of margin m it is "
    "at least -max(m, 0) R - log T.",
)
def lost_attention(problem: Problem, *, selection: Iterable[int] | None = None, rng: int = 0) -> Outcome:
    """Radii from 1 to 1000 margins, directions all around."""
    hypotheses, tokens = common.one_selection(problem, selection)
    best = hm.max_margin(problem, tokens)
    hypotheses.need(Hypothesis("selection separable", best.is_feasible, best.margin))
    if best.direction is None:
        return unsaid(hypotheses)
    return measure_bounds(problem, hypotheses, best.direction, best.margin, [(t,) for t in tokens], rng)


@statement(
    "B-EQ-84",
    "Bound (84): attention lost by sets at radius R",
    "The same with a set of tokens per input and a minimizer of ATT-SVM'.",
)
def lost_attention_of_sets(
    problem: Problem, *, sets: Iterable[Iterable[int]] | None = None, rng: int = 0
) -> Outcome:
    """The best-scoring tokens are the sets if none are given."""
    inside = hm.best_tokens(problem).sets if sets is None else tuple(tuple(s) for s in sets)
    best = hm.margin.set_max_margin(problem, inside)
    hypotheses = need(Hypothesis("ATT-SVM' feasible", bool(best.solutions), best.margin))
    if not math.isfinite(best.margin):
        return unsaid(hypotheses)
    p = best.minimizers[0]
    return measure_bounds(problem, hypotheses, p / np.linalg.norm(p), best.margin, inside, rng)


MARGINS = 1000.0  # the largest radius of (79) that is tried, in margins
SURE = 0.999  # nu comes from a search: take a little less than the least that it found


@statement(
    "B-EQ-75",
    "Bound (75): lost attention costs risk, whatever v",
    "Under Assumption C the logistic risk with |v| <= r is at least exp(-r (Gamma - nu q)) / 2n, q the "
    "largest lost attention.",
    data="tokens",
    hunt={"draws": 10},
)
def risk_pays_for_attention(
    problem: Problem, *, selection: Iterable[int], rng: int = 0, draws: int = 200
) -> Outcome:
    """Sample p, and for each the v of largest label margin, which makes the risk about the lowest.

    nu comes from a search and is not a certificate, so that a risk below the bound refutes nothing; what the
    sampled p themselves say about nu counts too.
    """
    tokens = tuple(selection)
    head = problem.readout.linear
    hypotheses = need(
        Hypothesis("values and labels", head is not None),
        Hypothesis("logistic loss", problem.loss.name == "logistic", problem.loss.name),
    )
    assert head is not None
    common.need_rivals(problem, [(t,) for t in tokens], hypotheses)
    C = assumption_c(problem, tokens, rng=rng, draws=400)
    if not C.holds:
        return Outcome((*hypotheses, Hypothesis("B-ASM-C", C.holds, C.nu)))
    chance, nu = generator(rng), C.nu
    values = problem.split(head.values[problem.tokens])
    sets = common.with_copies(problem, [(t,) for t in tokens])
    points: list[tuple[np.ndarray, float, np.ndarray]] = []  # p, the attention it loses, margins at |v| = 1
    for p in common.random_points(problem, draws, chance, 0.1, 100.0):
        lost = math.exp(float(common.log_lost(problem, p, sets).max()))
        attended = np.array([s @ x for s, x in zip(hm.attention(problem, p), values, strict=True)])
        v = label_svm(attended, head.labels).direction
        if v is None:
            v = common.unit_directions(attended.shape[1], 3, chance)[0]
        points.append((p, lost, head.labels * (attended @ v)))
        if lost > common.ROUNDING:  # below, the quotient is rounding
            nu = min(nu, (C.Gamma - float(points[-1][2].min())) / lost)
    hypotheses.need(Hypothesis("B-ASM-C", nu > 0, nu))
    rooms: list[tuple[float, Any]] = [(math.inf, None)]
    for (p, lost, margins), r in itertools.product(points, (1.0 / C.Gamma, 10.0 / C.Gamma, 100.0 / C.Gamma)):
        log_risk = math.log(float(np.logaddexp(0.0, -r * margins).mean()))
        room = log_risk - (-r * (C.Gamma - SURE * nu * lost) - math.log(2 * problem.n))
        rooms.append((room, {"p": p, "r": r}))
    slack, witness = min(rooms, key=lambda row: row[0])
    return Outcome(hypotheses, slack, {"nu": nu, "Gamma": C.Gamma, "least room": slack}, witness)


@statement(
    "B-EQ-79",
    "Bound (79): attention lost by the tightened relaxed direction",
    "With bound epsilon on the inputs outside the label SVM's support, the margin falls by O(epsilon), and "
    "at radius R the log of the attention lost by the support inputs lies between -R Xi - log T and -R "
    "Xi_epsilon + log T.",
    data="tokens",
)
def relaxed_lost_attention(problem: Problem, *, selection: Iterable[int]) -> Outcome:
    """Three values of epsilon, radii from 1 to 1000 margins."""
    tokens = tuple(selection)
    hypotheses = need(Hypothesis("values and labels", problem.readout.linear is not None))
    label, full = hm.directions.label_max_margin(problem, tokens), hm.max_margin(problem, tokens)
    hypotheses.need(
        Hypothesis("labels separable", label.is_feasible, label.margin),
        Hypothesis("selection separable", full.is_feasible, full.margin),
    )
    common.need_rivals(problem, [(t,) for t in tokens], hypotheses)
    support = np.flatnonzero(label.tight).tolist()  # one row per input
    relaxed = hm.directions.relaxed_max_margin(problem, tokens)
    rows = AttentionRows(problem).constraints(enumerate(tokens))
    inside = np.array([i in support for i, *_ in rows.labels or ()])
    sets = common.with_copies(problem, [(t,) for t in tokens])
    # the direction is one of doubles: so far out, logits are known to this
    noise = MARGINS * common.longest_difference(problem) / relaxed.margin * float(np.finfo(float).eps)
    hypotheses.need(Hypothesis("logits resolved", noise < common.ROUNDING or None, noise))
    T, slacks, margins = int(problem.sizes.max()), [], []
    for epsilon in (0.5, 0.1, 0.01):
        tightened = solve(replace(rows, h=np.where(inside, 1.0, epsilon)))
        if tightened.direction is None:
            return Outcome(hypotheses)
        margins.append(tightened.margin)
        lowest = full.margin * relaxed.margin / (full.margin + epsilon * (relaxed.margin - full.margin))
        slacks.append(tightened.margin / lowest - 1)
        for R in (1.0, 10.0, 100.0, MARGINS):
            lost = common.log_lost(problem, R / relaxed.margin * tightened.direction, sets)
            worst = float(lost[support].max())
            slacks.append(float(lost_rooms(worst, T, relaxed.margin, R / relaxed.margin)[0]))
            slacks.append(float(lost_rooms(worst, T, tightened.margin, R / relaxed.margin)[1]))
    measured = {"support": support, "margins": margins}
    measured |= {"relaxed margin": relaxed.margin, "full margin": full.margin}
    # all that enters are certified margins and logs of attention at a few hundred margins: good to 1e-9
    proof = "certified margins, rounding below 1e-9" if min(slacks) < -1e-5 else None
    slack = (min(slacks) + common.ROUNDING, proof)
    return Outcome(hypotheses, slack, measured, vacuous=len(support) == problem.n)
