"""Losses: strictly decreasing functions of the signed prediction u.

Everything a dynamic needs from a loss is log|l'(u)|, because directions are formed in the log domain. The
sign is not in it: whether a custom loss decreases is read off its values, once per problem.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Scalar = Callable[[float], float]


class CompiledSlope:
    """log|l'(u)| as kernels take it: numba's first-class function type, determined once."""

    def __init__(self, function: Scalar, cache: bool = False) -> None:
        self.function, self.cache = function, cache
        self._compiled: Any = None

    def __call__(self, u: float) -> float:
        """Return log|l'(u)| without the compiler."""
        return self.function(u)

    @cached_property
    def _numba_type_(self) -> Any:
        from numba import float64, types

        return types.FunctionType(float64(float64))

    def __wrapper_address__(self) -> int:
        if self._compiled is None:
            from numba import float64

            from hardmax._lib.compiled import njit

            function = njit(float64(float64), cache=self.cache, no_cfunc_wrapper=False)(self.function)
            result = function.get_compile_result(float64(float64))
            self._compiled = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
        return int(self._compiled)


@dataclass(frozen=True)
class LossFunction:
    """A strictly decreasing loss l(u) of the signed prediction u.

    ``log_slope`` is log|l'(u)| for one number u. Compiled by numba it runs inside the kernels (the fast
    path); as a plain Python function it is called once per input and step between them (the plain path:
    the same digits, some hundred times slower). ``slope_rate`` is d/du log|l'(u)|, needed by the Hessian
    and by the flow's Jacobian only; without it a central difference is used, good to about 1e-9.
    ``constants(lo, hi)`` gives (M0, M1) on [lo, hi]: the Lipschitz constant and the size of l'.

    >>> import numpy as np, hardmax as hm
    >>> cauchy = hm.LossFunction("cauchy", value=lambda u: np.pi / 2 - np.arctan(u),
    ...                  log_slope=lambda u: -np.log1p(u * u))
    >>> problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]], loss=cauchy)
    >>> bool(hm.gradient(problem, [0.0]).direction[0] > 0)
    True
    """

    name: str
    value: Callable[[np.ndarray], np.ndarray]
    log_slope: Scalar
    slope_rate: Scalar | None = None
    constants: Callable[[float, float], tuple[float, float]] | None = None
    log_mean: Callable[[float, float], float] | None = None

    def __repr__(self) -> str:
        return f"LossFunction({self.name!r})"

    def __post_init__(self) -> None:
        for name in ("value", "log_slope"):
            if not callable(getattr(self, name)):
                raise ValueError(f"loss {self.name!r}: {name} must be callable")
        if "numba" in sys.modules:  # otherwise nothing has been compiled by it
            from numba.extending import is_jitted

            if is_jitted(self.log_slope):
                slope = CompiledSlope(self.log_slope.py_func)  # type: ignore[attr-defined]
                object.__setattr__(self, "log_slope", slope)

    def __reduce__(self) -> Any:
        """Pickle a built-in loss by its name, as its functions have none; copies are the loss itself."""
        if LOSSES.get(self.name) is self:
            return _built_in, (self.name,)
        return super().__reduce__()

    def decreases(self, lo: float, hi: float) -> bool:
        """Whether l falls everywhere on [lo, hi], as its values on a grid show.

        Between neighbors the values must fall where the slope implies a visible fall, and rise
        nowhere by more than rounding. One number (lo = hi) means a small interval around it.

        >>> import numpy as np, hardmax as hm
        >>> rising = hm.LossFunction("rising", value=lambda u: u, log_slope=lambda u: 0.0)
        >>> rising.decreases(-1.0, 1.0), hm.Problem([[[1.0]]], [[1.0]]).loss.decreases(-1.0, 1.0)
        (False, True)
        """
        if LOSSES.get(self.name) is self:
            return True
        if not lo < hi:
            lo, hi = lo - 1e-3 * max(1.0, abs(lo)), lo + 1e-3 * max(1.0, abs(lo))
        grid = np.linspace(lo, hi, 65)
        middles = grid[:-1] + 0.5 * np.diff(grid)
        with np.errstate(all="ignore"):
            values = np.asarray(self.value(grid), dtype=float)
            try:
                log_slopes = self.log_slopes(middles)
            except (ArithmeticError, ValueError):  # as from math.log(0)
                return False
            rise, due = np.diff(values), np.exp(log_slopes) * np.diff(grid)
            rounding = 32 * np.finfo(float).eps * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
            is_visible = ~(due <= rounding) | ~np.isfinite(rounding)
            falls = np.where(is_visible, rise < 0.0, rise <= rounding)
            return bool((falls & (log_slopes > -math.inf)).all())

    @property
    def is_compiled(self) -> bool:
        """Whether kernels can call this loss without going back to Python."""
        return isinstance(self.log_slope, CompiledSlope)

    def log_slopes(self, u: np.ndarray) -> np.ndarray:
        """Return log|l'(u)| of an array."""
        return np.array([self.log_slope(x) for x in u.tolist()], dtype=float)

    def slope_rates(self, u: np.ndarray) -> np.ndarray:
        """d/du log|l'(u)| of an array; l'' = -|l'| times this."""
        rate = self.slope_rate or self._central_difference
        return np.array([rate(x) for x in u.tolist()], dtype=float)

    def _central_difference(self, u: float) -> float:
        h = 1e-5 * max(1.0, abs(u))
        return (self.log_slope(u + h) - self.log_slope(u - h)) / (2 * h)

    def log_mean_slope(self, score: float, fall: float) -> float:
        """Log of (l(score - fall) - l(score)) / fall, which tends to log|l'(score)| as the fall vanishes."""
        if abs(fall) < 1e-7:  # the middle is the mean to the last digit, and nothing cancels
            return self.log_slope(score - 0.5 * fall)
        if self.log_mean is not None:
            return self.log_mean(score, fall)
        from scipy.integrate import quad

        # The slope may underflow as a number: the larger end is taken out.
        top = max(self.log_slope(score), self.log_slope(score - fall))
        mean, _ = quad(
            lambda x: math.exp(self.log_slope(score - fall * x) - top), 0.0, 1.0, epsabs=0, epsrel=1e-13
        )
        return top + math.log(mean)


