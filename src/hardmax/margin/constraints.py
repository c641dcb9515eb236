"""The one constraint form behind every hard-margin problem of the three papers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Label = tuple[Hashable, ...]
MOST_ENTRIES = 10**8  # of a dense matrix made from rows that are stored without one


def _finite(name: str, value: ArrayLike, ndim: int) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != ndim:
        raise ValueError(f"{name} must be an array with {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers, got {array[~np.isfinite(array)][0]}")
    return array


def _index(name: str, value: ArrayLike, lowest: int, count: int) -> Ints:
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)
    if array.size and (array.min() < lowest or array.max() >= count):
        raise ValueError(f"{name} must be indices in {lowest}..{count - 1}, got {array.min()}..{array.max()}")
    return array


@dataclass(frozen=True, eq=False)
class Constraints:
    """Minimize |p| subject to ``row_j . p >= h_j``, or ``row_j . p = h_j`` where ``equal[j]``.

    A row is a pair of tokens, ``table[plus] - table[minus]`` (``minus = -1`` is the zero vector), or
    the outer product of such a pair with ``right[right_of]`` when the unknown is a matrix W. If only the
    tokens' Gram matrix is known, ``table`` is None and the solution comes back as coefficients of the rows.
    A table made from a Gram matrix keeps it as ``origin``: where rounding leaves a doubt, it decides.
    Tokens that are unit vectors, one per entry of the unknown, are not stored: ``entries`` is its shape.
    Pairs are kept because they are exact: a rounded difference of two keys is another problem.

    >>> import hardmax as hm
    >>> c = hm.Constraints.pairs([[1.0, 0.0], [0.0, 0.0]], plus=[0], minus=[1], labels=[(0, 1)])
    >>> c.rows()
    array([[1., 0.]])
    """

    table: Floats | None
    plus: Ints
    minus: Ints
    h: Floats
    equal: Bools
    right: Floats | None = None
    right_of: Ints | None = None
    token_gram: Floats | None = None
    labels: tuple[Label, ...] | None = None
    origin: Floats | None = None
    entries: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"Constraints(rows={len(self.plus)})"

    @staticmethod
    def pairs(
        table: ArrayLike,
        plus: ArrayLike,
        minus: ArrayLike,
        h: ArrayLike | None = None,
        equal: ArrayLike = False,
        right: ArrayLike | None = None,
        right_of: ArrayLike | None = None,
        labels: Sequence[Label] | None = None,
    ) -> Constraints:
        """Rows ``table[plus] - table[minus]``, times ``right[right_of]`` for an unknown matrix.

        Bounds ``h`` are >= 0 on inequalities and of any sign on equalities; if absent, 1 and 0.

        >>> import hardmax as hm
        >>> hm.Constraints.pairs([[1.0], [3.0]], plus=[1, 0], minus=[0, -1]).rows().tolist()
        [[2.0], [1.0]]
        """
        tokens = _finite("table", table, 2)
        rows = replace(_checked(len(tokens), plus, minus, h, equal, labels), table=tokens)
        if (right is None) != (right_of is None):
            raise ValueError("right, right_of must be both given or neither, got one of them")
        if right is None or right_of is None:
            return rows
        factors = _finite("right", right, 2)
        which = _index("right_of", right_of, 0, len(factors))
        if len(which) != rows.count:
            raise ValueError(f"right_of must have one index per row ({rows.count}), got {len(which)}")
        return replace(rows, right=factors, right_of=which)

    @staticmethod
    def dense(
        M: ArrayLike, h: ArrayLike = 1.0, E: ArrayLike | None = None, labels: Sequence[Label] | None = None
    ) -> Constraints:
        """Rows ``M p >= h``, and below them the rows ``E p = 0``.

        >>> import hardmax as hm
        >>> hm.Constraints.dense([[2.0, 0.0]], E=[[0.0, 1.0]]).equal.tolist()
        [False, True]
        """
        rows = _finite("M", M, 2)
        bounds = _finite("h", h, min(np.ndim(h), 1))
        bounds = np.broadcast_to(bounds, len(rows)) if bounds.ndim == 0 else bounds
        if len(bounds) != len(rows):
            raise ValueError(f"h must have one bound per row of M ({len(rows)}), got {len(bounds)}")
        ties = np.zeros((0, rows.shape[1])) if E is None else _finite("E", E, 2)
        if len(ties):
            if ties.shape[1] != rows.shape[1]:
                raise ValueError(f"E must have {rows.shape[1]} columns as in M, got {ties.shape[1]}")
            rows = np.vstack([rows, ties])
            bounds = np.concatenate([bounds, np.zeros(len(ties))])
        every = np.arange(len(rows))
        equal = every >= len(rows) - len(ties)
        return Constraints.pairs(rows, every, np.full(len(rows), -1), bounds, equal, labels=labels)

    @staticmethod
    def from_gram(
        gram: ArrayLike,
        plus: ArrayLike,
        minus: ArrayLike,
        h: ArrayLike | None = None,
        equal: ArrayLike = False,
        labels: Sequence[Label] | None = None,
    ) -> Constraints:
        """Rows ``token[plus] - token[minus]`` of tokens known by their inner products only.

        >>> import hardmax as hm
        >>> hm.Constraints.from_gram([[1.0, 0.0], [0.0, 1.0]], plus=[0], minus=[1]).gram()
        array([[2.]])
        """
        inner = _finite("gram", gram, 2)
        if inner.shape[0] != inner.shape[1] or not np.array_equal(inner, inner.T):
            raise ValueError(f"gram must be a symmetric matrix, got shape {inner.shape}")
        return replace(_checked(len(inner), plus, minus, h, equal, labels), token_gram=inner)

    @staticmethod
    def between_entries(
        shape: tuple[int, ...],
        plus: ArrayLike,
        minus: ArrayLike,
        h: ArrayLike | None = None,
        equal: ArrayLike = False,
        labels: Sequence[Label] | None = None,
    ) -> Constraints:
        """Rows ``p[plus] - p[minus]`` between entries of an unknown of this shape, numbered row by row.

        Nothing of the size of a row is stored, so there may be millions of both.

        >>> import hardmax as hm
        >>> hm.Constraints.between_entries((3,), plus=[0, 0], minus=[1, 2]).rows().tolist()
        [[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]
        """
        return replace(_checked(math.prod(shape), plus, minus, h, equal, labels), entries=shape)

    @property
    def count(self) -> int:
        """Number of rows m."""
        return len(self.plus)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the unknown: (d,), (d, e) for outer products, () in Gram form.

        >>> import hardmax as hm
        >>> hm.Constraints.dense([[1.0, 2.0]]).shape
        (2,)
        """
        if self.entries is not None:
            return self.entries
        if self.table is None:
            return ()
        width = self.table.shape[1]
        return (width,) if self.right is None else (width, self.right.shape[1])

    def label(self, row: int) -> Label:
        """The name of a row in reports; its number if none was given.

        >>> import hardmax as hm
        >>> hm.Constraints.dense([[1.0]]).label(0)
        (0,)
        """
        return (row,) if self.labels is None else self.labels[row]

    def subset(self, rows: NDArray[Any]) -> Constraints:
        """Return the constraints with some of the rows, over the same tokens.

        >>> import numpy as np, hardmax as hm
        >>> hm.Constraints.dense([[1.0], [2.0]]).subset(np.array([1])).rows().tolist()
        [[2.0]]
        """
        return replace(
            self,
            plus=self.plus[rows],
            minus=self.minus[rows],
            h=self.h[rows],
            equal=self.equal[rows],
            right_of=None if self.right_of is None else self.right_of[rows],
            labels=tuple(self.label(int(j)) for j in np.arange(self.count)[rows]),
        )

    def by_gram(self) -> Constraints:
        """Return the rows of a table made from a Gram matrix, by that matrix."""
        return replace(self, table=None, token_gram=self.origin, origin=None)

    def left(self) -> Floats:
        """The differences ``table[plus] - table[minus]``, (m, d)."""
        if self.entries is not None:
            return self._incidence(math.prod(self.entries)).toarray()
        if self.table is None:
            raise ValueError("rows must come from a table of tokens, got a Gram matrix only; use gram()")
        if (self.minus == -1).all() and np.array_equal(self.plus, np.arange(len(self.table))):
            return self.table
        with np.errstate(over="ignore", invalid="ignore"):
            difference = self.project(self.table)
        if not np.isfinite(difference).all():
            raise ValueError(
                "table must have differences below 1.8e308, got an overflow; scale the tokens down"
            )
        return difference

    def rows(self) -> Floats:
        """All rows as one dense matrix (m, d) or (m, d*e); a matrix unknown is read row by row."""
        left = self.left()
        if self.right is None or self.right_of is None:
            return left
        with np.errstate(over="ignore"):
            dense = outer(left, self.right[self.right_of])
        if not np.isfinite(dense).all():
            raise ValueError(
                "right must have products below 1.8e308, got an overflow; scale the factors down"
            )
        return dense

    def along(self, p: Floats) -> Floats:
        """``row_j . p`` of every row, for a p read row by row; outer products are not written out.

        >>> import numpy as np, hardmax as hm
        >>> rows = hm.Constraints.pairs([[1.0], [3.0]], [1], [0], right=[[1.0, 4.0]], right_of=[0])
        >>> rows.along(np.array([0.5, 0.25])).tolist()
        [3.0]
        """
        if self.entries is not None:
            return self.project(p)
        if self.right is None or self.right_of is None:
            return self.left() @ p
        images = self.right @ p.reshape(self.shape).T  # W z of every right factor
        return np.asarray(np.einsum("ij,ij->i", self.left(), images[self.right_of]))

    def gram(self) -> Floats:
        """Inner products of the rows; for outer products the two factors' Gram matrices multiply."""
        if self.token_gram is not None:
            return self.project(self.project(self.token_gram).T)
        if self.entries is not None:
            incidence = self._incidence(self.count)
            return (incidence @ incidence.T).toarray()
        left = self.left()
        inner = left @ left.T
        if self.right is None or self.right_of is None:
            return inner
        factors = self.right @ self.right.T
        return inner * factors[np.ix_(self.right_of, self.right_of)]

    def _incidence(self, width: int) -> Any:
        """The rows between entries as a sparse matrix; refused if a dense one of this width is too large."""
        if self.count * width > MOST_ENTRIES:
            raise ValueError(
                f"rows must have at most {MOST_ENTRIES:.0e} numbers together to be written out, got "
                f"{self.count} of {width}; take fewer rows with subset"
            )
        from scipy.sparse import csr_array

        every, paired = np.arange(self.count), self.minus >= 0
        values = np.concatenate([np.ones(self.count), -np.ones(int(paired.sum()))])
        where = np.concatenate([every, every[paired]]), np.concatenate([self.plus, self.minus[paired]])
        return csr_array((values, where), shape=(self.count, math.prod(self.entries or ())))

    def project(self, tokens: Floats) -> Floats:
        """``tokens[plus] - tokens[minus]`` for any array with one leading entry per token."""
        difference = tokens[self.plus]
        paired = self.minus >= 0
        difference[paired] -= tokens[self.minus[paired]]
        return difference


def outer(left: Floats, right: Floats) -> Floats:
    """left_j right_j' of every row, read row by row, (m, d_x d_z)."""
    width = left.shape[1] * right.shape[1]
    if len(left) * width > MOST_ENTRIES:
        raise ValueError(
            f"rows must have at most {MOST_ENTRIES:.0e} numbers together to be written out, got {len(left)} "
            f"of {width}; take fewer inputs, or tokens and queries of fewer dimensions"
        )
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), width)


