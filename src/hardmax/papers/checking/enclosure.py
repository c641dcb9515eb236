"""Prove which token a flow on one input selects: balls along the way, then a trap that no flow leaves.

**The way.** With one input every decreasing loss has the orbits of p' = sum_t s_t (g_t - u) k_t, u the
attended score, so that the loss plays no part. A step encloses the solution twice: coarsely, by a box B that
p + [0, h] f(B) lies inside of (Picard and Lindelöf: the solution stays in B up to h), then finely, by
Taylor's formula with its remainder taken over B. All of it is ball arithmetic with outward rounding.

**The trap.** Let a be a token, d_t = k_a - k_t, and let all other tokens be low, with scores below u, or
high, with scores above it. Then p' = sum over low r of s_r (u - g_r) d_r - sum over high b of s_b (g_b - u)
d_b, and u never falls. Let r be the low token of most attention, q_b = s_b/s_r, and C the best score less u.
If for x = d_t of every low t, and for x = d_b - d_r of every high b,

    d_t . x >= 0 for all low t   and   (u - g_r) d_r . x > sum of q_b C |d_b . x| over all high b,

then x . p' > 0 for all of them: margins over low tokens grow, every q_b falls, u rises, and so the same
holds forever. As d_t . p' is at least a multiple of s_t, these margins grow without bound, and those over
high tokens exceed the margin over r by -log q_b: all attention goes to a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx

from hardmax.papers.checking.proof import Ball, BallProblem, at_precision, balls, middle, vector
from hardmax.problem import Problem

BITS, ORDER = 128, 10
STEPS = 2000  # at most
PROOF = "the way of the flow in balls, into a trap that no flow leaves"
TINY = 2.0**-36  # the remainder that a step may add


def selected(problem: Problem, start: Any, steps: int = STEPS) -> int | None:
    """Return the token of the one input that the flow from ``start`` provably selects, or None.

    >>> import hardmax as hm
    >>> from hardmax.papers.checking.enclosure import selected
    >>> line = hm.Problem([[[0.0], [1.0], [-1.0]]], [[1.0, 2.0, 0.0]])
    >>> selected(line, [0.0]), selected(line, [0.0], steps=0)
    (1, None)
    """
    if problem.n != 1 or problem.readout.moves or problem.counts is not None or len(problem.shape) != 1:
        return None
    point = problem.vector("start", start)
    # p' is the pull under the correlation loss, which has the slope 1
    return at_precision(BITS, lambda: _follow(BallProblem(problem, "correlation"), balls(point), steps))


def stretch(field: BallProblem, p: np.ndarray) -> Ball:
    """Bound the largest eigenvalue of the derivative of the field by Gershgorin's discs."""
    bent = -field.hessian(p)
    sums = [np.abs(np.delete(row, i)).sum() + row[i] for i, row in enumerate(bent)]
    return max((x.upper() for x in sums), key=float)


@dataclass(frozen=True)
class Disc:
    """All points within a distance of a middle, which is exact."""

    middle: np.ndarray
    radius: Ball

    @property
    def box(self) -> np.ndarray:
        """A box around the disc."""
        return self.middle + arb(0, 1) * self.radius


def _follow(field: BallProblem, start: np.ndarray, steps: int) -> int | None:
    """Take steps until a trap closes."""
    disc, h = Disc(start, arb(0)), arb(1)
    for _ in range(steps):
        if (token := trapped(field, disc.box)) is not None:
            return token
        while (following := step(field, disc, h)) is None:
            h = h / 2
            if h < TINY:
                return None  # the disc has grown too wide
        disc, h = following, (9 * h / 8).mid()
    return None


def step(field: BallProblem, disc: Disc, h: Ball) -> Disc | None:
    """Return a disc that contains all solutions from a disc after the time h, or None if h is too long.

    The middle goes by Taylor's formula, and no two solutions part faster than by the largest eigenvalue of
    the derivative of the field, which is symmetric.
    """
    box = _around(field, disc.box, h)
    if box is None:
        return None
    rest = [series[ORDER] * h**ORDER for series in taylor(field, box)]
    if not all(abs(x) < TINY for x in rest):
        return None
    there = []
    for series, last in zip(taylor(field, disc.middle), rest, strict=True):
        there.append(sum((series[k] * h**k for k in range(ORDER)), last))
    grown = disc.radius * (h * stretch(field, box)).exp()
    off = sum((x.rad() for x in there), arb(0))
    return Disc(vector(x.mid() for x in there), (grown + off).upper())


def _around(field: BallProblem, p: np.ndarray, h: Ball) -> np.ndarray | None:
    """Return a box that contains all solutions from p up to the time h, or None."""
    time = h / 2 + arb(0, 1) * (h / 2)  # [0, h]
    box = p
    for _ in range(3):
        reach = p + time * field.pull(box)
        if not all(x.is_finite() for x in reach):
            return None
        if all(b.contains_interior(x) for b, x in zip(box, reach, strict=True)):
            return box
        both = [x.union(y) for x, y in zip(p, reach, strict=True)]
        box = vector(x + arb(0, 1) * (2 * x.rad() + TINY) for x in both)
    return None


def taylor(field: BallProblem, p: np.ndarray) -> np.ndarray:
    """Return the Taylor coefficients of the solution from p, up to the order of the remainder."""
    before = ctx.cap
    try:
        ctx.cap = ORDER + 1
        series = vector(arb_series([x]) for x in p)
        for k in range(1, ORDER + 1):  # every turn makes one more coefficient right
            ctx.cap = k + 1
            series = vector(
                arb_series([x]) + v.integral() for x, v in zip(p, field.pull(series), strict=True)
            )
        return series
    finally:
        ctx.cap = before


def trapped(field: BallProblem, p: np.ndarray) -> int | None:
    """Return the token to which all attention goes from everywhere in the box p, if that is proved."""
    s, scores, keys = field.attention(0, p), field.scores[0], field.keys[0]
    u = s @ scores
    low = [t for t, g in enumerate(scores) if g < u]
    above = sorted(set(range(len(s))) - set(low), key=lambda t: middle(scores[t]))
    if not low or not above or not all(scores[t] > u for t in above):
        return None
    partner = max(low, key=lambda t: middle(s[t]))
    a, high = above[0], above[1:]  # u stays below the score that it tends to, and rises above no other
    d = keys[a] - keys
    most = scores[above[-1]] - u
    for x in [*d[low], *(d[high] - d[partner])]:
        if not all(product >= 0 for product in d[low] @ x):
            return None
        against = (s[high] / s[partner] * most * np.abs(d[high] @ x)).sum()
        if not (u - scores[partner]) * (d[partner] @ x) > against:
            return None
    return a if all(square > 0 for square in (d[low] * d[low]).sum(axis=1)) else None
