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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.driver import steps_to_record, take_mapped_steps
from hardmax.dynamics.optim import GD
from hardmax.dynamics.run import Run
from hardmax.embeddings.gram import GramState, read_names
from hardmax.embeddings.minibatch.result import two_layers
from hardmax.embeddings.one_layer import (
    LOGISTIC,
    Evaluation,
    evaluate,
    gaps_to_heaviest,
    read_vectors,
    settle_slots,
)


class TwoLayerGradients(NamedTuple):
    """Predictions, loss, and its gradients; those by gain and bias are empty where there is none.

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> found = hm.embeddings.two_layer.TwoLayer().gradients(corpus, np.eye(3), [1, 0, 0], [1, 0, -1])
    >>> found.E.shape, found.p.shape, found.gain.shape
    ((3, 3), (3,), (0,))
    """

    f: np.ndarray
    loss: float
    E: np.ndarray
    p: np.ndarray
    v: np.ndarray
    gain: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """The two-layer model by its LayerNorm: ``epsilon`` beside the variance, gain and bias if it has them.

    The paper says nothing about these; the default is no gain and no bias, as its equation is written.
    ``first_scale`` multiplies the logits E_r.E_s of the first softmax, ``scale`` those E' p of the readout: a
    positive number, "1/sqrt(d)", or None for 1, as printed.

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> hm.embeddings.two_layer.TwoLayer().predict(corpus, np.eye(3), [0, 0, 0], [1, 0, -1]).round(4).tolist()
    [1.3147, -1.3147]
    """

    epsilon: float = 1e-5
    gain: np.ndarray | None = None  # (d,)
    bias: np.ndarray | None = None  # (d,)
    first_scale: Scale = None
    scale: Scale = None

    def __post_init__(self) -> None:
        expect.positive("epsilon", self.epsilon)
        for name in ("first_scale", "scale"):
            read_scale(name, getattr(self, name), 1)

    def predict(self, corpus: Corpus, E: Any, p: Any, v: Any) -> np.ndarray:
        """f of every sequence.

        >>> import numpy as np, hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 1, 1]], [1])
        >>> hm.embeddings.two_layer.TwoLayer().predict(corpus, np.eye(2), [0, 0], [1, 0]).round(4).tolist()
        [-0.3333]
        """
        E, p, v = read_vectors(corpus, E, p, v)
        self._affine(E.shape[1])
        return np.array([layer.f for layer in self._layers(corpus, E, p, v)])

    def attention(self, corpus: Corpus, E: Any, p: Any, v: Any) -> np.ndarray:
        """Attention of the readout to every slot, as `one_layer.token_mass` has it.

        >>> import numpy as np, hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 1, 1]], [1])
        >>> hm.embeddings.two_layer.TwoLayer().attention(corpus, np.eye(2), [0, 0], [1, 0]).round(4).tolist()
        [0.3333, 0.6667]
        """
        E, p, v = read_vectors(corpus, E, p, v)
        return np.concatenate([layer.Q for layer in self._layers(corpus, E, p, v)])

    def gradients(self, corpus: Corpus, E: Any, p: Any, v: Any) -> TwoLayerGradients:
        """Predictions, loss and gradients over the whole corpus (A-DEF-6).

        >>> import numpy as np, hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> from hardmax.embeddings.two_layer import TwoLayer
        >>> round(TwoLayer().gradients(corpus, np.eye(3), [0, 0, 0], [1, 0, -1]).loss, 4)
        0.2379
        """
        E, p, v = read_vectors(corpus, E, p, v)
        gain, _ = self._affine(E.shape[1])
        by_E, by_p, by_v = np.zeros_like(E), np.zeros_like(p), np.zeros_like(v)
        by_gain, by_bias = np.zeros_like(p), np.zeros_like(p)
        f = np.empty(corpus.n)
        first_scale = read_scale("first_scale", self.first_scale, E.shape[1])
        for k, layer in enumerate(self._layers(corpus, E, p, v)):
            f[k] = layer.f
            rows, A, C = layer.rows, layer.A / corpus.n, layer.C / corpus.n
            by_p += layer.output.T @ A
            by_v += layer.output.T @ C
            G = np.outer(A, p) + np.outer(C, v)
            by_gain += (G * layer.normal).sum(axis=0)
            by_bias += G.sum(axis=0)
            G = G * gain
            spread = (G * layer.normal).mean(axis=1, keepdims=True)
            G = (G - G.mean(axis=1, keepdims=True) - layer.normal * spread) / layer.sigma
            inner = G @ rows.T
            by_K = first_scale * layer.H * (inner - (layer.H * inner).sum(axis=1, keepdims=True))
            # The tokens of a sequence are distinct, so that this adds to each row once.
            by_E[layer.tokens] += G + layer.H.T @ G + (by_K + by_K.T) @ rows
        if self.gain is None:
            by_gain = np.empty(0)
        if self.bias is None:
            by_bias = np.empty(0)
        loss = float(LOGISTIC.value(corpus.signs * f).mean())
        return TwoLayerGradients(f, loss, by_E, by_p, by_v, by_gain, by_bias)

    def _affine(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        gain = np.ones(d) if self.gain is None else expect.finite_array("gain", self.gain, (d,))
        return gain, np.zeros(d) if self.bias is None else expect.finite_array("bias", self.bias, (d,))

    def _layers(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> Iterator[_Layer]:
        """The forward pass, sequence by sequence, with what the backward pass needs."""
        gain, bias = self._affine(E.shape[1])
        first_scale = read_scale("first_scale", self.first_scale, E.shape[1])
        scale = read_scale("scale", self.scale, E.shape[1])
        for k in range(corpus.n):
            slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
            tokens, counts, y = corpus.tokens[slots], corpus.weights[slots], corpus.signs[k]
            rows = E[tokens]
            H = row_softmax(first_scale * (rows @ rows.T), counts)
            Z = rows + H @ rows
            sigma = np.sqrt(Z.var(axis=1, keepdims=True) + self.epsilon)
            normal = (Z - Z.mean(axis=1, keepdims=True)) / sigma
            output = normal * gain + bias
            whole = np.array([0, len(tokens)])
            gaps, tops = np.empty(len(tokens)), np.empty(1, np.intp)
            gaps_to_heaviest(scale * (output @ p), corpus.log_counts[slots], whole, gaps, tops)
            weights, u, log_scale, log_mass = settle_slots(gaps, tops, y * (output @ v), whole)
            log_g = -float(LOGISTIC.value(-u[0]))
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


def row_softmax(K: np.ndarray, counts: np.ndarray) -> np.ndarray:
    weights = counts * np.exp(K - K.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class TwoLayerGram:
    """Inner products of the stack [E; p; v; u], with u = (1, ..., 1)/sqrt(d), and the LayerNorm's numbers.

    ``first_scale`` and ``scale`` are as in `TwoLayer`.

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
        return GramState(
            G[:S, :S], G[:S, S], G[:S, S + 1], float(G[S, S]), float(G[S, S + 1]), float(G[S + 1, S + 1])
        )

    def predict(self, corpus: Corpus) -> np.ndarray:
        """f of every sequence.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1]).predict(corpus).round(4).tolist()
        [1.3147, -1.3147]
        """
        return self._forward(corpus)[1].f

    def loss(self, corpus: Corpus) -> float:
        """The logistic loss.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> round(TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1]).loss(corpus), 4)
        0.2379
        """
        return self._forward(corpus)[1].loss

    def step(self, corpus: Corpus, rate: float, train: Iterable[str] = ("E", "p", "v")) -> TwoLayerGram:
        """One gradient step on what ``train`` names, all at once.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> state = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
        >>> state.step(corpus, 0.1).loss(corpus) < state.loss(corpus)
        True
        """
        names, rate = read_names(train), expect.positive("rate", rate)
        return self._advanced(*self._forward(corpus), rate, names)

    def _forward(self, corpus: Corpus) -> tuple[list[_GramLayer], Evaluation]:
        """The first layer by sequences, and the head on all slots at once, each a token of its own."""
        if corpus.S != self.S:
            raise ValueError(f"corpus must have the {self.S} tokens of the state, got {corpus.S}")
        layers = [self._layer(corpus, k) for k in range(corpus.n)]
        a, c = (
            np.concatenate([layer.rows @ self.G[:, column] for layer in layers])
            for column in (self.S, self.S + 1)
        )
        apart = replace(corpus, tokens=np.arange(corpus.nnz), S=corpus.nnz, vocabulary=None)
        return layers, evaluate(apart, a, c, read_scale("scale", self.scale, self.d))

    def _layer(self, corpus: Corpus, k: int) -> _GramLayer:
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens = corpus.tokens[slots]
        first_scale = read_scale("first_scale", self.first_scale, self.d)
        H = row_softmax(first_scale * self.G[np.ix_(tokens, tokens)], corpus.weights[slots])
        J = np.zeros((len(tokens), len(self.G)))
        J[:, tokens] = np.eye(len(tokens)) + H
        J[:, -1] = -(J @ self.G[:, -1])
        sigma = np.sqrt(np.einsum("ri,ri->r", J @ self.G, J) / self.d + self.epsilon)[:, None]
        return _GramLayer(slots, tokens, H, sigma, J / sigma)

    def _advanced(
        self, layers: list[_GramLayer], point: Evaluation, rate: float, names: frozenset[str]
    ) -> TwoLayerGram:
        S, G, first_scale = self.S, self.G, read_scale("first_scale", self.first_scale, self.d)
        B = np.zeros_like(G)
        for layer in layers:
            A, C, rows = point.A[layer.slots], point.C[layer.slots], layer.rows
            B[S] += A @ rows
            B[S + 1] += C @ rows
            if "E" in names:
                back = np.zeros_like(rows)
                back[:, S], back[:, S + 1] = A, C
                # LayerNorm backwards: less its own mean, and less its component along the row it came from.
                spread = (A * (rows @ G[:, S]) + C * (rows @ G[:, S + 1])) / self.d
                back[:, -1] = -(A * G[S, -1] + C * G[S + 1, -1])
                back = (back - spread[:, None] * rows) / layer.sigma
                inner = back @ G[:, layer.tokens]
                by_K = first_scale * layer.H * (inner - (layer.H * inner).sum(axis=1, keepdims=True))
                back += layer.H.T @ back
                back[:, layer.tokens] += by_K + by_K.T
                B[layer.tokens] += back
        for row, name in ((S, "p"), (S + 1, "v")):
            if name not in names:
                B[row] = 0.0
        move = np.eye(len(G)) - rate * B
        after = move @ G @ move.T
        return replace(self, G=0.5 * (after + after.T))


class _GramLayer(NamedTuple):
    slots: slice
    tokens: np.ndarray
    H: np.ndarray  # (U, U)
    sigma: np.ndarray  # (U, 1)
    rows: np.ndarray  # (U, S + 3) E' in terms of the stack


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerDescent(Run):
    """Where the two-layer model ended, and the risk and |p| on the way.

    Its keys move with the attention of the first layer, so there is no `Problem` that p alone solves.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> start = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
    >>> bool(descend_two_layer(corpus, start, steps=50, rate=0.5).losses[-1] < 0.05)
    True
    """

    state: TwoLayerGram = field(kw_only=True)

    @property
    def p_norm(self) -> float:
        """|p| at the end."""
        return self.state.one_layer.p_norm

    @property
    def final(self) -> np.ndarray:
        """p at the end, in coordinates where E, p and v have these inner products."""
        return self.state.one_layer.vectors()[1]


@check_arguments
def descend_two_layer(
    corpus: Corpus,
    state: TwoLayerGram,
    *,
    steps: int,
    rate: float,
    train: Iterable[str] = ("E", "p", "v"),
    record: int | Sequence[int] | None = None,
) -> TwoLayerDescent:
    """Full-batch gradient descent of the two-layer model by inner products.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer
    >>> corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    >>> start = TwoLayerGram.from_vectors(*hm.embeddings.initial_vectors(corpus.S, 50, rng=1))
    >>> descend_two_layer(corpus, start, steps=4, rate=0.1, record=2).times.tolist()
    [0, 2, 4]
    """
    names = read_names(train)
    steps, rate = expect.whole("steps", steps), expect.positive("rate", rate)

    def advance(at: TwoLayerGram, found: tuple[list[_GramLayer], Evaluation]) -> TwoLayerGram:
        return at._advanced(*found, rate, names)

    def show(at: TwoLayerGram, found: tuple[list[_GramLayer], Evaluation]) -> dict[str, Any]:
        return {"losses": found[1].loss, "norms": at.one_layer.p_norm}

    kept = steps_to_record(record, steps)
    state, seen = take_mapped_steps(state, kept, lambda at: at._forward(corpus), advance, show)
    return TwoLayerDescent(two_layers, "step", kept, None, method=GD.title, observed=seen, state=state)
