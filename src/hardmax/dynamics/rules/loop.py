"""The compiled loop of all rules that have an update: batches of inputs, multipliers, events of a run.

`train.loops` has the loops of the two rules that move along minus the gradient by one factor.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64

from hardmax._lib.compiled import INDEX, OUT, OUT_TABLE, SLOPE, TABLE, VECTOR, fill_rows, njit, set_row
from hardmax._lib.kernels import kernel
from hardmax.dynamics.loops import DONE, ENDED, NO_COMPETITOR, STATIONARY, rescale, scale_inputs
from hardmax.dynamics.rules.by_coordinate import gather_by_coordinate
from hardmax.dynamics.softmax import settle, take_logs
from hardmax.dynamics.updates import UPDATE, steepest_step
from hardmax.problem.kernels import gaps_to_top, gather

# How a loop may also end; a cycle is noted, and the run goes on.
CYCLE, RUNAWAY, EXHAUSTED = 4, 5, 6


@njit(boolean(VECTOR, VECTOR, OUT_TABLE, OUT_TABLE), cache=True, nogil=True)
def same(x, y, state, other):  # type: ignore[no-untyped-def]
    """Whether a point and its state are another one and its state, to the bit."""
    for j in range(x.size):
        if x[j] != y[j]:
            return False
    for row in range(state.shape[0]):
        for j in range(state.shape[1]):
            if state[row, j] != other[row, j]:
                return False
    return True


@kernel(
    signature=lambda: ENDED(
        TABLE,
        INDEX,
        INDEX,
        VECTOR,
        VECTOR,
        VECTOR,
        float64,
        OUT,
        INDEX,
        OUT_TABLE,
        SLOPE,
        boolean,
        VECTOR,
        VECTOR,
        UPDATE,
        OUT_TABLE,
        float64,
        float64,
        int64,
        float64,
        boolean,
        OUT,
        boolean,
        boolean,
    ),
    error_model="numpy",
)
def descend_by_rule(  # type: ignore[no-untyped-def]
    keys,
    tokens,
    offsets,
    counts,
    scores,
    log_weights,
    log_total,
    p,
    record,
    points,
    log_slope,
    in_log,
    rates,
    constants,
    update,
    state,
    unit,
    limit,
    batch,
    power,
    normalized,
    totals,
    by_coordinate,
    summing,
):
    """Steps p in place; ``points`` receives p after the steps named in ``record`` (sorted, ends included).

    Optimizer k sees the inputs k b, ..., k b + b - 1 modulo n, for b = ``batch``. A batch that pulls nowhere is
    passed over; if no batch pulls in turn, the run ends. It also ends before an entry of p exceeds ``limit``.
    With ``summing`` the multipliers of the slots are added up in ``totals``: rate times weight, over the dual
    norm of l_power where the rule is ``normalized`` (D-THM-3).
    """
    n, slots, d = offsets.size - 1, tokens.size, p.size
    gaps, weights = np.empty(slots), np.empty(slots)
    logs, signs = np.empty(slots), np.empty(slots)
    V, sizes, exponents, move = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    tops = np.empty(n, np.intp)
    u, depth, lean, log_mass = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    deep, seen, slopes, log_scale = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    before, state_before, marked = np.empty(d), np.empty(state.shape), 0
    seen[:], before[:] = np.nan, np.nan
    looking, cycle = True, False
    for k in range(1, rates.size):  # a cycle needs the same rate at every step
        looking = looking and rates[k] == rates[0]
    saved, still, empty = 0, 0, True
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_row(points, saved, p)
            saved += 1
        if k == rates.size:
            break
        if looking:
            if same(p, before, state, state_before) and ((k - marked) * batch) % n == 0:
                looking, cycle = False, k > marked + 1  # at rest it does not go round
            elif k >= 2 * marked:
                marked = k
                for j in range(d):
                    before[j] = p[j]
                for row in range(state.shape[0]):
                    set_row(state_before, row, state[row])
        gaps_to_top(keys, tokens, offsets, p, gaps, tops)
        settle(gaps, tops, scores, counts, offsets, 0.0, weights, u, depth, lean, log_mass)
        for i in range(n):
            deep[i] = depth[i]
        if in_log:
            take_logs(tops, scores, lean, 0.0, depth, u)
        scale_inputs(u, depth, log_mass, log_weights, log_slope, seen, slopes, log_scale)
        if batch < n:
            for i in range(n):
                if (i - k * batch) % n >= batch:
                    log_scale[i] = -np.inf
        rounding = False
        if by_coordinate:
            common, rounding = gather_by_coordinate(
                keys,
                tokens,
                offsets,
                tops,
                weights,
                log_scale,
                gaps,
                scores,
                counts,
                deep,
                lean,
                log_mass,
                logs,
                signs,
                V,
                sizes,
                exponents,
            )
            pulls = False
            for j in range(d):
                exponents[j] += math.log(unit) - log_total
                pulls = pulls or V[j] != 0.0
        else:
            common = gather(keys, tokens, offsets, tops, weights, log_scale, V)
            shrunk = rescale(V)
            exponents[:] = common + shrunk - log_total + math.log(unit)
            pulls = shrunk > -np.inf
        if not pulls:
            still, empty = still + batch, empty and common == -np.inf
            if still < n:
                continue
            fill_rows(points, saved, p)
            if rounding:
                return EXHAUSTED, k
            return (NO_COMPETITOR if empty else STATIONARY), k
        still, empty = 0, True
        if summing:
            size = steepest_step(V, exponents, power, move) if normalized else 0.0
            for i in range(n):
                share = rates[k] * math.exp(log_scale[i] + math.log(unit) - log_total - size)
                if share > 0.0:
                    for slot in range(offsets[i], offsets[i + 1]):
                        totals[slot] += share * weights[slot]
        update(V, exponents, constants, state, rates[k], k, move)
        for j in range(d):
            if not abs(p[j] + unit * move[j]) <= limit:
                fill_rows(points, saved, p)
                return RUNAWAY, k
        for j in range(d):
            p[j] += unit * move[j]
    return (CYCLE if cycle else DONE), rates.size
