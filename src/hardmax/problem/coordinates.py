"""Coordinates in which descent is cheap (B-DEF-7): every step lies in the span of key differences.

Primal: p itself. QR: p in an orthonormal basis of that span. Gram: p = p(0) + sum_r c_r rows_r, where only
the logits of the rows and their inner products are needed, so that a step does not depend on d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardmax.problem.keys import Keys
from hardmax.problem.slots import Slots

Coordinates = Literal["auto", "primal", "gram", "qr"]


@dataclass(frozen=True, eq=False)
class Differences:
    """Rows that span all key differences: a slot's key is its reference plus its row, or the reference."""

    plus: np.ndarray  # (m,) token of each row
    minus: np.ndarray  # (m,) reference token of each row
    row: np.ndarray  # (M,) row of each slot, m for a reference

    def rows(self, table: Keys) -> np.ndarray:
        """The differences themselves, (m, d)."""
        return table.differences(self.plus, self.minus)

    def gram(self, table: Keys) -> np.ndarray:
        """Inner products of the rows."""
        return table.gram(self.plus, self.minus)


def differences(slots: Slots) -> Differences:
    """To each input's first token, or, where inputs share tokens a lot, all to one token of the table."""
    firsts, sizes = slots.offsets[:-1], np.diff(slots.offsets)
    n, M = len(firsts), len(slots.tokens)
    if (slots.tokens[1:] <= slots.tokens[:-1]).any():  # else no token stands in two inputs
        used, place = np.unique(slots.tokens, return_inverse=True)
        if len(used) - 1 < M - n:
            return Differences(used[1:], np.full(len(used) - 1, used[0]), (place - 1) % len(used))
    row = np.arange(M) - np.repeat(np.arange(1, n + 1), sizes)
    row[firsts] = M - n
    others = np.delete(slots.tokens, firsts)
    return Differences(others, np.repeat(slots.tokens[firsts], sizes - 1), row)


def choose(wanted: Coordinates, m: int, slots: int, d: int, steps: int) -> Coordinates:
    """The coordinates asked for, or the cheaper ones, the one-off Gram matrix included.

    Measured: a Gram step takes 0.2 ns per entry, a primal one 10 + 1.5 d ns per slot on top of what both do.
    """
    if wanted not in ("auto", "primal", "gram", "qr"):
        raise ValueError(f'coordinates must be "auto", "primal", "gram" or "qr", got {wanted!r}')
    if wanted != "auto":
        return wanted
    return "gram" if 0.2 * m * m * (steps + d) < (10 + 1.5 * d) * slots * steps else "primal"


def orthonormal_basis(slots: Slots) -> np.ndarray:
    """(d, r) orthonormal columns that span every key difference."""
    rows = differences(slots).rows(slots.table)
    basis, _ = np.linalg.qr(rows.T)
    return np.ascontiguousarray(basis)
