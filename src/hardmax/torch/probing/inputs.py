"""Inputs and choices of a head: tokens, queries, factors of W, hard queries and their rows.

The logit of token t is x_t . W z_i. A batch holds S texts of at most T tokens. The key bias adds the same to
all logits of a query and drops out; the query bias enters by z -> (z, 1). Nothing here forms W: logits need
its factors, margins the inner products of tokens and of queries. A row is (x_selected - x_t) (x) z_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Constraints

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

TWINS = 1e-5  # tokens nearer than this share of their length are one token: models are float32


@dataclass(frozen=True, eq=False)
class Inputs:
    """Tokens and queries of a layer (of a head where positions rotate), shared by the heads.

    ``x`` (S, T, d), ``z`` (S, T, e); ``visible[s, i, t]``: query i of text s may attend to token t. With
    ``angles``, rows are those of the lift x (x) z (x) (cos, sin of theta_f (i - t)).
    """

    x: Floats
    z: Floats
    visible: Bools
    angles: Floats | None = None

    @cached_property
    def inner(self) -> Inputs:
        """The inputs without the first token and without the query's own."""
        place = np.arange(self.length)
        inner = replace(self, visible=self.visible & (place > 0) & (place[:, None] != place))
        for shared in ("token_gram", "query_gram", "twin", "whitened"):  # tokens and queries are the same
            inner.__dict__[shared] = getattr(self, shared)
        return inner

    @property
    def texts(self) -> int:
        """Number of texts S."""
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
        visible = self.visible.any(axis=1).ravel()
        flat = (flat - flat[visible].mean(axis=0)) * visible[:, None]
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
            distance = np.linalg.norm(x[:, None] - x[None], axis=2)
            near = distance <= TWINS * np.maximum(size[:, None], size[None])
            first[s] = near.argmax(axis=1)
        return first

    @cached_property
    def representative(self) -> Bools:
        """(S, T): tokens that represent themselves and their later twins."""
        return self.twin == np.arange(self.length)

    @cached_property
    def whitened(self) -> tuple[Floats, Floats, Floats, Bools]:
        """Z = 1 mean' + U B over all queries: mean, orthonormal U (N, r), B (r, e), and where queries are."""
        there = np.asarray(self.visible.any(axis=2))
        flat = self.z[there]
        mean = flat.mean(axis=0)
        U, s, Vt = np.linalg.svd(flat - mean, full_matrices=False)
        large = s > 1e-7 * s[0]
        return mean, np.ascontiguousarray(U[:, large]), s[large, None] * Vt[large], there


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """One head: W = W_K' W_Q by its factors, ``scale`` inside W_Q, and fixed terms of the logits.

    ``offsets[s, i, t]`` are additive position terms. A head that is not bilinear in x and z (its queries or
    keys are normalized) has the logarithms of its weights as logits, and only its hardness is known.
    """

    inputs: Inputs
    key_factor: Floats  # W_K (h, d)
    query_factor: Floats  # scale W_Q (h, e)
    offsets: Floats | None = None
    logits_of_weights: Floats | None = None  # of a head that is not bilinear
    why: str = ""  # it is not
    weights: tuple[Floats, Floats] | None = None  # factors of the matrix whose norms are reported, if another

    @cached_property
    def keys(self) -> Floats:
        """W_K x, (S, T, h)."""
        return self.inputs.x @ self.key_factor.T

    @cached_property
    def logits(self) -> Floats:
        """(S, T, T), -inf at hidden tokens."""
        if self.logits_of_weights is not None:
            return np.where(self.inputs.visible, self.logits_of_weights, -np.inf)
        return self.masked(self.bilinear(self.inputs.z @ self.query_factor.T))

    @property
    def inner(self) -> HeadWeights:
        """The head on texts without their first token and without the query's own."""
        inner = replace(self, inputs=self.inputs.inner)
        inner.__dict__["keys"] = self.keys
        return inner

    def masked(self, bilinear: Floats) -> Floats:
        """Compute logits from their bilinear part: add position terms, and -inf at hidden tokens."""
        logits = bilinear if self.offsets is None else bilinear + self.offsets
        return np.where(self.inputs.visible, logits, -np.inf)

    def bilinear(self, queries: Floats) -> Floats:
        """Compute q_i . k_t, the bilinear part of the logits; in the lift, rotated by the distance."""
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
    """Compute the singular values of key' query by QR of both factors; the product is never formed."""
    left, right = np.asarray(np.linalg.qr(key.T, mode="r")), np.asarray(np.linalg.qr(query.T, mode="r"))
    R = left @ right.T
    return np.asarray(np.linalg.svd(R, compute_uv=False))


def softmax(logits: Floats, peak: Floats | None = None) -> Floats:
    """Compute the weights of logits (S, T, T); zero if all tokens are hidden."""
    peak = logits.max(axis=2, keepdims=True) if peak is None else peak
    weights = np.exp(logits - np.where(np.isfinite(peak), peak, 0.0))
    total = weights.sum(axis=2, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def turned(vectors: Floats, position: Floats) -> Floats:
    """Rotate vectors (S, T, h) in the planes (f, f + h/2) by the angles (T, h/2); the rest of h stays."""
    half = position.shape[1]
    a, b, rest = vectors[..., :half], vectors[..., half : 2 * half], vectors[..., 2 * half :]
    c, s = np.cos(position), np.sin(position)
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)


