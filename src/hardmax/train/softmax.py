"""The numerical heart: one input's softmax seen from its top token, in the log domain (B-DEF-5).

The gradient is a sum of weights s_t (gamma_t - u) times keys, and these weights sum to zero in each input.
Once the softmax saturates, gamma_top - u cancels and a plain backward pass returns a wrong direction. Here
every weight of a token other than the top one is formed from score gaps to the top token, with the common
exponent taken out, and the top token's weight is minus the sum of the others.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, intp, njit, types

from hardmax._lib import compiling

compiling.listen()

# Kernels are compiled once, for read-only inputs (which writable arrays may stand in for).
VECTOR = types.Array(float64, 1, "C", readonly=True)
TABLE = types.Array(float64, 2, "C", readonly=True)
INDEX = types.Array(intp, 1, "C", readonly=True)
OUT = float64[::1]
OUT_INDEX = intp[::1]
OUT_TABLE = float64[:, ::1]
SLOPE = types.FunctionType(float64(float64))

# exp(x) is zero in float64 below this.
UNDERFLOW = -745.2

# 1 + exp(x) is one in float64 far above this, and a score gap is unmoved by this fraction of it.
NEGLIGIBLE = -45.0


# Sums may be reordered, so that they use vector registers; nothing else is relaxed.
VECTORISED = {"reassoc", "contract"}


@njit(float64(VECTOR, VECTOR), cache=True, nogil=True, fastmath=VECTORISED)
def dot(a: np.ndarray, b: np.ndarray) -> float:
    """a.b, with the freedom to vectorise."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(types.void(TABLE, INDEX, INDEX, VECTOR, OUT, OUT_INDEX), cache=True, nogil=True, fastmath=VECTORISED)
def gaps_to_top(keys, tokens, offsets, p, gaps, tops):  # type: ignore[no-untyped-def]
    """Top slot of each input and every slot's logit gap to it: (k_t - k_top).p <= 0.

    The difference of keys is taken first, which is exact where a difference of logits would cancel.
    """
    for i in range(offsets.size - 1):
        first, last = np.uintp(offsets[i]), np.uintp(offsets[i + 1])
        top = first
        best = -np.inf
        for slot in range(first, last):
            token = np.uintp(tokens[slot])
            logit = 0.0
            for j in range(p.size):
                logit += keys[token, j] * p[j]
            if logit > best:
                best = logit
                top = np.uintp(slot)
        tops[i] = top
        reference = np.uintp(tokens[top])
        for slot in range(first, last):
            token = np.uintp(tokens[slot])
            gap = 0.0
            for j in range(p.size):
                gap += (keys[token, j] - keys[reference, j]) * p[j]
            gaps[slot] = gap


@njit(
    types.void(VECTOR, INDEX, VECTOR, VECTOR, INDEX, float64, OUT, OUT, OUT, OUT, OUT),
    cache=True, nogil=True, error_model="numpy",
)  # fmt: skip
def settle(  # type: ignore[no-untyped-def]
    gaps, tops, scores, counts, offsets, shift, weights, u, depth, lean, log_mass
):
    """Weights s_t (gamma_t - u) of every slot, divided by exp(depth)/mass so that they never underflow.

    depth is the largest gap among the tokens whose score differs from the top one's, mass the sum of
    counts times exp(gap), and u - gamma_top = exp(depth) lean. A token that ties with the top one in score
    has the weight -s_t (u - gamma_top), which stays in the log domain because lean does.

    The gaps of all but the top slots are given with ``shift`` added, and so is depth. Gradient flow shifts by
    log t, which makes gaps of size one out of differences between huge numbers.
    """
    for i in range(offsets.size - 1):
        # Unsigned indices spare the check for negative ones, a tenth of the time here.
        first, last, top = np.uintp(offsets[i]), np.uintp(offsets[i + 1]), np.uintp(tops[i])
        score = scores[top]
        deepest = -np.inf
        for slot in range(first, last):
            if gaps[slot] > deepest and scores[slot] != score:
                deepest = gaps[slot]
        tied = counts[top]
        untied = 0.0
        pull = 0.0
        for slot in range(first, last):
            rise = scores[slot] - score
            if rise != 0.0:
                x = gaps[slot] - deepest
                share = counts[slot] * math.exp(x) if x > UNDERFLOW else 0.0
                untied += share
                pull += share * rise
                weights[slot] = share
            elif slot != top:
                share = counts[slot] * math.exp(gaps[slot] - shift)
                tied += share
                weights[slot] = share
        reach = math.exp(deepest - shift) if deepest - shift > NEGLIGIBLE else 0.0
        mass = tied + reach * untied
        lean_i = pull / mass
        drift = reach * lean_i
        total = 0.0
        for slot in range(first, last):
            if slot != top:
                rise = scores[slot] - score
                weight = weights[slot] * (rise - drift if rise != 0.0 else -lean_i)
                weights[slot] = weight
                total += weight
        weights[top] = -total
        u[i] = score + drift
        depth[i] = deepest
        lean[i] = lean_i
        log_mass[i] = math.log(mass) if mass != 1.0 else 0.0


@njit(float64(TABLE, INDEX, INDEX, INDEX, VECTOR, VECTOR, OUT), cache=True, nogil=True)
def gather(table, tokens, offsets, tops, weights, log_scale, V):  # type: ignore[no-untyped-def]
    """V = sum_i exp(log_scale_i - F) sum_t w_t (row_t - row_top); returns F, the exponent taken out."""
    common = np.max(log_scale)
    V[:] = 0.0
    if common == -np.inf:
        return common
    for i in range(offsets.size - 1):
        x = log_scale[i] - common
        if x > UNDERFLOW:
            scale = math.exp(x)
            top = np.uintp(tops[i])
            reference = np.uintp(tokens[top])
            for slot in range(np.uintp(offsets[i]), np.uintp(offsets[i + 1])):
                weight = scale * weights[slot]
                if weight != 0.0 and slot != top:
                    token = np.uintp(tokens[slot])
                    for j in range(V.size):
                        V[j] += weight * (table[token, j] - table[reference, j])
    return common
