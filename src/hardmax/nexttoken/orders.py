"""C-ALG-ORDERS: for every query, which token of a sentence decides the next one, and over which others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.collocation import collocation
from hardmax.nexttoken.samples import Samples
from hardmax.nexttoken.trie import BLOCK, Trie

Ints = NDArray[np.int64]
TYPES = ("optimal", "non_optimal", "confused", "non_comparable")


@dataclass(frozen=True, eq=False)
class Orders:
    """C-DEF-ORDER: relation k reads ``above[k] >_query[k] below[k]``, sorted and each once.

    ``witness[k]`` is the first sample that gives it, as a node of the trie.

    >>> from hardmax.nexttoken import Samples, orders
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

        >>> from hardmax.nexttoken import Samples, orders
        >>> orders(Samples.from_sentences(["a b b", "b a"])).edges()
        {1: [(0, 1)]}
        """
        found: dict[int, list[tuple[int, int]]] = {}
        for q, o, x in zip(self.query.tolist(), self.above.tolist(), self.below.tolist(), strict=True):
            found.setdefault(q, []).append((o, x))
        return found

    def types(self, query: int) -> list[str]:
        """C-DEF-TYPES: the type of every token under a query; each token has exactly one.

        >>> from hardmax.nexttoken import Samples, orders
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

        >>> from hardmax.nexttoken import Samples, orders
        >>> [pair.tolist() for pair in orders(Samples.from_sentences(["a b b", "b a"])).of_type("optimal")]
        [[1], [0]]
        """
        if name not in self._typed:
            raise ValueError(f"name: expected one of {', '.join(self._typed)}, got {name!r}")
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


def orders(data: Samples | Trie, n: Ints | None = None) -> Orders:
    """The orders of a dataset under its collocation, or under `n`, say one that was completed.

    >>> from hardmax.nexttoken import Samples, orders
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
