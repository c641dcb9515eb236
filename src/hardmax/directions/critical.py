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
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._lib import expect
from hardmax.directions.corners import Corner, Geometry, Pair, Tie
from hardmax.margin.constraints import Floats
from hardmax.problem import Problem, need_problem

LIMIT = 2_000_000


@dataclass(frozen=True, eq=False)
class CriticalDirection:
    """A direction critical at infinity: its selection, its least-margin rows and their exact multipliers.

    >>> import hardmax as hm
    >>> saddle = hm.critical_directions(hm.data.named("B-FIG-1b")).directions[-1]
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
    >>> found = hm.critical_directions(hm.data.named("B-FIG-1b"))
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

    @property
    def sum(self) -> int:
        """Sum of (-1)^index: 1 minus the sum of the indices of the finite stationary points."""
        return sum((-1) ** each.index for each in self.directions)


def critical_directions(
    problem: Problem, *, limit: int = LIMIT, seconds: float | None = None
) -> CriticalDirections:
    """Every direction critical at infinity, in rational arithmetic: attractors and saddles with their index.

    Sets of rows are tried one by one, ``limit`` of them at most and for at most ``seconds``; there are about
    (n T^2)^d of them. Tokens with equal key and score count as one.

    >>> import hardmax as hm
    >>> for each in hm.critical_directions(hm.data.named("B-FIG-1b")).directions:
    ...     each.index, each.direction.round(4).tolist(), each.selection
    (0, [-0.0995, 0.995], (0,))
    (0, [1.0, 0.0], (1,))
    (1, [0.995, 0.0995], (1,))
    """
    need_problem(problem)
    geometry = Geometry(problem)
    search = _Search(geometry, expect.whole("limit", limit, 1), seconds)
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


class _Search:
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
    norm = corner.norm
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
    return f"row ({i}, {t}) is as near as {rows} along {_shown(corner.q / corner.norm)}, without a multiplier"


def _shown(q: Floats) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in q[:6]) + (", ..." if len(q) > 6 else "") + ")"


def _least(each: Corner | Tie) -> float:
    """The least gap between rows that count and rows that do not, along the unit direction."""
    if isinstance(each, Tie):
        return each.gap
    return float(min(1, each.gap or 1)) / each.norm


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
