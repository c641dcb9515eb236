"""The two-layer model by inner products: d is only a number in its LayerNorm (A-RED-6).

Beside the rows of E, p and v the LayerNorm needs the unit vector u along (1, ..., 1): centring a row removes
its component along u, and its variance is the squared length that is left, over d. Every row of the network
is then a combination of the stack W = [E; p; v; u], and so is every gradient: W <- (I - rate B) W gives
G <- (I - rate B) G (I - rate B)' for G = W W'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.gram import GramState, read_names
from hardmax.embeddings.minibatch.result import two_layers
from hardmax.embeddings.one_layer import Evaluation, evaluate
from hardmax.embeddings.two_layer import row_softmax
from hardmax.train.run import Run
from hardmax.train.schedule import take_steps
from hardmax.train.steps import GD


@dataclass(frozen=True, eq=False)
class TwoLayerGram:
    """Inner products of the stack [E; p; v; u], with u = (1, ..., 1)/sqrt(d), and the LayerNorm's numbers.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram
    >>> state = TwoLayerGram.from_vectors([[3, 4], [0, 1]], p=[1, 0], v=[0, 1])
    >>> state.G.shape, state.d, (state.G[:2, -1] ** 2).round(12).tolist()
    ((5, 5), 2, [24.5, 0.5])
    """

    G: np.ndarray  # (S + 3, S + 3)
    d: int
    epsilon: float = 1e-5

    @classmethod
    def from_vectors(cls, E: Any, p: Any, v: Any, epsilon: float = 1e-5) -> TwoLayerGram:
        """The inner products of given vectors.

        >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram
        >>> TwoLayerGram.from_vectors([[1, 2]], [1, 0], [0, 1]).S
        1
        """
        E = expect.finite_array("E", E, (None, None))
        d = E.shape[1]
        p, v = (expect.finite_array(name, x, (d,)) for name, x in (("p", p), ("v", v)))
        W = np.vstack([E, p, v, np.full(d, 1.0 / math.sqrt(d))])
        return cls(W @ W.T, d, expect.positive("epsilon", epsilon))

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
        >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1]).predict(corpus).round(4).tolist()
        [1.3147, -1.3147]
        """
        return self._forward(corpus)[1].f

    def loss(self, corpus: Corpus) -> float:
        """The logistic loss.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> round(TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1]).loss(corpus), 4)
        0.2379
        """
        return self._forward(corpus)[1].loss

    def step(self, corpus: Corpus, rate: float, train: Iterable[str] = ("E", "p", "v")) -> TwoLayerGram:
        """One gradient step on what ``train`` names, all at once.

        >>> import numpy as np, hardmax as hm
        >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram
        >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
        >>> state = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
        >>> state.step(corpus, 0.1).loss(corpus) < state.loss(corpus)
        True
        """
        names, rate = read_names(train), expect.positive("rate", rate)
        return self._advanced(*self._forward(corpus), rate, names)

    def _forward(self, corpus: Corpus) -> tuple[list[_Layer], Evaluation]:
        """The first layer by sequences, and the head on all slots at once, each a token of its own."""
        if corpus.S != self.S:
            raise ValueError(f"corpus must have the {self.S} tokens of the state, got {corpus.S}")
        layers = [self._layer(corpus, k) for k in range(corpus.n)]
        a, c = (
            np.concatenate([layer.rows @ self.G[:, column] for layer in layers])
            for column in (self.S, self.S + 1)
        )
        apart = replace(corpus, tokens=np.arange(corpus.nnz), S=corpus.nnz, vocabulary=None)
        return layers, evaluate(apart, a, c)

    def _layer(self, corpus: Corpus, k: int) -> _Layer:
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens = corpus.tokens[slots]
        H = row_softmax(self.G[np.ix_(tokens, tokens)], corpus.weights[slots])
        J = np.zeros((len(tokens), len(self.G)))
        J[:, tokens] = np.eye(len(tokens)) + H
        J[:, -1] = -(J @ self.G[:, -1])
        sigma = np.sqrt(np.einsum("ri,ri->r", J @ self.G, J) / self.d + self.epsilon)[:, None]
        return _Layer(slots, tokens, H, sigma, J / sigma)

    def _advanced(
        self, layers: list[_Layer], point: Evaluation, rate: float, names: frozenset[str]
    ) -> TwoLayerGram:
        S, G = self.S, self.G
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
                by_K = layer.H * (inner - (layer.H * inner).sum(axis=1, keepdims=True))
                back += layer.H.T @ back
                back[:, layer.tokens] += by_K + by_K.T
                B[layer.tokens] += back
        for row, name in ((S, "p"), (S + 1, "v")):
            if name not in names:
                B[row] = 0.0
        move = np.eye(len(G)) - rate * B
        after = move @ G @ move.T
        return replace(self, G=0.5 * (after + after.T))


class _Layer(NamedTuple):
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
    >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram, descend_two_layer
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> start = TwoLayerGram.from_vectors(np.eye(3), [0, 0, 0], [1, 0, -1])
    >>> bool(descend_two_layer(corpus, start, steps=50, rate=0.5).losses[-1] < 0.05)
    True
    """

    state: TwoLayerGram = field(kw_only=True)

    @property
    def norm(self) -> float:
        """|p| at the end."""
        return self.state.one_layer.p_norm

    @property
    def final(self) -> np.ndarray:
        """p at the end, in coordinates where E, p and v have these inner products."""
        return self.state.one_layer.vectors()[1]


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
    >>> from hardmax.embeddings.two_layer_gram import TwoLayerGram, descend_two_layer
    >>> corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    >>> start = TwoLayerGram.from_vectors(*hm.embeddings.initial_vectors(corpus.S, 50, rng=1))
    >>> descend_two_layer(corpus, start, steps=4, rate=0.1, record=2).times.tolist()
    [0, 2, 4]
    """
    names = read_names(train)
    steps, rate = expect.whole("steps", steps), expect.positive("rate", rate)

    def see(at: TwoLayerGram) -> tuple[tuple[list[_Layer], Evaluation], dict[str, Any]]:
        found = at._forward(corpus)
        return found, {"losses": found[1].loss, "norms": at.one_layer.p_norm}

    def advance(at: TwoLayerGram, found: tuple[list[_Layer], Evaluation]) -> TwoLayerGram:
        return at._advanced(*found, rate, names)

    state, kept, seen = take_steps(steps, record, state, see, advance)
    return TwoLayerDescent(two_layers, "step", kept, None, method=GD.title, observed=seen, state=state)
