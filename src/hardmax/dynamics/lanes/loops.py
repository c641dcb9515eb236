"""Many small problems in one call: eight of one layout at once go side by side through the lanes of one loop.

Lanes do not see each other, so a run is the same to the bit whatever the other problems are.

`descend_along` is for GD and Normalized in l2, in Gram coordinates. `descend_by_rule` is for every other
compiled rule, in the coordinates of p: the gradient goes through lanes, and the update is that of the plain
loop, called for one problem after the other. Only that of Adam also has a form in lanes. The formulas are
those of `dynamics.softmax`, with each branch taken lane by lane and in passes over all inputs, so that one
token does not wait for another.

Arrays end with an axis of lanes. A lane that has ended stays where it is while the others go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_INDEX,
    OUT_TABLE,
    SLOPE,
    TABLE,
    VECTOR,
    entry_point,
    inlined,
    uncounted,
)
from hardmax._lib.kernels import kernel
from hardmax.dynamics import forces, loop
from hardmax.dynamics.driver import Rule, steps_to_record
from hardmax.dynamics.forces import fixed
from hardmax.dynamics.lanes.vectors import (
    LANES,
    absolute,
    any_lane,
    load,
    plus_product,
    power_of_two,
    roots,
    spread,
    store,
    where,
)
from hardmax.dynamics.loop import step_factor
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.softmax import NEGLIGIBLE
from hardmax.dynamics.stepping import can_compile
from hardmax.dynamics.updates import NEAR, UPDATE, adam, corrections
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Differences, Scale, choose, differences, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.losses import LOSSES
from hardmax.problem.problem import Slots, slots_of

# log 2 in two parts: the first has 21 zeros at its end, so that its product with a whole number is exact.
_HIGH, _LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
_PER_LOG_2 = 1.0 / math.log(2.0)
_SHIFT = 1.5 * 2.0**52  # a number that is added to this is rounded to a whole one
_C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(3, 14))

# e^-345 is 1e-150: next to one it is nothing, and the product of two such numbers does not underflow, which
# would take its time. A coordinate whose terms sum to less than SMALL may have lost some that way; the plain
# loop, which takes logs, has to do that run.
FAINT, SMALL = -345.0, 1e-130

LARGEST = 128  # rows of a Gram matrix: of larger ones eight do not fit in a processor's second cache
NOT_HERE = "not here"  # lanes cannot do it to the digits that it needs: `models.Vector` has more ways

BLOCK = 4  # rows of a matrix that are summed side by side; matrices are filled up with zeros to a multiple


class LaneLayout(NamedTuple):
    """Problems of one layout, one in each lane."""

    offsets: np.ndarray  # (n + 1,)
    counts: np.ndarray  # (slots, LANES)
    scores: np.ndarray  # (slots, LANES)
    log_weights: np.ndarray  # (n, LANES)
    log_total: np.ndarray  # (LANES,)
    slope: Any  # log|l'(u)|


class LaneRoom(NamedTuple):
    """Arrays that the loops write to."""

    gaps: np.ndarray  # (slots, LANES), filled up
    weights: np.ndarray
    tops: np.ndarray  # (n, LANES)
    depth: np.ndarray
    reach: np.ndarray
    u: np.ndarray
    mass: np.ndarray
    seen: np.ndarray
    slopes: np.ndarray
    log_scale: np.ndarray
    alive: np.ndarray  # (LANES,) one while the lane goes on
    flags: np.ndarray  # (2, LANES)
    status: np.ndarray  # (LANES,) how a lane ended


class LanePlan(NamedTuple):
    """The rule of all lanes."""

    rates: np.ndarray
    record: np.ndarray
    constants: np.ndarray
    unit: float
    limit: float
    flag: bool  # whether steps are normalized; of an update, whether it acts on coordinates one by one
    adapts: bool  # whether the update is that of Adam
    is_logistic: bool  # whether the loss is, and its slopes may be rounded in another way


OUT_CUBE = float64[:, :, ::1]
LAYOUT = types.NamedTuple((INDEX, *3 * (TABLE,), VECTOR, SLOPE), LaneLayout)
ROOM = types.NamedTuple((*10 * (OUT_TABLE,), OUT, OUT_TABLE, OUT_INDEX), LaneRoom)
PLAN = types.NamedTuple((VECTOR, INDEX, VECTOR, float64, float64, *3 * (boolean,)), LanePlan)


def filled_up(rows: int) -> int:
    """The next multiple of BLOCK."""
    return -(-rows // BLOCK) * BLOCK


def room_for(slots: int, n: int, count: int) -> LaneRoom:
    """Return room for a problem in each lane, of which the first ``count`` go."""
    of_slots = np.empty((filled_up(slots), LANES)), np.empty((slots, LANES))
    of_inputs = [np.empty((n, LANES)) for _ in range(8)]
    status, alive = np.full(LANES, loop.DONE, np.intp), (np.arange(LANES) < count).astype(np.float64)
    room = LaneRoom._make((*of_slots, *of_inputs, alive, np.empty((2, LANES)), status))
    room.seen[:] = np.nan
    return room


@inlined()
def exp(x, least):  # type: ignore[no-untyped-def]
    """e^x of lanes up to 700, within 1 ulp; zero below ``least``, which is at least -700.

    x = k log 2 + r, and e^r is its series up to r^13.
    """
    nothing = x < least
    x = where(nothing, 0.0, x)
    shifted = plus_product(_SHIFT, x, _PER_LOG_2)
    k = shifted - _SHIFT
    high = plus_product(x, k, -_HIGH)
    r = plus_product(high, k, -_LOW)
    rest = plus_product(high - r, k, -_LOW)  # what rounding took from r
    r2 = r * r
    r4 = r2 * r2
    q = plus_product(plus_product(0.5, r, _C3), r2, plus_product(_C4, r, _C5))
    middle = plus_product(plus_product(_C6, r, _C7), r2, plus_product(_C8, r, _C9))
    end = plus_product(plus_product(_C10, r, _C11), r2, plus_product(_C12, r, _C13))
    q = plus_product(q, r4, plus_product(middle, r4, end))
    near = 1.0 + (r + plus_product(rest, r2, q))
    return where(nothing, 0.0, near * power_of_two(shifted))


@inlined()
def end(ended, code, room):  # type: ignore[no-untyped-def]
    """Note how lanes ended that had not before; ``code`` is a float, or one for each lane."""
    if any_lane(ended):
        store(room.flags, 0, where(ended, code, -1.0))
        for lane in range(LANES):
            if room.flags[0, lane] >= 0.0 and room.alive[lane] != 0.0:
                room.status[lane], room.alive[lane] = int(room.flags[0, lane]), 0.0


@inlined()
def find_tops(logits, index, layout, room):  # type: ignore[no-untyped-def]
    """Top slots, and the gaps of the others' logits to theirs."""
    for i in range(layout.offsets.size - 1):
        first, last = layout.offsets[i], layout.offsets[i + 1]
        best, top = load(logits, index[first]), spread(float(first))
        for slot in range(first + 1, last):
            logit = load(logits, index[slot])
            top = where(logit > best, float(slot), top)
            best = where(logit > best, logit, best)
        for slot in range(first, last):
            store(room.gaps, slot, load(logits, index[slot]) - best)
        store(room.tops, i, top)


