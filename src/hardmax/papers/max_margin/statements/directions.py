"""Lemmas 8 to 10: which of two directions has the lower risk far out, and how many neighbors one has."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._lib.arrays import polar
from hardmax._lib.expect import generator
from hardmax.directions.direction import directional_margin
from hardmax.directions.enumerate import selections
from hardmax.directions.position import general_position
from hardmax.dynamics.measures import excess_loss
from hardmax.margin.att_svm import max_margin
from hardmax.papers.checking.balls import settle
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import late_radius, lead, unit_directions
from hardmax.papers.checking.proof import balls
from hardmax.problem import Problem
from hardmax.problem.selection import score_gaps


@statement(
    "B-THM-L8",
    "Lemma 8: the larger margin wins far out",
    "Unit p and q select the same tokens, p by the larger margin: if both are neighbor-optimal, L(Rp) < "
    "L(Rq) beyond a radius set by first and second margins; if q's one neighbor scores higher, L(Rq) < "
    "L(Rp).",
    kind="finite",
    errata=("B-ERR-09", "B-ERR-16"),
)
def larger_margin_wins(problem: Problem, *, p: Any, q: Any) -> Outcome:
    """Compare the two risks at the corrected radius and at the paper's, which the margins alone set."""
    lengths, units = polar(np.array([problem.vector("p", p), problem.vector("q", q)]))
    hypotheses = need(Hypothesis("p and q are not zero", bool(lengths.all()), lengths.tolist()))
    first, second = (directional_margin(problem, x) for x in units)
    hypotheses.need(
        Hypothesis("one selection, without ties", first.unique and first.selected == second.selected),
        Hypothesis("p has the larger margin", first.Gamma > second.Gamma, first.Gamma - second.Gamma),
    )
    chosen = problem.scores[problem.offsets[:-1] + np.array(first.selected.tokens)]
    above = score_gaps(problem, chosen)
    worse = [bool(above[problem.offsets[i] + t] < 0) for i, t in second.neighbors]
    wins, loses = first.neighbor_optimal and second.neighbor_optimal, worse == [True]
    hypotheses.need(
        Hypothesis("case (i) or (ii)", wins or loses, "(i)" if wins else "(ii)" if loses else None)
    )

    better, worse_one = units if wins else units[::-1]

    def advantage(R: float) -> tuple[float, float | None, str | None]:
        risks = [excess_loss(problem, R * x, first.selected.tokens) for x in (better, worse_one)]
        seen = lead(*risks) or -1.0
        points = balls(R * better), balls(R * worse_one)
        room = settle(problem, seen, lambda exact: exact.risk(points[1]) - exact.risk(points[0]))
        return seen, *room

    gap = first.Gamma - second.Gamma  # all that the paper's radius resolves (B-ERR-09)
    radii = [late_radius(problem, x) for x in (min(gap, first.delta, second.delta), gap)]
    found, paper = (advantage(R) for R in radii)
    measured = {"R": radii[0], "lead": found[0], "paper's R": radii[1], "lead there": paper[0]}
    return Outcome(hypotheses, found[1], measured, proof=found[2], paper_slack=paper[1], paper_proof=paper[2])


@statement(
    "B-THM-L9",
    "Lemma 9: a direction whose neighbors score higher is beaten by finite ones",
    "If every directional neighbor of p scores above the selected token, L(Rp) lies below the risk of the "
    "selection for all large R.",
    kind="finite",
)
def better_neighbors(problem: Problem, *, p: Any) -> Outcome:
    """The sign of the excess risk at three radii beyond the threshold."""
    size, unit = polar(problem.vector("p", p))
    hypotheses = need(Hypothesis("p is not zero", bool(size > 0), float(size)))
    found = directional_margin(problem, unit)
    hypotheses.need(Hypothesis("one token selected per input", found.unique))
    chosen = problem.scores[problem.offsets[:-1] + np.array(found.selected.tokens)]
    above = score_gaps(problem, chosen)
    worse = [float(above[problem.offsets[i] + t]) for i, t in found.neighbors]
    hypotheses.need(Hypothesis("all neighbours score higher", max(worse, default=1.0) < 0, worse))
    R = late_radius(problem, min(found.delta, found.Gamma))
    points = [m * R * unit for m in (1.0, 2.0, 4.0)]
    excess = [excess_loss(problem, p, found.selected.tokens) for p in points]
    rooms = [-e.sign for e in excess]
    witness = points[int(np.argmin(rooms))]
    slack, proof = settle(
        problem, float(min(rooms)), lambda exact: -exact.excess(balls(witness), found.selected.tokens)
    )
    measured = {"R": R, "log of the gain": [e.log for e in excess]}
    return Outcome(hypotheses, slack, measured, witness if proof else None, proof=proof)


@statement(
    "B-THM-L10",
    "Lemma 10: few directional neighbors",
    "With keys in general position, no direction that selects one token per input has more than d "
    "neighbours.",
    kind="finite",
    hunt={"draws": 30},
    errata=("B-ERR-10",),
)
def few_neighbors(problem: Problem, *, rng: int = 0, draws: int = 500) -> Outcome:
    """Random directions, and the max-margin directions of all feasible selections, which have the most.

    Rows that are tight to rounding are counted; where there are too many, those that are tight in rational
    numbers, at the rational p_mm.
    """
    position = general_position(problem, rng=rng)
    hypotheses = (Hypothesis("general position", position.holds, position.witness),)
    met = [(directional_margin(problem, q), q) for q in unit_directions(problem.d, draws, generator(rng))]
    most = max((len(m.neighbors) for m, _ in met if m.unique), default=0)
    bound, where, proof = problem.d, None, None
    for found in selections(problem, limit=200):
        if found.direction is None:
            continue
        near = len(directional_margin(problem, found.direction).neighbors)
        if near > bound:
            exact = max_margin(problem, found.selection, exact=True).exact
            if exact is None:
                return Outcome(hypotheses, None, {"most neighbors": near, "of": found.selection})
            near = sum(exact.tight)
        if near > most:
            most, where = near, found.direction
            proof = "rational arithmetic" if near > bound else None
    slack = float(bound - most)
    return Outcome(hypotheses, slack, {"most neighbors": most}, witness=where, vacuous=most == 0, proof=proof)
