"""W_kq*, the direction that stage 2 goes to, as one value per pair, and the relations that define it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from hardmax._lib.arrays import half_square, length
from hardmax.margin.closed_forms import kq_column, kq_multipliers, proved, star_column
from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import Exact
from hardmax.margin.measure import measure
from hardmax.margin.solution import MaxMargin, from_exact
from hardmax.margin.solve import proves, solve
from hardmax.nexttoken.pairs import Floats, Ints, Pairs
from hardmax.nexttoken.relations import Orders, orders
from hardmax.problem.selection import Selection

Part = tuple[slice, MaxMargin]  # the relations of a query with confused tokens, and their solution


@dataclass(frozen=True, eq=False)
class KqStar:
    """W_kq* of a dataset: shortest A with A[o,q] - A[x,q] >= 1 for all relations o >_q x.

    ``above`` and ``below`` are the pairs of each relation, ``values`` one number per pair, ``exact`` the same
    as fractions where they are known in closed form (None for a query with confused tokens). ``status`` is
    that of a `MaxMargin`: "infeasible" if the orders contradict each other, "undecided" if a query is too
    large for a proof; then ``values`` is None, and ``reason`` names the query. ``solution`` is the whole as a
    `MaxMargin`, with the certificate.
    """

    pairs: Pairs
    above: Ints
    below: Ints
    values: Floats | None
    exact: tuple[Fraction, ...] | None
    status: Literal["certified", "infeasible", "undecided"]
    reason: str
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, pairs: Pairs, relations: Orders | None = None) -> KqStar:
        """From the pairs of a dataset; its orders are extracted again if they are not given."""
        relations = orders(pairs.samples, pairs.collocation) if relations is None else relations
        keys, V = pairs.query * pairs.samples.V + pairs.token, relations.V
        above = np.searchsorted(keys, relations.query * V + relations.above)
        below = np.searchsorted(keys, relations.query * V + relations.below)
        values: dict[int, Any] = {}  # by pair
        parts: list[Part] = []
        for rows in _queries(relations.query):
            column: dict[int, Any] | None = _closed_form(above[rows].tolist(), below[rows].tolist())
            if column is None:
                inside, ends = np.unique(np.concatenate([above[rows], below[rows]]), return_inverse=True)
                tops, lows = np.split(ends, 2)
                best = solve(Constraints.between_entries((len(inside),), tops, lows))
                parts.append((rows, best))
                if best.status == "infeasible":
                    break
                certified = best.need().tolist() if best.is_certified else [math.nan] * len(inside)
                column = dict(zip(inside.tolist(), certified, strict=True))
            values |= column
        # The last part may contradict itself; else the first that was not decided is reported.
        failed = [part for part in parts if part[1].status == "infeasible"]
        failed += [part for part in parts if not part[1].is_certified]
        if failed:
            where, best = failed[0]
            word = pairs.samples.vocabulary[relations.query[where.start]]
            why = f"{best.constraints.count} relations are too many to decide whether there is one"
            if best.status == "infeasible":
                why = "the orders contradict each other"
            why = f"no W_kq*: under the query {word!r} {why}"
            return cls(pairs, above, below, None, None, best.status, why, (failed[0],))
        whole = [values.get(k, Fraction(0)) for k in range(pairs.P)]
        exact = None if parts else tuple(whole)
        floats = np.array([float(w) for w in whole])
        return cls(pairs, above, below, floats, exact, "certified", "exists", tuple(parts))

    @cached_property
    def solution(self) -> MaxMargin:
        """W_kq* as a `MaxMargin` in the pairs' values, with multipliers, interval and certificate.

        Rows are labeled (query, above, below). ``selection`` has, for every sentence of the pairs, the
        tokens that lead to its next token: several where the collocation is not injective, all of them where
        none does, without a constraint. It grows with pairs and relations only.
        """
        pairs = self.pairs
        token, query = pairs.token.tolist(), pairs.query.tolist()
        ends = list(zip(self.above.tolist(), self.below.tolist(), strict=True))
        labels = [(query[a], token[a], token[b]) for a, b in ends]
        rows = Constraints.between_entries((pairs.P,), self.above, self.below, labels=labels)
        solution = self._refuted(rows) if self.values is None else self._certified(rows, ends)
        return replace(solution, selection=self.selection)

    @property
    def selection(self) -> Selection:
        """The tokens that lead to the next token, for every sentence of the pairs."""
        pairs, sets = self.pairs, []
        tokens, right = pairs.token[pairs.pair].tolist(), pairs.is_optimal.tolist()
        for low, high in pairwise(pairs.offsets.tolist()):
            inside = [e for e in range(low, high) if right[e]] or range(low, high)
            sets.append(tuple(sorted(tokens[e] for e in inside)))
        return Selection(tuple(sets))

    def _refuted(self, rows: Constraints) -> MaxMargin:
        """Return the answer of the one query that has no solution, or none that is known."""
        ((where, part),) = self.parts
        if part.exact is not None:
            full = [Fraction(0)] * rows.count
            full[where] = part.exact.multipliers
            return from_exact(rows, Exact(False, tuple(full)))
        weights = np.zeros(rows.count)
        if part.multipliers is not None:
            weights[where] = part.multipliers
        interval = (0.0, part.margin_interval[1])
        return MaxMargin(rows, "undecided", "float", np.zeros(self.pairs.P), weights, interval, math.inf)

    def _certified(self, rows: Constraints, ends: list[tuple[int, int]]) -> MaxMargin:
        solved = {where.start: best for where, best in self.parts}
        weights: list[Any] = []
        for where in _queries(self.pairs.query[self.above]):
            best = solved.get(where.start)
            weights += (
                kq_multipliers(ends[where]) if best is None else cast(Floats, best.multipliers).tolist()
            )
        if self.exact is not None:
            return proved(rows, self.exact, weights)
        p, multipliers = cast(Floats, self.values), np.array([float(w) for w in weights])
        u = np.bincount(self.above, multipliers, self.pairs.P)
        u -= np.bincount(self.below, multipliers, self.pairs.P)
        norms, sizes = np.full(rows.count, math.sqrt(2.0)), (length(p), length(u), length(p - u))
        measures = measure(rows.project(p), rows.h, rows.equal, multipliers, norms, *sizes, len(p))
        status = "certified" if proves(measures) else "undecided"
        interval = float(measures.lower), float(measures.upper)
        return MaxMargin(rows, cast(Any, status), "float", p, multipliers, interval, float(measures.kkt))

    @cached_property
    def norm_squared(self) -> Fraction | float:
        """|W_kq*|^2, exact where the values are; nan if there is none."""
        if self.exact is not None:
            # Queries repeat few column shapes; a sum of equal fractions is one product.
            return sum((w * w * k for w, k in Counter(self.exact).items()), Fraction(0))
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
            raise ValueError(self.reason)
        return np.flatnonzero(self.values[self.above] - self.values[self.below] <= 1.0 + 1e-9)

    @cached_property
    def wide(self) -> Any:
        """The values in extended precision where the machine has it: at |A| = 1e10 the digits matter."""
        if self.values is None:
            raise ValueError(self.reason)
        if self.exact is None:
            return self.values.astype(np.longdouble)
        above = np.array([w.numerator for w in self.exact], dtype=np.longdouble)
        return above / np.array([w.denominator for w in self.exact], dtype=np.longdouble)

    def cosine_distance(self, other: Any) -> float:
        """1 - cos between pairs' values and W_kq*; nan if either is zero or missing."""
        a = np.asarray(other, dtype=np.longdouble)
        size = np.sqrt(a @ a)
        if self.values is None or not size > 0.0 or not self.norm > 0.0:
            return math.nan
        return half_square(a / size, self.wide / np.sqrt(self.wide @ self.wide))


def _queries(query: Ints) -> list[slice]:
    """Return the range of the relations of each query; they are sorted by query."""
    starts = np.flatnonzero(np.diff(query, prepend=-1)).tolist()
    return [slice(a, b) for a, b in pairwise([*starts, len(query)])]


def _closed_form(above: list[int], below: list[int]) -> dict[int, Fraction] | None:
    """Return one query's values by pair; None if it has confused tokens."""
    if not set(above).isdisjoint(below):
        return None
    if len(set(above)) == 1:
        return star_column(above[0], below)
    return kq_column(zip(above, below, strict=True))
