"""Solutions without a solver: W_ov*, W_kq* by rational blocks (C-THM-BLOCK), patterns (A-DEF-11)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from hardmax.margin.constraints import Constraints

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

    >>> from hardmax.margin.solve import solve
    >>> E = [[1.0, 0.0, 0.0, 8.0], [0.0, 1.0, 0.0, -8.0], [0.0, 0.0, 1.0, 0.0]]
    >>> solve(pattern([[0, 2], [1, 2]], [[0, 2], [1]], E), exact=True).exact.norm_squared
    Fraction(22, 129)
    """
    if len(sequences) != len(selection):
        raise ValueError(f"selection: expected one set per sequence ({len(sequences)}), got {len(selection)}")
    ties: list[tuple[int, int]] = []
    wins: dict[tuple[int, int], None] = {}
    forest = _Forest()
    for k, (tokens, chosen) in enumerate(zip(sequences, selection, strict=True)):
        inside = list(dict.fromkeys(int(s) for s in chosen))
        if not inside or not set(inside) <= set(tokens):
            raise ValueError(f"selection: expected a non-empty part of sequence {k}, got {inside}")
        ties += [(inside[0], s) for s in inside[1:] if forest.join(inside[0], s)]
        wins.update({(s, int(r)): None for s in inside for r in tokens if r not in inside})
    pairs = [*wins, *ties]
    plus, minus = [s for s, _ in pairs], [r for _, r in pairs]
    h, equal = np.repeat([1.0, 0.0], [len(wins), len(ties)]), np.repeat([False, True], [len(wins), len(ties)])
    if (embeddings is None) == (gram is None):
        raise ValueError("embeddings, gram: expected exactly one of them")
    if gram is not None:
        return Constraints.from_gram(gram, plus, minus, h, equal, labels=pairs)
    assert embeddings is not None
    return Constraints.pairs(embeddings, plus, minus, h, equal, labels=pairs)


class _Forest:
    """Union-find over tokens."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def root(self, token: int) -> int:
        while self.parent.get(token, token) != token:
            token = self.parent[token]
        return token

    def join(self, a: int, b: int) -> bool:
        """Merge two classes; False if they were one already."""
        first, second = self.root(a), self.root(b)
        self.parent[second] = first
        return first != second


@dataclass(frozen=True)
class ImportantOnly:
    """A-LEM-3P for d to infinity: ``M^+ 1`` over the initial embeddings, and whether it is p_hat.

    ``is_max_margin`` is the Gale condition |N(J)|/n_c >= |J|/n_r; where it fails, ``witness`` is a set of
    important tokens with too few neighbours in its component.

    >>> important_only([[0, 2], [1, 2]], [0, 1]).norm_squared
    Fraction(2, 3)
    """

    coefficients: dict[int, Fraction]
    norm_squared: Fraction
    is_max_margin: bool
    witness: tuple[int, ...] | None


def important_only(sequences: Sequence[Sequence[int]], important: Sequence[int]) -> ImportantOnly:
    """The closed form when each sequence selects its one important token (Assumption 4).

    ``important[k]`` is the important token of sequence k. The bipartite graph joins it to the other tokens of
    its sequence. The Gale condition says that C-THM-BLOCK leaves each component in one block.

    >>> form = important_only([[0, 4, 5, 6], [1, 4, 5, 6], [2, 6], [3, 6]], [0, 1, 2, 3])
    >>> form.norm_squared, form.is_max_margin, form.witness
    (Fraction(12, 7), False, (2, 3))
    """
    if len(important) != len(sequences):
        raise ValueError(
            f"important: expected one token per sequence ({len(sequences)}), got {len(important)}"
        )
    edges = sorted(
        {(s, int(j)) for tokens, s in zip(sequences, important, strict=True) for j in tokens if j != s}
    )
    if {s for s, _ in edges} & {j for _, j in edges}:
        raise ValueError("important: expected tokens that are irrelevant in no sequence (Assumption 4)")
    forest = _Forest()
    for s, j in edges:
        forest.join(s, j)
    coefficients: dict[int, Fraction] = {}
    norm_squared = Fraction(0)
    witness: tuple[int, ...] | None = None
    for component in dict.fromkeys(forest.root(s) for s, _ in edges):
        own = [(s, j) for s, j in edges if forest.root(s) == component]
        tops, rest = sorted({s for s, _ in own}), sorted({j for _, j in own})
        n_c, n_r = len(tops), len(rest)
        coefficients.update({s: Fraction(n_r, n_c + n_r) for s in tops})
        coefficients.update({j: Fraction(-n_c, n_c + n_r) for j in rest})
        norm_squared += Fraction(n_c * n_r, n_c + n_r)
        first = blocks(own)[0]
        if Fraction(len(first.non_optimal), len(first.optimal)) < Fraction(n_r, n_c):
            witness = witness or tuple(sorted(int(s) for s in first.optimal))  # type: ignore[call-overload]
    return ImportantOnly(coefficients, norm_squared, witness is None, witness)
