"""How simple a number is, and simpler ones near it: what makes a counterexample one for a blackboard."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

DENOMINATORS = (1, 2, 4, 10, 100)


def cost(x: float) -> float:
    """Characters of a number: nothing for 0, little for small integers, then fractions, then decimals.

    >>> from hardmax.hunting.numbers import cost
    >>> [cost(x) for x in (0.0, 1.0, -1.0, 3.0, 0.5, 0.1234567)]
    [0.0, 1.0, 1.5, 2.2, 3.4, 11.0]
    """
    if x == 0:
        return 0.0
    sign = 0.5 * (x < 0)
    if abs(x) < 100 and (4 * x).is_integer():
        return (1.0 if x.is_integer() else 3.0 if (2 * x).is_integer() else 4.0) + sign + _weight(abs(x))
    return 2.0 + len(repr(abs(x))) + sign


def _weight(x: float) -> float:
    return 0.0 if x == 1 else 0.6 + 0.2 * x if x > 1 else 0.4


def costs(values: np.ndarray) -> float:
    """The sum over an array."""
    return sum(cost(float(x)) for x in values.ravel())


def rounded(values: np.ndarray, denominator: int) -> np.ndarray:
    """All numbers at the nearest multiple of one over a whole number."""
    return np.round(values * denominator) / denominator + 0.0


def simpler(x: float) -> Iterator[float]:
    """Simpler numbers near one, the simplest first."""
    near = [
        0.0,
        float(np.sign(x)),
        float(np.round(x)),
        *(float(np.round(x * q) / q) for q in DENOMINATORS[1:]),
    ]
    near.append(float(Fraction(x).limit_denominator(1000)))
    if abs(x) > 2:
        near += [float(np.round(x / 2)), float(f"{x:.1g}")]
    for each in sorted(set(near), key=cost):
        if cost(each) < cost(x):
            yield each + 0.0
