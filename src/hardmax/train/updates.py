"""Compiled updates of step rules, all of one signature, so that a loop is compiled once for every rule.

An update receives minus the gradient as direction * exp(exponents), the rule's constants, its state (which it
changes), the rate and the number of the step, and fills in the move.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numba import float64, int64, njit, types
from numba.extending import is_jitted

from hardmax._lib.compiled import OUT, OUT_TABLE, VECTOR

SIGNATURE = types.void(VECTOR, VECTOR, VECTOR, OUT_TABLE, float64, int64, OUT)
UPDATE = types.FunctionType(SIGNATURE)


class CompiledUpdate:
    """An update as loops take it: numba's first-class function type, known without asking each time."""

    _numba_type_ = UPDATE

    def __init__(self, function: Any) -> None:
        self._plain = function
        self._address: int | None = None

    @cached_property
    def function(self) -> Any:
        """Compiled when a loop first takes it; one's own may have been before."""
        if is_jitted(self._plain):
            return self._plain
        return njit(SIGNATURE, cache=True, nogil=True, error_model="numpy")(self._plain)

    def __call__(self, *arguments: Any) -> None:
        self.function(*arguments)

    def __wrapper_address__(self) -> int:
        if self._address is None:
            made = self.function.get_compile_result(SIGNATURE)
            self._address = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
        return self._address


@CompiledUpdate
def nothing(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """Stand in where a loop takes the move along minus the gradient itself."""
    move[:] = 0.0


@CompiledUpdate
def heavy_ball(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """SGD: state holds the parameters and the velocity."""
    momentum, decay = constants[0], constants[1]
    x, velocity = state[0], state[1]
    for j in range(move.size):
        velocity[j] = momentum * velocity[j] + (math.exp(exponents[j]) * direction[j] - decay * x[j])
        move[j] = rate * velocity[j]
        x[j] += move[j]


@CompiledUpdate
def adam(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """AdamW: state holds the parameters, m and v, where m = m exp(s_m) and v = v exp(2 s_v) by coordinate.

    One exponent for all would overflow once m, v and the gradient decay at different rates (D-DEF-6).
    """
    beta1, beta2, epsilon, decay = constants[0], constants[1], constants[2], constants[3]
    fade1 = math.log(beta1) if beta1 > 0.0 else -np.inf
    fade2 = 0.5 * math.log(beta2) if beta2 > 0.0 else -np.inf
    correct1 = -math.expm1((step + 1) * fade1)
    correct2 = -math.expm1((step + 1) * 2.0 * fade2)
    x, m, s_m, v, s_v = state[0], state[1], state[2], state[3], state[4]
    for j in range(move.size):
        d, e = direction[j], -np.inf
        if d != 0.0:
            e = exponents[j] + math.log(abs(d))
        sign = math.copysign(1.0, d) if d != 0.0 else 0.0
        old_m, old_v = s_m[j] + fade1, s_v[j] + fade2
        s_m[j], s_v[j] = max(old_m, e), max(old_v, e)
        if s_m[j] > -np.inf:
            m[j] = m[j] * math.exp(old_m - s_m[j]) + (1.0 - beta1) * sign * math.exp(e - s_m[j])
        if s_v[j] > -np.inf:
            v[j] = v[j] * math.exp(2.0 * (old_v - s_v[j])) + (1.0 - beta2) * math.exp(2.0 * (e - s_v[j]))
        move[j] = -rate * decay * x[j]
        if m[j] != 0.0:
            root = math.sqrt(v[j] / correct2)
            if epsilon > 0.0:
                root += epsilon * math.exp(min(-s_v[j], 700.0))
            move[j] += rate * (m[j] / correct1) * math.exp(min(s_m[j] - s_v[j], 700.0)) / root
        x[j] += move[j]