@inlined()
def settle(layout, room):  # type: ignore[no-untyped-def]
    """Compute `softmax.settle` from the gaps and the numbers of the top slots; gaps are overwritten.

    The weights are over exp(depth)/mass, and mass itself is returned in place of its log.
    """
    offsets, scores, counts = layout.offsets, layout.scores, layout.counts
    gaps, weights, n = room.gaps, room.weights, layout.offsets.size - 1
    for i in range(n):
        first, last, top = offsets[i], offsets[i + 1], load(room.tops, i)
        score, deepest = spread(0.0), spread(-np.inf)
        for slot in range(first, last):
            score = where(top == float(slot), load(scores, slot), score)
        for slot in range(first, last):
            gap = load(gaps, slot)
            deepest = where((gap > deepest) & (load(scores, slot) != score), gap, deepest)
        for slot in range(first, last):
            store(gaps, slot, load(gaps, slot) - where(load(scores, slot) != score, deepest, 0.0))
        store(room.depth, i, deepest)
        store(room.u, i, score)
    for slot in range(weights.shape[0]):
        store(weights, slot, load(counts, slot) * exp(load(gaps, slot), FAINT))
    for i in range(n):
        store(room.reach, i, exp(load(room.depth, i), NEGLIGIBLE))
    for i in range(n):
        first, last, top, score = offsets[i], offsets[i + 1], load(room.tops, i), load(room.u, i)
        tied, untied, pull = spread(0.0), spread(0.0), spread(0.0)
        for slot in range(first, last):  # the share of the top slot is its count
            share, rise = load(weights, slot), load(scores, slot) - score
            differs = rise != 0.0
            tied = tied + where(differs, 0.0, share)
            untied = untied + where(differs, share, 0.0)
            pull = pull + share * rise
        whole = tied + load(room.reach, i) * untied
        lean = pull / whole
        drift = load(room.reach, i) * lean
        total = spread(0.0)
        for slot in range(first, last):
            rise = load(scores, slot) - score
            weight = load(weights, slot) * where(rise != 0.0, rise - drift, -lean)
            weight = where(top == float(slot), 0.0, weight)
            total = total + weight
            store(weights, slot, weight)
        for slot in range(first, last):
            store(weights, slot, load(weights, slot) + where(top == float(slot), -total, 0.0))
        store(room.u, i, score + drift)
        store(room.mass, i, whole)


