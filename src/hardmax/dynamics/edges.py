"""C-DEF-STRUCT as fluxes along edges, in the log domain.

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
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from hardmax._lib.compiled import OUT, inlined, uncounted
from hardmax.dynamics import forces
from hardmax.dynamics.driver import Rule, Trainer
from hardmax.dynamics.forces import CompiledForce, Workspace, set_pull, workspace
from hardmax.dynamics.gradient import Gradient, pull_of, settle_at
from hardmax.dynamics.loop import PAUSED, CompiledLoop
from hardmax.dynamics.optim import Normalized
from hardmax.problem import Problem
from hardmax.problem.keys import OneHot
from hardmax.problem.problem import Slots, slots_of
from hardmax.problem.readouts import Floats, Ints

# Up to this margin e^(2 margin) is a float and the sentences' weights need no separate exponents.
PLAIN = 300.0

# A token whose logit exceeds that of o by more than this leaves the edge form, whose terms could then cancel.
AHEAD = 1.0


# Unsigned, so that kernels need not check for negative indices.
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
    >>> from hardmax.dynamics.edges import edges_of
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
        """Return as much as the edges need."""
        K, E, N = len(edges.top), len(edges.edge), len(edges.rest)
        return cls(*(np.empty(size) for size in (K, K, K, K, E, E, E, N)))


_UINT32, _INT64 = types.Array(types.uint32, 1, "C"), types.Array(types.int64, 1, "C")
EDGES = types.NamedTuple(
    (_UINT32, _UINT32, *3 * (_INT64,), _UINT32, OUT, _UINT32, *3 * (OUT,), types.boolean), Edges
)
SCRATCH = types.NamedUniTuple(OUT, 8, Scratch)


@uncounted(types.boolean(EDGES, types.float64, SCRATCH), error_model="numpy")
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


@inlined()
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@uncounted(types.UniTuple(types.float64, 2)(EDGES, OUT, OUT), error_model="numpy")
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


class EdgeLayout(NamedTuple):
    """The edges of a problem as the loop takes them, with room for their fluxes."""

    edges: Edges
    room: Scratch
    margin: float
    offsets: Ints  # of the sentences


EDGE_LAYOUT = types.NamedTuple((EDGES, SCRATCH, types.float64, _INT64), EdgeLayout)
EDGE_FORCE = types.int64(EDGE_LAYOUT, OUT, forces.WORKSPACE)


def _along_edges(layout, a, work):  # type: ignore[no-untyped-def]
    """The force on the pairs' values; where the edge form is not exact, or is zero, another has to go on."""
    edges, room, G = layout.edges, layout.room, work.vectors[forces.V]
    for e in range(len(edges.top)):
        room.gap[e] = a[edges.low[e]] - a[edges.top[e]]
    if not fill_log_flows(edges, layout.margin, room):
        return forces.LEFT_FORM
    for e in range(len(edges.top)):
        room.log_flux[e] += room.gap[e]
    largest, length = gather(edges, room.log_flux, G)
    work.lengths[0] = length
    if not length > 0.0:
        return forces.LEFT_FORM
    exponent = largest + math.log(layout.margin) - layout.margin
    for j in range(G.size):
        G[j] = -G[j]
        work.vectors[forces.EXPONENTS, j] = exponent
    return forces.MOVES


along_edges = CompiledForce(_along_edges, EDGE_FORCE)
edge_loop = CompiledLoop(EDGE_FORCE, EDGE_LAYOUT)


WINDOW = 2**20  # steps whose rates are held at a time, so that memory does not grow with the steps


