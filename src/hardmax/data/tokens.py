"""Sequences of tokens as people give them: words, strings of words, or token numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import expect


def token_lists(name: str, sequences: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield each sequence as a list of tokens; a string is split at white space."""
    for k, sequence in enumerate(expect.sequences(name, sequences)):
        tokens = sequence.split() if isinstance(sequence, str) else expect.values(sequence)
        if tokens is None:
            raise ValueError(f"{name}[{k}] must be a string or a list of words or ids, got {sequence!r:.60}")
        yield tokens


def distinct_words(vocabulary: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a vocabulary, each of which must occur once."""
    words = tuple(vocabulary)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"vocabulary must be a list of words, got {vocabulary!r:.60}")
    if len(set(words)) < len(words):
        twice = Counter(words).most_common(1)[0][0]
        raise ValueError(f"vocabulary must hold every word once, got {twice!r} twice")
    return words


def number_tokens(
    name: str, flat: list[Any], vocabulary: Sequence[str] | None, largest: int
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Return token numbers, and the word of each if words are known.

    Words are numbered in order of first appearance unless ``vocabulary`` lists them. Token ids are positions
    in the vocabulary; without one they stay as they are, up to ``largest``.
    """
    words = None if vocabulary is None else distinct_words(vocabulary)
    kinds = set(map(type, flat))
    if all(issubclass(kind, str) for kind in kinds):
        words = tuple(dict.fromkeys(flat)) if words is None else words
        number = {word: x for x, word in enumerate(words)}
        try:
            return np.fromiter(map(number.__getitem__, flat), np.int64, len(flat)), words
        except KeyError as error:
            lacking = error.args[0]
        raise ValueError(f"vocabulary must hold every word of the {name}, it lacks {lacking!r}")
    if any(issubclass(kind, bool) or not issubclass(kind, Integral) for kind in kinds):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"{name} must hold tokens that are all words or all integer ids, got {names}")
    last = largest if words is None else len(words) - 1
    if min(flat) < 0 or max(flat) > last:
        raise ValueError(f"{name} must hold token ids from 0 to {last}, got {min(flat)} to {max(flat)}")
    return np.array(flat, dtype=np.int64), words
