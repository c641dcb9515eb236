"""The field that a flow follows, and one extrapolated step along it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq

from hardmax.dynamics.flows.kernels import extrapolated_step, shifted_force
from hardmax.dynamics.gradient import Expansion, Settled, expand, pull_of, settle_at, settle_gaps
from hardmax.problem import Problem
from hardmax.problem.coordinates import orthonormal_basis, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.problem import Slots, slots_of

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
    sigma: float, speed: Callable[[float, np.ndarray], np.ndarray], heading: np.ndarray, solver: Solver
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


def explicit(
    sigma: float, speed: Callable[[float, np.ndarray], np.ndarray], heading: np.ndarray, velocity: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """The same by an explicit step of order 8 (Dormand and Prince), from the speed at its start.

    Third comes how fast the speed changes with z, from the last stage to the end, both at sigma: times sigma
    it may be about 6 before explicit steps are unstable.
    """
    from scipy.integrate import DOP853 as method  # 30 ms that others need not wait for

    slopes = np.empty((method.n_stages, len(heading)))
    slopes[0] = velocity - heading
    z = np.zeros(len(heading))
    for k in range(1, method.n_stages):
        z = sigma * (method.A[k, :k] @ slopes[:k])
        slopes[k] = speed(method.C[k] * sigma, z) - heading
    end = sigma * (method.B @ slopes)
    turn = speed(sigma, end) - heading - slopes[-1]
    apart = float(np.linalg.norm(end - z))
    fifth, third = (float(np.abs(each[:-1] @ slopes).max()) for each in (method.E5, method.E3))
    error = sigma * fifth**2 / math.hypot(fifth, 0.1 * third) if fifth > 0.0 else 0.0
    slope = float(np.linalg.norm(turn)) / apart if apart > 0.0 else 0.0
    return end, error if math.isfinite(error) else math.inf, slope


def accepted(
    step: Callable[[float], tuple[Any, float]], sigma: float, size: float = 0.0
) -> tuple[Any, float, float] | None:
    """The end of a step of at most this length with a small error, its length, and by how much to grow.

    The error may be relative to a ``size`` too. None where even the shortest step has too large an error.
    """
    while True:
        end, error = step(sigma)
        tolerance = ABSOLUTE + RELATIVE * (sigma + size)
        growth = 0.8 * (tolerance / error) ** (1.0 / ORDER) if error > 0.0 else math.inf
        if error <= tolerance:
            return end, sigma, growth
        sigma *= min(max(growth, 0.1), 0.7)
        if sigma < SHORTEST:
            return None


def crossing(leg: Leg, stop: Callable[[Any], float], sigma: float) -> float:
    """Optimizer length at which a stop is met; the step itself is the interpolant, so nothing is lost."""
    return float(brentq(lambda s: stop(leg.step(s)[0] if s > 0 else leg.x), 0.0, sigma, rtol=1e-13))


# The flow starts where it has moved this far, relative to the scale on which the gradient changes.
FIRST_MOVE = 1e-10

# A pull this small beside its parts is rounding.
NOISE = 1e-14

# The speed at a trial point may be anything; it is capped here instead of overflowing.
OVERFLOW = 300.0


class Field:
    """The right-hand side, in an orthonormal basis of the span that p moves in, with keys of size one.

    With keys divided by c the flow of c p is the same in the time c^2 t, so tolerances can be plain numbers.
    """

    def __init__(self, problem: Problem, p: np.ndarray) -> None:
        self.problem, self.scale = problem, scaled(problem, to_one=True)
        seen, y = self.scale.problem, self.scale.point(p, "start")
        slots = slots_of(seen)
        self.basis = self.basis_of(slots)
        self.start = self.basis.T @ y
        self.origin = y - self.basis @ self.start
        table = Dense(np.ascontiguousarray(seen.keys @ self.basis))
        self.reduced = seen._with(table=table, W=None)
        self.slots = replace(slots, table=table)
        self.is_linear = not problem.readout.moves
        self.is_compiled = self.is_linear and problem.loss.is_compiled
        self.scores = slots.merge(problem.scores) if self.is_linear else np.zeros(len(slots.tokens))
        self.scratch = [np.empty(len(slots.tokens)), *(np.empty(problem.n) for _ in range(5))]

    def basis_of(self, slots: Slots) -> np.ndarray:
        """Orthonormal columns whose span p does not leave."""
        return orthonormal_basis(slots)

    def whole(self, y: np.ndarray) -> np.ndarray:
        """p of coordinates in the basis, in units in which keys have size one."""
        return self.origin + self.basis @ y.astype(float)

    def settle(self, y: np.ndarray) -> Settled:
        """Attention at a point."""
        return settle_at(self.reduced, y.astype(float), self.slots)

    def expand(self, y: np.ndarray) -> Expansion:
        """First and second order at a point."""
        settled = self.settle(y)
        return expand(self.reduced, settled, settled.differences(self.slots.keys))

    def second_order(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> Expansion:
        """First and second order of the risk, from logit gaps to the top slots that have tau added."""
        return expand(self.reduced, settle_gaps(self.reduced, self.slots, gaps, tops, tau), D)

    def first_log_time(self) -> float:
        """log t at which p has just begun to move, seen from the gradient and its derivative at the start."""
        change = pull_of(self.settle(self.start), self.slots.table, self.reduced.total).log_norm
        if self.is_linear:
            second = self.expand(self.start)
            steepest = float(np.abs(second.H).max())
            if steepest > 0.0:
                change = max(change, second.common - math.log(self.reduced.total) + math.log(steepest))
        return math.log(FIRST_MOVE) - change

    def limit(self, y: np.ndarray) -> np.ndarray | None:
        """The minimiser at which y has come to rest, by Newton's method; None while p still travels."""
        if not self.is_linear:
            return None
        y = y.astype(float)
        for _ in range(10):
            at = self.expand(y)
            step = np.linalg.lstsq(at.H, -at.V, rcond=1e-13)[0]
            if np.linalg.norm(step) > 1e-6 * (1.0 + np.linalg.norm(y)):
                return None
            if at.V @ at.H @ at.V >= 0.0:  # uphill: a saddle that p is leaving
                return None
            y = y + step
            if np.linalg.norm(step) <= 4e-16 * np.linalg.norm(y) or np.linalg.norm(at.V) <= 2e-16 * at.size:
                return y
        return None

    def force(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """e^tau times minus the gradient, from logit gaps to the top slots that have tau added already."""
        slots, problem = self.slots, self.reduced
        if self.is_compiled:
            F = np.empty(D.shape[1])
            shifted_force(
                gaps,
                D,
                tops,
                self.scores,
                slots.counts,
                slots.offsets,
                problem.log_weights,
                problem.total,
                tau,
                *problem.kernel_slope,
                OVERFLOW,
                *self.scratch,
                F,
            )
            return F
        settled = settle_gaps(self.reduced, slots, gaps, tops, tau)
        scale = np.exp(np.minimum(settled.log_scale, OVERFLOW)) / problem.total
        return (settled.per_slot(scale) * settled.weights) @ D

    def extrapolated(
        self,
        sigma: float,
        tau: float,
        exponents: np.ndarray,
        rise: np.ndarray,
        D: np.ndarray,
        heading: np.ndarray,
        jacobian: np.ndarray,
        tops: np.ndarray,
    ) -> tuple[np.ndarray, float]:
        """`extrapolated` in one compiled call, where `is_compiled`."""
        slots, problem, z = self.slots, self.reduced, np.empty(len(heading))
        error = extrapolated_step(
            sigma,
            ORDER,
            tau,
            exponents,
            rise,
            D,
            heading,
            jacobian,
            tops,
            self.scores,
            slots.counts,
            slots.offsets,
            problem.log_weights,
            problem.total,
            *problem.kernel_slope,
            OVERFLOW,
            *self.scratch,
            z,
        )
        return z, error

    def bend(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> tuple[np.ndarray, bool]:
        """The derivative of the force by p, and whether the pulls cancel to rounding."""
        if self.is_linear:
            second = self.second_order(gaps, tau, D, tops)
            is_noise = bool(np.linalg.norm(second.V) <= NOISE * second.size)
            return second.H * (math.exp(min(second.common, OVERFLOW)) / self.reduced.total), is_noise
        h = 1e-6
        columns = [
            self.force(gaps + h * D[:, j], tau, D, tops) - self.force(gaps - h * D[:, j], tau, D, tops)
            for j in range(D.shape[1])
        ]
        return np.stack(columns, axis=1) / (2 * h), False