class EdgeSteps:
    """The gradient of a next-token problem at any p, and normalized steps from it.

    Where the edge form does not apply, to the problem or at a point, the gradient is that of any problem.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import collocation
    >>> from hardmax.nexttoken.stages import stage_1
    >>> from hardmax.dynamics.edges import EdgeSteps
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> steps = EdgeSteps(samples.problem(stage_1(collocation(samples), 10, 0.1)))
    >>> p = np.zeros(2)
    >>> steps.train(p, rate=1.0, record=np.array([0, 2])).taken, p.round(6).tolist()
    (2, [1.414214, -1.414214])
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.edges = problem, edges_of(problem)

    @cached_property
    def _layout(self) -> EdgeLayout:
        head = self.problem.readout.cross_entropy
        assert self.edges is not None
        assert head is not None
        assert head.W_ov.margin is not None
        return EdgeLayout(self.edges, Scratch.of(self.edges), float(head.W_ov.margin), self.edges.offsets)

    @cached_property
    def _work(self) -> Workspace:
        return workspace(0, 1, [0, self.problem.d])

    @cached_property
    def _slots(self) -> Slots:
        return slots_of(self.problem)

    def along_edges(self, p: Floats) -> Gradient | None:
        """Return minus the gradient from the edges' fluxes; None where that form is not exact."""
        if self.edges is None:
            return None
        work = self._work
        work.lengths[0] = math.nan
        along_edges(self._layout, p, work)
        length = float(work.lengths[0])
        if not length > 0.0:
            return None if math.isnan(length) else Gradient(np.zeros(len(p)), -math.inf)
        return Gradient(
            work.vectors[forces.V] / length, float(work.vectors[forces.EXPONENTS, 0]) + math.log(length)
        )

    def plain(self, p: Floats) -> Gradient:
        """Return minus the gradient as for any problem."""
        return pull_of(settle_at(self.problem, p, self._slots), self.problem.table, self.problem.total)

    def train(
        self,
        p: Floats,
        rate: float,
        record: np.ndarray,
        *,
        piece: int = 0,
        told: Callable[[int], bool] | None = None,
    ) -> StepsTaken:
        """Take normalized steps of one rate in place, and keep the points that ``record`` names.

        ``told`` is called with the number of steps since the last call, 0 at first, about every ``piece``
        steps; the run ends if it returns True.
        """
        rule = Rule.unscaled(Normalized(rate), 1, p.shape)
        rule = replace(rule, rates=np.broadcast_to(rule.rates, int(record[-1])))
        return self.take(p, rule, record, piece, told)

    def take(
        self,
        p: Floats,
        rule: Rule,
        record: np.ndarray,
        piece: int = 0,
        report: Callable[[int], bool] | None = None,
    ) -> StepsTaken:
        """Take steps along the edges while their form is exact, then as any problem until it is again.

        The form depends on the point alone, so a run in pieces gives the same bits as one in one go.
        """
        steps, done, plain, along = len(rule.rates), 0, 0, self.edges is not None
        points, ends = np.empty((len(record), len(p))), report is not None and report(0)
        while True:
            last = min(done + WINDOW, steps)
            inside = (record >= done) & (record <= last)
            rows = np.union1d(record[inside] - done, [0, last - done])
            force, layout = (along_edges, self._layout) if along else (self._plain_force, None)
            part = replace(rule, rates=rule.rates[done:last])
            trainer = Trainer(force, layout, p, [part], rows, slots=0, n=1, loop=edge_loop)
            while not ends and trainer.status == PAUSED:
                before = trainer.taken
                trainer.advance(before + piece if report else -1)
                ends = report is not None and trainer.taken > before and report(trainer.taken - before)
            points[inside] = trainer.rows[np.isin(rows, record[inside] - done)]
            done, plain = done + trainer.taken, plain + (0 if along else trainer.taken)
            if trainer.status == forces.LEFT_FORM and not ends:
                along = not along
            elif ends or done < last or done == steps:
                points[record >= done] = p
                return StepsTaken(points, trainer.event, done, plain)

    def _plain_force(self, _: Any, p: Floats, work: Workspace) -> int:
        """`forces.dense` for any problem, where the edge form is not exact."""
        exact = self.along_edges(p)
        if exact is not None and not exact.is_stationary:
            return forces.LEFT_FORM
        pull = self.plain(p)
        set_pull(work, 0, pull.direction, pull.log_norm, 1.0)
        return forces.STATIONARY if pull.is_stationary else forces.MOVES


class StepsTaken(NamedTuple):
    """Points at the recorded steps, the event, the number of steps taken, and the number of plain ones."""

    points: np.ndarray
    event: str | None
    taken: int
    plain: int