def _built_in(name: str) -> LossFunction:
    return LOSSES[name]


def as_loss(loss: str | LossFunction) -> LossFunction:
    """The built-in loss of that name, or the loss itself; the log loss has a separate readout."""
    if loss is LOG or loss == "log":
        raise ValueError(
            'loss must be a function of any prediction here, got "log", which is for scores of 0 and 1; make '
            'the problem with Problem(keys, scores, loss="log")'
        )
    if isinstance(loss, LossFunction):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)} or a hardmax.LossFunction, got {loss!r:.60}"
        )
    return LOSSES[loss]


def _logistic_log_slope(u: float) -> float:
    return -math.log1p(math.exp(-abs(u))) - max(u, 0.0)


def _exponential_log_slope(u: float) -> float:
    return -u


def _correlation_log_slope(u: float) -> float:
    return 0.0


def _sigmoid(u: float) -> float:
    return 1.0 / (1.0 + math.exp(-u)) if u >= 0 else math.exp(u) / (1.0 + math.exp(u))


def _log_decay(width: float) -> float:
    """log((1 - e^-width) / width): the mean of e^-x over [0, width]."""
    return math.log(-math.expm1(-width) / width)


def _logistic_mean(low: float, width: float) -> float:
    """Mean of 1 / (1 + e^u) over [low, low + width], for low <= 40.

    The loss falls by log(1 + x) with x = (1 - e^-width) / (e^-width + e^low) > 0, where nothing cancels.
    """
    if width > 700.0:  # e^-width may underflow; the mean is wanted only where the upper end adds nothing
        return (max(-low, 0.0) + math.log1p(math.exp(-abs(low)))) / width
    return math.log1p(-math.expm1(-width) / (math.exp(-width) + math.exp(low))) / width


def _logistic_log_mean(score: float, fall: float) -> float:
    low, high, width = min(score, score - fall), max(score, score - fall), abs(fall)
    if low > 40.0:  # in the exponential tail to the last digit, perhaps below the smallest float
        return _log_decay(width) - low
    if high < -40.0:  # by symmetry the mean is one minus that tail
        return -math.exp(_log_decay(width) + high)
    mean = _logistic_mean(low, width)
    return math.log(mean) if mean < 0.5 else math.log1p(-_logistic_mean(-high, width))


def _log_log_slope(u: float) -> float:
    return -math.log(u) if u > 0.0 else math.inf


def _log_log_mean(score: float, fall: float) -> float:
    """Where u underflows the loss is not known by u; see `hardmax.problem.readouts`."""
    ratio = -fall / score
    return math.log(-math.log1p(ratio) / fall) if ratio > -1.0 else math.inf


# Of the attention u > 0 on a label, where a number is enough; the core takes it as a function of log u.
LOG = LossFunction(
    "log",
    value=lambda u: -np.log(u),
    log_slope=CompiledSlope(_log_log_slope, cache=True),
    slope_rate=lambda u: -1.0 / u,
    log_mean=_log_log_mean,
)

LOSSES: dict[str, LossFunction] = {
    "logistic": LossFunction(
        "logistic",
        value=lambda u: np.logaddexp(0.0, -u),
        log_slope=CompiledSlope(_logistic_log_slope, cache=True),
        slope_rate=lambda u: -_sigmoid(u),
        constants=lambda lo, hi: (0.25, 1.0),
        log_mean=_logistic_log_mean,
    ),
    "exponential": LossFunction(
        "exponential",
        value=lambda u: np.exp(-u),
        log_slope=CompiledSlope(_exponential_log_slope, cache=True),
        slope_rate=lambda u: -1.0,
        constants=lambda lo, hi: (math.exp(-lo), math.exp(-lo)),
        log_mean=lambda score, fall: _log_decay(abs(fall)) - min(score, score - fall),
    ),
    "correlation": LossFunction(
        "correlation",
        value=lambda u: -u,
        log_slope=CompiledSlope(_correlation_log_slope, cache=True),
        slope_rate=lambda u: 0.0,
        constants=lambda lo, hi: (0.0, 1.0),
        log_mean=lambda score, fall: 0.0,
    ),
    "log": LOG,
}
