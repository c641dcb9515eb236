"""The parts of all candidates of a hunt: the cost of writing a number down, and simpler numbers near it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

DENOMINATORS = (1, 2, 4, 10, 100)


def cost(x: float) -> float:
    """Count the characters of a number: none for 0, little for small integers, then fractions, then decimals.

    >>> from hardmax.papers.hunting.candidate import cost
    >>> [cost(x) for x in (0.0, 1.0, -1.0, 3.0, 0.5, 0.1234567)]
    [0.0, 1.0, 1.5, 2.2, 3.4, 11.0]
    """
    if x == 0:
        return 0.0
    sign, size = 0.5 * (x < 0), abs(x)
    if size < 100 and (4 * x).is_integer():
        weight = 0.0 if size == 1 else 0.6 + 0.2 * size if size > 1 else 0.4
        return (1.0 if x.is_integer() else 3.0 if (2 * x).is_integer() else 4.0) + sign + weight
    return 2.0 + len(repr(size)) + sign


def costs(values: np.ndarray) -> float:
    """Return the sum over an array."""
    return sum(cost(float(x)) for x in values.ravel())


def rounded(values: np.ndarray, denominator: int) -> np.ndarray:
    """Return all numbers at the nearest multiple of one over a whole number."""
    return np.round(values * denominator) / denominator + 0.0


def simpler(x: float) -> Iterator[float]:
    """Yield simpler numbers near one, the simplest first."""
    near = [0.0, float(np.sign(x)), *(float(np.round(x * q) / q) for q in DENOMINATORS)]
    near.append(float(Fraction(x).limit_denominator(1000)))
    if abs(x) > 2:
        near += [float(np.round(x / 2)), float(f"{x:.1g}")]
    for number in sorted(set(near), key=cost):
        if cost(number) < cost(x):
            yield number + 0.0


def with_simpler_number(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the same numbers with one of them replaced by a simpler one near it."""
    for place, value in enumerate(values):
        for near in simpler(float(value)):
            changed = values.copy()
            changed[place] = near
            yield changed


def as_lists(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON can hold them."""
    return {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in options.items()}


Size = tuple[int, int, int]
Ranges = Mapping[str, tuple[int, int]]  # of n, T and d, or of the sizes of another kind


def draw_size(ranges: Ranges, rng: np.random.Generator) -> Size:
    """Draw n, T and d, or the sizes of another kind, from their ranges."""
    first, second, third = (int(rng.integers(low, high + 1)) for low, high in ranges.values())
    return first, second, third
