"""Critical directions at infinity with their index: the limits that training can and cannot have (B-NEW-4).

Far out, the risk along a direction falls like exp(-R margin), and only its least-margin rows D count. A unit
direction q is critical at infinity if it is proportional to D'(DD')^-1 1 and each multiplier has the sign of
its row's score gap gamma_top - gamma_t: then minus the gradient points along q, outwards. Its index is the
number of negative multipliers, that is of least-margin tokens that score above the selected one: 0 for the
locally optimal directions, which attract, 1 for the saddles between their basins, and so on.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from flint import fmpz_mat

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import exponent
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.rationals import independent_columns, integers
from hardmax.problem import Problem

EPS = float(np.finfo(float).eps)
BLOCK = 20_000  # sets looked at together

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Corner:
    """A direction q = sum_j multipliers_j row_j with row_j.q = 1, and the further rows that tie there.

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
    def p_norm(self) -> float:
        """|q|, one over the margin of its direction."""
        return float(np.linalg.norm(self.q))

    @property
    def degeneracy(self) -> str:
        """The row that the index theorem excludes; empty if there is none."""
        if not self.also:
            return ""
        (i, t), rows = self.also[0], ", ".join(map(str, self.rows))
        along = _shown(self.q / self.p_norm)
        return f"row ({i}, {t}) is as near as {rows} along {along}, without a multiplier"


@dataclass(frozen=True, eq=False)
class Tie:
    """A direction at which r-1 independent rows are zero: the tied tokens, and how far the others are."""

    tops: tuple[tuple[int, ...], ...]
    q: Floats  # unit
    gap: float  # least logit gap of a token that does not tie; inf without one

    @property
    def count(self) -> int:
        """Number of rows that tie."""
        return sum(len(tokens) - 1 for tokens in self.tops)

    @property
    def degeneracy(self) -> str:
        """The tied tokens, where they are more than the index theorem allows."""
        ties = [
            f"tokens {', '.join(map(str, top))} of input {i}"
            for i, top in enumerate(self.tops)
            if len(top) > 1
        ]
        return f"dependent rows tie along {_shown(self.q)}: {'; '.join(ties)}"


