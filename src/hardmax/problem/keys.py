"""Keys, which p is compared with: a table of tokens that is stored, known by inner products, or one-hot.

Every dynamic reaches the keys through a few products: logit gaps at p, weighted sums of keys, differences and
their inner products. A new kind of keys is one more class with these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import exponent, find_leaders, isometric_keys, lengths

# Keys with more entries than this are not made dense.
LARGEST = 100_000_000


def _need_room(what: str, entries: int) -> None:
    """Refuse a table that would be too large."""
    if entries > LARGEST:
        raise ValueError(
            f"keys: {what} as a table would have {entries:.2g} entries, more than {LARGEST:.0e}; call a "
            "function that needs no table (hm.gradient, hm.train, hm.loss), or take fewer tokens"
        )


class Keys:
    """A table of N keys of dimension d. Slots are rows of it, listed input by input (tokens, offsets)."""

    kernels: ClassVar[tuple[str, str]] = ("gaps_to_top", "gather")  # of `problem.kernels`

    @property
    def shape(self) -> tuple[int, int]:
        """Number of keys and their dimension, (N, d)."""
        raise NotImplementedError

    @property
    def unknown(self) -> tuple[int, ...]:
        """Shape of p: (d,), or that of a matrix with d entries."""
        return (self.shape[1],)

    @cached_property
    def exponent(self) -> int:
        """The k with 2^(k-1) <= the largest entry < 2^k."""
        return exponent(self.dense())

    @property
    def inner(self) -> np.ndarray | None:
        """(N, N) inner products, where only these are known of the keys."""
        return None

    def dense(self) -> np.ndarray:
        """The table itself, (N, d); refused where it would be too large."""
        raise NotImplementedError

    def over(self, power: int) -> Keys:
        """The keys divided by 2^power."""
        raise NotImplementedError

    def leaders(self, tokens: np.ndarray, offsets: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Return for every slot the first slot of its input with the same key and the same row of marks."""
        raise NotImplementedError

    def _arrays(self, tokens: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the first arguments of both kernels: the keys, and the slots of all inputs."""
        raise NotImplementedError

    def gaps(self, tokens: np.ndarray, offsets: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return logit gaps (k_t - k_top).p <= 0 of every slot, and the top slot of every input."""
        from hardmax.problem import kernels

        gaps, tops = np.empty(len(tokens)), np.empty(len(offsets) - 1, np.intp)
        p = np.ascontiguousarray(p).reshape(self.unknown)
        getattr(kernels, self.kernels[0])(*self._arrays(tokens, offsets), p, gaps, tops)
        return gaps, tops

    def gather(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        tops: np.ndarray,
        weights: np.ndarray,
        log_scale: np.ndarray,
    ) -> tuple[np.ndarray, float]:
        """Return V = sum_i exp(log_scale_i - F) sum_t w_t (k_t - k_top), and F, the exponent taken out."""
        from hardmax.problem import kernels

        V, arrays = np.empty(self.unknown), self._arrays(tokens, offsets)
        common = getattr(kernels, self.kernels[1])(*arrays, tops, weights, log_scale, V)
        return V.reshape(-1), float(common)

    def differences(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """Rows k_plus - k_minus, (m, d)."""
        table = self.dense()
        return np.asarray(table[plus] - table[minus])

    def gram(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """Inner products of the rows k_plus - k_minus, (m, m)."""
        rows = self.differences(plus, minus)
        return np.asarray(rows @ rows.T)

    def along(self, plus: np.ndarray, minus: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(k_plus - k_minus).p of every row, (m,)."""
        return np.asarray(self.differences(plus, minus) @ p)

    def combine(self, plus: np.ndarray, minus: np.ndarray, c: np.ndarray) -> np.ndarray:
        """sum_r c_r (k_plus - k_minus)_r for every row of c (S, m), (S, d).

        Each is the same to the bit whatever the others are.
        """
        rows = self.differences(plus, minus)
        return np.stack([coefficients @ rows for coefficients in c])

    def lags(self, tokens: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the distances of these tokens behind the first along q, and the longest difference to it.

        In units of the largest entry, so that nothing leaves the range of float64.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Dense(Keys):
    """Keys that are stored, one row per token."""

    table: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of keys and their dimension, (N, d)."""
        return self.table.shape[0], self.table.shape[1]

    def dense(self) -> np.ndarray:
        """Return the stored table."""
        return self.table

    def over(self, power: int) -> Dense:
        """Return the keys divided by 2^power."""
        return self if power == 0 else Dense(np.ldexp(self.table, -power))

    def leaders(self, tokens: np.ndarray, offsets: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Compare keys to the last bit."""
        return find_leaders(self.table, tokens, offsets, marks)

    def _arrays(self, tokens: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.table, tokens, offsets

    @cached_property
    def _small(self) -> np.ndarray:
        return np.ldexp(self.table, -self.exponent)

    def lags(self, tokens: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
        """Return (k_t - k_first).q, and the length of the longest k_t - k_first."""
        keys = self._small[tokens]
        top = keys[np.argmax(keys @ q)]
        return (keys - top) @ q, float(np.linalg.norm(keys - top, axis=1).max())


@dataclass(frozen=True, eq=False)
class Gram(Dense):
    """Keys that are known by their inner products; ``table`` is an isometric copy of them."""

    products: np.ndarray

    @classmethod
    def of(cls, gram: Any) -> Gram:
        """The keys with these inner products; a user's matrix may be symmetric up to rounding."""
        gram = expect.finite_array("gram", gram, (None, None))
        if gram.shape[0] != gram.shape[1] or not np.allclose(gram, gram.T, rtol=1e-12, atol=0):
            raise ValueError(f"gram must be a symmetric matrix, got shape {gram.shape}")
        gram = gram if (gram == gram.T).all() else gram / 2 + gram.T / 2
        # Equal rows are one token, and rounding in the eigenvectors must not tell them apart.
        _, first, same = np.unique(gram, axis=0, return_index=True, return_inverse=True)
        return cls(isometric_keys(gram)[first[same.reshape(-1)]], gram)

    @property
    def inner(self) -> np.ndarray | None:
        """The inner products that are known."""
        return self.products

    def over(self, power: int) -> Gram:
        """Inner products go with the square."""
        if power == 0:
            return self
        return Gram(np.ldexp(self.table, -power), np.ldexp(self.products, -2 * power))

    def gram(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """From the inner products, not from the copy."""
        half = self.products[plus] - self.products[minus]
        return np.ascontiguousarray(half[:, plus] - half[:, minus])


@dataclass(frozen=True, eq=False)
class OneHot(Keys):
    """Unit vectors, never stored: the logit of token t is p[t], and a sum of keys adds to one entry each."""

    size: int

    kernels = ("one_hot_gaps", "one_hot_gather")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of keys and their dimension, both N."""
        return self.size, self.size

    @property
    def exponent(self) -> int:
        """The exponent of the entry 1."""
        return 1

    def dense(self) -> np.ndarray:
        """Return the identity matrix."""
        return self._identity

    @cached_property
    def _identity(self) -> np.ndarray:
        _need_room(f"{self.size} one-hot keys", self.size**2)
        table = np.eye(self.size)
        table.setflags(write=False)
        return table

    def over(self, power: int) -> Keys:
        """Return the keys divided by 2^power, which are one-hot for power 0 only."""
        return self if power == 0 else Dense(np.ldexp(self.dense(), -power))

    def leaders(self, tokens: np.ndarray, offsets: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Compare token numbers, as equal tokens have equal keys."""
        return find_leaders(np.arange(float(self.size))[:, None], tokens, offsets, marks)

    def _arrays(self, tokens: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
        return tokens, offsets

    def gram(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """Return the inner products of the rows: 2, 1, 0, -1 or -2."""
        return (
            (plus[:, None] == plus).astype(float)
            + (minus[:, None] == minus)
            - (plus[:, None] == minus)
            - (minus[:, None] == plus)
        )

    def along(self, plus: np.ndarray, minus: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Return p_plus - p_minus of every row."""
        return np.asarray(p[plus] - p[minus])

    def combine(self, plus: np.ndarray, minus: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return the sums of rows by adding each coefficient to two entries."""
        return np.stack([np.bincount(plus, x, self.size) - np.bincount(minus, x, self.size) for x in c])

    def lags(self, tokens: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
        """q_t - q_first; it is sqrt(2) to any other token."""
        lags = 0.5 * (q[tokens] - q[tokens].max())
        return lags, math.sqrt(0.5) if (tokens != tokens[0]).any() else 0.0


ENDS = ("first", "last")  # tokens of an input that can be its query

# Keys up to this many numbers are written out for a compiled loop. Beyond, a step takes longer than Python
# needs to call the kernels of products, which do less.
WRITTEN = 1_000_000


@dataclass(frozen=True, eq=False)
class Products(Keys):
    """Row r is the outer product of ``left[token[r]]`` and ``right[query[r]]``; one query in each input."""

    left: np.ndarray  # (N_x, d_x) tokens
    right: np.ndarray  # (N_z, d_z) queries
    token: np.ndarray  # (N,) row of left
    query: np.ndarray  # (N,) row of right

    kernels = ("product_gaps", "product_gather")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of keys and their dimension, (N, d_x d_z)."""
        return len(self.token), math.prod(self.unknown)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Shape of W, (d_x, d_z)."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def is_large(self) -> bool:
        """Whether loops do without a table of them."""
        return math.prod(self.shape) > WRITTEN

    @cached_property
    def exponent(self) -> int:
        """Of the largest product, which itself may not be a float."""
        tops = (np.abs(table).max(axis=1) for table in (self.left, self.right))
        (x, a), (z, b) = (np.frexp(top) for top in tops)
        part, power = np.frexp(x[self.token] * z[self.query])
        powers = (a[self.token] + b[self.query] + power)[part > 0.0]
        return int(powers.max()) if powers.size else 0

    def dense(self) -> np.ndarray:
        """The table of all products."""
        return self._table

    @cached_property
    def _table(self) -> np.ndarray:
        table = self._written(self.left[self.token], self.right[self.query])
        table.setflags(write=False)
        return table

    def _written(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Outer products of the rows of both, (m, d_x d_z)."""
        d_x, d_z = self.unknown
        _need_room(f"{len(left)} products of {d_x} by {d_z} numbers", len(left) * d_x * d_z)
        return (left[:, :, None] * right[:, None, :]).reshape(len(left), d_x * d_z)

    def over(self, power: int) -> Products:
        """The queries are brought to size one, the tokens take the rest."""
        if power == 0:
            return self
        part = exponent(self.right)
        left, right = np.ldexp(self.left, part - power), np.ldexp(self.right, -part)
        return Products(left, right, self.token, self.query)

    def leaders(self, tokens: np.ndarray, offsets: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Equal tokens to the last bit; with a query of zero all keys of an input are zero."""
        first = np.repeat(tokens[offsets[:-1]], np.diff(offsets))
        silent = (self.right == 0.0).all(axis=1)[self.query[tokens]]
        return find_leaders(self.left, self.token[np.where(silent, first, tokens)], offsets, marks)

    def _arrays(self, tokens: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.left, self.right, self.token[tokens], self.query[tokens[offsets[:-1]]], offsets

    def differences(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """Differences of tokens are taken first, so that nothing cancels; then they are multiplied."""
        return np.asarray(sum(self._written(left, right) for left, right in self._parts(plus, minus)))

    def gram(self, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
        """Products of two Gram matrices, of tokens and of queries, at the cost of d_x + d_z an entry."""
        a, b = exponent(self.left), exponent(self.right)
        parts = Products(np.ldexp(self.left, -a), np.ldexp(self.right, -b), self.token, self.query)._parts(
            plus, minus
        )
        inner = sum((x @ y.T) * (z @ w.T) for x, z in parts for y, w in parts)
        return np.ldexp(inner, 2 * (a + b))

    def along(self, plus: np.ndarray, minus: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(x_plus - x_minus).Wz of every row."""
        W = p.reshape(self.unknown)
        return np.asarray(sum(np.einsum("ij,ij->i", x @ W, z) for x, z in self._parts(plus, minus)))

    def combine(self, plus: np.ndarray, minus: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Each as one matrix product."""
        parts = self._parts(plus, minus)
        sums = [sum((x.T * row) @ z for x, z in parts) for row in c]
        return np.reshape(sums, (len(c), self.shape[1]))

    def _parts(self, plus: np.ndarray, minus: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of tables whose outer products, row by row, sum to k_plus - k_minus.

        Tokens of one input have one query z, and one pair is enough: x z' - y z' = (x - y) z'. Else
        x z' - y w' = (x - y) z' + y (z - w)'.
        """
        x, y = self.left[self.token[plus]], self.left[self.token[minus]]
        z, w = self.query[plus], self.query[minus]
        parts = [(x - y, self.right[z])]
        if (z != w).any():
            parts.append((y, self.right[z] - self.right[w]))
        return parts

    def lags(self, tokens: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
        """(x_t - x_first).Qz, and the longest (x_t - x_first) z'."""
        x = np.ldexp(self.left, -exponent(self.left))[self.token[tokens]]
        z = np.ldexp(self.right, -exponent(self.right))[self.query[tokens[0]]]
        view = q.reshape(self.unknown) @ z
        x = x - x[np.argmax(x @ view)]
        return x @ view, float(lengths(x).max() * lengths(z))


def outer_products(x: np.ndarray, offsets: np.ndarray, queries: Any) -> Products:
    """Keys of tokens x, listed input by input, with a query for each input; equal rows are stored once."""
    n, sizes = len(offsets) - 1, np.diff(offsets)
    if isinstance(queries, str):
        if queries not in ENDS:
            raise ValueError(
                f'queries must be "first", "last" or {n} vectors, one for each input, got {queries!r:.60}'
            )
        z = x[offsets[:-1] if queries == "first" else offsets[1:] - 1]
    else:
        z = expect.finite_array("queries", queries, (None, None))
        if len(z) != n or not z.shape[1]:
            raise ValueError(
                f"queries must be {n} vectors, one for each input, got {len(z)} of {z.shape[1]} numbers; an "
                "input that is seen with several queries is given once for each"
            )
    (left, token), (right, query) = _once(x), _once(z)
    return Products(left, right, token, np.repeat(query, sizes))


def _once(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows without repetitions, to the bit, and the place of every row among them."""
    places: dict[bytes, int] = {}
    which = np.array([places.setdefault(row.tobytes(), len(places)) for row in rows], dtype=np.intp)
    distinct = rows[np.unique(which, return_index=True)[1]]
    for array in (distinct, which):
        array.setflags(write=False)
    return distinct, which
