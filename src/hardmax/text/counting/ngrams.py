"""Numbers for words and n-grams: which of them a vocabulary keeps, and which of them a new text holds.

Level 1 is the words, known by their hashes; level n the n-grams, known by the numbers of the two (n-1)-grams
that they begin and end with, so that an n-gram can only be kept if both of these are. Numbers fall with the
documents that hold an n-gram, ties in order of appearance: what is used often lies close together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax.text.counting import kernels as compiled
from hardmax.text.counting.tokens import Tokens, mapped


class Bounds(NamedTuple):
    """In how many documents an n-gram that is kept is, at least and at most."""

    least: int
    most: int


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length that are kept: their keys, and the documents of each."""

    keys: np.ndarray  # (S,) uint64
    frequency: np.ndarray  # (S,) int32

    def __len__(self) -> int:
        return len(self.keys)

    def table(self) -> np.ndarray:
        """Where a key is looked up."""
        table = np.zeros(_room(len(self.keys)), np.int32)
        with np.errstate(over="ignore"):
            compiled.fill(self.keys, len(self.keys), table)
        return table


def _room(size: int) -> int:
    """The size of a table for so many keys: a power of two, at most half of it taken."""
    return 1 << max(4, (2 * size - 1).bit_length())


def pairs(numbers: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys of the next level, and where there are any."""
    keys, present = np.zeros(numbers.size, np.uint64), np.zeros(numbers.size, np.bool_)
    compiled.pair_keys(numbers, documents, keys, present)
    return keys, present


def build(
    tokens: Tokens, levels: int, bounds: Bounds, workers: int
) -> tuple[list[Level], np.ndarray, list[np.ndarray]]:
    """The levels of a vocabulary, the numbers (levels, N) of the n-grams, and where each is first."""
    documents = tokens.documents
    numbers = np.full((levels, len(tokens.hashes)), -1, np.int32)
    # Words are few and most of them common, so one table does; pairs are many, and go shard by shard.
    found = _numbered(
        _Keys(tokens.hashes, documents, None, [slice(0, len(documents))]), bounds, 1, numbers[0]
    )
    kept, firsts = [found[0]], [found[1]]
    for level in range(1, levels):
        keys = _sharded(*pairs(numbers[level - 1], documents), documents)
        one, first = _numbered(keys, bounds, workers, numbers[level])
        kept.append(one)
        firsts.append(first)
    return kept, numbers, firsts


class _Keys(NamedTuple):
    """Keys and their documents in parts, and the position of each among all tokens; None for the same."""

    keys: np.ndarray
    documents: np.ndarray
    positions: np.ndarray | None
    parts: list[slice]


def _sharded(keys: np.ndarray, present: np.ndarray, documents: np.ndarray) -> _Keys:
    """The keys that are present, by shards that have none in common."""
    sizes = np.zeros(compiled.SHARDS, np.int64)
    with np.errstate(over="ignore"):
        compiled.shard_sizes(keys, present, sizes)
        ends = np.cumsum(sizes)
        positions, own_keys = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint64)
        own_documents = np.empty(ends[-1], np.int32)
        compiled.shard(keys, documents, present, ends - sizes, positions, own_keys, own_documents)
    parts = [slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    return _Keys(own_keys, own_documents, positions, parts)


def _numbered(given: _Keys, bounds: Bounds, workers: int, out: np.ndarray) -> tuple[Level, np.ndarray]:
    """Number the keys that are kept, into ``out``; also the position of the first of each."""

    def count(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own, first, frequency = (np.empty(part.stop - part.start, np.int32) for _ in range(3))
        found = compiled.number(given.keys[part], given.documents[part], own, first, frequency)
        return own, first[:found] + np.int32(part.start), frequency[:found].copy()

    counted = mapped(count, given.parts, workers)
    first = np.concatenate([each[1] for each in counted])  # places among the keys
    frequency = np.concatenate([each[2] for each in counted])
    position = first if given.positions is None else given.positions[first]
    chosen = np.flatnonzero((frequency >= bounds.least) & (frequency <= bounds.most))
    chosen = chosen[np.lexsort((position[chosen], -frequency[chosen]))]
    rank = np.full(len(first), -1, np.int32)
    rank[chosen] = np.arange(len(chosen), dtype=np.int32)
    begin = np.cumsum([0, *(len(each[1]) for each in counted)])

    def place(k: int) -> None:
        part = given.parts[k]
        where = part if given.positions is None else given.positions[part]
        out[where] = rank[begin[k] : begin[k + 1]][counted[k][0]]

    mapped(place, range(len(given.parts)), workers)
    return Level(given.keys[first[chosen]], frequency[chosen]), position[chosen]


def find(tokens: Tokens, levels: list[Level], tables: list[np.ndarray]) -> np.ndarray:
    """The numbers (levels, N) of the n-grams of new tokens, -1 for those that are not kept."""
    numbers = np.full((len(levels), len(tokens.hashes)), -1, np.int32)
    keys, present, documents = tokens.hashes, np.ones(len(tokens.hashes), np.bool_), tokens.documents
    with np.errstate(over="ignore"):
        for k, (level, table) in enumerate(zip(levels, tables, strict=True)):
            if k:
                keys, present = pairs(numbers[k - 1], documents)
            compiled.look_up(keys, present, level.keys, table, numbers[k])
    return numbers
