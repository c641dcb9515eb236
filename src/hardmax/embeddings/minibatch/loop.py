"""The loop over epochs that all models share: batches, schedule, early stopping, snapshots, checkpoints.

Every epoch has a new order of mini-batches, and the rate falls at milestones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib.progress import Progress
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics import checkpoint as files
from hardmax.dynamics.blocks import epoch_order
from hardmax.dynamics.driver import FACTOR, LOSS_REACHED
from hardmax.embeddings.minibatch.result import EmbeddingTraining, TokenObservables, mean_by_epoch
from hardmax.embeddings.one_layer import take
from hardmax.embeddings.two_layer import two_layers


def epoch_batches(corpus: Corpus, batch: int, seed: int, epoch: int) -> Iterator[Corpus]:
    """The batches of an epoch, each a corpus over the same vocabulary."""
    order = epoch_order(corpus.n, seed, epoch)
    for first in range(0, corpus.n, batch):
        yield take(corpus, order[first : first + batch])


def rate_at(rate: float, milestones: Sequence[int], epoch: int) -> float:
    """Learning rate of an epoch, counted from 0; a milestone m acts from the epoch m on."""
    for milestone in milestones:
        if epoch >= milestone:
            rate *= FACTOR
    return rate


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to train, and where to keep the work."""

    rate: float  # of the first epochs
    milestones: Sequence[int]
    epochs: int
    batch: int
    until_loss: float
    seed: int  # of the shuffles
    checkpoint: Path | None
    checkpoint_every: int


DIVERGED = "diverged"  # how the event of a training that broke begins


class Epochs(NamedTuple):
    """What a loop leaves in addition to the model."""

    losses: np.ndarray  # (steps,)
    snapshots: tuple[TokenObservables, ...]
    event: str | None

    def training(
        self,
        model: tuple[Any, Any, Any],
        loss: float,
        mass: float,
        method: str,
        batch: int,
        layers: int = 1,
        **scales: float,
    ) -> EmbeddingTraining:
        """The run, with E, p and v of the trained model."""
        end, (E, p, v) = self.snapshots[-1], model
        return EmbeddingTraining(
            end.corpus,
            end.epochs,
            end.a,
            end.c,
            source=two_layers if layers == 2 else partial(end.corpus.problem, E, v, **scales),
            clock="step",
            times=np.arange(1, len(self.losses) + 1),
            points=None,
            event=self.event,
            method=method,
            observed={"losses": self.losses},
            end=p,
            E=E,
            v=v,
            loss=loss,
            mass=mass,
            snapshots=self.snapshots,
            batch=batch,
            layers=layers,
            **scales,
        )


def run(
    model: Any, corpus: Corpus, plan: TrainingPlan, identity: dict[str, Any], progress: Progress | None
) -> Epochs:
    """Train, from the checkpoint if there is one, which must be of the training with this ``identity``.

    The model has the methods of `OneLayerModel`: ``step``, ``observe``, ``arrays`` and ``restore``.
    """
    same = {
        **identity,
        "rate": None if math.isnan(plan.rate) else plan.rate,
        "batch": plan.batch,
        "milestones": list(plan.milestones),
        "seed": plan.seed,
        "corpus": files.digest(corpus.tokens, corpus.counts, corpus.offsets, corpus.labels),
    }
    losses: list[float] = []
    snapshots: list[TokenObservables] = []
    path, steps = plan.checkpoint, -(-corpus.n // plan.batch)
    if path is not None and path.exists():
        kinds = {
            "losses": np.empty(0),
            "snapshot_epochs": np.empty(0, dtype=np.int64),
            "snapshots": np.empty((0, 2, corpus.S)),
        }
        contents = files.load(path, same, {**model.arrays(), **kinds})
        model.restore(contents)
        losses = contents["losses"].tolist()
        if len(contents["snapshots"]) != len(contents["snapshot_epochs"]) or len(losses) % steps:
            raise ValueError(
                f"checkpoint must be whole, {path} is not; name another file, or remove this one"
            )
        marks = zip(contents["snapshot_epochs"].tolist(), contents["snapshots"], strict=True)
        snapshots = [TokenObservables(corpus, epoch, a, c) for epoch, (a, c) in marks]
    epoch = len(losses) // steps
    mean = float(mean_by_epoch(np.array(losses[-steps:]), corpus.n, plan.batch)[0]) if losses else np.inf
    if not snapshots:
        snapshots.append(TokenObservables(corpus, 0, *model.observe()))
    if path is not None and epoch < plan.epochs and mean > plan.until_loss:
        files.check_folder(path)
    event = None
    while epoch < plan.epochs and mean > plan.until_loss:
        rate = rate_at(plan.rate, plan.milestones, epoch)
        for part in epoch_batches(corpus, plan.batch, plan.seed, epoch):
            losses.append(model.step(part, rate))
            if not math.isfinite(losses[-1]):
                break
        a, c = model.observe()
        if not (math.isfinite(losses[-1]) and np.isfinite(a).all() and np.isfinite(c).all()):
            # No snapshot and no checkpoint is made: both keep their earlier state.
            rate_text = "" if math.isnan(plan.rate) else f" ({plan.rate:g})"
            event = f"{DIVERGED} in epoch {epoch + 1}: lower the rate{rate_text}"
            break
        epoch += 1
        mean = float(mean_by_epoch(np.array(losses[-steps:]), corpus.n, plan.batch)[0])
        last = epoch == plan.epochs or mean <= plan.until_loss
        if last or _recorded(epoch):
            snapshots.append(TokenObservables(corpus, epoch, a, c))
        if path is not None and (last or epoch % plan.checkpoint_every == 0):
            # An end that is not recorded stays out of the file: a longer training has no such snapshot.
            lasting = [snapshot for snapshot in snapshots if _recorded(snapshot.epochs)]
            arrays = {
                "losses": np.array(losses),
                "snapshot_epochs": np.array([snapshot.epochs for snapshot in lasting]),
                "snapshots": np.array([(snapshot.a, snapshot.c) for snapshot in lasting]),
            }
            files.save(path, {**model.arrays(), **arrays}, same)
        if progress is not None:
            progress(epoch, plan.epochs)
    if event is None and snapshots[-1].epochs != epoch:
        snapshots.append(TokenObservables(corpus, epoch, *model.observe()))
    if event is None and mean <= plan.until_loss:
        event = LOSS_REACHED
    return Epochs(np.array(losses), tuple(snapshots), event)


def _recorded(epoch: int) -> bool:
    """0, 1, 2, 5, 10, 20, 50, ..."""
    return str(epoch).rstrip("0") in ("", "1", "2", "5")