@uncounted(error_model="numpy")
def weigh(layout, room, is_logistic):  # type: ignore[no-untyped-def]
    """Weights of all slots over the exponential of a number, which is returned; lanes without any end.

    A saturated input keeps its slope. The slope of the logistic loss is 1/(1 + e^u), for which lanes need no
    log: e^-max(u, 0) of it goes to the exponent, and the rest to the mass.
    """
    settle(layout, room)
    common, n = spread(-np.inf), layout.offsets.size - 1
    for i in range(n):
        if is_logistic:
            u = load(room.u, i)
            store(room.mass, i, load(room.mass, i) * (1.0 + exp(-absolute(u), FAINT)))
            store(room.slopes, i, load(layout.log_weights, i) - where(u > 0.0, u, 0.0))
        elif any_lane(load(room.u, i) != load(room.seen, i)):
            for lane in range(LANES):
                if room.u[i, lane] != room.seen[i, lane]:
                    room.slopes[i, lane] = layout.slope(room.u[i, lane]) + layout.log_weights[i, lane]
            store(room.seen, i, load(room.u, i))
        size = load(room.depth, i) + load(room.slopes, i)
        common = where(size > common, size, common)
        store(room.log_scale, i, size)
    end(common == -np.inf, float(forces.NO_COMPETITOR), room)
    bounded = where(common > -np.inf, common, 0.0)
    for i in range(n):
        share = exp(load(room.log_scale, i) - bounded, FAINT) / load(room.mass, i)
        for slot in range(layout.offsets[i], layout.offsets[i + 1]):
            store(room.weights, slot, share * load(room.weights, slot))
    return common


@uncounted(error_model="numpy")
def times(matrix, x, product):  # type: ignore[no-untyped-def]
    """product = matrix x, where the rows of the matrix are filled up."""
    m = x.shape[0]
    for r in range(0, matrix.shape[0], BLOCK):
        a, b, c, d = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for q in range(m):
            y = load(x, q)
            a = plus_product(a, load(matrix, r * m + q), y)
            b = plus_product(b, load(matrix, (r + 1) * m + q), y)
            c = plus_product(c, load(matrix, (r + 2) * m + q), y)
            d = plus_product(d, load(matrix, (r + 3) * m + q), y)
        store(product, r, a)
        store(product, r + 1, b)
        store(product, r + 2, c)
        store(product, r + 3, d)


@inlined()
def rescale(x, room):  # type: ignore[no-untyped-def]
    """`forces.rescale` lane by lane; returns the logs of what x was divided by, and lanes of zeros end."""
    largest = spread(0.0)
    for r in range(x.shape[0]):
        size = absolute(load(x, r))
        largest = where(size > largest, size, largest)
    if not any_lane((largest < 1e-125) | (largest > 1e125)):
        return spread(0.0)
    store(room.flags, 1, largest)
    for lane in range(LANES):
        size, room.flags[1, lane] = room.flags[1, lane], 0.0
        if not 1e-125 <= size <= 1e125:
            room.flags[1, lane] = math.log(size)
            if size > 0.0:
                for r in range(x.shape[0]):
                    x[r, lane] /= size
    shrunk = load(room.flags, 1)
    end(shrunk == -np.inf, float(forces.STATIONARY), room)
    return shrunk


