"""What a flow on one input selects, proved: the way in balls, the end by a trap that no flow leaves.

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
holds for ever. As d_t . p' is at least a multiple of s_t, these margins grow without bound, and those over
high tokens exceed the margin over r by -log q_b: all attention goes to a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, arb_series, ctx

from hardmax.papers.checking.proof import at_precision, balls, dot
from hardmax.problem import Problem

BITS, ORDER = 128, 10
STEPS = 2000  # at most
PROOF = "the way of the flow in balls, into a trap that no flow leaves"
TINY = 2.0**-36  # the remainder that a step may add
Ball = Any  # flint.arb
Balls = list[Ball]


def selected(problem: Problem, start: Any, steps: int = STEPS) -> int | None:
    """The token of the one input that the flow from ``start`` is proved to select; None if nothing is proved.

    >>> import hardmax as hm
    >>> from hardmax.papers.checking.enclosure import selected
    >>> line = hm.Problem([[[0.0], [1.0], [-1.0]]], [[1.0, 2.0, 0.0]])
    >>> selected(line, [0.0]), selected(line, [0.0], steps=0)
    (1, None)
    """
    if problem.n != 1 or problem.readout.moves or problem.counts is not None or len(problem.shape) != 1:
        return None
    point = problem.vector("start", start)
    keys = [balls(row) for row in problem.keys[problem.tokens]]
    return at_precision(
        BITS, lambda: _follow(EnclosedField(keys, balls(problem.scores)), balls(point), steps)
    )


class EnclosedField:
    """p' of one input, on balls or on power series in time; keys are taken from the first token on."""

    def __init__(self, keys: Sequence[Balls], scores: Balls) -> None:
        self.keys = [[k - b for k, b in zip(key, keys[0], strict=True)] for key in keys]
        self.scores = scores

    def attention(self, p: Sequence[Any]) -> list[Any]:
        """Softmax weights."""
        gaps = [dot(key, p) for key in self.keys]
        top = max(range(len(gaps)), key=lambda t: _middle(gaps[t]))
        weights = [(gap - gaps[top]).exp() for gap in gaps]
        total = sum(weights[1:], weights[0])
        return [w / total for w in weights]

    def at(self, p: Sequence[Any]) -> list[Any]:
        """p'."""
        s = self.attention(p)
        u = dot(s, self.scores)
        pulls = [a * (g - u) for a, g in zip(s, self.scores, strict=True)]
        return [dot(pulls, column) for column in zip(*self.keys, strict=True)]

    def stretch(self, p: Balls) -> Ball:
        """At least the largest eigenvalue of the derivative of the field, by the discs of Gershgorin."""
        s = self.attention(p)
        u = dot(s, self.scores)
        mean = [dot(s, column) for column in zip(*self.keys, strict=True)]
        away = [[k - m for k, m in zip(key, mean, strict=True)] for key in self.keys]
        weights = [a * (g - u) for a, g in zip(s, self.scores, strict=True)]
        d = range(len(p))
        bent = [[dot(weights, [key[i] * key[j] for key in away]) for j in d] for i in d]
        rows = [sum((abs(bent[i][j]) for j in d if j != i), bent[i][i]).upper() for i in d]
        return max(rows, key=float)


def _middle(x: Any) -> float:
    return float((x[0] if isinstance(x, arb_series) else x).mid())


@dataclass(frozen=True)
class Disc:
    """All points within a distance of a middle, which is exact."""

    middle: Balls
    radius: Ball

    @property
    def box(self) -> Balls:
        """A box around it."""
        return [x + arb(0, 1) * self.radius for x in self.middle]


def _follow(field: EnclosedField, start: Balls, steps: int) -> int | None:
    """Optimizer by step until a trap shuts."""
    disc, h = Disc(start, arb(0)), arb(1)
    for _ in range(steps):
        if (token := trapped(field, disc.box)) is not None:
            return token
        while (found := step(field, disc, h)) is None:
            h = h / 2
            if h < TINY:
                return None  # the disc has grown too wide
        disc, h = found, (9 * h / 8).mid()
    return None


def step(field: EnclosedField, disc: Disc, h: Ball) -> Disc | None:
    """A disc that holds all solutions from a disc after the time h, or None if the step is too long.

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
    grown = disc.radius * (h * field.stretch(box)).exp()
    off = sum((x.rad() for x in there), arb(0))
    return Disc([x.mid() for x in there], (grown + off).upper())


def _around(field: EnclosedField, p: Balls, h: Ball) -> Balls | None:
    """A box that holds all solutions from p up to the time h."""
    time = h / 2 + arb(0, 1) * (h / 2)  # [0, h]
    box = p
    for _ in range(3):
        reach = [x + time * v for x, v in zip(p, field.at(box), strict=True)]
        if not all(x.is_finite() for x in reach):
            return None
        if all(b.contains_interior(x) for b, x in zip(box, reach, strict=True)):
            return box
        box = [x.union(y) + arb(0, 1) * (2 * x.union(y).rad() + TINY) for x, y in zip(p, reach, strict=True)]
    return None


def taylor(field: EnclosedField, p: Balls) -> list[Any]:
    """Coefficients of the solution from p, up to that of the order of the remainder."""
    before = ctx.cap
    try:
        ctx.cap = ORDER + 1
        series = [arb_series([x]) for x in p]
        for k in range(1, ORDER + 1):  # every turn makes one more coefficient right
            ctx.cap = k + 1
            series = [arb_series([x]) + v.integral() for x, v in zip(p, field.at(series), strict=True)]
        return series
    finally:
        ctx.cap = before


def trapped(field: EnclosedField, p: Balls) -> int | None:
    """The token to which all attention goes from everywhere in the box p, if the conditions above hold."""
    s = field.attention(p)
    u = dot(s, field.scores)
    low = [t for t, g in enumerate(field.scores) if g < u]
    above = sorted(set(range(len(s))) - set(low), key=lambda t: _middle(field.scores[t]))
    if not low or not above or not all(field.scores[t] > u for t in above):
        return None
    partner = max(low, key=lambda t: _middle(s[t]))
    a, high = above[0], above[1:]  # u stays below the score that it tends to, and rises above no other
    d = [[x - y for x, y in zip(field.keys[a], key, strict=True)] for key in field.keys]
    ways = [d[r] for r in low] + [[x - y for x, y in zip(d[b], d[partner], strict=True)] for b in high]
    most = field.scores[above[-1]] - u
    for x in ways:
        if not all(dot(d[r], x) >= 0 for r in low):
            return None
        against = sum((s[b] / s[partner] * most * abs(dot(d[b], x)) for b in high), arb(0))
        if not (u - field.scores[partner]) * dot(d[partner], x) > against:
            return None
    return a if all(dot(d[r], d[r]) > 0 for r in low) else None
