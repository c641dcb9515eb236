"""Lemma 7 and Theorem 3: the cone around a locally optimal direction, and descent inside it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hardmax._inputs import generator
from hardmax.dynamics.descent import descend
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.trajectory import Trajectory
from hardmax.margin.attention import max_margin
from hardmax.margin.constants import LocalConstants, local_constants
from hardmax.margin.maxmargin import MaxMargin
from hardmax.margin.neighbours import is_locally_optimal, neighbours, score_gap
from hardmax.paths import late_residual
from hardmax.problem import Problem
from hardmax.selection.direction import in_cone
from hardmax.selection.optimal import optimal_tokens
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.paper_b.common import cone_directions, decreasing_loss, log_lost, single_input
from hardmax.theory.paper_b.gradients import radial_bound

ROUNDING = 1e-9  # relative to mu: a path starts on the boundary of the cone
STEPS, DOUBLINGS = 2000, 10
PI = 1e-3  # the pi of the lemma's third claim, tested at the largest radius


def local_hypotheses(problem: Problem, best: MaxMargin) -> list[Hypothesis]:
    """Feasible, locally optimal, and with a neighbour: what Lemma 7 asks of a selection."""
    if best.is_feasible is not True:
        return [Hypothesis("selection separable", best.is_feasible, 0.0)]
    gap = score_gap(problem, best)
    return [
        decreasing_loss(problem),
        Hypothesis("selection separable", True, best.margin),
        Hypothesis("locally optimal", is_locally_optimal(problem, best), gap),
        Hypothesis("a neighbour competes", bool(neighbours(problem, best).pairs), len(best.support)),
    ]


def paper_radius(problem: Problem, found: LocalConstants) -> float:
    """The start radius that the paper's own proof asks for, (57) and (58) with C0 as small as it may be."""
    mu = found.mu
    C0 = 64 * mu / (2 - mu)
    C2 = (1 - mu) * found.A_bar**2 * found.C**2 / (found.Theta * found.c)
    C3 = max(C0 * found.Gamma * found.A / found.gap_least, C2 / smoothness(problem).L_p)
    T = int(problem.sizes.max())
    outer = max(2.0, 1 / found.delta) / found.Theta * math.log((2 - mu) * C3 * T / mu)
    return max(found.R_bar, outer)


@statement(
    "B-THM-L7",
    "Lemma 7: gradients in the cone of a locally optimal direction",
    "In the cone beyond R_bar nothing is stationary, -<grad L, q> lies between c and C times the mean lost "
    "attention, its cosine is at least c Theta/(A_bar C), and far out no direction beats p_mm by more than "
    "1 + pi.",
    kind="finite",
    errata=("B-ERR-08", "B-ERR-16"),
)
def cone_gradients(problem: Problem, *, selection: Iterable[int], rng: int = 0, draws: int = 300) -> Outcome:
    """Sample p and q in the cone; the paper's reading asks the sign of each input's own part at radius 20."""
    tokens = tuple(selection)
    best = max_margin(problem, tokens)
    hypotheses = local_hypotheses(problem, best)
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert best.direction is not None
    k = local_constants(problem, best)
    chance = generator(rng)
    sets = [(t,) for t in tokens]
    ratios, cosines, radial, strengths = [], [], [], []
    for factor in (1.0, 3.0, 10.0):
        for p, q in zip(
            cone_directions(best.direction, k.mu, draws, chance) * k.R_bar * factor,
            cone_directions(best.direction, k.mu, draws, chance), strict=True,
        ):  # fmt: skip
            pull = gradient(problem, p)
            mean_lost = float(np.logaddexp.reduce(log_lost(problem, p, sets))) - math.log(problem.n)
            size = math.exp(pull.log_norm - mean_lost)
            cosine = float(pull.direction @ q)
            cosines.append(cosine)
            ratios.append(cosine * size * best.norm)
            strengths.append(size)
            along = float(pull.direction @ p / np.linalg.norm(p)) / float(pull.direction @ best.direction)
            radial.append((factor, along))
    last = max(ratio for factor, ratio in radial if factor == 10.0)
    slack = min(
        min(ratios) / k.c - 1, 1 - max(ratios) / k.C, min(cosines) / k.cosine - 1,
        1 - max(strengths) / (k.A_bar * k.C), radial_bound(PI) - last,
    )  # fmt: skip
    found = {
        "mu": k.mu, "R_bar": k.R_bar, "c": k.c, "C": k.C, "ratio": [min(ratios), max(ratios)],
        "least cosine": min(cosines), "cosine bound": k.cosine, "worst radial ratio": last,
    }  # fmt: skip
    parts = input_parts(problem, best, 20.0)
    found["log of each input's part at radius 20"] = [math.log(abs(x)) if x else -math.inf for x in parts]
    return Outcome(
        tuple(hypotheses), slack, found, {"parts at radius 20": parts}, paper_slack=min(parts) / max(parts)
    )


