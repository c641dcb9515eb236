"""The one loop of training by steps: record, call the force, call the updates, move, until an event.

`take_steps` is one text for all models and all rules. It is compiled once for compiled forces and updates,
which it receives as first-class functions; with a force or an update that only Python can call the same text
runs as Python, with numpy in place of its small kernels (`plain_steps`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int64, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_TABLE,
    TABLE,
    VECTOR,
    entry_point,
    fill_rows,
    inlined,
    set_row,
    uncounted,
)
from hardmax.dynamics import forces
from hardmax.dynamics.softmax import LOG_SCALE
from hardmax.dynamics.updates import UPDATE, steepest_step

# How the loop may also end; a cycle is noted, and the run goes on.
DONE, CYCLE, RUNAWAY, PAUSED = forces.MOVES, 6, 7, 8

EVENTS = {
    DONE: None,
    forces.STATIONARY: "stationary point",
    forces.NO_COMPETITOR: "no competing token",
    forces.EXHAUSTED: "precision exhausted",
    CYCLE: "cycle",
    RUNAWAY: "runaway",
}

# How a rule moves: by one factor along minus the gradient, or along its unit vector, or by an update.
ALONG, UNIT_ALONG, BY_RULE = 0, 1, 2

BLOCKS = 4  # blocks that the compiled loop can take


class StepPlan(NamedTuple):
    """The rules of all blocks, as arrays."""

    kinds: np.ndarray  # (blocks,)
    rates: np.ndarray  # (blocks, steps)
    constants: np.ndarray  # (blocks, most constants)
    units: np.ndarray  # (blocks,) a move in the user's units times this is one of the scaled model
    limits: np.ndarray  # (blocks,) of the entries of x
    rows: np.ndarray  # (blocks,) rows of the state
    states: np.ndarray  # (blocks + 1,) where the states begin
    n: int  # number of inputs
    batch: int  # inputs of a step
    log_total: float
    power: float  # in which multipliers are normalized
    normalized: bool


PLAN = types.NamedTuple(
    (INDEX, TABLE, TABLE, VECTOR, VECTOR, INDEX, INDEX, int64, int64, float64, float64, boolean), StepPlan
)
UPDATES = types.UniTuple(UPDATE, BLOCKS)


@inlined()
def step_factor(rate, length, log_scale, normalized, epsilon):  # type: ignore[no-untyped-def]
    """The number that V is multiplied by in one step, when minus the gradient is exp(log_scale) V."""
    if not normalized:
        return rate * math.exp(log_scale)
    if epsilon > 0.0:
        return rate / (length + epsilon * math.exp(min(-log_scale, 700.0)))
    return rate / length


@inlined()
def set_multiple(move, x, factor):  # type: ignore[no-untyped-def]
    """move = factor x."""
    for j in range(move.size):
        move[j] = factor * x[j]


@inlined()
def raise_by(x, number):  # type: ignore[no-untyped-def]
    """Add a number to every entry of x."""
    for j in range(x.size):
        x[j] += number


@inlined()
def stays(x, move, limit):  # type: ignore[no-untyped-def]
    """Whether no entry of x + move is above a limit."""
    inside = True
    for j in range(x.size):  # without a way out, so that it vectorizes
        inside &= abs(x[j] + move[j]) <= limit
    return inside


@inlined()
def add(x, move):  # type: ignore[no-untyped-def]
    """x += move."""
    for j in range(x.size):
        x[j] += move[j]


@inlined()
def is_back(x, states, mark):  # type: ignore[no-untyped-def]
    """Whether point and states are those of the mark, to the bit."""
    for j in range(x.size):
        if x[j] != mark[j]:
            return False
    same = True
    for j in range(states.size):
        same &= states[j] == mark[x.size + j]
    return same


@inlined()
def set_mark(x, states, mark):  # type: ignore[no-untyped-def]
    """Note point and states."""
    for j in range(x.size):
        mark[j] = x[j]
    for j in range(states.size):
        mark[x.size + j] = states[j]


@inlined()
def add_shares(weights, log_scale, rate, shift, offsets, totals):  # type: ignore[no-untyped-def]
    """Add rate times weight to the multiplier of every slot (D-THM-3)."""
    for i in range(log_scale.size):
        share = rate * math.exp(log_scale[i] + shift)
        if share > 0.0:
            for slot in range(offsets[i], offsets[i + 1]):
                totals[slot] += share * weights[slot]


def take_steps(
    force: Any, updates: Any, plan: Any, layout: Any, work: Any, x: Any, states: Any, record: Any, points: Any
) -> int:
    """Step x in place, from step clock[STEP] to clock[PAUSE] or the end; call it again to go on from there.

    ``points`` receives the first entries of x after the steps named in ``record``, which is sorted and holds
    both ends. Returns how the run ended. A batch that pulls nowhere is passed over; if no batch pulls in
    turn, the run ends. It also ends before an entry of x exceeds its limit. A point that comes back with its
    states, to the bit, is a cycle (Brent's search).
    """
    clock, steps = work.clock, plan.rates.shape[1]
    while True:
        k = clock[forces.STEP]
        if k == record[clock[forces.SAVED]]:
            set_row(points, clock[forces.SAVED], x[: points.shape[1]])
            clock[forces.SAVED] += 1
        if k == steps:
            return CYCLE if clock[forces.CYCLED] else DONE
        if k == clock[forces.PAUSE]:
            return PAUSED
        if clock[forces.LOOKING]:
            if is_back(x, states, work.mark) and (k - clock[forces.MARKED]) * plan.batch % plan.n == 0:
                clock[forces.LOOKING], clock[forces.CYCLED] = (
                    0,
                    k > clock[forces.MARKED] + 1,
                )  # at rest it does not go round
            elif k >= 2 * clock[forces.MARKED]:
                clock[forces.MARKED] = k
                set_mark(x, states, work.mark)
        status = force(layout, x, work)
        if status in (forces.CANCELLED, forces.LEFT_FORM):
            return status
        if status != forces.MOVES:
            clock[forces.STILL], clock[forces.EMPTY] = (
                clock[forces.STILL] + plan.batch,
                clock[forces.EMPTY] and status == forces.NO_COMPETITOR,
            )
            if clock[forces.STILL] < plan.n:
                clock[forces.STEP] = k + 1
                continue
            fill_rows(points, clock[forces.SAVED], x[: points.shape[1]])
            return status if status == forces.EXHAUSTED or clock[forces.EMPTY] else forces.STATIONARY
        clock[forces.STILL], clock[forces.EMPTY] = 0, 1
        for b in range(plan.kinds.size):
            first, last, rate = work.bounds[b], work.bounds[b + 1], plan.rates[b, k]
            direction, exponents = (
                work.vectors[forces.V][first:last],
                work.vectors[forces.EXPONENTS][first:last],
            )
            move = work.vectors[forces.MOVE][first:last]
            if work.lengths[b] == 0.0:
                set_multiple(move, direction, 0.0)
            elif plan.kinds[b] == BY_RULE:
                raise_by(exponents, math.log(plan.units[b]))
                if work.totals.size:
                    size = steepest_step(direction, exponents, plan.power, move) if plan.normalized else 0.0
                    shift = math.log(plan.units[b]) - plan.log_total - size
                    weights, log_scale = work.slots[forces.WEIGHTS], work.inputs[LOG_SCALE]
                    add_shares(weights, log_scale, rate, shift, layout.offsets, work.totals)
                state = states[plan.states[b] : plan.states[b + 1]].reshape((plan.rows[b], last - first))
                updates[b](direction, exponents, plan.constants[b], state, rate, k, move)
                set_multiple(move, move, plan.units[b])
            else:
                normalized, epsilon = plan.kinds[b] == UNIT_ALONG, plan.constants[b, 0]
                factor = step_factor(rate, work.lengths[b], exponents[0], normalized, epsilon)
                set_multiple(move, direction, factor)
        for b in range(plan.kinds.size):
            first, last = work.bounds[b], work.bounds[b + 1]
            is_limited = plan.limits[b] < np.inf
            if is_limited and not stays(x[first:last], work.vectors[forces.MOVE][first:last], plan.limits[b]):
                fill_rows(points, clock[forces.SAVED], x[: points.shape[1]])
                return RUNAWAY
        add(x, work.vectors[forces.MOVE])
        clock[forces.STEP] = k + 1


class CompiledLoop:
    """`take_steps` compiled for one kind of force and its layout."""

    def __init__(self, force: Any, layout: Any) -> None:
        self.signature = int64(
            types.FunctionType(force), UPDATES, PLAN, layout, forces.WORKSPACE, OUT, OUT, INDEX, OUT_TABLE
        )

    @cached_property
    def _entry(self) -> Any:
        function = uncounted(self.signature, error_model="numpy")(take_steps)
        return entry_point(function, self.signature)

    def __call__(self, *arguments: Any) -> int:
        """Take the steps, and return how the run ended or that it pauses."""
        return int(self._entry(*arguments))


compiled = CompiledLoop(forces.SIGNATURE, forces.LAYOUT)


_quiet = np.errstate(all="ignore")  # as in compiled arithmetic


def _step_factor(rate: float, length: float, log_scale: float, normalized: bool, epsilon: float) -> float:
    factor = getattr(step_factor, "py_func", step_factor)
    try:
        return float(factor(float(rate), float(length), float(log_scale), normalized, epsilon))
    except OverflowError:  # of exp, where compiled arithmetic has infinity
        return math.inf


IN_NUMPY: dict[str, Callable[..., Any]] = {
    "set_multiple": _quiet(lambda move, x, factor: np.multiply(x, factor, out=move)),
    "stays": _quiet(lambda x, move, limit: bool((np.abs(x + move) <= limit).all())),
    "add": _quiet(operator.iadd),
    "raise_by": operator.iadd,
    "set_row": operator.setitem,
    "fill_rows": lambda table, first, row: operator.setitem(table, slice(first, None), row),
    "is_back": lambda x, states, mark: np.array_equal(np.concatenate([x, states]), mark),
    "set_mark": lambda x, states, mark: np.concatenate([x, states], out=mark),
    "step_factor": _step_factor,
}

# The same text, to the same bits, for forces and updates of Python. A kernel that Python calls is compiled by
# itself, which takes longer than most such trainings.
plain_steps = FunctionType(take_steps.__code__, {**globals(), **IN_NUMPY}, "plain_steps")
