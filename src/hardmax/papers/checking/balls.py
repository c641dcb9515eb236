"""A problem in ball arithmetic: attention, risk and gradient with outward rounding, at any norm of p.

Keys, scores and the witness are floats, which are exact, so that what comes out encloses the true number.
Only what a refutation needs is here; nothing that is measured goes through it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flint import arb

from hardmax.papers.checking.proof import at_precision, dot, largest, settle_slack
from hardmax.problem import Problem
from hardmax.problem.losses import LOSSES

Ball = Any  # flint.arb, which has no types of its own
Balls = list[Ball]


def _softplus(u: Ball) -> Ball:
    return (1 + (-u).exp()).log()


# name -> value, |slope| and second derivative, for the losses that come with the package
FORMULAS: dict[str, tuple[Any, Any, Any]] = {
    "logistic": (_softplus, lambda u: 1 / (1 + u.exp()), lambda u: u.exp() / (1 + u.exp()) ** 2),
    "exponential": (lambda u: (-u).exp(), lambda u: (-u).exp(), lambda u: (-u).exp()),
    "correlation": (lambda u: -u, lambda u: arb(1), lambda u: arb(0)),
}


class BallProblem:
    """Keys and scores of a problem as balls; `has_balls` says whether its loss is known here."""

    def __init__(self, problem: Problem) -> None:
        self.n = problem.n
        self.value, self.slope, self.bend = FORMULAS[problem.loss.name]
        table = [[arb(float(x)) for x in row] for row in problem.keys]
        self.keys = [[table[t] for t in part] for part in problem.split(problem.tokens)]
        self.scores = [[arb(float(g)) for g in part] for part in problem.split(problem.scores)]

    def gaps(self, i: int, p: Sequence[Ball], reference: int) -> Balls:
        """Logits of input i minus that of one token."""
        base = self.keys[i][reference]
        return [dot([k - b for k, b in zip(key, base, strict=True)], p) for key in self.keys[i]]

    def attention(self, i: int, p: Sequence[Ball]) -> Balls:
        """Softmax weights of input i."""
        gaps = self.gaps(i, p, 0)
        top = max(range(len(gaps)), key=lambda t: float(gaps[t].mid()))
        weights = [(gap - gaps[top]).exp() for gap in gaps]
        total = sum(weights, arb(0))
        return [w / total for w in weights]

    def log_lost(self, i: int, p: Sequence[Ball], inside: Iterable[int]) -> Ball:
        """log of the attention that input i gives to tokens outside a set."""
        kept = set(inside)
        share = [s for t, s in enumerate(self.attention(i, p)) if t not in kept]
        return sum(share, arb(0)).log()

    def most_lost(self, p: Sequence[Ball], sets: Sequence[Sequence[int]]) -> Ball:
        """The largest of them over inputs whose set leaves a token out."""
        some = [(i, inside) for i, inside in enumerate(sets) if len(inside) < len(self.keys[i])]
        return largest(self.log_lost(i, p, inside) for i, inside in some)

    def prediction(self, i: int, p: Sequence[Ball]) -> Ball:
        """u_i, the attended score."""
        return dot(self.attention(i, p), self.scores[i])

    def risk(self, p: Sequence[Ball]) -> Ball:
        """Mean loss."""
        return sum((self.value(self.prediction(i, p)) for i in range(self.n)), arb(0)) / self.n

    def excess(self, p: Sequence[Ball], selection: Sequence[int]) -> Ball:
        """Risk minus that of attending to one token per input."""
        floor = sum((self.value(g[t]) for g, t in zip(self.scores, selection, strict=True)), arb(0)) / self.n
        return self.risk(p) - floor

    def pull(self, p: Sequence[Ball], inputs: Iterable[int] | None = None) -> Balls:
        """-grad L at p, over all inputs or over some of them (still divided by their number n).

        Weights sum to zero, so keys count from the top token: its own weight would cancel to nothing far out.
        """
        total = [arb(0)] * len(p)
        for i in range(self.n) if inputs is None else inputs:
            s, g = self.attention(i, p), self.scores[i]
            u = dot(s, g)
            weights = [self.slope(u) * a * (b - u) / self.n for a, b in zip(s, g, strict=True)]
            top = self.keys[i][max(range(len(s)), key=lambda t: float(s[t].mid()))]
            for weight, key in zip(weights, self.keys[i], strict=True):
                total = [x + weight * (k - b) for x, k, b in zip(total, key, top, strict=True)]
        return total

    def hessian(self, p: Sequence[Ball]) -> list[Balls]:
        """Second derivative of the risk at p, or over a box of p."""
        d = len(p)
        total = [[arb(0)] * d for _ in range(d)]
        for i in range(self.n):
            s, g = self.attention(i, p), self.scores[i]
            u = dot(s, g)
            middle = [dot(s, column) for column in zip(*self.keys[i], strict=True)]
            away = [[k - m for k, m in zip(key, middle, strict=True)] for key in self.keys[i]]
            weights = [a * (b - u) for a, b in zip(s, g, strict=True)]
            rise = [dot(weights, column) for column in zip(*away, strict=True)]
            for a, b in itertools.product(range(d), repeat=2):
                curved = dot(weights, [key[a] * key[b] for key in away])
                total[a][b] += (self.bend(u) * rise[a] * rise[b] - self.slope(u) * curved) / self.n
        return total


def stationary_near(problem: Problem, p: np.ndarray, reach: float) -> str | None:
    """The proof that a stationary point lies within ``reach`` of p in every coordinate, if there is one.

    Krawczyk's test: Newton's method from p, with the Hessian over the whole box, maps the box into itself.
    """
    if not has_balls(problem):
        return None

    def holds() -> bool:
        exact, box = BallProblem(problem), [arb(float(x), reach) for x in p]
        slope = [-x for x in exact.pull([arb(float(x)) for x in p])]
        H = exact.hessian(box)
        middle = np.array([[float(x.mid()) for x in row] for row in H])
        if not np.isfinite(middle).all() or np.linalg.cond(middle) > 1e12:
            return False
        Y = np.linalg.inv(middle)
        for j in range(len(p)):
            row = [arb(float(y)) for y in Y[j]]
            left = [dot(row, [H[k][b] for k in range(len(p))]) for b in range(len(p))]
            moved = -dot(row, slope)
            for b, x in enumerate(left):
                moved += ((1 if b == j else 0) - x) * arb(0, reach)
            if not abs(moved) < reach:
                return False
        return True

    if not at_precision(256, holds):
        return None
    return f"Krawczyk's test in ball arithmetic: a stationary point within {reach:.1g} of the witness"


def has_balls(problem: Problem) -> bool:
    """Whether failures on this problem can be proved here: fixed scores, no weights, a known loss."""
    if problem.readout.moves or problem.counts is not None or problem.weights is not None:
        return False
    return problem.loss.name in FORMULAS and problem.loss is LOSSES[problem.loss.name]


def settle(
    problem: Problem, measured: float, again: Callable[[BallProblem], Ball]
) -> tuple[float | None, str | None]:
    """`settle_slack` for a slack that ``again`` evaluates on the problem in balls; undecided without them."""
    if measured < 0 and not has_balls(problem):
        return None, None
    return settle_slack(measured, lambda: again(BallProblem(problem)))
