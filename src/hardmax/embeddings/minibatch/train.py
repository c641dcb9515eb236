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
from hardmax.embeddings.minibatch.result import EmbeddingTraining
from hardmax.embeddings.minibatch.step import OneLayerModel
from hardmax.embeddings.one_layer import evaluate, read_vectors
from hardmax.train.schedule import need_step
from hardmax.train.steps import GD, SGD, AdamW, Step
from hardmax.train.steps.base import settings


def train_embeddings(
    corpus: Corpus,
    d: int,
    step: Step,
    *,
    epochs: int,
    batch: int = 128,
    milestones: Sequence[int] = (100, 200),
    rng: int | np.random.Generator,
    start: tuple[Any, Any, Any] | None = None,
    dtype: str = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    until_loss: float = 0.0,
    workers: int | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> EmbeddingTraining:
    """Train E, p and v of the one-layer model by mini-batches.

    Args:
        corpus: the labelled sequences, shuffled anew in each epoch; the last batch may be smaller.
        d: the dimension of the embeddings.
        step: `hm.steps.AdamW`, `SGD` or `GD`, with a number as rate.
        epochs: how many times through the corpus.
        batch: sequences in a step.
        milestones: epochs from which on the rate is a tenth of what it was.
        rng: an int or a Generator, for the start and the order of the sequences.
        start: (E, p, v); drawn as A-DEF-4 says by default.
        dtype: "float32" or "float64" for the parameters; softmax and loss are always in float64.
        checkpoint: a file where the training is saved every ``checkpoint_every`` epochs and at the end, and
            from which it goes on if the file exists, to the same bits, also to more epochs than before.
        checkpoint_every: epochs between two of these.
        until_loss: stop once the mean loss of an epoch, over the batches as they were met, is at most this.
        workers: how many threads; all cores by default. Their number does not change the result.
        progress: called with the number of epochs done and that mean.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.minibatch import train_embeddings
    >>> model = hm.embeddings.KLevel.surrogate()
    >>> step = hm.steps.AdamW(1e-2)
    >>> trained = train_embeddings(model.draw(512, rng=0), 64, step, epochs=30, batch=64, rng=0)
    >>> trained.loss < 1e-2, trained.r_v > 0.9, trained.sign_accuracy() > 0.95
    (True, True, True)
    """
    d, kind = expect.whole("d", d, 1), expect.one_of("dtype", dtype, ("float32", "float64"))
    rule = trainable(step, kind)
    workers = cores() if workers is None else expect.whole("workers", workers, 1)

    rng = expect.generator(rng)
    vectors = starting_vectors(corpus, d, start, rng)
    plan = Plan.read(
        rate=expect.positive("rate", rule.rate),
        milestones=milestones,
        epochs=epochs,
        batch=batch,
        until_loss=until_loss,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        rng=rng,
    )
    identity = {"model": "one layer", **settings(rule), "dtype": kind, "start": digest(*vectors)}
    with OneLayerModel(*vectors, rule, kind, workers) as model:
        done = run(model, corpus, plan, identity, progress)
    end, (p, v) = done.snapshots[-1], model.vectors
    return done.training((model.E, p, v), evaluate(corpus, end.a, end.c).loss, step, plan.batch)


# A second moment below the normal numbers is taken for zero: its root, corrected, must not be
# seen beside epsilon.
LEAST_EPSILON = {"float32": 1e-12, "float64": 1e-140}


def trainable(step: Step, kind: str) -> AdamW | SGD:
    """The rule as the trainer's kernels know it: gradient descent is SGD without momentum."""
    need_step(step)
    rule = SGD(step.rate) if isinstance(step, GD) and step.norm == "l2" else step
    if not isinstance(rule, AdamW | SGD):
        raise ValueError(
            f"step must be AdamW, SGD or GD of hm.steps where batches are taken, got {type(step).__name__}"
        )
    if step.decay:
        raise ValueError(f"decay must be 0 for training by mini-batches, got {step.decay:g}; give milestones")
    if isinstance(rule.rate, str) or np.ndim(rule.rate):
        raise ValueError(f"rate must be one number for training by mini-batches, got {rule.rate!r:.40}")
    if isinstance(rule, AdamW) and rule.epsilon < LEAST_EPSILON[kind]:
        raise ValueError(
            f"epsilon must be at least {LEAST_EPSILON[kind]:g} for training by mini-batches in {kind}, got "
            f"{rule.epsilon:g}: the trainer takes roots far below for zero, and 0/0 has no value"
        )
    return rule


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
