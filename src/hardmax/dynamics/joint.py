"""Joint training of the attention vector p and the head v, each by its own rule (B-DEF-1c, B-DEF-6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import float64, int64

from hardmax._lib.arrays import exponent
from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_TABLE,
    SLOPE,
    TABLE,
    UNDERFLOW,
    VECTOR,
    dot,
    fill_rows,
    maximum,
    set_row,
)
from hardmax._lib.kernels import kernel
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.loops import (
    BY_RULE,
    DONE,
    ENDED,
    NO_COMPETITOR,
    STATIONARY,
    UNIT_ALONG,
    move_by_rule,
    rescale,
    step_factor,
)
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.schedule import EVENTS, Rule, steps_to_record
from hardmax.dynamics.softmax import settle
from hardmax.dynamics.updates import UPDATE
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Scale, divided, moderate, scaled
from hardmax.problem.kernels import gaps_to_top, gather
from hardmax.problem.keys import Dense, Products
from hardmax.problem.problem import slots_of
from hardmax.problem.readouts import LinearReadout


def with_readout(problem: Problem, v: np.ndarray) -> Problem:
    """The same problem with another head v."""
    if problem.readout.linear is None:
        raise ValueError("training v needs a linear head; make the problem with from_values or from_tokens")
    return problem._with(readout=replace(problem.readout.linear, v=v))


def train_both(
    problem: Problem,
    step_p: Optimizer,
    step_v: Optimizer,
    steps: int,
    *,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
) -> Run:
    """Steps of p and v together; v starts at the problem's head, and each has its own rule."""
    p = problem.vector("start", start)
    with_readout(problem, p)  # refuses other heads
    if coordinates not in ("auto", "primal"):
        raise ValueError(f'coordinates must be "auto" or "primal" where v is trained, got {coordinates!r}')
    problem.need_decreasing_loss()
    for step, is_matrix in ((step_p, len(problem.shape) == 2), (step_v, False)):
        if step.of_matrix and not is_matrix:
            raise ValueError(
                f"optimizer must have a norm of vectors where v is trained, got {step.norm}; choose another"
            )
    kept = steps_to_record(record, steps)
    scale, (by_head, head) = scaled(problem), scaled_readout(problem)
    seen, p = scale.problem._with(readout=head), np.array(scale.point(p, "start"))
    rules = Rule.of(step_p, steps, scale), Rule.of(step_v, steps, replace(scale, exponent=by_head.exponent))
    points, heads = np.empty((len(kept), seen.d)), np.empty((len(kept), len(head.v)))
    large = isinstance(problem.table, Products) and problem.table.is_large
    if problem.loss.is_compiled and all(rule.is_compiled for rule in rules) and not large:
        slots = slots_of(seen)
        values = np.ascontiguousarray(slots.merge(head.values[seen.tokens]))
        v = head.v.copy()
        status, _ = _descend_both(
            slots.keys,
            slots.tokens,
            slots.offsets,
            slots.counts,
            values,
            head.labels,
            problem.log_weights,
            math.log(problem.total),
            p,
            v,
            kept,
            points,
            heads,
            problem.loss.log_slope,
            *rules[0].arguments(p),
            *rules[1].arguments(v),
        )
    else:
        status = _plain(seen, p, rules, kept, points, heads)
    points, heads = scale.back(points), by_head.back(heads)
    name = step_p.name if step_p.name == step_v.name else f"{step_p.name} of p, {step_v.name} of v"
    return Run(
        problem, "step", kept, points, EVENTS[status], heads, f"joint {name}", optimizer=(step_p, step_v)
    )


def scaled_readout(problem: Problem, *, to_one: bool = False) -> tuple[Scale, LinearReadout]:
    """The head with values of moderate size, or of size one: what keys are to p, values are to v."""
    head = problem.readout.linear
    assert head is not None
    power = exponent(head.values)
    scale = divided(problem._with(table=Dense(head.values), W=None), power if to_one else moderate(power))
    return scale, replace(head, values=scale.problem.keys, v=scale.point(head.v, "head"))


