"""Gradient flow in log time, far beyond underflow.

With tau = log t the flow reads dp/dtau = F = t (-grad L). Late in training p grows linearly in tau, because
the factor t and the vanishing gradient balance; so an implicit method takes geometrically growing steps, and
t = e^(10,000,000) is a matter of a second. In between, p may leave a plateau within less than one unit of t
when t is already e^45, which log t cannot resolve; so the integration runs in the arc length of (p, tau), and
tau is an unknown like p.

Each step is taken in coordinates of its own: (p, tau) = start + sigma heading + z, with the heading of the
step before. The exponents tau + (k_t - k_top).p, differences of huge numbers, are then formed once a step, in
extended precision where the machine has it; inside the step only their small changes appear, so that the
right-hand side is free of rounding noise at any norm. (A general stiff solver sees that noise and stalls.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.optimize import brentq

from hardmax._lib import expect
from hardmax._lib.arrays import misalignment
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.slots import slots_of
from hardmax.train.coordinates import orthonormal_basis
from hardmax.train.gradient import Expansion, Settled, expand, pull_of, settle_at, settle_gaps
from hardmax.train.loops import shifted_force
from hardmax.train.run import Run
from hardmax.train.scale import scaled

# Local error allowed in a step, and per unit of its length: along the heading, which nothing damps, rounding
# grows with the step. 1e-11 there means 1 - cos of 1e-22.
ABSOLUTE, RELATIVE = 1e-9, 1e-11

# Columns of the extrapolation table, which is the order of a step.
ORDER = 7

# The flow starts where it has moved this far, relative to the scale on which the gradient changes.
FIRST_MOVE = 1e-10

# Below this speed per arc length p may have come to rest, and the nearest stationary point is looked for.
SLOW = 0.01

# A pull this small beside its parts is rounding. A flow is stuck in such noise if in this many steps neither
# log t advances by 1 nor p by a tenth of its norm.
NOISE, STEPS = 1e-14, 1_000

# The speed at a trial point may be anything; it is capped here instead of overflowing.
OVERFLOW = 300.0

Stop = Callable[[np.ndarray], float]


def flow(
    problem: Problem,
    *,
    until_norm: float | None = None,
    until_log_time: float | None = None,
    until_misalignment: tuple[Any, float] | None = None,
    start: Any = None,
) -> Run:
    """Gradient flow of p from ``start`` (the origin by default), on the clock "log t".

    It stops at a norm of p (1e6 unless another stop is given), at a log time, or when 1 - cos to a direction
    falls below a value, whichever comes first, and earlier at a finite limit (event "stationary point"). If
    the end still has inputs that do not select one token, the event is "tie".

    >>> import hardmax as hm
    >>> path = hm.flow(hm.data.named("B-FIG-8"), until_norm=1e6)
    >>> path.selection().tokens, path.clock, path.event
    ((0, 0), 'log t', None)
    >>> path.misalignment([1.0, 3.0]) < 1e-12
    True
    """
    p = problem.vector("start", start)
    problem.need_decreasing_loss()
    if until_norm is None and until_log_time is None and until_misalignment is None:
        until_norm = 1e6
    field = _Field(problem, p)
    stops: list[Stop] = []
    if until_norm is not None:
        limit = field.scale.point(np.array(expect.positive("until_norm", until_norm)), "until_norm")
        stops.append(lambda x: float(limit) - float(np.linalg.norm(field.y(x))))
    if until_misalignment is not None:
        target, value = until_misalignment
        least = expect.positive("until_misalignment[1]", value)
        stops.append(lambda x: misalignment(field.y(x), target) - least if field.y(x).any() else 1.0)
    if until_log_time is not None:
        end = float(expect.finite_array("until_log_time", until_log_time, ()))
        stops.append(lambda x: end - field.log_time(x))
    return _integrate(field, stops)


class _Field:
    """The right-hand side, in an orthonormal basis of the span that p moves in, with keys of size one.

    With keys divided by c the flow of c p is the same in the time c^2 t, so tolerances can be plain numbers.
    """

    def __init__(self, problem: Problem, p: np.ndarray) -> None:
        self.problem, self.scale = problem, scaled(problem, to_one=True)
        seen, y = self.scale.problem, self.scale.point(p, "start")
        slots = slots_of(seen)
        self.basis = orthonormal_basis(slots)
        self.start = self.basis.T @ y
        self.origin = y - self.basis @ self.start
        table = Dense(np.ascontiguousarray(seen.keys @ self.basis))
        self.reduced = replace(seen, table=table, W=None)
        self.slots = replace(slots, table=table)
        self.is_linear = not problem.head.moves
        self.is_compiled = self.is_linear and problem.loss.is_compiled
        self.scores = slots.merge(problem.scores) if self.is_linear else np.zeros(len(slots.tokens))
        self.scratch = [np.empty(len(slots.tokens)), *(np.empty(problem.n) for _ in range(5))]

    def y(self, x: np.ndarray) -> np.ndarray:
        """p of a state, in units in which keys have size one."""
        return self.origin + self.basis @ x[:-1].astype(float)

    def log_time(self, x: np.ndarray) -> float:
        """log t of a state."""
        return float(x[-1]) - 2.0 * self.scale.log

    def settle(self, y: np.ndarray) -> Settled:
        return settle_at(self.reduced, y.astype(float), self.slots)

    def expand(self, y: np.ndarray) -> Expansion:
        settled = self.settle(y)
        return expand(self.reduced, settled, settled.differences(self.slots.keys))

    def first_log_time(self) -> float:
        """log t at which p has just begun to move, seen from the gradient and its derivative at the start."""
        change = pull_of(self.settle(self.start), self.slots.table, self.problem.total).log_norm
        if self.is_linear:
            second = self.expand(self.start)
            steepest = float(np.abs(second.H).max())
            if steepest > 0.0:
                change = max(change, second.common - math.log(self.problem.total) + math.log(steepest))
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


class _Leg:
    """One step's own coordinates: (p, tau) = x + sigma heading + z, with sigma the arc length of (p, tau)."""

    def __init__(self, field: _Field, x: np.ndarray, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        settled = field.settle(x[:-1])
        self.tops = settled.tops
        self.D = settled.differences(field.slots.keys)
        wide = np.column_stack([self.D, np.ones(len(self.D))]).astype(
            np.longdouble
        )  # d/d(p, tau) of an exponent
        self.exponents = (wide @ x).astype(float)
        self.heading, self.rise = np.zeros(len(x)), np.zeros(len(self.D))
        self.is_noise = False  # whether the pulls cancel to rounding, so that their sum has no direction
        self.velocity, self.jacobian = self._linearize()
        self.heading = self.velocity if heading is None else heading
        self.rise = (wide @ self.heading.astype(np.longdouble)).astype(float)

    def _gaps(self, sigma: float, z: np.ndarray) -> tuple[np.ndarray, float]:
        """tau + logit gaps to the top slots, and tau."""
        gaps = self.exponents + sigma * self.rise + self.D @ z[:-1] + z[-1]
        return gaps, float(self.x[-1]) + sigma * self.heading[-1] + z[-1]

    def _settled(self, sigma: float, z: np.ndarray) -> Settled:
        gaps, tau = self._gaps(sigma, z)
        return settle_gaps(self.field.reduced, self.field.slots, gaps, self.tops, tau)

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """F = dp/dtau."""
        field, slots = self.field, self.field.slots
        if field.is_compiled:
            F = np.empty(self.D.shape[1])
            gaps, tau = self._gaps(sigma, z)
            shifted_force(
                gaps, self.D, self.tops, field.scores, slots.counts, slots.offsets,
                field.problem.log_weights, field.problem.total, tau,
                field.problem.loss.log_slope, OVERFLOW, *field.scratch, F,
            )  # fmt: skip
            return F
        settled = self._settled(sigma, z)
        scale = np.exp(np.minimum(settled.log_scale, OVERFLOW)) / field.problem.total
        return (settled.per_slot(scale) * settled.weights) @ self.D

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """d(p, tau)/dsigma = (F, 1) / sqrt(1 + |F|^2)."""
        F = np.append(self._force(sigma, z), 1.0)
        return F / math.sqrt(F @ F)

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        """Speed and its derivative by (p, tau) at the start of the step."""
        r = len(self.x) - 1
        F = np.append(self._force(0.0, np.zeros(r + 1)), 1.0)
        length = math.sqrt(F @ F)
        dF = np.zeros((r + 1, r + 1))
        dF[:r, :r] = self._force_jacobian()
        dF[:r, r] = F[:r]
        unit = F / length
        return unit, (dF - np.outer(unit, unit @ dF)) / length

    def _force_jacobian(self) -> np.ndarray:
        r = len(self.x) - 1
        if self.field.is_linear:
            second = expand(self.field.reduced, self._settled(0.0, np.zeros(r + 1)), self.D)
            self.is_noise = bool(np.linalg.norm(second.V) <= NOISE * second.size)
            return second.H * (math.exp(min(second.common, OVERFLOW)) / self.field.problem.total)
        h = 1e-6
        columns = [self._force(0.0, h * e) - self._force(0.0, -h * e) for e in np.eye(r + 1)[:r]]
        return np.stack(columns, axis=1) / (2 * h)

    def step(self, sigma: float) -> tuple[np.ndarray, float]:
        """((p, tau) at the end of a step of length sigma, error estimate).

        Linearly implicit Euler with 1, 2, 3, ... substeps, extrapolated to step size zero.
        """
        identity = np.eye(len(self.x))
        above: list[np.ndarray] = []
        row: list[np.ndarray] = []
        for parts in range(1, ORDER + 1):
            h = sigma / parts
            factors, pivots, _ = dgetrf(identity - h * self.jacobian)
            z = np.zeros(len(self.x))
            for part in range(1, parts + 1):
                change = self.speed(part * h, z) - self.heading
                z = z + dgetrs(factors, pivots, h * change)[0]
            above, row = row, [z]
            for k, coarser in enumerate(above, start=1):
                row.append(row[-1] + (row[-1] - coarser) / (parts / (parts - k) - 1.0))
        error = float(np.abs(row[-1] - row[-2]).max())
        end = (
            self.x + np.longdouble(sigma) * self.heading.astype(np.longdouble) + row[-1].astype(np.longdouble)
        )
        return end, error if math.isfinite(error) else math.inf


def _is_stuck(points: list[np.ndarray]) -> bool:
    if len(points) % STEPS:
        return False
    before, now = points[-STEPS], points[-1]
    moved = float(np.linalg.norm(now[:-1] - before[:-1]))
    return bool(now[-1] - before[-1] < 1.0) and moved < 0.1 * float(np.linalg.norm(now[:-1]))


def _integrate(field: _Field, stops: list[Stop]) -> Run:
    settled = field.settle(field.start)
    if pull_of(settled, field.slots.table, field.problem.total).is_stationary:
        no_pull = np.isneginf(settled.log_scale).all()
        x = np.append(field.start, -math.inf)
        return _trajectory(field, [x], "no competing token" if no_pull else "stationary point")
    x = np.append(field.start, field.first_log_time()).astype(np.longdouble)
    points = [x]
    sigma, heading = 1.0, None
    while all(stop(x) > 0 for stop in stops):
        leg = _Leg(field, x, heading)
        if leg.is_noise or _is_stuck(points):
            return _trajectory(field, points, "precision exhausted")
        while True:
            end, error = leg.step(sigma)
            tolerance = ABSOLUTE + RELATIVE * sigma
            growth = 0.8 * (tolerance / error) ** (1.0 / ORDER) if error > 0.0 else math.inf
            if error <= tolerance:
                break
            sigma *= min(max(growth, 0.1), 0.7)
            if sigma < 1e-14:
                return _trajectory(field, points, "precision exhausted")
        crossed = [stop for stop in stops if stop(end) <= 0]
        if crossed:
            sigma = min(_crossing(leg, stop, sigma) for stop in crossed)
            end, _ = leg.step(sigma)
        heading = ((end - x) / np.longdouble(sigma)).astype(float)
        x = end
        points.append(x)
        if crossed:
            break
        # Only where p has all but stopped: a p that diverges keeps the speed |p_mm| per unit of tau.
        resting = field.limit(x[:-1]) if np.linalg.norm(heading[:-1]) < SLOW else None
        if resting is not None:
            points[-1] = np.append(resting, x[-1])
            return _trajectory(field, points, "stationary point")
        sigma *= min(growth, 8.0)
    return _trajectory(field, points, None)


def _crossing(leg: _Leg, stop: Stop, sigma: float) -> float:
    """Step length at which a stop is met; the step itself is the interpolant, so nothing is lost."""
    return float(brentq(lambda s: stop(leg.step(s)[0] if s > 0 else leg.x), 0.0, sigma, rtol=1e-13))


def _trajectory(field: _Field, points: list[np.ndarray], event: str | None) -> Run:
    stacked = field.scale.back(np.array([field.y(x) for x in points]))
    times = np.array([field.log_time(x) for x in points])
    path = Run(field.problem, "log t", times, stacked, event, method="gradient flow")
    if event is None and path.p.any() and not path.selection().is_unique:
        return replace(path, event="tie")
    return path
