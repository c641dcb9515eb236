"""Floats as integers times a power of two, which loses nothing, and rational numbers as floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpz_mat, nmod_mat  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Constraints

_PRIME = 2305843009213693951  # 2^61 - 1: columns independent modulo it are independent over the rationals


def integers(values: ArrayLike) -> tuple[list[int], int]:
    """Floats as integers times one power of two: ``values = result * 2**exponent``, exactly."""
    array = np.asarray(values, dtype=np.float64).ravel()
    mantissa, exponent = np.frexp(array)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    used = whole != 0
    if not used.any():
        return [0] * len(whole), 0
    twos = np.zeros(len(whole), dtype=np.int64)
    twos[used] = np.frexp((whole[used] & -whole[used]).astype(np.float64))[1] - 1
    power = exponent.astype(np.int64) - 53 + twos
    lowest = int(power[used].min())
    shift = np.where(used, power - lowest, 0)
    return [int(w) << int(s) for w, s in zip(whole >> twos, shift, strict=True)], lowest


def _matrix(values: ArrayLike) -> tuple[Any, int]:
    array = np.asarray(values)
    entries, power = integers(array)
    return fmpz_mat(array.shape[0], array.shape[1], entries), power


def _incidence(constraints: Constraints, tokens: int) -> Any:
    matrix = fmpz_mat(constraints.count, tokens)
    for j, plus in enumerate(constraints.plus.tolist()):
        matrix[j, plus] += 1
    for j, minus in enumerate(constraints.minus.tolist()):
        if minus >= 0:
            matrix[j, minus] -= 1
    return matrix


def integer_rows(constraints: Constraints) -> tuple[Any, Any, int]:
    """Exact rows (None in Gram form) and their Gram matrix, times 2**k and 2**2k; returns -k with them."""
    if constraints.token_gram is not None:
        inner, power = _matrix(constraints.token_gram)
        if power % 2:  # the Gram matrix carries the square of the rows' scale
            inner, power = inner * 2, power - 1
        pick = _incidence(constraints, inner.nrows())
        return None, pick * inner * pick.transpose(), power // 2
    if constraints.entries is not None:
        rows = _incidence(constraints, math.prod(constraints.entries))
        return rows, rows * rows.transpose(), 0
    if constraints.right is not None:
        left, right, gram, power = integer_factors(constraints)
        m, width, height = constraints.count, left.ncols(), right.ncols()
        outer = [left[j, a] * right[j, b] for j in range(m) for a in range(width) for b in range(height)]
        return fmpz_mat(m, width * height, outer), gram, power
    rows, power = _left(constraints)
    return rows, rows * rows.transpose(), power


def integer_factors(constraints: Constraints) -> tuple[Any, Any, Any, int]:
    """Exact rows that are outer products, by their factors, times powers of two: left, right, Gram, -k."""
    assert constraints.right is not None
    assert constraints.right_of is not None
    left, power = _left(constraints)
    right, right_power = _matrix(constraints.right[constraints.right_of])
    pairs = zip((left * left.transpose()).entries(), (right * right.transpose()).entries(), strict=True)
    gram = fmpz_mat(constraints.count, constraints.count, [x * y for x, y in pairs])
    return left, right, gram, power + right_power


def _left(constraints: Constraints) -> tuple[Any, int]:
    """table[plus] - table[minus] in integers."""
    assert constraints.table is not None
    table, power = _matrix(constraints.table)
    return _incidence(constraints, table.nrows()) * table, power


def independent_columns(matrix: Any) -> list[int]:
    """Columns of an integer matrix that are independent and span the others, earlier ones first."""
    reduced, rank = nmod_mat(matrix, _PRIME).rref()
    pivots, column = [], 0
    for line in range(rank):
        while int(reduced[line, column]) == 0:
            column += 1
        pivots.append(column)
    return pivots


def row_rank(constraints: Constraints) -> int:
    """The rank of the rows, exactly."""
    if constraints.right is not None:
        return int(integer_factors(constraints)[2].rank())
    rows, gram, _ = integer_rows(constraints)
    return int((gram if rows is None else rows).rank())


def bracket(norm_squared: Fraction) -> tuple[float, float]:
    """Neighboring floats around the margin 1/sqrt(norm_squared), exactly."""
    if norm_squared == 0:
        return math.inf, math.inf
    near = root(1 / norm_squared)
    lower, upper = near, near
    if math.isinf(near) or Fraction(lower) ** 2 * norm_squared > 1:
        lower = math.nextafter(lower, 0.0)
    if not math.isinf(near) and Fraction(upper) ** 2 * norm_squared < 1:
        upper = math.nextafter(upper, math.inf)
    return lower, upper


def root(square: Fraction) -> float:
    """The square root of a rational number as a float, whatever its size."""
    if square == 0:
        return 0.0
    bits = max(0, 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    return to_float(Fraction(math.isqrt((square.numerator << (2 * bits)) // square.denominator), 1 << bits))


def fraction(value: Any) -> Fraction:
    """A rational number of flint as a fraction."""
    return Fraction(int(value.p), int(value.q))


def to_float(value: Fraction) -> float:
    """The nearest float; infinite where a float cannot hold the number."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
