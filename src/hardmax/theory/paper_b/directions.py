"""Lemmas 8 to 10: which of two directions has the lower risk far out, and how many neighbours one has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._inputs import generator
from hardmax.dynamics.measures import SignedLog, excess_risk
from hardmax.margin.constants import slope_range
from hardmax.margin.enumerate import feasible_selections
from hardmax.problem import Problem
from hardmax.selection.direction import Direction, directional_margin
from hardmax.selection.optimal import score_gaps
from hardmax.selection.position import general_position
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.paper_b.common import lead, unit_directions

PATIENCE = 5.0  # e^-5 is what the other terms may add to the leading one


def threshold(problem: Problem, scores: np.ndarray, least: float) -> float:
    """A radius beyond which a margin gap of ``least`` decides between two sums of score gaps."""
    gaps = np.abs(score_gaps(problem, scores))
    low, high = slope_range(problem.loss, float(np.abs(problem.scores).max()))
    spread = math.log(float(gaps.max()) * high / (float(gaps[gaps > 0].min()) * low))
    count = math.log(len(problem.tokens))
    return (count + spread + PATIENCE) / least


def deciding_gap(p: Direction, q: Direction) -> float:
    """The gap that the radius must resolve: first margins and second ones (B-ERR-09)."""
    return min(p.Gamma - q.Gamma, p.delta, q.delta)


def margin_gap(p: Direction, q: Direction) -> float:
    """The gap that the paper's radius resolves."""
    return p.Gamma - q.Gamma


@statement(
    "B-THM-L8",
    "Lemma 8: the larger margin wins far out",
    "Unit p and q select the same tokens, p by the larger margin: if both are neighbour-optimal, L(Rp) < "
    "L(Rq) beyond a radius set by first and second margins; if q's one neighbour scores higher, L(Rq) < "
    "L(Rp).",
    kind="finite",
    errata=("B-ERR-09", "B-ERR-16"),
)
def larger_margin_wins(problem: Problem, *, p: Any, q: Any) -> Outcome:
    """Compare the two risks at the corrected radius and at the paper's, which the margins alone set."""
    units = [x / np.linalg.norm(x) for x in (problem.vector("p", p), problem.vector("q", q))]
    first, second = (directional_margin(problem, x) for x in units)
    hypotheses = [
        Hypothesis("one selection, without ties", first.unique and first.selected == second.selected),
        Hypothesis("p has the larger margin", first.Gamma > second.Gamma, first.Gamma - second.Gamma),
    ]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    chosen = problem.scores[problem.offsets[:-1] + np.array(first.selected.tokens)]
    above = score_gaps(problem, chosen)
    worse = [bool(above[problem.offsets[i] + t] < 0) for i, t in second.neighbours]
    wins, loses = first.neighbour_optimal and second.neighbour_optimal, worse == [True]
    hypotheses.append(
        Hypothesis("case (i) or (ii)", wins or loses, "(i)" if wins else "(ii)" if loses else None)
    )
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))

    def advantage(R: float) -> float:
        risks = [excess_risk(problem, R * x, first.selected.tokens) for x in units]
        return lead(*risks) if wins else lead(*risks[::-1])

    radii = [threshold(problem, chosen, gap(first, second)) for gap in (deciding_gap, margin_gap)]
    found, paper = (advantage(R) for R in radii)
    measured = {"R": radii[0], "lead": found, "paper's R": radii[1], "lead there": paper}
    return Outcome(tuple(hypotheses), found or -1.0, measured, paper_slack=paper or -1.0)


@statement(
    "B-THM-L9",
    "Lemma 9: a direction whose neighbours score higher is beaten by finite ones",
    "If every directional neighbour of p scores above the selected token, L(Rp) lies below the risk of the "
    "selection for all large R.",
    kind="finite",
)
def better_neighbours(problem: Problem, *, p: Any) -> Outcome:
    """The sign of the excess risk at three radii beyond the threshold."""
    unit = problem.vector("p", p) / np.linalg.norm(problem.vector("p", p))
    found = directional_margin(problem, unit)
    hypotheses = [Hypothesis("one token selected per input", found.unique)]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    chosen = problem.scores[problem.offsets[:-1] + np.array(found.selected.tokens)]
    above = score_gaps(problem, chosen)
    worse = [float(above[problem.offsets[i] + t]) for i, t in found.neighbours]
    hypotheses.append(Hypothesis("all neighbours score higher", max(worse, default=1.0) < 0, worse))
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    R = threshold(problem, chosen, min(found.delta, found.Gamma))
    excess = [excess_risk(problem, m * R * unit, found.selected.tokens) for m in (1.0, 2.0, 4.0)]
    slack = 1.0 if all(is_below(e) for e in excess) else -1.0
    return Outcome(tuple(hypotheses), slack, {"R": R, "log of the gain": [e.log for e in excess]})


def is_below(excess: SignedLog) -> bool:
    """Whether a risk lies below the reference it is measured from."""
    return excess.sign < 0


def most_neighbours(d: int) -> int:
    """Lemma 10's bound."""
    return d


@statement(
    "B-THM-L10",
    "Lemma 10: few directional neighbours",
    "With keys in general position, no direction that selects one token per input has more than d "
    "neighbours.",
    kind="finite",
    errata=("B-ERR-10",),
)
def few_neighbours(problem: Problem, *, rng: int = 0, draws: int = 500) -> Outcome:
    """Random directions, and the max-margin directions of all feasible selections, which have the most."""
    position = general_position(problem, rng=rng)
    hypotheses = (Hypothesis("general position", position.holds, position.witness),)
    directions = list(unit_directions(problem.d, draws, generator(rng)))
    solutions = feasible_selections(problem, limit=200)
    directions += [found.direction for found in solutions if found.direction is not None]
    met = [(directional_margin(problem, q), q) for q in directions]
    most, where = max(
        ((len(m.neighbours), q) for m, q in met if m.unique), key=lambda pair: pair[0], default=(0, None)
    )
    slack = float(most_neighbours(problem.d) - most)
    return Outcome(hypotheses, slack, {"most neighbours": most}, witness=where, vacuous=most == 0)