@kernel(
    signature=lambda: ENDED(
        TABLE,
        INDEX,
        INDEX,
        VECTOR,
        TABLE,
        VECTOR,
        VECTOR,
        float64,
        OUT,
        OUT,
        INDEX,
        OUT_TABLE,
        OUT_TABLE,
        SLOPE,
        VECTOR,
        int64,
        VECTOR,
        UPDATE,
        OUT_TABLE,
        float64,
        VECTOR,
        int64,
        VECTOR,
        UPDATE,
        OUT_TABLE,
        float64,
    )
)
def _descend_both(  # type: ignore[no-untyped-def]
    keys,
    tokens,
    offsets,
    counts,
    values,
    labels,
    log_weights,
    log_total,
    p,
    v,
    record,
    points,
    heads,
    log_slope,
    rates_p,
    kind_p,
    constants_p,
    update_p,
    state_p,
    unit_p,
    rates_v,
    kind_v,
    constants_v,
    update_v,
    state_v,
    unit_v,
):
    n, slots, d, e = offsets.size - 1, tokens.size, p.size, v.size
    gaps, weights, scores = np.empty(slots), np.empty(slots), np.empty(slots)
    tops = np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    log_slopes, log_scale, V, pull = np.empty(n), np.empty(n), np.empty(d), np.empty(e)
    exponents_p, move_p, exponents_v, move_v = np.empty(d), np.empty(d), np.empty(e), np.empty(e)
    saved = 0
    for k in range(rates_p.size + 1):
        if k == record[saved]:
            set_row(points, saved, p)
            set_row(heads, saved, v)
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
        common_v = maximum(log_slopes)
        pull[:] = 0.0
        for i in range(n):
            x = log_slopes[i] - common_v
            if x > UNDERFLOW:
                for slot in range(offsets[i], offsets[i + 1]):
                    share = labels[i] * counts[slot] * math.exp(x + gaps[slot] - log_mass[i])
                    for j in range(e):
                        pull[j] += share * values[slot, j]
        for i in range(n):
            log_scale[i] = depth[i] - log_mass[i] + log_slopes[i]
        common_p = gather(keys, tokens, offsets, tops, weights, log_scale, V)
        shrunk_p, shrunk_v = rescale(V), rescale(pull)
        length_p, length_v = math.sqrt(dot(V, V)), math.sqrt(dot(pull, pull))
        if length_p == 0.0 and length_v == 0.0:
            fill_rows(points, saved, p)
            fill_rows(heads, saved, v)
            return (NO_COMPETITOR if common_p == -np.inf else STATIONARY), k
        total_p, total_v = common_p + shrunk_p - log_total, common_v + shrunk_v - log_total
        if length_p > 0.0 and kind_p == BY_RULE:
            move_by_rule(
                p, V, total_p, rates_p[k], k, constants_p, update_p, state_p, unit_p, exponents_p, move_p
            )
        elif length_p > 0.0:
            factor = step_factor(rates_p[k], length_p, total_p, kind_p == UNIT_ALONG, constants_p[0])
            for j in range(d):
                p[j] += factor * V[j]
        if length_v > 0.0 and kind_v == BY_RULE:
            move_by_rule(
                v, pull, total_v, rates_v[k], k, constants_v, update_v, state_v, unit_v, exponents_v, move_v
            )
        elif length_v > 0.0:
            factor = step_factor(rates_v[k], length_v, total_v, kind_v == UNIT_ALONG, constants_v[0])
            for j in range(e):
                v[j] += factor * pull[j]
    return DONE, rates_p.size


def _plain(
    problem: Problem,
    p: np.ndarray,
    rules: tuple[Rule, Rule],
    record: np.ndarray,
    points: np.ndarray,
    heads: np.ndarray,
) -> int:
    """The same steps for losses and rules that only Python can call."""
    assert problem.readout.linear is not None
    v = problem.readout.linear.v
    rule_p, rule_v = rules
    state_p, state_v = rule_p.begin(p), rule_v.begin(v)
    for k in range(len(rule_p.rates) + 1):
        points[record >= k], heads[record >= k] = p, v
        if k == len(rule_p.rates):
            break
        now = with_readout(problem, v)
        pull_p, pull_v = gradient(now, p), gradient(now, p, wrt="v")
        if pull_p.is_stationary and pull_v.is_stationary:
            return STATIONARY
        p, v = rule_p.moved(p, pull_p, state_p, k), rule_v.moved(v, pull_v, state_v, k)
    return DONE
