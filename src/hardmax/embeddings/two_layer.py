"""The two-layer model, equation (36): self-attention, residual and LayerNorm below the one-layer model.

Equal tokens of a sequence have equal rows, so a sequence is its distinct tokens with their counts m
(A-DEF-5):

    H[r, s] = m_s exp(E_r.E_s) / sum,  Z = (I + H) E,  E' = LayerNorm(Z),  f = softmax(E' p + log m) . E' v.

As printed neither softmax has a factor before its logits; ``first_scale`` and ``scale`` put one there.
The closed-form gradient is A-DEF-6. Its cost per sequence is the square of the number of distinct tokens
times d.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import isometric_keys
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.blocks import Pull, StepOptions
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.embeddings import one_layer
from hardmax.embeddings.gram import GramState
from hardmax.problem import Problem


class TwoLayerGradients(NamedTuple):
    """Predictions, loss, and its gradients; those by gain and bias are empty where there is none."""

    f: np.ndarray
    loss: float
    E: np.ndarray
    p: np.ndarray
    v: np.ndarray
    gain: np.ndarray
    bias: np.ndarray


class _Frame(NamedTuple):
    """Coordinates of vectors of d numbers: these numbers, or others where ``ones`` is (1, ..., 1)/sqrt(d)."""

    d: int
    ones: np.ndarray | None = None

    def center(self, rows: np.ndarray) -> np.ndarray:
        """Each row less the mean of its d numbers."""
        if self.ones is None:
            return np.asarray(rows - rows.mean(axis=1, keepdims=True))
        return np.asarray(rows - np.outer(rows @ self.ones, self.ones))


@dataclass(frozen=True, eq=False)
class TwoLayerNetwork:
    """The two-layer model by its LayerNorm: ``epsilon`` added to the variance, gain and bias if it has them.

    The paper does not specify these; the default has no gain and no bias, as its equation is written.
    ``first_scale`` multiplies the logits E_r.E_s of the first softmax, ``scale`` those E' p of the readout: a
    positive number, "1/sqrt(d)", or None for 1, as printed.
    """

    epsilon: float = 1e-5
    gain: np.ndarray | None = None  # (d,)
    bias: np.ndarray | None = None  # (d,)
    first_scale: Scale = None
    scale: Scale = None
    frame: _Frame | None = field(default=None, repr=False)  # of E, p and v; their own numbers by default

    def __post_init__(self) -> None:
        expect.positive("epsilon", self.epsilon)
        for name in ("first_scale", "scale"):
            read_scale(name, getattr(self, name), 1)

    def predict(self, corpus: Corpus, E: Any, p: Any, v: Any) -> np.ndarray:
        """f of every sequence."""
        return np.array([layer.f for layer in self._layers(corpus, *one_layer.read_vectors(corpus, E, p, v))])

    def attention(self, corpus: Corpus, E: Any, p: Any, v: Any) -> np.ndarray:
        """Attention of the readout to every slot, as `one_layer.token_mass` has it."""
        return np.concatenate(
            [layer.Q for layer in self._layers(corpus, *one_layer.read_vectors(corpus, E, p, v))]
        )

    def gradients(self, corpus: Corpus, E: Any, p: Any, v: Any) -> TwoLayerGradients:
        """Predictions, loss and gradients over the whole corpus."""
        return self.at(corpus, *one_layer.read_vectors(corpus, E, p, v))

    def measured(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> tuple[float, float]:
        """Return the loss, and the mean over sequences of the largest share of attention of a token."""
        largest = np.maximum.reduceat(self.attention(corpus, E, p, v), corpus.offsets[:-1])
        return self.gradients(corpus, E, p, v).loss, float(largest.mean())

    def pulls(self, point: TwoLayerGradients, names: Iterable[str], *_: np.ndarray) -> dict[str, Pull]:
        """Return minus the gradients by some of E, p and v."""
        return {name: Pull(-getattr(point, name)) for name in names}

    def at(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> TwoLayerGradients:
        """Evaluate the model at arrays of the right shapes, as in training."""
        frame = self._frame(E)
        gain, _ = self._affine(E.shape[1])
        by_E, by_p, by_v = np.zeros_like(E), np.zeros_like(p), np.zeros_like(v)
        by_gain, by_bias = np.zeros_like(p), np.zeros_like(p)
        f = np.empty(corpus.n)
        first_scale = read_scale("first_scale", self.first_scale, frame.d)
        for k, layer in enumerate(self._layers(corpus, E, p, v)):
            f[k] = layer.f
            rows, A, C = layer.rows, layer.A / corpus.n, layer.C / corpus.n
            by_p += layer.output.T @ A
            by_v += layer.output.T @ C
            G = np.outer(A, p) + np.outer(C, v)
            by_gain += (G * layer.normal).sum(axis=0)
            by_bias += G.sum(axis=0)
            G = G * gain
            spread = (G * layer.normal).sum(axis=1, keepdims=True) / frame.d
            G = (frame.center(G) - layer.normal * spread) / layer.sigma
            inner = G @ rows.T
            by_K = first_scale * layer.H * (inner - (layer.H * inner).sum(axis=1, keepdims=True))
            # The tokens of a sequence are distinct, so that this adds to each row once.
            by_E[layer.tokens] += G + layer.H.T @ G + (by_K + by_K.T) @ rows
        loss = float(one_layer.LOGISTIC.value(corpus.signs * f).mean())
        affine = [np.empty(0) if x is None else by for x, by in ((self.gain, by_gain), (self.bias, by_bias))]
        return TwoLayerGradients(f, loss, by_E, by_p, by_v, *affine)

    def _frame(self, E: np.ndarray) -> _Frame:
        return _Frame(E.shape[1]) if self.frame is None else self.frame

    def _affine(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        gain = np.ones(d) if self.gain is None else expect.finite_array("gain", self.gain, (d,))
        return gain, np.zeros(d) if self.bias is None else expect.finite_array("bias", self.bias, (d,))

    def _layers(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> Iterator[_Layer]:
        """The forward pass, sequence by sequence, with all arrays of the backward pass."""
        frame = self._frame(E)
        gain, bias = self._affine(E.shape[1])
        first_scale = read_scale("first_scale", self.first_scale, frame.d)
        scale = read_scale("scale", self.scale, frame.d)
        for k in range(corpus.n):
            slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
            tokens, counts, y = corpus.tokens[slots], corpus.weights[slots], corpus.signs[k]
            rows = E[tokens]
            K = first_scale * (rows @ rows.T)
            H = counts * np.exp(K - K.max(axis=1, keepdims=True))
            H = H / H.sum(axis=1, keepdims=True)
            centered = frame.center(rows + H @ rows)
            sigma = np.sqrt((centered * centered).sum(axis=1, keepdims=True) / frame.d + self.epsilon)
            normal = centered / sigma
            output = normal * gain + bias
            whole = np.array([0, len(tokens)])
            gaps, tops = np.empty(len(tokens)), np.empty(1, np.intp)
            one_layer.gaps_to_heaviest(scale * (output @ p), corpus.log_counts[slots], whole, gaps, tops)
            weights, u, log_scale, log_mass = one_layer.settle_slots(gaps, tops, y * (output @ v), whole)
            log_g = -float(one_layer.LOGISTIC.value(-u[0]))
            # log_scale is -inf where all values are equal, and the weights are zero then.
            A = -scale * math.exp(log_g + log_scale[0]) * weights
            C = -y * np.exp(gaps - log_mass[0] + log_g)
            Q = np.exp(gaps - log_mass[0])
            yield _Layer(tokens, rows, H, sigma, normal, output, y * u[0], A, C, Q)


class _Layer(NamedTuple):
    tokens: np.ndarray
    rows: np.ndarray  # (U, d) E of the distinct tokens
    H: np.ndarray  # (U, U)
    sigma: np.ndarray  # (U, 1)
    normal: np.ndarray  # (U, d)
    output: np.ndarray  # (U, d) E'
    f: float
    A: np.ndarray  # (U,) d loss / d (E' p)
    C: np.ndarray  # (U,) d loss / d (E' v)
    Q: np.ndarray  # (U,)


@dataclass(frozen=True, eq=False)
class TwoLayerGram:
    """Inner products of the stack [E; p; v; u], with u = (1, ..., 1)/sqrt(d), and the LayerNorm's numbers.

    The model is computed in coordinates with these inner products, of which there are at most S + 3.
    ``first_scale`` and ``scale`` are as in `TwoLayerNetwork`.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.two_layer import TwoLayerGram
    >>> state = TwoLayerGram.from_vectors([[3, 4], [0, 1]], p=[1, 0], v=[0, 1])
    >>> state.G.shape, state.d, (state.G[:2, -1] ** 2).round(12).tolist()
    ((5, 5), 2, [24.5, 0.5])
    """

    G: np.ndarray  # (S + 3, S + 3)
    d: int
    epsilon: float = 1e-5
    first_scale: Scale = None
    scale: Scale = None

    def __post_init__(self) -> None:
        for name in ("first_scale", "scale"):
            read_scale(name, getattr(self, name), self.d)

    @classmethod
    def from_vectors(
        cls, E: Any, p: Any, v: Any, epsilon: float = 1e-5, *, first_scale: Scale = None, scale: Scale = None
    ) -> TwoLayerGram:
        """The inner products of given vectors.

        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> TwoLayerGram.from_vectors([[1, 2]], [1, 0], [0, 1]).S
        1
        """
        E = expect.finite_array("E", E, (None, None))
        d = E.shape[1]
        p, v = (expect.finite_array(name, x, (d,)) for name, x in (("p", p), ("v", v)))
        W = np.vstack([E, p, v, np.full(d, 1.0 / math.sqrt(d))])
        return cls(W @ W.T, d, expect.positive("epsilon", epsilon), first_scale, scale)

    @property
    def S(self) -> int:
        """Number of tokens."""
        return len(self.G) - 3

    @property
    def one_layer(self) -> GramState:
        """The inner products of E, p and v alone."""
        S, G = self.S, self.G
        numbers = float(G[S, S]), float(G[S, S + 1]), float(G[S + 1, S + 1])
        return GramState(G[:S, :S], G[:S, S], G[:S, S + 1], *numbers)

    @cached_property
    def vectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """E, p, v and (1, ..., 1)/sqrt(d) with these inner products."""
        *E, p, v, ones = isometric_keys(self.G)
        return np.array(E), p, v, ones

    @property
    def model(self) -> TwoLayerNetwork:
        """The model that the inner products are a state of, for the vectors above."""
        frame = _Frame(self.d, self.vectors[-1])
        return TwoLayerNetwork(self.epsilon, first_scale=self.first_scale, scale=self.scale, frame=frame)

    def predict(self, corpus: Corpus) -> np.ndarray:
        """f of every sequence.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1]).predict(corpus).round(4).tolist()
        [1.3147, -1.3147]
        """
        self._need(corpus)
        return np.array([layer.f for layer in self.model._layers(corpus, *self.vectors[:-1])])

    def loss(self, corpus: Corpus) -> float:
        """The logistic loss."""
        return float(one_layer.LOGISTIC.value(corpus.signs * self.predict(corpus)).mean())

    def step(self, corpus: Corpus, rate: float, train: Iterable[str] = ("E", "p", "v")) -> TwoLayerGram:
        """Take one gradient step on the blocks in ``train``, all at once.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> state = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
        >>> state.step(corpus, 0.1).loss(corpus) < state.loss(corpus)
        True
        """
        return descend_two_layer(corpus, self, steps=1, rate=rate, train=train).state

    def _need(self, corpus: Corpus) -> None:
        if corpus.S != self.S:
            raise ValueError(f"corpus must have the {self.S} tokens of the state, got {corpus.S}")


def two_layers() -> Problem:
    """Refuse the problem of a run of the two-layer model."""
    raise ValueError(
        "a two-layer model cannot be converted to a Problem, since its keys move; use TwoLayerNetwork"
    )


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerDescent(Run):
    """Where the two-layer model ended, and the risk and |p| on the way.

    From inner products, E, p and v are in coordinates that have them. Its keys move with the attention of the
    first layer, so there is no `Problem` that p alone solves.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> start = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
    >>> bool(descend_two_layer(corpus, start, steps=50, rate=0.5).losses[-1] < 0.05)
    True
    """

    model: TwoLayerNetwork = field(kw_only=True)
    E: np.ndarray = field(kw_only=True)
    v: np.ndarray = field(kw_only=True)

    @cached_property
    def state(self) -> TwoLayerGram:
        """The inner products at the end."""
        model, (d, ones) = self.model, self.model._frame(self.E)
        W = np.vstack([self.E, self.final, self.v, np.full(d, 1.0 / math.sqrt(d)) if ones is None else ones])
        return TwoLayerGram(W @ W.T, d, model.epsilon, model.first_scale, model.scale)


@check_arguments
def descend_two_layer(
    corpus: Corpus,
    state: TwoLayerGram | tuple[Any, Any, Any],
    *,
    rate: float | Optimizer | Mapping[str, Optimizer],
    steps: int | None,
    train: Iterable[str] = ("E", "p", "v"),
    first_scale: Scale = None,
    scale: Scale = None,
    **options: Any,
) -> TwoLayerDescent:
    """Train the blocks in ``train`` of the two-layer model by steps on the corpus; the others stay fixed.

    ``state`` holds vectors (E, p, v), whose softmax layers have the two scales, or inner products, which have
    their own. Inner products have no coordinates, so their optimizers must be those whose moves are
    combinations of gradients. ``rate`` is that of gradient descent, or an optimizer, or one for each block;
    the other options are those of `StepOptions`.
    """
    names, plan = one_layer.read_names(train), StepOptions.read(corpus.n, steps=steps, **options)
    optimizers = one_layer.by_block(rate, [name for name in one_layer.BLOCKS if name in names])
    if isinstance(state, TwoLayerGram):
        state._need(corpus)
        start, model = state.vectors[:-1], state.model
        for name, optimizer in optimizers.items():
            if not optimizer.in_span:
                raise TypeError(
                    f"optimizer of {name} must move by combinations of gradients for inner products, as GD, "
                    f"Normalized and SGD do, got {optimizer!r:.60}; for others start from vectors (E, p, v)"
                )
    else:
        start = one_layer.starting_vectors(corpus, state)
        model = TwoLayerNetwork(first_scale=first_scale, scale=scale)
    trainer = one_layer.VectorTrainer(model, corpus, start, names, optimizers, plan)

    def observe() -> dict[str, Any]:
        return {"losses": trainer.point.loss, "norms": np.linalg.norm(trainer.vectors["p"])}

    d = model._frame(start[0]).d
    scales = {name: read_scale(name, getattr(model, name), d) for name in ("scale", "first_scale")}
    trainer.run(observe, partial(trainer.identify, "two layers", **scales))
    return TwoLayerDescent(two_layers, **trainer.result, model=model)
