"""Forces: minus the gradient of a model at a point, as compiled functions of one signature.

`force(layout, x, work)` fills rows of ``work.vectors``, so that minus the gradient is V exp(EXPONENTS), and
``work.lengths`` with the length of each block of V, zero for a block that does not move. It returns MOVES, or
why nothing does. A `ForceLayout` is what a model is made of, read only; a `Workspace` is room for a run.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int64, types

from hardmax._lib.compiled import (
    INDEX,
    OUT,
    OUT_INDEX,
    OUT_TABLE,
    SLOPE,
    TABLE,
    UNDERFLOW,
    VECTOR,
    VECTORIZED,
    FirstClass,
    dot,
    entry_point,
    inlined,
    uncounted,
)
from hardmax.dynamics import softmax
from hardmax.dynamics.softmax import scale_inputs, settle, take_logs
from hardmax.problem import Problem
from hardmax.problem.kernels import gaps_along, gaps_to_top, gather, pull_along
from hardmax.problem.problem import Slots

# Results of a force at a point: it moves, or the reason why not. The last two end a run at once: the form of
# the force is not exact there, and another form continues.
MOVES, STATIONARY, NO_COMPETITOR, EXHAUSTED, CANCELLED, LEFT_FORM = range(6)

GAPS, WEIGHTS, SCORES, LOGS, SIGNS = range(5)  # rows of Workspace.slots
V, EXPONENTS, MOVE, SIZES = range(4)  # rows of Workspace.vectors

# Entries of Workspace.clock: the number of the step and of that at which to pause, points kept so far, inputs
# passed over since something moved and whether none of them had a competitor; then of the search for a cycle
# whether it goes on, since which step, and whether it found one.
STEP, PAUSE, SAVED, STILL, EMPTY, LOOKING, MARKED, CYCLED = range(8)

CANCELLATION = 1e-12  # of a squared norm from inner products: below it half of the digits are lost
ROUNDING = 1e-13  # of a sum of signed terms, relative to the sum of their sizes
SMALL = 1e-280  # a coordinate whose terms sum to less, relative to the largest, is taken by logs
REFRESH = 1000  # steps after which logits are formed from the coefficients again: a running sum drifts


NO_TABLE, NO_INDEX, NO_VECTOR = np.empty((0, 0)), np.empty(0, np.intp), np.empty(0)


class ForceLayout(NamedTuple):
    """A model with fixed scores or a trained readout, as arrays: slots are distinct keys of an input."""

    keys: np.ndarray  # (tokens, d); the Gram matrix of key differences; the left factors of keys
    values: np.ndarray  # (slots, e) values of a trained readout; the right factors of keys; (1, m) squares
    tokens: np.ndarray  # (slots,) row of keys
    queries: np.ndarray  # (n,) row of the right factors
    offsets: np.ndarray  # (n + 1,)
    counts: np.ndarray  # (slots,)
    scores: np.ndarray  # (slots,)
    log_weights: np.ndarray  # (n,)
    labels: np.ndarray  # (n,) labels next to a trained readout; with a Gram matrix the logits at the start
    slope: Any  # log|l'(u)|
    in_log: bool  # whether as a function of log u
    total: float  # total weight of the inputs of a step
    log_total: float
    batch: int  # inputs of a step
    rank: int  # columns of the factors of W
    normalized: bool  # whether lengths are computed


class Workspace(NamedTuple):
    """Room for a force and the loop."""

    slots: np.ndarray  # (5, slots)
    inputs: np.ndarray  # (8, n), rows as in softmax.py
    vectors: np.ndarray  # (4, size of x)
    tops: np.ndarray  # (n,)
    bounds: np.ndarray  # (blocks + 1,) where the blocks of x begin
    lengths: np.ndarray  # (blocks,)
    clock: np.ndarray  # (8,) where the loop is, entries as named below
    totals: np.ndarray  # (slots,) multipliers; empty if they are not summed
    room: np.ndarray  # scratch of a force
    mark: np.ndarray  # x and the states of the updates at an earlier step


LAYOUT = types.NamedTuple(
    (TABLE, TABLE, *3 * (INDEX,), *4 * (VECTOR,), SLOPE, boolean, float64, float64, int64, int64, boolean),
    ForceLayout,
)
WORKSPACE = types.NamedTuple(
    (*3 * (OUT_TABLE,), OUT_INDEX, OUT_INDEX, OUT, OUT_INDEX, OUT, OUT, OUT), Workspace
)
SIGNATURE = int64(LAYOUT, OUT, WORKSPACE)


class CompiledForce(FirstClass):
    """A force as the loop takes it."""

    def __init__(self, function: Any, signature: Any = SIGNATURE) -> None:
        super().__init__(function, signature)

    @cached_property
    def _entry(self) -> Any:
        return entry_point(self.function, self._signature)

    def __call__(self, *arguments: Any) -> int:
        """Fill in the workspace at a point, and return MOVES or why nothing moves."""
        return int(self._entry(*arguments))


def workspace(
    slots: int, n: int, bounds: Any, states: int = 0, totals: np.ndarray | None = None, room: int = 0
) -> Workspace:
    """Return room for this many slots, inputs, blocks of x and numbers in the states of their updates."""
    size = bounds[-1]
    work = Workspace(
        np.empty((5, slots)),
        np.empty((8, n)),
        np.empty((4, size)),
        np.empty(n, np.intp),
        np.array(bounds, np.intp),
        np.empty(len(bounds) - 1),
        np.zeros(8, np.intp),
        np.empty(0) if totals is None else totals,
        np.empty(room),
        np.full(size + states, np.nan),
    )
    work.inputs[:] = np.nan
    return work


def layout_of(
    problem: Problem,
    slots: Slots,
    *,
    keys: np.ndarray | None = None,
    values: np.ndarray = NO_TABLE,
    tokens: np.ndarray | None = None,
    queries: np.ndarray = NO_INDEX,
    scores: np.ndarray | None = None,
    labels: np.ndarray = NO_VECTOR,
    batch: int = 0,
    rank: int = 0,
    normalized: bool = True,
) -> ForceLayout:
    """Return a problem as its forces take it; arguments replace its own keys and scores."""
    slope, in_log = problem.kernel_slope
    return ForceLayout(
        fixed(slots.keys if keys is None else keys),
        fixed(values),
        fixed(slots.tokens if tokens is None else tokens, np.intp),
        fixed(queries, np.intp),
        fixed(slots.offsets, np.intp),
        fixed(slots.counts),
        fixed(slots.merge(problem.scores) if scores is None else scores),
        fixed(problem.log_weights),
        fixed(labels),
        slope,
        in_log,
        total_of(problem, batch),
        math.log(total_of(problem, batch)),
        batch or problem.n,
        rank,
        normalized,
    )


def total_of(problem: Problem, batch: int) -> float:
    """Return the total weight of the inputs of a step; without weights a batch of b inputs weighs b."""
    return float(batch) if batch and problem.weights is None else problem.total


def fixed(x: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array as layouts hold it: contiguous and read only."""
    array = np.ascontiguousarray(x, dtype=dtype).view()
    array.flags.writeable = False
    return array


