"""The model with dense matrices: tables of tokens, embedding space, merged or not (C-DEF-GRAD).

It can be trained in ways in which Algorithm 1 does not train. Any embedding E (d x V) turns weights into
tables: A = E' W_kq E, B = W_ov E. By the chain rule gradients go back as E G E' and G E', so nothing is
computed twice. With orthonormal columns the trained weights are E A E' and B E' themselves, and norms and
angles agree with those of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import half_square
from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.blocks import BlockTrainer, Pull, StepOptions
from hardmax.dynamics.checkpoint import digest
from hardmax.dynamics.optim import Normalized, Optimizer
from hardmax.dynamics.run import Run
from hardmax.nexttoken.stages import Floats, StageTwo, pairs_of
from hardmax.nexttoken.star import KqStar
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True, eq=False)
class TableModel:
    """Tables A[x, q] = x' W_kq q and B[v, x] = (W_ov x)_v on the samples of a dataset.

    They are dense, and B is any table; the training of stage 2 itself uses `StageTwo`, which needs neither.
    """

    samples: Samples
    A: Floats
    B: Floats

    @classmethod
    def of(cls, samples: Samples, A: Any, B: Any) -> TableModel:
        """The tables of a model, checked; samples are kept as they are, merged or not."""
        shape = (samples.V, samples.V)
        return cls(samples, expect.finite_array("A", A, shape), expect.finite_array("B", B, shape))

    @cached_property
    def attention(self) -> Any:
        """Masses m_n(x), a sparse array (samples, V)."""
        data = self.samples
        row = np.repeat(np.arange(data.n), np.diff(data.offsets))
        logit = self.A[data.tokens, data.query[row]] + np.log(data.counts)
        gap = logit - np.maximum.reduceat(logit, data.offsets[:-1])[row]
        mass = np.exp(gap)
        mass /= np.add.reduceat(mass, data.offsets[:-1])[row]
        return csr_array((mass, data.tokens, data.offsets), shape=(data.n, data.V))

    @cached_property
    def logits(self) -> Floats:
        """The output before its softmax, one row per sample: sum_x m(x) B[:, x]."""
        return np.asarray(self.attention @ self.B.T)

    @property
    def outputs(self) -> Floats:
        """Probabilities of the next token, one row per sample."""
        return np.exp(self.logits - logsumexp(self.logits, axis=1, keepdims=True))

    @cached_property
    def _wrong(self) -> tuple[Floats, Floats, Floats]:
        """Logits with the target at -inf, their log-sum-exp, and the target's logit."""
        every = np.arange(self.samples.n)
        z = self.logits.copy()
        z_y = z[every, self.samples.target].copy()
        z[every, self.samples.target] = -np.inf
        return z, logsumexp(z, axis=1), z_y

    @property
    def losses(self) -> Floats:
        """Cross-entropy of every sample."""
        _, wrong, z_y = self._wrong
        return np.logaddexp(0.0, wrong - z_y)

    @property
    def loss(self) -> float:
        """The loss (1)."""
        return float(self.samples.weight @ self.losses)

    @cached_property
    def gradient_ov(self) -> Floats:
        """The gradient of the full loss (1) by B: sum pi (T - p) m'."""
        z, wrong, z_y = self._wrong
        # T - p = (1 - T)(softmax of the wrong ones - e_y): no entry is a difference of near equals
        miss = wrong - np.logaddexp(z_y, wrong)
        off = np.exp(z - wrong[:, None])
        off[np.arange(self.samples.n), self.samples.target] = -1.0
        off *= (self.samples.weight * np.exp(miss))[:, None]
        return np.asarray(self.attention.T @ off).T

    @cached_property
    def gradient_kq(self) -> Floats:
        """(6): the gradient of (1) by A, from the signed log-domain form; zero where no sentence pulls."""
        pairs = pairs_of(self.samples)
        if not pairs.n or not self.B.any():
            return np.zeros_like(self.A)
        stage = StageTwo(pairs, OutputValue.of_table(pairs.collocation, self.B))
        return pairs.table(stage.gradient(pairs.values(self.A)))


@check_arguments
def orthonormal_embedding(V: int, d: int, *, rng: int | np.random.Generator) -> Floats:
    """A random E (d x V) with orthonormal columns; d must be at least V."""
    expect.whole("V", V, 1)
    if d < V:
        raise ValueError(f"d must be at least V = {V} for orthonormal columns, got {d}")
    Q, R = np.linalg.qr(expect.generator(rng).standard_normal((d, V)))
    return Q * np.sign(np.diag(R))


@dataclass(frozen=True, eq=False)
class Embedded:
    """Merged weights W_kq (d x d) and W_ov (V x d) with an embedding E (d x V)."""

    samples: Samples
    E: Floats
    W_kq: Floats
    W_ov: Floats

    @property
    def merged(self) -> Embedded:
        """The weights themselves."""
        return self

    @cached_property
    def model(self) -> TableModel:
        """The tables."""
        return TableModel.of(self.samples, self.E.T @ self.W_kq @ self.E, self.W_ov @ self.E)

    @property
    def gradient_kq(self) -> Floats:
        """(6), d x d."""
        return self.E @ self.model.gradient_kq @ self.E.T

    @property
    def gradient_ov(self) -> Floats:
        """The gradient of the full loss by W_ov, V x d."""
        return self.model.gradient_ov @ self.E.T

    @property
    def gradients(self) -> tuple[Floats, Floats]:
        """By W_kq and W_ov."""
        return self.gradient_kq, self.gradient_ov


