"""W_kq*, the direction that stage 2 goes to, as one value per pair, and the relations that define it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.margin.closed_forms import kq_column, star_column
from hardmax.margin.constraints import Constraints
from hardmax.margin.solve import solve
from hardmax.nexttoken.orders import Orders, orders
from hardmax.nexttoken.pairs import Floats, Ints, Pairs


@dataclass(frozen=True, eq=False)
class KqStar:
    """W_kq* of a dataset (C-DEF-KQSTAR): shortest A with A[o,q] - A[x,q] >= 1 for all relations o >_q x.

    ``above`` and ``below`` are the pairs of each relation, ``values`` one number per pair, ``exact`` the same
    as fractions where they are known in closed form (None for a query with confused tokens). If the orders
    contradict each other there is none: ``values`` is None and ``status`` names the query.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.star import KqStar
    >>> from hardmax.nexttoken.pairs import Pairs
    >>> star = KqStar.of(Pairs.of(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])))
    >>> star.norm_squared, star.is_star
    (Fraction(13, 6), True)
    """

    pairs: Pairs
    above: Ints
    below: Ints
    values: Floats | None
    exact: tuple[Fraction, ...] | None
    status: str

    @classmethod
    def of(cls, pairs: Pairs, known: Orders | None = None) -> KqStar:
        """From the pairs of a dataset; `known` saves extracting its orders once more."""
        found = orders(pairs.samples, pairs.collocation) if known is None else known
        keys = pairs.query * pairs.samples.V + pairs.token
        above = np.searchsorted(keys, found.query * found.V + found.above)
        below = np.searchsorted(keys, found.query * found.V + found.below)
        columns: list[tuple[Ints, list[Any]]] = []
        is_exact = True
        starts = np.flatnonzero(np.diff(found.query, prepend=-1))
        for begin, end in zip(starts, np.append(starts, len(found.query))[1:], strict=True):
            rows = above[begin:end], below[begin:end]
            column, rational = _column(*rows)
            if column is None:
                word = pairs.samples.vocabulary[found.query[begin]]
                why = f"no W_kq*: under the query {word!r} the orders contradict each other"
                return cls(pairs, above, below, None, None, why)
            is_exact &= rational
            columns.append((np.array(list(column)), list(column.values())))
        values = np.zeros(pairs.P)
        fractions = [Fraction(0)] * pairs.P
        for where, what in columns:
            values[where] = [float(w) for w in what]
            if is_exact:
                for p, w in zip(where.tolist(), what, strict=True):
                    fractions[p] = w
        return cls(pairs, above, below, values, tuple(fractions) if is_exact else None, "exists")

    @cached_property
    def norm_squared(self) -> Fraction | float:
        """|W_kq*|^2, exact where the values are; nan if there is none."""
        if self.exact is not None:
            # Queries repeat few column shapes; a sum of equal fractions is one product.
            counted: dict[Fraction, int] = {}
            for w in self.exact:
                counted[w] = counted.get(w, 0) + 1
            return sum((w * w * k for w, k in counted.items()), Fraction(0))
        return math.nan if self.values is None else float(self.values @ self.values)

    @property
    def norm(self) -> float:
        """|W_kq*|."""
        return math.sqrt(self.norm_squared)

    @cached_property
    def is_star(self) -> bool:
        """Every query has one optimal token, which is above all its others (C-THM-STRUCT)."""
        tops = np.unique(self.above)
        return len(np.unique(self.pairs.query[tops])) == len(tops)

    @cached_property
    def support(self) -> Ints:
        """The relations that are tight."""
        if self.values is None:
            raise ValueError(self.status)
        return np.flatnonzero(self.values[self.above] - self.values[self.below] <= 1.0 + 1e-9)

    @cached_property
    def wide(self) -> Any:
        """The values in extended precision where the machine has it: at |A| = 1e10 the digits matter."""
        if self.values is None:
            raise ValueError(self.status)
        if self.exact is None:
            return self.values.astype(np.longdouble)
        above = np.array([w.numerator for w in self.exact], dtype=np.longdouble)
        return above / np.array([w.denominator for w in self.exact], dtype=np.longdouble)

    def misalignment(self, a: Any) -> float:
        """1 - cos between pairs' values and W_kq*; nan if either is zero or missing."""
        a = np.asarray(a, dtype=np.longdouble)
        length = np.sqrt(a @ a)
        if self.values is None or not length > 0.0 or not self.norm > 0.0:
            return math.nan
        off = a / length - self.wide / np.sqrt(self.wide @ self.wide)
        return 0.5 * float(off @ off)


def _column(above: Ints, below: Ints) -> tuple[dict[int, Any] | None, bool]:
    """One query's values by pair, and whether they are fractions; None if there are none."""
    tops, lows = set(above.tolist()), below.tolist()
    if not tops & set(lows):
        if len(tops) == 1:
            return star_column(int(above[0]), lows), True
        return kq_column(zip(above.tolist(), lows, strict=True)), True
    inside, index = np.unique(np.concatenate([above, below]), return_inverse=True)
    rows = np.zeros((len(above), len(inside)))
    rows[np.arange(len(above)), index[: len(above)]] = 1.0
    rows[np.arange(len(above)), index[len(above) :]] -= 1.0
    best = solve(Constraints.dense(rows))
    if best.p is None:
        return None, False
    return dict(zip(inside.tolist(), best.p.tolist(), strict=True)), False
