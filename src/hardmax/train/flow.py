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
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from hardmax._lib import expect
from hardmax._lib.arrays import misalignment
from hardmax.problem import Problem, need_problem
from hardmax.train.flows.arc import follow, stop_at
from hardmax.train.flows.field import Field, accepted, crossing, extrapolated
from hardmax.train.gradient import pull_of
from hardmax.train.run import Run
from hardmax.train.split import Split, beside, lifted

# Below this speed per arc length p may have come to rest, and the nearest stationary point is looked for.
SLOW = 0.01

# A flow is stuck in noise if in this many steps neither log t advances by 1 nor p by a tenth of its norm.
STEPS = 250

# Unknowns up to which a step is one compiled call; LAPACK is faster at larger systems.
SMALL = 64

# Of p times 2^power, in whose units keys have size one, and that power: positive before the end.
Stop = Callable[[np.ndarray, int], float]


def flow(
    problem: Problem,
    *,
    clock: str = "log t",
    until_norm: float | None = None,
    until_log_time: float | None = None,
    until_length: float | None = None,
    until_misalignment: tuple[Any, float] | None = None,
    record: Sequence[float] | None = None,
    start: Any = None,
    split: Split | None = None,
) -> Run:
    """Gradient flow of p, to whichever of its ends comes first.

    It stops earlier at a finite limit (event "stationary point"). If the end still has inputs that do not
    select one token, the event is "tie".

    Args:
        problem: what is trained on.
        clock: "log t" for gradient flow dp/dt = -gradient, whose time outgrows any float; "arc length" for
            normalised gradient flow, dp/ds = -gradient/|gradient|: the same curve with the length s as time,
            the limit of normalised descent for small steps, s = rate times steps.
        until_norm: a norm of p; 1e6 if no end is given.
        until_log_time: a log t, on that clock.
        until_length: an arc length, on that clock.
        until_misalignment: a direction and the 1 - cos to it to fall below.
        record: the arc lengths to keep, on that clock; every step of the integrator by default.
        start: p(0), the origin by default.
        split: what `hm.decompose` says of the problem: p_fin stays, and what diverges flows beside it, at any
            norm; ends and lengths are then those of what diverges.

    >>> import hardmax as hm
    >>> path = hm.flow(hm.data.named("B-FIG-8"), until_norm=1e6)
    >>> path.selection().tokens, path.clock, path.event
    ((0, 0), 'log t', None)
    >>> path.misalignment([1.0, 3.0]) < 1e-12
    True
    >>> along = hm.flow(hm.data.named("B-FIG-8"), clock="arc length", until_norm=1e6)
    >>> round(along.times[-1]), along.misalignment(path) < 1e-20
    (1000000, True)
    """
    need_problem(problem)
    if split is not None:
        ends_at: dict[str, Any] = {"until_norm": until_norm, "until_log_time": until_log_time}
        ends_at |= {"until_length": until_length, "until_misalignment": until_misalignment}
        r = beside(split, problem, start)
        return lifted(split, flow(split.late, clock=clock, record=record, start=r, **ends_at))
    p = problem.vector("start", start)
    problem.need_decreasing_loss()
    if clock not in ("log t", "arc length"):
        raise ValueError(f'clock must be "log t" or "arc length", got {clock!r}')
    if clock == "log t" and (until_length is not None or record is not None):
        raise ValueError('until_length and record are arc lengths: say clock="arc length", or leave them out')
    if clock == "arc length" and until_log_time is not None:
        raise ValueError('until_log_time is a log t: say clock="log t", or give until_length')
    ends: list[Stop] = []
    if all(end is None for end in (until_norm, until_log_time, until_length, until_misalignment)):
        until_norm = 1e6
    if until_norm is not None:
        limit = expect.positive("until_norm", until_norm)
        ends.append(lambda y, power: float(np.ldexp(limit, power)) - float(np.linalg.norm(y)))
    if until_misalignment is not None:
        target, value = until_misalignment
        least = expect.positive("until_misalignment[1]", value)
        ends.append(lambda y, power: misalignment(y, target) - least if y.any() else 1.0)
    if clock == "arc length":
        return _whole(*follow(problem, p, ends, until_length, record), clock)
    field = Field(problem, p)
    if until_norm is not None:
        field.scale.point(np.array(until_norm), "until_norm")  # refuses one that is out of range
    stops = [stop_at(end, lambda x: field.whole(x[:-1]), field.scale.exponent) for end in ends]
    if until_log_time is not None:
        last = float(expect.finite_array("until_log_time", until_log_time, ()))
        stops.append(lambda x: last - _log_time(field, x))
    return _integrate(field, stops)