def _shown(q: Floats) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in q[:6]) + (", ..." if len(q) > 6 else "") + ")"


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
        self.score = dict(zip(self.tokens, self.scores.tolist(), strict=True))
        keys = problem.keys[problem.tokens]
        self.exponent = exponent(keys)
        self.keys: Floats = np.ldexp(keys[slots], -self.exponent)
        entries, power = integers(keys)
        self.power = power - self.exponent
        table = np.array(entries, dtype=object).reshape(keys.shape)
        self.differences = table[slots] - table[firsts]  # whole numbers, as all exact tables here
        self.gram = self.differences @ self.differences.T

    @cached_property
    def rank(self) -> int:
        """Dimension of the span of the key differences."""
        return int(fmpz_mat(self.differences.tolist()).rank())

    @cached_property
    def coordinates(self) -> Any:
        """Integer coordinates of the differences, for linear conditions on a q in their span."""
        if self.rank == self.problem.d:
            return self.differences
        self.basis = independent_columns(fmpz_mat(self.differences.T.tolist()))
        return self.gram[:, self.basis]

    @cached_property
    def rows(self) -> Ints:
        """All rows as (top, other) pairs of kept slots, (m, 2)."""
        pairs = [pair for slots in self.members for pair in itertools.permutations(slots.tolist(), 2)]
        return np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)

    def trials(self) -> Iterator[tuple[int, Callable[[], Iterable[Corner | Tie]]]]:
        """All trials: how many sets of rows, and a function that returns the corners or ties at them.

        Sets for corners come first, in blocks, then those for ties.
        """
        for block in self.active_sets():
            yield len(block), partial(self.corners, block)
        pairs = [pair for slots in self.members for pair in itertools.combinations(slots.tolist(), 2)]
        for chosen in itertools.combinations(pairs, self.rank - 1):
            yield 1, partial(self.ties, chosen)

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
            if (corner := self._corner(chosen)) is not None:
                yield corner

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
        rest = np.flatnonzero(certain)
        possible: Bools = ~certain
        for i, slots in enumerate(self.members):
            if len(slots) > 1 and len(rest):  # most sets fall at the first inputs
                second, top = np.partition(q[rest] @ self.keys[slots].T, -2, axis=1)[:, -2:].T
                logits = np.einsum("cd,ckd->ck", q[rest], self.keys[tops[rest]]) + doubt[rest, None]
                beaten = (logits < top[:, None]) & (self.input[tops[rest]] == i)
                rest = rest[(top - second >= 1 - doubt[rest]) & ~beaten.any(axis=1)]
        possible[rest] = True
        return possible

    def _corner(self, chosen: list[int]) -> Corner | None:
        tops, others = self.rows[chosen].T
        inner = self.gram[tops] - self.gram[others]  # products of the rows with all differences
        try:
            weights: Any = fmpz_mat((inner[:, tops] - inner[:, others]).tolist())
            weights, one = weights.solve(fmpz_mat([[1]] * len(chosen))).numer_denom()
        except ZeroDivisionError:
            return None
        sign = 1 if one > 0 else -1
        one, numerators = int(sign * one), [int(sign * w) for w in weights.entries()]
        logits = np.array(numerators, dtype=object) @ inner
        best = np.array([slots[np.argmax(logits[slots])] for slots in self.members])
        rivals = np.delete(np.arange(len(self.tokens)), best)
        gaps = logits[best[self.input[rivals]]] - logits[rivals] - one
        if (best[self.input[tops]] != tops).any() or (gaps < 0).any():
            return None
        unit = Fraction(2) ** -self.power  # of one over a key
        q = np.array(numerators, dtype=object) @ (self.differences[tops] - self.differences[others])
        return Corner(
            tuple(self.tokens[s][1] for s in best),
            tuple(self.tokens[s] for s in others),
            tuple(self.tokens[s] for s in rivals[gaps == 0].tolist() if s not in others),
            tuple(Fraction(w, one) * unit**2 for w in numerators),
            np.array([float(Fraction(x, one) * unit) for x in q]),
            Fraction(gaps[gaps > 0].min(), one) if (gaps > 0).any() else None,
        )

    def ties(self, chosen: tuple[Pair, ...]) -> Iterator[Tie]:
        """Directions in the span at which these r-1 rows tie, if they are independent."""
        c = np.ones(1, dtype=object)  # an integer vector orthogonal to the rows
        if chosen:
            rows = [(self.coordinates[a] - self.coordinates[b]).tolist() for a, b in chosen]
            null, nullity = fmpz_mat(rows).nullspace()
            if nullity != 1:
                return
            c = np.array([int(null[j, 0]) for j in range(self.rank)], dtype=object)
        for direction in (c, -c):
            tie = self._tie(self.coordinates @ direction, chosen, direction)
            if tie is not None:
                yield tie

    def _tie(self, logits: Any, chosen: tuple[Pair, ...], c: Any) -> Tie | None:
        best = np.array([logits[slots].max() for slots in self.members], dtype=object)[self.input]
        if any(logits[a] != logits[b] or logits[a] != best[a] for a, b in chosen):
            return None
        tops = tuple(
            tuple(self.tokens[s][1] for s in slots if logits[s] == best[s]) for slots in self.members
        )
        behind = [gap for gap in best - logits if gap > 0]
        largest = np.abs(c).max()
        q = np.array([float(Fraction(x, largest)) for x in c])
        if self.rank < self.problem.d:
            firsts = [self.members[self.input[b]][0] for b in self.basis]
            q = (self.keys[self.basis] - self.keys[firsts]).T @ q
        size = float(np.linalg.norm(q))
        unit = Fraction(2) ** self.power / largest
        gap = float(min(behind) * unit) / size if behind else float("inf")
        return Tie(tops, q / size, gap)


LIMIT = 2_000_000


@dataclass(frozen=True, eq=False)
class CriticalDirection:
    """A direction critical at infinity: its selection, its least-margin rows and their exact multipliers.

    >>> import hardmax as hm
    >>> saddle = hm.critical_directions(hm.data.example("B-FIG-1b")).directions[-1]
    >>> saddle.index, saddle.selection, saddle.rows, [round(float(m), 9) for m in saddle.multipliers]
    (1, (1,), ((0, 0), (0, 2)), [-0.1, 1.11])
    """

    selection: tuple[int, ...]
    direction: Floats
    margin: float
    rows: tuple[Pair, ...]
    multipliers: tuple[Fraction, ...]

    @property
    def index(self) -> int:
        """m_-: how many directions lead away from it, those towards least-margin tokens that score higher."""
        return sum(m < 0 for m in self.multipliers)


@dataclass(frozen=True, eq=False)
class CriticalDirections:
    """All critical directions at infinity of a problem, by rising index, and whether B-NEW-4 covers it.

    ``status`` is "complete" or "truncated" (the budget ran out). ``degenerate`` names the cases that the
    index theorem excludes: tied scores, dependent rows, a multiplier that is zero; empty if there is nothing
    of the kind. ``dimension`` is that of the span of the key differences. ``gap`` and ``spread`` measure how
    far out is late: the least gap at infinity, and the largest ratio of a row's length to the least singular
    value of rows that can count together; ``corners`` are the unit directions at which these were taken.

    >>> import hardmax as hm
    >>> found = hm.critical_directions(hm.data.example("B-FIG-1b"))
    >>> [q.index for q in found.directions], found.sum, found.degenerate
    ([0, 0, 1], 1, ())
    """

    directions: tuple[CriticalDirection, ...]
    status: str
    degenerate: tuple[str, ...]
    dimension: int
    gap: float
    spread: float
    corners: Floats
    sets: int

    def __repr__(self) -> str:
        return f"CriticalDirections({len(self.directions)} directions, {self.status})"

    @property
    def sum(self) -> int:
        """Sum of (-1)^index: 1 minus the sum of the indices of the finite stationary points."""
        return sum((-1) ** q.index for q in self.directions)


