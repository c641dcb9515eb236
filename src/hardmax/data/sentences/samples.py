"""Prefixes of raw sentences as samples, in token-index space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import expect
from hardmax._lib.kernels import kernel
from hardmax._lib.models import made
from hardmax.data.sentences.sentences import Sentences
from hardmax.problem import Problem
from hardmax.problem.keys import OneHot
from hardmax.problem.readouts import CrossEntropy, OutputValue, scored

if TYPE_CHECKING:
    from hardmax.nexttoken.models import NextTokenModel
    from hardmax.nexttoken.unmerged import Unmerged

# Tokens of all sentences together, 16 bytes each; a pass over a larger corpus goes in blocks instead.
LARGEST = 60_000_000
LARGEST_PASS = 2_000_000_000  # tokens of all prefixes of one sentence: minutes


@dataclass(frozen=True, eq=False)
class Trie:
    """A tree whose nodes are the prefixes of raw sentences.

    A node has its last ``token``, its ``parent`` (-1 if it has one token), its length ``depth``, how many raw
    sentences pass through it (``count``), and the ``first`` of them. A node of depth 2 or more is a sample
    (C-DEF-DATA): the sentence is its parent, the next token its own.

    >>> from hardmax.data.sentences.samples import Trie
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
        """Number the prefixes length by length: two are equal if their parents and last tokens are."""
        V, starts = len(sentences.vocabulary), sentences.offsets[:-1]
        lengths = np.diff(sentences.offsets)
        longest = int(lengths.max(initial=0))
        size = longest * (longest + 1) // 2
        if size > LARGEST_PASS:
            raise ValueError(
                f"sentences: their prefixes hold {size:,} tokens, more than {LARGEST_PASS:,}; "
                f"choose a `max_length` below {longest}"
            )
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

    def frequencies(self, *, uniform: bool = False) -> NDArray[np.float64]:
        """Return pi of each sample: its share of all samples, or with `uniform` of those of its sentence."""
        count = self.count[self.samples].astype(np.float64)
        if not uniform:
            return count / count.sum()
        _, sentence = np.unique(self.parent[self.samples], return_inverse=True)
        together = np.bincount(sentence, count)
        return count / together[sentence] / len(together)

    def contents(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return distinct tokens, their multiplicities, and offsets of the sentences before some next tokens.

        The next tokens are `nodes`; tokens are in order of first appearance.
        """
        room = int(self.depth[nodes].sum()) - len(nodes)
        tokens, counts = np.empty((2, room), dtype=np.int64)
        offsets = np.zeros(len(nodes) + 1, dtype=np.int64)
        places = np.full(self.V, -1, dtype=np.int64)
        path = np.empty(int(self.depth.max()), dtype=np.int64)
        used = _collect(self.parent, self.token, self.parent[nodes], places, path, tokens, counts, offsets)
        return tokens[:used].copy(), counts[:used].copy(), offsets

    def path(self, node: int) -> list[int]:
        """Return the tokens of a prefix, from its first to its last."""
        tokens = []
        while node >= 0:
            tokens.append(int(self.token[node]))
            node = int(self.parent[node])
        return tokens[::-1]

    def words(self, node: int) -> list[str]:
        """Return a prefix in words."""
        return [self.sentences.vocabulary[x] for x in self.path(node)]


@kernel()
def _collect(parent, token, ends, places, path, tokens, counts, offsets):  # type: ignore[no-untyped-def]
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
            at = places[x]
            # a slot left over from an earlier sentence lies before this one's start
            if at < start:
                places[x] = used
                tokens[used] = x
                counts[used] = 1
                used += 1
            else:
                counts[at] += 1
        offsets[i + 1] = used
    return used


@dataclass(frozen=True, eq=False)
class Samples:
    """The distinct samples (X, next token) of a prefix-closed dataset, in token-index space.

    Sample i holds the distinct ``tokens[offsets[i]:offsets[i+1]]`` of its sentence X in order of first
    appearance, with multiplicities ``counts``; ``query`` is the last token of X, ``target`` the next token,
    ``length`` that of X, and ``weight`` the frequency pi. A sentence with two next tokens is two samples.
    ``raw_length`` is L_max, the length of the longest raw sentence.

    >>> from hardmax.nexttoken import Samples
    >>> samples = Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> samples.n, samples.V, samples.raw_length
    (9, 4, 4)
    >>> samples.sentence(2), samples.vocabulary[samples.target[2]]
    ('S V O', 'P')
    """

    V: int
    tokens: NDArray[np.int64]
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    query: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    length: NDArray[np.int64]
    vocabulary: tuple[str, ...]
    raw_length: int
    trie: Trie = field(repr=False)

    def __repr__(self) -> str:
        return f"Samples(n={self.n}, V={self.V})"

    node: NDArray[np.int64] = field(repr=False)

    @classmethod
    def from_sentences(
        cls,
        sentences: Sentences | Iterable[str | Sequence[Any]],
        *,
        uniform: bool = False,
        vocabulary: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> Samples:
        """Make the samples of `Sentences`, or of raw sentences as `Sentences.from_lists` takes them.

        pi is the frequency among all samples, or with `uniform` the same for every distinct sentence; one
        that has several next tokens shares it among them by frequency.

        >>> from hardmax.nexttoken import Samples
        >>> Samples.from_sentences([[0, 1], [0, 1], [1, 0]]).weight.tolist()
        [0.6666666666666666, 0.3333333333333333]
        """
        if not isinstance(sentences, Sentences):
            sentences = Sentences.from_lists(sentences, vocabulary, max_length)
        return cls.from_trie(Trie.build(sentences), uniform=uniform)

    @classmethod
    def from_trie(cls, trie: Trie, *, uniform: bool = False) -> Samples:
        """Make all samples of a trie."""
        nodes = trie.samples
        if not len(nodes):
            raise ValueError(
                "sentences must hold one of two tokens or more, got only sentences of one token, "
                "which have no next token to learn"
            )
        size = int(trie.depth[nodes].sum())
        if size > LARGEST:
            raise ValueError(
                f"sentences: their prefixes hold {size:,} tokens, more than {LARGEST:,}; "
                f"choose a max_length below {int(trie.depth.max())} or fewer sentences"
            )
        tokens, counts, offsets = trie.contents(nodes)
        return cls(
            trie.V,
            tokens,
            counts,
            offsets,
            query=trie.token[trie.parent[nodes]],
            target=trie.token[nodes],
            weight=trie.frequencies(uniform=uniform),
            length=trie.depth[nodes] - 1,
            vocabulary=trie.sentences.vocabulary,
            raw_length=int(trie.depth.max()),
            trie=trie,
            node=nodes,
        )

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.target)

    def sentence(self, i: int) -> str:
        """Return the sentence of sample i in words."""
        return " ".join(self.trie.words(int(self.trie.parent[self.node[i]])))

    def model(
        self,
        *,
        blocks: tuple[str, ...] = ("W_ov", "W_kq"),
        joint: bool = False,
        E: Any = None,
        weights: Unmerged | None = None,
    ) -> NextTokenModel:
        """Return the next-token model of paper C on these samples, for `hm.train` and `hm.flow`.

        Args:
            blocks: what is trained: ("W_ov", "W_kq"), or ("W_ov",) for the first stage alone.
            joint: move both matrices together, instead of W_ov first and then W_kq.
            E: embedding (d, V) for joint training; orthonormal by default.
            weights: start of the four factors of both matrices, which are then trained together.

        Returns:
            The model; its ``optimizers`` have the learning rates of the paper's experiment.

        >>> from hardmax.nexttoken import Samples
        >>> Samples.from_sentences(["a b b", "b a"]).model().blocks
        ('W_ov', 'W_kq')
        """
        model: NextTokenModel = made("next tokens", self, tuple(blocks), joint, E, weights)
        return model

    def problem(self, W_ov: Any) -> Problem:
        """Return stage 2 as a `hardmax.Problem`: W_kq takes the place of p, and W_ov is fixed.

        ``W_ov`` is an OutputValue or a table B[v, x]. Input i is sample i with its frequency as the weight,
        slot t its t-th distinct token with its multiplicity. The keys are one-hot: one for each pair (token,
        query) that meets in a sentence, by query and token, then those that only sentences of one distinct
        token have, which nothing moves; ``problem.head.words`` and ``.queries`` name the pairs.

        >>> import hardmax as hm
        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.relations import collocation
        >>> from hardmax.nexttoken.stages import stage_1
        >>> samples = Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
        >>> problem = samples.problem(stage_1(collocation(samples), steps=20, rate=0.1))
        >>> problem, round(hm.loss(problem, None), 12)
        (Problem(n=9, T=1..3, d=9, loss='logistic'), 0.946657505523)
        """
        if not isinstance(W_ov, OutputValue):
            W_ov = OutputValue(np.full(self.V, -1), None, expect.finite_array("W_ov", W_ov, (self.V, self.V)))
        if W_ov.V != self.V:
            raise ValueError(f"W_ov must have {self.V} tokens as the samples, got {W_ov.V}")
        sizes = np.diff(self.offsets)
        key = np.repeat(self.query, sizes) * self.V + self.tokens
        moving = np.unique(key[np.repeat(sizes > 1, sizes)])
        pairs = np.concatenate([moving, np.setdiff1d(key, moving)])
        order = np.argsort(pairs)
        tokens = order[np.searchsorted(pairs, key, sorter=order)]
        head = CrossEntropy(W_ov, pairs % self.V, self.target, pairs // self.V)
        return Problem._flat(
            OneHot(len(pairs)),
            tokens,
            self.offsets,
            head,
            counts=self.counts.astype(np.float64),
            weights=self.weight,
        )

    def label_problem(self, n: Any = None) -> Problem:
        """Return attention alone, with the log loss: tokens x with n(x) = the next token are the label.

        n is an array over the tokens; by default every token leads to itself, and the next token has to be
        found in the sentence. Samples without a label are left out. Keys are as in `problem`, one for each
        pair (token, query), by query and token. `hm.decompose` finds the part that stays finite.

        >>> import hardmax as hm
        >>> from hardmax.nexttoken import Samples
        >>> samples = Samples.from_sentences(["a b q a", "b a q b"])   # under q, a and b beat each other
        >>> hm.decompose(samples.label_problem())
        Decomposition(mixed, certified: 2 constraints bound, 2 separable, inf risk 0.231049)
        """
        leads = np.arange(self.V) if n is None else expect.ids("n", n, self.V)
        sizes = np.diff(self.offsets)
        row = np.repeat(np.arange(self.n), sizes)
        hit = leads[self.tokens] == self.target[row]
        has_label = np.bincount(row[hit], minlength=self.n) > 0
        if not has_label.any():
            raise ValueError(
                "n must lead from some token of a sentence to the token after it, got none that does; "
                "give the collocation of the samples"
            )
        labeled = has_label[row]
        pairs, tokens = np.unique((self.query[row] * self.V + self.tokens)[labeled], return_inverse=True)
        offsets = np.concatenate([[0], np.cumsum(sizes[has_label])])
        head = scored(hit[labeled].astype(np.float64), offsets, "log")
        problem = Problem._flat(OneHot(len(pairs)), tokens.reshape(-1), offsets, head)
        return problem.weighted(self.weight[has_label], self.counts[labeled])

    def part(self, chosen: NDArray[np.int64]) -> Samples:
        """Return the chosen samples, in that order and with their weights."""
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        inside = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        rows = {name: getattr(self, name)[chosen] for name in ("query", "target", "weight", "length", "node")}
        return replace(self, tokens=self.tokens[inside], counts=self.counts[inside], offsets=offsets, **rows)

    def merged(self) -> Samples:
        """Merge samples that are equal as (multiset, query, target) into one with their joint weight.

        The model sees no positions, so neither loss nor gradient changes.

        >>> from hardmax.nexttoken import Samples
        >>> samples = Samples.from_sentences(["a b c d", "b a c d"])
        >>> samples.n, samples.merged().n
        (6, 5)
        """
        row = np.repeat(np.arange(self.n), np.diff(self.offsets))
        order = np.lexsort((self.tokens, row))
        canonical = np.stack([self.tokens[order], self.counts[order]], axis=1)
        group: dict[tuple[int, int, bytes], int] = {}
        inverse = np.empty(self.n, dtype=np.int64)
        bounds, ends = self.offsets.tolist(), zip(self.query.tolist(), self.target.tolist(), strict=True)
        for i, (query, target) in enumerate(ends):
            key = query, target, canonical[bounds[i] : bounds[i + 1]].tobytes()
            inverse[i] = group.setdefault(key, len(group))
        first = np.unique(inverse, return_index=True)[1]
        return replace(self.part(first), weight=np.bincount(inverse, self.weight).astype(np.float64))


def as_sentences(data: Any) -> Sentences:
    """Return the raw sentences of any form of a dataset."""
    if isinstance(data, Samples):
        return data.trie.sentences
    if isinstance(data, Trie):
        return data.sentences
    if isinstance(data, str):
        raise ValueError("data must be a list of sentences, got one string; use read_sentences for a file")
    return data if isinstance(data, Sentences) else Sentences.from_lists(data)