@inlined()
def rescale(x):  # type: ignore[no-untyped-def]
    """Divide x by its largest entry if its square would leave the range; returns the log of that entry."""
    square = dot(x, x)
    if 1e-250 < square < 1e250:
        return 0.0
    largest = 0.0
    for j in range(x.size):
        largest = max(largest, abs(x[j]))
    if largest == 0.0:
        return -np.inf
    for j in range(x.size):
        x[j] /= largest
    return math.log(largest)


@inlined()
def spread(direction, exponents, log_scale):  # type: ignore[no-untyped-def]
    """Give a block one exponent for all entries; returns its length, zero where nothing pulls."""
    shrunk = rescale(direction)
    for j in range(exponents.size):
        exponents[j] = log_scale + shrunk
    return math.sqrt(dot(direction, direction)) if shrunk > -np.inf else 0.0


def set_pull(
    work: Workspace, b: int, vector: np.ndarray, log_scale: Any, length: float | None = None
) -> None:
    """Write a block of minus the gradient, vector * exp(log_scale); its length is computed by default."""
    block = slice(work.bounds[b], work.bounds[b + 1])
    direction, exponents = work.vectors[V, block], work.vectors[EXPONENTS, block]
    direction[:] = vector.ravel()
    if length is None:
        work.lengths[b] = spread(direction, exponents, log_scale)
    else:
        exponents[:], work.lengths[b] = log_scale, length


