"""What Theorem 5 asks of the first step and of the width, in integers (A-THM-5, equation (10), A-RED-7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from hardmax._lib import expect


@dataclass(frozen=True)
class Thresholds:
    """The least step eta0 = 4 n^2 T^2 of Theorem 5, and the least width d at the step ``first_rate`` taken.

    The width is the largest of four: 256, the logarithm of Lemma 2, the eighth power of Lemma 12 and S + 3 of
    Lemma 13.

    >>> from hardmax.embeddings.thresholds import theorem_5_thresholds
    >>> found = theorem_5_thresholds(n=2, T=2, S=3, delta=0.01)
    >>> found.least_eta0, found.width
    (64, 333095854256270749197319367637054590514299136)
    """

    n: int
    T: int
    S: int
    delta: float
    first_rate: Fraction

    @property
    def least_eta0(self) -> int:
        """4 n^2 T^2."""
        return least_first_step(self.n, self.T)

    @property
    def logarithmic(self) -> int:
        """(2 log(S^2/delta))^2, rounded up: from here on event (14) is within d^(-1/4)."""
        return math.ceil((2.0 * (2.0 * math.log(self.S) - math.log(self.delta))) ** 2)

    @property
    def polynomial(self) -> int:
        """(88 eta0^2 + 111 eta0 + 2)^8, rounded up where eta0 is no integer."""
        return loss_width(self.first_rate)

    @property
    def width(self) -> int:
        """The least d."""
        return max(256, self.logarithmic, self.polynomial, self.S + 3)

    def allow(self, d: int) -> bool:
        """Whether the step taken and the width d meet equation (10).

        >>> from hardmax.embeddings.thresholds import theorem_5_thresholds
        >>> found = theorem_5_thresholds(n=2, T=2, S=3, delta=0.01)
        >>> found.allow(found.width), found.allow(found.width - 1)
        (True, False)
        """
        return self.first_rate >= self.least_eta0 and d >= self.width


def theorem_5_thresholds(
    n: int, T: int, S: int, *, delta: float, first_rate: float | Fraction | None = None
) -> Thresholds:
    """Theorem 5's thresholds for n sequences of T tokens out of S, at probability 1 - delta.

    ``first_rate`` is the size of the first step, the least that is allowed by default.

    >>> from hardmax.embeddings.thresholds import theorem_5_thresholds
    >>> f"{float(theorem_5_thresholds(100, 50, S=150, delta=0.01).width):.3g}"
    '3.6e+143'
    """
    delta = read_delta(delta)
    n, T, S = expect.whole("n", n, 1), expect.whole("T", T, 1), expect.whole("S", S, 1)
    taken = Fraction(least_first_step(n, T)) if first_rate is None else _positive_fraction(first_rate)
    return Thresholds(n, T, S, delta, taken)


def least_first_step(n: int, T: int) -> int:
    """4 n^2 T^2, the least first step of Theorem 5.

    >>> from hardmax.embeddings.thresholds import least_first_step
    >>> least_first_step(1000, 256)
    262144000000
    """
    return 4 * expect.whole("n", n, 1) ** 2 * expect.whole("T", T, 1) ** 2


def loss_width(first_rate: float | Fraction) -> int:
    """(88 eta0^2 + 111 eta0 + 2)^8: the width from which Lemma 12 bounds the loss after the first step.

    >>> from hardmax.embeddings.thresholds import loss_width
    >>> loss_width(1), 201**8
    (2664210032449121601, 2664210032449121601)
    """
    exact = _positive_fraction(first_rate)
    return math.ceil((88 * exact**2 + 111 * exact + 2) ** 8)


def read_delta(delta: Any) -> float:
    """The probability with which the initialisation may fail.

    >>> from hardmax.embeddings.thresholds import read_delta
    >>> read_delta(0.01)
    0.01
    """
    if not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be a probability between 0 and 1, got {delta!r}")
    return float(delta)


def _positive_fraction(first_rate: Any) -> Fraction:
    # An integer or a fraction may be larger than any float.
    if not isinstance(first_rate, Rational) or first_rate <= 0:
        expect.positive("first_rate", first_rate)
    # A numpy integer would stay one inside the fraction, and overflow.
    return Fraction(int(first_rate)) if isinstance(first_rate, Integral) else Fraction(first_rate)
