"""What a head sees: tokens x, queries z and the factors of W, so that the logit of token t is x_t . W z_i.

A batch holds S texts of at most T tokens. The key bias adds the same to all logits of a query and drops out;
the query bias enters by z -> (z, 1). Nothing here forms W: logits need its factors, margins the inner
products of tokens and of queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

TWINS = 1e-5  # tokens nearer than this share of their length are one token: models are float32


@dataclass(frozen=True, eq=False)
class Inputs:
    """Tokens and queries of a layer (of a head where positions rotate), shared by what looks at them.

    ``x`` (S, T, d), ``z`` (S, T, e); ``visible[s, i, t]``: query i of text s may look at token t. Where
    ``angles`` are given, rows are those of the lift x (x) z (x) (cos, sin of theta_f (i - t)).
    """

    x: Floats
    z: Floats
    visible: Bools
    angles: Floats | None = None

    @cached_property
    def inner(self) -> Inputs:
        """The same without the first token and without the query's own: what a head does besides."""
        place = np.arange(self.length)
        kept = self.visible & (place > 0) & (place[:, None] != place)
        made = replace(self, visible=kept)
        for shared in ("token_gram", "query_gram", "twin", "whitened"):  # tokens and queries are the same
            made.__dict__[shared] = getattr(self, shared)
        return made

    @property
    def texts(self) -> int:
        """How many texts S."""
        return len(self.x)

    @property
    def length(self) -> int:
        """The longest text, T tokens."""
        return self.x.shape[1]

    @cached_property
    def token_gram(self) -> Floats:
        """Inner products of all tokens, less their mean: only differences matter, except in the lift."""
        flat = self.x.reshape(-1, self.x.shape[2])
        if self.angles is not None:
            return np.ascontiguousarray(flat @ flat.T)
        seen = self.visible.any(axis=1).ravel()
        flat = (flat - flat[seen].mean(axis=0)) * seen[:, None]
        return np.ascontiguousarray(flat @ flat.T)

    @cached_property
    def query_gram(self) -> Floats:
        """Inner products of all queries."""
        flat = self.z.reshape(-1, self.z.shape[2])
        return np.ascontiguousarray(flat @ flat.T)

    @cached_property
    def turn(self) -> Floats:
        """sum_f cos(theta_f delta) for delta = -2T..2T, of the lift; empty without angles."""
        if self.angles is None:
            return np.empty(0)
        delta = np.arange(-2 * self.length, 2 * self.length + 1)
        return np.cos(delta[:, None] * self.angles).sum(axis=1)

    @cached_property
    def twin(self) -> Ints:
        """(S, T): the first token of the text that this one equals, mostly itself."""
        first = np.tile(np.arange(self.length), (self.texts, 1))
        if self.angles is not None:  # equal tokens at different distances are different rows
            return first
        for s in range(self.texts):
            x = self.x[s]
            size = np.linalg.norm(x, axis=1)
            apart = np.linalg.norm(x[:, None] - x[None], axis=2)
            near = apart <= TWINS * np.maximum(size[:, None], size[None])
            first[s] = near.argmax(axis=1)
        return first

    @cached_property
    def representative(self) -> Bools:
        """(S, T): tokens that stand for themselves and their later twins."""
        return self.twin == np.arange(self.length)

    @cached_property
    def whitened(self) -> tuple[Floats, Floats, Floats, Bools]:
        """Z = 1 mean' + U B over all queries: mean, orthonormal U (N, r), B (r, e), and where they stand."""
        there = np.asarray(self.visible.any(axis=2))
        flat = self.z[there]
        mean = flat.mean(axis=0)
        U, s, Vt = np.linalg.svd(flat - mean, full_matrices=False)
        kept = s > 1e-7 * s[0]
        return mean, np.ascontiguousarray(U[:, kept]), s[kept, None] * Vt[kept], there


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """One head: W = W_K' W_Q by its factors, ``scale`` inside W_Q, and fixed terms of the logits.

    ``offsets[s, i, t]`` are additive position terms. A head that is not bilinear in x and z (its queries or
    keys are normalised) has the logits given, and only its hardness is known.
    """

    inputs: Inputs
    key_factor: Floats  # W_K (h, d)
    query_factor: Floats  # scale W_Q (h, e)
    offsets: Floats | None = None
    given: Floats | None = None  # logits of a head that is not bilinear
    why: str = ""  # it is not
    weights: tuple[Floats, Floats] | None = None  # factors of the matrix whose norms are told, if another

    @cached_property
    def keys(self) -> Floats:
        """W_K x, (S, T, h)."""
        return self.inputs.x @ self.key_factor.T

    @cached_property
    def logits(self) -> Floats:
        """(S, T, T), -inf where a query cannot look."""
        if self.given is not None:
            return np.where(self.inputs.visible, self.given, -np.inf)
        return self.masked(self.bilinear(self.inputs.z @ self.query_factor.T))

    @property
    def inner(self) -> HeadWeights:
        """The head on texts without their first token and without the query's own."""
        made = replace(self, inputs=self.inputs.inner)
        made.__dict__["keys"] = self.keys
        return made

    def masked(self, bilinear: Floats) -> Floats:
        """Logits from their bilinear part: with the position terms, -inf where a query cannot look."""
        logits = bilinear if self.offsets is None else bilinear + self.offsets
        return np.where(self.inputs.visible, logits, -np.inf)

    def bilinear(self, queries: Floats) -> Floats:
        """q_i . k_t, the part that W makes; with the lift, turned by their distance."""
        keys = self.keys
        if self.inputs.angles is None:
            return queries @ keys.transpose(0, 2, 1)
        position = np.arange(self.inputs.length)[:, None] * self.inputs.angles
        return turned(queries, position) @ turned(keys, position).transpose(0, 2, 1)

    @cached_property
    def norms(self) -> dict[str, float]:
        """Frobenius, nuclear and spectral norm of W, without the rotation where there is one."""
        values = singular_values(*(self.weights or (self.key_factor, self.query_factor)))
        return {
            "frobenius": float(np.linalg.norm(values)),
            "nuclear": float(values.sum()),
            "spectral": float(values[0]),
        }

    @cached_property
    def nuclear(self) -> float:
        """The nuclear norm of the matrix that its max-margin problem is about."""
        return float(singular_values(self.key_factor, self.query_factor).sum())


def singular_values(key: Floats, query: Floats) -> Floats:
    """Those of key' query that are not zero by its shape, by QR of both: the product is never formed."""
    left, right = np.asarray(np.linalg.qr(key.T, mode="r")), np.asarray(np.linalg.qr(query.T, mode="r"))
    R = left @ right.T
    return np.asarray(np.linalg.svd(R, compute_uv=False))


def turned(vectors: Floats, position: Floats) -> Floats:
    """Vectors (S, T, h) rotated in the planes (f, f + h/2) by the angles (T, h/2); the rest of h stays."""
    half = position.shape[1]
    a, b, rest = vectors[..., :half], vectors[..., half : 2 * half], vectors[..., 2 * half :]
    c, s = np.cos(position), np.sin(position)
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)