@uncounted(float64(LAYOUT, VECTOR, float64, WORKSPACE))
def settle_inputs(layout, scores, shift, work):  # type: ignore[no-untyped-def]
    """Weights of the slots and logs of the inputs' factors from gaps and top slots; returns the largest.

    Gaps and factors carry a ``shift``, which is log t in a flow.
    Inputs outside of the step's batch have a factor of zero: step k takes the inputs k b, ..., k b + b - 1
    modulo n.
    """
    inputs, n = work.inputs, layout.offsets.size - 1
    gaps, weights = work.slots[GAPS], work.slots[WEIGHTS]
    settle(gaps, work.tops, scores, layout.counts, layout.offsets, shift, weights, inputs)
    if layout.in_log:
        for i in range(n):
            inputs[softmax.DEEP, i] = inputs[softmax.DEPTH, i]
        take_logs(work.tops, scores, shift, inputs)
    common = scale_inputs(inputs, layout.log_weights, layout.slope)
    if layout.batch < n:
        common = -np.inf
        for i in range(n):
            if (i - work.clock[STEP] * layout.batch) % n >= layout.batch:
                inputs[softmax.LOG_SCALE, i] = -np.inf
            common = max(common, inputs[softmax.LOG_SCALE, i])
    return common


@CompiledForce
def dense(layout, p, work):  # type: ignore[no-untyped-def]
    """The force on p where keys are a table."""
    direction = work.vectors[V]
    gaps_to_top(layout.keys, layout.tokens, layout.offsets, p, work.slots[GAPS], work.tops)
    common = settle_inputs(layout, layout.scores, 0.0, work)
    if common == -np.inf:
        return NO_COMPETITOR
    weights, log_scale = work.slots[WEIGHTS], work.inputs[softmax.LOG_SCALE]
    gather(layout.keys, layout.tokens, layout.offsets, work.tops, weights, log_scale, direction)
    work.lengths[0] = spread(direction, work.vectors[EXPONENTS], common - layout.log_total)
    return MOVES if work.lengths[0] > 0.0 else STATIONARY


@uncounted(types.void(VECTOR, OUT_INDEX, VECTOR, VECTOR, INDEX, OUT_TABLE, OUT, OUT), error_model="numpy")
def log_weights(gaps, tops, scores, counts, offsets, inputs, logs, signs):  # type: ignore[no-untyped-def]
    """log and sign of every slot's weight in minus the gradient, from what `softmax.settle` finds.

    The weights there are over exp(depth), and are zero for a token far behind that.
    """
    deep, lean, log_scale = inputs[softmax.DEEP], inputs[softmax.LEAN], inputs[softmax.LOG_SCALE]
    for i in range(offsets.size - 1):
        score = scores[tops[i]]
        drift = math.exp(deep[i]) * lean[i] if deep[i] > softmax.NEGLIGIBLE else 0.0
        for slot in range(offsets[i], offsets[i + 1]):
            logs[slot], signs[slot] = -np.inf, 0.0
            rise = scores[slot] - score
            factor = rise - drift if rise != 0.0 else -lean[i]
            if slot == tops[i] or factor == 0.0 or log_scale[i] == -np.inf:
                continue
            ahead = gaps[slot] - deep[i] if rise != 0.0 else gaps[slot]
            logs[slot] = log_scale[i] + ahead + math.log(counts[slot]) + math.log(abs(factor))
            signs[slot] = math.copysign(1.0, factor)