HARD = 2.0  # nats between the selected token and the next: a weight of at least e^2 times any other
QUERIES = 64


@dataclass(frozen=True, eq=False)
class Choices:
    """The choice of every query: its top token, the gap to the next in nats, its weight, the entropy.

    Twins count as one token. Arrays are (S, T); the gap of a query with fewer than two
    different tokens is nan.
    """

    top: Ints
    gap: Floats
    mass: Floats
    entropy: Floats
    weights: Floats  # (S, T, T): the attention

    @cached_property
    def measured(self) -> Bools:
        """(S, T): queries with something to choose."""
        return ~np.isnan(self.gap)


def choices(inputs: Inputs, logits: Floats) -> Choices:
    """Find top tokens, gaps and weights of all queries."""
    single = np.where(inputs.representative[:, None, :], logits, -np.inf)
    top = single.argmax(axis=2)
    order = (
        np.partition(single, -2, axis=2) if inputs.length > 1 else np.full((*single.shape[:2], 2), -np.inf)
    )
    with np.errstate(invalid="ignore"):
        gap = order[..., -1] - order[..., -2]
    gap[~np.isfinite(gap)] = np.nan
    weights = softmax(logits, order[..., -1:])
    grouped = weights
    if not inputs.representative.all():
        grouped = np.zeros_like(weights)
        for s in range(inputs.texts):
            np.add.at(grouped[s].T, inputs.twin[s], weights[s].T)
    mass = np.take_along_axis(grouped, top[..., None], axis=2)[..., 0]
    entropy = -np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1.0)), 0.0).sum(axis=2)
    return Choices(top, gap, mass, entropy, weights)


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Rows of chosen queries: query, selected token and rival of each, as places in the flattened batch."""

    inputs: Inputs
    queries: Ints  # chosen queries, flat places
    query: Ints  # of each row
    plus: Ints
    minus: Ints

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.query)

    def gram(self) -> Floats:
        """Compute inner products of the rows."""
        return self.products(self.query, self.plus, self.minus)

    def products(self, query: Ints, plus: Ints, minus: Ints) -> Floats:
        """Compute inner products of the rows with others; ``minus`` -1 means no rival."""
        i, sides = self.inputs, (self.query, self.plus, self.minus, query, plus, minus)
        return row_products(*sides, i.token_gram, i.query_gram, i.turn, i.length)

    def gaps(self, logits: Floats) -> Floats:
        """Compute the gap of each row from bilinear logits (S, T, T)."""
        length = self.inputs.length
        flat = logits.reshape(-1, length)
        return flat[self.query, self.plus % length] - flat[self.query, self.minus % length]

    def of_texts(self, texts: Bools) -> QueryRows:
        """Return the rows of some texts."""
        rows = texts[self.query // self.inputs.length]
        queries = self.queries[texts[self.queries // self.inputs.length]]
        return QueryRows(self.inputs, queries, self.query[rows], self.plus[rows], self.minus[rows])

    def constraints(self) -> Constraints:
        """Return the rows as outer products, for the exact solver; the lift has none."""
        i = self.inputs
        table, right = i.x.reshape(-1, i.x.shape[2]), i.z.reshape(-1, i.z.shape[2])
        return Constraints.pairs(table, self.plus, self.minus, right=right, right_of=self.query)


def hard_queries(choice: Choices, count: int | None, least: float = HARD) -> Ints:
    """Return flat places of the queries with the largest gaps, at most ``count``, of at least ``least``."""
    flat = np.where(np.isnan(choice.gap), -np.inf, choice.gap).ravel()
    order = np.argsort(-flat, kind="stable")
    order = order[(flat[order] >= least) & np.isfinite(flat[order])]
    return np.sort(order[:count])


def rows_of(inputs: Inputs, queries: Ints, selected: Ints) -> QueryRows:
    """Make all rows of these queries: the selected token (its place in the text) against each other one."""
    length = inputs.length
    text = queries // length
    rivals = inputs.visible.reshape(-1, length)[queries] & inputs.representative[text]
    rivals[np.arange(len(queries)), selected] = False
    which, rival = np.nonzero(rivals)
    base = text[which] * length
    return QueryRows(inputs, queries, queries[which], base + selected[which], base + rival)


@kernel()
def row_products(
    query: Ints,
    plus: Ints,
    minus: Ints,
    query2: Ints,
    plus2: Ints,
    minus2: Ints,
    X: Floats,
    Z: Floats,
    turn: Floats,
    length: int,
) -> Floats:
    """Compute (z.z') (dx.dx') of every pair of rows; in the lift four terms have their sums of cosines."""
    out = np.empty((query.size, query2.size))
    middle = turn.size // 2
    for r in range(query.size):
        q, p, m = query[r], plus[r], minus[r]
        for c in range(query2.size):
            u, v, w = query2[c], plus2[c], minus2[c]
            if turn.size == 0:
                total = X[p, v] - X[m, v]
                if w >= 0:
                    total -= X[p, w] - X[m, w]
            else:
                near, far = q % length - p % length, q % length - m % length
                to = u % length - v % length
                total = X[p, v] * turn[middle + near - to] - X[m, v] * turn[middle + far - to]
                if w >= 0:
                    to = u % length - w % length
                    total -= X[p, w] * turn[middle + near - to] - X[m, w] * turn[middle + far - to]
            out[r, c] = Z[q, u] * total
    return out
