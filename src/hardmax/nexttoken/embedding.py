"""The same model in embedding space, merged and unmerged (C-DEF-MODEL, Assumption 2).

Any embedding E (d x V) turns weights into tables: A = E' W_kq E, B = W_ov E. By the chain rule gradients go
back as E G E' and G E', so nothing is computed twice. With orthonormal columns the trained weights are
E A E' and B E' themselves, and norms and angles agree with those of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax import _inputs
from hardmax.nexttoken.model import Model
from hardmax.nexttoken.pairs import Floats
from hardmax.nexttoken.samples import Samples


def orthonormal_embedding(V: int, d: int, *, rng: int | np.random.Generator) -> Floats:
    """A random E (d x V) with orthonormal columns; d must be at least V.

    >>> import numpy as np
    >>> from hardmax.nexttoken.embedding import orthonormal_embedding
    >>> E = orthonormal_embedding(3, 5, rng=0)
    >>> bool(np.allclose(E.T @ E, np.eye(3)))
    True
    """
    if d < V:
        raise ValueError(f"d must be at least V = {V} for orthonormal columns, got {d}")
    Q, R = np.linalg.qr(_inputs.generator(rng).standard_normal((d, V)))
    return Q * np.sign(np.diag(R))


@dataclass(frozen=True, eq=False)
class Embedded:
    """Merged weights W_kq (d x d) and W_ov (V x d) with an embedding E (d x V).

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.embedding import Embedded, orthonormal_embedding
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> E = orthonormal_embedding(2, 3, rng=0)
    >>> weights = Embedded(samples, E, np.zeros((3, 3)), np.zeros((2, 3)))
    >>> round(weights.model.loss, 6), weights.gradient_ov.shape
    (0.693147, (2, 3))
    """

    samples: Samples
    E: Floats
    W_kq: Floats
    W_ov: Floats

    @cached_property
    def model(self) -> Model:
        """The tables."""
        return Model.of(self.samples, self.E.T @ self.W_kq @ self.E, self.W_ov @ self.E)

    @property
    def gradient_kq(self) -> Floats:
        """(6), d x d."""
        return self.E @ self.model.gradient_kq @ self.E.T

    @property
    def gradient_ov(self) -> Floats:
        """The gradient of the full loss by W_ov, V x d."""
        return self.model.gradient_ov @ self.E.T


@dataclass(frozen=True, eq=False)
class Unmerged:
    """Weights W_k (d x d1), W_q (d1 x d), W_v (d2 x d), W_o (V x d2) with an embedding E (d x V).

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.embedding import Unmerged, orthonormal_embedding
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> weights = Unmerged.random(samples, orthonormal_embedding(2, 3, rng=0), 2, 2, scale=0.1, rng=1)
    >>> [G.shape for G in weights.gradients]
    [(3, 2), (2, 3), (2, 3), (2, 2)]
    """

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
        draw, d, V = _inputs.generator(rng), len(E), samples.V
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