def input_parts(problem: Problem, best: MaxMargin, R: float) -> list[float]:
    """Each input's own part of -<grad L, p_mm>/|p_mm| at R p_mm/|p_mm|."""
    assert best.direction is not None
    pulls = [gradient(single_input(problem, i), R * best.direction) for i in range(problem.n)]
    return [float(g.direction @ best.direction) * math.exp(g.log_norm) for g in pulls]


def overshoot(problem: Problem, best: MaxMargin, mu: float, starts: np.ndarray, rate: float) -> float:
    """The most by which normalised descent from these starts leaves the cone, over mu."""
    assert best.direction is not None
    paths = [descend(problem, STEPS, rate, start=start, record=1) for start in starts]
    gaps = [0.5 * np.square(path.directions - best.direction).sum(axis=1) for path in paths]
    return max(float(gap.max()) for gap in gaps) / mu - 1


@statement(
    "B-THM-3",
    "Theorem 3: local convergence of descent",
    "From some radius on, descent that starts in the cone of a locally optimal direction never leaves it, "
    "grows without bound and tends to p_mm; the paper's reading takes the radius of (57) and (58), with the "
    "constant that it leaves open as small as allowed.",
    kind="existential",
    errata=("B-ERR-08", "B-ERR-16"),
)
def local_convergence(
    problem: Problem,
    path: Trajectory | None = None,
    *,
    selection: Iterable[int] | None = None,
    rng: int = 0,
    starts: int = 6,
) -> Outcome:
    """Normalised descent from the boundary of the cone, at radii doubled from R_bar until it stays inside,
    then gradient flow, which stands in for the many small steps of plain descent; or a given path from where
    it enters the cone. The best tokens are the selection if none is given.
    """
    if path is not None:
        tokens = path.selection().tokens
    else:
        tokens = tuple(optimal_tokens(problem) if selection is None else selection)
    best = max_margin(problem, tokens)
    hypotheses = local_hypotheses(problem, best)
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    assert best.direction is not None
    k = local_constants(problem, best)
    if path is not None:
        return _stays_inside(path, best, k, hypotheses)
    rim = cone_directions(best.direction, k.mu, starts, generator(rng), boundary=True)
    step = late_residual(problem, best).eta_c
    rate = min(0.1, 0.5 * step) if step > 0 else 0.1  # nan without a limit of the residual
    over = [overshoot(problem, best, k.mu, k.R_bar * rim, rate)]
    while over[-1] > ROUNDING and len(over) <= DOUBLINGS:
        over.append(overshoot(problem, best, k.mu, k.R_bar * 2.0 ** len(over) * rim, rate))
    radius = k.R_bar * 2.0 ** (len(over) - 1)
    stated = paper_radius(problem, k)
    over_stated = overshoot(problem, best, k.mu, stated * rim, rate)
    flows = [flow(problem, start=radius * q, until_norm=10 * radius) for q in rim[:2]]
    fall = max(each.misalignment(best) / each.misalignment(best, 0) for each in flows)
    good = over[-1] <= ROUNDING and all(each.event is None for each in flows)
    found = {
        "radius from which it stays": radius, "R_bar": k.R_bar, "overshoot from each radius": over,
        "paper's radius": stated, "overshoot from there": over_stated, "half angle": k.half_angle,
        "end over start of 1 - cos": fall,
    }  # fmt: skip
    paper_slack = min(ROUNDING - over_stated, 1 - fall)
    return Outcome(tuple(hypotheses), 1 - fall if good else -1.0, found, paper_slack=paper_slack)


def _stays_inside(
    path: Trajectory, best: MaxMargin, k: LocalConstants, hypotheses: list[Hypothesis]
) -> Outcome:
    moved = [s for s, p in enumerate(path.points) if p.any()]  # the origin has no direction
    inside = [s for s in moved if in_cone(path.points[s], best, k.mu, k.R_bar)]
    hypotheses = [*hypotheses, Hypothesis("the path enters the cone", bool(inside), k.R_bar)]
    if not inside:
        return Outcome(tuple(hypotheses))
    gaps = path.misalignments(best)[inside[0] :]
    over, fall = float(gaps.max()) / k.mu - 1, float(gaps[-1] / gaps[0])
    found = {
        "overshoot": over,
        "end over start of 1 - cos": fall,
        "enters at norm": float(path.norms[inside[0]]),
    }
    slack = min(ROUNDING - over, 1 - fall)
    return Outcome(tuple(hypotheses), slack, found, vacuous=len(gaps) < 2)
