"""All prefixes of the raw sentences, each once, in a trie of flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel
from hardmax.data.sentences.sentences import Sentences

BLOCK = 1_000_000  # tokens of sentences held at once by a pass over a large corpus
LARGEST_PASS = 2_000_000_000  # tokens of all sentences: minutes


@dataclass(frozen=True, eq=False)
class Trie:
    """Each node is a prefix of a raw sentence: its last ``token``, its ``parent`` (-1 if it has one token),
    its length ``depth``, how many raw sentences pass through it (``count``), and the ``first`` of them.

    A node of depth 2 or more is a sample of C-DEF-DATA: the sentence is its parent, the next token its own.

    >>> from hardmax.data.sentences.trie import Trie
    >>> from hardmax.nexttoken import Sentences
    >>> trie = Trie.build(Sentences.from_lists(["a b c", "a b", "b c"]))
    >>> len(trie.token), trie.count.tolist(), trie.words(trie.samples[0])
    (5, [2, 1, 2, 1, 1], ['a', 'b'])
    """

    sentences: Sentences
    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    depth: NDArray[np.int64]
    count: NDArray[np.int64]
    first: NDArray[np.int64]

    @classmethod
    def build(cls, sentences: Sentences) -> Trie:
        """Number the prefixes length by length: two are equal if their parents and last tokens are.

        >>> from hardmax.data.sentences.trie import Trie
        >>> from hardmax.nexttoken import Sentences
        >>> Trie.build(Sentences.from_lists(["a b", "a c"])).parent.tolist()
        [-1, 0, 0]
        """
        V, starts = len(sentences.vocabulary), sentences.offsets[:-1]
        lengths = np.diff(sentences.offsets)
        longest = int(lengths.max(initial=0))
        _refuse_long_passes(longest * (longest + 1) // 2, longest)
        active, at = np.arange(sentences.n), np.zeros(sentences.n, dtype=np.int64)
        start = total = 0  # nodes before the previous length, and before this one
        columns: list[tuple[NDArray[np.int64], ...]] = []
        for depth in range(longest):
            alive = lengths[active] > depth
            active, at = active[alive], at[alive]
            key = at * V + sentences.tokens[starts[active] + depth]
            distinct, first, at, count = np.unique(
                key, return_index=True, return_inverse=True, return_counts=True
            )
            parent = distinct // V + start if depth else np.full(len(distinct), -1)
            columns.append((parent, distinct % V, np.full(len(distinct), depth + 1), count, active[first]))
            start, total = total, total + len(distinct)
        parent, token, level, count, first = (
            np.concatenate(parts).astype(np.int64) for parts in zip(*columns, strict=True)
        )
        return cls(sentences, parent, token, level, count, first)

    @property
    def V(self) -> int:
        """The size of the vocabulary."""
        return len(self.sentences.vocabulary)

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """The nodes that are samples, in the order in which a reader of the sentences meets them."""
        nodes = np.flatnonzero(self.depth > 1)
        return nodes[np.lexsort((self.depth[nodes], self.first[nodes]))]

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """The samples in pieces whose sentences have about BLOCK tokens together.

        >>> from hardmax.data.sentences.trie import Trie
        >>> from hardmax.nexttoken import Sentences
        >>> [len(block) for block in Trie.build(Sentences.from_lists(["a b c"])).blocks()]
        [2]
        """
        nodes = self.samples
        _refuse_long_passes(int(self.depth[nodes].sum()), int(self.depth.max(initial=0)))
        pieces = np.cumsum(self.depth[nodes]) // BLOCK
        yield from np.split(nodes, np.flatnonzero(np.diff(pieces)) + 1)

    def frequencies(self, *, uniform: bool = False) -> NDArray[np.float64]:
        """pi of each sample: its share of all samples, or with `uniform` of those with its sentence alone.

        >>> from hardmax.data.sentences.trie import Trie
        >>> from hardmax.nexttoken import Sentences
        >>> trie = Trie.build(Sentences.from_lists(["a b", "a b", "a c", "b a"]))
        >>> trie.frequencies().tolist()
        [0.5, 0.25, 0.25]
        >>> trie.frequencies(uniform=True).round(4).tolist()
        [0.3333, 0.1667, 0.5]
        """
        count = self.count[self.samples].astype(np.float64)
        if not uniform:
            return count / count.sum()
        _, sentence = np.unique(self.parent[self.samples], return_inverse=True)
        together = np.bincount(sentence, count)
        return count / together[sentence] / len(together)

    def contents(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Distinct tokens in order of first appearance, their multiplicities, and offsets, of the sentences
        whose next tokens are `nodes`.

        >>> from hardmax.data.sentences.trie import Trie
        >>> from hardmax.nexttoken import Sentences
        >>> trie = Trie.build(Sentences.from_lists(["a b a c"]))
        >>> [column.tolist() for column in trie.contents(trie.samples[-1:])]
        [[0, 1], [2, 1], [0, 2]]
        """
        room = int(self.depth[nodes].sum()) - len(nodes)
        tokens, counts = np.empty((2, room), dtype=np.int64)
        offsets = np.zeros(len(nodes) + 1, dtype=np.int64)
        seen = np.full(self.V, -1, dtype=np.int64)
        path = np.empty(int(self.depth.max()), dtype=np.int64)
        used = _collect(self.parent, self.token, self.parent[nodes], seen, path, tokens, counts, offsets)
        return tokens[:used].copy(), counts[:used].copy(), offsets

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Token x is the word ``vocabulary[x]``."""
        return self.sentences.vocabulary

    def sample(self, node: int) -> dict[str, str]:
        """A node of two tokens or more as a sentence and its next token."""
        return {
            "sentence": " ".join(self.words(int(self.parent[node]))),
            "next": self.vocabulary[self.token[node]],
        }

    def next_of(self, node: int) -> list[tuple[int, list[str]]]:
        """The next tokens of a prefix, as a reader meets them, each with the words of its raw sentence."""
        children = np.flatnonzero(self.parent == node)
        children = children[np.argsort(self.first[children], kind="stable")]
        return [(int(self.token[v]), self.sentences.words(int(self.first[v]))) for v in children]

    def begins(self, token: int) -> bool:
        """Whether a sentence of two tokens or more begins with it."""
        return bool(np.any((self.depth == 2) & (self.token[self.parent] == token)))

    def path(self, node: int) -> list[int]:
        """The tokens of a prefix, from its first to its last."""
        tokens = []
        while node >= 0:
            tokens.append(int(self.token[node]))
            node = int(self.parent[node])
        return tokens[::-1]

    def words(self, node: int) -> list[str]:
        """A prefix in the user's own words."""
        return [self.sentences.vocabulary[x] for x in self.path(node)]


def _refuse_long_passes(size: int, longest: int) -> None:
    if size > LARGEST_PASS:
        raise ValueError(
            f"sentences: their prefixes hold {size:,} tokens, more than {LARGEST_PASS:,}; "
            f"choose a max_length (--max-length) below {longest}"
        )


@kernel()
def _collect(parent, token, ends, seen, path, tokens, counts, offsets):  # type: ignore[no-untyped-def]
    """Fill tokens, counts and offsets with the contents of the prefixes `ends`; return how much was used."""
    used = 0
    for i in range(len(ends)):
        length, node = 0, ends[i]
        while node >= 0:
            path[length] = token[node]
            length += 1
            node = parent[node]
        start = used
        for k in range(length - 1, -1, -1):
            x = path[k]
            at = seen[x]
            # a slot left over from an earlier sentence lies before this one's start
            if at < start:
                seen[x] = used
                tokens[used] = x
                counts[used] = 1
                used += 1
            else:
                counts[at] += 1
        offsets[i + 1] = used
    return used