@inlined()
def set_layers(cube, first, last, table):  # type: ignore[no-untyped-def]
    """cube[first:last] = table; `_lib.compiled` explains why this is a loop."""
    for k in range(first, last):
        for r in range(table.shape[0]):
            for j in range(table.shape[1]):
                cube[k, r, j] = table[r, j]


@kernel(
    signature=lambda: types.void(LAYOUT, ROOM, PLAN, OUT_CUBE, INDEX, TABLE, OUT_CUBE, OUT_CUBE),
    error_model="numpy",
    _nrt=False,
)
def descend_along(layout, room, plan, gram, row, start, vectors, coefficients):  # type: ignore[no-untyped-def]
    """Step the coefficients of the problems, which ``coefficients`` receives at the recorded steps.

    ``vectors`` is room for five vectors. `forces.by_inner_products` explains the rows of ``gram``.
    """
    n, m, rates, saved = layout.offsets.size - 1, start.shape[0], plan.rates, 0
    c, sizes, pull, logits, padded = (vectors[0][:m], vectors[1], vectors[2], vectors[3], vectors[4])
    beta = padded[:m]
    for r in range(m):
        store(c, r, spread(0.0))
        store(logits, r, load(start, r))
        store(sizes, r, roots(absolute(load(gram, r * m + r))))
    store(logits, m, spread(0.0))  # that of references
    for k in range(rates.size + 1):
        is_over = not any_lane(load(room.alive, 0) != 0.0)
        if is_over or k == plan.record[saved]:
            place = coefficients.shape[0] if is_over else saved + 1
            set_layers(coefficients, saved, place, c)
            saved = place
        if is_over or k == rates.size:
            break
        if k % forces.REFRESH == forces.REFRESH - 1:
            times(gram, c, pull)
            for r in range(m):
                store(logits, r, load(start, r) + load(pull, r))
        find_tops(logits, row, layout, room)
        common = weigh(layout, room, False)
        for r in range(m + 1):
            store(padded, r, spread(0.0))
        for slot in range(layout.offsets[n]):
            store(padded, row[slot], load(padded, row[slot]) + load(room.weights, slot))
        shrunk = rescale(beta, room)
        times(gram, beta, pull)
        square, bound = spread(0.0), spread(0.0)
        if plan.flag:
            for r in range(m):
                square = square + load(pull, r) * load(beta, r)
                bound = bound + absolute(load(beta, r)) * load(sizes, r)  # the length, if nothing canceled
            end(square < forces.CANCELLATION * bound * bound, float(forces.CANCELLED), room)
        along, epsilon = rates[k] / roots(square), plan.constants[0]
        if epsilon > 0.0 or not plan.flag:
            store(room.flags, 0, roots(square))
            store(room.flags, 1, common + shrunk - load(layout.log_total, 0))
            for lane in range(LANES):
                length, log_size = room.flags[0, lane], room.flags[1, lane]
                room.flags[1, lane] = step_factor(rates[k], length, log_size, plan.flag, epsilon)
            along = load(room.flags, 1)
        along = where(load(room.alive, 0) != 0.0, along, 0.0)
        for r in range(m):
            store(c, r, load(c, r) + along * load(beta, r))
            store(logits, r, load(logits, r) + along * load(pull, r))


@inlined()
def see_from_tops(keys, layout, room, p, rows):  # type: ignore[no-untyped-def]
    """`problem.kernels.gaps_to_top` in lanes; ``rows`` holds the differences of keys to the top one.

    A top token stays until another rises above it, so mostly the differences of the step before serve again.
    """
    times(rows, p, room.gaps)
    d, is_new = keys.shape[1], False
    for i in range(layout.offsets.size - 1):
        first, last, top = layout.offsets[i], layout.offsets[i + 1], load(room.tops, i)
        best, highest = spread(0.0), top
        for slot in range(first, last):
            gap = load(room.gaps, slot)
            highest = where(gap > best, float(slot), highest)
            best = where(gap > best, gap, best)
        if any_lane(highest != top):
            is_new = True
            store(room.tops, i, highest)
            for j in range(d):
                reference = load(keys, first * d + j)
                for slot in range(first + 1, last):
                    reference = where(highest == float(slot), load(keys, slot * d + j), reference)
                for slot in range(first, last):
                    store(rows, slot * d + j, load(keys, slot * d + j) - reference)
    if is_new:
        times(rows, p, room.gaps)
        for slot in range(room.weights.shape[0]):
            gap = load(room.gaps, slot)
            store(room.gaps, slot, where(gap > 0.0, 0.0, gap))


