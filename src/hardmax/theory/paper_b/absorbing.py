"""The cone that descent never leaves: Lemma 7's last claim and Theorem 3's radius, all constants named."""

from __future__ import annotations

import math
from typing import Any

from hardmax.dynamics.measures import smoothness
from hardmax.margin.constants import LocalConstants, local_constants, slope_range
from hardmax.margin.maxmargin import MaxMargin
from hardmax.problem import Problem
from hardmax.selection.direction import in_cone


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
    >>> from hardmax.theory.paper_b.absorbing import radius_for
    >>> problem = hm.data.named("B-FIG-8")
    >>> constants = hm.local_constants(problem, hm.max_margin(problem, [0, 1]))
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


def is_absorbed(problem: Problem, p: Any, best: MaxMargin) -> bool:
    """Whether p lies in the cone of a locally optimal direction beyond its radius: the limit is then proved.

    >>> import hardmax as hm
    >>> from hardmax.theory.paper_b.absorbing import is_absorbed
    >>> problem = hm.data.named("B-FIG-8")
    >>> best = hm.max_margin(problem, [0, 1])
    >>> [is_absorbed(problem, R * best.p, best) for R in (1e3, 1e12)]
    [False, True]
    """
    k = local_constants(problem, best)
    return in_cone(p, best, k.mu, absorbing_radius(problem, k))