@CompiledForce
def by_coordinate(layout, p, work):  # type: ignore[no-untyped-def]
    """The same with an exponent for every coordinate (D-DEF-6).

    Rules that act on coordinates one by one (signs, Adam) need the sign and the size of a coordinate also
    where it is e^-745 times the largest and less: with one exponent for all it would be zero. So coordinate k
    is V_k exp(M_k),

        M_k = max_j (log|w_j| + log|d_jk|),   V_k = sum_j +- exp(log|w_j d_jk| - M_k),

    over the slots j and their key differences d_j to the top slot of their input. It is zero if the terms
    cancel, that is if |V_k| <= 1e-13 sum_j |...|: such a sum is rounding, and even its sign is
    meaningless. The sum with one exponent comes first; only a coordinate that is small in it is summed again.
    """
    gaps_to_top(layout.keys, layout.tokens, layout.offsets, p, work.slots[GAPS], work.tops)
    common = settle_inputs(layout, layout.scores, 0.0, work)
    if common == -np.inf:
        return NO_COMPETITOR
    n, table, tokens = layout.offsets.size - 1, layout.keys, layout.tokens
    offsets, tops = layout.offsets, work.tops
    weights, log_scale = work.slots[WEIGHTS], work.inputs[softmax.LOG_SCALE]
    logs, signs = work.slots[LOGS], work.slots[SIGNS]
    direction, sizes, exponents = work.vectors[V], work.vectors[SIZES], work.vectors[EXPONENTS]
    direction[:], sizes[:], exponents[:] = 0.0, 0.0, common - layout.log_total
    for i in range(n):
        x = log_scale[i] - common
        if x > UNDERFLOW:
            scale = math.exp(x)
            top = np.uintp(tops[i])
            reference = np.uintp(tokens[top])
            for slot in range(np.uintp(offsets[i]), np.uintp(offsets[i + 1])):
                weight = scale * weights[slot]
                if weight != 0.0 and slot != top:
                    token = np.uintp(tokens[slot])
                    for k in range(direction.size):
                        term = weight * (table[token, k] - table[reference, k])
                        direction[k] += term
                        sizes[k] += abs(term)
    has_logs, moves, rounding = False, False, False
    for k in range(direction.size):
        if sizes[k] < SMALL:
            if not has_logs:
                has_logs = True
                if not layout.in_log:
                    for i in range(n):
                        work.inputs[softmax.DEEP, i] = work.inputs[softmax.DEPTH, i]
                log_weights(
                    work.slots[GAPS], tops, layout.scores, layout.counts, offsets, work.inputs, logs, signs
                )
            highest = -np.inf
            for i in range(n):
                reference = tokens[tops[i]]
                for slot in range(offsets[i], offsets[i + 1]):
                    off = table[tokens[slot], k] - table[reference, k]
                    if off != 0.0 and logs[slot] > -np.inf:
                        highest = max(highest, logs[slot] + math.log(abs(off)))
            direction[k], sizes[k], exponents[k] = 0.0, 0.0, highest - layout.log_total
            if highest > -np.inf:
                for i in range(n):
                    reference = tokens[tops[i]]
                    for slot in range(offsets[i], offsets[i + 1]):
                        off = table[tokens[slot], k] - table[reference, k]
                        if off != 0.0 and logs[slot] > -np.inf:
                            term = math.exp(logs[slot] + math.log(abs(off)) - highest)
                            direction[k] += signs[slot] * math.copysign(term, off)
                            sizes[k] += term
        if abs(direction[k]) <= ROUNDING * sizes[k]:
            rounding = rounding or direction[k] != 0.0
            direction[k] = 0.0
        moves = moves or direction[k] != 0.0
    work.lengths[0] = 1.0  # its updates do not use it
    if moves:
        return MOVES
    return EXHAUSTED if rounding else STATIONARY


