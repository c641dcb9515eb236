"""Which queries are hard, what they select, and the rows (x_selected - x_t) (x) z_i of their problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Constraints
from hardmax.torch.probing.inputs import Bools, Floats, Inputs, Ints

HARD = 2.0  # nats between the selected token and the next: a weight of at least e^2 times any other
QUERIES = 64


@dataclass(frozen=True, eq=False)
class Choices:
    """What every query looks at: the top token, the gap to the next in nats, its weight, the entropy.

    Twins count as one token. Arrays are (S, T); a query that sees fewer than two different tokens has a gap
    of nan.
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
    """Top tokens, gaps and weights of all queries."""
    apart = np.where(inputs.representative[:, None, :], logits, -np.inf)
    top = apart.argmax(axis=2)
    order = np.partition(apart, -2, axis=2) if inputs.length > 1 else np.full((*apart.shape[:2], 2), -np.inf)
    with np.errstate(invalid="ignore"):
        gap = order[..., -1] - order[..., -2]
    gap[~np.isfinite(gap)] = np.nan
    peak = np.where(np.isfinite(order[..., -1:]), order[..., -1:], 0.0)
    weights = np.exp(logits - peak)
    total = weights.sum(axis=2, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
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
        """How many rows."""
        return len(self.query)

    def gram(self) -> Floats:
        """Inner products of the rows."""
        return self.products(self.query, self.plus, self.minus)

    def products(self, query: Ints, plus: Ints, minus: Ints) -> Floats:
        """Inner products of the rows with others; ``minus`` -1 stands for no rival."""
        i, length = self.inputs, self.inputs.length
        sides = (self.query, self.plus, self.minus, query, plus, minus)
        return row_products(*sides, i.token_gram, i.query_gram, i.turn, length)

    def gaps(self, logits: Floats) -> Floats:
        """What a head's bilinear logits (S, T, T) give each row."""
        length = self.inputs.length
        flat = logits.reshape(-1, length)
        return flat[self.query, self.plus % length] - flat[self.query, self.minus % length]

    def of_texts(self, wanted: Bools) -> QueryRows:
        """The rows of some texts."""
        per = self.inputs.length
        kept = wanted[self.query // per]
        queries = self.queries[wanted[self.queries // per]]
        return QueryRows(self.inputs, queries, self.query[kept], self.plus[kept], self.minus[kept])

    def constraints(self) -> Constraints:
        """The rows as outer products, for the exact solver; not those of the lift."""
        i = self.inputs
        table, right = i.x.reshape(-1, i.x.shape[2]), i.z.reshape(-1, i.z.shape[2])
        return Constraints.pairs(table, self.plus, self.minus, right=right, right_of=self.query)


def hard_queries(found: Choices, count: int | None, least: float = HARD) -> Ints:
    """Flat places of the queries with the largest gaps, at most ``count``, none below ``least`` nats."""
    flat = np.where(np.isnan(found.gap), -np.inf, found.gap).ravel()
    order = np.argsort(-flat, kind="stable")
    order = order[(flat[order] >= least) & np.isfinite(flat[order])]
    return np.sort(order[:count])


def rows_of(inputs: Inputs, queries: Ints, selected: Ints) -> QueryRows:
    """All rows of these queries: the selected token (its place in the text) against each other one."""
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
    """(z.z') (dx.dx') of every pair of rows; in the lift each of the four terms has its sum of cosines."""
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
