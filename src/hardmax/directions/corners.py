"""Corners of the margin, exactly: directions fixed by their least-margin rows, and directions where tops tie.

A direction q selects the top token of every input; its rows are k_top - k_t, its margin the least of row.q. A
set D of rows fixes the direction of D'(DD')^-1 1, at which these rows have one common margin. It is a corner
if no other row of that direction has a smaller one. Between them, as a direction with r-1 ties is, lie the
extreme rays of all cones of one selection (r is the dimension of the key differences): what is independent
there is independent at every direction.

Floats only sort out sets that are no corner by more than rounding can explain; the rest is decided in
integers, which floats are up to a power of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpz_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax._lib.arrays import exponent
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.rationals import integers
from hardmax.problem import Problem

EPS = float(np.finfo(float).eps)
BLOCK = 20_000  # sets looked at together

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Corner:
    """A direction q = sum_j multipliers_j row_j with row_j.q = 1, and what ties with these rows there.

    ``rows`` and ``also`` are pairs (i, t): the rows that fix q, and further ones of the same margin.
    ``gap`` is the least row.q - 1 of all other rows, None without any.
    """

    selection: tuple[int, ...]
    rows: tuple[Pair, ...]
    also: tuple[Pair, ...]
    multipliers: tuple[Fraction, ...]
    q: Floats
    gap: Fraction | None

    @property
    def norm(self) -> float:
        """|q|, one over the margin of its direction."""
        return float(np.linalg.norm(self.q))


@dataclass(frozen=True, eq=False)
class Tie:
    """A direction at which r-1 independent rows are zero: the tied tokens, and how far the others are."""

    tops: tuple[tuple[int, ...], ...]
    q: Floats  # unit
    gap: float  # least logit gap of a token that does not tie; inf without one

    @property
    def count(self) -> int:
        """Rows that tie."""
        return sum(len(tokens) - 1 for tokens in self.tops)


class Geometry:
    """Tokens of every input as exact differences to its first token; equal key and score is one token.

    Lengths are in units of 2**exponent, which brings the keys near 1.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        slots = np.unique(problem.groups)
        self.input = np.searchsorted(problem.offsets, slots, side="right") - 1
        firsts = problem.offsets[self.input]
        self.tokens: list[Pair] = list(zip(self.input.tolist(), (slots - firsts).tolist(), strict=True))
        self.members = [np.flatnonzero(self.input == i) for i in range(problem.n)]
        self.scores = problem.scores[slots]
        keys = problem.keys[problem.tokens]
        self.exponent = exponent(keys)
        self.keys: Floats = np.ldexp(keys[slots], -self.exponent)
        entries, power = integers(keys)
        self.power = power - self.exponent
        table = fmpz_mat(len(keys), problem.d, entries)
        lines = [
            [table[s, j] - table[f, j] for j in range(problem.d)]
            for s, f in zip(slots.tolist(), firsts.tolist(), strict=True)
        ]
        self.differences = fmpz_mat(lines)
        self.gram = self.differences * self.differences.transpose()

    @cached_property
    def rank(self) -> int:
        """Dimension of the span of the key differences."""
        return int(self.differences.rank())

    @cached_property
    def coordinates(self) -> Any:
        """Integer coordinates of the differences, for linear conditions on a q in their span."""
        if self.rank == self.problem.d:
            return self.differences
        basis: list[int] = []
        for slot in range(len(self.tokens)):
            if self._rank([*basis, slot]) == len(basis) + 1:
                basis.append(slot)
        self.basis = basis
        return fmpz_mat([[self.gram[s, b] for b in basis] for s in range(len(self.tokens))])

    def _rank(self, slots: list[int]) -> int:
        d = self.problem.d
        return int(fmpz_mat([[self.differences[s, j] for j in range(d)] for s in slots]).rank())

    @cached_property
    def rows(self) -> Ints:
        """All rows as (top, other) pairs of kept slots, (m, 2)."""
        pairs = [pair for each in self.members for pair in itertools.permutations(each.tolist(), 2)]
        return np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)

    # -- corners ------------------------------------------------------------------------------------------

    def active_sets(self) -> Iterator[Ints]:
        """Sets of 1 to r rows that one selection can have, in blocks (count, size)."""
        inputs = self.input[self.rows[:, 0]]
        fits = (inputs[:, None] != inputs[None]) | (self.rows[:, 0, None] == self.rows[None, :, 0])
        fits &= np.arange(len(inputs))[:, None] < np.arange(len(inputs))[None]
        yield from self._wider(np.arange(len(self.rows))[:, None], fits)

    def _wider(self, block: Ints, fits: Bools) -> Iterator[Ints]:
        yield block
        if block.shape[1] == self.rank:
            return
        room = max(1, BLOCK // max(1, len(fits)))
        for start in range(0, len(block), room):
            part = block[start : start + room]
            which, row = np.nonzero(fits[part].all(axis=1))
            if len(which):
                yield from self._wider(np.column_stack([part[which], row]), fits)

    def corners(self, sets: Ints) -> Iterator[Corner]:
        """Those of the sets, (count, size), that are independent and have the least margin at their q."""
        for chosen in sets[self._possible(sets)].tolist():
            found = self._corner(chosen)
            if found is not None:
                yield found

    def _possible(self, sets: Ints) -> Bools:
        """False where floats prove that some row has a smaller margin.

        q is the shortest solution of D q = 1. The rows have entries below 2 with errors below eps, so q is
        known up to a multiple of eps |q| over the least singular value, and logits as well: keys are shorter
        than sqrt(d).
        """
        tops = self.rows[sets, 0]
        D = self.keys[tops] - self.keys[self.rows[sets, 1]]  # (C, k, d)
        k, d = D.shape[1:]
        U, values, V = np.linalg.svd(D, full_matrices=False)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            q = np.einsum("ck,ckd->cd", U.sum(axis=1) / values, V)
            error = 64 * k * d * EPS * (1 + values[:, 0]) / values[:, -1]
            doubt = 4 * np.sqrt(d) * error * np.linalg.norm(q, axis=1)
            certain = (values[:, -1] > 0) & (error < 1e-3) & (doubt < 0.1)
        left = np.flatnonzero(certain)
        possible: Bools = ~certain
        for i, each in enumerate(self.members):
            if len(each) > 1 and len(left):  # most sets fall at the first inputs
                second, top = np.partition(q[left] @ self.keys[each].T, -2, axis=1)[:, -2:].T
                own = np.einsum("cd,ckd->ck", q[left], self.keys[tops[left]]) + doubt[left, None]
                beaten = (own < top[:, None]) & (self.input[tops[left]] == i)
                left = left[(top - second >= 1 - doubt[left]) & ~beaten.any(axis=1)]
        possible[left] = True
        return possible

    def _corner(self, chosen: list[int]) -> Corner | None:
        pairs = self.rows[chosen].tolist()
        gram, k = self.gram, len(chosen)
        G = [[gram[a, c] - gram[a, e] - gram[b, c] + gram[b, e] for c, e in pairs] for a, b in pairs]
        ones: Any = fmpz_mat(k, 1, [1] * k)
        try:
            solved: Any = fmpz_mat(G).solve(ones)
        except ZeroDivisionError:
            return None
        weights, denominator = solved.numer_denom()
        sign = 1 if denominator > 0 else -1
        one, weights = sign * denominator, [sign * w for w in weights.entries()]
        q = list(zip(weights, pairs, strict=True))
        logits = [
            sum((w * (gram[a, s] - gram[b, s]) for w, (a, b) in q), 0 * one) for s in range(len(self.tokens))
        ]
        tops, also, least = [], [], None
        inside = {b for _, b in pairs}
        for each in self.members:
            top = max(each.tolist(), key=lambda s: logits[s])
            tops.append(top)
            for s in each.tolist():
                if s == top:
                    continue
                gap = logits[top] - logits[s] - one
                if gap < 0:
                    return None
                if gap == 0 and s not in inside:
                    also.append(self.tokens[s])
                elif gap > 0 and (least is None or gap < least):
                    least = gap
        if any(a != tops[self.input[a]] for a, _ in pairs):
            return None
        scale = Fraction(2) ** (-2 * self.power)
        multipliers = tuple(Fraction(int(w), int(one)) * scale for w in weights)
        return Corner(
            tuple(self.tokens[s][1] for s in tops),
            tuple(self.tokens[b] for _, b in pairs),
            tuple(also),
            multipliers,
            self._combine(
                [(a, m) for (a, _), m in zip(pairs, multipliers, strict=True)]
                + [(b, -m) for (_, b), m in zip(pairs, multipliers, strict=True)]
            ),
            None if least is None else Fraction(int(least), int(one)),
        )

    def _combine(self, weights: list[tuple[int, Fraction]]) -> Floats:
        """sum of weight times difference, rounded once."""
        scale = Fraction(2) ** self.power
        d = self.problem.d
        total = [sum((w * int(self.differences[s, j]) for s, w in weights), Fraction(0)) for j in range(d)]
        return np.array([float(x * scale) for x in total])

    # -- ties ---------------------------------------------------------------------------------------------

    def ties(self) -> Iterator[Tie | None]:
        """Directions in the span with r-1 independent tied rows, once each; a None for every set tried."""
        r, y = self.rank, self.coordinates
        pairs = [pair for each in self.members for pair in itertools.combinations(each.tolist(), 2)]
        seen = set()
        for chosen in itertools.combinations(pairs, r - 1):
            yield None
            c = _across([[y[a, j] - y[b, j] for j in range(r)] for a, b in chosen], r)
            if c is None:
                continue
            logits = [sum((int(y[s, j]) * c[j] for j in range(r)), 0) for s in range(len(self.tokens))]
            for sign in (1, -1):
                found = self._tie([sign * x for x in logits], chosen, [sign * x for x in c])
                if found is not None and found.tops not in seen:
                    seen.add(found.tops)
                    yield found

    def _tie(self, logits: list[int], chosen: tuple[Pair, ...], c: list[int]) -> Tie | None:
        best = [max(logits[s] for s in each.tolist()) for each in self.members]
        if any(logits[a] != logits[b] or logits[a] != best[self.input[a]] for a, b in chosen):
            return None
        tops = tuple(
            tuple(self.tokens[s][1] for s in each.tolist() if logits[s] == best[i])
            for i, each in enumerate(self.members)
        )
        behind = [best[self.input[s]] - x for s, x in enumerate(logits) if x < best[self.input[s]]]
        largest = max(map(abs, c))
        q = np.array([float(Fraction(x, largest)) for x in c])
        if self.rank < self.problem.d:
            firsts = [self.members[self.input[b]][0] for b in self.basis]
            q = (self.keys[self.basis] - self.keys[firsts]).T @ q
        size = float(np.linalg.norm(q))
        unit = Fraction(2) ** self.power / largest
        gap = float(min(behind) * unit) / size if behind else float("inf")
        return Tie(tops, q / size, gap)


def _across(rows: list[list[Any]], r: int) -> list[int] | None:
    """An integer vector orthogonal to r-1 rows; None if they are dependent."""
    if r == 1:
        return [1]
    null, nullity = fmpz_mat(rows).nullspace()
    return [int(null[j, 0]) for j in range(r)] if nullity == 1 else None