@uncounted(types.UniTuple(float64, 2)(TABLE, VECTOR, VECTOR, OUT), fastmath=VECTORIZED)
def times(gram, beta, squares, pull):  # type: ignore[no-untyped-def]
    """pull = gram beta; returns beta.pull, and the sum of beta_r^2 |row_r|^2.

    m times the second bounds the first, the square of a length, if nothing canceled.
    """
    square, uncancelled = 0.0, 0.0
    for r in range(beta.size):
        total = 0.0
        for q in range(beta.size):
            total += gram[r, q] * beta[q]
        pull[r] = total
        square += total * beta[r]
    for r in range(beta.size):
        uncancelled += beta[r] * beta[r] * squares[r]
    return square, uncancelled


@CompiledForce
def by_inner_products(layout, x, work):  # type: ignore[no-untyped-def]
    """The force in Gram coordinates: x holds the coefficients c of m rows, their logits, and a zero.

    ``layout.keys`` is the Gram matrix of the rows, ``layout.tokens`` the row of each slot (m for a reference
    token, whose logit is zero), ``layout.values`` their squared lengths, and ``layout.labels`` the logits at
    the start. Along both rules that use it coefficients and logits move by one factor.
    """
    gram, row, offsets, gaps = layout.keys, layout.tokens, layout.offsets, work.slots[GAPS]
    m, n = layout.labels.size, offsets.size - 1
    logits, padded = x[m:], work.vectors[SIZES][: m + 1]
    if work.clock[STEP] % REFRESH == REFRESH - 1:
        for r in range(m):
            logits[r] = layout.labels[r] + dot(gram[r], x[:m])
    for i in range(n):
        first, last = np.uintp(offsets[i]), np.uintp(offsets[i + 1])
        top, best = first, -np.inf
        for slot in range(first, last):
            gaps[slot] = logits[np.uintp(row[slot])]
            if gaps[slot] > best:
                best = gaps[slot]
                top = np.uintp(slot)
        work.tops[i] = top
        for slot in range(first, last):
            gaps[slot] -= best
    common = settle_inputs(layout, layout.scores, 0.0, work)
    if common == -np.inf:
        return NO_COMPETITOR
    padded[:] = 0.0
    weights = work.slots[WEIGHTS]
    for i in range(n):
        behind = work.inputs[softmax.LOG_SCALE, i] - common
        if behind > UNDERFLOW:
            scale = math.exp(behind)
            for slot in range(np.uintp(offsets[i]), np.uintp(offsets[i + 1])):
                padded[np.uintp(row[slot])] += scale * weights[slot]
    beta, pull = work.vectors[V][:m], work.vectors[V][m : 2 * m]
    for r in range(m):
        beta[r] = padded[r]
    work.vectors[V, 2 * m] = 0.0
    shrunk = rescale(beta)
    if shrunk == -np.inf:
        return STATIONARY
    square, uncancelled = times(gram, beta, layout.values[0], pull)
    if layout.normalized and square < CANCELLATION * m * uncancelled:
        return CANCELLED
    work.lengths[0] = math.sqrt(square) if layout.normalized else 1.0
    work.vectors[EXPONENTS, 0] = common + shrunk - layout.log_total
    return MOVES


