"""Compiled updates of step rules, all of one signature, so that the loop is compiled once for every rule.

An update receives minus the gradient as direction * exp(exponents), the rule's constants, its state (which it
changes), the rate and the number of the step, and fills in the move.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float64, int64, types

from hardmax._lib.compiled import OUT, OUT_TABLE, VECTOR, FirstClass, inlined

SIGNATURE = types.void(VECTOR, VECTOR, VECTOR, OUT_TABLE, float64, int64, OUT)
UPDATE = types.FunctionType(SIGNATURE)


class CompiledUpdate(FirstClass):
    """An update as the loop takes it."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, SIGNATURE)


@CompiledUpdate
def nothing(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """Take the place of an update where a loop takes the move along minus the gradient itself."""
    move[:] = 0.0


@inlined()
def steepest_step(direction, exponents, power, step):  # type: ignore[no-untyped-def]
    """Fill in the unit step of l_power that gains most of direction * exp(exponents): `margin.norms` has it.

    Returns the log of the dual norm, -inf for a zero vector. In l1 the first of those moves whose entries are
    the largest up to a relative 1e-12: equal ones differ by rounding.
    """
    top, largest = -np.inf, 0.0
    for j in range(step.size):
        if direction[j] != 0.0:
            top = max(top, exponents[j])
    for j in range(step.size):
        step[j] = direction[j]
        if direction[j] != 0.0 and exponents[j] != top:  # mostly all are the same, and exp takes its time
            step[j] *= math.exp(exponents[j] - top)
        largest = max(largest, abs(step[j]))
    if largest == 0.0:
        return -np.inf
    if power == 1.0:
        chosen = 0
        while abs(step[chosen]) < (1.0 - 1e-12) * largest:
            chosen += 1
        step[:] = 0.0
        step[chosen] = math.copysign(1.0, direction[chosen])
        return top + math.log(largest)
    total, rest = 0.0, 1.0 / (power - 1.0)  # the dual power is 1 + rest
    for j in range(step.size):
        if direction[j] != 0.0:
            share, size = abs(step[j]) / largest, 1.0
            if power == 2.0:
                size = share
            elif rest > 0.0 and share > 1e-300:
                size = share**rest
            elif rest > 0.0:  # it underflows, its root need not
                size = math.exp(rest * (math.log(abs(direction[j]) / largest) + (exponents[j] - top)))
            step[j] = math.copysign(size, direction[j])
            total += share * size
    length = total ** (1.0 / power) if power != 2.0 else math.sqrt(total)
    for j in range(step.size):
        step[j] /= length
    return top + math.log(largest) + math.log(total) / (1.0 + rest)


@CompiledUpdate
def steepest(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """GD and Normalized in any norm of vectors."""
    power, normalized, epsilon = constants[0], constants[1], constants[2]
    log_size = steepest_step(direction, exponents, power, move)
    factor = rate
    if normalized == 0.0:
        factor = rate * math.exp(log_size)
    elif epsilon > 0.0:
        factor = rate / (1.0 + epsilon * math.exp(min(-log_size, 700.0)))
    for j in range(move.size):
        move[j] *= factor


@CompiledUpdate
def mirror(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """Mirror: state holds the parameters and the dual point, whose image they are."""
    power, normalized = constants[0], constants[1]
    x, dual = state[0], state[1]
    steepest_step(direction, exponents, power, move)
    for j in range(move.size):
        if normalized != 0.0:  # the gradient over its dual norm is a power of the steepest step
            pull = move[j] if power == 2.0 else math.copysign(abs(move[j]) ** (power - 1.0), move[j])
        else:
            pull = math.exp(exponents[j]) * direction[j]
        dual[j] += rate * pull
        image = dual[j] if power == 2.0 else math.copysign(abs(dual[j]) ** (1.0 / (power - 1.0)), dual[j])
        move[j] = image - x[j]
        x[j] += move[j]


@inlined()
def blend(m, s, fade, weight, direction, e):  # type: ignore[no-untyped-def]
    """A mean m exp(s) that fades by exp(fade), plus weight times sign(direction) exp(e): m and s again."""
    old, new = s + fade, 0.0
    if direction != 0.0:
        new = math.copysign(weight, direction)
    if old >= e:  # exp(0) is one: nothing is rounded by leaving it out
        return (m + new * math.exp(e - old) if e > -np.inf else m), old
    return m * math.exp(old - e) + new, e


@CompiledUpdate
def momentum(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """Momentum and Signum: state holds m, its exponents, and for how many steps it has been frozen."""
    beta, power, normalized = constants[0], constants[1], constants[2]
    fade = math.log(beta) if beta > 0.0 else -np.inf
    m, s = state[0], state[1]
    now, before, frozen = -np.inf, -np.inf, True
    for j in range(move.size):
        e = exponents[j] + math.log(abs(direction[j])) if direction[j] != 0.0 else -np.inf
        m[j], s[j] = blend(m[j], s[j], fade, 1.0 - beta, direction[j], e)
        now, before = max(now, e), max(before, s[j])
        frozen = frozen and (e == -np.inf or e < s[j] - 50.0)
    if not np.isinf(power):  # the largest coordinates decide; a sign is decided by its own
        frozen = now < before - 50.0
    state[2, 0] = state[2, 0] + 1.0 if frozen else 0.0
    log_size = steepest_step(m, s, power, move)
    factor = rate if normalized != 0.0 else rate * math.exp(log_size)
    for j in range(move.size):
        move[j] *= factor


@CompiledUpdate
def heavy_ball(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """SGD: state holds the parameters and the velocity."""
    momentum, decay = constants[0], constants[1]
    x, velocity = state[0], state[1]
    for j in range(move.size):
        velocity[j] = momentum * velocity[j] + (math.exp(exponents[j]) * direction[j] - decay * x[j])
        move[j] = rate * velocity[j]
        x[j] += move[j]


NEAR = 50.0  # exponents that differ by less share one
FAR = 200.0  # numbers whose logs differ by more do not affect each other


@inlined()
def on_its_own(mean, s, times):  # type: ignore[no-untyped-def]
    """A mean times exp(times s) as a number of size one, with its own exponent."""
    return math.copysign(1.0, mean), s + math.log(abs(mean)) / times


@inlined()
def seen_from(mean, s, e, times):  # type: ignore[no-untyped-def]
    """The same with the exponent e in place of s, if it is not far above that; far below it is nothing."""
    if mean == 0.0:
        return 0.0, e
    above = times * (s - e) + math.log(abs(mean))
    if above > FAR:
        return on_its_own(mean, s, times)
    return (mean * math.exp(times * (s - e)) if above > -FAR else 0.0), e


@inlined()
def corrections(constants, rate, step):  # type: ignore[no-untyped-def]
    """Return Adam's rate and the factor of the root of the second moment, corrected for the start."""
    beta1, beta2, correct1, correct2 = constants[0], constants[1], 1.0, 1.0
    if constants[4] != 0.0:
        correct1 = -math.expm1((step + 1) * math.log(beta1)) if beta1 > 0.0 else 1.0
        correct2 = -math.expm1((step + 1) * math.log(beta2)) if beta2 > 0.0 else 1.0
    return rate / correct1, 1.0 / math.sqrt(correct2)


@CompiledUpdate
def adam(direction, exponents, constants, state, rate, step, move):  # type: ignore[no-untyped-def]
    """Adam, AdamW, RMSprop: state holds x, m and v, where m = m exp(s_m) and v = v exp(2 s_v) by coordinate.

    One exponent for all would overflow once m, v and the gradient decay at different rates. But a
    moment keeps its exponent while the gradient's is near, so mostly all are the same and need one exp.
    """
    beta1, beta2, epsilon, decay = constants[0], constants[1], constants[2], constants[3]
    along, widened = corrections(constants, rate, step)
    x, m, s_m, v, s_v = state[0], state[1], state[2], state[3], state[4]
    gap, ratio = 0.0, 1.0  # a difference of exponents and its exp, as the coordinate before had them
    floor, damping = np.nan, 0.0  # the same for s_v, and epsilon relative to it
    for j in range(move.size):
        d, e = direction[j], exponents[j]
        if d != 0.0 and not 1e-20 <= abs(d) <= 1e20:  # its square may leave the range
            d, e = math.copysign(1.0, d), e + math.log(abs(d))
        m[j] *= beta1
        v[j] *= beta2
        if d != 0.0:
            if not abs(e - s_m[j]) <= NEAR:
                m[j], s_m[j] = seen_from(m[j], s_m[j], e, 1.0)
            if not abs(e - s_v[j]) <= NEAR:
                v[j], s_v[j] = seen_from(v[j], s_v[j], e, 2.0)
            if e - s_m[j] != gap:
                gap = e - s_m[j]
                ratio = math.exp(gap)
            m[j] += (1.0 - beta1) * d * ratio
            if e - s_v[j] != gap:
                gap = e - s_v[j]
                ratio = math.exp(gap)
            v[j] += (1.0 - beta2) * (d * ratio) ** 2
        else:
            if 0.0 < abs(m[j]) < 1e-100:
                m[j], s_m[j] = on_its_own(m[j], s_m[j], 1.0)
            if 0.0 < v[j] < 1e-100:
                v[j], s_v[j] = on_its_own(v[j], s_v[j], 2.0)
        move[j] = -rate * decay * x[j]
        ahead = s_m[j] - s_v[j]
        if m[j] != 0.0:
            root = math.sqrt(v[j]) * widened
            if ahead <= 700.0 and (epsilon == 0.0 or s_v[j] >= -700.0):
                if epsilon > 0.0:
                    if s_v[j] != floor:
                        floor = s_v[j]
                        damping = epsilon * math.exp(-floor)
                    root += damping
                more = m[j] if ahead == 0.0 else m[j] * math.exp(ahead)
                move[j] += along * more / root
            elif epsilon > 0.0:  # next to it v is next to nothing
                first, second = math.exp(min(s_m[j], 700.0)), math.exp(min(s_v[j], 700.0))
                move[j] += along * m[j] * first / (root * second + epsilon)
            else:  # the end of a runaway
                move[j] = math.copysign(np.inf, m[j])
        x[j] += move[j]
