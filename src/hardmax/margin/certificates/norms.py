"""Norms as the verifier of certificates knows them: is a length at most a bound, by arithmetic that is exact.

Like `certify` it shares no code with the solver, and it takes nothing but the standard library.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

Vector = list[Fraction]
Inner = Callable[[Vector, Vector], Fraction]
DIGITS = 60  # of powers that are not rational
MOST_SIDE = 100  # rows or columns of a matrix
BITS = 90  # of a bound, in the units that matrices are rounded to


class Ball(Protocol):
    """What a certificate's norm must know."""

    name: str
    power: Any

    @property
    def dual(self) -> Ball:
        """The dual norm."""

    def length(self, x: Vector) -> Fraction:
        """The norm of x, where it is rational."""

    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """Whether the norm of x is proved to be at most the bound; no is no proof of the contrary."""


def ball_of(c: dict[str, Any], factors: list[list[Vector]] | None, width: int) -> Ball:
    """The norm that a certificate names: that of vectors, or one of matrices, with their factors."""
    name = c.get("norm_name", "l2")
    if name not in ("nuclear", "spectral"):
        return Power(name)
    d, e = c["shape"]
    if not (isinstance(d, int) and isinstance(e, int) and d * e == width and 0 < max(d, e) <= MOST_SIDE):
        raise ValueError(f"expected a shape of {width} numbers, at most {MOST_SIDE} a side, got {d} x {e}")
    return OfMatrix(name, name == "nuclear", (d, e), factors)


class Power:
    """l_r of the entries, r a fraction or infinite."""

    def __init__(self, name: str, power: Any = None) -> None:
        text = name.removeprefix("l")
        if power is None and (text == name or not re.fullmatch(r"inf|\d+(\.\d+)?(e[+-]?\d+)?", text)):
            raise ValueError(f"expected a norm l1, l2, linf or a power such as l1.5, got {name[:20]!r}")
        self.name = name
        self.power: Any = power if power is not None else math.inf if text == "inf" else Fraction(float(text))
        if not self.power >= 1:
            raise ValueError(f"expected a norm of a power of at least 1, got {name[:20]!r}")

    @property
    def dual(self) -> Ball:
        """l_r' with 1/r + 1/r' = 1."""
        if self.power == 1 or self.power == math.inf:
            return Power(self.name, math.inf if self.power == 1 else Fraction(1))
        return Power(self.name, self.power / (self.power - 1))

    def length(self, x: Vector) -> Fraction:
        """The norm of x for l1 and linf, exactly."""
        return max(map(abs, x)) if self.power == math.inf else sum(map(abs, x), Fraction(0))

    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """Whether the norm of x is at most the bound: exactly, or by decimals rounded away from yes."""
        if self.power == 2:
            return inner(x, x) <= bound**2
        if self.power in (1, math.inf):
            return self.length(x) <= bound
        with decimal.localcontext() as context:
            context.prec = DIGITS
            unit = decimal.Decimal(10) ** (2 - DIGITS)
            r = decimal.Decimal(self.power.numerator) / decimal.Decimal(self.power.denominator)
            total = decimal.Decimal(0)
            for ratio in (abs(v) / bound for v in x if v):
                up, down = (decimal.Decimal(v).ln() for v in ratio.as_integer_ratio())
                error = unit * (1 + r) * (10 + up + down)  # ln and exp are correctly rounded
                total += (r * (up - down)).exp() * (1 + error) * (1 + unit)
            return bool(total * (1 + len(x) * unit) <= 1)


class OfMatrix:
    """The nuclear or the spectral norm of a matrix that is read row by row; r is its smaller side.

    Nuclear: the certificate has factors K and Q, and |X| <= (|K|^2 + |Q|^2)/2 + sqrt(r) |X - KQ'|, with the
    Frobenius norm on the right. Any K and Q prove something, good ones prove it well.
    Spectral: |X| <= c if c^2 - X'X is semidefinite.
    Numbers are first rounded to integers, in units far below the bound, which pays for that.
    """

    power = None

    def __init__(
        self, name: str, nuclear: bool, shape: tuple[int, int], factors: list[list[Vector]] | None
    ) -> None:
        self.name, self.nuclear, self.shape, self.factors = name, nuclear, shape, factors
        if factors is not None:
            ranks = {len(row) for factor in factors for row in factor}
            if [*map(len, factors)] != [*shape] or len(ranks) != 1 or max(ranks) > MOST_SIDE:
                raise ValueError(f"expected two factors of {shape[0]} and {shape[1]} rows of one length")

    @property
    def dual(self) -> Ball:
        """Nuclear and spectral are dual to each other."""
        return OfMatrix(self.name, not self.nuclear, self.shape, self.factors)

    def length(self, x: Vector) -> Fraction:
        """Zero of zero: the norm of any other matrix need not be rational."""
        if any(x):
            raise ValueError("expected a float certificate in a norm of matrices")
        return Fraction(0)

    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """By the factors in the nuclear norm, by elimination in the spectral one."""
        d, e = self.shape
        if bound <= 0 or (self.nuclear and self.factors is None):
            return not any(x)
        size = bound.numerator.bit_length() - bound.denominator.bit_length()
        if not self.nuclear:
            unit = Fraction(2) ** (BITS - size)
            whole = [_whole(x[k * e : (k + 1) * e], unit) for k in range(d)]
            columns = whole if d < e else [list(column) for column in zip(*whole, strict=True)]
            return _shorter(columns, math.floor(bound * unit) - max(d, e))
        unit = Fraction(2) ** (BITS - size // 2)
        K, Q = ([_whole(row, unit) for row in factor] for factor in self.factors or ())
        rows = [_whole(x[k * e : (k + 1) * e], unit**2) for k in range(d)]
        room = (
            math.floor(bound * unit**2)
            - sum(v * v for row in (*K, *Q) for v in row) // 2
            - 1
            - max(d, e) ** 2
        )
        if room < 0:
            return False
        rest = sum(
            (v - _times(k, q)) ** 2
            for row, k in zip(rows, K, strict=True)
            for v, q in zip(row, Q, strict=True)
        )
        return room**2 >= min(d, e) * rest


def _whole(values: Vector, unit: Fraction) -> list[int]:
    return [math.floor(v * unit) for v in values]


def _times(x: list[int], y: list[int]) -> int:
    return sum(a * b for a, b in zip(x, y, strict=True))


def _shorter(columns: list[list[int]], top: int) -> bool:
    """Whether |Xv| <= top |v| for all v, X given by its columns (or rows, which have the same norm)."""
    if top <= 0 or max(max(map(abs, column)) for column in columns) > top:
        return False
    gap = [[-_times(u, v) for v in columns] for u in columns]
    for k, line in enumerate(gap):
        line[k] += top**2
    return semidefinite(gap)


def semidefinite(M: list[list[int]]) -> bool:
    """Whether a symmetric integer matrix is positive semidefinite, by elimination without fractions.

    >>> semidefinite([[1, 1], [1, 1]]), semidefinite([[1, 2], [2, 1]])
    (True, False)
    """
    M, before = [list(row) for row in M], 1
    for k, line in enumerate(M):
        pivot = line[k]
        if pivot < 0 or (pivot == 0 and any(line[k:])):
            return False
        if pivot == 0:
            continue
        for row in M[k + 1 :]:
            factor = row[k]
            row[k:] = [(pivot * v - factor * w) // before for v, w in zip(row[k:], line[k:], strict=True)]
        before = pivot
    return True
