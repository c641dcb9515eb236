"""The verb: train all parameters of the one-layer model by mini-batches (A-TRAIN-1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.parallel import cores
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.minibatch.checkpoint import digest
from hardmax.embeddings.minibatch.loop import Plan, run
from hardmax.embeddings.minibatch.optimisers import SGD, AdamW
from hardmax.embeddings.minibatch.result import EmbeddingTraining
from hardmax.embeddings.minibatch.step import OneLayerModel
from hardmax.embeddings.one_layer import evaluate, read_vectors


def train_embeddings(
    corpus: Corpus,
    d: int,
    *,
    optimiser: str = "adamw",
    rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    epochs: int,
    batch: int = 128,
    milestones: Sequence[int] = (100, 200),
    rng: int | np.random.Generator,
    start: tuple[Any, Any, Any] | None = None,
    dtype: str = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    until_loss: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> EmbeddingTraining:
    """Train E, p and v with "adamw" or "sgd" (``momentum``); the rate falls tenfold at each milestone.

    Parameters start as A-DEF-4 says, or at ``start`` = (E, p, v). Sequences are shuffled anew in each epoch,
    and the last batch may be smaller. Training stops early once the mean loss of an epoch, over the batches
    as they were met, is at most ``until_loss``. ``progress`` is called with the number of epochs done and
    that mean.

    With ``checkpoint`` the training is saved there every ``checkpoint_every`` epochs and at the end, and
    continued from there if the file exists, to the same bits. More ``epochs`` than before go on from the end.
    The number of threads (all cores by default) does not change the result.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.minibatch import train_embeddings
    >>> model = hm.embeddings.KLevel.surrogate()
    >>> trained = train_embeddings(model.draw(512, rng=0), 64, rate=1e-2, epochs=30, batch=64, rng=0)
    >>> trained.loss < 1e-2, trained.r_v > 0.9, trained.sign_accuracy() > 0.95
    (True, True, True)
    """
    d, kind = expect.whole("d", d, 1), expect.one_of("dtype", dtype, ("float32", "float64"))
    decay, mass = expect.nonnegative("weight_decay", weight_decay), expect.nonnegative("momentum", momentum)
    rule: AdamW | SGD
    if expect.one_of("optimiser", optimiser, ("adamw", "sgd")) == "sgd":
        rule = SGD(decay, mass)
    elif mass:
        raise ValueError(f'momentum must be 0 for "adamw", got {momentum}; AdamW has its own moments')
    else:
        rule = AdamW(decay)
    threads = cores() if threads is None else expect.whole("threads", threads, 1)

    rng = expect.generator(rng)
    vectors = starting_vectors(corpus, d, start, rng)
    plan = Plan.read(
        rate=rate, milestones=milestones, epochs=epochs, batch=batch, until_loss=until_loss,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every, rng=rng,
    )  # fmt: skip
    identity = {"model": "one layer", **rule.settings(), "dtype": kind, "start": digest(*vectors)}
    with OneLayerModel(*vectors, rule, kind, threads) as model:
        done = run(model, corpus, plan, identity, progress)
    end, (p, v) = done.end, model.vectors
    return EmbeddingTraining(
        corpus, end.epochs, end.a, end.c, model.E, p, v,
        evaluate(corpus, end.a, end.c).loss, done.losses, done.snapshots, plan.batch, done.stopped,
    )  # fmt: skip


def starting_vectors(
    corpus: Corpus, d: int, start: tuple[Any, Any, Any] | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E, p and v as A-DEF-4 draws them, or as they are given."""
    if not isinstance(corpus, Corpus):
        raise ValueError(f"corpus must be a Corpus, got {type(corpus).__name__}; a TextCorpus has a .corpus")
    if start is None:
        return initial_vectors(corpus.S, d, rng=rng)
    try:
        E, p, v = start
    except (TypeError, ValueError):
        raise ValueError(f"start must be three arrays (E, p, v), got {start!r:.40}") from None
    E, p, v = read_vectors(corpus, E, p, v)
    if E.shape[1] != d:
        raise ValueError(f"start must hold vectors of d = {d} numbers, got {E.shape[1]}")
    return E, p, v
