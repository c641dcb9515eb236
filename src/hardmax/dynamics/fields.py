"""Fields of a flow: a force, its Jacobian, and the coordinates of one step; see `hardmax.dynamics.flow`.

A field has a state, which is p in separate coordinates, and on the clock of log t also tau = log t. Each
step of the integrator is taken by a leg of the field: state = x + sigma heading + z, with the heading of the
step before. The exponents tau + (k_t - k_top).p, differences of huge numbers, are formed once a leg, in
extended precision where the machine has it; inside it only their small changes appear, so that the speed is
free of rounding noise at any norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse import csr_array, dia_array, eye_array
from scipy.sparse.linalg import splu

from hardmax._lib.compiled import entry_point
from hardmax.dynamics.edges import Edges, Scratch, fill_log_flows, gather
from hardmax.dynamics.field_kernels import OVERFLOW, Frame, fill_force, leap
from hardmax.dynamics.forces import GAPS, layout_of, workspace
from hardmax.dynamics.gradient import Expansion, Settled, expand, pull_of, settle_at, settle_gaps
from hardmax.margin.norms import Norm
from hardmax.problem import Problem
from hardmax.problem.coordinates import Scale, orthonormal_basis, rows_of, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.problem import Slots, slots_of

# Local error allowed in a step, and per unit of its length: along the heading, which nothing damps, rounding
# grows with the step. 1e-11 there means 1 - cos of 1e-22.
ABSOLUTE, RELATIVE = 1e-9, 1e-11

# Columns of the extrapolation table, which is the order of a step.
ORDER = 7

# Unknowns up to which a step is one compiled call; LAPACK is faster at larger systems.
SMALL = 64

# The flow starts where it has moved this far, relative to the scale on which the gradient changes.
FIRST_MOVE = 1e-10

# A pull this small relative to its parts is rounding.
NOISE = 1e-14

# A coordinate this near to where it is pulled is held there.
FAR = 1e-3

# Tokens that weigh less than this no longer change the flows along edges; else differences of this size give
# the derivative.
SETTLED, DIFFERENCE = 1e-13, 1e-6

# Solves (1 - h J) y = r, made for each h.
Solve = Callable[[np.ndarray], np.ndarray]


class Clock(NamedTuple):
    """How a field's force becomes the speed of its state by the length sigma."""

    name: str
    first: float  # the first step
    patience: int  # a flow that has hardly moved in this many steps is stuck
    due: int  # this is checked after step number ``due`` of them
    # Whether a step of this heading and length suggests that p rests; then a stationary point is tried.
    is_slow: Callable[[np.ndarray, float], bool]
    # Whether a flow has hardly moved between two states and their lengths.
    is_stuck: Callable[[tuple[Any, float], tuple[Any, float]], bool]


def _is_noise(before: tuple[Any, float], now: tuple[Any, float]) -> bool:
    """In noise neither log t advances by 1 nor p by a tenth of its norm."""
    x, y = before[0], now[0]
    way = float(np.linalg.norm(y[:-1] - x[:-1]))
    return bool(y[-1] - x[-1] < 1.0) and way < 0.1 * float(np.linalg.norm(y[:-1]))


# Time itself.
TIME = Clock("t", 1.0, 1_000, 0, lambda heading, length: False, lambda before, now: False)

# Gradient flow, dp/dtau = F = t (-gradient), in the arc length of (p, tau). p may leave a plateau within less
# than one unit of t when t is already e^45, which log t cannot resolve; so tau is an unknown like p. A p that
# diverges keeps the speed |p_mm| per unit of tau.
LOG_TIME = Clock(
    "log t", 1.0, 250, -1, lambda heading, length: float(np.linalg.norm(heading[:-1])) < 0.01, _is_noise
)

