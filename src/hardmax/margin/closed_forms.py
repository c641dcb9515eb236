"""Solutions without a solver, in fractions: of next tokens (paper C) and of patterns (paper A).

W_ov* has a closed form and W_kq* a rational block algorithm (C-THM-BLOCK), both with their proofs. The
constraints of a selection pattern have the closed form of A-LEM-3P.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import Exact
from hardmax.margin.solution import MaxMargin, from_exact

Token = Hashable
Edge = tuple[Any, Any]


@dataclass(frozen=True)
class Block:
    """A level set of the solution: k optimal tokens at m/(k+m), m non-optimal ones at -k/(k+m)."""

    optimal: tuple[Token, ...]
    non_optimal: tuple[Token, ...]

    @property
    def values(self) -> tuple[Fraction, Fraction]:
        """The entries of optimal and non-optimal tokens; Proposition 2's formula on this block alone."""
        k, m = len(self.optimal), len(self.non_optimal)
        return Fraction(m, k + m), Fraction(-k, k + m)


def ov_star(collocation: Sequence[int]) -> MaxMargin:
    """C-DEF-OVSTAR: ``W_ov*[v, x] = [v = n(x)] - 1/V``, exact; ``collocation[x]`` is n(x).

    A row, labeled (x, v), requires the token n(x) to beat v under x by 1. Every row is tight, with multiplier
    1/V.
    """
    V = len(collocation)
    if any(not 0 <= y < V for y in collocation):
        raise ValueError(f"collocation must be tokens in 0..{V - 1}, got {list(collocation)}")
    wins = [(x, y, v) for x, y in enumerate(collocation) for v in range(V) if v != y]
    p = [Fraction(v == y) - Fraction(1, V) for v in range(V) for y in collocation]
    plus, minus = [y * V + x for x, y, _ in wins], [v * V + x for x, _, v in wins]
    constraints = Constraints.between_entries((V, V), plus, minus, labels=[(x, v) for x, _, v in wins])
    return proved(constraints, p, [Fraction(1, V)] * len(wins))


def kq_star(edges_by_query: Mapping[int, Iterable[tuple[int, int]]], V: int) -> MaxMargin:
    """C-DEF-KQSTAR: ``W_kq*[token, query]``, exact; each query brings its edges (optimal, non-optimal).

    A row is labeled (query, optimal, non-optimal). `hardmax.nexttoken.star.KqStar` has the same on the
    pairs that occur, for large vocabularies and for confused tokens.
    """
    p, weights = [Fraction(0)] * (V * V), []
    labels: list[tuple[int, int, int]] = []
    for q, edges in edges_by_query.items():
        pairs = list(dict.fromkeys(edges))
        for token, value in kq_column(pairs).items():
            if not (0 <= token < V and 0 <= q < V):
                raise ValueError(
                    f"edges_by_query must have tokens in 0..{V - 1}, got {token} under query {q}"
                )
            p[token * V + q] = value
        weights += kq_multipliers(pairs)
        labels += [(q, o, x) for o, x in pairs]
    plus, minus = (np.array([label[side] * V + label[0] for label in labels], int) for side in (1, 2))
    return proved(Constraints.between_entries((V, V), plus, minus, labels=labels), p, weights)


def proved(constraints: Constraints, p: Sequence[Fraction], multipliers: Sequence[Fraction]) -> MaxMargin:
    """The answer that a closed form and its multipliers are, for rows between entries of p."""
    sides = constraints.plus.tolist(), constraints.minus.tolist(), constraints.h.tolist()
    slack = tuple(p[a] - p[b] - int(h) for a, b, h in zip(*sides, strict=True))
    # Closed forms repeat few values, and a sum of equal fractions is one product.
    square = sum((x * x * times for x, times in Counter(p).items()), Fraction(0))
    return from_exact(constraints, Exact(True, tuple(multipliers), slack, square, tuple(p)))