def _checked(
    tokens: int,
    plus: ArrayLike,
    minus: ArrayLike,
    h: ArrayLike | None,
    equal: ArrayLike,
    labels: Sequence[Label] | None,
) -> Constraints:
    """Validate the arguments of every constructor; the caller adds the tokens themselves."""
    heads = _index("plus", plus, 0, tokens)
    tails = _index("minus", minus, -1, tokens)
    m = len(heads)
    if len(tails) != m:
        raise ValueError(f"minus must have as many rows as plus ({m}), got {len(tails)}")
    flags = np.asarray(equal)
    if flags.dtype != np.bool_ or flags.shape not in ((), (m,)):
        raise ValueError(f"equal must have one bool per row ({m}), got {flags.dtype} of shape {flags.shape}")
    flags = np.broadcast_to(flags, (m,)).copy()
    bounds = np.where(flags, 0.0, 1.0) if h is None else _finite("h", h, np.ndim(h))
    if bounds.shape not in ((), (m,)):
        raise ValueError(f"h must have one bound per row ({m}), got shape {bounds.shape}")
    bounds = np.broadcast_to(bounds, (m,)).copy()
    least = bounds[~flags].min(initial=0.0)
    if least < 0:
        raise ValueError(f"h must have bounds >= 0 on inequalities, got {least}")
    names = None if labels is None else tuple(labels)
    if names is not None and len(names) != m:
        raise ValueError(f"labels must be one per row ({m}), got {len(names)}")
    return Constraints(None, heads, tails, bounds, flags, labels=names)


