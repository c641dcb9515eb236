"""Training that Algorithm 1 does not do, to compare with it: both matrices at once, merged or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax import _inputs
from hardmax.nexttoken.embedding import Embedded, Unmerged
from hardmax.nexttoken.limits import KqStar
from hardmax.nexttoken.output_value import OutputValue
from hardmax.nexttoken.pairs import Floats, pairs_of
from hardmax.nexttoken.samples import Samples


@dataclass(frozen=True, eq=False)
class Comparison:
    """Normalised gradient descent on the full loss (1): losses at every step, the weights at the end.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.comparison import train_jointly
    >>> run = train_jointly(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]), 200, 0.1)
    >>> bool(run.losses[-1] < 0.1 * run.losses[0]), 0 < run.misalignment_kq < 1
    (True, True)
    """

    weights: Embedded | Unmerged
    rate: float
    losses: Floats

    @property
    def merged(self) -> Embedded:
        """W_kq and W_ov at the end."""
        return self.weights.merged if isinstance(self.weights, Unmerged) else self.weights

    @property
    def misalignment_ov(self) -> float:
        """1 - cos(B, W_ov*)."""
        model = self.merged.model
        return OutputValue.of_table(pairs_of(model.samples).collocation, model.B).misalignment

    @property
    def misalignment_kq(self) -> float:
        """1 - cos(A, W_kq*), over all entries of A: what is outside the pairs counts as misaligned."""
        A, pairs = self.merged.model.A, pairs_of(self.merged.samples)
        star, length = KqStar.of(pairs), float(np.linalg.norm(A))
        if star.values is None or not length > 0.0:
            return math.nan
        off = A / length - pairs.table(star.values) / star.norm
        return 0.5 * float(np.vdot(off, off))


def train_jointly(samples: Samples, steps: int, rate: float, *, E: Any = None) -> Comparison:
    """W_ov and W_kq together from zero, each step divided by the norm of the whole gradient.

    The first step moves W_ov alone: with W_ov = 0 attention has no gradient.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.comparison import train_jointly
    >>> train_jointly(Samples.from_sentences(["a b b", "b a"]), 1, 0.1).merged.W_kq.tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    samples = samples.merged()
    E = np.eye(samples.V) if E is None else _inputs.finite_array("E", E, (None, samples.V))
    start = Embedded(samples, E, np.zeros((len(E), len(E))), np.zeros((samples.V, len(E))))

    def step(at: Embedded, factor: Callable[..., float]) -> Embedded:
        G_kq, G_ov = at.gradient_kq, at.gradient_ov
        eta = factor(G_kq, G_ov)
        return replace(at, W_kq=at.W_kq - eta * G_kq, W_ov=at.W_ov - eta * G_ov)

    return _run(start, step, steps, rate)


def train_unmerged(start: Unmerged, steps: int, rate: float) -> Comparison:
    """All four factors together from ``start``, each step divided by the norm of the whole gradient.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.comparison import train_unmerged
    >>> from hardmax.nexttoken.embedding import Unmerged
    >>> samples = Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> start = Unmerged.random(samples, np.eye(4), 4, 4, scale=0.1, rng=0)
    >>> run = train_unmerged(start, 300, 0.1)
    >>> bool(run.losses[-1] < 0.1 * run.losses[0])
    True
    """

    def step(at: Unmerged, factor: Callable[..., float]) -> Unmerged:
        gradients = at.gradients
        eta = factor(*gradients)
        W_k, W_q, W_v, W_o = (
            W - eta * G for W, G in zip((at.W_k, at.W_q, at.W_v, at.W_o), gradients, strict=True)
        )
        return replace(at, W_k=W_k, W_q=W_q, W_v=W_v, W_o=W_o)

    return _run(replace(start, samples=start.samples.merged()), step, steps, rate)


def _run(start: Any, step: Callable[..., Any], steps: int, rate: float) -> Comparison:
    rate = _inputs.positive("rate", rate)

    def factor(*gradients: Floats) -> float:
        length = math.sqrt(sum(float(np.vdot(G, G)) for G in gradients))
        if length == 0.0:
            raise ValueError("start: the gradient is exactly 0, so there is no direction to take")
        return rate / length

    at, losses = start, []
    for _ in range(_inputs.whole("steps", steps)):
        losses.append(_loss(at))
        at = step(at, factor)
    return Comparison(at, rate, np.array([*losses, _loss(at)]))


def _loss(weights: Embedded | Unmerged) -> float:
    return (weights.merged if isinstance(weights, Unmerged) else weights).model.loss