@inlined()
def gather(rows, weights, V):  # type: ignore[no-untyped-def]
    """V, the sum of weights times rows."""
    d = V.shape[0]
    for j in range(d):
        total = spread(0.0)
        for slot in range(weights.shape[0]):
            total = plus_product(total, load(weights, slot), load(rows, slot * d + j))
        store(V, j, total)


@inlined()
def drop_rounding(rows, weights, widest, V, room):  # type: ignore[no-untyped-def]
    """Zero in place of coordinates that cancel to rounding, as in `forces.by_coordinate`.

    Mostly all are larger than if the widest of the keys were the terms of each, and nothing is to be done.
    """
    d, total, least = V.shape[0], spread(0.0), spread(np.inf)
    for slot in range(weights.shape[0]):
        total = total + absolute(load(weights, slot))
    for j in range(d):
        least = where(absolute(load(V, j)) < least, absolute(load(V, j)), least)
    doubtful = (least < 2.0 * SMALL) | (least < 2.0 * forces.ROUNDING * widest * total)
    if not any_lane(doubtful & (load(room.alive, 0) != 0.0)):
        return
    most, rounding, least = spread(0.0), spread(0.0), spread(np.inf)
    for j in range(d):
        size = spread(0.0)
        for slot in range(weights.shape[0]):
            size = size + absolute(load(weights, slot) * load(rows, slot * d + j))
        least = where(size < least, size, least)
        cancelled = absolute(load(V, j)) < forces.ROUNDING * size
        rounding = where(cancelled & (load(V, j) != 0.0), 1.0, rounding)
        store(V, j, where(cancelled, 0.0, load(V, j)))
        most = where(absolute(load(V, j)) > most, absolute(load(V, j)), most)
    code = where(rounding != 0.0, float(forces.EXHAUSTED), float(forces.STATIONARY))
    code = where(least < SMALL, float(forces.CANCELLED), code)
    end((most == 0.0) | (least < SMALL), code, room)


@inlined()
def adapt(V, exponent, constants, states, rate, step, room, move):  # type: ignore[no-untyped-def]
    """Compute `updates.adam` in lanes whose means all share one exponent, which needs one exp for all.

    Returns the lanes that it leaves to the update itself.
    """
    beta1, beta2, epsilon, decay = constants[0], constants[1], constants[2], constants[3]
    along, stretch = corrections(constants, rate, step)
    d = V.shape[0]
    level, others = spread(-np.inf), spread(0.0)
    for j in range(d):
        s = load(states, 2 * d + j)
        level = where(s > level, s, level)
    for j in range(d):
        size, m, v = absolute(load(V, j)), load(states, d + j), load(states, 3 * d + j)
        same = (load(states, 2 * d + j) == level) & (load(states, 4 * d + j) == level)
        empty = (m == 0.0) & (v == 0.0)
        moves = (size > 1e-20) & (size < 1e20)  # outside the square may leave the range
        others = where((moves & (same | empty)) | (empty & (size == 0.0)), others, 1.0)
    lead = exponent - level
    fast = (others == 0.0) & (absolute(lead) < NEAR)
    if epsilon > 0.0:
        fast = fast & (level > -700.0)
    store(room.flags, 0, where(fast, lead, 0.0))
    store(room.flags, 1, where(fast, -level, 0.0))
    for r in range(2):
        store(room.flags, r, exp(load(room.flags, r), -700.0))
    ratio, damping = load(room.flags, 0), epsilon * load(room.flags, 1)
    for j in range(d):
        x, m, v, pull = load(states, j), load(states, d + j), load(states, 3 * d + j), load(V, j) * ratio
        mean = beta1 * m + (1.0 - beta1) * pull
        square = beta2 * v + (1.0 - beta2) * (pull * pull)
        turn = along * mean / (roots(square) * stretch + damping)
        step_j = where(mean == 0.0, 0.0, turn) - rate * decay * x
        store(move, j, step_j)
        store(states, j, where(fast, x + step_j, x))
        store(states, d + j, where(fast, mean, m))
        store(states, 2 * d + j, where(fast, level, load(states, 2 * d + j)))
        store(states, 3 * d + j, where(fast, square, v))
        store(states, 4 * d + j, where(fast, level, load(states, 4 * d + j)))
    return where(fast, 0.0, load(room.alive, 0))


