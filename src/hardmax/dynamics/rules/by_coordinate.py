"""Minus the gradient with an exponent for every coordinate (D-DEF-6).

Rules that act on coordinates one by one (signs, Adam) need the sign and the size of a coordinate also where
it is e^-745 times the largest and less: with one exponent for all it would be zero. So coordinate k is

    V_k exp(M_k),   M_k = max_j (log|w_j| + log|d_jk|),   V_k = sum_j +- exp(log|w_j d_jk| - M_k),

over the slots j and their key differences d_j to the top slot of their input. It is zero if the terms cancel,
that is if |V_k| <= 1e-13 sum_j |...|: such a sum is rounding, and says nothing even about the sign.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, types

from hardmax._lib.compiled import INDEX, OUT, TABLE, UNDERFLOW, VECTOR, maximum, njit
from hardmax.dynamics.gradient import Settled
from hardmax.dynamics.softmax import NEGLIGIBLE
from hardmax.problem.keys import Keys

CANCELLED = 1e-13  # of a sum of signed terms, beside the sum of their sizes
SMALL = 1e-280  # a coordinate whose terms sum to less, beside the largest, is taken by logs


@njit(
    types.void(VECTOR, INDEX, VECTOR, VECTOR, INDEX, VECTOR, VECTOR, VECTOR, VECTOR, OUT, OUT),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def log_weights(  # type: ignore[no-untyped-def]
    gaps, tops, scores, counts, offsets, depth, lean, log_mass, log_scale, logs, signs
):
    """log and sign of every slot's weight in minus the gradient, from what `softmax.settle` says.

    Its own weights are over exp(depth), and are zero for a token far behind that.
    """
    for i in range(offsets.size - 1):
        score = scores[tops[i]]
        drift = math.exp(depth[i]) * lean[i] if depth[i] > NEGLIGIBLE else 0.0
        for slot in range(offsets[i], offsets[i + 1]):
            logs[slot], signs[slot] = -np.inf, 0.0
            rise = scores[slot] - score
            factor = rise - drift if rise != 0.0 else -lean[i]
            if slot == tops[i] or factor == 0.0 or log_scale[i] == -np.inf:
                continue
            ahead = gaps[slot] - depth[i] if rise != 0.0 else gaps[slot]
            logs[slot] = log_scale[i] + ahead + math.log(counts[slot]) + math.log(abs(factor))
            signs[slot] = math.copysign(1.0, factor)


@njit(
    types.Tuple((float64, boolean))(
        TABLE,
        INDEX,
        INDEX,
        INDEX,
        VECTOR,
        VECTOR,
        VECTOR,
        VECTOR,
        VECTOR,
        VECTOR,
        VECTOR,
        VECTOR,
        OUT,
        OUT,
        OUT,
        OUT,
        OUT,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def gather_by_coordinate(  # type: ignore[no-untyped-def]
    table,
    tokens,
    offsets,
    tops,
    weights,
    log_scale,
    gaps,
    scores,
    counts,
    depth,
    lean,
    log_mass,
    logs,
    signs,
    V,
    sizes,
    exponents,
):
    """V and exponents of minus the gradient times the total; `logs`, `signs` and `sizes` are for the work.

    Returns the largest exponent of an input, -inf if none pulls, and whether V is zero by cancellation alone.
    The sum with one exponent is taken first; only a coordinate that is small in it is summed once more.
    """
    n, d = offsets.size - 1, V.size
    common = maximum(log_scale)
    V[:], sizes[:], exponents[:] = 0.0, 0.0, common
    if common == -np.inf:
        return common, False
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
                    for k in range(d):
                        term = weight * (table[token, k] - table[reference, k])
                        V[k] += term
                        sizes[k] += abs(term)
    known, moves, rounding = False, False, False
    for k in range(d):
        if sizes[k] < SMALL:
            if not known:
                log_weights(
                    gaps, tops, scores, counts, offsets, depth, lean, log_mass, log_scale, logs, signs
                )
                known = True
            highest = -np.inf
            for i in range(n):
                reference = tokens[tops[i]]
                for slot in range(offsets[i], offsets[i + 1]):
                    off = table[tokens[slot], k] - table[reference, k]
                    if off != 0.0 and logs[slot] > -np.inf:
                        highest = max(highest, logs[slot] + math.log(abs(off)))
            V[k], sizes[k], exponents[k] = 0.0, 0.0, highest
            if highest > -np.inf:
                for i in range(n):
                    reference = tokens[tops[i]]
                    for slot in range(offsets[i], offsets[i + 1]):
                        off = table[tokens[slot], k] - table[reference, k]
                        if off != 0.0 and logs[slot] > -np.inf:
                            term = math.exp(logs[slot] + math.log(abs(off)) - highest)
                            V[k] += signs[slot] * math.copysign(term, off)
                            sizes[k] += term
        if abs(V[k]) <= CANCELLED * sizes[k]:
            rounding = rounding or V[k] != 0.0
            V[k] = 0.0
        moves = moves or V[k] != 0.0
    return common, rounding and not moves


def pull_by_coordinate(settled: Settled, table: Keys, total: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """The same for any keys: V, its exponents with the total, and whether V is zero by cancellation alone."""
    slots, M = settled.slots, len(settled.gaps)
    logs, signs = np.empty(M), np.empty(M)
    log_weights(
        settled.gaps,
        settled.tops,
        settled.scores,
        slots.counts,
        slots.offsets,
        settled.depth,
        settled.lean,
        settled.log_mass,
        settled.log_scale,
        logs,
        signs,
    )
    pulling = np.flatnonzero(logs > -np.inf)
    if not len(pulling):
        return np.zeros(table.shape[1]), np.zeros(table.shape[1]), False
    rows = table.differences(slots.tokens[pulling], slots.tokens[settled.per_slot(settled.tops)[pulling]])
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = logs[pulling, None] + np.log(np.abs(rows))
        exponents = terms.max(axis=0)
        sizes = np.where(np.isfinite(terms), np.exp(terms - exponents), 0.0)
    V = np.sum(np.sign(rows) * signs[pulling, None] * sizes, axis=0)
    cancelled = np.abs(V) <= CANCELLED * sizes.sum(axis=0)
    rounding = bool(cancelled.all() and V.any())
    return np.where(cancelled, 0.0, V), exponents - math.log(total), rounding
