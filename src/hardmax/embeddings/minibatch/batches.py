"""Mini-batches, a new order for every epoch, and the rate that falls at milestones (A-TRAIN-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numba import intp, njit, types

from hardmax._lib.compiled import INDEX
from hardmax.data.corpora.corpus import Corpus

_COUNTS = types.Array(types.int64, 1, "C", readonly=True)


def epoch_order(n: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the n sequences in an epoch; it depends on nothing else, so a resumed run sees the same.

    >>> from hardmax.embeddings.minibatch import epoch_order
    >>> sorted(epoch_order(4, seed=0, epoch=7).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng([seed, epoch]).permutation(n)


def epoch_batches(corpus: Corpus, batch: int, seed: int, epoch: int) -> Iterator[Corpus]:
    """The batches of an epoch, each a corpus over the same vocabulary."""
    order = epoch_order(corpus.n, seed, epoch)
    for first in range(0, corpus.n, batch):
        yield take(corpus, order[first : first + batch])


def take(corpus: Corpus, chosen: np.ndarray) -> Corpus:
    """The chosen sequences, in that order."""
    sizes = corpus.offsets[chosen + 1] - corpus.offsets[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    tokens, counts = np.empty(offsets[-1], np.intp), np.empty(offsets[-1], np.int64)
    _gather(corpus.tokens, corpus.counts, corpus.offsets, chosen.astype(np.intp), offsets, tokens, counts)
    return Corpus(tokens, counts, offsets, corpus.labels[chosen], corpus.S, corpus.vocabulary, corpus.written)


@njit(
    types.void(INDEX, _COUNTS, INDEX, INDEX, INDEX, intp[::1], types.int64[::1]), cache=True, nogil=True
)  # fmt: skip
def _gather(tokens, counts, offsets, chosen, places, out_tokens, out_counts):  # type: ignore[no-untyped-def]
    for k in range(chosen.size):
        shift = offsets[chosen[k]] - places[k]
        for slot in range(places[k], places[k + 1]):
            out_tokens[slot] = tokens[slot + shift]
            out_counts[slot] = counts[slot + shift]


FACTOR = 0.1


def rate_at(rate: float, milestones: Sequence[int], epoch: int) -> float:
    """Learning rate of an epoch, counted from 0; a milestone m acts from the epoch m on.

    >>> from hardmax.embeddings.minibatch import rate_at
    >>> [round(rate_at(0.01, (100, 200), epoch), 6) for epoch in (99, 100, 200)]
    [0.01, 0.001, 0.0001]
    """
    for milestone in milestones:
        if epoch >= milestone:
            rate *= FACTOR
    return rate