def kq_column(edges: Iterable[Edge]) -> dict[Any, Fraction]:
    """One column of W_kq*: ``min sum w^2`` with ``w_o - w_x >= 1`` on the edges (o, x), by C-THM-BLOCK."""
    column: dict[Any, Fraction] = {}
    for block in blocks(edges):
        high, low = block.values
        column.update(dict.fromkeys(block.optimal, high))
        column.update(dict.fromkeys(block.non_optimal, low))
    return column


def star_column(optimal: Token, non_optimal: Sequence[Token]) -> dict[Any, Fraction]:
    """The closed form of a column for an injective collocation, where one token is optimal (C-THM-P2)."""
    high, low = Block((optimal,), tuple(non_optimal)).values
    return {optimal: high, **dict.fromkeys(non_optimal, low)}


def kq_multipliers(edges: Sequence[Edge]) -> list[Fraction]:
    """The multiplier of each edge: the share of the optimal tokens' values that it carries to the others.

    Within a block of k and m tokens each optimal one gives m/(k + m) and each other one takes k/(k + m): a
    transport, which exists because no part of the block is tighter than the whole (C-THM-BLOCK).
    """
    weights = [Fraction(0)] * len(edges)
    parts = blocks(edges)
    home = {token: b for b, block in enumerate(parts) for token in (*block.optimal, *block.non_optimal)}
    inside: list[list[int]] = [[] for _ in parts]
    for e, (o, x) in enumerate(edges):
        if home[o] == home[x]:
            inside[home[o]].append(e)
    for block, members in zip(parts, inside, strict=True):
        k, m = len(block.optimal), len(block.non_optimal)
        at = {token: 1 + i for i, token in enumerate((*block.optimal, *block.non_optimal))}
        if min(k, m) == 1:  # each edge is the only one of its token
            carried = [1] * len(members)
        else:
            arcs = [(0, at[o], m) for o in block.optimal] + [(at[x], k + m + 1, k) for x in block.non_optimal]
            ends = [(at[edges[e][0]], at[edges[e][1]]) for e in members]
            flow = _maximum_flow([*arcs, *((a, b, k * m) for a, b in ends)], k + m + 1)[1].flow
            carried = [int(flow[a, b]) for a, b in ends]
        for e, amount in zip(members, carried, strict=True):
            weights[e] = Fraction(amount, k + m)
    return weights


def blocks(edges: Iterable[Edge]) -> list[Block]:
    """C-THM-BLOCK: peel off the largest set S of optimal tokens of least |N(S)|/|S|, again and again."""
    neighbors: dict[Any, dict[Any, None]] = {}
    for o, x in edges:
        neighbors.setdefault(o, {})[x] = None
    if set(neighbors) & {x for near in neighbors.values() for x in near}:
        raise ValueError(
            "edges must have no token both optimal and non-optimal, got a confused one, which has no block"
        )
    parts = []
    while neighbors:
        # the largest S that minimizes |N(S)|/|S|: Dinkelbach's iteration, each step one minimum cut
        inside, value = list(neighbors), -int(len(neighbors) > 1)
        while value != 0:
            inside, value = _cut(neighbors, len({x for o in inside for x in neighbors[o]}), len(inside))
        used = dict.fromkeys(x for o in inside for x in neighbors[o])
        parts.append(Block(tuple(inside), tuple(used)))
        rest = ((o, near) for o, near in neighbors.items() if o not in inside)
        neighbors = {o: {x: None for x in near if x not in used} for o, near in rest}
    return parts


