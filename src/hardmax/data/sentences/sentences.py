"""Raw sentences as one flat array of token numbers, with the words they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.expect import sequences, values, whole

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

    @property
    def n(self) -> int:
        """The number of raw sentences."""
        return len(self.offsets) - 1

    def words(self, i: int) -> list[str]:
        """Sentence i in the user's own words."""
        return [self.vocabulary[x] for x in self.tokens[self.offsets[i] : self.offsets[i + 1]]]

    def column(self, k: int, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Token k of some sentences, which are longer."""
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
        """Sentences as lists of words, as strings to be split at white space, or as lists of token ids.

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
        for i, sentence in enumerate(sequences("sentences", sentences)):
            kept, lost = _shorten(sentence, i, max_length)
            if kept:
                split.append(kept)
                cut, cut_tokens = cut + (lost > 0), cut_tokens + lost
        if not split:
            raise ValueError("sentences must hold at least one sentence with a token in it, got none")
        flat = [token for each in split for token in each]
        kinds: set[type] = set(map(type, flat))
        if kinds == {str}:
            tokens, words = _number_words(flat, vocabulary)
        elif all(issubclass(kind, Integral) and not issubclass(kind, bool) for kind in kinds):
            tokens, words = _number_ids(flat, vocabulary)
        else:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"sentences must hold tokens that are all words or all integer ids, got {names}")
        if len(words) > LARGEST_VOCABULARY:
            raise ValueError(
                f"sentences must have at most {LARGEST_VOCABULARY:,} distinct tokens, got {len(words):,}; "
                "split the text into fewer kinds of tokens"
            )
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in split])]).astype(np.int64)
        return cls(tokens, offsets, words, max_length, cut, cut_tokens)


def _shorten(sentence: Any, i: int, max_length: int | None) -> tuple[list[Any], int]:
    """The tokens of a sentence that are kept, and the number of those that are not."""
    tokens = sentence.split() if isinstance(sentence, str) else values(sentence)
    if tokens is None:
        raise ValueError(f"sentences[{i}] must be a string or a list of words or ids, got {sentence!r:.60}")
    kept = tokens[:max_length]
    return kept, len(tokens) - len(kept)


def _number_words(flat: list[str], vocabulary: Sequence[str] | None) -> tuple[NDArray[np.int64], Any]:
    words = tuple(dict.fromkeys(flat)) if vocabulary is None else tuple(vocabulary)
    number = {word: x for x, word in enumerate(words)}
    if len(number) < len(words):
        twice = next(word for x, word in enumerate(words) if number[word] != x)
        raise ValueError(f"vocabulary must have every word once, got {twice!r} twice")
    try:
        return np.fromiter(map(number.__getitem__, flat), np.int64, len(flat)), words
    except KeyError as error:
        raise ValueError(
            f"vocabulary must hold every word of the sentences, it lacks {error.args[0]!r}"
        ) from None


def _number_ids(flat: list[Any], vocabulary: Sequence[str] | None) -> tuple[NDArray[np.int64], Any]:
    largest = np.iinfo(np.int64).max
    if min(flat) < 0 or max(flat) > largest:
        raise ValueError(f"sentences must be token ids from 0 to {largest}, got {min(flat)} to {max(flat)}")
    ids = np.array(flat, dtype=np.int64)
    if vocabulary is None:
        distinct, tokens = np.unique(ids, return_inverse=True)
        return tokens.astype(np.int64), tuple(map(str, distinct.tolist()))
    if ids.max() >= len(vocabulary):
        raise ValueError(
            f"sentences must be ids below {len(vocabulary)}, the vocabulary's size, got {ids.max()}"
        )
    return ids, tuple(map(str, vocabulary))
