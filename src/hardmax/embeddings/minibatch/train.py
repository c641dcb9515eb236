"""Training of E, p and v by mini-batches: the compiled model, the plain one, and the loop over epochs.

Every epoch has a new order of mini-batches, and the rate falls at milestones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.parallel import cores
from hardmax._lib.progress import Progress
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics import checkpoint as files
from hardmax.dynamics.blocks import StepOptions, epoch_order
from hardmax.dynamics.driver import FACTOR, LOSS_REACHED, read_milestones
from hardmax.dynamics.optim import GD, SGD, Adam, AdamW, Optimizer
from hardmax.dynamics.optim.rules import settings
from hardmax.embeddings import one_layer
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.minibatch.kernels import REST, TILE, advance_tile, extend_rests, finish_tile
from hardmax.embeddings.minibatch.result import EmbeddingTraining, TokenObservables, mean_by_epoch
from hardmax.embeddings.two_layer import TwoLayerNetwork, two_layers

REMEMBERED = 128  # steps whose p, v and scalars are kept; then all rows are brought up to date
NARROW = 128  # columns of a tile at least, where there are this many
PAGE = 2**12  # bytes
Vectors = tuple[np.ndarray, np.ndarray, np.ndarray]  # E, p and v


class OneLayerModel:
    """E, p and v with their moments, in tiles of columns; threads change them in place, each its own tiles.

    A tile of E is contiguous: kernels that took a range of columns of a matrix were measured to take 1.2 to
    1.4 times as long. p and v of a tile are rows of TILE numbers, a distance that is known when the kernels
    are compiled.
    """

    def __init__(
        self,
        E: np.ndarray,
        p: np.ndarray,
        v: np.ndarray,
        rule: AdamW | SGD,
        kind: str,
        workers: int,
        scale: float = 1.0,
    ) -> None:
        S, d = E.shape
        self._scale = scale
        self._width = min(d, TILE, max(NARROW, 16 * math.ceil(d / 32)))
        self._sizes = [min(self._width, d - low) for low in range(0, d, self._width)]
        tiles = len(self._sizes)
        self.steps, self.rule, self._adaptive = 0, rule, isinstance(rule, AdamW)
        of_E, of_vectors = (tiles, S, self._width), (tiles, 2, TILE)
        shapes = {"E": of_E, "E_first": of_E, "E_second": of_E}
        shapes |= {"vectors": of_vectors, "first": of_vectors, "second": of_vectors}
        if not self._adaptive:
            shapes |= {"E_second": (tiles, S, 0), "second": (tiles, 2, 0)}
        self._arrays = {name: _zeros(shape, kind) for name, shape in shapes.items()}
        # Steps are counted from the last time that all rows were up to date.
        self._now, self._pending, self._done = 0, False, np.zeros(S, np.intp)
        self._pv_at = _zeros((tiles, REMEMBERED, 2 * TILE), kind)
        self._k_at = np.zeros((REMEMBERED, rule.scalars(1, 0.0).size))
        self._rests = np.zeros((REMEMBERED, REST))
        self._low_k_at, self._low_rests = self._k_at.astype(kind), self._rests.astype(kind)  # for the kernels
        self._A, self._C = np.zeros(S, kind), np.zeros(S, kind)
        self._moving = np.empty(0, np.intp)  # rows with a gradient in the pending step
        self._parts = np.empty((tiles, 2, S), kind)
        self._workers = min(workers, tiles)
        self._pool = ThreadPoolExecutor(self._workers - 1) if self._workers > 1 else None
        self._others: list[Future[None]] = []  # tasks of other threads: after a step, the end of it
        self._cut = False
        self._put("E", E)
        self._put("vectors", np.array([p, v]))

    def __enter__(self) -> OneLayerModel:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def vectors(self) -> np.ndarray:
        """p and v as rows, as `observe` left them."""
        return self._rows("vectors")

    @property
    def parameters(self) -> Vectors:
        """E, p and v."""
        p, v = self.vectors
        return self._rows("E"), p, v

    def measured(self, corpus: Corpus) -> tuple[float, float]:
        """Mean over a corpus of the loss, and of the largest share of attention that a token has."""
        return one_layer.measures(corpus, *self.observe(), self._scale)

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it, nan where the parameters overflowed.

        The gradients of p and v are left to the next step, or to `observe`. Other threads begin with their
        part at once.
        """
        with self._whole():
            if self._now == REMEMBERED:
                self._catch_up()
            rows, tokens = renumbered(batch.tokens, batch.S)
            a, c = self._advance(rows)
            if not (np.isfinite(a).all() and np.isfinite(c).all()):
                return math.nan
            renamed = replace(batch, tokens=tokens, S=rows.size, vocabulary=None, written=None)
            point = one_layer.evaluate(renamed, a, c, self._scale)
            gradients = np.array([point.A, point.C], self._A.dtype)
            gradients[np.abs(gradients) < np.finfo(gradients.dtype).tiny] = 0  # arithmetic with these is slow
            self._A[rows], self._C[rows] = gradients
            self._moving = rows[gradients.any(axis=0)]
            self.steps += 1
            self._low_k_at[self._now] = self._k_at[self._now] = self.rule.scalars(self.steps, rate)
            if self._adaptive:
                extend_rests(self._k_at, self._now, self._rests)
                self._low_rests[: self._now + 1] = self._rests[: self._now + 1]
            self._now += 1
            self._pending = True
            self._give(self._finish)
            return point.loss

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a and c of all tokens."""
        with self._whole():
            a, c = self._catch_up()
        return a.astype(float), c.astype(float)

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the number of steps; `observe` comes first. Moments not used are empty."""
        return {**{name: self._rows(name) for name in self._arrays}, "steps": np.array(self.steps)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `arrays` returned, also after a step that was cut short."""
        self._cut = True  # until all is restored
        wait(self._others)  # whether they failed or not
        self._others = []
        for name in self._arrays:
            self._put(name, arrays[name])
        self.steps, self._pending = int(arrays["steps"]), False
        self._count_from_here()
        self._cut = False

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Refuse a model whose last step was cut short."""
        # An interrupt, or an error in any thread, leaves some tiles a step ahead of others. They cannot be
        # identified: the next step would skip a step there or take it twice.
        if self._cut:
            raise RuntimeError("a step was cut short by an error or an interrupt; `restore` the model first")
        self._cut = True
        yield
        self._cut = False

    def _give(self, task: Callable[[int], None]) -> None:
        """Let each other thread begin with a task."""
        if self._pool is not None:
            for thread in range(1, self._workers):  # noted one by one: `restore` waits for all that began
                self._others.append(self._pool.submit(task, thread))

    def _put(self, name: str, rows: np.ndarray) -> None:
        """Cut rows into tiles."""
        for t, tile in enumerate(self._arrays[name]):
            part = rows[:, t * self._width : (t + 1) * self._width]
            tile[:, : part.shape[1]] = part

    def _rows(self, name: str) -> np.ndarray:
        """Put tiles together, when no other thread writes to them."""
        wait(self._others)
        parts = [tile[:, :size] for tile, size in zip(self._arrays[name], self._sizes, strict=True)]
        return np.concatenate(parts, axis=1)

    def _catch_up(self) -> tuple[np.ndarray, np.ndarray]:
        values = self._advance(np.arange(self._done.size))
        self._count_from_here()
        return values

    def _count_from_here(self) -> None:
        """Count steps from here on, where all rows are up to date."""
        self._now = 0
        for array in (self._done, self._A, self._C):
            array[:] = 0

    def _finish(self, thread: int) -> None:
        """Take the pending step on the thread's part of p and v."""
        step = (self._low_k_at, self._now - 1, self._adaptive)
        for t in range(thread, len(self._sizes), self._workers):
            E, _, _, *vectors = (tiles[t] for tiles in self._arrays.values())
            pv = (tile.ravel() for tile in vectors)  # views
            finish_tile(E, self._sizes[t], self._moving, self._A, self._C, *pv, self._pv_at[t], *step)

    def _advance(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finish the pending step and bring some rows up to date; returns their a and c."""
        ending = tuple(self._others)
        gradients = (rows, self._done, self._A, self._C)
        step = (self._low_k_at, self._low_rests, self._now, self._adaptive)

        def work(thread: int) -> None:
            if self._pending and thread:
                ending[thread - 1].result()
            elif self._pending:
                self._finish(thread)
            for t in range(thread, len(self._sizes), self._workers):
                *E, pv, _, _ = (tiles[t] for tiles in self._arrays.values())
                vectors = (pv.ravel(), self._pv_at[t])
                advance_tile(*E, self._sizes[t], *gradients, *vectors, *step, *self._parts[t])

        self._give(work)
        work(0)
        for other in self._others:
            other.result()
        self._others, self._pending = [], False
        self._done[rows] = self._now
        a, c = np.add.reduce(self._parts[:, :, : rows.size], axis=0)
        return a, c


def _zeros(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Zeros that begin at a page of memory: on other addresses a step took 1.15 to 1.3 times as long.

    Large pages, and another half page between E and p, were measured to change nothing.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    raw = np.zeros(size + PAGE, np.uint8)
    begin = -raw.ctypes.data % PAGE
    return raw[begin : begin + size].view(kind).reshape(shape)


def renumbered(tokens: np.ndarray, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct tokens in ascending order, and the place of each token among them."""
    present, places = np.zeros(S, bool), np.empty(S, np.intp)
    present[tokens] = True
    rows = np.flatnonzero(present)
    places[rows] = np.arange(rows.size)
    return rows, places[tokens]


def epoch_batches(corpus: Corpus, batch: int, seed: int, epoch: int) -> Iterator[Corpus]:
    """The batches of an epoch, each a corpus over the same vocabulary."""
    order = epoch_order(corpus.n, seed, epoch)
    for first in range(0, corpus.n, batch):
        yield one_layer.take(corpus, order[first : first + batch])


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


def run(
    model: Any,
    corpus: Corpus,
    plan: TrainingPlan,
    identity: dict[str, Any],
    progress: Progress | None,
    method: str,
    layers: int = 1,
    **scales: Any,
) -> EmbeddingTraining:
    """Train, from the checkpoint if there is one, which must be of the training with this ``identity``.

    The model has the methods of `OneLayerModel`: ``step``, ``observe``, ``measured``, ``arrays`` and
    ``restore``.
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
            event = f"diverged in epoch {epoch + 1}: lower the rate{rate_text}"
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
    loss, mass = model.measured(corpus) if event is None else (math.nan, math.nan)
    if event is None and mean <= plan.until_loss:
        event = LOSS_REACHED
    end, (E, p, v) = snapshots[-1], model.parameters
    return EmbeddingTraining(
        corpus,
        end.epochs,
        end.a,
        end.c,
        two_layers if layers == 2 else partial(corpus.problem, E, v, **scales),
        "step",
        np.arange(1, len(losses) + 1),
        None,
        event=event,
        method=method,
        observed={"losses": np.array(losses)},
        end=p,
        E=E,
        v=v,
        loss=loss,
        mass=mass,
        snapshots=tuple(snapshots),
        batch=plan.batch,
        layers=layers,
        **scales,
    )


def _recorded(epoch: int) -> bool:
    """0, 1, 2, 5, 10, 20, 50, ..."""
    return str(epoch).rstrip("0") in ("", "1", "2", "5")


@check_arguments
def train_embeddings(
    corpus: Corpus,
    d: int,
    step: Optimizer | Mapping[str, Optimizer],
    *,
    epochs: int,
    batch: int = 128,
    milestones: Sequence[int] = (100, 200),
    rng: int | np.random.Generator,
    start: tuple[Any, Any, Any] | None = None,
    dtype: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    until_loss: float = 0.0,
    workers: int | None = None,
    progress: Progress | None = None,
    scale: Scale = None,
    first_scale: Scale = None,
    layers: int = 1,
) -> EmbeddingTraining:
    """Train E, p and v by mini-batches.

    `hm.optim.AdamW`, and for one layer `Adam`, `SGD` and `GD`, have compiled steps where one optimizer with
    one rate moves all of E, p and v. Everything else takes the plain loop in float64.

    LayerNorm of the two-layer model has no gain and no bias; its compiled steps need PyTorch, and another
    processor or another version of PyTorch or numpy may round them differently. The loss is the two-layer
    model's; a = E p and c = E v are those of the embeddings as they are, below the first layer.

    Args:
        corpus: the labeled sequences, shuffled again in each epoch; the last batch may be smaller.
        d: the dimension of the embeddings.
        step: an optimizer of `hm.optim`, or one for each of "E", "p" and "v" that is trained.
        epochs: how many times through the corpus.
        batch: sequences in a step.
        milestones: epochs from which on the rate is a tenth of what it was.
        rng: an int or a Generator, for the start and the order of the sequences.
        start: (E, p, v); drawn as in A-DEF-4 by default.
        dtype: "float32" (the default of compiled steps) or "float64" for the parameters; softmax and loss
            of one layer are always in float64.
        checkpoint: a file where the training is saved every ``checkpoint_every`` epochs and at the end, and
            from which it goes on if the file exists, to the same bits, also to more epochs than before.
        checkpoint_every: epochs between two of these.
        until_loss: stop once the mean loss of an epoch, over the batches as they were met, is at most this.
        workers: how many threads compiled steps take; all cores by default. Their number does not change the
            result.
        progress: called as ``progress(done, total)`` after each epoch.
        scale: a factor before the logits E p of the softmax: a positive number, or "1/sqrt(d)" as in other
            transformers; 1 by default, as printed.
        first_scale: the same for the first softmax of two layers.
        layers: 1 or 2.
    """
    d, count = expect.whole("d", d, 1), cores() if workers is None else expect.whole("workers", workers, 1)
    scales: dict[str, Any] = {"scale": read_scale("scale", scale, d)}
    if layers == 2:
        scales["first_scale"] = read_scale("first_scale", first_scale, d)
    optimizers = one_layer.by_block(step, one_layer.BLOCKS)
    rule, kind = compiled_rule(optimizers, layers, dtype)
    rng = expect.generator(rng)
    vectors = (
        initial_vectors(corpus.S, d, rng=rng) if start is None else one_layer.starting_vectors(corpus, start)
    )
    if vectors[0].shape[1] != d:
        raise ValueError(f"start must hold vectors of d = {d} numbers, got {vectors[0].shape[1]}")
    plan = TrainingPlan(
        next(iter(optimizers.values())).constant_rate,
        read_milestones(milestones),
        expect.whole("epochs", epochs),
        expect.whole("batch", batch, 1),
        expect.nonnegative("until_loss", until_loss),
        int(rng.integers(2**63)),
        None if checkpoint is None else Path(checkpoint),
        expect.whole("checkpoint_every", checkpoint_every, 1),
    )
    model: Any = OneLayerModel
    if layers == 2 and rule is not None:
        try:
            from hardmax.embeddings.minibatch.two_layer_step import TwoLayerModel as model
        except ImportError as missing:
            raise ImportError(
                f"the two-layer model is trained with PyTorch ({missing}): {install('torch')}"
            ) from missing
    if rule is None:
        unit = -(-corpus.n // plan.batch)
        milestones = [unit * milestone for milestone in plan.milestones]
        steps = StepOptions.read(1, steps=unit * plan.epochs, record=(), milestones=milestones)
        network = TwoLayerNetwork(**scales) if layers == 2 else one_layer.OneLayerNetwork(**scales)
        model = PlainModel(network, vectors, optimizers, steps)
        rules = {name: {**settings(rule), "lr": rule.lr} for name, rule in optimizers.items()}
        how = {"model": f"{layers} layers, plain", "optimizers": rules}
    else:
        model = model(*vectors, rule, kind, count, **scales)
        how = {"model": "one layer" if layers == 1 else "two layers", **settings(rule), "dtype": kind}
    how |= {"start": files.digest(*vectors), **scales}
    name = ", ".join(sorted({step.name for step in optimizers.values()}))
    with nullcontext() if rule is None else model:
        return run(model, corpus, plan, how, progress, name, layers, **scales)


class PlainModel:
    """Some of E, p and v with any optimizers, for one or two layers, in float64 by the plain loop."""

    def __init__(
        self, network: Any, vectors: Vectors, optimizers: Mapping[str, Optimizer], steps: StepOptions
    ) -> None:
        self.network = network
        batch: Any = None  # the plan's batches come one by one, with `step`
        self._trainer = one_layer.VectorTrainer(network, batch, vectors, optimizers, optimizers, steps)

    @property
    def parameters(self) -> Vectors:
        """E, p and v."""
        E, p, v = self._trainer.vectors.values()
        return E, p, v

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it, nan where the parameters overflowed."""
        return self._trainer.step_on(batch)

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a = E p and c = E v of all tokens."""
        E, p, v = self.parameters
        return E @ p, E @ v

    def measured(self, corpus: Corpus) -> tuple[float, float]:
        """Mean over a corpus of the loss, and of the largest share of attention that a token has."""
        return self.network.measured(corpus, *self.parameters)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that the next step depends on."""
        return self._trainer.state

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to where `arrays` was taken."""
        self._trainer.restore(arrays)


# A second moment below the normal numbers is taken for zero: its root, corrected, must not be
# seen next to epsilon.
LEAST_EPSILON = {"float32": 1e-12, "float64": 1e-140}


def compiled_rule(
    optimizers: Mapping[str, Optimizer], layers: int, dtype: str | None
) -> tuple[AdamW | SGD | None, str]:
    """Return the rule as the kernels take it, and the type of its numbers; None where they cannot."""
    kind = None if dtype is None else expect.one_of("dtype", dtype, ("float32", "float64"))
    step, *others = optimizers.values()
    rule: Any = step
    if isinstance(step, GD) and step.norm == "l2":
        rule = SGD(step.lr)  # without momentum
    elif type(step) is Adam:
        rule = AdamW(step.lr, betas=step.betas, eps=step.eps)
    is_one = others == [step] * 2 and not math.isnan(step.constant_rate)
    if not is_one or not (type(rule) is AdamW or (layers == 1 and type(rule) is SGD)):
        if kind == "float32":
            raise ValueError(
                'dtype must be "float64" where the plain loop trains: float32 is for AdamW, Adam, SGD and GD '
                "with one rate for all of E, p and v, and of two layers for AdamW and Adam"
            )
        return None, "float64"
    least = LEAST_EPSILON[kind or "float32"]
    if isinstance(rule, AdamW) and rule.eps < least:
        if type(step) is Adam and kind != "float32":
            return None, "float64"
        raise ValueError(
            f"eps must be at least {least:g} for training by mini-batches in {kind or 'float32'}, got "
            f"{rule.eps:g}; smaller values underflow"
        )
    return rule, kind or "float32"