# Normalized gradient flow, dp/ds = F/|F|. p grows with s while the distance to its limit relaxes at a rate of
# order 1: a stiff problem, which an implicit method crosses in steps of the size of s. Steps at a finite
# limit are short; a flow in noise turns faster than it moves.
ARC_LENGTH = Clock(
    "arc length",
    0.125,
    1_000,
    0,
    lambda heading, length: length < 1e-3,
    lambda before, now: now[1] < 1.1 * before[1],
)


class LeftForm(Exception):
    """A field does not hold at a state; its successor does."""


class Leg:
    """One step's own coordinates: state = x + sigma heading + z. Kinds of fields override the methods."""

    x: Any
    heading: np.ndarray
    velocity: np.ndarray  # the speed at the start
    size: float = 0.0  # errors may be relative to it, and to the length of the step
    is_noise: bool = False  # whether the pulls cancel to rounding
    is_explicit: bool = False  # whether no Jacobian is needed
    is_quick: bool = False  # whether the step is one compiled call
    slope: float = 0.0  # after an explicit step, how fast the speed changes

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """d state/dsigma at a point of the step."""
        raise NotImplementedError

    def solver(self, h: float) -> Solve:
        """Solve (1 - h J) y = r with the Jacobian of the speed."""
        raise NotImplementedError

    def leap(self, sigma: float) -> tuple[np.ndarray, float]:
        """z and its error at the end of a quick step."""
        raise NotImplementedError

    def tolerance(self, sigma: float) -> float:
        """The error allowed in a step of this length."""
        return ABSOLUTE + RELATIVE * (sigma + self.size)

    def end(self, sigma: float, z: np.ndarray) -> Any:
        """The state at a point of the step, in extended precision."""
        return self.x + np.longdouble(sigma) * self.heading.astype(np.longdouble) + z

    def judged(self, z: np.ndarray, error: float) -> float:
        """The error of a step that was taken, infinite where z is out of bounds."""
        return error


