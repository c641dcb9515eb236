"""Tokens to counts (A-DATA-6, step 5): the cut of long reviews, the purge of rare tokens, empty reviews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hardmax.data.corpora.corpus import Corpus
from hardmax.data.text.gathering import Chunk
from hardmax.data.text.tokens import TokenTable

# A chunk of reviews as tokens: numbers of all tokens in order, and how many each review has.
Spelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Counted:
    """The corpus, and what the cut and the purge took away."""

    corpus: Corpus
    kept: np.ndarray  # (n,) positions of the corpus' reviews among those that were counted
    tokens: int
    cut: int
    purged: int
    distinct: int


def spell(chunks: Iterable[Chunk], numbers: Iterable[np.ndarray], table: TokenTable) -> Iterator[Spelled]:
    """The tokens of every chunk by the table of distinct words; ``numbers`` are its words in the table."""
    for chunk, words in zip(chunks, numbers, strict=True):
        tokens, sizes = table.spelled(words)
        ends = np.concatenate([[0], np.cumsum(sizes)])[np.cumsum(chunk.sizes)]
        yield tokens, np.diff(ends, prepend=0)


def spell_by(
    function: Callable[[str], Iterable[str]],
    chunks: Iterable[Chunk],
    numbers: Iterable[np.ndarray],
    stems: list[str],
    vocabulary: dict[str, int],
) -> Iterator[Spelled]:
    """The tokens that a user's function finds in each review, its stems with a space between them.

    ``vocabulary`` grows by the tokens that are new.
    """
    for chunk, words in zip(chunks, numbers, strict=True):
        tokens, sizes = [], []
        for part in np.split(words, np.cumsum(chunk.sizes)[:-1]):
            found = _listed(function(" ".join(stems[word] for word in part if stems[word])))
            tokens += [vocabulary.setdefault(token, len(vocabulary)) for token in found]
            sizes.append(len(found))
        yield np.array(tokens, np.int64), np.array(sizes, np.int64)


def _listed(tokens: Any) -> list[str]:
    """The answer of a user's function; a string would be taken for its letters, a dictionary for its keys."""
    if isinstance(tokens, Iterable) and not isinstance(tokens, (str, Mapping)):
        found = list(tokens)
        if all(isinstance(token, str) for token in found):
            return found
    raise ValueError(f"tokenizer must give the tokens of a text as a list of strings, got {tokens!r:.60}")


def count(
    spelled: Iterable[Spelled],
    labels: np.ndarray,
    vocabulary: Iterable[str],
    *,
    least: int,
    most: int | None,
) -> Counted:
    """Count tokens, leaving out those after the first ``most`` of a review and then the rare ones.

    The cut comes first, as a part of tokenising: a model that takes so many tokens takes the first ones of
    the text, and a token is rare or not in what is left to learn from. ``vocabulary`` may grow while the
    tokens are read.
    """
    everything, cut, sizes, slots = 0, 0, [], []
    for tokens, lengths in spelled:
        everything += len(tokens)
        review = np.repeat(np.arange(len(lengths)), lengths)
        if most is not None:
            first = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths) < most
            tokens, review = tokens[first], review[first]
            cut += len(first) - len(tokens)
        width = int(tokens.max(initial=0)) + 1
        places, counts = np.unique(review * width + tokens, return_counts=True)
        sizes.append(np.bincount(places // width, minlength=len(lengths)))
        slots.append((places % width, counts))
    words = list(vocabulary)
    tokens, counts = (np.concatenate(each) for each in zip(*slots, strict=True))
    total = np.bincount(tokens, weights=counts, minlength=len(words)).astype(np.int64)
    if not total.any():
        raise ValueError(f"no token is left in {len(labels):,} reviews: their texts are blank, or stop words")
    common = total >= least
    if not common.any():
        raise ValueError(
            f"least: no token occurs at least {least} times among {int(total.sum()):,}, the most frequent "
            f"occurs {int(total.max(initial=0))} times; lower least or read more reviews"
        )
    kept_slots = common[tokens]
    review = np.repeat(np.arange(len(labels)), np.concatenate(sizes))[kept_slots]
    left, lengths = np.unique(review, return_counts=True)
    renumbered = (np.cumsum(common) - 1)[tokens[kept_slots]]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    S = int(common.sum())
    matrix = csr_array((counts[kept_slots], renumbered, offsets), shape=(len(left), S))
    names = [word for word, often in zip(words, common, strict=True) if often]
    return Counted(
        Corpus.from_counts(matrix, labels[left], names),
        left,
        everything,
        cut,
        int(total[~common].sum()),
        int((total > 0).sum()),
    )
