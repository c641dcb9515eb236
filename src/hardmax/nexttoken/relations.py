"""Collocation and orders: which token decides the next one, which are above others, and cycles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.walking import Walk, walk_through

MISSING = -1


@check_arguments
def collocation(samples: Samples) -> NDArray[np.int64]:
    """Return n(x) for every token x, -1 if no sentence begins with x or if [x] has several next tokens."""
    pairs = samples.length == 1
    x = samples.query[pairs]
    n = np.full(samples.V, MISSING, dtype=np.int64)
    n[x] = samples.target[pairs]
    n[np.bincount(x, minlength=samples.V) > 1] = MISSING
    return n


@check_arguments
def complete(n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return n with every missing token sent to a token that nothing goes to yet, in order of their numbers.

    An injective n becomes a permutation. If every sample of the data has a token that leads to its target,
    the orders do not change: the tokens that are assigned here are never next tokens.
    """
    missing = np.flatnonzero(n == MISSING)
    free = np.setdiff1d(np.arange(len(n)), n[n != MISSING])
    whole = n.copy()
    whole[missing] = free[: len(missing)]
    return whole


Ints = NDArray[np.int64]
TYPES = ("optimal", "non_optimal", "confused", "non_comparable")


@dataclass(frozen=True, eq=False)
class Orders:
    """The orders under all queries: relation k is ``above[k] >_query[k] below[k]``, sorted and each once.

    ``witness[k]`` is the first sample that gives it, as a place of `SortedText`.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import orders
    >>> found = orders(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]))
    >>> found.edges()
    {0: [(0, 3)], 1: [(1, 0)], 2: [(2, 0), (2, 1)], 3: [(2, 3)]}
    >>> found.types(3)
    ['non_comparable', 'non_comparable', 'optimal', 'non_optimal']
    """

    V: int
    query: Ints
    above: Ints
    below: Ints
    witness: Ints

    def __repr__(self) -> str:
        return f"Orders(V={self.V}, relations={len(self.query)})"

    @classmethod
    def of(cls, walk: Walk, V: int) -> Orders:
        """The relations that a walk found."""
        keys, places = walk.relations()
        pair, below = np.divmod(keys, V)
        query, above = np.divmod(pair, V)
        return cls(V, query, above, below, places)

    def edges(self) -> dict[int, list[tuple[int, int]]]:
        """The relations (above, below) of each query that has any.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.relations import orders
        >>> orders(Samples.from_sentences(["a b b", "b a"])).edges()
        {1: [(0, 1)]}
        """
        edges: dict[int, list[tuple[int, int]]] = {}
        for q, o, x in zip(self.query.tolist(), self.above.tolist(), self.below.tolist(), strict=True):
            edges.setdefault(q, []).append((o, x))
        return edges

    def types(self, query: int) -> list[str]:
        """C-DEF-TYPES: the type of every token under a query; each token has exactly one.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.relations import orders
        >>> orders(Samples.from_sentences(["a b b", "b a"])).types(1)
        ['optimal', 'non_optimal']
        """
        types = ["non_comparable"] * self.V
        for name, (queries, tokens) in self._typed.items():
            low, high = np.searchsorted(queries, [query, query + 1])
            for x in tokens[low:high].tolist():
                types[x] = name
        return types

    def of_type(self, name: str) -> tuple[Ints, Ints]:
        """All (query, token) of a type other than non_comparable, sorted.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.relations import orders
        >>> [pair.tolist() for pair in orders(Samples.from_sentences(["a b b", "b a"])).of_type("optimal")]
        [[1], [0]]
        """
        if name not in self._typed:
            raise ValueError(f"name must be one of {', '.join(self._typed)}, got {name!r}")
        return self._typed[name]

    @cached_property
    def _typed(self) -> dict[str, tuple[Ints, Ints]]:
        down = np.unique(self.query * self.V + self.above)
        up = np.unique(self.query * self.V + self.below)
        pairs = {
            "optimal": np.setdiff1d(down, up, assume_unique=True),
            "non_optimal": np.setdiff1d(up, down, assume_unique=True),
            "confused": np.intersect1d(up, down, assume_unique=True),
        }
        return {name: (pair // self.V, pair % self.V) for name, pair in pairs.items()}


@check_arguments
def orders(samples: Samples, n: Ints | None = None) -> Orders:
    """Return the orders of a dataset under its collocation, or under `n`, for example a completed one."""
    n = collocation(samples) if n is None else np.asarray(n, dtype=np.int64)
    if n.shape != (samples.V,):
        raise ValueError(f"n must be {samples.V} tokens, one per word, got shape {n.shape}")
    return Orders.of(walk_through(Distinct.of(samples.trie.sentences), n), samples.V)


@check_arguments
def components(data: Orders | Samples, n: Ints | None = None) -> dict[int, list[tuple[int, ...]]]:
    """Map queries to the strongly connected components of their orders that hold two tokens or more.

    Inside a component every token is above every other one by a chain of samples, so no attention can put
    one of them first: training keeps their logits at finite distances, while those between components
    diverge (`Samples.label_problem` with `hm.decompose` has the numbers). A realizable dataset has none.
    The orders are those of the collocation, or of `n`; where the next token itself is what attention has to
    find, n is ``numpy.arange(V)``.

    >>> from hardmax.nexttoken import Samples, components
    >>> components(Samples.from_sentences(["A B B", "C A B C", "B C"]))  # under B: A and B
    {1: [(0, 1)]}
    """
    relations = data if isinstance(data, Orders) else orders(data, n)
    tokens: dict[tuple[int, int], list[int]] = {}
    for pair, number in zip(*(column.tolist() for column in _cyclic(relations)), strict=True):
        query, token = divmod(pair, relations.V)
        tokens.setdefault((query, number), []).append(token)
    sets: dict[int, list[tuple[int, ...]]] = {}
    for query, component in sorted((query, tuple(part)) for (query, _), part in tokens.items()):
        sets.setdefault(query, []).append(component)
    return sets


def cyclic_queries(relations: Orders) -> Ints:
    """The queries whose order has a cycle."""
    return np.unique(_cyclic(relations)[0] // relations.V)


def _cyclic(relations: Orders) -> tuple[Ints, Ints]:
    """Each (query, token) on a cycle as one number, ascending, and the number of its component."""
    confused = np.unique(relations.of_type("confused")[0])  # only confused tokens lie on cycles
    inside = np.isin(relations.query, confused)
    if not inside.any():
        return confused[:0], confused[:0]
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    query, V = relations.query[inside], relations.V
    ends = np.concatenate([query * V + relations.above[inside], query * V + relations.below[inside]])
    nodes, number = np.unique(ends, return_inverse=True)
    above, below = np.split(number, 2)
    graph = coo_array((np.ones(len(above), dtype=np.int8), (above, below)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(graph.tocsr(), directed=True, connection="strong")
    # no token is above itself, so a cycle is a component of two tokens or more
    is_cyclic = np.bincount(component)[component] > 1
    return nodes[is_cyclic], component[is_cyclic].astype(np.int64)