def _cut(neighbors: dict[Any, dict[Any, None]], a: int, b: int) -> tuple[list[Any], int]:
    """The largest S that minimizes b|N(S)| - a|S|, and the minimum: a cut of source -a- o - x -b- sink."""
    tops = list(neighbors)
    lows = list(dict.fromkeys(x for near in neighbors.values() for x in near))
    at = {x: 1 + len(tops) + i for i, x in enumerate(lows)}
    sink = 1 + len(tops) + len(lows)
    arcs = [(0, 1 + i, a) for i in range(len(tops))] + [(at[x], sink, b) for x in lows]
    arcs += [(1 + i, at[x], a * len(tops) + 1) for i, o in enumerate(tops) for x in neighbors[o]]
    capacity, flow = _maximum_flow(arcs, sink)
    residual = csr_array(capacity - flow.flow)
    residual.eliminate_zeros()
    # The nodes that cannot reach the sink in the residual graph are the largest source side of a minimum cut.
    reaching = set(breadth_first_order(csr_array(residual.T), sink, return_predecessors=False).tolist())
    inside = [o for i, o in enumerate(tops) if 1 + i not in reaching]
    return inside, int(flow.flow_value) - a * len(tops)


def _maximum_flow(arcs: Sequence[tuple[int, int, int]], sink: int) -> tuple[Any, Any]:
    """The network of arcs (from, to, capacity), and its largest flow from node 0 to the last, the sink."""
    heads, tails, sizes = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
    capacity = csr_array((sizes, (heads, tails)), shape=(sink + 1, sink + 1))
    return capacity, maximum_flow(capacity, 0, sink)


