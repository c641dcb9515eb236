"""The loop in lanes: every rule with an update, on four problems of one layout, in the coordinates of p.

What goes through lanes is the gradient. The update is that of the plain loop, called for one problem after
the other, so that a rule is written once.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from hardmax._lib.compiled import INDEX, OUT_INDEX, OUT_TABLE, SLOPE, TABLE, VECTOR, njit
from hardmax._lib.kernels import kernel
from hardmax.dynamics.forces import CANCELLED, EXHAUSTED, NO_COMPETITOR, ROUNDING, STATIONARY
from hardmax.dynamics.lanes.gram import BLOCK, CUBE, OUT_CUBE, end, rescale, set_layers, times
from hardmax.dynamics.lanes.softmax import FAINT, exp, scale, settle
from hardmax.dynamics.lanes.vectors import LANES, absolute, any_lane, load, spread, store, where
from hardmax.dynamics.loop import CYCLE, DONE, RUNAWAY, is_back, set_mark
from hardmax.dynamics.updates import UPDATE

# Weights below e^FAINT, 1e-150, are dropped here, so a coordinate whose terms sum to less than this may have
# lost some; the plain loop, which takes logs, has to do that run.
SMALL = 1e-130


@njit(cache=True, nogil=True, error_model="numpy")
def gaps_to_top(keys, tokens, offsets, p, logits, tops, rows, gaps):  # type: ignore[no-untyped-def]
    """`problem.kernels.gaps_to_top` in lanes; ``rows`` receives the differences of keys to the top one."""
    d = p.shape[0]
    times(keys, p, logits)
    for i in range(offsets.size - 1):
        first, last = offsets[i], offsets[i + 1]
        best, top = load(logits, tokens[first]), spread(float(first))
        for slot in range(first + 1, last):
            logit = load(logits, tokens[slot])
            top = where(logit > best, float(slot), top)
            best = where(logit > best, logit, best)
        store(tops, i, top)
        for j in range(d):
            reference = load(keys, tokens[first] * d + j)
            for slot in range(first + 1, last):
                reference = where(top == float(slot), load(keys, tokens[slot] * d + j), reference)
            for slot in range(first, last):
                store(rows, slot * d + j, load(keys, tokens[slot] * d + j) - reference)
    times(rows, p, gaps)


@njit(cache=True, nogil=True, error_model="numpy")
def gather(rows, weights, V, sizes):  # type: ignore[no-untyped-def]
    """V, the sum of weights times rows, and the sizes of its terms."""
    d = V.shape[0]
    for j in range(d):
        total, size = spread(0.0), spread(0.0)
        for slot in range(weights.shape[0]):
            term = load(weights, slot) * load(rows, slot * d + j)
            total = total + term
            size = size + absolute(term)
        store(V, j, total)
        store(sizes, j, size)


@kernel(
    signature=lambda: types.void(
        CUBE,
        INDEX,
        INDEX,
        TABLE,
        TABLE,
        TABLE,
        VECTOR,
        OUT_TABLE,
        INDEX,
        OUT_CUBE,
        SLOPE,
        VECTOR,
        VECTOR,
        UPDATE,
        OUT_CUBE,
        float64,
        float64,
        boolean,
        int64,
        OUT_INDEX,
    ),
    error_model="numpy",
)
def descend_lanes_by_rule(  # type: ignore[no-untyped-def]
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
    rates,
    constants,
    update,
    states,
    unit,
    limit,
    by_coordinate,
    count,
    status,
):
    """Steps p (LANES, d) in place, in the first ``count`` lanes; the rest of the arrays end with the lanes.

    ``keys`` are filled up with zeros to a multiple of BLOCK.
    ``states`` holds a state for each lane, ``points`` (S, LANES, d) receives p, ``status`` how a lane ended.
    """
    n, slots, d = offsets.size - 1, tokens.size, p.shape[1]
    rows = np.empty((-(-slots // BLOCK) * BLOCK, d, LANES))
    rows[:] = 0.0
    padded, logits = np.empty((rows.shape[0], LANES)), np.empty((keys.shape[0], LANES))
    gaps, weights, tops = padded[:slots], np.empty((slots, LANES)), np.empty((n, LANES))
    depth, reach = np.empty((n, LANES)), np.empty((n, LANES))
    u, mass = np.empty((n, LANES)), np.empty((n, LANES))
    seen, slopes, log_scale = np.empty((n, LANES)), np.empty((n, LANES)), np.empty((n, LANES))
    seen[:] = np.nan
    beside, V, sizes = np.empty((d, LANES)), np.empty((d, LANES)), np.empty((d, LANES))
    alive, common, shrunk = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    alive[:], shrunk[:] = 0.0, 0.0
    own, exponents, move = np.empty(d), np.empty(d), np.empty(d)
    flat = states.reshape((LANES, states.shape[1] * states.shape[2]))
    marks = np.empty((LANES, d + flat.shape[1]))
    marked, looking = np.empty(LANES, np.intp), np.empty(LANES, np.bool_)
    marked[:], marks[:], looking[:] = 0, np.nan, True
    for k in range(1, rates.size):  # a cycle needs the same rate at every step
        if rates[k] != rates[0]:
            looking[:] = False
    alive[:count], status[:] = 1.0, DONE
    saved = 0
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_layers(points, saved, saved + 1, p)
            saved += 1
        if k == rates.size:
            break
        for lane in range(count):
            if looking[lane] and alive[lane] != 0.0:
                if is_back(p[lane], flat[lane], marks[lane]):
                    looking[lane] = False
                    if k > marked[lane] + 1:  # at rest it does not go round
                        status[lane] = CYCLE
                elif k >= 2 * marked[lane]:
                    marked[lane] = k
                    set_mark(p[lane], flat[lane], marks[lane])
            for j in range(d):
                beside[j, lane] = p[lane, j]
        for lane in range(count, LANES):
            for j in range(d):
                beside[j, lane] = beside[j, 0]
        gaps_to_top(keys, tokens, offsets, beside, logits, tops, rows, padded)
        settle(offsets, gaps, scores, counts, tops, depth, reach, weights, u, mass)
        largest = scale(u, depth, log_weights, log_slope, seen, slopes, log_scale)
        store(common, 0, largest)
        end(largest == -np.inf, NO_COMPETITOR, alive, status)
        bounded = where(largest > -np.inf, largest, 0.0)
        for i in range(n):
            share = exp(load(log_scale, i) - bounded, FAINT) / load(mass, i)
            for slot in range(offsets[i], offsets[i + 1]):
                store(weights, slot, share * load(weights, slot))
        gather(rows, weights, V, sizes)
        if by_coordinate:
            most, rounding = spread(0.0), spread(0.0)
            least = spread(np.inf)
            for j in range(d):
                size = load(sizes, j)
                least = where(size < least, size, least)
                cancelled = absolute(load(V, j)) < ROUNDING * size
                rounding = where(cancelled & (load(V, j) != 0.0), 1.0, rounding)
                store(V, j, where(cancelled, 0.0, load(V, j)))
                most = where(absolute(load(V, j)) > most, absolute(load(V, j)), most)
            end(least < SMALL, CANCELLED, alive, status)
            end((most == 0.0) & (rounding != 0.0), EXHAUSTED, alive, status)
            end(most == 0.0, STATIONARY, alive, status)
        else:
            rescale(V, shrunk)
            end(load(shrunk, 0) == -np.inf, STATIONARY, alive, status)
        for lane in range(count):
            if alive[lane] == 0.0:
                continue
            for j in range(d):
                own[j] = V[j, lane]
            exponents[:] = common[lane] + shrunk[lane] - log_total[lane] + math.log(unit)
            update(own, exponents, constants, states[lane], rates[k], k, move)
            for j in range(d):
                if not abs(p[lane, j] + unit * move[j]) <= limit:
                    status[lane], alive[lane] = RUNAWAY, 0.0
            if alive[lane] != 0.0:
                for j in range(d):
                    p[lane, j] += unit * move[j]
        if not any_lane(load(alive, 0) != 0.0):
            set_layers(points, saved, points.shape[0], p)
            break
