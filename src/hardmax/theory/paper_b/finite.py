"""The paper's bounds at a finite radius: attention lost by p_mm and by any other direction, (73) and (84)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from hardmax._inputs import generator
from hardmax.margin.attention import max_margin
from hardmax.margin.several import set_max_margin
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.balls import BallProblem, settle
from hardmax.theory.paper_b.common import ROUNDING, log_lost, one_selection, unit_directions, with_copies
from hardmax.theory.proof import balls, largest, least, length

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
        slack=slack, measured=measured, witness=literal[2], proof=proof,
        paper_slack=paper_slack, paper_proof=paper_proof,
    )  # fmt: skip


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
    inside = optimal_tokens(problem).sets if sets is None else tuple(tuple(s) for s in sets)
    solved = set_max_margin(problem, inside)
    hypotheses = [Hypothesis("ATT-SVM' feasible", bool(solved.solutions), solved.margin)]
    if unmet(hypotheses) or not math.isfinite(solved.margin):
        return unsaid(hypotheses)
    p = solved.minimisers[0]
    found = measure_bounds(problem, p / np.linalg.norm(p), solved.margin, with_copies(problem, inside), rng)
    return replace(found, hypotheses=tuple(hypotheses))
