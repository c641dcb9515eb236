"""Failures that are proved: a slack evaluated again, in ball arithmetic, until its sign is certain.

A float that came out negative is a suspicion. Floats are exact rationals, so the same formula can be
evaluated at the same witness with outward rounding (Arb, through python-flint) and more and more bits. Keys,
scores and witnesses are exact, so that the result encloses the true number. Balls serve refutations only; no
measurement uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx, fmpq

from hardmax.problem import Problem
from hardmax.problem.losses import LOSSES

RATIONAL = "rational arithmetic"  # a proof
BITS = (128, 512, 2048, 8192)

Settled = tuple[float | None, str | None]  # a slack and what proves it where it is negative


def settle_slack(measured: float, again: Callable[[], Any]) -> Settled:
    """Return a slack with its proof: a negative one is evaluated again in balls until its sign is certain.

    ``again`` evaluates the slack at the witness in balls. If its sign is certain, that value counts, with the
    precision as the proof where it is negative; if no precision settles it, the slack is None: undecided.

    >>> from flint import arb
    >>> from hardmax.papers.checking.proof import settle_slack
    >>> settle_slack(-1e-17, lambda: arb(1).exp().log() - 1)    # exactly zero: no precision decides
    (None, None)
    >>> settle_slack(-1e-17, lambda: arb(2) ** -60)
    (8.673617379884035e-19, None)
    >>> settle_slack(-0.1, lambda: arb(1).exp() - 3)[1]
    'ball arithmetic, 128 bits'
    """
    if not measured < 0:
        return measured, None
    for bits in BITS:
        ball = at_precision(bits, again)
        if ball < 0:
            # a value below the smallest float is still below zero
            return min(float(ball.mid()), -math.ulp(0.0)), f"ball arithmetic, {bits} bits"
        if ball >= 0:
            return float(ball.mid()), None
    return None, None


def as_slack(value: Any) -> Settled:
    """Convert a number of any kind to a slack, with the proof that it carries where it is negative.

    A fraction and a ball prove themselves; a float and an int prove nothing. False is -1, and a ball that
    contains 0 decides nothing.

    >>> from fractions import Fraction
    >>> from hardmax.papers.checking.proof import as_slack
    >>> as_slack(Fraction(-1, 4)), as_slack(-0.25), as_slack(arb(0, 1))
    ((-0.25, 'fractions'), (-0.25, None), (None, None))
    """
    if value is None:
        return None, None
    if isinstance(value, bool | np.bool_):
        return (1.0 if value else -1.0), None
    if isinstance(value, Fraction | fmpq):
        return _with_sign(value), "fractions" if value < 0 else None
    if isinstance(value, arb):
        is_negative = bool(value < 0)
        if not is_negative and not value >= 0:
            return None, None
        return _with_sign(value.mid()), "balls" if is_negative else None
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return _with_sign(value), None
    except (TypeError, ValueError):
        raise ValueError(
            f"a slack must be a number or a bool, got {type(value).__name__}; return a float, a Fraction or "
            "an arb, negative where the claim fails"
        ) from None


def _with_sign(value: Any) -> float:
    """Return the nearest float of the same sign: never zero for a small number, no error for a large one."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return near if near or value == 0 else math.ulp(0.0) if value > 0 else -math.ulp(0.0)


def at_precision(bits: int, compute: Callable[[], Any]) -> Any:
    """Run a computation with balls at a working precision, and restore the old one."""
    before = ctx.prec
    try:
        ctx.prec = bits
        return compute()
    finally:
        ctx.prec = before


# Formulas are written once, over arrays of floats or of objects (balls, power series of balls): numpy's
# arithmetic, `@`, np.exp, np.log and np.sqrt take both. The functions below fill the gaps.


def balls(numbers: Any) -> np.ndarray:
    """Return floats as balls of radius zero, in an array of the same shape: every float is exact."""
    floats = np.asarray(numbers, dtype=float)
    return vector(arb(float(x)) for x in floats.ravel()).reshape(floats.shape)


def vector(numbers: Iterable[Any]) -> np.ndarray:
    """Return an array of objects, also of those that numpy would take for sequences."""
    things = list(numbers)
    array = np.empty(len(things), dtype=object)
    array[:] = things
    return array


def length(x: np.ndarray) -> Any:
    """Return the Euclidean norm."""
    return np.sqrt(x @ x)


def middle(x: Any) -> float:
    """Return the middle of a ball, or of the constant term of a series; a float as it is."""
    x = x[0] if isinstance(x, arb_series) else x
    return float(x.mid()) if isinstance(x, arb) else float(x)


def largest(numbers: Iterable[Any]) -> Any:
    """Return the number with the largest middle: for balls, a lower bound on the maximum."""
    return max(numbers, key=middle)


def least(numbers: Iterable[Any]) -> Any:
    """Return the number with the least middle: for balls, an upper bound on the minimum."""
    return min(numbers, key=middle)


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
