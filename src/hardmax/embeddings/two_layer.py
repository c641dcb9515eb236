"""The two-layer model, equation (36): self-attention, residual and LayerNorm below the one-layer model.

Equal tokens of a sequence have equal rows, so a sequence is its distinct tokens with their counts m
(A-DEF-5):

    H[r, s] = m_s exp(E_r.E_s) / sum,  Z = (I + H) E,  E' = LayerNorm(Z),  f = softmax(E' p + log m) . E' v.

The closed-form gradient is A-DEF-6. Its cost per sequence is the square of the number of distinct tokens
times d.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.one_layer import LOGISTIC, gaps_to_heaviest, read_vectors, settle_slots


class TwoLayerGradients(NamedTuple):
    """Predictions, loss, and its gradients; those by gain and bias are empty where there is none.

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> found = hm.embeddings.TwoLayer().gradients(corpus, np.eye(3), [1, 0, 0], [1, 0, -1])
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

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> hm.embeddings.TwoLayer().predict(corpus, np.eye(3), [0, 0, 0], [1, 0, -1]).round(4).tolist()
    [1.3147, -1.3147]
    """

    epsilon: float = 1e-5
    gain: np.ndarray | None = None  # (d,)
    bias: np.ndarray | None = None  # (d,)

    def __post_init__(self) -> None:
        expect.positive("epsilon", self.epsilon)

    def predict(self, corpus: Corpus, E: Any, p: Any, v: Any) -> np.ndarray:
        """f of every sequence.

        >>> import numpy as np, hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 1, 1]], [1])
        >>> hm.embeddings.TwoLayer().predict(corpus, np.eye(2), [0, 0], [1, 0]).round(4).tolist()
        [-0.3333]
        """
        E, p, v = read_vectors(corpus, E, p, v)
        self._affine(E.shape[1])
        return np.array([layer.f for layer in self._layers(corpus, E, p, v)])

    def gradients(self, corpus: Corpus, E: Any, p: Any, v: Any) -> TwoLayerGradients:
        """Predictions, loss and gradients over the whole corpus (A-DEF-6).

        >>> import numpy as np, hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> round(hm.embeddings.TwoLayer().gradients(corpus, np.eye(3), [0, 0, 0], [1, 0, -1]).loss, 4)
        0.2379
        """
        E, p, v = read_vectors(corpus, E, p, v)
        gain, _ = self._affine(E.shape[1])
        by_E, by_p, by_v = np.zeros_like(E), np.zeros_like(p), np.zeros_like(v)
        by_gain, by_bias = np.zeros_like(p), np.zeros_like(p)
        f = np.empty(corpus.n)
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
            by_K = layer.H * (inner - (layer.H * inner).sum(axis=1, keepdims=True))
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
        for k in range(corpus.n):
            slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
            tokens, counts, y = corpus.tokens[slots], corpus.weights[slots], corpus.signs[k]
            rows = E[tokens]
            H = row_softmax(rows @ rows.T, counts)
            Z = rows + H @ rows
            sigma = np.sqrt(Z.var(axis=1, keepdims=True) + self.epsilon)
            normal = (Z - Z.mean(axis=1, keepdims=True)) / sigma
            output = normal * gain + bias
            whole = np.array([0, len(tokens)])
            gaps, tops = np.empty(len(tokens)), np.empty(1, np.intp)
            gaps_to_heaviest(output @ p, corpus.log_counts[slots], whole, gaps, tops)
            weights, u, log_scale, log_mass = settle_slots(gaps, tops, y * (output @ v), whole)
            log_g = -float(LOGISTIC.value(-u[0]))
            # log_scale is -inf where all values are equal, and the weights are zero then.
            A = -math.exp(log_g + log_scale[0]) * weights
            C = -y * np.exp(gaps - log_mass[0] + log_g)
            yield _Layer(tokens, rows, H, sigma, normal, output, y * u[0], A, C)


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


def row_softmax(K: np.ndarray, counts: np.ndarray) -> np.ndarray:
    weights = counts * np.exp(K - K.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
