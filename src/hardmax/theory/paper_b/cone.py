"""Theorem 4: only locally optimal directions attract a cone-restricted regularisation path."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.dynamics.trajectory import misalignment
from hardmax.margin.enumerate import locally_optimal
from hardmax.paths import LocalPath, local_path
from hardmax.problem import Problem
from hardmax.selection.direction import directional_margin
from hardmax.selection.position import general_position
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import decreasing_loss, distinct_scores, late_radius, longest_difference

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
    position = general_position(problem, rng=0)
    nearest = min(
        (misalignment(direction, found.direction) for found in locally_optimal(problem)
         if found.direction is not None), default=np.inf,
    )  # fmt: skip
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
            "norms": path.norms, "degrees to q": np.degrees(path.angles), "sign of the excess": path.sign,
            "half angle": np.degrees(path.half_angle),
        }  # fmt: skip
        if R0 is not None:
            break
        inner *= 100
    return Outcome(hypotheses, slack, found)


def first_radius(problem: Problem, q: np.ndarray) -> float:
    """Where the tokens that q selects, and its neighbours, stand out from the rest; ties do from anywhere."""
    met = directional_margin(problem, q / np.linalg.norm(q))
    gaps = [gap for gap in (met.Gamma, met.delta) if 0 < gap < np.inf]
    return late_radius(problem, min(gaps, default=longest_difference(problem)))
