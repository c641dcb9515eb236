"""The norms l_r of the entries of a vector: value, dual, steepest step, what a flow follows (D-DEF-3)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax._lib.expect import _short
from hardmax.margin.constraints import Floats
from hardmax.margin.measure import EPS
from hardmax.margin.registry import Norm

MOST = 1e300  # a power; beyond it the solver's steps vanish in rounding
STEEPEST = 3e3  # slope up to which a flow follows a power; ten times as much stops it where it slides


@dataclass(frozen=True)
class Power(Norm):
    """l_r of the entries of p, 1 <= r <= inf; how problems are solved is said by the kinds of it."""

    r: float

    @property
    def power(self) -> float:
        """r."""
        return self.r

    @property
    def name(self) -> str:
        """Its name, from which `norm` makes it again."""
        return "linf" if math.isinf(self.r) else f"l{self.r!r}".removesuffix(".0")

    @property
    def dual(self) -> Power:
        """l_q with 1/r + 1/q = 1."""
        if self.r == 1 or math.isinf(self.r):
            return type(self)(math.inf if self.r == 1 else 1.0)
        return type(self)(self.r / (self.r - 1))

    def value(self, p: ArrayLike) -> float:
        """N(p), without over- or underflow on the way; off by at most a relative `rounding`."""
        return float(lengths(np.ravel(np.asarray(p, dtype=np.float64)), self.r))

    def of_rows(self, rows: Floats) -> Floats:
        """N of every row."""
        return np.asarray(lengths(np.asarray(rows, dtype=np.float64), self.r))

    def rounding(self, terms: int) -> float:
        """Relative error bound of `value` with this many numbers: sums and maxima, or powers and roots."""
        return (1 if self.is_polyhedral else 8) * (terms + 1) * EPS

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """A number c with N(p) <= c |p|, |p| in l2."""
        return float(math.prod(shape) ** max(0.0, 1 / self.r - 0.5))

    def step(self, g: ArrayLike) -> Floats:
        """The steepest step: the d with N(d) = 1 that makes g.d largest; zero if g is.

        Among several it is the one that moves the first of the largest entries only (l1), or that leaves
        alone the entries where g is zero (linf).

        >>> import hardmax as hm
        >>> hm.margin.norm("l1").step([1.0, -2.0]).tolist(), hm.margin.norm("l3").step([4.0, 0.0]).tolist()
        ([0.0, -1.0], [1.0, 0.0])
        """
        slope = np.asarray(g, dtype=np.float64)
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(slope)
        return along((slope / largest).ravel(), self.r).reshape(slope.shape)

    def speed(self, F: Floats, parts: Callable[[], Floats] | None = None) -> tuple[Floats, Floats]:
        """|F|_q^(2-q) sign(F) |F|^(q-1), the gradient of |F|_q^2/2, and its derivative.

        For r > 2 its slope is infinite where F_k crosses zero. There |F_k|^(q-1) is rounded off: F_k within a
        ``near`` of the parts it is summed from has a slope of about 3e3.

        >>> import hardmax as hm
        >>> hm.margin.norm("l1.5").speed(np.array([1.0, 0.0]))[0].tolist()
        [1.0, 0.0]
        """
        q, size = self.r / (self.r - 1.0), float(np.abs(F).max(initial=0.0))
        if not 0.0 < size < math.inf:
            return np.full(len(F), math.nan if size else 0.0), np.zeros((len(F), len(F)))
        f = F / size
        S = float((np.abs(f) ** q).sum())
        scale = size * S ** ((2.0 - q) / q)
        if q >= 2.0 or parts is None:
            unit, slope = np.sign(f) * np.abs(f) ** (q - 1.0), (q - 1.0) * np.abs(f) ** (q - 2.0)
        else:
            with np.errstate(over="ignore"):  # at a trial point next to no force may be left
                near = np.clip(STEEPEST ** (-1.0 / (2.0 - q)) * parts() / size, 1e-150, 1.0)
            square = f * f + near * near
            bent = square ** ((q - 2.0) / 2.0)
            unit, slope = f * bent, bent * ((q - 1.0) * f * f + near * near) / square
        # of |f|_q^(2-q) unit: the derivative of the unit, and that of its length
        grown = (2.0 - q) / S * np.outer(unit, np.sign(F) * np.abs(f) ** (q - 1.0))
        return scale * unit, (np.diag(slope) + grown) * (scale / size)


def along(slope: Floats, r: float) -> Floats:
    """The steepest step for a slope whose largest entry is 1.

    >>> along(np.array([1.0, -0.5]), math.inf).tolist()
    [1.0, -1.0]
    """
    if r == 1:
        first = int(np.argmax(np.abs(slope)))
        step = np.zeros_like(slope)
        step[first] = np.sign(slope[first])
        return step
    if math.isinf(r):
        return np.sign(slope)
    step = np.sign(slope) * np.abs(slope) ** (r / (r - 1) - 1)
    return np.asarray(step / lengths(step, r))


def lengths(x: NDArray[Any], r: float) -> Any:
    """l_r along the last axis.

    >>> lengths(np.array([[3.0, -4.0]]), 1.0).tolist()
    [7.0]
    """
    sizes = np.abs(x)
    top = sizes.max(axis=-1, initial=0.0)
    if math.isinf(r):
        return top
    if r == 1:
        return sizes.sum(axis=-1)
    unit = np.where(top > 0, top, 1.0)
    return unit * np.sum((sizes / unit[..., None]) ** r, axis=-1) ** (1 / r)


def read_power(name: Any) -> float | None:
    """The power in "l1.5" or "1.5", or the number itself; None if it is neither.

    >>> read_power("l1.5"), read_power("nuclear")
    (1.5, None)
    """
    power = _number(name)
    if power is None:
        return None
    if power <= 1:
        raise ValueError(
            f'norm must be a power above 1, got {name!r}; "l1" is the least power that gives a norm'
        )
    if power > MOST:
        raise ValueError(
            f'norm must be a power of at most {MOST:g}, got {_short(name)}; write "linf" instead'
        )
    return power


def _number(name: Any) -> float | None:
    if isinstance(name, str):
        text = name.removeprefix("l")
        return float(text) if re.fullmatch(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", text) else None
    if isinstance(name, bool | np.bool_) or not isinstance(name, int | float | np.integer | np.floating):
        return None
    if isinstance(name, int):
        return float(min(max(name, -1), 10**300))  # what is above float64 is above every power allowed
    return None if math.isnan(name) else float(name)
