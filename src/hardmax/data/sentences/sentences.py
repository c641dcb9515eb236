"""Raw sentences as one flat array of token numbers, with their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.expect import whole
from hardmax.data.tokens import number_tokens, token_lists

# A relation (query, above, below) is one int64, so the cube of the vocabulary's size has to fit.
LARGEST_VOCABULARY = 2_000_000


@dataclass(frozen=True, eq=False)
class Sentences:
    """Raw sentences: number i is ``tokens[offsets[i]:offsets[i+1]]``, token x is the word ``vocabulary[x]``.

    ``cut`` sentences were longer than ``max_length`` and lost ``cut_tokens`` tokens at their ends; ``notes``
    says what else should be known about how they were read.

    >>> from hardmax.nexttoken import Sentences
    >>> text = Sentences.from_lists(["the cat sat", ["the", "dog"]])
    >>> text.vocabulary, text.tokens.tolist(), text.words(1)
    (('the', 'cat', 'sat', 'dog'), [0, 1, 2, 0, 3], ['the', 'dog'])
    """

    tokens: NDArray[np.int64]
    offsets: NDArray[np.int64]
    vocabulary: tuple[str, ...]
    max_length: int | None = None
    cut: int = 0
    cut_tokens: int = 0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Sentences(n={self.n}, V={len(self.vocabulary)})"

    @property
    def n(self) -> int:
        """The number of raw sentences."""
        return len(self.offsets) - 1

    def words(self, i: int) -> list[str]:
        """Return sentence i in words."""
        return [self.vocabulary[x] for x in self.tokens[self.offsets[i] : self.offsets[i + 1]]]

    def column(self, k: int, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return token k of some sentences that have more than k tokens."""
        return self.tokens[self.offsets[which] + k]

    @property
    def teach_attention(self) -> bool:
        """Whether a sentence goes on after two different tokens; else attention never has to choose.

        >>> from hardmax.nexttoken import Sentences
        >>> [Sentences.from_lists(each).teach_attention for each in (["a b", "b c"], ["a b c"])]
        [False, True]
        """
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        differs = self.tokens != np.repeat(self.tokens[first], np.diff(self.offsets))
        differs[last] = False
        return bool(differs.any())

    @classmethod
    def from_lists(
        cls,
        sentences: Iterable[str | Sequence[Any]],
        vocabulary: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> Sentences:
        """Make sentences of lists of words, strings to be split at white space, or lists of token ids.

        Arrays, tensors and columns of a table are taken too, also of shape (T, 1). Words are numbered in
        order of first appearance and ids in increasing order, unless `vocabulary` lists the words; ids are
        then positions in it. A sentence without tokens is left out; one with more than `max_length` tokens
        is cut, if a `max_length` is given.

        >>> from hardmax.nexttoken import Sentences
        >>> Sentences.from_lists([[7, 3], [3, 7]]).vocabulary
        ('3', '7')
        >>> text = Sentences.from_lists(["a b a b a"], max_length=3)
        >>> text.words(0), text.cut, text.cut_tokens
        (['a', 'b', 'a'], 1, 2)
        """
        if max_length is not None:
            whole("max_length", max_length, least=2)
        split, cut, cut_tokens = [], 0, 0
        for sentence in token_lists("sentences", sentences):
            start = sentence[:max_length]
            if start:
                split.append(start)
                cut += len(sentence) > len(start)
                cut_tokens += len(sentence) - len(start)
        if not split:
            raise ValueError("sentences must hold at least one sentence with a token in it, got none")
        flat = [token for part in split for token in part]
        listed = None if vocabulary is None else list(map(str, vocabulary))
        tokens, words = number_tokens("sentences", flat, listed, np.iinfo(np.int64).max)
        if words is None:
            distinct, tokens = np.unique(tokens, return_inverse=True)
            words = tuple(map(str, distinct.tolist()))
        if len(words) > LARGEST_VOCABULARY:
            raise ValueError(
                f"sentences must have at most {LARGEST_VOCABULARY:,} distinct tokens, got {len(words):,}; "
                "use less text or a coarser tokenization"
            )
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in split])]).astype(np.int64)
        return cls(tokens.astype(np.int64), offsets, words, max_length, cut, cut_tokens)
