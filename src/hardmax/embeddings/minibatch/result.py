"""A trained model of paper A: its parameters, its loss curve, and its observables now and on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.embeddings.minibatch.observables import Observables, Verdict, verdicts


@dataclass(frozen=True, eq=False)
class EmbeddingTraining(Observables):
    """The end of a training: parameters, observables, and the loss of every step.

    ``stopped`` is "epochs" or "loss" (the mean loss of an epoch fell to ``until_loss``). ``snapshots`` are
    the observables after 0, 1, 2, 5, 10, 20, 50, ... epochs and at the end.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
    >>> trained = hm.embeddings.train_embeddings(corpus, 8, rate=0.1, epochs=20, batch=4, rng=0)
    >>> [corpus.word(s) for s in trained.c.argsort()], trained.epochs, trained.stopped
    (['bad', 'film', 'good'], 20, 'epochs')
    """

    E: np.ndarray  # (S, d)
    p: np.ndarray  # (d,)
    v: np.ndarray  # (d,)
    loss: float  # of the trained model on the whole corpus
    losses: np.ndarray  # (steps,) mean loss of each batch, before its step
    snapshots: tuple[Observables, ...]
    batch: int
    stopped: str
    layers: int = 1

    def predict(self, sequences: Iterable[Any]) -> list[Verdict]:
        """What the model says of new sequences, words or token numbers; unknown words are passed over.

        Texts that went through `text_corpus` are asked about by their tokens: ``trained.predict(
        made.tokens(["A new review."]))``.

        >>> import hardmax as hm
        >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
        >>> trained = hm.embeddings.train_embeddings(corpus, 8, rate=0.1, epochs=20, batch=4, rng=0)
        >>> [(each.label, each.word) for each in trained.predict(["a good book", "bad bad film", "so so"])]
        [(1, 'good'), (-1, 'bad'), (None, None)]
        """
        if self.layers != 1:
            raise ValueError("predict is that of the one-layer model; for two layers use TwoLayer on E, p, v")
        if isinstance(sequences, str):
            sequences = [sequences]
        return list(verdicts(self.corpus, self.a, self.c, sequences))

    @cached_property
    def epoch_losses(self) -> np.ndarray:
        """Loss curve: mean over the sequences of each epoch, as they were met."""
        return mean_by_epoch(self.losses, self.corpus.n, self.batch)


def mean_by_epoch(losses: np.ndarray, n: int, batch: int) -> np.ndarray:
    """Batch losses averaged over each epoch's n sequences; the last batch of an epoch may be smaller."""
    first = np.arange(0, n, batch)
    share = np.minimum(batch, n - first) / n
    return np.asarray(losses).reshape(-1, len(first)) @ share