class Classes:
    """Tokens in classes, each alone at first; on a few tokens twice as fast as scipy's `DisjointSet`."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def __getitem__(self, token: int) -> int:
        """The token that represents its class."""
        parent = self._parent
        while (above := parent.get(token, token)) != token:
            parent[token] = parent.get(above, above)  # halves the way for the next time
            token = above
        return token

    def merge(self, a: int, b: int) -> bool:
        """Make two classes one; False if they were one already."""
        first, second = self[a], self[b]
        self._parent[second] = first
        return first != second


def pattern(
    sequences: Sequence[Sequence[int]],
    selection: Sequence[Iterable[int]],
    embeddings: ArrayLike | None = None,
    gram: ArrayLike | None = None,
) -> Constraints:
    """The constraints of A-DEF-11: selected tokens of a sequence tie, and beat its other tokens by 1.

    Give the tokens' ``embeddings`` or their ``gram`` matrix. Rows depend on token pairs only and appear
    once; labels are (s, s'). Tied tokens are merged over all sequences first, so that the equalities are a
    spanning forest (independent if the embeddings are), and each inequality between two classes appears as
    often as the sequences state it, because all are needed to report which are tight.
    """
    if len(sequences) != len(selection):
        raise ValueError(f"selection must have one set per sequence ({len(sequences)}), got {len(selection)}")
    ties: list[tuple[int, int]] = []
    wins: dict[tuple[int, int], None] = {}
    forest = Classes()
    for k, (tokens, chosen) in enumerate(zip(sequences, selection, strict=True)):
        inside = list(dict.fromkeys(int(s) for s in chosen))
        if not inside or not set(inside) <= set(tokens):
            raise ValueError(f"selection must be a non-empty part of sequence {k}, got {inside}")
        ties += [(inside[0], s) for s in inside[1:] if forest.merge(inside[0], s)]
        wins.update({(s, int(r)): None for s in inside for r in tokens if r not in inside})
    pairs = [*wins, *ties]
    plus, minus = [s for s, _ in pairs], [r for _, r in pairs]
    h, equal = np.repeat([1.0, 0.0], [len(wins), len(ties)]), np.repeat([False, True], [len(wins), len(ties)])
    if (embeddings is None) == (gram is None):
        raise ValueError("embeddings, gram must be one of them and not both, got both or none")
    if gram is not None:
        return Constraints.from_gram(gram, plus, minus, h, equal, labels=pairs)
    assert embeddings is not None
    return Constraints.pairs(embeddings, plus, minus, h, equal, labels=pairs)


@dataclass(frozen=True, eq=False)
class ImportantOnly:
    """A-LEM-3P for d to infinity: ``solution`` is M^+ 1 over the initial embeddings, all rows held at 1.

    ``is_max_margin``: whether it is p_hat, by the Gale condition |N(J)|/n_c >= |J|/n_r; where it fails,
    ``witness`` is a set of important tokens with too few neighbors in its component.
    """

    solution: MaxMargin
    witness: tuple[int, ...] | None

    @property
    def is_max_margin(self) -> bool:
        """Whether no row of M^+ 1 would be better met with more than 1."""
        return self.witness is None

    @cached_property
    def coefficients(self) -> dict[int, Fraction]:
        """The tokens that occur in rows, and their weights."""
        c, exact = self.solution.constraints, self.solution.exact
        assert exact is not None
        assert exact.p is not None
        return {s: exact.p[s] for s in np.union1d(c.plus, c.minus).tolist()}

    @property
    def norm_squared(self) -> Fraction:
        """Squared length of the solution M^+ 1."""
        assert self.solution.exact is not None
        return self.solution.exact.norm_squared


def important_only(sequences: Sequence[Sequence[int]], important: Sequence[int]) -> ImportantOnly:
    """The closed form when each sequence selects its one important token (Assumption 4).

    ``important[k]`` is the important token of sequence k. The bipartite graph joins it to the other tokens of
    its sequence. The Gale condition says that C-THM-BLOCK leaves each component in one block.
    """
    if len(important) != len(sequences):
        raise ValueError(
            f"important must have one token per sequence ({len(sequences)}), got {len(important)}"
        )
    edges = sorted(
        {(s, int(j)) for tokens, s in zip(sequences, important, strict=True) for j in tokens if j != s}
    )
    if {s for s, _ in edges} & {j for _, j in edges}:
        raise ValueError(
            "important must be tokens that are irrelevant in no sequence (Assumption 4), got one that is"
        )
    forest = Classes()
    tree = [edge for edge in edges if forest.merge(*edge)]
    p = [Fraction(0)] * (1 + max((s for tokens in sequences for s in tokens), default=-1))
    witness: tuple[int, ...] | None = None
    for component in dict.fromkeys(forest[s] for s, _ in edges):
        members = [(s, j) for s, j in edges if forest[s] == component]
        tops, rest = sorted({s for s, _ in members}), sorted({j for _, j in members})
        n_c, n_r = len(tops), len(rest)
        for tokens, value in ((tops, Fraction(n_r, n_c + n_r)), (rest, Fraction(-n_c, n_c + n_r))):
            for s in tokens:
                p[s] = value
        first = blocks(members)[0]
        if Fraction(len(first.non_optimal), len(first.optimal)) < Fraction(n_r, n_c):
            witness = witness or tuple(sorted(int(s) for s in first.optimal))  # type: ignore[call-overload]
    carried = _on_tree(tree, dict(enumerate(p)))
    plus, minus = (np.array([edge[side] for edge in edges], int) for side in (0, 1))
    rows = Constraints.between_entries((len(p),), plus, minus, h=1.0, equal=True, labels=edges)
    return ImportantOnly(proved(rows, p, [carried.get(edge, Fraction(0)) for edge in edges]), witness)


def _on_tree(tree: list[tuple[int, int]], p: dict[int, Fraction]) -> dict[tuple[int, int], Fraction]:
    """Multipliers of rows (s, j) that form a forest, with p their combination: a leaf has one row only."""
    near: dict[int, list[tuple[int, int]]] = {}
    for edge in tree:
        for s in edge:
            near.setdefault(s, []).append(edge)
    weights: dict[tuple[int, int], Fraction] = {}
    leaves = [s for s, members in near.items() if len(members) == 1]
    while leaves:
        leaf = leaves.pop()
        if not near[leaf]:
            continue
        (edge,) = near[leaf]
        other = edge[0] + edge[1] - leaf
        weights[edge] = p[leaf] if leaf == edge[0] else -p[leaf]
        p[other] += p[leaf]  # what the row gives to the one it takes from the other
        near[leaf] = []
        near[other].remove(edge)
        if len(near[other]) == 1:
            leaves.append(other)
    return weights
