"""Critical directions at infinity with their index: what training can and cannot tend to (B-NEW-4).

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
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
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
    def p_norm(self) -> float:
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
        """Number of rows that tie."""
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
        self.basis = independent_columns(self.differences.transpose())
        return fmpz_mat([[self.gram[s, b] for b in self.basis] for s in range(len(self.tokens))])

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
        """Return the sum of weight times difference, rounded once."""
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
    """All critical directions at infinity of a problem, by rising index, and whether B-NEW-4 speaks of it.

    ``status`` is "complete" or "truncated" (the budget ran out). ``degenerate`` names what the index theorem
    excludes: tied scores, dependent rows, a multiplier that is zero; empty if there is nothing of the kind.
    ``dimension`` is that of the span of the key differences. ``gap`` and ``spread`` say how far out is late:
    the least gap at infinity, and the largest ratio of a row's length to the least singular value of rows
    that can count together; ``corners`` are the unit directions at which these were taken.

    >>> import hardmax as hm
    >>> found = hm.critical_directions(hm.data.example("B-FIG-1b"))
    >>> [each.index for each in found.directions], found.sum, found.degenerate
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
        return sum((-1) ** each.index for each in self.directions)


@check_arguments
def critical_directions(
    problem: Problem, *, limit: int = LIMIT, seconds: float | None = None
) -> CriticalDirections:
    """List the directions that are critical at infinity, attractors and saddles, in rational arithmetic.

    Sets of rows are tried one by one, ``limit`` of them at most and for at most ``seconds``; there are about
    (n T^2)^d of them. Tokens with equal key and score count as one.

    >>> import hardmax as hm
    >>> for each in hm.critical_directions(hm.data.example("B-FIG-1b")).directions:
    ...     each.index, each.direction.round(4).tolist(), each.selection
    (0, [-0.0995, 0.995], (0,))
    (0, [1.0, 0.0], (1,))
    (1, [0.995, 0.0995], (1,))
    """
    geometry = Geometry(problem)
    search = _CriticalSearch(geometry, expect.whole("limit", limit, 1), seconds)
    tied = _tied_scores(geometry)
    if geometry.rank == 0:
        return CriticalDirections(
            (),
            "complete",
            (*tied, "no key differs from another of its input: p does not matter"),
            0,
            math.inf,
            1.0,
            np.zeros((0, problem.d)),
            0,
        )
    corners, ties = search.corners(), search.ties()
    dependent = [_dependent(each) for each in ties if each.count >= geometry.rank]
    degenerate = [*tied, *dependent, *map(_also, corners)]
    score = {token: float(s) for token, s in zip(geometry.tokens, geometry.scores, strict=True)}
    critical = [_critical(each, geometry.exponent) for each in corners if _signs_agree(each, score)]
    critical.sort(key=lambda each: (each.index, -each.margin))
    full = [each for each in corners if len(each.rows) == geometry.rank]
    extreme: list[Corner | Tie] = [*full, *ties]
    return CriticalDirections(
        tuple(critical),
        "complete" if search.is_whole else "truncated",
        tuple(dict.fromkeys(x for x in degenerate if x)),
        geometry.rank,
        math.ldexp(min(map(_least, extreme), default=math.inf), geometry.exponent),
        _spread(geometry, full, ties),
        np.array([each.q / np.linalg.norm(each.q) for each in extreme]).reshape(-1, problem.d),
        search.sets,
    )


class _CriticalSearch:
    """Corners and ties within a budget."""

    def __init__(self, geometry: Geometry, limit: int, seconds: float | None) -> None:
        self.geometry, self.limit, self.sets, self.is_whole = geometry, limit, 0, True
        self.end = math.inf if seconds is None else time.monotonic() + expect.positive("seconds", seconds)

    def _spend(self, sets: int) -> bool:
        self.is_whole = self.sets + sets <= self.limit and time.monotonic() <= self.end
        self.sets += sets if self.is_whole else 0
        return self.is_whole

    def corners(self) -> list[Corner]:
        found: list[Corner] = []
        for block in self.geometry.active_sets():
            if not self._spend(len(block)):
                break
            found += self.geometry.corners(block)
        return found

    def ties(self) -> list[Tie]:
        found: list[Tie] = []
        if self.is_whole:
            for tie in self.geometry.ties():
                if tie is not None:
                    found.append(tie)
                elif not self._spend(1):
                    break
        return found


def _signs_agree(corner: Corner, score: dict[Pair, float]) -> bool:
    return not corner.also and all(
        (m > 0) - (m < 0) == _sign(score[i, corner.selection[i]], score[i, t])
        for (i, t), m in zip(corner.rows, corner.multipliers, strict=True)
    )


def _sign(selected: float, other: float) -> int:
    return (selected > other) - (selected < other)


def _critical(corner: Corner, exponent: int) -> CriticalDirection:
    norm = corner.p_norm
    return CriticalDirection(
        corner.selection,
        corner.q / norm,
        math.ldexp(1.0 / norm, exponent),
        corner.rows,
        tuple(m / Fraction(4) ** exponent for m in corner.multipliers),
    )


def _tied_scores(geometry: Geometry) -> list[str]:
    said = []
    for i, each in enumerate(geometry.members):
        for a, b in itertools.combinations(each.tolist(), 2):
            if geometry.scores[a] == geometry.scores[b]:
                said.append(
                    f"input {i}: tokens {geometry.tokens[a][1]} and {geometry.tokens[b][1]} have one score"
                )
    return said


def _dependent(tie: Tie) -> str:
    several = "; ".join(
        f"tokens {', '.join(map(str, tops))} of input {i}" for i, tops in enumerate(tie.tops) if len(tops) > 1
    )
    return f"dependent rows tie along {_shown(tie.q)}: {several}"


def _also(corner: Corner) -> str:
    if not corner.also:
        return ""
    (i, t), rows = corner.also[0], ", ".join(map(str, corner.rows))
    return (
        f"row ({i}, {t}) is as near as {rows} along {_shown(corner.q / corner.p_norm)}, without a multiplier"
    )


def _shown(q: Floats) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in q[:6]) + (", ..." if len(q) > 6 else "") + ")"


def _least(each: Corner | Tie) -> float:
    """The least gap between rows that count and rows that do not, along the unit direction."""
    if isinstance(each, Tie):
        return each.gap
    return float(min(1, each.gap or 1)) / each.p_norm


def _spread(geometry: Geometry, corners: list[Corner], ties: list[Tie]) -> float:
    """Longest row over the least singular value of rows that count together; inf if they are dependent."""
    key = dict(zip(geometry.tokens, geometry.keys, strict=True))
    together = [[key[i, each.selection[i]] - key[i, t] for i, t in each.rows] for each in corners]
    for tie in ties:
        together.append([key[i, a] - key[i, t] for i, (a, *tied) in enumerate(tie.tops) for t in tied])
    least = math.inf
    for rows in together:
        if rows:
            values = np.linalg.svd(np.array(rows), compute_uv=False)
            least = min(least, float(values[-1]) if len(rows) == len(values) else 0.0)
    longest = max(float(np.linalg.norm(geometry.keys[a] - geometry.keys[b])) for a, b in geometry.rows)
    return longest / least if least > 0 else math.inf
