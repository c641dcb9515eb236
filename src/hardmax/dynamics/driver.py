"""Blocks of numbers with the rule of each, and a run of the loop over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted

from hardmax._lib import expect
from hardmax._lib.archive import digest
from hardmax._lib.progress import Progress
from hardmax.dynamics import checkpoint as files
from hardmax.dynamics import forces
from hardmax.dynamics.forces import CompiledForce, Workspace, fixed, workspace
from hardmax.dynamics.loop import (
    ALONG,
    BLOCKS,
    BY_RULE,
    DONE,
    EVENTS,
    PAUSED,
    UNIT_ALONG,
    StepPlan,
    add_shares,
    compiled,
    plain_steps,
)
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.optim.rules import norm_step
from hardmax.dynamics.softmax import LOG_SCALE
from hardmax.dynamics.updates import CompiledUpdate, nothing
from hardmax.margin.norms import norm
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Scale

FACTOR = 0.1  # of the learning rate at a milestone
LOSS_REACHED = "loss reached"  # the event of a run that `until_loss` ended
LARGEST = 1e250  # entries of p above it are a runaway: soon they would not be floats

# A force in Python: it fills in the workspace at x and returns the same codes as a compiled force.
PlainForce = Callable[[Any, np.ndarray, Workspace], int]


@dataclass(frozen=True, eq=False)
class Rule:
    """The step rule of one block of a scaled model.

    GD and Normalized in l2 move along minus the gradient by one factor, which the loop takes itself: their
    rates and epsilon are scaled. Any other rule runs in the user's units: the loop hands it the gradient
    there and brings the move back.
    """

    step: Optimizer
    kind: int
    rates: np.ndarray
    constants: np.ndarray
    update: Any  # a CompiledUpdate; None if only Python can call it
    unit: float = 1.0  # a move in the user's units times this power of two is one of the scaled model
    limit: float = math.inf  # of the entries of the block in the scaled model
    shape: tuple[int, ...] = (0,)  # of the block, for rules of matrices

    @classmethod
    def of(
        cls, step: Optimizer, steps: int, scale: Scale, *, shift: int = 0, by_update: bool = False
    ) -> Rule:
        """The rule with one rate per step, times 2^shift, which may lie outside the range of float64.

        With ``by_update`` every rule runs by its update.
        """
        kind, epsilon = _kind(step)
        if kind != BY_RULE and not by_update:
            rates = step_sizes(step, steps, scale, kind == UNIT_ALONG, shift)
            constants = scale.shift(np.array([epsilon]), -scale.exponent, "epsilon")
            return cls(step, kind, rates, constants, nothing)
        # between 1/L_p of the scaled problem and of the problem itself
        power = shift - 2 * scale.exponent if isinstance(step.lr, str) else shift
        rates = step_sizes(step, steps, replace(scale, exponent=0), False, power)
        constants = np.array(step.constants, dtype=np.float64)
        unit, room = math.ldexp(1.0, scale.exponent), 1022 - scale.problem.table.exponent
        most = math.ldexp(1.0, min(room - scale.problem.d.bit_length(), 1000))
        limit = min(LARGEST * unit, most)
        return cls(step, BY_RULE, rates, constants, _update(step), unit, limit, scale.problem.shape)

    @classmethod
    def unscaled(cls, step: Optimizer, steps: int, shape: tuple[int, ...]) -> Rule:
        """The rule of a block of this shape in a model that is not scaled."""
        if isinstance(step.lr, str):
            raise ValueError(f'lr must be a number for this model, got "{step.lr}", which is about p')
        rates = _rates(step, steps)
        kind, epsilon = _kind(step)
        if kind != BY_RULE:
            return cls(step, kind, rates, np.array([epsilon]), nothing)
        if step.of_matrix and len(shape) != 2:
            raise ValueError(
                f"optimizer must have a norm of vectors for a block of shape {shape}, got {step.norm}; "
                "choose another norm"
            )
        constants = np.array(step.constants, dtype=np.float64)
        return cls(step, BY_RULE, rates, constants, _update(step), 1.0, LARGEST, shape)

    @property
    def is_compiled(self) -> bool:
        """Whether the loop can call it without going back to Python."""
        return self.update is not None

    @property
    def plain(self) -> Callable[..., None]:
        """The update as the loop calls it where only Python can."""

        def update(
            direction: np.ndarray,
            exponents: np.ndarray,
            _: Any,
            state: np.ndarray,
            rate: float,
            k: int,
            move: Any,
        ) -> None:
            step, shape = self.step, self.shape if self.step.of_matrix else direction.shape
            rows = state.reshape(len(state), *shape)
            result = step.update(direction.reshape(shape), exponents.reshape(shape), rows, float(rate), k)
            move[:] = expect.finite_array(f"the move of {type(step).__name__}", result, shape).ravel()

        return update

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The state before the first step, from the scaled start."""
        if self.kind != BY_RULE:
            return np.empty((0, x.size))
        start = x / self.unit
        state = self.step.begin(start.reshape(self.shape) if self.step.of_matrix else start)
        return np.ascontiguousarray(state, dtype=np.float64).reshape(len(state), x.size)

    def event(self, state: np.ndarray) -> str | None:
        """Return an event that the state after the last step shows, or None."""
        if self.kind != BY_RULE:
            return None
        return self.step.event(state.reshape(len(state), *self.shape) if self.step.of_matrix else state)

    @property
    def has_own_norm(self) -> bool:
        """Whether its norm is one of vectors without a compiled step."""
        return not self.step.of_matrix and norm(self.step.norm).step_constant is None

    @property
    def dual(self) -> tuple[float, bool]:
        """The step constant that normalizes multipliers, and whether they are; of matrices that of l2."""
        return norm(self.step.norm).step_constant or 2.0, self.step.normalized


