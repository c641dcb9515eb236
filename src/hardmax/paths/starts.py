"""Where the search for a path begins: the directions that may attract, and random ones."""

from __future__ import annotations

import numpy as np

from hardmax import _inputs
from hardmax.margin.enumerate import feasible_selections
from hardmax.problem import Problem

# Feasible selections looked at before the starts are chosen from them; there may be T^n in all.
LOOKED_AT = 1000


def attracting_directions(problem: Problem, count: int) -> list[np.ndarray]:
    """Directions of feasible p_mm, locally optimal ones first, and among equals the larger margin first."""
    found = [each for each in feasible_selections(problem, limit=LOOKED_AT) if each.direction is not None]
    found.sort(key=lambda each: (not each.locally_optimal, -each.max_margin.margin))
    return [each.direction for each in found[:count] if each.direction is not None]


def random_directions(d: int, pairs: int, rng: int | np.random.Generator) -> list[np.ndarray]:
    """Unit vectors in opposite pairs."""
    drawn = _inputs.generator(rng).normal(size=(pairs, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return [sign * q for q in drawn for sign in (1.0, -1.0)]