class LaneTables(NamedTuple):
    """The keys of the problems, and scratch arrays."""

    keys: np.ndarray  # (slots, d, LANES)
    rows: np.ndarray  # (slots, d, LANES), filled up with zeros
    widest: np.ndarray  # (LANES,) twice the largest entry of the keys
    vectors: np.ndarray  # (2, d, LANES) V and the move
    single: np.ndarray  # (3, d) direction, exponents and move of one lane
    state: np.ndarray  # (rows, d) of one lane
    whole: np.ndarray  # (1 + rows, d, LANES) points and states
    mark: np.ndarray  # the same at an earlier step
    looking: np.ndarray  # (LANES,) one while a cycle is looked for


TABLES = types.NamedTuple(
    (OUT_CUBE, OUT_CUBE, OUT, OUT_CUBE, OUT_TABLE, OUT_TABLE, OUT_CUBE, OUT_CUBE, OUT), LaneTables
)


@inlined()
def look_back(whole, mark, looking, goes_round, room):  # type: ignore[no-untyped-def]
    """Note lanes whose points and states are those of the mark, to the bit: as cycles, if they go round."""
    same = (load(looking, 0) != 0.0) & (load(room.alive, 0) != 0.0)
    for r in range(mark.shape[0] * mark.shape[1]):
        if any_lane(same):
            same = same & (load(mark, r) == load(whole, r))
    if any_lane(same):
        store(room.flags, 0, where(same, 1.0, 0.0))
        for lane in range(LANES):
            if room.flags[0, lane] != 0.0:
                looking[lane] = 0.0
                if goes_round:
                    room.status[lane] = loop.CYCLE


@inlined()
def call_update(update, exponent, constants, states, rate, step, lanes, tables, room):  # type: ignore[no-untyped-def]
    """Call the update of the plain loop for some lanes, one after the other."""
    V, moves = tables.vectors[0], tables.vectors[1]
    direction, exponents, move = tables.single[0], tables.single[1], tables.single[2]
    store(room.flags, 0, lanes)
    store(room.flags, 1, exponent)
    for lane in range(LANES):
        if room.flags[0, lane] != 0.0:
            for j in range(move.size):
                direction[j], exponents[j] = V[j, lane], room.flags[1, lane]
            for r in range(states.shape[0]):
                for j in range(move.size):
                    tables.state[r, j] = states[r, j, lane]
            update(direction, exponents, constants, tables.state, rate, step, move)
            for r in range(states.shape[0]):
                for j in range(move.size):
                    states[r, j, lane] = tables.state[r, j]
            for j in range(move.size):
                moves[j, lane] = move[j]


@kernel(
    signature=lambda: types.void(LAYOUT, ROOM, PLAN, TABLES, UPDATE, OUT_TABLE, OUT_CUBE, OUT_CUBE),
    error_model="numpy",
    _nrt=False,
)
def descend_by_rule(layout, room, plan, tables, update, p, states, points):  # type: ignore[no-untyped-def]
    """Step p (d, LANES) and the states (rows, d, LANES) in place; ``points`` (S, d, LANES) receives p."""
    d, rates, saved, marked = p.shape[0], plan.rates, 0, 0
    V, move = tables.vectors[0], tables.vectors[1]
    for k in range(rates.size + 1):
        is_over = not any_lane(load(room.alive, 0) != 0.0)
        if is_over or k == plan.record[saved]:
            place = points.shape[0] if is_over else saved + 1
            set_layers(points, saved, place, p)
            saved = place
        if is_over or k == rates.size:
            break
        look_back(tables.whole, tables.mark, tables.looking, k > marked + 1, room)
        if k >= 2 * marked:
            marked = k
            for r in range(tables.mark.shape[0] * d):
                store(tables.mark, r, load(tables.whole, r))
        see_from_tops(tables.keys, layout, room, p, tables.rows)
        size = weigh(layout, room, plan.is_logistic)
        gather(tables.rows, room.weights, V)
        if plan.flag:
            drop_rounding(tables.rows, room.weights, load(tables.widest, 0), V, room)
        else:
            size = size + rescale(V, room)
        exponent = size - load(layout.log_total, 0) + math.log(plan.unit)
        others = load(room.alive, 0)
        if plan.adapts:
            others = adapt(V, exponent, plan.constants, states, rates[k], k, room, move)
        if any_lane(others != 0.0):
            call_update(update, exponent, plan.constants, states, rates[k], k, others, tables, room)
        outside = spread(0.0)
        for j in range(d):
            entry = load(p, j) + plan.unit * load(move, j)
            outside = where(absolute(entry) <= plan.limit, outside, 1.0)
        end(outside != 0.0, float(loop.RUNAWAY), room)
        goes_on = load(room.alive, 0) != 0.0
        for j in range(d):
            store(p, j, load(p, j) + where(goes_on, plan.unit * load(move, j), 0.0))


