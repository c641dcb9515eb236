"""Norms of p: value, dual, steepest step, and what is known of the shape of their ball (D-DEF-3).

A norm is that of l_r for 1 <= r <= inf, taken of the entries of p or of the singular values of a matrix.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax._lib.arrays import length
from hardmax._lib.expect import _short
from hardmax.margin.constraints import Floats
from hardmax.margin.measure import EPS

KNOWN = '"l1", "l2", "linf", a power such as "l1.5" or 1.5, "frobenius", "nuclear" or "spectral"'
_MATRIX = {"nuclear": 1.0, "spectral": math.inf}
MOST = 1e300  # a power; beyond it the solver's steps vanish in rounding
ROUNDING = 1e-13  # singular values below this share of the largest are zero to a steepest step


@dataclass(frozen=True)
class Norm:
    """The norm l_r of the entries of p or, if ``of_matrix``, of its singular values; ``power`` is r.

    >>> import hardmax as hm
    >>> norm = hm.margin.norm("l1.5")
    >>> norm.dual.name, norm.strictly_convex, norm.is_polyhedral
    ('l3', True, False)
    >>> hm.margin.norm("l1").value([3.0, -4.0]), hm.margin.norm("linf").step([3.0, -4.0]).tolist()
    (7.0, [1.0, -1.0])
    """

    power: float
    of_matrix: bool = False

    @property
    def name(self) -> str:
        """Its name, from which `norm` makes it again."""
        if self.of_matrix:
            return next(name for name, power in _MATRIX.items() if power == self.power)
        return "linf" if math.isinf(self.power) else f"l{self.power!r}".removesuffix(".0")

    @property
    def dual(self) -> Norm:
        """The norm N* with u.p <= N*(u) N(p), and equality for some p of every u."""
        if self.power == 1 or math.isinf(self.power):
            return Norm(math.inf if self.power == 1 else 1.0, self.of_matrix)
        return Norm(self.power / (self.power - 1))

    @property
    def strictly_convex(self) -> bool:
        """Whether the ball is round, so that a max-margin problem has one solution."""
        return 1 < self.power < math.inf

    @property
    def is_polyhedral(self) -> bool:
        """Whether the ball has finitely many corners, so that fractions solve a max-margin problem."""
        return not self.strictly_convex and not self.of_matrix

    def value(self, p: ArrayLike) -> float:
        """N(p), without over- or underflow on the way; off by at most a relative `rounding`.

        >>> import hardmax as hm
        >>> hm.margin.norm("nuclear").value([[0.0, 3.0], [4.0, 0.0]])
        7.0
        """
        x = np.asarray(p, dtype=np.float64)
        if self.power == 2:
            return length(x)
        return float(
            _lengths(np.linalg.svd(x, compute_uv=False) if self.of_matrix else x.ravel(), self.power)
        )

    def of_rows(self, rows: Floats) -> Floats:
        """N of every row of a matrix, each read as a vector.

        >>> import hardmax as hm
        >>> hm.margin.norm("l1").of_rows([[1.0, -2.0], [0.0, 3.0]]).tolist()
        [3.0, 3.0]
        """
        return _lengths(np.asarray(rows, dtype=np.float64), self.power)

    def rounding(self, terms: int) -> float:
        """Relative error bound of `value` with this many numbers: sums and maxima, or powers and roots."""
        return (terms + 1) * EPS if self.is_polyhedral else 8 * (terms + 1) * EPS

    def step(self, g: ArrayLike) -> Floats:
        """The steepest step: the d with N(d) = 1 that makes g.d largest; zero if g is.

        Among several it is the one that moves the first of the largest entries only (l1), or that leaves
        alone the entries where g is zero (linf).

        >>> import hardmax as hm
        >>> hm.margin.norm("l1").step([1.0, -2.0]).tolist(), hm.margin.norm("l2").step([3.0, 4.0]).tolist()
        ([0.0, -1.0], [0.6, 0.8])
        """
        slope = np.asarray(g, dtype=np.float64)
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(slope)
        slope = slope / largest
        if not self.of_matrix:
            return self._along(slope.ravel()).reshape(slope.shape)
        U, values, Vt = np.linalg.svd(slope, full_matrices=False)
        kept = np.where(values > ROUNDING * values[0], values, 0.0)
        made: Floats = (U * self._along(kept)) @ Vt
        return made

    def _along(self, slope: Floats) -> Floats:
        if self.power == 1:
            first = int(np.argmax(np.abs(slope)))
            step = np.zeros_like(slope)
            step[first] = np.sign(slope[first])
            return step
        if math.isinf(self.power):
            return np.sign(slope)
        step = np.sign(slope) * np.abs(slope) ** (self.dual.power - 1)
        return step / self.value(step)


def norm(name: Norm | str | float) -> Norm:
    """The norm of a name: "l1", "l2", "linf", a power such as "l1.5" or 1.5, "nuclear", "spectral".

    >>> import hardmax as hm
    >>> [hm.margin.norm(name).name for name in ("l2", "frobenius", 3, "l1.50", "1.5")]
    ['l2', 'l2', 'l3', 'l1.5', 'l1.5']
    >>> hm.margin.norm("l0.5")
    Traceback (most recent call last):
    ValueError: norm must be a power above 1, got 'l0.5'; "l1" is the least power that gives a norm
    """
    if isinstance(name, Norm):
        return name
    if isinstance(name, str) and name in _MATRIX:
        return Norm(_MATRIX[name], True)
    if isinstance(name, str) and name in ("l1", "l2", "linf", "frobenius"):
        return Norm({"l1": 1.0, "linf": math.inf}.get(str(name), 2.0))
    power = _power(name)
    if power is None:
        raise ValueError(f"norm must be {KNOWN}, got {_short(name)}; choose one of these")
    if power <= 1:
        raise ValueError(
            f'norm must be a power above 1, got {name!r}; "l1" is the least power that gives a norm'
        )
    if power > MOST:
        raise ValueError(
            f'norm must be a power of at most {MOST:g}, got {_short(name)}; write "linf" instead'
        )
    return Norm(power)


def _power(name: Any) -> float | None:
    """The number in "l1.5" or "1.5", or the number itself; None if it is neither."""
    if isinstance(name, str):
        text = name.removeprefix("l")
        return float(text) if re.fullmatch(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", text) else None
    if isinstance(name, bool | np.bool_) or not isinstance(name, int | float | np.integer | np.floating):
        return None
    if isinstance(name, int):
        return float(min(max(name, -1), 10**300))  # what is above float64 is above every power allowed
    return None if math.isnan(name) else float(name)


def _lengths(x: NDArray[Any], power: float) -> Any:
    """l_r along the last axis."""
    sizes = np.abs(x)
    top = sizes.max(axis=-1, initial=0.0)
    if math.isinf(power):
        return top
    if power == 1:
        return sizes.sum(axis=-1)
    unit = np.where(top > 0, top, 1.0)
    return unit * np.sum((sizes / unit[..., None]) ** power, axis=-1) ** (1 / power)
