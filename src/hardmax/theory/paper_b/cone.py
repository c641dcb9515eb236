"""Theorem 4: only locally optimal directions attract a cone-restricted regularisation path."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.dynamics.trajectory import misalignment
from hardmax.margin.enumerate import locally_optimal
from hardmax.paths import LocalPath, local_path
from hardmax.problem import Problem
from hardmax.selection.position import general_position
from hardmax.theory.check import Hypothesis, Outcome, statement

SAME = 1e-12  # directions with a smaller 1 - cos are one direction


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
    problem: Problem, *, q: Any, mu: float = 2e-4, R0: float = 20.0
) -> Outcome:
    """The path in the cone at radii up to 50 times its inner one: bounded, or half the cone away from q."""
    direction = problem.vector("q", q)
    distinct = all(len(set(g.tolist())) == len(g) for g in problem.split(problem.scores))
    position = general_position(problem, rng=0)
    nearest = min(
        (misalignment(direction, found.direction) for found in locally_optimal(problem)
         if found.direction is not None), default=np.inf,
    )  # fmt: skip
    hypotheses = (
        Hypothesis("distinct scores", distinct),
        Hypothesis("general position", position.holds, position.witness),
        Hypothesis("q not locally optimal", nearest > SAME, nearest),
    )
    path = local_path(problem, direction, mu=mu, R0=R0, radii=[2.5 * R0, 10 * R0, 50 * R0])
    found = {
        "norms": path.norms, "degrees to q": np.degrees(path.angles), "sign of the excess": path.sign,
        "half angle": np.degrees(path.half_angle),
    }  # fmt: skip
    slack = 1.0 if path.is_bounded else distance_kept(path)
    return Outcome(hypotheses, slack, found, witness=path.points[-1])
