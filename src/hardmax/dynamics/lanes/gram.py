"""`forces.by_inner_products` and its loop in lanes: GD and Normalized in l2 on four problems at once."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, types

from hardmax._lib.compiled import INDEX, OUT_INDEX, SLOPE, TABLE, VECTOR, njit
from hardmax._lib.kernels import kernel
from hardmax.dynamics.forces import CANCELLATION, CANCELLED, NO_COMPETITOR, STATIONARY
from hardmax.dynamics.lanes.softmax import FAINT, exp, scale, settle
from hardmax.dynamics.lanes.vectors import (
    LANES,
    absolute,
    any_lane,
    load,
    plus_product,
    roots,
    spread,
    store,
    where,
)
from hardmax.dynamics.loop import DONE, step_factor

CUBE = types.Array(float64, 3, "C", readonly=True)
OUT_CUBE = float64[:, :, ::1]
BLOCK = 4  # rows of the Gram matrix that are summed side by side


@njit(cache=True, nogil=True, error_model="numpy")
def times(gram, beta, pull):  # type: ignore[no-untyped-def]
    """pull = gram beta, where the rows of gram are filled up with zeros to a multiple of BLOCK."""
    m = beta.shape[0]
    for r in range(0, gram.shape[0], BLOCK):
        a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for q in range(m):
            x = load(beta, q)
            a = plus_product(a, load(gram, r * m + q), x)
            b = plus_product(b, load(gram, (r + 1) * m + q), x)
            c = plus_product(c, load(gram, (r + 2) * m + q), x)
            d = plus_product(d, load(gram, (r + 3) * m + q), x)
        store(pull, r, a)
        store(pull, r + 1, b)
        store(pull, r + 2, c)
        store(pull, r + 3, d)


@njit(cache=True, nogil=True, error_model="numpy")
def end(ended, code, alive, status):  # type: ignore[no-untyped-def]
    """Note how lanes ended that had not before."""
    if any_lane(ended):
        flags = np.empty(LANES)
        store(flags, 0, where(ended, 1.0, 0.0))
        for lane in range(LANES):
            if flags[lane] * alive[lane] != 0.0:
                status[lane], alive[lane] = code, 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def rescale(beta, shrunk):  # type: ignore[no-untyped-def]
    """`forces.rescale`: what squares would leave the range is divided by its largest entry, lane by lane."""
    largest = spread(0.0)
    for r in range(beta.shape[0]):
        size = absolute(load(beta, r))
        largest = where(size > largest, size, largest)
    store(shrunk, 0, spread(0.0))
    if any_lane((largest < 1e-125) | (largest > 1e125)):
        store(shrunk, 0, largest)
        for lane in range(LANES):
            size = shrunk[lane]
            shrunk[lane] = 0.0
            if not 1e-125 <= size <= 1e125:
                shrunk[lane] = math.log(size)
                if size > 0.0:
                    for r in range(beta.shape[0]):
                        beta[r, lane] /= size


@njit(types.void(OUT_CUBE, types.intp, types.intp, TABLE), cache=True, nogil=True)
def set_layers(cube, first, last, table):  # type: ignore[no-untyped-def]
    """cube[first:last] = table; `_lib.compiled` explains why this is a loop."""
    for k in range(first, last):
        for r in range(table.shape[0]):
            for j in range(table.shape[1]):
                cube[k, r, j] = table[r, j]


@kernel(
    signature=lambda: types.void(
        CUBE,
        INDEX,
        INDEX,
        TABLE,
        TABLE,
        TABLE,
        VECTOR,
        TABLE,
        VECTOR,
        INDEX,
        OUT_CUBE,
        boolean,
        float64,
        SLOPE,
        OUT_INDEX,
    ),
    error_model="numpy",
)
def descend_lanes(  # type: ignore[no-untyped-def]
    gram,
    row,
    offsets,
    counts,
    scores,
    log_weights,
    log_total,
    start,
    rates,
    record,
    coefficients,
    normalized,
    epsilon,
    log_slope,
    status,
):
    """Arrays have a last axis of lanes; ``coefficients`` receives c, ``status`` how each lane ended.

    A lane that has ended stays where it is while the others go on.
    """
    n, slots, m = offsets.size - 1, row.size, start.shape[0]
    gaps, weights, tops = np.empty((slots, LANES)), np.empty((slots, LANES)), np.empty((n, LANES))
    depth, reach = np.empty((n, LANES)), np.empty((n, LANES))
    u, mass = np.empty((n, LANES)), np.empty((n, LANES))
    seen, slopes, log_scale = np.empty((n, LANES)), np.empty((n, LANES)), np.empty((n, LANES))
    seen[:] = np.nan
    c, sizes, pull = np.empty((m, LANES)), np.empty((m, LANES)), np.empty((gram.shape[0], LANES))
    logits, padded = np.empty((m + 1, LANES)), np.empty((m + 1, LANES))  # the last is that of references
    c[:], logits[:], padded[:] = 0.0, 0.0, 0.0
    beta = padded[:m]
    alive, shrunk, lengths, factor = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    alive[:] = 1.0
    for r in range(m):
        store(logits, r, load(start, r))
        store(sizes, r, roots(absolute(load(gram, r * m + r))))
    status[:] = DONE
    saved = 0
    for k in range(rates.size + 1):
        if k == record[saved]:
            set_layers(coefficients, saved, saved + 1, c)
            saved += 1
        if k == rates.size:
            break
        if k % 1000 == 999:  # rounding drifts in a running sum: refresh from the coefficients
            times(gram, c, pull)
            for r in range(m):
                store(logits, r, load(start, r) + load(pull, r))
        for i in range(n):
            first, last = offsets[i], offsets[i + 1]
            best, top = load(logits, row[first]), spread(float(first))
            for slot in range(first + 1, last):
                logit = load(logits, row[slot])
                top = where(logit > best, float(slot), top)
                best = where(logit > best, logit, best)
            for slot in range(first, last):
                store(gaps, slot, load(logits, row[slot]) - best)
            store(tops, i, top)
        settle(offsets, gaps, scores, counts, tops, depth, reach, weights, u, mass)
        common = scale(u, depth, log_weights, log_slope, seen, slopes, log_scale)
        padded[:] = 0.0
        bounded = where(common > -np.inf, common, 0.0)
        for i in range(n):
            share = exp(load(log_scale, i) - bounded, FAINT) / load(mass, i)
            for slot in range(offsets[i], offsets[i + 1]):
                store(padded, row[slot], load(padded, row[slot]) + share * load(weights, slot))
        end(common == -np.inf, NO_COMPETITOR, alive, status)
        rescale(beta, shrunk)
        end(load(shrunk, 0) == -np.inf, STATIONARY, alive, status)
        times(gram, beta, pull)
        square, bound = spread(0.0), spread(0.0)
        if normalized:
            for r in range(m):
                square = square + load(pull, r) * load(beta, r)
                bound = bound + absolute(load(beta, r)) * load(sizes, r)  # the length, if nothing cancelled
            end(square < CANCELLATION * bound * bound, CANCELLED, alive, status)
        along = rates[k] / roots(square)
        if epsilon > 0.0 or not normalized:
            store(lengths, 0, roots(square))
            store(factor, 0, common + load(shrunk, 0) - load(log_total, 0))
            for lane in range(LANES):
                factor[lane] = step_factor(rates[k], lengths[lane], factor[lane], normalized, epsilon)
            along = load(factor, 0)
        along = where(load(alive, 0) != 0.0, along, 0.0)
        for r in range(m):
            store(c, r, load(c, r) + along * load(beta, r))
            store(logits, r, load(logits, r) + along * load(pull, r))
        if not any_lane(load(alive, 0) != 0.0):
            set_layers(coefficients, saved, coefficients.shape[0], c)
            break