@CompiledForce
def pair(layout, x, work):  # type: ignore[no-untyped-def]
    """The force on x = (p, v): attention and a linear readout, each with a separate exponent."""
    d, offsets, inputs, values = layout.keys.shape[1], layout.offsets, work.inputs, layout.values
    n, scores, p, v = offsets.size - 1, work.slots[SCORES], x[:d], x[d:]
    gaps_to_top(layout.keys, layout.tokens, offsets, p, work.slots[GAPS], work.tops)
    for i in range(n):
        for slot in range(offsets[i], offsets[i + 1]):
            scores[slot] = layout.labels[i] * dot(values[slot], v)
    common = settle_inputs(layout, scores, 0.0, work)
    by_p, by_v = work.vectors[V][:d], work.vectors[V][d:]
    all_of_them, highest = layout.batch == n, -np.inf
    for i in range(n):
        if all_of_them or (i - work.clock[STEP] * layout.batch) % n < layout.batch:
            highest = max(highest, inputs[softmax.SLOPES, i])
    by_v[:] = 0.0
    for i in range(n):
        behind = inputs[softmax.SLOPES, i] - highest
        if behind > UNDERFLOW and (all_of_them or (i - work.clock[STEP] * layout.batch) % n < layout.batch):
            for slot in range(offsets[i], offsets[i + 1]):
                gap = work.slots[GAPS, slot]
                share = (
                    layout.labels[i]
                    * layout.counts[slot]
                    * math.exp(behind + gap - inputs[softmax.LOG_MASS, i])
                )
                for j in range(v.size):
                    by_v[j] += share * values[slot, j]
    gather(
        layout.keys, layout.tokens, offsets, work.tops, work.slots[WEIGHTS], inputs[softmax.LOG_SCALE], by_p
    )
    work.lengths[0] = spread(by_p, work.vectors[EXPONENTS][:d], common - layout.log_total)
    work.lengths[1] = spread(by_v, work.vectors[EXPONENTS][d:], highest - layout.log_total)
    if work.lengths[0] > 0.0 or work.lengths[1] > 0.0:
        return MOVES
    return NO_COMPETITOR if common == -np.inf else STATIONARY


@CompiledForce
def factors(layout, x, work):  # type: ignore[no-untyped-def]
    """The force on x = (K, Q), both row by row, where W = K Q' (D-DEF-2).

    Neither W nor its gradient is formed. With minus the gradient by W = exp(M) sum_i c_i z_i', where c_i =
    sum_t w_it (x_it - x_i,top), that by K is exp(M) sum_i c_i (Q'z_i)' and that by Q is exp(M) sum_i z_i
    (K'c_i)': both of the size of the factors, and with one exponent.
    """
    left, right, tokens, offsets, m = layout.keys, layout.values, layout.tokens, layout.offsets, layout.rank
    n, wide, high = offsets.size - 1, left.shape[1], right.shape[1]
    K, Q = x[: wide * m].reshape(wide, m), x[wide * m :].reshape(high, m)
    direction = work.vectors[V]
    by_K, by_Q = direction[: wide * m].reshape(wide, m), direction[wide * m :].reshape(high, m)
    shadows, view = work.room[: n * m].reshape(n, m), work.room[n * m : n * m + wide]
    for i in range(n):
        z = right[layout.queries[i]]
        for b in range(m):
            shadow = 0.0
            for c in range(high):
                shadow += Q[c, b] * z[c]
            shadows[i, b] = shadow  # Q'z
        for a in range(wide):
            view[a] = dot(K[a], shadows[i])
        work.tops[i] = gaps_along(left, tokens, offsets[i], offsets[i + 1], view, work.slots[GAPS])
    common = settle_inputs(layout, layout.scores, 0.0, work)
    if common == -np.inf:
        return NO_COMPETITOR
    direction[:] = 0.0
    for i in range(n):
        behind = work.inputs[softmax.LOG_SCALE, i] - common
        if behind > UNDERFLOW:
            first, last, weights = offsets[i], offsets[i + 1], work.slots[WEIGHTS]
            pull_along(left, tokens, first, last, work.tops[i], weights, math.exp(behind), view)
            z = right[layout.queries[i]]
            for a in range(wide):
                for b in range(m):
                    by_K[a, b] += view[a] * shadows[i, b]
            for b in range(m):
                share = 0.0
                for a in range(wide):
                    share += K[a, b] * view[a]
                for c in range(high):
                    by_Q[c, b] += z[c] * share
    moves = False
    for b in range(work.lengths.size):
        block = slice(work.bounds[b], work.bounds[b + 1])
        work.lengths[b] = spread(direction[block], work.vectors[EXPONENTS][block], common - layout.log_total)
        moves = moves or work.lengths[b] > 0.0
    return MOVES if moves else STATIONARY
