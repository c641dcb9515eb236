"""The direction of the gradient (6) for any W_ov and any data, with signs in the log domain (C-ALG-LOG).

A sentence's logits, the tokens' scores g(x) = B[:,x]'(T - e_y) = (1 - T) g~(x), and the sums
D(x) = sum_x' m_x' (g~(x) - g~(x')), each with its largest exponent taken out, so that a token with all the
mass still has the right D. With W_ov = Delta W_ov* scores need the next tokens of the sentence only, not |V|
logits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax.nexttoken.edges import softplus
from hardmax.nexttoken.pairs import Floats, Ints, Pairs
from hardmax.problem.output_value import OutputValue


class Sentences(NamedTuple):
    """The sentences of `Pairs` as flat arrays for the kernels."""

    offsets: Ints
    pair: Ints
    token: Ints  # (E,) of each entry
    output: Ints  # (E,) n(x), -1 if x has none
    log_count: Floats
    target: Ints
    log_weight: Floats

    @classmethod
    def of(cls, pairs: Pairs) -> Sentences:
        """Straight from the pairs."""
        token = pairs.token[pairs.pair]
        output = pairs.collocation[token]
        return cls(
            pairs.offsets, pairs.pair, token, output, np.log(pairs.count), pairs.target, pairs.log_weight
        )


class Columns(NamedTuple):
    """W_ov for the kernels: V and the margin, or the columns B[:, x] as rows (none of them if aligned)."""

    V: int
    margin: float
    rows: Floats

    @classmethod
    def of(cls, W_ov: OutputValue) -> Columns:
        """Dense columns only where there is no margin."""
        if W_ov.margin is not None:
            return cls(W_ov.V, W_ov.margin, np.empty((0, 0)))
        return cls(W_ov.V, 0.0, np.ascontiguousarray(W_ov.table.T))


class Room(NamedTuple):
    """Scratch of the kernels."""

    log_mass: Floats
    score: Floats
    logits: Floats
    sign: Floats
    log_size: Floats

    @classmethod
    def of(cls, sentences: Sentences, V: int) -> Room:
        """For the longest sentence, the vocabulary and all entries."""
        longest, E = int(np.diff(sentences.offsets).max(initial=0)), len(sentences.pair)
        return cls(np.empty(longest), np.empty(longest), np.empty(max(V, longest)), np.empty(E), np.empty(E))


@njit(cache=True, nogil=True, error_model="numpy")
def _score_aligned(sentences, begin, end, y, columns, room):  # type: ignore[no-untyped-def]
    """g~ of a sentence's tokens for W_ov = Delta W_ov*; return log(1 - T)."""
    M_y, wrong, top = 0.0, 0, 0.0
    # Entries with n(x) = y come first and the others are sorted by n(x), so equal outputs are neighbours.
    for j in range(begin, end):
        i, out = j - begin, sentences.output[j]
        mass = math.exp(room.log_mass[i])
        if out == y:
            M_y += mass
        elif out >= 0:
            if j > begin and sentences.output[j - 1] == out:
                mass += room.logits[i - 1]
            else:
                wrong += 1
            room.logits[i] = mass
            top = max(top, columns.margin * mass)
    rest = columns.V - 1 - wrong
    total = rest * math.exp(-top)
    group = 0.0
    for j in range(end - 1, begin - 1, -1):  # backwards: the last of equal outputs holds their whole mass
        i, out = j - begin, sentences.output[j]
        if out == y or out < 0:
            continue
        if j == end - 1 or sentences.output[j + 1] != out:
            group = math.exp(columns.margin * room.logits[i] - top)
            total += group
        room.score[i] = group
    for j in range(begin, end):
        i, out = j - begin, sentences.output[j]
        if out == y:
            room.score[i] = -columns.margin
        elif out < 0:
            room.score[i] = 0.0
        else:
            room.score[i] *= columns.margin / total
    log_wrong = top + math.log(total)
    return -softplus(columns.margin * M_y - log_wrong)


@njit(cache=True, nogil=True, error_model="numpy")
def _score_table(sentences, begin, end, y, columns, room):  # type: ignore[no-untyped-def]
    """g~ of a sentence's tokens for any table B; return log(1 - T)."""
    V = columns.V
    room.logits[:V] = 0.0
    for j in range(begin, end):
        mass = math.exp(room.log_mass[j - begin])
        for v in range(V):
            room.logits[v] += mass * columns.rows[sentences.token[j], v]
    top = -math.inf
    for v in range(V):
        if v != y:
            top = max(top, room.logits[v])
    z_y, total = room.logits[y], 0.0
    for v in range(V):
        room.logits[v] = math.exp(room.logits[v] - top) if v != y else 0.0
        total += room.logits[v]
    for j in range(begin, end):
        row = columns.rows[sentences.token[j]]
        score = 0.0
        for v in range(V):
            score += room.logits[v] * (row[v] - row[y])  # r~ sums to zero, so y's logit is a reference
        room.score[j - begin] = score / total
    return -softplus(z_y - top - math.log(total))


@njit(cache=True, nogil=True, error_model="numpy")
def signed_gradient(sentences, columns, a, room, G):  # type: ignore[no-untyped-def]
    """G over its largest term, into G; return the log of that term and |G| (-inf and 0 if all are zero)."""
    largest = -math.inf
    for k in range(len(sentences.target)):
        begin, end = sentences.offsets[k], sentences.offsets[k + 1]
        top = -math.inf
        for j in range(begin, end):
            room.log_mass[j - begin] = sentences.log_count[j] + a[sentences.pair[j]]
            top = max(top, room.log_mass[j - begin])
        total = 0.0
        for i in range(end - begin):
            total += math.exp(room.log_mass[i] - top)
        for i in range(end - begin):
            room.log_mass[i] -= top + math.log(total)
        if columns.rows.size:
            log_miss = _score_table(sentences, begin, end, sentences.target[k], columns, room)
        else:
            log_miss = _score_aligned(sentences, begin, end, sentences.target[k], columns, room)
        for i in range(end - begin):
            heaviest = -math.inf
            for other in range(end - begin):
                if room.score[other] != room.score[i]:
                    heaviest = max(heaviest, room.log_mass[other])
            D = 0.0
            if heaviest > -math.inf:
                for other in range(end - begin):
                    gap = room.score[i] - room.score[other]
                    if gap != 0.0:
                        D += math.exp(room.log_mass[other] - heaviest) * gap
            room.sign[begin + i] = math.copysign(1.0, D)
            if D == 0.0:
                room.log_size[begin + i] = -math.inf
                continue
            size = sentences.log_weight[k] + log_miss + room.log_mass[i] + heaviest + math.log(abs(D))
            room.log_size[begin + i] = size
            largest = max(largest, size)
    G[:] = 0.0
    if largest == -math.inf:
        return largest, 0.0
    for j in range(len(sentences.pair)):
        G[sentences.pair[j]] += room.sign[j] * math.exp(room.log_size[j] - largest)
    square = 0.0
    for p in range(len(G)):
        square += G[p] * G[p]
    return largest, math.sqrt(square)


@njit(cache=True, nogil=True, error_model="numpy")
def descend_signed(sentences, columns, a, rate, steps, room, G):  # type: ignore[no-untyped-def]
    """Take up to ``steps`` normalised steps in place; return how many, fewer only at a zero gradient."""
    for step in range(steps):
        _, length = signed_gradient(sentences, columns, a, room, G)
        if not length > 0.0:
            return step
        factor = rate / length
        for p in range(len(a)):
            a[p] -= factor * G[p]
    return steps
