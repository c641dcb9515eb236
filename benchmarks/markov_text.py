"""Text of any size with the statistics of a small one: a chain of words, line by line.

    python benchmarks/markov_text.py tinyshakespeare.txt.xz OUT --megabytes 100 --seed 0

Each line begins with a word that begins a line of the source, and each word is followed by one that follows
it there, or by the end of the line, as often as there: words, pairs of words, first words and lengths of
lines have the frequencies of the source. What grows with the size is the number of distinct lines.
"""

from __future__ import annotations

import argparse
import lzma
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit

PIECE = 2**24  # bytes written at a time


class Chain:
    """The words of a text, and behind each what followed it, as often as it did."""

    def __init__(self, source: Path) -> None:
        raw = source.read_bytes()
        raw = lzma.decompress(raw) if source.suffix == ".xz" else raw
        lines = [line.split() for line in raw.decode().splitlines()]
        lines = [line for line in lines if line]
        self.words = sorted({word for line in lines for word in line})
        number = {word: 1 + x for x, word in enumerate(self.words)}  # 0 is the end of a line
        pairs = [
            pair
            for line in lines
            for ids in [[0, *map(number.__getitem__, line), 0]]
            for pair in pairwise(ids)
        ]
        table = np.array(pairs, dtype=np.int64)
        table = table[np.argsort(table[:, 0], kind="stable")]
        self.follows = table[:, 1].copy()
        self.offsets = np.searchsorted(table[:, 0], np.arange(len(self.words) + 2))
        encoded = [b"\n", *(word.encode() + b" " for word in self.words)]
        self.bytes = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self.places = np.concatenate([[0], np.cumsum([len(each) for each in encoded])])

    def write(self, path: Path, size: int, seed: int = 0) -> int:
        """About ``size`` bytes of new lines; returns how many they are."""
        written, piece = 0, np.empty(PIECE, dtype=np.uint8)
        state = np.array([seed * 2 + 1, 0], dtype=np.uint64)
        with path.open("wb") as file:
            while written < size:
                room = min(PIECE, size - written)
                used = _fill(piece[:room], state, self.follows, self.offsets, self.bytes, self.places)
                if not used:
                    break
                file.write(piece[:used].tobytes())
                written += used
        return written


@njit(cache=True)
def _fill(piece, state, follows, offsets, letters, places):  # type: ignore[no-untyped-def]
    """Fill the piece with whole lines; state is that of a splitmix64 generator."""
    used = end = word = 0
    while True:
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        z = state[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(33)
        low, high = offsets[word], offsets[word + 1]
        word = follows[low + np.int64(z) % (high - low)]
        size = places[word + 1] - places[word]
        if used + size > len(piece):
            return end
        if word == 0:
            piece[used - 1] = 10  # instead of the space behind the last word
            end = used
            continue
        for k in range(size):
            piece[used + k] = letters[places[word] + k]
        used += size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    size = Chain(asked.source).write(asked.out, int(1e6 * asked.megabytes), asked.seed)
    print(f"{asked.out}: {size:,} bytes")


if __name__ == "__main__":
    main()
