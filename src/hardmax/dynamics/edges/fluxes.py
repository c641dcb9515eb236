"""C-DEF-STRUCT as fluxes along edges, in the log domain (C-ALG-LOG).

With W_ov = Delta W_ov* and one token o with n(o) = next token in a sentence, every other token x of it sends
a positive flux from o to x:

    G = sum over edges e = (o, x; q) of F_e (e_x - e_o) e_q',
    F_e = Delta sum_n pi (1 - T) m_x (m_o + u_x - sum m u),

so columns of G sum to zero and nothing cancels. m_x = (c_x/c_o) e^gap m_o with the gap A[x,q] - A[o,q] of the
edge: that factor, the only one that underflows, is common to all sentences with this edge and stays an
exponent. What is left is accumulated in plain floats, with one exp per token entry and two per edge.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.compiled import njit
from hardmax.problem import Problem
from hardmax.problem.keys import OneHot
from hardmax.problem.readouts import Floats, Ints

# Up to this margin e^(2 margin) is a float and the sentences' weights need no exponents of their own.
PLAIN = 300.0

# A token whose logit exceeds that of o by more than this leaves the edge form, whose terms could then cancel.
AHEAD = 1.0


# Unsigned, so that no kernel has to ask whether an index is negative.
Indices = NDArray[np.uint32]


class Edges(NamedTuple):
    """Edges (o, x; q) with the sentences that hold them, query by query, as flat arrays for the kernels."""

    top: Indices  # (K,) pair of o
    low: Indices  # (K,) pair of x
    edge_offsets: Ints  # (Q+1,) edges of each query
    sentence_offsets: Ints  # (Q+1,) sentences of each query
    offsets: Ints  # (N+1,) entries of each sentence, o left out
    edge: Indices  # (E,)
    ratio: Floats  # (E,) c_x / c_o
    first: Indices  # (E,) the first entry of the sentence with the same n(x)
    rest: Floats  # (N,) tokens that nothing in the sentence is continued by
    weight: Floats  # (N,) pi over the largest of the query
    log_scale: Floats  # (Q,) log of that largest
    is_grouped: bool  # whether some sentence has two such entries


def edges_of(problem: Problem) -> Edges | None:
    """The edges of a next-token problem; None where the structured form does not apply.

    It needs one-hot keys, a cross-entropy with W_ov = margin W_ov*, weights, an n(x) of every token that
    competes, and in every input with two tokens or more exactly one with n(x) = next token.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import collocation
    >>> from hardmax.nexttoken.stages import stage_1
    >>> from hardmax.dynamics.edges.fluxes import edges_of
    >>> samples = Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> problem = samples.problem(stage_1(collocation(samples), 20, 0.1))
    >>> edges, words = edges_of(problem), problem.readout.words
    >>> [samples.vocabulary[words[o]] + ">" + samples.vocabulary[words[x]]
    ...  for o, x in zip(edges.top, edges.low)]
    ['S>P', 'V>S', 'O>S', 'O>V', 'O>P']
    """
    head = problem.readout.cross_entropy
    if head is None or head.queries is None or head.W_ov.margin is None or problem.weights is None:
        return None
    if not isinstance(problem.table, OneHot) or head.W_ov.margin == 0.0:
        return None
    # Inputs by query; in each the token with n(x) = next token first, then by n(x).
    sizes, starts = problem.sizes, problem.offsets[:-1]
    inputs = np.flatnonzero(sizes > 1)
    queries = head.queries[problem.tokens[starts[inputs]]]
    order = np.argsort(queries, kind="stable")
    inputs, queries = inputs[order], queries[order]
    bounds = np.concatenate([[0], np.cumsum(sizes[inputs])])
    row = np.repeat(np.arange(len(inputs)), sizes[inputs])
    slot = np.arange(bounds[-1]) - bounds[row] + starts[inputs][row]
    word = head.words[problem.tokens[slot]]
    output = head.W_ov.collocation[word]
    is_aside = output != head.targets[inputs][row]
    order = np.lexsort((word, output, is_aside, row))
    slot, output, is_aside = slot[order], output[order], is_aside[order]
    if not len(inputs) or (output < 0).any() or (np.add.reduceat(~is_aside, bounds[:-1]) != 1).any():
        return None
    aside = np.flatnonzero(is_aside)
    row, best = row[aside], slot[bounds[:-1]][row[aside]]
    pair, P = problem.tokens, problem.d
    key, edge = np.unique(pair[best] * P + pair[slot[aside]], return_inverse=True)
    top, low = key // P, key % P
    output = output[aside]
    is_first = (np.diff(output, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0)
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(aside)), 0))
    distinct = np.bincount(row[is_first], minlength=len(inputs)) + 1
    sentence_offsets = np.append(np.flatnonzero(np.diff(queries, prepend=-1)), len(inputs))
    edge_offsets = np.append(np.flatnonzero(np.diff(head.queries[top], prepend=-1)), len(top))
    log_weight = problem.log_weights[inputs]
    log_scale = np.maximum.reduceat(log_weight, sentence_offsets[:-1])
    counts = np.ones(len(pair)) if problem.counts is None else problem.counts
    return Edges(
        top.astype(np.uint32),
        low.astype(np.uint32),  # pairs, and so edges, go by query
        edge_offsets.astype(np.int64),
        sentence_offsets.astype(np.int64),
        np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(inputs)))]).astype(np.int64),
        edge.astype(np.uint32),
        counts[slot[aside]] / counts[best],
        first.astype(np.uint32),
        (head.W_ov.V - distinct).astype(np.float64),
        np.exp(log_weight - np.repeat(log_scale, np.diff(sentence_offsets))),
        log_scale,
        bool((~is_first).any()),
    )


class Scratch(NamedTuple):
    """Room for the kernels."""

    gap: Floats  # A[x,q] - A[o,q]
    log_flux: Floats
    phi: Floats
    flow: Floats
    mass: Floats
    grown: Floats
    part: Floats
    log_share: Floats

    @classmethod
    def of(cls, edges: Edges) -> Scratch:
        """As much as the edges need."""
        K, E, N = len(edges.top), len(edges.edge), len(edges.rest)
        return cls(*(np.empty(size) for size in (K, K, K, K, E, E, E, N)))


@njit(cache=True, nogil=True, error_model="numpy")
def fill_log_flows(edges, margin, room):  # type: ignore[no-untyped-def]
    """log F_e - gap - (log Delta - Delta) into room.log_flux, from room.gap; False outside the edge form."""
    # Locals and one long loop: handing two tuples of arrays to a helper costs more than the arithmetic.
    offsets, edge, ratio, first, rest = edges.offsets, edges.edge, edges.ratio, edges.first, edges.rest
    gap, phi, flow, mass, grown, part = room.gap, room.phi, room.flow, room.mass, room.grown, room.part
    floor = math.exp(-margin)
    simple = margin <= PLAIN and not edges.is_grouped
    for q in range(len(edges.edge_offsets) - 1):
        for e in range(edges.edge_offsets[q], edges.edge_offsets[q + 1]):
            if not gap[e] <= AHEAD:
                return False
            phi[e] = math.exp(gap[e])
            flow[e] = 0.0
        k_begin, k_end = edges.sentence_offsets[q], edges.sentence_offsets[q + 1]
        largest = -math.inf
        for k in range(k_begin, k_end):
            begin, end = offsets[k], offsets[k + 1]
            off = 0.0
            for j in range(begin, end):
                mass[j] = ratio[j] * phi[edge[j]]
                off += mass[j]
            star = 1.0 / (1.0 + off)
            off *= star  # m_-
            S, shift, drag = rest[k], 0.0, 0.0
            if simple:
                for j in range(begin, end):
                    m = mass[j] * star
                    grown[j] = math.exp(margin * m)
                    S += grown[j]
                    drag += m * grown[j]
            else:
                for j in range(begin, end):
                    mass[j] *= star
                    grown[j] = 0.0
                    grown[first[j]] += mass[j]  # first[j] <= j: already reset
                    shift = max(shift, margin * grown[first[j]])
                shift = shift if margin > PLAIN else 0.0
                S *= math.exp(-shift)
                for j in range(begin, end):
                    if first[j] == j:
                        grown[j] = math.exp(margin * grown[j] - shift)
                        S += grown[j]
                    else:
                        grown[j] = grown[first[j]]
                    drag += mass[j] * grown[j]
            inverse = 1.0 / S
            base = star - drag * inverse
            for j in range(begin, end):
                bracket = base + grown[j] * inverse
                if bracket <= 0.0:
                    return False
                part[j] = ratio[j] * star * bracket  # F/(pi Delta (1 - T) phi)
            if margin <= PLAIN:
                R = S * math.exp(margin * off)  # (1 - T) e^Delta = R / (1 + R e^-Delta)
                share = edges.weight[k] * R / (1.0 + R * floor)
                for j in range(begin, end):
                    flow[edge[j]] += share * part[j]
            else:
                log_R = math.log(S) + shift + margin * off
                room.log_share[k] = math.log(edges.weight[k]) + log_R - softplus(log_R - margin)
                largest = max(largest, room.log_share[k])
        if margin > PLAIN:
            for k in range(k_begin, k_end):
                share = math.exp(room.log_share[k] - largest)
                for j in range(offsets[k], offsets[k + 1]):
                    flow[edge[j]] += share * part[j]
        common = edges.log_scale[q] + (largest if margin > PLAIN else 0.0)
        for e in range(edges.edge_offsets[q], edges.edge_offsets[q + 1]):
            room.log_flux[e] = math.log(flow[e]) + common
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def fill_log_fluxes(edges, a, margin, room):  # type: ignore[no-untyped-def]
    """log F_e - (log Delta - Delta) into room.log_flux at the pairs' values a; False if it does not apply."""
    for e in range(len(edges.top)):
        room.gap[e] = a[edges.low[e]] - a[edges.top[e]]
    if not fill_log_flows(edges, margin, room):
        return False
    for e in range(len(edges.top)):
        room.log_flux[e] += room.gap[e]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True, nogil=True, error_model="numpy")
def gather(edges, log_flux, G):  # type: ignore[no-untyped-def]
    """G from the fluxes, over the largest of them, into G; return the log of the largest and |G|."""
    largest = -math.inf
    for e in range(len(log_flux)):
        largest = max(largest, log_flux[e])
    G[:] = 0.0
    for e in range(len(log_flux)):
        F = math.exp(log_flux[e] - largest)
        G[edges.low[e]] += F
        G[edges.top[e]] -= F
    square = 0.0
    for p in range(len(G)):
        square += G[p] * G[p]
    return largest, math.sqrt(square)


@njit(cache=True, nogil=True, error_model="numpy")
def descend_edges(edges, a, margin, rate, steps, room, G):  # type: ignore[no-untyped-def]
    """Take up to ``steps`` normalised steps in place; return how many were taken.

    It stops early where the edge form does not apply or the gradient is zero.
    """
    for step in range(steps):
        if not fill_log_fluxes(edges, a, margin, room):
            return step
        _, length = gather(edges, room.log_flux, G)
        if not length > 0.0:
            return step
        factor = rate / length
        for p in range(len(a)):
            a[p] -= factor * G[p]
    return steps
