"""Distinct sentences with how often and where first: all that a check needs of a text, and far smaller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax.data.sentences import counting
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences

Small = NDArray[np.uint32]
MOST = 2**32 - 2  # raw sentences, and rows of distinct ones
_FULL = 0.75  # of the slots hold a sentence at most
MANY_WORDS = (
    f"the sentences must have at most {LARGEST_VOCABULARY:,} distinct tokens, got more; "
    "use less text or a coarser tokenization"
)


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct sentences of a text, in order of first appearance; tokens are numbered in that order too.

    Sentence s is packed (see `counting`) in ``rows[starts[s]:starts[s+1]]``; ``counts[s]`` raw sentences are
    like it, of which number ``firsts[s]`` is the first. There are ``n`` raw sentences in all, of which
    ``cut`` lost ``cut_tokens`` tokens beyond ``max_length``; ``odd`` spaces were unusual, and ``marked``
    files began with a byte order mark. ``notes`` are remarks about the text.

    >>> from hardmax.nexttoken import Sentences
    >>> from hardmax.data.sentences.distinct import Distinct
    >>> text = Distinct.of(Sentences.from_lists(["a b", "b a", "a b"]))
    >>> text.n, text.counts.tolist(), text.words(1)
    (3, [2, 1], ['b', 'a'])
    """

    encoded: tuple[bytes, ...]
    rows: NDArray[np.int64]
    starts: Small
    counts: Small
    firsts: Small
    n: int
    max_length: int | None
    cut: int = 0
    cut_tokens: int = 0
    odd: int = 0
    marked: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, sentences: Sentences) -> Distinct:
        """Return the distinct sentences among sentences in memory."""
        lengths = np.diff(sentences.offsets)
        sizes = -(-lengths // counting.PER_ROW)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.zeros(starts[-1], dtype=np.int64)
        place = np.arange(len(sentences.tokens)) - np.repeat(sentences.offsets[:-1], lengths)
        row = np.repeat(starts[:-1], lengths) + place // counting.PER_ROW
        np.bitwise_or.at(rows, row, (sentences.tokens + 1) << counting.SHIFTS[place % counting.PER_ROW])
        counts, firsts = np.ones(sentences.n, dtype=np.uint32), np.arange(sentences.n, dtype=np.uint32)
        totals = sentences.n, sentences.max_length, sentences.cut, sentences.cut_tokens
        raw = cls((), rows, starts.astype(np.uint32), counts, firsts, *totals)
        making = Making(sentences.max_length)
        making.add_numbered(raw, np.arange(len(sentences.vocabulary)))
        encoded = tuple(word.encode(errors="surrogatepass") for word in sentences.vocabulary)
        return replace(making.distinct(), encoded=encoded, notes=sentences.notes)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Token x is the word ``vocabulary[x]``."""
        return tuple(word.decode(errors="surrogatepass") for word in self.encoded)

    @property
    def V(self) -> int:
        """The size of the vocabulary."""
        return len(self.encoded)

    @property
    def packed(self) -> counting.Packed:
        """The arrays, as kernels take them."""
        return counting.Packed(self.rows, self.starts, self.counts, self.firsts)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each distinct sentence."""
        last = self.rows[self.starts[1:].astype(np.int64) - 1]
        lengths = counting.PER_ROW * np.diff(self.starts).astype(np.int32)
        for shift in counting.SHIFTS[:-1]:
            lengths -= last & (2**shift - 1) == 0  # no token is behind this place
        return lengths

    @property
    def longest(self) -> int:
        """The number of tokens of the longest one."""
        return int(self.lengths.max())

    def column(self, k: int, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return token k of some distinct sentences that have more than k tokens."""
        packed = self.rows[self.starts[which].astype(np.int64) + k // counting.PER_ROW]
        return (packed >> counting.SHIFTS[k % counting.PER_ROW] & counting.MASK) - 1

    def tokens(self, s: int) -> list[int]:
        """Return the tokens of distinct sentence s."""
        packed = self.rows[self.starts[s] : self.starts[s + 1], None]
        tokens = (packed >> counting.SHIFTS & counting.MASK) - 1
        return tokens.ravel()[: self.lengths[s]].tolist()

    def words(self, s: int) -> list[str]:
        """Return distinct sentence s in words."""
        return [self.vocabulary[x] for x in self.tokens(s)]


class Making:
    """Distinct sentences in the making: text after text is added, each with separate numbers."""

    def __init__(self, max_length: int | None) -> None:
        self.max_length = max_length
        self._number: dict[bytes, int] = {}
        self._rows = np.empty(4096, dtype=np.int64)
        self._starts, self._counts, self._firsts = (np.zeros(1024, dtype=np.uint32) for _ in range(3))
        self._slots = np.zeros(4096, dtype=np.int64)
        self.n = self._distinct = self._cut = self._cut_tokens = self._odd = self._marked = 0

    def add(self, text: Distinct) -> None:
        """Take in the text that follows."""
        number = self._number
        numbers = [number.setdefault(word, len(number)) for word in text.encoded]
        if len(number) > LARGEST_VOCABULARY:
            raise ValueError(MANY_WORDS)
        self.add_numbered(text, np.array(numbers, np.int64))

    def add_numbered(self, text: Distinct, numbers: NDArray[np.int64]) -> None:
        """Take in the text that follows, whose token x has the number numbers[x] here."""
        if self.n + text.n > MOST:
            raise ValueError(f"the text must have at most {MOST:,} sentences, got more; split it")
        self._make_room(len(text.rows), len(text.counts))
        everything = counting.Packed(self._rows, self._starts, self._counts, self._firsts)
        most = self.max_length or 2**31
        self._distinct = counting.join_rows(
            text.packed, numbers, self.n, most, everything, self._distinct, self._slots
        )
        self.n += text.n
        self._cut, self._cut_tokens = self._cut + text.cut, self._cut_tokens + text.cut_tokens
        self._odd, self._marked = self._odd + text.odd, self._marked + text.marked

    def distinct(self) -> Distinct:
        """Return all distinct sentences; this must be the last call."""
        del self._slots
        self._rows.resize(int(self._starts[self._distinct]), refcheck=False)
        self._starts.resize(self._distinct + 1, refcheck=False)
        self._counts.resize(self._distinct, refcheck=False)
        self._firsts.resize(self._distinct, refcheck=False)
        arrays = self._rows, self._starts, self._counts, self._firsts
        totals = self._cut, self._cut_tokens, self._odd, self._marked
        return Distinct(tuple(self._number), *arrays, self.n, self.max_length, *totals)

    def _make_room(self, rows: int, sentences: int) -> None:
        """Grow in place: the system moves large pieces of memory without a second copy."""
        rows += int(self._starts[self._distinct])
        sentences += self._distinct + 1
        if max(rows, sentences) > MOST:
            raise ValueError(
                "the distinct sentences must fit 32 GiB, got more; choose a smaller `max_length`"
            )
        if rows > len(self._rows):
            self._rows.resize(max(rows, len(self._rows) * 5 // 4), refcheck=False)
        if sentences > len(self._counts):
            room = max(sentences, len(self._counts) * 5 // 4)
            for array in (self._starts, self._counts, self._firsts):
                array.resize(room, refcheck=False)
        size = len(self._slots)
        while sentences > _FULL * size:
            size *= 2
        if size > len(self._slots):
            larger = np.zeros(size, dtype=np.int64)
            counting.enter_slots(self._slots, larger)
            self._slots = larger
