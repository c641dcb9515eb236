"""Collocation and orders: which token decides the next one, which stand above others, and cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.samples import Samples
from hardmax.data.sentences.trie import BLOCK, Trie

MISSING = -1


@check_arguments
def collocation(data: Samples | Trie) -> NDArray[np.int64]:
    """n(x) for every token x, -1 where no sentence begins with x or where [x] has several next tokens.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import collocation
    >>> collocation(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).tolist()
    [1, 2, 3, 0]
    >>> collocation(Samples.from_sentences(["a b", "a c", "b c"])).tolist()
    [-1, 2, -1]
    """
    trie = data.trie if isinstance(data, Samples) else data
    pairs = np.flatnonzero(trie.depth == 2)
    x = trie.token[trie.parent[pairs]]
    n = np.full(trie.V, MISSING, dtype=np.int64)
    n[x] = trie.token[pairs]
    n[np.bincount(x, minlength=trie.V) > 1] = MISSING
    return n


def never_first(trie: Trie) -> NDArray[np.int64]:
    """The tokens that begin no sentence of two tokens or more.

    >>> from hardmax.data.sentences.trie import Trie
    >>> from hardmax.nexttoken import Sentences
    >>> from hardmax.nexttoken.relations import never_first
    >>> never_first(Trie.build(Sentences.from_lists(["a b", "c"]))).tolist()
    [1, 2]
    """
    first = trie.token[trie.parent[trie.depth == 2]]
    return np.setdiff1d(np.arange(trie.V), first)


@check_arguments
def complete(n: NDArray[np.int64]) -> NDArray[np.int64]:
    """n with every missing token sent to a token that nothing goes to yet, in order of their numbers.

    An injective n becomes a permutation. If every sample of the data has a token that leads to its target,
    the orders do not change: the tokens given away here are never next tokens.

    >>> import numpy as np
    >>> from hardmax.nexttoken.relations import complete
    >>> complete(np.array([1, 2, -1])).tolist()
    [1, 2, 0]
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
    """C-DEF-ORDER: relation k reads ``above[k] >_query[k] below[k]``, sorted and each once.

    ``witness[k]`` is the first sample that gives it, as a node of the trie.

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

    def edges(self) -> dict[int, list[tuple[int, int]]]:
        """The relations (above, below) of each query that has any; what `kq_star` takes.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.relations import orders
        >>> orders(Samples.from_sentences(["a b b", "b a"])).edges()
        {1: [(0, 1)]}
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for q, o, x in zip(self.query.tolist(), self.above.tolist(), self.below.tolist(), strict=True):
            found.setdefault(q, []).append((o, x))
        return found

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


