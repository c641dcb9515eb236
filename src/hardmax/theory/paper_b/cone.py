"""Cones: the one that descent never leaves (Lemma 7, Theorem 3), and Theorem 4 on restricted paths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib.arrays import misalignment
from hardmax.directions.direction import LocalConstants, directional_margin, slope_range
from hardmax.directions.enumerate import locally_optimal
from hardmax.directions.position import general_position
from hardmax.limits import LocalPath, local_path
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import decreasing_loss, distinct_scores, late_radius, longest_difference
from hardmax.train.measures import smoothness


def least_fall_of_margin(k: LocalConstants, pi: float) -> float:
    """nu of (49): a p in the cone, as long as p_mm and pi/(4 A Theta) away, has a support row below 1 - 2 nu.

    p_mm is a sum of support rows with multipliers that add up to |p_mm|^2; were all rows above 1 - 2 nu at p,
    1 - cos(p, p_mm) would be at most 2 nu, and |p - p_mm|^2 at most 4 nu |p_mm|^2.
    """
    return pi**2 / (128 * k.A**2)


def radius_for(problem: Problem, k: LocalConstants, pi: float) -> float:
    """R_pi of Lemma 7: beyond it, in the cone, no p pulls along itself more than 1 + pi times as along p_mm.

    The largest of (46), whose constant works out as 96, of (49), and of what the last lines of the proof need
    to weigh inputs of full margin against one that has lost some.

    >>> import hardmax as hm
    >>> from hardmax.theory.paper_b.cone import radius_for
    >>> problem = hm.data.named("B-FIG-8")
    >>> constants = hm.directions.local_constants(problem, hm.max_margin(problem, [0, 1]))
    >>> [float(f"{radius_for(problem, constants, pi):.3g}") for pi in (1.0, 1e-3)]
    [799.0, 2570000000.0]
    """
    T, n = int(problem.sizes.max()), problem.n
    share = T * k.Gamma * k.A / (pi * k.gap_least)
    nu = least_fall_of_margin(k, pi)
    least, most = slope_range(problem.loss, float(abs(problem.scores).max()))
    return (
        max(
            max(2.0, 1 / k.delta) * math.log(96 * share),
            math.log(8 * share) / nu,
            math.log(8 * n * T * share * most / least) / (pi / 2 + 2 * nu),
        )
        / k.Theta
    )


def absorbing_radius(problem: Problem, k: LocalConstants) -> float:
    """Theorem 3's R0 = R_pi with pi = mu/(2 - mu), (49) included, and (57) and (58) for the step 1/L_p."""
    mu = k.mu
    C2 = (1 - mu) * k.A_bar**2 * k.C**2 / (k.Theta * k.c)
    T = int(problem.sizes.max())
    for_step = 2 / k.Theta * math.log(max((2 - mu) / mu * C2 * T / smoothness(problem).L_p, 1.0))
    return max(k.R_bar, radius_for(problem, k, mu / (2 - mu)), for_step)


SAME = 1e-12  # directions with a smaller 1 - cos are one direction, as far as doubles tell
WIDEST = 2e-4  # mu of the widest cone that is looked at
FARTHEST = 1e12  # over the longest key difference: logits are then good to 1e-4


def distance_kept(path: LocalPath) -> float:
    """How far the end of a path stays from q, over the cone's half angle, beyond one half."""
    return float(path.angles[-1] / path.half_angle) - 0.5


@statement(
    "B-THM-4",
    "Theorems 4 and 7: what does not attract local paths",
    "With distinct scores and keys in general position, a path of least risk in a cone around a direction "
    "that is not locally optimal stays bounded or does not tend to that direction.",
    kind="limit",
    errata=("B-ERR-09", "B-ERR-10", "B-ERR-20"),
)
def only_local_optima_attract_paths(
    problem: Problem, *, q: Any, mu: float | None = None, R0: float | None = None
) -> Outcome:
    """The path in the cone at radii up to 50 times its inner one: bounded, or half the cone away from q.

    The cone leaves out every locally optimal direction if no ``mu`` is given; the inner radius is where q's
    own margins are late, and grows a hundredfold while the path is not yet on its way.
    """
    direction = problem.vector("q", q)
    if not direction.any():
        return Outcome((Hypothesis("q is not zero", False),))
    position = general_position(problem, rng=0)
    nearest = min(
        (
            misalignment(direction, found.direction)
            for found in locally_optimal(problem)
            if found.direction is not None
        ),
        default=np.inf,
    )
    # two roundings of one direction are as far apart; an exact answer would need an exact q
    other = True if nearest > SAME else False if nearest <= 1e-15 else None
    hypotheses = (
        decreasing_loss(problem),
        distinct_scores(problem),
        Hypothesis("general position", position.holds, position.witness),
        Hypothesis("q not locally optimal", other, nearest),
    )
    longest = longest_difference(problem)
    if unmet(hypotheses) or longest == 0 or problem.d == 1:  # on the line a cone is one direction
        return unsaid(hypotheses)
    width = min(WIDEST, nearest / 4) if mu is None else mu
    inner = first_radius(problem, direction) if R0 is None else R0
    slack, found = None, {}
    while (slack is None or slack < 0) and 50 * inner * longest <= FARTHEST:
        path = local_path(problem, direction, mu=width, R0=inner, radii=[2.5 * inner, 10 * inner, 50 * inner])
        slack = 1.0 if path.is_bounded else distance_kept(path)
        found = {
            "norms": path.norms,
            "degrees to q": np.degrees(path.angles),
            "sign of the excess": path.sign,
            "half angle": np.degrees(path.half_angle),
        }
        if R0 is not None:
            break
        inner *= 100
    return Outcome(hypotheses, slack, found)


def first_radius(problem: Problem, q: np.ndarray) -> float:
    """Where the tokens that q selects, and its neighbours, stand out from the rest; ties do from anywhere."""
    met = directional_margin(problem, q / np.linalg.norm(q))
    gaps = [gap for gap in (met.Gamma, met.delta) if 0 < gap < np.inf]
    return late_radius(problem, min(gaps, default=longest_difference(problem)))