class Trainer:
    """Steps of all blocks of a model, which can pause and go on to the same bits.

    Args:
        force: what pulls at x; compiled, or a function of Python.
        layout: the arrays of the force.
        x: the start, all blocks one after the other; it is changed in place.
        rules: one for each block.
        record: the steps to keep.
        slots: number of slots of the model.
        n: number of inputs.
        sizes: of the blocks; one block by default.
        width: number of entries of x to keep; all by default.
        batch: inputs of a step; 0 for all of them.
        log_total: log of the total weight of a step's inputs.
        totals: receives the multipliers of the slots if given.
        room: numbers that the force needs room for.
        loop: the specialization of the compiled loop for this layout.
    """

    observes: bool = False  # whether it must pause at every recorded step
    is_low: bool = False  # whether a loss that was low enough ended the run

    def __init__(
        self,
        force: CompiledForce | PlainForce,
        layout: Any,
        x: np.ndarray,
        rules: Sequence[Rule],
        record: np.ndarray,
        *,
        slots: int,
        n: int,
        sizes: Sequence[int] | None = None,
        width: int | None = None,
        batch: int = 0,
        log_total: float = 0.0,
        totals: np.ndarray | None = None,
        room: int = 0,
        loop: Callable[..., int] = compiled,
    ) -> None:
        self.rules, self.x, self.record, self.status = rules, x, record, PAUSED
        bounds = list(accumulate([len(x)] if sizes is None else sizes, initial=0))
        blocks = zip(rules, pairwise(bounds), strict=True)
        states = [rule.begin(x[first:last]) for rule, (first, last) in blocks]
        self._shapes, starts = (
            [state.shape for state in states],
            [*accumulate(map(np.size, states), initial=0)],
        )
        self._states = np.concatenate([state.ravel() for state in states])
        constants = np.zeros((len(rules), max(1, max(len(rule.constants) for rule in rules))))
        for row, rule in zip(constants, rules, strict=True):
            row[: len(rule.constants)] = rule.constants
        plan = StepPlan(
            fixed([rule.kind for rule in rules], np.intp),
            fixed([rule.rates for rule in rules]),
            fixed(constants),
            fixed([rule.unit for rule in rules]),
            fixed([rule.limit for rule in rules]),
            fixed([len(state) for state in states], np.intp),
            fixed(starts, np.intp),
            int(n),
            int(batch or n),
            float(log_total),
            *((2.0, False) if totals is None else rules[0].dual),
        )
        self._work = workspace(slots, n, bounds, len(self._states), totals, room)
        self._work.clock[forces.EMPTY] = 1
        # A cycle is looked for where an update moves something, and all rates stay the same.
        steady = all((rule.rates == rule.rates[:1]).all() for rule in rules)
        self._work.clock[forces.LOOKING] = steady and any(rule.kind == BY_RULE for rule in rules)
        self.rows = np.empty((len(record), len(x) if width is None else width))
        self._arguments = plan, layout, self._work, x, self._states, fixed(record, np.intp), self.rows
        updates: Any = [rule.update if rule.is_compiled else rule.plain for rule in rules]
        if totals is not None and rules[0].has_own_norm:  # the loop can take powers only
            updates[0] = self._sharing(updates[0], layout.offsets, float(log_total))
            self._work = self._work._replace(totals=np.empty(0))
            self._arguments = self._arguments[0], layout, self._work, *self._arguments[3:]
        if isinstance(force, CompiledForce) and len(rules) <= BLOCKS and all(r.is_compiled for r in rules):
            updates = *updates, *[nothing] * (BLOCKS - len(rules))
        else:
            loop = plain_steps
        self._loop = partial(loop, force, updates)

    def _sharing(self, update: Any, offsets: np.ndarray, log_total: float) -> Callable[..., None]:
        """Return an update that adds up multipliers, over the dual norm of a step in a custom norm."""
        rule, work, totals = self.rules[0], self._work, self._work.totals

        def sharing(
            direction: Any, exponents: Any, constants: Any, state: Any, rate: float, *rest: Any
        ) -> None:
            size = norm_step(rule.step.norm, direction, exponents)[1] if rule.step.normalized else 0.0
            shift = math.log(rule.unit) - log_total - size
            add_shares(
                work.slots[forces.WEIGHTS],
                work.inputs[LOG_SCALE],
                rate,
                shift,
                fixed(offsets, np.intp),
                totals,
            )
            update(direction, exponents, constants, state, rate, *rest)

        return sharing

    @property
    def points(self) -> np.ndarray:
        """Recorded rows of x, up to the step at which it paused."""
        return self.rows[: self._work.clock[forces.SAVED]] if self.status == PAUSED else self.rows

    def identity(self, problem: Any) -> dict[str, Any]:
        """Return an identity that all checkpoints of this training share, before the first step."""
        plan, _, work, x, states, record, _ = self._arguments
        settings = map(np.asarray, (*plan, work.bounds, x, states, record))
        return {"training": digest(*(repr(rule.step) for rule in self.rules), *settings, *_parts(problem))}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the next step depends on."""
        work = self._work
        is_marked = work.clock[forces.LOOKING] and work.clock[forces.STEP]
        mark = work.mark if is_marked else work.mark[:0]
        return {"x": self.x, "states": self._states, "clock": work.clock, "mark": mark}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go back to where `state` was read; rows that were kept are not part of it."""
        self.x[:], self._states[:], self._work.clock[:] = state["x"], state["states"], state["clock"]
        if len(state["mark"]):
            self._work.mark[:] = state["mark"]

    def contents(self) -> dict[str, np.ndarray]:
        """Return the contents of a checkpoint: the state, and the rows so far."""
        return {**self.state, "rows": self.points, "status": np.array(self.status)}

    def resume(self, contents: Mapping[str, np.ndarray]) -> None:
        """Go back to where `contents` was called."""
        self.restore(contents)
        self.rows[: len(contents["rows"])] = contents["rows"]
        self.status = int(contents["status"])

    def observe(self, step: int) -> None:
        """Record more than x, which the loop records, at a step."""

    @property
    def taken(self) -> int:
        """How many steps were taken."""
        return int(self._work.clock[forces.STEP])

    def advance(self, until: int = -1) -> Trainer:
        """Take the steps until one of that number, or all; returns itself."""
        self._work.clock[forces.PAUSE] = until
        self.status = self._loop(*self._arguments)
        return self

    @property
    def event(self) -> str | None:
        """Event at the end, or one that the states show."""
        if self.is_low:
            return LOSS_REACHED
        if self.status != DONE:
            return EVENTS.get(self.status)
        parts = np.split(self._states, np.cumsum([math.prod(shape) for shape in self._shapes])[:-1])
        blocks = zip(self.rules, parts, self._shapes, strict=True)
        events = (rule.event(part.reshape(shape)) for rule, part, shape in blocks)
        return next((event for event in events if event is not None), None)