@check_arguments
def critical_directions(
    problem: Problem, *, limit: int = LIMIT, seconds: float | None = None
) -> CriticalDirections:
    """List the directions that are critical at infinity, attractors and saddles, in rational arithmetic.

    Sets of rows are tried one by one, ``limit`` of them at most and for at most ``seconds``; there are about
    (n T^2)^d of them. Tokens with equal key and score count as one.

    >>> import hardmax as hm
    >>> for q in hm.critical_directions(hm.data.example("B-FIG-1b")).directions:
    ...     q.index, q.direction.round(4).tolist(), q.selection
    (0, [-0.0995, 0.995], (0,))
    (0, [1.0, 0.0], (1,))
    (1, [0.995, 0.0995], (1,))
    """
    geometry = Geometry(problem)
    limit, end = expect.whole("limit", limit, 1), math.inf
    if seconds is not None:
        end = time.monotonic() + expect.positive("seconds", seconds)
    members = [(i, *pair) for i, m in enumerate(geometry.members) for pair in itertools.combinations(m, 2)]
    degenerate = [
        f"input {i}: tokens {geometry.tokens[a][1]} and {geometry.tokens[b][1]} have one score"
        for i, a, b in members
        if geometry.scores[a] == geometry.scores[b]
    ]
    if geometry.rank == 0:
        degenerate.append("no key differs from another of its input: p does not matter")
        nowhere = np.zeros((0, problem.d))
        return CriticalDirections((), "complete", tuple(degenerate), 0, math.inf, 1.0, nowhere, 0)
    corners: list[Corner] = []
    ties: dict[tuple[tuple[int, ...], ...], Tie] = {}
    sets, status = 0, "complete"
    for count, search in geometry.trials():
        if sets + count > limit or time.monotonic() > end:
            status = "truncated"
            break
        sets += count
        for result in search():
            if isinstance(result, Corner):
                corners.append(result)
            else:
                ties.setdefault(result.tops, result)
    degenerate += [tie.degeneracy for tie in ties.values() if tie.count >= geometry.rank]
    degenerate += [corner.degeneracy for corner in corners]
    critical = [_critical(corner, geometry.exponent) for corner in corners if _is_critical(corner, geometry)]
    critical.sort(key=lambda q: (q.index, -q.margin))
    full = [corner for corner in corners if len(corner.rows) == geometry.rank]
    # the least gap between rows that count and rows that do not, along the unit direction
    gaps = [*(float(min(1, c.gap or 1)) / c.p_norm for c in full), *(tie.gap for tie in ties.values())]
    extreme: list[Corner | Tie] = [*full, *ties.values()]
    return CriticalDirections(
        tuple(critical),
        status,
        tuple(dict.fromkeys(text for text in degenerate if text)),
        geometry.rank,
        math.ldexp(min(gaps, default=math.inf), geometry.exponent),
        _spread(geometry, full, list(ties.values())),
        np.array([x.q / np.linalg.norm(x.q) for x in extreme]).reshape(-1, problem.d),
        sets,
    )


def _is_critical(corner: Corner, geometry: Geometry) -> bool:
    """Whether every multiplier has the sign of its row's score gap, and no further row is as near."""
    score, rows = geometry.score, zip(corner.rows, corner.multipliers, strict=True)
    gaps = ((score[i, corner.selection[i]] - score[i, t], m) for (i, t), m in rows)
    return not corner.also and all((gap > 0) == (m > 0) and (gap < 0) == (m < 0) for gap, m in gaps)


def _critical(corner: Corner, exponent: int) -> CriticalDirection:
    margin = math.ldexp(1.0 / corner.p_norm, exponent)
    multipliers = tuple(m / Fraction(4) ** exponent for m in corner.multipliers)
    return CriticalDirection(corner.selection, corner.q / corner.p_norm, margin, corner.rows, multipliers)


def _spread(geometry: Geometry, corners: list[Corner], ties: list[Tie]) -> float:
    """Longest row over the least singular value of rows that count together; inf if they are dependent."""
    key = dict(zip(geometry.tokens, geometry.keys, strict=True))
    together = [[key[i, c.selection[i]] - key[i, t] for i, t in c.rows] for c in corners]
    for tie in ties:
        together.append([key[i, a] - key[i, t] for i, (a, *others) in enumerate(tie.tops) for t in others])
    least = math.inf
    for rows in filter(None, together):
        values = np.linalg.svd(np.array(rows), compute_uv=False)
        least = min(least, float(values[-1]) if len(rows) == len(values) else 0.0)
    longest = max(float(np.linalg.norm(geometry.keys[a] - geometry.keys[b])) for a, b in geometry.rows)
    return longest / least if least > 0 else math.inf