@dataclass(frozen=True, eq=False)
class Deciding:
    """Some samples with ``hit``: which of their tokens x have n(x) = the next token.

    Entry e is the token ``tokens[e]``, ``counts[e]`` times in the sentence of sample ``row[e]``; ``hits`` is
    the number of deciding token types of each sample, ``node`` the sample in the trie.
    """

    tokens: Ints
    counts: Ints
    row: Ints
    hit: NDArray[np.bool_]
    hits: Ints
    query: Ints
    target: Ints
    node: Ints

    def relations(self, V: int) -> Iterator[tuple[Ints, Ints]]:
        """Each (query, above, below) as one number, with the node of the first sample that gives it.

        They come in pieces: k deciding tokens and m others of one sentence make k m relations.
        """
        loses = np.flatnonzero(~self.hit & (self.hits[self.row] > 0))
        winners = self.tokens[self.hit]
        first = np.cumsum(self.hits) - self.hits  # the deciding tokens of a row lie together
        size = np.cumsum(self.hits[self.row[loses]])
        for some in np.split(loses, np.flatnonzero(np.diff(size // BLOCK)) + 1):
            row = self.row[some]
            times = self.hits[row]
            nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            above = winners[np.repeat(first[row], times) + nth]
            key = (np.repeat(self.query[row], times) * V + above) * V + np.repeat(self.tokens[some], times)
            yield _first_of_each(key, np.repeat(self.node[row], times))


def deciding(trie: Trie, n: Ints) -> Iterator[Deciding]:
    """All samples of a trie, in blocks of bounded size."""
    if np.shape(n) != (trie.V,):
        raise ValueError(f"n must be {trie.V} tokens, one per word, got shape {np.shape(n)}")
    for nodes in trie.blocks():
        tokens, counts, offsets = trie.contents(nodes)
        row = np.repeat(np.arange(len(nodes)), np.diff(offsets))
        target = trie.token[nodes]
        hit = n[tokens] == target[row]
        hits = np.bincount(row[hit], minlength=len(nodes)).astype(np.int64)
        yield Deciding(tokens, counts, row, hit, hits, trie.token[trie.parent[nodes]], target, nodes)


class Gatherer:
    """Collects the relations of block after block; memory follows the distinct ones."""

    def __init__(self, V: int) -> None:
        self.V = V
        self._keys = self._nodes = np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, block: Deciding) -> None:
        for piece in block.relations(self.V):
            self._waiting.append(piece)
            if sum(len(keys) for keys, _ in self._waiting) > BLOCK:
                self._settle()

    def orders(self) -> Orders:
        self._settle()
        pair, below = np.divmod(self._keys, self.V)
        query, above = np.divmod(pair, self.V)
        return Orders(self.V, query, above, below, self._nodes)

    def _settle(self) -> None:
        keys, nodes = zip((self._keys, self._nodes), *self._waiting, strict=True)
        self._keys, self._nodes = _first_of_each(np.concatenate(keys), np.concatenate(nodes))
        self._waiting = []


@check_arguments
def orders(data: Samples | Trie, n: Ints | None = None) -> Orders:
    """The orders of a dataset under its collocation, or under `n`, say one that was completed.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import orders
    >>> orders(Samples.from_sentences(["p q q", "r p q p", "q r"])).edges()
    {0: [(0, 2)], 1: [(0, 1), (2, 0), (2, 1)]}
    """
    trie = data.trie if isinstance(data, Samples) else data
    gatherer = Gatherer(trie.V)
    for block in deciding(trie, collocation(trie) if n is None else n):
        gatherer.add(block)
    return gatherer.orders()


def _first_of_each(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    distinct, first = np.unique(keys, return_index=True)
    return distinct, values[first]


@check_arguments
def components(data: Orders | Samples | Trie, n: Ints | None = None) -> dict[int, list[tuple[int, ...]]]:
    """Query to the strongly connected components of its order, as far as they hold two tokens or more.

    Inside a component every token is above every other one by a chain of samples, so no attention can put
    one of them first: training keeps their logits at finite distances, while those between components
    diverge (`Samples.label_problem` with `hm.decompose` has the numbers). A realizable dataset has none.
    The orders are those of the collocation, or of `n`; where the next token itself is what attention has to
    find, n is ``numpy.arange(V)``.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import components
    >>> components(Samples.from_sentences(["A B B", "C A B C", "B C"]))
    {1: [(0, 1)]}
    >>> components(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]))
    {}
    """
    found: dict[int, list[tuple[int, ...]]] = {}
    relations = data if isinstance(data, Orders) else orders(data, n)
    pairs, number = _cyclic(relations)
    order = np.argsort(number, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else ():
        query = int(pairs[some[0]] // relations.V)
        found.setdefault(query, []).append(tuple((pairs[some] % relations.V).tolist()))
    return {query: sorted(found[query]) for query in sorted(found)}


def cyclic_queries(relations: Orders) -> Ints:
    """The queries whose order has a cycle."""
    return np.unique(_cyclic(relations)[0] // relations.V)


def _cyclic(relations: Orders) -> tuple[Ints, Ints]:
    """Each (query, token) on a cycle as one number, ascending, and the number of its component."""
    none = np.empty(0, dtype=np.int64)
    confused = np.unique(relations.of_type("confused")[0])  # only confused tokens lie on cycles
    inside = np.isin(relations.query, confused)
    if not inside.any():
        return none, none
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    query, V = relations.query[inside], relations.V
    ends = np.concatenate([query * V + relations.above[inside], query * V + relations.below[inside]])
    nodes, number = np.unique(ends, return_inverse=True)
    above, below = np.split(number, 2)
    graph = coo_array((np.ones(len(above), dtype=np.int8), (above, below)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(graph.tocsr(), directed=True, connection="strong")
    # no token is above itself, so a cycle is a component of two tokens or more
    kept = np.bincount(component)[component] > 1
    return nodes[kept], component[kept].astype(np.int64)