def _update(step: Optimizer) -> CompiledUpdate | None:
    """The update as the loop takes it; None if only Python can call it."""
    kernel = step.kernel
    return CompiledUpdate(kernel) if is_jitted(kernel) else kernel  # a user's own is plain numba


def _kind(step: Optimizer) -> tuple[int, float]:
    """Return how a rule moves, and the epsilon of its normalization."""
    if not isinstance(step, GD | Normalized) or step.norm != "l2":
        return BY_RULE, 0.0
    return UNIT_ALONG if isinstance(step, Normalized) else ALONG, float(step.damping)


def step_sizes(step: Optimizer, steps: int, scale: Scale, normalized: bool, shift: int = 0) -> np.ndarray:
    """One positive step size per step, times 2^shift and as the scaled problem takes it."""
    if isinstance(step.lr, str):
        # Plain descent divides by the square of the units already.
        constant, shift = 1.0 / smoothness(scale.problem).L_p, shift - 2 * scale.exponent
        return scale.rates(_rates(replace(step, lr=constant), steps), normalized, shift)
    return scale.rates(_rates(step, steps), normalized, shift)


def _rates(step: Optimizer, steps: int) -> np.ndarray:
    """One positive rate per step."""
    rate = step.lr
    if np.ndim(rate) == 0:
        rates = np.full(steps, expect.positive("lr", rate))
    else:
        rates = expect.finite_array("lr", rate, (None,))
        if len(rates) != steps:
            raise ValueError(
                f"lr must be one number or one for each of the {steps} steps, got {len(rates)}; give as "
                "many, or a number and decay="
            )
        if (rates <= 0).any():
            raise ValueError(f"lr must be positive at every step, got {rates[rates <= 0][0]:g}")
    return rates / np.arange(1.0, steps + 1.0) ** step.decay if step.decay else rates