WRITTEN = 10_000_000  # numbers in all rows together, up to which they are written out as they are


@dataclass(frozen=True, eq=False)
class Folded:
    """Rows (m, r_x r_z) in coordinates, and the orthonormal bases (d_x, r_x), (d_z, r_z) they belong to."""

    rows: Floats
    left: Floats
    right: Floats

    def whole(self, p: Floats) -> Floats:
        """Return W, read row by row, from its coordinates."""
        inner = p.reshape(self.left.shape[1], self.right.shape[1])
        return (self.left @ inner @ self.right.T).reshape(-1)

    def inside(self, p: Floats) -> Floats:
        """Return the coordinates of W, which is read row by row."""
        W = p.reshape(self.left.shape[0], self.right.shape[0])
        return (self.left.T @ W @ self.right).reshape(-1)


def folded(constraints: Constraints, left: Floats, right: Floats) -> Folded | None:
    """Rows left_j right[right_of_j]' in few coordinates; None if they may be written out as they are."""
    if constraints.count * math.prod(constraints.shape) <= WRITTEN:
        return None
    (basis_x, x), (basis_z, z) = (np.linalg.qr(table.T) for table in (left, right))
    size = constraints.count * basis_x.shape[1] * basis_z.shape[1]
    if size > MOST_ENTRIES:
        raise ValueError(
            f"rows must have at most {MOST_ENTRIES:.0e} numbers together in coordinates of their span, got "
            f"{size:.2g}; take fewer inputs"
        )
    rows = x.T[:, :, None] * z.T[constraints.right_of][:, None, :]
    return Folded(rows.reshape(constraints.count, -1), basis_x, basis_z)
