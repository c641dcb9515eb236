"""Paper C: W_ov* in closed form and W_kq* by the rational block algorithm C-THM-BLOCK, with their proofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import Exact
from hardmax.margin.solution import MaxMargin, from_exact

Token = Hashable
Edge = tuple[Any, Any]


@dataclass(frozen=True)
class Block:
    """A level set of the solution: k optimal tokens at m/(k+m), m non-optimal ones at -k/(k+m).

    >>> blocks([("o", "x")])
    [Block(optimal=('o',), non_optimal=('x',))]
    """

    optimal: tuple[Token, ...]
    non_optimal: tuple[Token, ...]

    @property
    def values(self) -> tuple[Fraction, Fraction]:
        """The entries of optimal and non-optimal tokens; Proposition 2's formula on this block alone.

        >>> Block(("o",), ("x", "y")).values
        (Fraction(2, 3), Fraction(-1, 3))
        """
        k, m = len(self.optimal), len(self.non_optimal)
        return Fraction(m, k + m), Fraction(-k, k + m)


def ov_star(collocation: Sequence[int]) -> MaxMargin:
    """C-DEF-OVSTAR: ``W_ov*[v, x] = [v = n(x)] - 1/V``, exact; ``collocation[x]`` is n(x).

    A row, labelled (x, v), asks the token n(x) to beat v under x by 1. Every row is tight, with multiplier
    1/V.

    >>> ov_star([1, 0]).fractions.tolist()
    [[Fraction(-1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(-1, 2)]]
    """
    V = len(collocation)
    if any(not 0 <= y < V for y in collocation):
        raise ValueError(f"collocation must be tokens in 0..{V - 1}, got {list(collocation)}")
    wins = [(x, y, v) for x, y in enumerate(collocation) for v in range(V) if v != y]
    p = [Fraction(v == y) - Fraction(1, V) for v in range(V) for y in collocation]
    constraints = Constraints.between_entries(
        (V, V),
        [y * V + x for x, y, _ in wins],
        [v * V + x for x, _, v in wins],
        labels=[(x, v) for x, _, v in wins],
    )
    return proved(constraints, p, [Fraction(1, V)] * len(wins))


def kq_star(edges_by_query: Mapping[int, Iterable[tuple[int, int]]], V: int) -> MaxMargin:
    """C-DEF-KQSTAR: ``W_kq*[token, query]``, exact; each query brings its edges (optimal, non-optimal).

    A row is labelled (query, optimal, non-optimal). `hardmax.nexttoken.star.KqStar` has the same on the
    pairs that occur, for large vocabularies and for confused tokens.

    >>> kq_star({1: [(1, 0)]}, V=2).fractions.tolist()
    [[Fraction(0, 1), Fraction(-1, 2)], [Fraction(0, 1), Fraction(1, 2)]]
    """
    p, weights = [Fraction(0)] * (V * V), []
    labels: list[tuple[int, int, int]] = []
    for q, edges in edges_by_query.items():
        own = list(dict.fromkeys(edges))
        for token, value in kq_column(own).items():
            if not (0 <= token < V and 0 <= q < V):
                raise ValueError(
                    f"edges_by_query must have tokens in 0..{V - 1}, got {token} under query {q}"
                )
            p[token * V + q] = value
        weights += kq_multipliers(own)
        labels += [(q, o, x) for o, x in own]
    plus, minus = ([label[side] * V + label[0] for label in labels] for side in (1, 2))
    made = Constraints.between_entries((V, V), np.array(plus, int), np.array(minus, int), labels=labels)
    return proved(made, p, weights)


def proved(constraints: Constraints, p: Sequence[Fraction], multipliers: Sequence[Fraction]) -> MaxMargin:
    """The answer that a closed form and its multipliers are, for rows between entries of p."""
    sides = constraints.plus.tolist(), constraints.minus.tolist(), constraints.h.tolist()
    slack = tuple(p[a] - p[b] - int(h) for a, b, h in zip(*sides, strict=True))
    # Closed forms repeat few values, and a sum of equal fractions is one product.
    square = sum((x * x * times for x, times in Counter(p).items()), Fraction(0))
    return from_exact(
        constraints, Exact(True, tuple(multipliers), slack, square, width=len(p), point=tuple(p))
    )


def kq_column(edges: Iterable[Edge]) -> dict[Any, Fraction]:
    """One column of W_kq*: ``min sum w^2`` with ``w_o - w_x >= 1`` on the edges (o, x), by C-THM-BLOCK.

    >>> kq_column([("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")])["b"]
    Fraction(2, 3)
    """
    column: dict[Any, Fraction] = {}
    for block in blocks(edges):
        high, low = block.values
        column.update(dict.fromkeys(block.optimal, high))
        column.update(dict.fromkeys(block.non_optimal, low))
    return column


def star_column(optimal: Token, non_optimal: Sequence[Token]) -> dict[Any, Fraction]:
    """The closed form of a column for an injective collocation, where one token is optimal (C-THM-P2).

    >>> star_column("o", ["x"])
    {'o': Fraction(1, 2), 'x': Fraction(-1, 2)}
    """
    high, low = Block((optimal,), tuple(non_optimal)).values
    return {optimal: high, **dict.fromkeys(non_optimal, low)}


def kq_multipliers(edges: Sequence[Edge]) -> list[Fraction]:
    """The multiplier of each edge: what of the optimal tokens' values it carries to the non-optimal ones.

    Within a block of k and m tokens each optimal one gives m/(k + m) and each other one takes k/(k + m): a
    transport, which exists because no part of the block is tighter than the whole (C-THM-BLOCK).

    >>> [str(x) for x in kq_multipliers([("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")])]
    ['1/2', '0', '1/3', '1/3']
    """
    weights = [Fraction(0)] * len(edges)
    found = blocks(edges)
    home = {token: b for b, block in enumerate(found) for token in (*block.optimal, *block.non_optimal)}
    inside: list[list[int]] = [[] for _ in found]
    for e, (o, x) in enumerate(edges):
        if home[o] == home[x]:
            inside[home[o]].append(e)
    for block, own in zip(found, inside, strict=True):
        k, m = len(block.optimal), len(block.non_optimal)
        at = {token: 1 + i for i, token in enumerate((*block.optimal, *block.non_optimal))}
        if min(k, m) == 1:  # each edge is the only one of its token
            carried = [1] * len(own)
        else:
            arcs = [(0, at[o], m) for o in block.optimal] + [(at[x], k + m + 1, k) for x in block.non_optimal]
            ends = [(at[edges[e][0]], at[edges[e][1]]) for e in own]
            flow = _maximum_flow([*arcs, *((a, b, k * m) for a, b in ends)], k + m + 1)[1].flow
            carried = [int(flow[a, b]) for a, b in ends]
        for e, amount in zip(own, carried, strict=True):
            weights[e] = Fraction(amount, k + m)
    return weights


def blocks(edges: Iterable[Edge]) -> list[Block]:
    """C-THM-BLOCK: peel off the largest set S of optimal tokens with the least |N(S)|/|S|, again and again.

    >>> [block.optimal for block in blocks([("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")])]
    [('a',), ('b',)]
    """
    neighbors: dict[Any, dict[Any, None]] = {}
    for o, x in edges:
        neighbors.setdefault(o, {})[x] = None
    if set(neighbors) & {x for near in neighbors.values() for x in near}:
        raise ValueError(
            "edges must have no token both optimal and non-optimal, got a confused one, which has no block"
        )
    found = []
    while neighbors:
        inside = _tightest(neighbors)
        used = dict.fromkeys(x for o in inside for x in neighbors[o])
        found.append(Block(tuple(inside), tuple(used)))
        neighbors = {
            o: {x: None for x in near if x not in used} for o, near in neighbors.items() if o not in inside
        }
    return found


def _tightest(neighbors: dict[Any, dict[Any, None]]) -> list[Any]:
    """The largest S that minimises |N(S)|/|S|: Dinkelbach's iteration, each step one minimum cut."""
    inside = list(neighbors)
    if len(inside) == 1:
        return inside
    while True:
        a, b = len({x for o in inside for x in neighbors[o]}), len(inside)
        inside, value = _cut(neighbors, a, b)
        if value == 0:
            return inside


def _cut(neighbors: dict[Any, dict[Any, None]], a: int, b: int) -> tuple[list[Any], int]:
    """The largest S that minimises b|N(S)| - a|S|, and the minimum: a cut of source -a- o - x -b- sink."""
    tops = list(neighbors)
    lows = list(dict.fromkeys(x for near in neighbors.values() for x in near))
    at = {x: 1 + len(tops) + i for i, x in enumerate(lows)}
    sink = 1 + len(tops) + len(lows)
    arcs = [(0, 1 + i, a) for i in range(len(tops))] + [(at[x], sink, b) for x in lows]
    arcs += [(1 + i, at[x], a * len(tops) + 1) for i, o in enumerate(tops) for x in neighbors[o]]
    capacity, flow = _maximum_flow(arcs, sink)
    residual = csr_array(capacity - flow.flow)
    residual.eliminate_zeros()
    # What cannot reach the sink in the residual graph is the largest source side of a minimum cut.
    reaching = set(breadth_first_order(csr_array(residual.T), sink, return_predecessors=False).tolist())
    inside = [o for i, o in enumerate(tops) if 1 + i not in reaching]
    return inside, int(flow.flow_value) - a * len(tops)


def _maximum_flow(arcs: Sequence[tuple[int, int, int]], sink: int) -> tuple[Any, Any]:
    """The network of arcs (from, to, capacity), and its largest flow from node 0 to the last, the sink."""
    heads, tails, sizes = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
    capacity = csr_array((sizes, (heads, tails)), shape=(sink + 1, sink + 1))
    return capacity, maximum_flow(capacity, 0, sink)