@dataclass(frozen=True, eq=False)
class Lane:
    """One of the problems."""

    place: int  # in the call
    problem: Problem
    scale: Scale
    slots: Slots
    start: np.ndarray


@dataclass(frozen=True, eq=False)
class Group:
    """Problems that one loop can take: of one layout, one loss and one rule."""

    spans: Differences
    rule: Rule
    lanes: list[Lane]


def train_side_by_side(
    problems: Sequence[Problem],
    step: Optimizer,
    steps: int,
    *,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
) -> dict[int, Run]:
    """Return the runs of small problems by a compiled rule, which lanes can take, by the problem's place."""
    if step.of_matrix or isinstance(step.lr, str):
        return {}
    recorded = steps_to_record(record, steps)
    groups: dict[Any, Group] = {}
    rules: dict[Any, Rule] = {}
    for place, problem in enumerate(problems):
        problem.need_decreasing_loss()
        scale = scaled(problem)
        slope, in_log = scale.problem.kernel_slope
        if in_log or type(scale.problem.table) is not Dense:
            continue
        units = scale.exponent, scale.problem.table.exponent, problem.d
        if units not in rules:
            rules[units] = Rule.of(step, steps, scale)
        rule = rules[units]
        if not can_compile(scale.problem, rule):
            continue
        slots = slots_of(scale.problem)
        key = *units, slope, slots.tokens.tobytes(), slots.offsets.tobytes()
        if key not in groups:
            groups[key] = Group(differences(slots), rule, [])
        if _fits(groups[key], slots, problem.d, steps, coordinates):
            p = scale.point(problem.vector("start", start), "start")
            groups[key].lanes.append(Lane(place, problem, scale, slots, p))
    return {place: run for group in groups.values() for place, run in _runs(group, recorded).items()}


def _fits(group: Group, slots: Slots, d: int, steps: int, coordinates: Coordinates) -> bool:
    """Whether lanes have a loop for this rule in these coordinates, and its problems fit."""
    if group.rule.kind == loop.BY_RULE:
        return coordinates in ("auto", "primal") and slots.keys.size <= LARGEST**2
    m = len(group.spans.plus)
    return m <= LARGEST and choose(coordinates, m, len(slots.tokens), d, steps) == "gram"


def _runs(group: Group, record: np.ndarray) -> dict[int, Run]:
    """Return the runs of a group, trained as many at a time as there are lanes."""
    descend = _by_rule if group.rule.kind == loop.BY_RULE else _along
    runs: dict[int, Run] = {}
    for first in range(0, len(group.lanes), LANES):
        few = group.lanes[first : first + LANES]
        points, events = descend(group, [*few, *few[-1:] * (LANES - len(few))], len(few), record)
        for lane, its_points, event in zip(few, points, events, strict=False):
            if event != NOT_HERE:
                runs[lane.place] = Run(
                    lane.problem,
                    "step",
                    record,
                    lane.scale.back(its_points),
                    event,
                    method=group.rule.step.name,
                    optimizer=group.rule.step,
                )
    return runs