def read_milestones(milestones: Any) -> tuple[int, ...]:
    """Return whole numbers, or raise."""
    try:
        return tuple(expect.whole("milestones", milestone) for milestone in milestones)
    except TypeError:
        raise ValueError(
            f"milestones must be a list of epochs or steps, such as (100, 200), or (), got {milestones!r:.40}"
        ) from None


def lower_rates(rates: np.ndarray, milestones: Iterable[int]) -> np.ndarray:
    """Divide the rates by ten from each milestone on."""
    lowered = np.array(rates)
    for milestone in milestones:
        lowered[milestone:] *= FACTOR
    return lowered


def with_milestones(optimizers: tuple[Optimizer, ...], steps: int, milestones: Any) -> tuple[Optimizer, ...]:
    """The optimizers with rates that fall at these steps.

    >>> import hardmax as hm
    >>> with_milestones((hm.optim.GD(1.0),), 4, [2])[0].lr.tolist()
    [1.0, 1.0, 0.1, 0.1]
    """
    at = read_milestones(milestones)
    if not at:
        return optimizers
    if any(isinstance(step.lr, str) for step in optimizers):
        raise ValueError('lr must be a number where milestones are given, got "1/L_p"; give one')
    return tuple(replace(step, lr=lower_rates(_rates(step, steps), at), decay=0.0) for step in optimizers)


