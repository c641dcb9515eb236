"""Flows in l_r for 1 < r < inf: steepest descent with infinitely small steps, and mirror flow (D-DEF-6, 3.7).

With F = t (-gradient), tau = log t and 1/r + 1/q = 1:

    steepest   dp/dtau = |F|_q^(2-q) sign(F) |F|^(q-1), the gradient of |F|_q^2 / 2
    mirror     dxi/dtau = F,  p = sign(xi) |xi|^(q-1), that is  dp/dtau = (q-1) |p|^(2-r) F

Both are followed by the integrator of l2, with this right-hand side and its Jacobian. Coordinates mean
something here, so no basis is changed; those that no key difference touches do not move and are left out.

The right-hand side is not smooth everywhere. Steepest with r > 2 has an infinite slope where F_k crosses
zero, and the coordinate then often slides along F_k = 0; mirror flow with r > 2 is infinitely fast where p_k
crosses zero. There |x|^power is replaced by (x^2 + near^2)^(power/2), with a ``near`` of slope 3e3 or 1e6: in
l3 F_k within 1e-7 of the sum of the sizes of what pulls, |p_k| within 1e-6. A sliding coordinate hardly feels
it: F_k is what it has to be for p_k to follow, and p_k is off by about |dp_k/dtau|/3e3, whatever the norm of
p. Mirror flow with r < 2 would be at rest at p_k = 0, so a coordinate with |p_k| < 1 is followed by its xi_k,
which passes through zero like any number. Where many coordinates slide at a large r the steps may become too
short; the flow then stops, with the event "precision exhausted".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax.dynamics.flows.field import FIRST_MOVE, OVERFLOW
from hardmax.dynamics.flows.log_time import LogField, LogLeg
from hardmax.dynamics.flows.working import WorkingField, is_large
from hardmax.dynamics.gradient import settle_gaps
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.problem import Problem
from hardmax.problem.coordinates import differences
from hardmax.problem.problem import Slots

# Where the slope of mirror flow would be infinite it is about this at most, for numbers of order one.
MIRROR = 1e6

# A coordinate this near to where it is pulled is held there.
FAR = 1e-3


INSTEAD = {
    "l1": "Coordinate(rate, decay=0.5)",
    "linf": "Sign(rate, decay=0.5)",
    "nuclear": 'Normalized(rate, norm="nuclear")',
    "spectral": "Spectral(rate)",
}


def smooth(name: Any, clock: str, mirror: bool) -> Norm:
    """The norm of a flow, or a refusal that names what to call instead."""
    ball = norm_of(name)
    if ball.is_polyhedral or ball.of_matrix:
        why = "a norm of matrices" if ball.of_matrix else "whose direction jumps"
        raise ValueError(
            f"norm must be a power in (1, inf) for a flow, got {ball.name}, {why}; call "
            f"hm.train(problem, hm.optim.{INSTEAD[ball.name]})"
        )
    ball.check_flow()
    if mirror and ball.power is None:
        raise ValueError(f"norm must be a power in (1, inf) with mirror, got {ball.name}; leave mirror out")
    if clock == "arc length" and ball.name != "l2":
        rule = f"Mirror(rate, {ball.power:g})" if mirror else f'Normalized(rate, norm="{ball.name}")'
        raise ValueError(
            f'clock must be "log t" in {ball.name}, got "arc length", which is that of l2; leave it out, or '
            f"call hm.train(problem, hm.optim.{rule}) with a small rate"
        )
    return ball


def field_of(problem: Problem, p: np.ndarray, ball: Norm, mirror: bool) -> LogField:
    """The field of a flow in a norm."""
    if ball.name == "l2":
        return WorkingField(problem, p) if is_large(problem) else LogField(problem, p)
    return _MirrorField(problem, p, ball) if mirror else _SteepestField(problem, p, ball)


class _NormField(LogField):
    """In the coordinates of p themselves."""

    def __init__(self, problem: Problem, p: np.ndarray, ball: Norm) -> None:
        self.ball = ball
        super().__init__(problem, p)

    def basis_of(self, slots: Slots) -> np.ndarray:
        """The unit vectors of the coordinates that move: in a power those that some key difference has."""
        rows = differences(slots).rows(slots.table)
        moves = np.any(rows != 0.0, axis=0) | (self.ball.power is None)
        return np.ascontiguousarray(np.eye(rows.shape[1])[:, moves])


class _NormLeg(LogLeg):
    """A step whose length sigma leaves out coordinates that are held fast.

    In the arc length of all of (p, tau) a coordinate that is 1e-8 beside where a force of slope 1e8 pulls it
    would count as much as all others, and no step could be longer than it takes to settle.
    """

    field: _NormField
    compiles = False
    counts: np.ndarray  # (d + 1,) the share of each coordinate in sigma, squared

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """d(p, tau)/dsigma."""
        F = np.append(self._force(sigma, z), 1.0)
        return F / math.sqrt(F @ (self.counts * F))

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        r = len(self.x) - 1
        dF = np.zeros((r + 1, r + 1))
        dF[:r, :r], self.is_noise = self._bend()
        F = np.append(self._force(0.0, np.zeros(r + 1)), 1.0)
        held = np.maximum(-np.diag(dF), 0.0)
        # what is still far from where it is pulled, as after a plateau, is under way and not held
        held[np.abs(F) > FAR * held] = 0.0
        self.counts = 1.0 / (1.0 + held) ** 2
        dF[:r, r] = F[:r]
        length = math.sqrt(F @ (self.counts * F))
        unit = F / length
        return unit, (dF - np.outer(unit, (self.counts * unit) @ dF)) / length


class _SteepestField(_NormField):
    def leg(self, x: np.ndarray, heading: np.ndarray | None, reach: float) -> LogLeg:
        return _SteepestLeg(self, x, heading)


class _SteepestLeg(_NormLeg):
    """A step of steepest flow."""

    parts: np.ndarray | None = None  # (d,) the sums of all pulls' sizes at the start of the step

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        return self.field.ball.speed(super()._force(sigma, z), self._parts)[0]

    def _bend(self) -> tuple[np.ndarray, bool]:
        dF, is_noise = super()._bend()
        F = super()._force(0.0, np.zeros(len(self.x)))
        return self.field.ball.speed(F, self._parts)[1] @ dF, is_noise

    def _parts(self) -> np.ndarray:
        if self.parts is None:
            gaps, tau = self._gaps(0.0, np.zeros(len(self.x)))
            settled = settle_gaps(self.field.reduced, self.field.slots, gaps, self.tops, tau)
            scale = np.exp(np.minimum(settled.log_scale, OVERFLOW)) / self.field.problem.total
            self.parts = (settled.per_slot(scale) * np.abs(settled.weights)) @ np.abs(self.D)
        return self.parts


class _MirrorField(_NormField):
    """Powers are rounded off nearer to zero than ``near``, where their slope would be larger than wanted."""

    def __init__(self, problem: Problem, p: np.ndarray, ball: Norm) -> None:
        super().__init__(problem, p, ball)
        assert ball.power is not None, "`smooth` refuses mirror flow in other norms"
        self.r = self.degree = ball.power
        self.q = self.r / (self.r - 1.0)
        self.near = MIRROR ** (-1.0 / (self.r - 2.0)) if self.r > 2.0 else 0.0

    def leg(self, x: np.ndarray, heading: np.ndarray | None, reach: float) -> LogLeg:
        return _MirrorLeg(self, x, heading)

    def begin(self) -> np.ndarray:
        """xi has taken one small step: from p = 0 all coordinates leave at once."""
        tau = self.first_log_time() + math.log(FIRST_MOVE) * max(self.r - 2.0, 0.0)
        leg = LogLeg(self, np.append(self.start, tau).astype(np.longdouble), None)
        xi = _signed(self.start, self.r - 1.0) + leg._force(0.0, np.zeros(len(self.start) + 1))
        return np.append(_signed(xi, self.q - 1.0), tau).astype(np.longdouble)


class _MirrorLeg(_NormLeg):
    """A step of mirror flow; ``inner`` coordinates are followed by their xi, the others by p."""

    field: _MirrorField

    def __init__(self, field: _MirrorField, x: np.ndarray, heading: np.ndarray | None) -> None:
        p = x[:-1].astype(float)
        self.inner = (np.abs(p) < 1.0) & (field.r < 2.0)
        self.place = np.where(self.inner, _signed(p, field.r - 1.0), p)
        super().__init__(field, x, heading)

    def _aim(self, heading: np.ndarray) -> np.ndarray:
        return np.where(np.append(self.inner, False), self.velocity, heading)

    def _moved(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """p, from coordinates that have moved."""
        place = self.place + sigma * self.heading[:-1] + z[:-1]
        return np.where(self.inner, _signed(place, self.field.q - 1.0), place)

    def _gaps(self, sigma: float, z: np.ndarray) -> tuple[np.ndarray, float]:
        gaps, tau = super()._gaps(sigma, z)
        k = self.inner
        if k.any():  # the rise took xi for p
            beyond = self._moved(sigma, z)[k] - self.x[:-1][k].astype(float)
            gaps = gaps + self.D[:, k] @ (beyond - (sigma * self.heading[:-1] + z[:-1])[k])
        return gaps, tau

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        return self._speeds(super()._force(sigma, z), self._moved(sigma, z))

    def _speeds(self, F: np.ndarray, p: np.ndarray) -> np.ndarray:
        q, r = self.field.q, self.field.r
        with np.errstate(divide="ignore"):
            log_rate = math.log(q - 1.0) + (2.0 - r) * np.log(np.hypot(p, self.field.near))
            log_speed = np.log(np.abs(F)) + log_rate
        return np.where(self.inner, F, np.sign(F) * np.exp(np.minimum(log_speed, OVERFLOW)))

    def _bend(self) -> tuple[np.ndarray, bool]:
        dF, is_noise = super()._bend()
        zero = np.zeros(len(self.x))
        F, p, r = super()._force(0.0, zero), self._moved(0.0, zero), self.field.r
        size = np.hypot(p, self.field.near)
        rates = np.where(self.inner, 1.0, self._speeds(np.ones(len(F)), p))
        q = self.field.q
        by_place = np.where(self.inner, (q - 1.0) * np.abs(self.place) ** (q - 2.0) if q > 2.0 else 1.0, 1.0)
        own = np.where(self.inner, 0.0, (2.0 - r) * self._speeds(F, p) * p / size**2)
        return rates[:, None] * dF * by_place + np.diag(own), is_noise

    def step(self, sigma: float) -> tuple[np.ndarray, float]:
        """Its end in p, of which the inner coordinates are made from xi."""
        end, error = super().step(sigma)
        k = self.inner
        if k.any():
            place = self.place[k] + (end - self.x)[:-1][k].astype(float)
            end[:-1][k] = _signed(place, self.field.q - 1.0)
        return end, error


def _signed(x: np.ndarray, power: float) -> np.ndarray:
    """sign(x) |x|^power."""
    return np.asarray(np.sign(x) * np.abs(x) ** power)