def _layout(lanes: list[Lane]) -> LaneLayout:
    """Return the problems of all lanes as the loops take them."""
    rows = []
    for lane in lanes:
        slots, problem = lane.slots, lane.scale.problem
        scores = slots.merge(problem.scores)
        rows.append((slots.counts, scores, problem.log_weights, math.log(problem.total)))
    arrays = (fixed(np.stack(column, -1)) for column in zip(*rows, strict=True))
    slope, _ = lanes[0].scale.problem.kernel_slope
    return LaneLayout._make((fixed(lanes[0].slots.offsets, np.intp), *arrays, slope))


def _filled_up(table: np.ndarray) -> np.ndarray:
    """Return a table with rows of zeros up to the next multiple of BLOCK."""
    full = np.zeros((filled_up(len(table)), *table.shape[1:]))
    full[: len(table)] = table
    return full


def _by_rule(
    group: Group, lanes: list[Lane], count: int, record: np.ndarray
) -> tuple[np.ndarray, list[str | None]]:
    """Return points (lanes, S, d) and the event of each lane, by the update of a rule."""
    rule, layout, tokens = group.rule, _layout(lanes), lanes[0].slots.tokens
    whole = np.stack([np.vstack([lane.start, rule.begin(lane.start)]) for lane in lanes], -1)
    keys = np.stack([lane.slots.keys[tokens] for lane in lanes], -1)
    tops, sizes = layout.offsets[:-1], np.diff(layout.offsets)
    room = room_for(len(tokens), len(tops), count)
    room.tops[:] = tops[:, None]
    p, states, repeats = whole[0], whole[1:], (rule.rates == rule.rates[:1]).all()
    rows, d, _ = states.shape
    tables = LaneTables(
        keys,
        _filled_up(keys - keys[np.repeat(tops, sizes)]),
        2.0 * np.abs(keys).max((0, 1)),
        np.empty((2, d, LANES)),
        np.empty((3, d)),
        np.empty((rows, d)),
        whole,
        np.full(whole.shape, np.nan),
        np.full(LANES, float(repeats)),  # a cycle needs the same rate at every step
    )
    plan = LanePlan(
        fixed(rule.rates),
        fixed(record, np.intp),
        fixed(rule.constants),
        float(rule.unit),
        float(rule.limit),
        rule.step.by_coordinate,
        rule.update is adam,
        layout.slope is LOSSES["logistic"].log_slope,
    )
    points = np.empty((len(record), *p.shape))
    entry_point(descend_by_rule.compiled)(layout, room, plan, tables, rule.update, p, states, points)
    events = [
        NOT_HERE
        if how == forces.CANCELLED
        else rule.event(states[..., lane])
        if how == loop.DONE
        else loop.EVENTS[how]
        for lane, how in enumerate(room.status.tolist())
    ]
    return points.transpose(2, 0, 1), events


def _along(
    group: Group, lanes: list[Lane], count: int, record: np.ndarray
) -> tuple[np.ndarray, list[str | None]]:
    """Return points and the event of each lane, by GD or Normalized in l2."""
    spans, rule, layout = group.spans, group.rule, _layout(lanes)
    rows = np.stack([lane.slots.table.differences(spans.plus, spans.minus) for lane in lanes])
    starts = np.stack([lane.start for lane in lanes])
    m = rows.shape[1]
    gram = _filled_up((rows @ rows.transpose(0, 2, 1)).transpose(1, 2, 0))
    logits = np.ascontiguousarray((rows @ starts[:, :, None])[:, :, 0].T)
    c, vectors = np.empty((len(record), m, LANES)), np.empty((5, filled_up(m + 1), LANES))
    room = room_for(len(spans.row), len(layout.offsets) - 1, LANES)
    plan = LanePlan(
        fixed(rule.rates),
        fixed(record, np.intp),
        fixed(rule.constants),
        1.0,
        1.0,
        rule.kind == loop.UNIT_ALONG,
        False,
        False,
    )
    entry_point(descend_along.compiled)(layout, room, plan, gram, spans.row, logits, vectors, c)
    points = np.empty((LANES, len(record), rows.shape[2]))
    for s in range(len(record)):  # one by one: each the same to the bit whatever the others are
        moved = np.ascontiguousarray(c[s].T)
        points[:, s] = starts + (moved[:, None, :] @ rows)[:, 0]
    return points, [NOT_HERE if how == forces.CANCELLED else loop.EVENTS[how] for how in room.status.tolist()]