def _log_time(field: Field, x: np.ndarray) -> float:
    """log t of a state."""
    return float(x[-1]) - 2.0 * field.scale.log


class _Leg:
    """One step's own coordinates: (p, tau) = x + sigma heading + z, with sigma the arc length of (p, tau)."""

    def __init__(self, field: Field, x: np.ndarray, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        settled = field.settle(x[:-1])
        self.tops = settled.tops
        self.D = settled.differences(field.slots.keys)
        wide = np.column_stack([self.D, np.ones(len(self.D))]).astype(
            np.longdouble
        )  # d/d(p, tau) of an exponent
        self.exponents = (wide @ x).astype(float)
        self.heading, self.rise = np.zeros(len(x)), np.zeros(len(self.D))
        self.velocity, self.jacobian = self._linearize()
        self.heading = self.velocity if heading is None else heading
        self.rise = (wide @ self.heading.astype(np.longdouble)).astype(float)

    def _gaps(self, sigma: float, z: np.ndarray) -> tuple[np.ndarray, float]:
        """tau + logit gaps to the top slots, and tau."""
        gaps = self.exponents + sigma * self.rise + self.D @ z[:-1] + z[-1]
        return gaps, float(self.x[-1]) + sigma * self.heading[-1] + z[-1]

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """F = dp/dtau."""
        return self.field.force(*self._gaps(sigma, z), self.D, self.tops)

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
        gaps = self._gaps(0.0, np.zeros(r + 1))
        dF[:r, :r], self.is_noise = self.field.bend(*gaps, self.D, self.tops)
        dF[:r, r] = F[:r]
        unit = F / length
        return unit, (dF - np.outer(unit, unit @ dF)) / length

    def step(self, sigma: float) -> tuple[np.ndarray, float]:
        """((p, tau) at the end of a step of length sigma, error estimate)."""
        if self.field.is_compiled and len(self.x) <= SMALL:
            z, error = self.field.extrapolated(
                sigma, float(self.x[-1]), self.exponents, self.rise, self.D, self.heading, self.jacobian,
                self.tops,
            )  # fmt: skip
        else:
            z, error = extrapolated(sigma, self.speed, self.heading, self._solver)
        end = self.x + np.longdouble(sigma) * self.heading.astype(np.longdouble) + z.astype(np.longdouble)
        return end, error

    def _solver(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        factors, pivots, _ = dgetrf(np.eye(len(self.x)) - h * self.jacobian)
        return lambda r: dgetrs(factors, pivots, r)[0]


def _is_stuck(points: list[np.ndarray]) -> bool:
    if len(points) % STEPS:
        return False
    before, now = points[-STEPS], points[-1]
    moved = float(np.linalg.norm(now[:-1] - before[:-1]))
    return bool(now[-1] - before[-1] < 1.0) and moved < 0.1 * float(np.linalg.norm(now[:-1]))


def _integrate(field: Field, stops: list[Callable[[np.ndarray], float]]) -> Run:
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
        taken = accepted(leg.step, sigma)
        if taken is None:
            return _trajectory(field, points, "precision exhausted")
        end, sigma, growth = taken
        crossed = [stop for stop in stops if stop(end) <= 0]
        if crossed:
            sigma = min(crossing(leg, stop, sigma) for stop in crossed)
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


def _trajectory(field: Field, points: list[np.ndarray], event: str | None) -> Run:
    stacked = field.scale.back(np.array([field.whole(x[:-1]) for x in points]))
    times = np.array([_log_time(field, x) for x in points])
    return _whole(field.problem, times, stacked, event, "log t")


def _whole(problem: Problem, times: np.ndarray, points: np.ndarray, event: str | None, clock: str) -> Run:
    method = "gradient flow" if clock == "log t" else "normalised gradient flow"
    path = Run(problem, clock, times, points.astype(np.float64), event, method=method)
    if event is None and path.p.any() and not path.selection().is_unique:
        return replace(path, event="tie")
    return path
