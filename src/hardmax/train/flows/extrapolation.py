"""One step of a stiff flow in coordinates of its own: linearly implicit Euler, extrapolated.

Whatever the clock, a step goes from x along a heading: x + sigma heading + z, with z = 0 at its start. Only z
is integrated, so that the right-hand side is free of the rounding noise of large x (see train/flow.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq

# Local error allowed in a step, and per unit of its length: along the heading, which nothing damps, rounding
# grows with the step. 1e-11 there means 1 - cos of 1e-22.
ABSOLUTE, RELATIVE = 1e-9, 1e-11

# Columns of the extrapolation table, which is the order of a step.
ORDER = 7

# A step shorter than this gets nowhere.
SHORTEST = 1e-14


class Leg(Protocol):
    """A step's own coordinates."""

    x: Any

    def step(self, sigma: float) -> tuple[Any, float]:
        """The end of a step of this length, and an error estimate."""


# Solves (1 - h J) y = r, made for each h.
Solver = Callable[[float], Callable[[np.ndarray], np.ndarray]]


def extrapolated(
    sigma: float,
    speed: Callable[[float, np.ndarray], np.ndarray],
    heading: np.ndarray,
    solver: Solver,
) -> tuple[np.ndarray, float]:
    """z at the end of a step of length sigma, and an error estimate.

    Linearly implicit Euler with 1, 2, 3, ... substeps, extrapolated to step size zero.
    """
    above: list[np.ndarray] = []
    row: list[np.ndarray] = []
    for parts in range(1, ORDER + 1):
        h = sigma / parts
        solve = solver(h)
        z = np.zeros(len(heading))
        for part in range(1, parts + 1):
            z = z + solve(h * (speed(part * h, z) - heading))
        above, row = row, [z]
        for k, coarser in enumerate(above, start=1):
            row.append(row[-1] + (row[-1] - coarser) / (parts / (parts - k) - 1.0))
    error = float(np.abs(row[-1] - row[-2]).max())
    return row[-1], error if math.isfinite(error) else math.inf


def accepted(step: Callable[[float], tuple[Any, float]], sigma: float) -> tuple[Any, float, float] | None:
    """The end of a step of at most this length with a small error, its length, and by how much to grow.

    None where even the shortest step has too large an error.
    """
    while True:
        end, error = step(sigma)
        tolerance = ABSOLUTE + RELATIVE * sigma
        growth = 0.8 * (tolerance / error) ** (1.0 / ORDER) if error > 0.0 else math.inf
        if error <= tolerance:
            return end, sigma, growth
        sigma *= min(max(growth, 0.1), 0.7)
        if sigma < SHORTEST:
            return None


def crossing(leg: Leg, stop: Callable[[Any], float], sigma: float) -> float:
    """Step length at which a stop is met; the step itself is the interpolant, so nothing is lost."""
    return float(brentq(lambda s: stop(leg.step(s)[0] if s > 0 else leg.x), 0.0, sigma, rtol=1e-13))
