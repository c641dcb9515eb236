"""What a training by steps is told: which steps to keep, and each rule as the loops take it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba.extending import is_jitted

from hardmax._lib import expect
from hardmax._lib.arguments import WrongType
from hardmax.dynamics.gradient import Gradient
from hardmax.dynamics.loops import ALONG, BY_RULE, DONE, NO_COMPETITOR, STATIONARY, UNIT_ALONG, step_factor
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.rules.loop import CYCLE, EXHAUSTED, RUNAWAY
from hardmax.dynamics.updates import CompiledUpdate, nothing
from hardmax.problem.coordinates import Scale

EVENTS = {
    DONE: None,
    STATIONARY: "stationary point",
    NO_COMPETITOR: "no competing token",
    CYCLE: "cycle",
    RUNAWAY: "runaway",
    EXHAUSTED: "precision exhausted",
}
LARGEST = 1e250  # entries of p above it are a runaway: soon they would be no floats


@dataclass(frozen=True, eq=False)
class Rule:
    """A step rule for one vector of a scaled problem.

    GD and Normalized in l2 move along minus the gradient by one factor, which loops take themselves: their
    rates and epsilon are scaled. Any other rule runs in the user's units: the loop hands it the gradient
    there and brings the move back.
    """

    step: Optimizer
    kind: int
    rates: np.ndarray
    constants: np.ndarray
    update: Any  # a CompiledUpdate; None if only Python can call it
    unit: float = 1.0  # a move in the user's units times this power of two is one of the scaled problem
    limit: float = LARGEST  # of the entries of p in the scaled problem
    shape: tuple[int, ...] = (0,)  # of what is trained, for rules of matrices

    @classmethod
    def of(
        cls, step: Optimizer, steps: int, scale: Scale, *, shift: int = 0, by_update: bool = False
    ) -> Rule:
        """The rule with one rate per step, times 2^shift, which may lie outside the range of float64.

        With ``by_update`` every rule runs by its update.
        """
        if isinstance(step, GD | Normalized) and step.norm == "l2" and not by_update:
            normalized = isinstance(step, Normalized)
            rates = step_sizes(step, steps, scale, normalized, shift)
            kind = UNIT_ALONG if normalized else ALONG
            return cls(step, kind, rates, np.array([damping(step.damping, scale)]), nothing)
        kernel = step.kernel
        if is_jitted(kernel):  # a user's own
            kernel = CompiledUpdate(kernel)
        power = shift + _plain_units(step, scale)
        rates = step_sizes(step, steps, replace(scale, exponent=0), False, power)
        constants = np.array(step.constants, dtype=np.float64)
        unit, room = math.ldexp(1.0, scale.exponent), 1022 - scale.problem.table.exponent
        most = math.ldexp(1.0, min(room - scale.problem.d.bit_length(), 1000))
        limit = min(LARGEST * unit, most)
        return cls(step, BY_RULE, rates, constants, kernel, unit, limit, scale.problem.shape)

    @property
    def is_compiled(self) -> bool:
        """Whether loops can call it without going back to Python."""
        return self.update is not None

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The state before the first step, from the scaled start."""
        if self.kind != BY_RULE:
            return np.empty((0, x.size))
        seen = x / self.unit
        state = self.step.begin(seen.reshape(self.shape) if self.step.of_matrix else seen)
        return np.ascontiguousarray(state, dtype=np.float64)

    def arguments(self, x: np.ndarray) -> tuple[Any, ...]:
        """What a loop of two vectors needs of it, in the order of its last arguments."""
        return self.rates, self.kind, self.constants, self.update, self.begin(x), self.unit

    def moved(self, x: np.ndarray, pull: Gradient, state: np.ndarray, k: int) -> np.ndarray:
        """The vector x after step k: the same as in the loops, for rules that only Python can call."""
        if pull.is_stationary:
            return x
        if self.kind != BY_RULE:
            factor = step_factor(
                self.rates[k], 1.0, pull.log_norm, self.kind == UNIT_ALONG, self.constants[0]
            )
            return x + factor * pull.direction
        return x + self.move(pull.direction, np.full(x.size, pull.log_norm), state, k)

    def move(self, V: np.ndarray, exponents: np.ndarray, state: np.ndarray, k: int) -> np.ndarray:
        """The move of step k in the scaled problem, where minus the gradient is V exp(exponents)."""
        exponents = exponents + math.log(self.unit)
        if self.step.of_matrix:
            V, exponents = V.reshape(self.shape), exponents.reshape(self.shape)
        move = self.step.update(V, exponents, state, float(self.rates[k]), k)
        move = expect.finite_array(f"the move of {type(self.step).__name__}", move, V.shape)
        return self.unit * move.ravel()


def _plain_units(step: Optimizer, scale: Scale) -> int:
    """The power of two between 1/L_p of the scaled problem and of the problem itself."""
    return -2 * scale.exponent if isinstance(step.lr, str) else 0


def need_optimizer(step: Any, name: str = "optimizer") -> Optimizer:
    """A step rule, or a sentence that says where they are."""
    if not isinstance(step, Optimizer):
        raise WrongType(
            f"{name} must be an optimizer such as hm.optim.GD(lr=0.1), got {step!r:.60}; see hm.optim"
        )
    return step


def damping(epsilon: float, scale: Scale) -> float:
    """The epsilon of a damped normalisation beside gradients of the scaled problem."""
    return float(scale.shift(np.array(float(epsilon)), -scale.exponent, "epsilon"))


def step_sizes(step: Optimizer, steps: int, scale: Scale, normalized: bool, shift: int = 0) -> np.ndarray:
    """One positive step size per step, times 2^shift and as the scaled problem takes it."""
    rate = step.lr
    if isinstance(rate, str):
        # Plain descent divides by the square of the units already.
        rates, shift = np.full(steps, 1.0 / smoothness(scale.problem).L_p), shift - 2 * scale.exponent
    elif np.ndim(rate) == 0:
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
    if step.decay:
        rates = rates / np.arange(1.0, steps + 1.0) ** step.decay
    return scale.rates(rates, normalized, shift)


def take_steps(
    steps: int,
    record: int | Sequence[int] | None,
    state: Any,
    see: Callable[[Any], tuple[Any, dict[str, Any]]],
    advance: Callable[[Any, Any], Any],
) -> tuple[Any, np.ndarray, dict[str, np.ndarray]]:
    """The loop of trainings in coordinates of their own: the last state, the steps kept, what was seen.

    ``see`` evaluates a state and says what to keep of it; ``advance`` makes the next state of both.
    """
    kept = steps_to_record(record, steps)
    rows: list[dict[str, Any]] = []
    for step in range(steps + 1):
        point, seen = see(state)
        if step == kept[len(rows)]:
            rows.append({name: np.array(x) for name, x in seen.items()})
        if step < steps:
            state = advance(state, point)
    return state, kept, {name: np.array([row[name] for row in rows]) for name in rows[0]}


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
