"""A problem in ball arithmetic: attention, risk and gradient with outward rounding, at any norm of p.

Keys, scores and the witness are floats, which are exact, so that the result encloses the true number.
It serves refutations only; no measurement uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flint import arb

from hardmax.papers.checking.proof import Settled, at_precision, balls, largest, middle, settle_slack, vector
from hardmax.problem import Problem
from hardmax.problem.losses import LOSSES

Ball = Any  # flint.arb, which has no types

# name -> value, |slope| and second derivative, for the losses that come with the package
FORMULAS: dict[str, tuple[Any, Any, Any]] = {
    "logistic": (
        lambda u: np.log(1 + np.exp(-u)),
        lambda u: 1 / (1 + np.exp(u)),
        lambda u: np.exp(u) / (1 + np.exp(u)) ** 2,
    ),
    "exponential": (lambda u: np.exp(-u),) * 3,
    "correlation": (lambda u: -u, lambda u: arb(1), lambda u: arb(0)),
}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the shares of e^logits; the logit they are shifted by cancels, so it need not be certain."""
    top = int(np.argmax([middle(x) for x in logits]))
    weights = np.exp(logits - logits[top : top + 1])
    shares: np.ndarray = weights / weights.sum(keepdims=True)
    return shares


class BallProblem:
    """Keys and scores of a problem as arrays of balls, under its loss or another one of `FORMULAS`.

    A point p is an array of balls, or of power series in time.
    """

    def __init__(self, problem: Problem, loss: str | None = None) -> None:
        self.n = problem.n
        self.value, self.slope, self.bend = FORMULAS[loss or problem.loss.name]
        self.keys = [balls(part) for part in problem.split(problem.keys[problem.tokens])]
        self.scores = [balls(part) for part in problem.split(problem.scores)]

    def attention(self, i: int, p: np.ndarray) -> np.ndarray:
        """Return the softmax weights of input i."""
        return softmax((self.keys[i] - self.keys[i][0]) @ p)

    def log_lost(self, i: int, p: np.ndarray, inside: Iterable[int]) -> Ball:
        """Return the log of the attention that input i gives to tokens outside a set."""
        return np.log(np.delete(self.attention(i, p), list(inside)).sum())

    def most_lost(self, p: np.ndarray, sets: Sequence[Sequence[int]]) -> Ball:
        """Return the largest `log_lost` over the inputs whose set leaves a token out."""
        pairs = ((i, inside) for i, inside in enumerate(sets) if len(inside) < len(self.keys[i]))
        return largest(self.log_lost(i, p, inside) for i, inside in pairs)

    def prediction(self, i: int, p: np.ndarray) -> Ball:
        """Return u_i, the attended score."""
        return self.attention(i, p) @ self.scores[i]

    def risk(self, p: np.ndarray) -> Ball:
        """Return the mean loss."""
        return sum(self.value(self.prediction(i, p)) for i in range(self.n)) / self.n

    def excess(self, p: np.ndarray, selection: Sequence[int]) -> Ball:
        """Return the risk minus that of attending to one token per input."""
        floor = sum(self.value(g[t]) for g, t in zip(self.scores, selection, strict=True)) / self.n
        return self.risk(p) - floor

    def _pulls(self, i: int, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return attention, attention times scores above the attended one, and this (an array of one)."""
        s, g = self.attention(i, p), self.scores[i]
        u = (s * g).sum(keepdims=True)
        return s, s * (g - u), u

    def pull(self, p: np.ndarray, inputs: Iterable[int] | None = None) -> np.ndarray:
        """Return -grad L at p, summed over all inputs or some of them and divided by n.

        Weights sum to zero, so keys count from the top token: its own weight would cancel to nothing far out.
        """
        total = balls(np.zeros(len(p)))
        for i in range(self.n) if inputs is None else inputs:
            s, weights, u = self._pulls(i, p)
            top = self.keys[i][int(np.argmax([middle(x) for x in s]))]
            total = total + (self.slope(u) * weights / self.n) @ (self.keys[i] - top)
        return total

    def hessian(self, p: np.ndarray) -> np.ndarray:
        """Return the second derivative of the risk at p, or over a box of p."""
        total = balls(np.zeros((len(p), len(p))))
        for i in range(self.n):
            s, weights, u = self._pulls(i, p)
            away = self.keys[i] - s @ self.keys[i]
            rise = weights @ away
            curved = (away.T * weights) @ away
            total = total + (self.bend(u) * np.outer(rise, rise) - self.slope(u) * curved) / self.n
        return total


def stationary_near(problem: Problem, p: np.ndarray, reach: float) -> str | None:
    """Return a proof that a stationary point lies within ``reach`` of p in every coordinate, or None.

    Krawczyk's test: Newton's method from p, with the Hessian over the whole box, maps the box into itself.
    """
    if not has_balls(problem):
        return None

    def holds() -> bool:
        exact, off = BallProblem(problem), vector([arb(0, reach)] * len(p))
        H = exact.hessian(balls(p) + off)
        center = np.array([[middle(x) for x in row] for row in H])
        if not np.isfinite(center).all() or np.linalg.cond(center) > 1e12:
            return False
        Y = balls(np.linalg.inv(center))
        image = Y @ exact.pull(balls(p)) + (balls(np.eye(len(p))) - Y @ H) @ off
        return all(abs(x) < reach for x in image)

    if not at_precision(256, holds):
        return None
    return f"Krawczyk's test in ball arithmetic: a stationary point within {reach:.1g} of the witness"


def has_balls(problem: Problem) -> bool:
    """Return whether failures on this problem can be proved here: fixed scores, no weights, a known loss."""
    if problem.readout.moves or problem.counts is not None or problem.weights is not None:
        return False
    return problem.loss.name in FORMULAS and problem.loss is LOSSES[problem.loss.name]


def settle(problem: Problem, measured: float, again: Callable[[BallProblem], Ball]) -> Settled:
    """Settle a slack that ``again`` evaluates on the problem in balls; undecided where it has no balls."""
    if measured < 0 and not has_balls(problem):
        return None, None
    return settle_slack(measured, lambda: again(BallProblem(problem)))
