"""Normalised gradient flow along its arc length: dp/ds = -gradient/|gradient|.

|dp/ds| = 1, so p grows with s while what is beside its limit relaxes at a rate of order 1: a stiff problem,
which an implicit method crosses in steps of the size of s. Only differences of the exponents matter, of
numbers as large as s. So each step has coordinates of its own, p = start + sigma heading + z: the exponents
of the start are formed once, in extended precision where the machine has it, relative to the one that pulls
most, and inside the step only their small changes appear.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from hardmax._lib import expect
from hardmax.dynamics.edges.flow import EdgeField, LeftForm
from hardmax.dynamics.edges.fluxes import edges_of
from hardmax.dynamics.flows.field import Field, Leg, accepted, crossing, extrapolated
from hardmax.problem import Problem

# The first step's length, and the largest factor from one step to the next.
FIRST, GROWTH = 0.125, 8.0

# A flow that in so many steps comes only a tenth farther is stuck.
STEPS = 1_000

# Steps this short may be those at a finite limit, which is looked for.
SHORT = 1e-3


class ArcField(Protocol):
    """A right-hand side that makes the steps' own coordinates."""

    power: int  # the state and its arc lengths are those of p times 2^power
    is_bold: bool  # whether a length that was too long for one step is tried again in the next
    start: Any

    def leg(self, x: Any, heading: np.ndarray | None) -> Leg:
        """A step from x."""

    def whole(self, x: Any) -> Any:
        """p of a state, times 2^power."""

    def limit(self, x: Any) -> Any | None:
        """The finite limit that x has come to, if it has."""

    def event(self, x: Any) -> str | None:
        """Why there is no direction at x, if there is none."""


def follow(
    problem: Problem,
    p: np.ndarray,
    ends: Sequence[Callable[[np.ndarray, int], float]],
    until_length: float | None,
    record: Iterable[float] | None,
) -> tuple[Problem, np.ndarray, Any, str | None]:
    """The problem, arc lengths, points (in extended precision) and event of the flow from p.

    Where the edge form of a next-token problem is left, the rest of the way is that of any problem, with
    dense matrices.
    """
    last = math.inf if until_length is None else expect.positive("until_length", until_length)
    wanted = [] if record is None else np.unique([float(s) for s in record]).tolist()
    if wanted and not 0.0 <= wanted[0] <= wanted[-1] <= last:
        raise ValueError(f"record must be arc lengths from 0 to until_length = {last:g}, got {record!r}")
    path = _Path(p.astype(np.longdouble), [s for s in wanted if s > 0.0], last, record is None)
    edges = edges_of(problem)
    event = None
    if edges is not None:
        with contextlib.suppress(LeftForm):
            event = path.go(EdgeField(problem, edges, p), ends)
            return problem, np.array(path.lengths), np.array(path.points), event
    event = path.go(_Arc(problem, np.asarray(path.p, dtype=np.float64)), ends)
    return problem, np.array(path.lengths), np.array(path.points), event


def stop_at(
    end: Callable[[np.ndarray, int], float], whole: Callable[[Any], Any], power: int
) -> Callable[[Any], float]:
    """An end of a flow as a function of its state."""
    return lambda x: end(np.asarray(whole(x), dtype=np.float64), power)