class FlowField:
    """The vector field of a flow. A state is p in coordinates of the field, times 2^power."""

    clock: Clock
    power: int = 0
    is_bold: bool = False  # whether a length that was too long for one step is tried again in the next

    def begin(self) -> tuple[Any, str | None]:
        """The first state, and why nothing moves there, if so."""
        raise NotImplementedError

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x, no longer than ``reach``."""
        raise NotImplementedError

    def whole(self, x: Any) -> Any:
        """p of a state, or of many, times 2^power."""
        raise NotImplementedError

    def back(self, states: Any) -> Any:
        """p of many states, (m, d)."""
        return self.whole(states)

    def time(self, x: Any, length: float) -> float:
        """The time of a state that has come that far, on the clock."""
        return float(np.ldexp(length, -self.power))

    def limit(self, x: Any) -> Any | None:
        """The finite limit that x has come to, if it has."""
        return None

    def successor(self, x: Any) -> FlowField:
        """Return the field to follow from x on, where this one does not hold."""
        raise NotImplementedError


class Field(FlowField):
    """Minus the gradient of a problem, in an orthonormal basis of the span that p moves in.

    Keys have size one: divided by c, the flow of c p is the same in the time c^degree t, so tolerances can be
    plain numbers.
    """

    degree = 2.0

    def __init__(self, scale: Scale, p: np.ndarray, clock: Clock = LOG_TIME) -> None:
        self.scale, self.power, self.clock = scale, scale.exponent, clock
        self.problem, y = scale.problem, scale.point(p, "start")
        problem, slots = self.problem, slots_of(self.problem)
        self.basis = self.basis_of(slots)
        self.start = self.basis.T @ y
        self.r = len(self.start)
        self.origin = y - self.basis @ self.start
        table = Dense(np.ascontiguousarray(problem.keys @ self.basis))
        self.is_linear = not problem.readout.moves
        scores = slots.merge(problem.scores) if self.is_linear else np.zeros(len(slots.tokens))
        self.hold(problem._with(table=table, W=None), replace(slots, table=table), scores)

    def hold(self, problem: Problem, slots: Slots, scores: np.ndarray) -> None:
        """Become the field on these slots, with keys in the basis."""
        self.reduced, self.slots, self.scores = problem, slots, scores
        self.is_compiled = self.is_linear and self.problem.loss.is_compiled
        self.layout = layout_of(problem, slots, scores=scores)
        self.room = workspace(len(scores), len(slots.offsets) - 1, [0, 0])

    def basis_of(self, slots: Slots) -> np.ndarray:
        """Orthonormal columns whose span p does not leave."""
        return orthonormal_basis(slots)

    # -- for the integrator -------------------------------------------------------------------------------

    def begin(self) -> tuple[Any, str | None]:
        """Where p has just begun to move."""
        settled = self.settle(self.start)
        pull = pull_of(settled, self.slots.table, self.reduced.total)
        if pull.is_stationary:
            no_pull = np.isneginf(settled.log_scale).all()
            return self.state(-math.inf), "no competing token" if no_pull else "stationary point"
        if self.clock is not LOG_TIME:
            return self.state(0.0), None
        change = pull.log_norm
        if self.is_linear:
            second = self.expand(self.start)
            steepest = float(np.abs(second.H).max())
            if steepest > 0.0:
                change = max(change, second.common - math.log(self.reduced.total) + math.log(steepest))
        return self.state(math.log(FIRST_MOVE) - change), None

    def state(self, tau: float) -> Any:
        """The start at the time e^tau."""
        start = np.append(self.start, tau) if self.clock is LOG_TIME else self.start
        return start.astype(np.longdouble)

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x, no longer than ``reach``."""
        return ForceLeg(self, x, heading)

    def limit(self, x: Any) -> Any | None:
        """The minimizer at which p has come to rest, by Newton's method; None while it still travels."""
        if not self.is_linear:
            return None
        y = x[: self.r].astype(float)
        for _ in range(10):
            at = self.expand(y)
            step = np.linalg.lstsq(at.H, -at.V, rcond=1e-13)[0]
            if np.linalg.norm(step) > 1e-6 * (1.0 + np.linalg.norm(y)):
                return None
            if at.V @ at.H @ at.V >= 0.0:  # uphill: a saddle that p is leaving
                return None
            y = y + step
            if np.linalg.norm(step) <= 4e-16 * np.linalg.norm(y) or np.linalg.norm(at.V) <= 2e-16 * at.size:
                return np.append(y, x[self.r :])
        return None

    def time(self, x: Any, length: float) -> float:
        """log t, or the length of the way."""
        if self.clock is LOG_TIME:
            return float(x[-1]) - self.degree * self.scale.log
        return super().time(x, length)

    def whole(self, x: Any) -> np.ndarray:
        """p of states, in units in which keys have size one."""
        return np.asarray(self.origin + x[..., : self.r] @ self.basis.T)

    def back(self, states: np.ndarray) -> np.ndarray:
        """p of states; next to log t the digits of float64 are enough."""
        return self.scale.back(self.whole(states.astype(float) if self.clock is LOG_TIME else states))

    # -- the force ----------------------------------------------------------------------------------------

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

    def force(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """e^tau times minus the gradient, from logit gaps to the top slots that have tau added already."""
        if self.is_compiled:
            F = np.empty(D.shape[1])
            self.room.slots[GAPS], self.room.tops[:] = gaps, tops
            entry_point(fill_force)(self.layout, D, tau, self.room, F)
            return F
        settled = settle_gaps(self.reduced, self.slots, gaps, tops, tau)
        scale = np.exp(np.minimum(settled.log_scale, OVERFLOW)) / self.reduced.total
        return (settled.per_slot(scale) * settled.weights) @ D

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


class ForceLeg(Leg):
    """A step along the force of a `Field`.

    On the clock of arc length only differences of exponents matter: there tau is minus the logit gap of the
    slot that pulls most, at the start and all along the heading.
    """

    compiles: bool = True  # whether the compiled step is that of this force

    def __init__(self, field: Field, x: Any, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        self.tops, self.D = self._look()
        along = self._products()
        self.exponents, self.tau = along(x)
        self.heading, self.rise, self.tau_rate = np.zeros(len(x)), np.zeros(len(self.D)), 0.0
        self.shares: Any = 1.0  # of each coordinate in sigma, squared
        self.velocity, self.jacobian = self._linearize()
        self.heading = self.velocity if heading is None else self._aim(heading)
        self.rise, self.tau_rate = along(self.heading.astype(np.longdouble))
        self.is_quick = self.compiles and field.is_compiled and len(x) <= SMALL

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the top slots, and the keys of all slots minus that of their input's top slot."""
        settled = self.field.settle(self.x[: self.field.r])
        if self.field.clock is not LOG_TIME:
            with np.errstate(divide="ignore"):
                pulls = settled.per_slot(settled.log_scale) + np.log(np.abs(settled.weights))
            pulls[settled.tops] = -np.inf
            self.above = int(np.argmax(pulls))
        return settled.tops, settled.differences(self.field.slots.keys)

    def _products(self) -> Callable[[Any], tuple[np.ndarray, float]]:
        """Return a function of a state: exponents and tau, in extended precision."""
        if self.field.clock is LOG_TIME:
            timed = np.column_stack([self.D, np.ones(len(self.D))]).astype(np.longdouble)
            return lambda x: ((timed @ x).astype(float), float(x[-1]))
        wide = self.D.astype(np.longdouble)

        def along(x: Any) -> tuple[np.ndarray, float]:
            gaps = wide @ x
            return (gaps - gaps[self.above]).astype(float), -float(gaps[self.above])

        return along

    def _aim(self, heading: np.ndarray) -> np.ndarray:
        """The heading of the step before, in this step's coordinates."""
        return heading

    def _gaps(self, sigma: float, z: np.ndarray) -> tuple[np.ndarray, float]:
        """tau + logit gaps to the top slots, and tau."""
        later = float(z[self.field.r]) if len(z) > self.field.r else 0.0
        gaps = self.exponents + sigma * self.rise + self.D @ z[: self.field.r] + later
        return gaps, self.tau + sigma * self.tau_rate + later

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """F at a point of the step."""
        return self.field.force(*self._gaps(sigma, z), self.D, self.tops)

    def _bend(self) -> tuple[np.ndarray, bool]:
        """dF/dp at the start of the step, and whether the pulls cancel to rounding."""
        return self.field.bend(self.exponents, self.tau, self.D, self.tops)

    def _shares(self, F: np.ndarray, J: np.ndarray) -> Any:
        """The share of each coordinate in sigma, squared."""
        return 1.0

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """The direction of the state over its length; not a number where there is no force."""
        F = self._force(sigma, z)
        F = np.append(F, 1.0) if self.field.clock is LOG_TIME else F
        length = math.sqrt(F @ (self.shares * F))
        return F / length if length > 0.0 else np.full(len(F), math.nan)

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        """Speed and its derivative by the state at the start of the step."""
        F = self._force(0.0, np.zeros(len(self.x)))
        J, is_noise = self._bend()
        if self.field.clock is LOG_TIME:  # F grows like t, and so does its derivative
            self.is_noise = is_noise
            J = np.vstack([np.column_stack([J, F]), np.zeros(len(F) + 1)])
            F = np.append(F, 1.0)
        self.shares = self._shares(F, J)
        length = math.sqrt(F @ (self.shares * F))
        unit = F / length
        return unit, (J - np.outer(unit, (self.shares * unit) @ J)) / length

    def solver(self, h: float) -> Solve:
        """Solve (1 - h J) y = r by LAPACK."""
        factors, pivots, _ = dgetrf(np.eye(len(self.x)) - h * self.jacobian)
        return lambda r: dgetrs(factors, pivots, r)[0]

    @cached_property
    def _frame(self) -> Frame:
        arrays = (self.D, self.exponents, self.rise, self.heading, self.jacobian)
        return Frame(*arrays, self.tau, self.tau_rate)

    def leap(self, sigma: float) -> tuple[np.ndarray, float]:
        """Return z and its error at the end of a step, in one compiled call."""
        field, z = self.field, np.empty(len(self.x))
        field.room.tops[:] = self.tops
        return z, entry_point(leap)(field.layout, self._frame, sigma, ORDER, field.room, z)


class NormField(Field):
    """Steepest descent in a norm with infinitely small steps: dp/dtau = |F|* d, d what gains most.

    In l_r with 1 < r < inf and 1/r + 1/q = 1 that is |F|_q^(2-q) sign(F) |F|^(q-1). Coordinates mean
    something here, so no basis is changed; those that no key difference touches do not move, and are left out
    where the norm allows it.

    In l_r with r > 2 the slope is infinite where F_k crosses zero, and the coordinate then often slides along
    F_k = 0: the norm rounds the power off there. A sliding coordinate hardly feels it: F_k is what it has to
    be for p_k to follow, and p_k is off by about |dp_k/dtau|/3e3, whatever the norm of p. Where many
    coordinates slide at a large r the steps may become too short; the flow then stops, with the event
    "precision exhausted".
    """

    def __init__(self, scale: Scale, p: np.ndarray, ball: Norm) -> None:
        self.ball = ball
        super().__init__(scale, p)

    def basis_of(self, slots: Slots) -> np.ndarray:
        """The unit vectors of the coordinates: of those that some key difference has, if these will do."""
        rows = rows_of(slots)
        moves = np.any(rows != 0.0, axis=0) | (not self.ball.ignores_zeros)
        return np.ascontiguousarray(np.eye(rows.shape[1])[:, moves])

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x."""
        return _SteepestLeg(self, x, heading)


class _NormLeg(ForceLeg):
    """A step whose length sigma leaves out coordinates that are held fast.

    In the arc length of all of (p, tau) a coordinate that is 1e-8 off where a force of slope 1e8 pulls it
    would count as much as all others, and no step could be longer than it takes to settle.
    """

    field: NormField
    compiles = False

    def _shares(self, F: np.ndarray, J: np.ndarray) -> Any:
        stiffness = np.maximum(-np.diag(J), 0.0)
        # a coordinate that is still far from where it is pulled, as after a plateau, is not held there yet
        stiffness[np.abs(F) > FAR * stiffness] = 0.0
        return 1.0 / (1.0 + stiffness) ** 2


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
            reduced, slots = self.field.reduced, self.field.slots
            settled = settle_gaps(reduced, slots, self.exponents, self.tops, self.tau)
            scale = np.exp(np.minimum(settled.log_scale, OVERFLOW)) / self.field.problem.total
            self.parts = (settled.per_slot(scale) * np.abs(settled.weights)) @ np.abs(self.D)
        return self.parts


class MirrorField(NormField):
    """Mirror flow: dxi/dtau = F for the dual point xi of p under the mirror map of a norm."""

    def __init__(self, scale: Scale, p: np.ndarray, ball: Norm) -> None:
        super().__init__(scale, p, ball)
        assert ball.mirror is not None, "`smooth` refuses mirror flow in other norms"
        self.map, self.degree = ball.mirror, ball.mirror.degree

    def begin(self) -> tuple[Any, str | None]:
        """xi has taken one small step: from p = 0 all coordinates leave at once."""
        x, event = super().begin()
        if event is None:
            x[-1] += math.log(FIRST_MOVE) * max(self.degree - 2.0, 0.0)
            xi = self.map.dual(self.start) + ForceLeg(self, x, None)._force(0.0, np.zeros(len(x)))
            x[:-1] = self.map.image(xi)
        return x, event

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x."""
        return _MirrorLeg(self, x, heading)


class _MirrorLeg(_NormLeg):
    """A step of mirror flow; ``inner`` coordinates are followed by their xi, the others by p."""

    field: MirrorField

    def __init__(self, field: MirrorField, x: np.ndarray, heading: np.ndarray | None) -> None:
        p, self.map = x[:-1].astype(float), field.map
        self.inner = self.map.inner(p)
        self.place = np.where(self.inner, self.map.dual(p), p)
        super().__init__(field, x, heading)

    def _aim(self, heading: np.ndarray) -> np.ndarray:
        return np.where(np.append(self.inner, False), self.velocity, heading)

    def _moved(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """p, from coordinates that have moved."""
        place = self.place + sigma * self.heading[:-1] + z[:-1]
        return np.where(self.inner, self.map.image(place), place)

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
        with np.errstate(divide="ignore"):
            log_speed = np.log(np.abs(F)) + self.map.log_rate(p)
        return np.where(self.inner, F, np.sign(F) * np.exp(np.minimum(log_speed, OVERFLOW)))

    def _bend(self) -> tuple[np.ndarray, bool]:
        dF, is_noise = super()._bend()
        zero = np.zeros(len(self.x))
        F, p = super()._force(0.0, zero), self._moved(0.0, zero)
        rates = np.where(self.inner, 1.0, self._speeds(np.ones(len(F)), p))
        by_place = np.where(self.inner, self.map.slope(self.place), 1.0) if self.inner.any() else 1.0
        by_rate = np.where(self.inner, 0.0, self.map.bend(self._speeds(F, p), p))
        return rates[:, None] * dF * by_place + np.diag(by_rate), is_noise

    def end(self, sigma: float, z: np.ndarray) -> Any:
        """In p, of which the inner coordinates are made from xi."""
        end, k = super().end(sigma, z), self.inner
        if k.any():
            place = self.place + (end - self.x)[:-1].astype(float)
            end[:-1][k] = self.map.image(place)[k]
        return end


class EdgeField(FlowField):
    """A next-token problem along its arc length, -G/|G| on its edges (see `edges.fluxes`).

    The Jacobian is a block per query, plus the rank one of the normalizer that couples them, so a step costs
    no more than the sentences do.
    """

    clock, is_bold = ARC_LENGTH, True

    def __init__(self, problem: Problem, edges: Edges, p: Any) -> None:
        self.problem = problem
        head = problem.readout.cross_entropy
        assert head is not None
        assert head.queries is not None
        assert head.W_ov.margin is not None
        self.edges, self.margin = edges, head.W_ov.margin
        K, P = len(edges.top), int(max(edges.top.max(), edges.low.max())) + 1
        start = np.asarray(p).astype(np.longdouble)
        self.start, self.rest = start[:P], start[P:]  # what no edge moves comes last
        self.columns = np.append(np.flatnonzero(np.diff(head.queries[:P], prepend=-1)), P)
        self.room, self.G = Scratch.of(edges), np.empty(P)
        every, ones = np.arange(K), np.ones(K)
        low = csr_array((ones, (every, edges.low)), shape=(K, P))
        self.D = low - csr_array((ones, (every, edges.top)), shape=(K, P))
        sizes = np.diff(edges.edge_offsets)
        self.firsts = np.repeat(edges.edge_offsets[:-1], sizes)  # of the query of each edge
        self.lasts = np.repeat(edges.edge_offsets[1:], sizes)

    def begin(self) -> tuple[Any, str | None]:
        """Fluxes are positive: everything moves."""
        return self.start, None

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x."""
        return _EdgeLeg(self, x, heading)

    def whole(self, x: Any) -> Any:
        """p, in extended precision."""
        rest = np.broadcast_to(self.rest, (*x.shape[:-1], len(self.rest)))
        return np.concatenate([x, rest], axis=-1)

    def successor(self, x: Any) -> FlowField:
        """The rest of the way is that of any problem, with dense matrices."""
        return Field(scaled(self.problem, to_one=True), self.whole(x).astype(float), ARC_LENGTH)

    def velocity(self, gap: np.ndarray, relative: np.ndarray) -> np.ndarray:
        """-G/|G| from the gaps of the edges, and the same gaps relative to one of them."""
        self.room.log_flux[:] = self._log_flows(gap) + relative
        _, length = entry_point(gather)(self.edges, self.room.log_flux, self.G)
        return self.G / -length

    def stiffness(self, gap: np.ndarray, relative: np.ndarray) -> Any:
        """dG/dA over |G|, sparse: exact in the fluxes' exponents, by differences in the masses."""
        log_flow = self._log_flows(gap)
        log_flux = log_flow + relative
        F = np.exp(log_flux - log_flux.max())
        every = np.arange(len(F))
        bend = dia_array((F[None, :], [0]), shape=(len(F), len(F))).tocsr()
        moving = gap > np.log(SETTLED)
        if moving.any():
            # Queries do not meet in a flow, so one call moves the k-th edge of every query.
            for k in range(int((self.lasts - self.firsts).max())):
                column = self.firsts + k
                inside = column < self.lasts
                inside[inside] &= moving[column[inside]]
                shifted = gap.copy()
                shifted[np.unique(column[inside])] += DIFFERENCE
                change = F * (self._log_flows(shifted) - log_flow) / DIFFERENCE
                part = (change[inside], (every[inside], column[inside]))
                bend = bend + csr_array(part, shape=bend.shape)
        G = F @ self.D
        return (self.D.T @ bend @ self.D) / np.sqrt(G @ G)

    def _log_flows(self, gap: np.ndarray) -> np.ndarray:
        self.room.gap[:] = gap
        if not entry_point(fill_log_flows)(self.edges, self.margin, self.room):
            raise LeftForm
        return self.room.log_flux.copy()


class _EdgeLeg(Leg):
    """A step along the edges."""

    def __init__(self, field: EdgeField, x: Any, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        low, top = field.edges.low, field.edges.top
        gap = x[low] - x[top]
        above = int(np.argmax(gap))
        self.gap, self.relative = gap.astype(np.float64), (gap - gap[above]).astype(np.float64)
        self.velocity = field.velocity(self.gap, self.relative)
        self.K = field.stiffness(self.gap, self.relative)
        self.heading = self.velocity if heading is None else heading
        rise = self.heading[low].astype(np.longdouble) - self.heading[top]
        self.rise, self.relative_rise = rise.astype(np.float64), (rise - rise[above]).astype(np.float64)

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """dA/ds at a point of the step."""
        change = z[self.field.edges.low] - z[self.field.edges.top]
        gap = self.gap + sigma * self.rise + change
        return self.field.velocity(gap, self.relative + sigma * self.relative_rise + change)

    def end(self, sigma: float, z: np.ndarray) -> Any:
        """Return the state with columns that sum to zero, as G's do: nothing else would damp rounding."""
        move, columns = np.longdouble(sigma) * self.heading.astype(np.longdouble) + z, self.field.columns
        sizes = np.diff(columns)
        return self.x + (move - np.repeat(np.add.reduceat(move, columns[:-1]) / sizes, sizes))

    def solver(self, h: float) -> Solve:
        """Solve (1 - h J) y = r, J = -(1 - g g') K with the unit g = -dA/ds.

        With M = 1 + h K, which is sparse, y = M^-1 r + M^-1 g (g'r - g'M^-1 r) / (g'M^-1 g).
        """
        solve = splu((eye_array(len(self.velocity)) + h * self.K).tocsc()).solve
        g = self.velocity
        across = solve(g)

        def solve_both(r: np.ndarray) -> np.ndarray:
            inside = solve(r)
            return inside + across * ((g @ r - g @ inside) / (g @ across))

        return solve_both
