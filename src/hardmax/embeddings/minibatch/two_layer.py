"""The verb: train the two-layer model by mini-batches (A-DEF-5, A-TRAIN-1), with the extra ``torch``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.parallel import cores
from hardmax._lib.progress import Progress
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.optim import AdamW, Optimizer
from hardmax.dynamics.optim.base import settings
from hardmax.embeddings.minibatch.checkpoint import digest
from hardmax.embeddings.minibatch.loop import TrainingPlan, run
from hardmax.embeddings.minibatch.result import EmbeddingTraining
from hardmax.embeddings.minibatch.train import starting_vectors, trainable


@check_arguments
def train_two_layer(
    corpus: Corpus,
    d: int,
    step: Optimizer,
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
    progress: Progress | None = None,
    scale: Scale = None,
    first_scale: Scale = None,
) -> EmbeddingTraining:
    """Train E, p and v of the two-layer model by mini-batches; ``step`` must be `hm.optim.AdamW`.

    Arguments and result are those of `train_embeddings`; the loss is the two-layer model's, and a = E p,
    c = E v are those of the embeddings as they are, below the first layer. LayerNorm has no gain and no bias.
    ``scale`` is the factor before the logits of the readout, ``first_scale`` that of the first softmax; both
    are 1 by default, as printed.

    With ``checkpoint`` the training is saved every ``checkpoint_every`` epochs and at the end, and continued
    from there if the file exists, to the same bits on the same machine. The number of threads (all cores by
    default) does not change the result; another processor or another version of PyTorch or numpy may round
    its matrix products differently.

    >>> import hardmax as hm
    >>> corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=0)
    >>> step = hm.optim.AdamW(2e-2)
    >>> trained = hm.embeddings.minibatch.train_two_layer(corpus, 16, step, epochs=15, batch=16, rng=0)
    >>> trained.loss < 1e-2, trained.r_v > 0.5
    (True, True)
    """
    d, kind = expect.whole("d", d, 1), expect.one_of("dtype", dtype, ("float32", "float64"))
    rule = trainable(step, kind)
    if not isinstance(rule, AdamW):
        raise ValueError(f"step must be hm.optim.AdamW for the two-layer model, got {type(step).__name__}")
    workers = cores() if workers is None else expect.whole("workers", workers, 1)
    factor, first_factor = read_scale("scale", scale, d), read_scale("first_scale", first_scale, d)
    try:
        from hardmax.embeddings.minibatch.two_layer_step import TwoLayerModel
    except ImportError as missing:
        raise ImportError(
            f"the two-layer model is trained with PyTorch ({missing}): {install('torch')}"
        ) from missing

    rng = expect.generator(rng)
    vectors = starting_vectors(corpus, d, start, rng)
    plan = TrainingPlan.read(
        rate=expect.positive("rate", rule.lr),
        milestones=milestones,
        epochs=epochs,
        batch=batch,
        until_loss=until_loss,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        rng=rng,
    )
    identity = {
        "model": "two layers",
        **settings(rule),
        "dtype": kind,
        "start": digest(*vectors),
        "scale": factor,
        "first_scale": first_factor,
    }
    with TwoLayerModel(*vectors, rule, kind, workers, factor, first_factor) as model:
        done = run(model, corpus, plan, identity, progress)
        loss, mass = model.measured(corpus)
    W, scales = model.arrays()["W"], {"scale": factor, "first_scale": first_factor}
    return done.training((W[:-2], W[-2], W[-1]), loss, mass, rule, plan.batch, layers=2, **scales)
