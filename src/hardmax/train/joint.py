"""Joint training of the attention vector p and the head v, each with its own rate (B-DEF-1c, B-DEF-6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import boolean, float64, njit

from hardmax._lib import expect
from hardmax._lib.arrays import exponent
from hardmax._lib.compiled import INDEX, OUT, OUT_TABLE, SLOPE, TABLE, UNDERFLOW, VECTOR, dot
from hardmax.problem import Problem
from hardmax.problem.heads import LinearHead
from hardmax.problem.kernels import gaps_to_top, gather
from hardmax.problem.keys import Dense
from hardmax.problem.slots import slots_of
from hardmax.train.descent import EVENTS, Rate, damping, step_sizes, steps_to_record
from hardmax.train.gradient import gradient
from hardmax.train.loops import DONE, ENDED, NO_COMPETITOR, STATIONARY, rescale, step_factor
from hardmax.train.run import Run
from hardmax.train.scale import Scale, divided, moderate, scaled
from hardmax.train.softmax import settle


def with_head(problem: Problem, v: np.ndarray) -> Problem:
    """The same problem with another head v."""
    if problem.head.linear is None:
        raise ValueError("training v needs a linear head; make the problem with from_values or from_tokens")
    return replace(problem, head=replace(problem.head.linear, v=v))


def descend_joint(
    problem: Problem,
    steps: int = 1000,
    rate: Rate = 0.1,
    rate_v: Rate | None = None,
    *,
    normalized: bool = True,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    epsilon: float | tuple[float, float] = 0.0,
) -> Run:
    """Train p and v together; v starts at the problem's head, and each is divided by its own gradient norm.

    ``epsilon`` is added to these norms, as in `descend`: one number, or a pair for p and for v (the public
    notebook of the paper has 1e-19 and 1e-9).

    The ratio rate_v / rate decides where p goes when not every input is a support vector (B-NEW-1).

    >>> import hardmax as hm
    >>> path = hm.descend_joint(hm.data.named("B-FIG-3a"), steps=1000, rate=0.1, start=[0.0, -1.0])
    >>> path.p.round(4).tolist(), path.heads[-1].round(5).tolist()
    ([95.293, 23.4802], [0.22192, 99.78082])
    """
    steps = expect.whole("steps", steps)
    p = problem.vector("start", start)
    with_head(problem, p)  # refuses other heads
    problem.need_decreasing_loss()
    kept = steps_to_record(record, steps)
    scale, (by_head, head) = scaled(problem), scaled_head(problem)
    seen, p = replace(scale.problem, head=head), np.array(scale.point(p, "start"))
    rates_p = step_sizes(rate, steps, scale, normalized)
    apart = (by_head.exponent - scale.exponent) * (1 if normalized else 2)
    rates_v = (
        step_sizes(rate, steps, scale, normalized, apart)
        if rate_v is None
        else step_sizes(rate_v, steps, scale, normalized, apart, "rate_v")
    )
    epsilons = _epsilons(epsilon, scale, by_head)
    points, heads = np.empty((len(kept), seen.d)), np.empty((len(kept), len(head.v)))
    if problem.loss.is_compiled:
        slots = slots_of(seen)
        values = np.ascontiguousarray(slots.merge(head.values[seen.tokens]))
        status, _ = _descend_joint(
            slots.keys, slots.tokens, slots.offsets, slots.counts, values, head.labels,
            problem.log_weights, math.log(problem.total),
            p, head.v.copy(), rates_p, rates_v, kept, points, heads,
            normalized, *epsilons, problem.loss.log_slope,
        )  # fmt: skip
    else:
        status = _plain(seen, p, rates_p, rates_v, kept, points, heads, normalized, epsilons)
    method = "joint " + ("normalised gradient descent" if normalized else "gradient descent")
    points, heads = scale.back(points), by_head.back(heads)
    return Run(problem, "step", kept, points, EVENTS[status], heads, method)


def scaled_head(problem: Problem, *, to_one: bool = False) -> tuple[Scale, LinearHead]:
    """The head with values of moderate size, or of size one: what keys are to p, values are to v."""
    head = problem.head.linear
    assert head is not None
    power = exponent(head.values)
    scale = divided(replace(problem, table=Dense(head.values), W=None), power if to_one else moderate(power))
    return scale, replace(head, values=scale.problem.keys, v=scale.point(head.v, "head"))


def _epsilons(epsilon: Any, scale: Scale, by_head: Scale) -> tuple[float, float]:
    """One epsilon for both gradients, or a pair for those by p and by v."""
    if not isinstance(epsilon, list | tuple | np.ndarray):
        return damping(epsilon, scale), damping(epsilon, by_head)
    if len(epsilon) != 2:
        raise ValueError(f"epsilon must be a number or a pair (for p, for v), got {epsilon!r}")
    return damping(epsilon[0], scale, "epsilon[0]"), damping(epsilon[1], by_head, "epsilon[1]")


@njit(
    ENDED(
        TABLE, INDEX, INDEX, VECTOR, TABLE, VECTOR, VECTOR, float64, OUT, OUT, VECTOR, VECTOR, INDEX,
        OUT_TABLE, OUT_TABLE,
        boolean, float64, float64, SLOPE,
    ),
    cache=True, nogil=True,
)  # fmt: skip
def _descend_joint(  # type: ignore[no-untyped-def]
    keys, tokens, offsets, counts, values, labels, log_weights, log_total,
    p, v, rates_p, rates_v, record, points, heads, normalized, epsilon_p, epsilon_v, log_slope,
):  # fmt: skip
    n, slots, d, e = offsets.size - 1, tokens.size, p.size, v.size
    gaps, weights, scores = np.empty(slots), np.empty(slots), np.empty(slots)
    tops = np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    log_slopes, V, pull = np.empty(n), np.empty(d), np.empty(e)
    saved = 0
    for k in range(rates_p.size + 1):
        if k == record[saved]:
            points[saved] = p
            heads[saved] = v
            saved += 1
        if k == rates_p.size:
            break
        gaps_to_top(keys, tokens, offsets, p, gaps, tops)
        for i in range(n):
            for slot in range(offsets[i], offsets[i + 1]):
                scores[slot] = labels[i] * dot(values[slot], v)
        settle(gaps, tops, scores, counts, offsets, 0.0, weights, u, depth, lean, log_mass)
        for i in range(n):
            log_slopes[i] = log_slope(u[i]) + log_weights[i]
        common_v = np.max(log_slopes)
        pull[:] = 0.0
        for i in range(n):
            x = log_slopes[i] - common_v
            if x > UNDERFLOW:
                for slot in range(offsets[i], offsets[i + 1]):
                    share = labels[i] * counts[slot] * math.exp(x + gaps[slot] - log_mass[i])
                    for j in range(e):
                        pull[j] += share * values[slot, j]
        common_p = gather(keys, tokens, offsets, tops, weights, depth - log_mass + log_slopes, V)
        shrunk_p, shrunk_v = rescale(V), rescale(pull)
        length_p, length_v = math.sqrt(dot(V, V)), math.sqrt(dot(pull, pull))
        if length_p == 0.0 and length_v == 0.0:
            points[saved:] = p
            heads[saved:] = v
            return (NO_COMPETITOR if common_p == -np.inf else STATIONARY), k
        if length_p > 0.0:
            factor = step_factor(rates_p[k], length_p, common_p + shrunk_p - log_total, normalized, epsilon_p)
            for j in range(d):
                p[j] += factor * V[j]
        if length_v > 0.0:
            factor = step_factor(rates_v[k], length_v, common_v + shrunk_v - log_total, normalized, epsilon_v)
            for j in range(e):
                v[j] += factor * pull[j]
    return DONE, rates_p.size


def _plain(
    problem: Problem,
    p: np.ndarray,
    rates_p: np.ndarray,
    rates_v: np.ndarray,
    record: np.ndarray,
    points: np.ndarray,
    heads: np.ndarray,
    normalized: bool,
    epsilons: tuple[float, float],
) -> int:
    """The same steps for losses that only Python can call."""
    assert problem.head.linear is not None
    v = problem.head.linear.v
    for k in range(len(rates_p) + 1):
        points[record >= k], heads[record >= k] = p, v
        if k == len(rates_p):
            break
        now = with_head(problem, v)
        pull_p, pull_v = gradient(now, p), gradient(now, p, wrt="v")
        if pull_p.is_stationary and pull_v.is_stationary:
            return STATIONARY
        p = p + step_factor(rates_p[k], 1.0, pull_p.log_norm, normalized, epsilons[0]) * pull_p.direction
        v = v + step_factor(rates_v[k], 1.0, pull_v.log_norm, normalized, epsilons[1]) * pull_v.direction
    return DONE
