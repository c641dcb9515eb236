"""Failures that are proved: a slack evaluated again, in ball arithmetic, until its sign is certain.

A float that came out negative is a suspicion. Floats are exact rationals, so the same formula can be
evaluated at the same witness with outward rounding (Arb, through python-flint) and more and more bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx, fmpq

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
