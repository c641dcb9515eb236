"""The verb: train all parameters of the one-layer model by mini-batches (A-TRAIN-1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax import _inputs
from hardmax._parallel import cores
from hardmax.embeddings.corpus import Corpus
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.one_layer import read_vectors
from hardmax.embeddings.trainer import checkpoint as files
from hardmax.embeddings.trainer.batches import epoch_batches
from hardmax.embeddings.trainer.optimisers import SGD, AdamW
from hardmax.embeddings.trainer.result import EmbeddingTraining, mean_by_epoch
from hardmax.embeddings.trainer.schedule import rate_at
from hardmax.embeddings.trainer.step import State, Stepper


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
    >>> from hardmax.embeddings.trainer import train_embeddings
    >>> model = hm.embeddings.KLevel.surrogate()
    >>> trained = train_embeddings(model.draw(512, rng=0), 64, rate=1e-2, epochs=30, batch=64, rng=0)
    >>> trained.loss < 1e-2, trained.r_v > 0.9, trained.sign_accuracy() > 0.95
    (True, True, True)
    """
    d, kind = _inputs.whole("d", d, 1), _chosen("dtype", dtype, ("float32", "float64"))
    decay, mass = _nonnegative("weight_decay", weight_decay), _nonnegative("momentum", momentum)
    rule: AdamW | SGD
    if _chosen("optimiser", optimiser, ("adamw", "sgd")) == "sgd":
        rule = SGD(decay, mass)
    elif mass:
        raise ValueError(f'momentum must be 0 for "adamw", got {momentum}; AdamW has its own moments')
    else:
        rule = AdamW(decay)
    rate, until = _inputs.positive("rate", rate), _nonnegative("until_loss", until_loss)
    epochs, batch = _inputs.whole("epochs", epochs), _inputs.whole("batch", batch, 1)
    every = _inputs.whole("checkpoint_every", checkpoint_every, 1)
    stages = [_inputs.whole("milestones", m) for m in milestones]
    threads = cores() if threads is None else _inputs.whole("threads", threads, 1)

    begun = _begin(corpus, d, start, rule, kind, rng)
    E, vectors = begun.state.E, begun.state.vectors
    settings = {**rule.settings(), "rate": rate, "batch": batch, "milestones": stages, "dtype": kind}
    parts = corpus.tokens, corpus.counts, corpus.offsets, corpus.labels
    settings |= {"seed": begun.seed, "corpus": files.digest(*parts), "start": files.digest(E, vectors)}
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        begun = files.load(path, settings)
    state, losses = begun.state, begun.losses
    steps = -(-corpus.n // batch)
    epoch = len(losses) // steps
    stopped = bool(losses) and mean_by_epoch(np.array(losses[-steps:]), corpus.n, batch)[0] <= until
    with Stepper(state, rule, threads) as stepper:
        while epoch < epochs and not stopped:
            now = rate_at(rate, stages, epoch)
            for part in epoch_batches(corpus, batch, begun.seed, epoch):
                losses.append(stepper.step(part, now))
                if not np.isfinite(state.a.sum() + state.c.sum()):
                    raise FloatingPointError(f"training diverged in epoch {epoch + 1}: lower rate ({rate:g})")
            epoch += 1
            mean = float(mean_by_epoch(np.array(losses[-steps:]), corpus.n, batch)[0])
            stopped = mean <= until
            if path is not None and (epoch % every == 0 or epoch == epochs or stopped):
                files.save(path, begun, settings)
            if progress is not None:
                progress(epoch, mean)
    p, v = state.vectors
    numbers = state.a.astype(float), state.c.astype(float), np.array(losses)
    return EmbeddingTraining(corpus, state.E, p, v, *numbers, batch, "loss" if stopped else "epochs")


def _begin(
    corpus: Corpus,
    d: int,
    start: tuple[Any, Any, Any] | None,
    rule: AdamW | SGD,
    kind: str,
    rng: int | np.random.Generator,
) -> files.Progress:
    """Initial parameters and the seed of the shuffles, both from ``rng``."""
    rng = _inputs.generator(rng)
    if start is None:
        E, p, v = initial_vectors(corpus.S, d, rng=rng)
    else:
        E, p, v = read_vectors(corpus, *start)
        if E.shape[1] != d:
            raise ValueError(f"start must hold vectors of d = {d} numbers, got {E.shape[1]}")
    return files.Progress(State.start(E, p, v, rule, kind), int(rng.integers(2**63)), [])


def _chosen(name: str, x: str, known: tuple[str, ...]) -> str:
    if x not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {x!r}")
    return x


def _nonnegative(name: str, x: float) -> float:
    if not 0.0 <= x < np.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {x!r}")
    return float(x)
