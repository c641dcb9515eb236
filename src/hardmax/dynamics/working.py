"""The flow of a large problem: only slots that still weigh anything are visited.

Attention saturates along the flow, and most slots soon weigh less than the rounding of the others. The force
is a sum over slots; without a slot t of input i it changes by at most

    exp(tau + gap_t) count_t c_i,   c_i = 4 w_i max|l'| R (1 + R) (diameter of the keys),

with R the range of the scores; 4 and 1 + R pay for what the slot does to the attention and the slope of its
input. A gap is linear in p, so along a step (p, tau) = x + sigma heading + z it is known at both ends up to
diameter |z|. The slots left out of a step are those whose bounds, all along it and for any z within a
``room``, add up to less than half a unit in the last place of the force of the others; a step that leaves the
room is not accepted. In the same way a ``pool`` holds all slots that can matter within a few steps along the
heading, so that the rest is not even looked at until p leaves that tube.

While most slots weigh, the flow is not yet stiff: there steps are explicit, and no Jacobian is formed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib.arrays import lengths
from hardmax.dynamics.field_kernels import OVERFLOW, from_tops
from hardmax.dynamics.fields import NOISE, Field, ForceLeg, Leg
from hardmax.dynamics.forces import GAPS, WEIGHTS, settle_inputs
from hardmax.dynamics.gradient import Expansion, expand, settle_gaps
from hardmax.dynamics.softmax import LOG_SCALE, log_slopes
from hardmax.problem import Problem
from hardmax.problem.coordinates import Scale
from hardmax.problem.keys import Dense
from hardmax.problem.problem import Slots, all_slots
from hardmax.problem.readouts import Scores

# Of the force: the slots left out may add up to this.
NEGLIGIBLE = 2.0**-53

# log of how much smaller than at the step before the force may be, before the slots are chosen again.
FALL = 2.0

# Steps that a pool is made for, and the room next to the heading at least.
STRIDES, ROOM = 4.0, 0.125

# A pool, and the slots of one step, are worth their copy if they are at most this share of all slots.
POOL, LEG = 0.9, 0.7

# Slots of which temporary tables are made at a time: these fit into the processor's cache.
BLOCK = 2_048

# Slots up to which an implicit step is one compiled call; products of tables are faster with more.
COMPILED = 8_192

# Up to this norm of p products of float64 are exact enough for exponents: to about 1e-12.
NEAR = 1024.0

# Explicit steps are for at least this many slots, and until the step times the largest slope is this.
MANY, STIFF = 1_000, 1.5


@dataclass(frozen=True)
class _Pool:
    """The slots that can matter within a ``radius`` of the way from x to x + move."""

    view: WorkingField
    x: np.ndarray
    move: np.ndarray
    radius: float
    room: float
    cut: float

    def serves(self, x: np.ndarray, move: np.ndarray, cut: float, room: float) -> bool:
        """Whether a step from x to x + move, with that room next to it, stays within."""
        start = (x - self.x).astype(float)
        ends = (start, start + move)
        return cut >= self.cut and room <= self.room and all(self._distance(y) <= self.radius for y in ends)

    def _distance(self, y: np.ndarray) -> float:
        share = min(max(float(y @ self.move) / float(self.move @ self.move), 0.0), 1.0)
        return float(np.linalg.norm(y - share * self.move))


class WorkingField(Field):
    """The field on some slots of a problem: at first on all, whose legs and pools are on fewer."""

    spreads: np.ndarray  # (n,) no two keys of an input are farther apart
    base: np.ndarray  # (n,) log c_i
    log_counts: np.ndarray  # (M,)

    def __init__(self, scale: Scale, p: np.ndarray) -> None:
        super().__init__(scale, p)
        slots, problem = self.slots, self.problem
        firsts = slots.offsets[:-1]
        # Only differences within an input matter: from its first slot, logits do not cancel where keys do.
        keys = slots.keys[slots.tokens]
        from_tops(keys, slots.offsets, firsts, np.full(len(firsts), -1), keys)
        radii = np.concatenate([lengths(keys[k : k + BLOCK]) for k in range(0, len(keys), BLOCK)])
        self.spreads = 2.0 * np.maximum.reduceat(radii, firsts)
        weights = np.exp(problem.log_weights) / problem.total
        lows = np.minimum.reduceat(self.scores, firsts)
        ranges = np.maximum.reduceat(self.scores, firsts) - lows
        steepest = np.empty(len(lows))
        log_slopes(lows, problem.loss.log_slope, steepest)
        with np.errstate(divide="ignore"):
            self.base = steepest + np.log(4.0 * ranges * (1.0 + ranges) * self.spreads) + np.log(weights)
        self.log_counts = np.log(slots.counts)
        self.become(keys, slots.offsets, slots.counts, self.scores, weights)
        self.pool: _Pool | None = None
        self.log_force = self.beside = self.slope = 0.0
        self.whole_size = len(keys)

    def become(
        self,
        keys: np.ndarray,
        offsets: np.ndarray,
        counts: np.ndarray,
        scores: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        """Become the field on these slots."""
        tokens, head = all_slots(offsets), Scores(scores, self.problem.loss)
        problem = Problem._flat(Dense(keys), tokens, offsets, head, counts=counts, weights=weights)
        self.hold(problem, Slots(problem.table, tokens, offsets, counts, tokens), scores)
        self.tops: np.ndarray | None = None  # the top slots that D is made for
        self.D = np.empty((0, 0))

    def among(self, mask: np.ndarray) -> WorkingField:
        """The field on the kept slots, a mask; those of an input hold its top one."""
        sizes = np.add.reduceat(mask, self.slots.offsets[:-1], dtype=np.intp)
        inputs, chosen = np.flatnonzero(sizes), np.flatnonzero(mask)
        view = copy.copy(self)
        view.pool = None  # that of the whole would be kept alive
        offsets = np.concatenate([[0], np.cumsum(sizes[inputs])])
        assert self.reduced.weights is not None
        weights = self.reduced.weights[inputs]
        view.become(self.slots.keys[chosen], offsets, self.slots.counts[chosen], self.scores[chosen], weights)
        view.spreads, view.base = self.spreads[inputs], self.base[inputs]
        view.log_counts = self.log_counts[chosen]
        return view

    # -- which slots --------------------------------------------------------------------------------------

    def leg(self, x: np.ndarray, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x on the slots that matter up to ``reach`` along the heading."""
        if heading is None:
            leg = WorkingLeg(self, self, x, None, self.settle(x[:-1]).tops, math.inf, False)
            self.log_force = leg.log_force
            return leg
        room, move = max(ROOM, 4.0 * self.beside), reach * heading
        while True:
            cut = self.log_force - FALL + math.log(NEGLIGIBLE / self.whole_size)
            if self.pool is None or not self.pool.serves(x, move, cut, room):
                self.pool = self._pool_at(x, STRIDES * move, cut - FALL, 2.0 * room)
            pool = self.pool.view
            mask, tops = pool.kept(x, move, cut, room)
            view = pool
            if pool.is_worth(mask, LEG):
                view, tops = pool.among(mask), (np.cumsum(mask) - 1)[tops[mask[tops]]]
            is_explicit = len(view.scores) >= MANY and self.slope * reach <= STIFF
            leg = WorkingLeg(self, view, x, heading, tops, math.inf if view is self else room, is_explicit)
            expected, self.log_force = self.log_force - FALL, leg.log_force
            if leg.log_force >= expected or view is self:
                return leg

    def _pool_at(self, x: np.ndarray, move: np.ndarray, cut: float, room: float) -> _Pool:
        radius = room + STRIDES**2 * self.beside
        mask, _ = self.kept(x, move, cut, radius + room)
        view = self.among(mask) if self.is_worth(mask, POOL) else self
        return _Pool(view, x, move, radius, room, cut)

    @staticmethod
    def is_worth(mask: np.ndarray, share: float) -> bool:
        """Whether a copy of the kept slots is."""
        return 0 < int(np.count_nonzero(mask)) <= share * len(mask)

    def kept(self, x: np.ndarray, move: np.ndarray, cut: float, room: float) -> tuple[np.ndarray, np.ndarray]:
        """Which slots may weigh more than exp(cut) from x to x + move and ``room`` around; top slots at x."""
        start, keys = x.astype(float), self.slots.keys
        ends = np.stack([start, start + move])
        rounding = len(x) * np.finfo(float).eps * float(np.linalg.norm(ends[:, :-1], axis=1).max())
        least = cut - (self.base + room + self.spreads * (room + rounding))
        firsts, sizes = self.slots.offsets[:-1], np.diff(self.slots.offsets)
        logits, after = (keys @ end[:-1] for end in ends)
        largest = np.repeat(np.maximum.reduceat(logits, firsts), sizes)
        places = np.where(logits == largest, np.arange(len(keys)), len(keys))
        tops = np.minimum.reduceat(places, firsts)
        rise = ends[0, -1] + logits - largest
        rise = np.maximum(rise, ends[1, -1] + after - np.repeat(after[tops], sizes))
        chosen = rise + self.log_counts > np.repeat(least, sizes)
        chosen[tops] = False
        # Of an input of which no other slot is chosen the top one is not either: it would have no pull.
        chosen[tops] = np.logical_or.reduceat(chosen, firsts)
        return chosen, tops

    # -- the field on them --------------------------------------------------------------------------------

    def seen_from(self, tops: np.ndarray) -> np.ndarray:
        """Keys minus that of their input's top slot; only inputs with another top than before are changed."""
        if self.tops is None:
            self.D, self.tops = np.empty_like(self.slots.keys), np.full(len(tops), -1)
        from_tops(self.slots.keys, self.slots.offsets, tops, self.tops, self.D)
        self.tops = tops
        return self.D

    def expand(self, y: np.ndarray) -> Expansion:
        """First and second order at a point."""
        gaps, tops = self.slots.table.gaps(self.slots.tokens, self.slots.offsets, y.astype(float))
        return self.second_order(gaps, 0.0, self.seen_from(tops), tops)

    def force(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """Return e^tau times minus the gradient as any field does, with one product of tables."""
        self.room.slots[GAPS], self.room.tops[:] = gaps, tops
        settle_inputs(self.layout, self.layout.scores, tau, self.room)
        scales = np.exp(np.minimum(self.room.inputs[LOG_SCALE], OVERFLOW))
        weights = self.room.slots[WEIGHTS]
        weights *= np.repeat(scales / self.reduced.total, np.diff(self.slots.offsets))
        return np.asarray(weights @ D)

    def second_order(self, gaps: np.ndarray, tau: float, D: np.ndarray, tops: np.ndarray) -> Expansion:
        """Block by block: all of it is sums over inputs."""
        bounds = self.slots.offsets
        if bounds[-1] <= 2 * BLOCK:
            return super().second_order(gaps, tau, D, tops)
        parts, first = [], 0
        problem, weights = self.reduced, self.reduced.weights
        assert weights is not None
        while first < problem.n:
            last = max(int(np.searchsorted(bounds, bounds[first] + BLOCK, side="right")) - 1, first + 1)
            low, high = bounds[first], bounds[last]
            offsets = bounds[first : last + 1] - low
            tokens, counts = all_slots(offsets), self.slots.counts[low:high]
            some = problem._with(
                table=Dense(self.slots.keys[low:high]),
                tokens=tokens,
                offsets=offsets,
                readout=Scores(self.scores[low:high], problem.loss),
                counts=counts,
                weights=weights[first:last],
            )
            slots = Slots(some.table, tokens, offsets, counts, tokens)
            at = settle_gaps(some, slots, gaps[low:high], tops[first:last] - low, tau)
            parts.append(expand(some, at, D[low:high]))
            first = last
        common = max(part.common for part in parts)
        scales = [math.exp(part.common - common) if part.common > -math.inf else 0.0 for part in parts]
        H, V, size = (
            sum(scale * getattr(part, name) for scale, part in zip(scales, parts, strict=True))
            for name in ("H", "V", "size")
        )
        return Expansion(H, V, common, float(size))


class WorkingLeg(ForceLeg):
    """A step on a working set, explicit or implicit."""

    field: WorkingField
    jacobian: np.ndarray

    def __init__(
        self,
        work: WorkingField,
        view: WorkingField,
        x: np.ndarray,
        heading: np.ndarray | None,
        tops: np.ndarray,
        room: float,
        is_explicit: bool,
    ) -> None:
        self.work, self.room, self.is_explicit, self.given = work, room, is_explicit, tops
        # an error of 1e-11 of p is one of 1e-22 in 1 - cos, and keys of unlike sizes need no more
        self.size = float(np.linalg.norm(x[:-1].astype(float)))
        self.compiles = len(view.scores) < COMPILED
        super().__init__(view, x, heading)

    @property
    def log_force(self) -> float:
        """log|F| at the start; -inf, below which nothing is left out, where it underflows."""
        force = float(np.linalg.norm(self.velocity[:-1]) / self.velocity[-1])
        return math.log(force) if force > 0.0 else -math.inf

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        return self.given, self.field.seen_from(self.given)

    def _products(self) -> Callable[[Any], tuple[np.ndarray, float]]:
        if self.size > NEAR:
            return super()._products()
        return lambda x: (self.D @ x[:-1].astype(float) + float(x[-1]), float(x[-1]))

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.is_explicit:
            velocity, jacobian = super()._linearize()
            self.work.slope = _steepest(jacobian) if len(self.D) >= MANY else 0.0
            return velocity, jacobian
        velocity = self.speed(0.0, np.zeros(len(self.x)))
        weights = np.abs(self.field.room.slots[WEIGHTS])
        weights[self.tops] = 0.0
        size = float(np.add.reduceat(weights, self.field.slots.offsets[:-1]) @ self.field.spreads)
        self.is_noise = bool(np.linalg.norm(velocity[:-1]) / velocity[-1] <= NOISE * size)
        return velocity, np.empty((0, 0))

    def judged(self, z: np.ndarray, error: float) -> float:
        """Beyond its room the error is infinite."""
        self.work.beside = float(np.linalg.norm(z))
        if self.is_explicit:
            self.work.slope = self.slope
        return error if self.work.beside <= 0.5 * self.room else math.inf


def _steepest(A: np.ndarray) -> float:
    """About the size of the largest eigenvalue, by a few steps of the power method."""
    y = np.ones(len(A))
    for _ in range(8):
        y = A @ (y / (np.linalg.norm(y) or 1.0))
    return float(np.linalg.norm(y))