class _Path:
    """How far the flow has come, and what was kept of it."""

    def __init__(self, p: Any, wanted: list[float], last: float, keep_all: bool) -> None:
        self.p, self.s, self.sigma = p, 0.0, FIRST
        self.lengths, self.points = [0.0], [p]
        self.steps, self.mark = 0, 0.0
        self.wanted, self.last, self.keep_all = wanted, last, keep_all

    def _is_stuck(self) -> bool:
        """Whether many steps brought less than a tenth of the way: the field turns faster than it moves."""
        if self.steps % STEPS:
            return False
        before, self.mark = self.mark, self.s
        return self.s < 1.1 * before

    def keep(self) -> None:
        """Keep the present point."""
        if self.s > self.lengths[-1]:
            self.lengths.append(self.s)
            self.points.append(self.p)

    def go(self, field: ArcField, ends: Sequence[Callable[[np.ndarray, int], float]]) -> str | None:
        """Follow a field to an end; the event that stopped it, if one did."""
        x, heading, power = field.start, None, field.power
        reason = field.event(x)
        if reason is not None:
            return reason
        stops = [stop_at(end, field.whole, power) for end in ends]
        targets = [s for s in self.wanted if s > self.s]
        s, sigma = float(np.ldexp(self.s, power)), self.sigma
        for target in [*targets, self.last] if not targets or targets[-1] < self.last else targets:
            goal = float(np.ldexp(target, power))
            while s < goal:
                if any(stop(x) <= 0.0 for stop in stops):
                    self.keep()
                    return None
                asked = min(sigma, goal - s)
                leg = field.leg(x, heading)
                taken = accepted(leg.step, asked)
                if taken is None:
                    self.keep()
                    return "precision exhausted"
                end, length, growth = taken
                crossed = [stop for stop in stops if stop(end) <= 0.0]
                if crossed:
                    length = min(crossing(leg, stop, length) for stop in crossed)
                    end, _ = leg.step(length)
                heading = ((end - x) / np.longdouble(length)).astype(np.float64)
                x, s = end, s + length
                self.p, self.s = np.ldexp(field.whole(x), -power), float(np.ldexp(s, -power))
                self.steps += 1
                if self.keep_all or crossed:
                    self.keep()
                if crossed:
                    return None
                if self._is_stuck():
                    self.keep()
                    return "precision exhausted"
                resting = field.limit(x) if length < SHORT else None
                if resting is not None:
                    self.keep()
                    self.points[-1] = self.p = np.ldexp(field.whole(resting), -power)
                    return "stationary point"
                # a step that was cut short to end at a target says little about the next one
                cut = length < sigma and (length == asked or field.is_bold)
                sigma = sigma if cut and growth > 1.0 else length
                sigma *= min(growth, GROWTH)
                self.sigma = sigma
            self.keep()
        return None


class _Arc:
    """Any problem, in an orthonormal basis of the span that p moves in, with keys of size one."""

    def __init__(self, problem: Problem, p: np.ndarray) -> None:
        self.field = Field(problem, p)
        self.start = self.field.start.astype(np.longdouble)
        self.power, self.is_bold = self.field.scale.exponent, False

    def leg(self, x: Any, heading: np.ndarray | None) -> Leg:
        """A step from x."""
        return _ArcLeg(self.field, x, heading)

    def whole(self, x: Any) -> Any:
        """p in the units of the scaled keys."""
        return self.field.origin + self.field.basis @ x

    def limit(self, x: Any) -> Any | None:
        """By Newton's method."""
        return self.field.limit(x)

    def event(self, x: Any) -> str | None:
        """A gradient of exactly zero."""
        settled = self.field.settle(x)
        if not settled.weights.any():
            return "no competing token" if np.isneginf(settled.log_scale).all() else "stationary point"
        return None


class _ArcLeg:
    """One step's own coordinates: p = x + sigma heading + z.

    Exponents have tau added, minus the logit gap of the slot that pulls most, at the start and all along the
    heading, so that they are of order one where it matters.
    """

    def __init__(self, field: Field, x: Any, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        settled = field.settle(x)
        self.tops, self.D = settled.tops, settled.differences(field.slots.keys)
        wide = self.D.astype(np.longdouble)
        gaps = wide @ x
        with np.errstate(divide="ignore"):
            pulls = settled.per_slot(settled.log_scale) + np.log(np.abs(settled.weights))
        pulls[self.tops] = -np.inf
        above = int(np.argmax(pulls))
        self.exponents, self.tau = (gaps - gaps[above]).astype(float), -float(gaps[above])
        F = field.force(self.exponents, self.tau, self.D, self.tops)
        length = math.sqrt(F @ F)
        unit = F / length
        dF, _ = field.bend(self.exponents, self.tau, self.D, self.tops)
        self.jacobian = (dF - np.outer(unit, unit @ dF)) / length
        self.heading = unit if heading is None else heading
        rise = wide @ self.heading.astype(np.longdouble)
        self.rise, self.tau_rate = (rise - rise[above]).astype(float), -float(rise[above])

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """dp/ds at a point of the step."""
        gaps = self.exponents + sigma * self.rise + self.D @ z
        F = self.field.force(gaps, self.tau + sigma * self.tau_rate, self.D, self.tops)
        length = math.sqrt(F @ F)
        return F / length if length > 0.0 else np.full(len(F), math.nan)

    def step(self, sigma: float) -> tuple[Any, float]:
        """The end of a step of length sigma, and an error estimate."""
        z, error = extrapolated(sigma, self.speed, self.heading, self._solver)
        return self.x + np.longdouble(sigma) * self.heading.astype(np.longdouble) + z, error

    def _solver(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        factors, pivots, _ = dgetrf(np.eye(len(self.heading)) - h * self.jacobian)
        return lambda r: dgetrs(factors, pivots, r)[0]
