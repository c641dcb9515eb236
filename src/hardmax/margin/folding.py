"""Many long rows that are outer products x z', in coordinates of the spans of their factors.

There are at most as many as rows by queries, where W has d_x d_z entries. Both bases are orthonormal, so
lengths and inner products stay, up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax.margin.constraints import MOST_ENTRIES, Constraints, Floats

WRITTEN = 10_000_000  # numbers in all rows together, up to which they are written out as they are


@dataclass(frozen=True, eq=False)
class Folded:
    """Rows (m, r_x r_z) in coordinates, and the orthonormal bases (d_x, r_x), (d_z, r_z) they belong to."""

    rows: Floats
    left: Floats
    right: Floats

    def whole(self, p: Floats) -> Floats:
        """W of its coordinates, read row by row."""
        inner = p.reshape(self.left.shape[1], self.right.shape[1])
        return (self.left @ inner @ self.right.T).reshape(-1)

    def inside(self, p: Floats) -> Floats:
        """Coordinates of W."""
        W = p.reshape(self.left.shape[0], self.right.shape[0])
        return (self.left.T @ W @ self.right).reshape(-1)


def folded(constraints: Constraints, left: Floats, right: Floats) -> Folded | None:
    """Rows left_j right[right_of_j]' in few coordinates; None if they may be written out as they are.

    >>> rows = Constraints.pairs([[1.0]], [0], [-1], right=[[1.0]], right_of=[0])
    >>> folded(rows, np.ones((1, 1)), np.ones((1, 1))) is None
    True
    """
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
