"""A trained model of paper A: its parameters, its loss curve, and its observables now and on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.embeddings.minibatch.observables import Observables, Verdict, verdicts
from hardmax.problem import Problem
from hardmax.train.run import Run


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingTraining(Run, Observables):
    """A training by mini-batches: its parameters and observables at the end, and the loss of every step.

    ``losses`` holds the mean loss of the batch of each step, before it; ``event`` is "loss reached" where the
    mean of an epoch fell to ``until_loss``, and begins with "diverged" where E, p or v became infinite: the
    observables are then those of the last snapshot before that. ``snapshots`` are the observables after 0, 1,
    2, 5, 10, 20, 50, ... epochs and at the end; no vectors are kept on the way, so ``points`` is None.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
    >>> trained = hm.embeddings.train_embeddings(corpus, 8, hm.steps.AdamW(0.1), epochs=20, batch=4, rng=0)
    >>> [corpus.word(s) for s in trained.c.argsort()], trained.epochs, trained.event
    (['bad', 'film', 'good'], 20, None)
    """

    E: np.ndarray = field(kw_only=True)  # (S, d)
    v: np.ndarray = field(kw_only=True)  # (d,)
    loss: float = field(kw_only=True)  # of the trained model on the whole corpus
    snapshots: tuple[Observables, ...] = field(kw_only=True)
    batch: int = field(kw_only=True)
    layers: int = field(kw_only=True, default=1)

    def predict(self, sequences: Iterable[Any]) -> list[Verdict]:
        """What the model says of new sequences, words or token numbers; unknown words are passed over.

        Texts that went through `text_corpus` are asked about by their tokens: ``trained.predict(
        made.tokens(["A new review."]))``.

        >>> import hardmax as hm
        >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
        >>> step = hm.steps.AdamW(0.1)
        >>> trained = hm.embeddings.train_embeddings(corpus, 8, step, epochs=20, batch=4, rng=0)
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


def two_layers() -> Problem:
    """Where a run of the two-layer model is asked for its problem."""
    raise ValueError("a two-layer model is no Problem: its keys move with the first layer; use TwoLayer")


def mean_by_epoch(losses: np.ndarray, n: int, batch: int) -> np.ndarray:
    """Batch losses averaged over each epoch's n sequences; the last batch of an epoch may be smaller."""
    first = np.arange(0, n, batch)
    share = np.minimum(batch, n - first) / n
    whole = len(losses) // len(first) * len(first)  # a training that diverged ends within an epoch
    return np.asarray(losses)[:whole].reshape(-1, len(first)) @ share