class RunWatch(NamedTuple):
    """Actions at recorded steps: call ``progress``, end the run at a low loss, save the state."""

    progress: Progress | None = None
    until_loss: float | None = None
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: int = 10  # recorded steps from one checkpoint to the next

    def run(self, trainer: Trainer, loss: Callable[[], float], model: Any) -> Trainer:
        """Take the steps, from the checkpoint on if there is one, and pause at the recorded ones if need be.

        ``loss`` returns that of the present point; ``model`` identifies a checkpoint, as
        `Trainer.identity` takes it.
        """
        if self == NOTHING and not trainer.observes:
            return trainer.advance()
        every = expect.whole("checkpoint_every", self.checkpoint_every, 1)
        path = None if self.checkpoint is None else Path(self.checkpoint)
        identity = {} if path is None else trainer.identity(model)
        if path is not None:
            files.check_folder(path)
            if path.exists():
                trainer.resume(files.load(path, identity, trainer.contents()))
        for count, k in enumerate(trainer.record.tolist(), start=1):
            if k < trainer.taken:  # the checkpoint is ahead
                continue
            if trainer.status == PAUSED:
                trainer.advance(k)
            trainer.observe(k)
            if self.progress is not None:
                self.progress(trainer.taken, int(trainer.record[-1]))
            goes_on = trainer.status == PAUSED
            trainer.is_low = goes_on and self.until_loss is not None and loss() <= self.until_loss
            ends = trainer.is_low or not goes_on
            if path is not None and (ends or count % every == 0):
                files.save(path, trainer.contents(), identity)
            if ends:
                break
        return trainer


NOTHING = RunWatch()


class StepTask(NamedTuple):
    """Steps of p to take, as the loops of `dynamics.stepping` are given them."""

    problem: Problem  # scaled
    rule: Rule
    record: np.ndarray  # the steps to keep
    p: np.ndarray = np.empty(0)  # the start, which the steps may change in place
    coordinates: Coordinates = "auto"
    batch: int = 0  # inputs of a step; 0 for all of them
    watch: RunWatch = NOTHING
    totals: np.ndarray | None = None  # receives the multipliers of the slots


def _parts(x: Any) -> Iterator[str | np.ndarray]:
    """The arrays, numbers and names that an object consists of."""
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, str | int | float):
        yield repr(x)
    elif is_dataclass(x):
        for field in fields(x):
            yield from _parts(getattr(x, field.name))


def known_options(model: str, names: Iterable[str], options: Sequence[str]) -> None:
    """Refuse options that a model does not have."""
    for name in names:
        if name not in options:
            raise TypeError(f"{name} is not an option for {model}; the options are {', '.join(options)}")


def need_batch(n: int, batch: Any) -> int:
    """Return the number of inputs of a step, 0 for all of them; refuse more than there are."""
    if batch is not None and expect.whole("batch", batch, 1) > n:
        raise ValueError(f"batch must be at most {n}, the number of inputs, got {batch}")
    return 0 if batch is None or batch == n else int(batch)


def steps_to_record(record: int | Sequence[int] | None, steps: int) -> np.ndarray:
    """The steps to keep, sorted, first and last always among them."""
    if record is None:
        wanted = np.linspace(0, steps, min(steps, 200) + 1).round().astype(np.intp)
    elif isinstance(record, (int, np.integer)):
        wanted = np.arange(0, steps, expect.whole("record", record, 1))
    else:
        wanted = np.asarray(record, dtype=None if len(record) else np.intp)
        if wanted.size and (wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() > steps):
            raise ValueError(f"record must be step numbers from 0 to {steps}, got {record!r}")
    return np.union1d(wanted, [0, steps]).astype(np.intp)
