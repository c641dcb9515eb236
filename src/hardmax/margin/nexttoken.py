"""Paper C: W_ov* in closed form and W_kq* by the rational block algorithm C-THM-BLOCK."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

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


def ov_star(collocation: Sequence[int]) -> NDArray[Any]:
    """C-DEF-OVSTAR: ``W_ov*[v, x] = [v = n(x)] - 1/V``, exact fractions; ``collocation[x]`` is n(x).

    >>> ov_star([1, 0]).tolist()
    [[Fraction(-1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(-1, 2)]]
    """
    V = len(collocation)
    if any(not 0 <= y < V for y in collocation):
        raise ValueError(f"collocation: expected tokens in 0..{V - 1}, got {list(collocation)}")
    W = np.full((V, V), -Fraction(1, V) if V else Fraction(0), dtype=object)
    for x, y in enumerate(collocation):
        W[y, x] += 1
    return W


def kq_star(edges_by_query: Mapping[int, Iterable[tuple[int, int]]], V: int) -> NDArray[Any]:
    """C-DEF-KQSTAR: ``W_kq*[token, query]``, exact; each query brings its edges (optimal, non-optimal).

    >>> kq_star({1: [(1, 0)]}, V=2).tolist()
    [[Fraction(0, 1), Fraction(-1, 2)], [Fraction(0, 1), Fraction(1, 2)]]
    """
    W = np.full((V, V), Fraction(0), dtype=object)
    for q, edges in edges_by_query.items():
        for token, value in kq_column(edges).items():
            if not (0 <= token < V and 0 <= q < V):
                raise ValueError(
                    f"edges_by_query: expected tokens in 0..{V - 1}, got {token} under query {q}"
                )
            W[token, q] = value
    return W


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


def blocks(edges: Iterable[Edge]) -> list[Block]:
    """C-THM-BLOCK: peel off the largest set S of optimal tokens with the least |N(S)|/|S|, again and again.

    >>> [block.optimal for block in blocks([("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")])]
    [('a',), ('b',)]
    """
    neighbours: dict[Any, dict[Any, None]] = {}
    for o, x in edges:
        neighbours.setdefault(o, {})[x] = None
    if set(neighbours) & {x for near in neighbours.values() for x in near}:
        raise ValueError(
            "edges: expected no token both optimal and non-optimal (a confused token has no block)"
        )
    found = []
    while neighbours:
        inside = _tightest(neighbours)
        used = dict.fromkeys(x for o in inside for x in neighbours[o])
        found.append(Block(tuple(inside), tuple(used)))
        neighbours = {
            o: {x: None for x in near if x not in used} for o, near in neighbours.items() if o not in inside
        }
    return found


def _tightest(neighbours: dict[Any, dict[Any, None]]) -> list[Any]:
    """The largest S that minimises |N(S)|/|S|: Dinkelbach's iteration, each step one minimum cut."""
    inside = list(neighbours)
    while True:
        a, b = len({x for o in inside for x in neighbours[o]}), len(inside)
        inside, value = _cut(neighbours, a, b)
        if value == 0:
            return inside


def _cut(neighbours: dict[Any, dict[Any, None]], a: int, b: int) -> tuple[list[Any], int]:
    """The largest S that minimises b|N(S)| - a|S|, and the minimum: a cut of source -a- o - x -b- sink."""
    tops = list(neighbours)
    lows = list(dict.fromkeys(x for near in neighbours.values() for x in near))
    at = {x: 1 + len(tops) + i for i, x in enumerate(lows)}
    sink = 1 + len(tops) + len(lows)
    arcs = [(0, 1 + i, a) for i in range(len(tops))] + [(at[x], sink, b) for x in lows]
    arcs += [(1 + i, at[x], a * len(tops) + 1) for i, o in enumerate(tops) for x in neighbours[o]]
    heads, tails, sizes = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
    capacity = csr_array((sizes, (heads, tails)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(capacity, 0, sink)
    residual = csr_array(capacity - flow.flow)
    residual.eliminate_zeros()
    # What cannot reach the sink in the residual graph is the largest source side of a minimum cut.
    reaching = set(breadth_first_order(csr_array(residual.T), sink, return_predecessors=False).tolist())
    inside = [o for i, o in enumerate(tops) if 1 + i not in reaching]
    return inside, int(flow.flow_value) - a * len(tops)