@dataclass(frozen=True, eq=False)
class Unmerged:
    """Weights W_k (d x d1), W_q (d1 x d), W_v (d2 x d), W_o (V x d2) with an embedding E (d x V)."""

    samples: Samples
    E: Floats
    W_k: Floats
    W_q: Floats
    W_v: Floats
    W_o: Floats

    @classmethod
    def random(
        cls, samples: Samples, E: Any, d1: int, d2: int, *, scale: float, rng: int | np.random.Generator
    ) -> Unmerged:
        """Normal entries of the given standard deviation; zero would be a stationary point."""
        draw, d, V = expect.generator(rng), len(E), samples.V
        shapes = ((d, d1), (d1, d), (d2, d), (V, d2))
        return cls(samples, E, *(scale * draw.standard_normal(shape) for shape in shapes))

    @cached_property
    def merged(self) -> Embedded:
        """W_kq = W_k W_q and W_ov = W_o W_v."""
        return Embedded(self.samples, self.E, self.W_k @ self.W_q, self.W_o @ self.W_v)

    @cached_property
    def gradients(self) -> tuple[Floats, Floats, Floats, Floats]:
        """By W_k, W_q, W_v and W_o."""
        G_kq, G_ov = self.merged.gradient_kq, self.merged.gradient_ov
        return G_kq @ self.W_q.T, self.W_k.T @ G_kq, self.W_o.T @ G_ov, G_ov @ self.W_v.T


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Run):
    """A training on the full loss (1): losses at the recorded steps, the weights at the end.

    Other measurements of a `hardmax.Run` are of the problem that W_kq has with W_ov as it was trained;
    ``event`` is "stationary point" where the gradient is exactly zero.
    """

    weights: Embedded | Unmerged = field(kw_only=True)
    rate: float = field(kw_only=True)

    @property
    def merged(self) -> Embedded:
        """W_kq and W_ov at the end."""
        return self.weights.merged

    @property
    def misalignment_ov(self) -> float:
        """1 - cos(B, W_ov*)."""
        model = self.merged.model
        return OutputValue.of_table(pairs_of(model.samples).collocation, model.B).misalignment_ov

    @property
    def misalignment_kq(self) -> float:
        """1 - cos(A, W_kq*), over all entries of A: entries outside the pairs count as misaligned."""
        A, pairs = self.merged.model.A, pairs_of(self.merged.samples)
        star, length = KqStar.of(pairs), float(np.linalg.norm(A))
        if star.values is None or not length > 0.0:
            return math.nan
        return half_square(A / length, pairs.table(star.values) / star.norm)


@check_arguments
def train_jointly(
    samples: Samples,
    steps: int | None,
    rate: float | Optimizer | Mapping[str, Optimizer],
    *,
    E: Any = None,
    **options: Any,
) -> Comparison:
    """Train W_ov and W_kq together from zero, by one optimizer of both as one vector, or by one of each.

    ``rate`` is that of normalized descent, where a step is divided by the norm of the whole gradient. The
    first step moves W_ov alone: with W_ov = 0 attention has no gradient. The other options are those of
    `StepOptions`; every step is recorded by default.
    """
    samples = samples.merged()
    E = np.eye(samples.V) if E is None else expect.finite_array("E", E, (None, samples.V))
    start = Embedded(samples, E, np.zeros((len(E), len(E))), np.zeros((samples.V, len(E))))
    return _run(start, ("W_kq", "W_ov"), rate, {"steps": steps, **options})


@check_arguments
def train_unmerged(
    start: Unmerged, steps: int | None, rate: float | Optimizer | Mapping[str, Optimizer], **options: Any
) -> Comparison:
    """Train all four factors together from ``start``, with ``rate`` and options as in `train_jointly`."""
    start = replace(start, samples=start.samples.merged())
    return _run(start, ("W_k", "W_q", "W_v", "W_o"), rate, {"steps": steps, **options})


def _run(start: Any, names: tuple[str, ...], rate: Any, options: dict[str, Any]) -> Comparison:
    """Train the named matrices of ``start``."""
    if not isinstance(rate, Optimizer | Mapping):
        rate = Normalized(expect.positive("rate", rate))
    if options["steps"] is not None:
        options = {"record": 1, **options}
    plan = StepOptions.read(start.samples.n, **options)

    def at(inputs: Any = None) -> Any:
        arrays = {name: block.copy() for name, block in trainer.blocks.items()}
        part = start.samples if inputs is None else start.samples.part(inputs)
        return replace(start, samples=part, **arrays)

    def pulls(point: Any, step: int) -> dict[str, Pull]:
        return {name: Pull(-G) for name, G in zip(names, point.gradients, strict=True)}

    trainer = BlockTrainer({name: getattr(start, name) for name in names}, rate, plan, at, pulls)

    def identity() -> dict[str, Any]:
        data, arrays = start.samples, [start.E, *(getattr(start, name) for name in names)]
        samples = (data.tokens, data.counts, data.offsets, data.query, data.target, data.weight)
        return {"model": list(names), "corpus": digest(*samples), "start": digest(*arrays)}

    trainer.run(lambda: {"losses": trainer.point.merged.model.loss}, identity)
    model = trainer.point.merged.model
    problem = model.samples.problem(model.B)
    head = problem.readout.cross_entropy
    assert head is not None
    times = np.array([step for step in trainer.times if step <= trainer.taken])
    return Comparison(
        problem,
        "step",
        times,
        None,
        trainer.event,
        method=trainer.name,
        observed={"losses": trainer.observed["losses"][: len(times)]},
        end=model.A[head.words, head.queries],
        weights=trainer.point,
        rate=trainer.optimizers[0].constant_rate,
    )
