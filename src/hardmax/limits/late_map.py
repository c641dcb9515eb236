"""The late map: one step of late normalised descent, as a map of the residual beside p_mm (B-NEW-3).

A step has the length of the rate, of which p_mm takes its part: with G = grad F(R), R goes to
R - rate |p_mm| G / sqrt(1 + |p_mm|^2 |G|^2), within the span of the support rows across p_mm. At w, where
G is zero, the Jacobian is I - rate |p_mm| F'', which loses stability at eta_c: period 2 follows, and
beyond that whatever such maps do, from doublings of the period to chaos.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from hardmax.limits.late import LateResidual, support_weights


class LateMap:
    """Steps of the moving part z of the residual, R = span z, for many residuals and rates at once.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.limits.late_map import LateMap
    >>> problem = hm.Problem.from_scores([[[0, 0], [-1, -1], [-1, 3]]], [[1, 0, 0]])
    >>> late = hm.limits.late_residual(problem, hm.max_margin(problem))
    >>> orbit = LateMap(late).orbit(2.5 * late.eta_c, late.w @ late.span + 0.01, 2000, 8)[:, 0]
    >>> [period for period in (1, 2, 4) if np.allclose(orbit[period:], orbit[:-period], atol=1e-9)]
    [4]
    """

    def __init__(self, late: LateResidual) -> None:
        best = late.max_margin
        near, self.log_c = support_weights(late.problem, best)
        self.rows = best.constraints.rows()[near] @ late.span  # (k, r), the parts across p_mm
        self.length = best.norm
        self.d = late.span.shape[1]

    def step(self, z: np.ndarray, rate: np.ndarray | float) -> np.ndarray:
        """The residuals after one step; z is (m, r), the rate one number or one for each."""
        mean = self._shares(z) @ self.rows
        part = self.length / np.sqrt(1 + self.length**2 * (mean**2).sum(axis=-1))
        return cast(np.ndarray, z + (rate * part)[..., None] * mean)

    def jacobian(self, z: np.ndarray, rate: np.ndarray | float) -> np.ndarray:
        """The derivative of `step`, (m, r, r)."""
        shares = self._shares(z)
        mean = shares @ self.rows
        bend = np.einsum("mk,ki,kj->mij", shares, self.rows, self.rows) - mean[:, :, None] * mean[:, None]
        part = self.length / np.sqrt(1 + self.length**2 * (mean**2).sum(axis=-1))
        turned = np.eye(self.d) - (part**2)[:, None, None] * mean[:, :, None] * mean[:, None]
        return cast(np.ndarray, np.eye(self.d) - (rate * part)[:, None, None] * (turned @ bend))

    def orbit(self, rate: float, start: np.ndarray, skip: int, count: int) -> np.ndarray:
        """``count`` residuals in turn, (count, r), after ``skip`` steps from ``start``."""
        z = np.reshape(np.asarray(start, dtype=float), (1, self.d))
        for _ in range(skip):
            z = self.step(z, rate)
        out = np.empty((count, self.d))
        for k in range(count):
            out[k] = z[0]
            z = self.step(z, rate)
        return out

    def exponents(self, rates: np.ndarray, start: np.ndarray, skip: int, count: int) -> np.ndarray:
        """Largest Lyapunov exponent at every rate: how fast neighbours part, per step, on a log scale."""
        z = np.tile(np.asarray(start, dtype=float), (len(rates), 1))
        for _ in range(skip):
            z = self.step(z, rates)
        # a skew start meets the direction of fastest growth
        v = np.tile(np.cos(np.arange(self.d) + 0.3), (len(rates), 1))
        total = np.zeros(len(rates))
        for _ in range(count):
            v = np.einsum("mij,mj->mi", self.jacobian(z, rates), v)
            size = np.maximum(np.linalg.norm(v, axis=1), np.finfo(float).tiny)
            total += np.log(size)
            v /= size[:, None]
            z = self.step(z, rates)
        return total / count

    def _shares(self, z: np.ndarray) -> np.ndarray:
        exponents = self.log_c - z @ self.rows.T
        shares = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
        return cast(np.ndarray, shares / shares.sum(axis=-1, keepdims=True))


def period(orbit: np.ndarray, most: int = 128, tolerance: float = 1e-6) -> int | None:
    """Least number of steps after which an orbit comes back to itself; None if there is none up to ``most``.

    >>> import numpy as np
    >>> period(np.array([[0.0], [1.0]] * 5), most=4)
    2
    """
    size = float(np.ptp(orbit, axis=0).max())
    for p in range(1, most + 1):
        if size <= tolerance or np.abs(orbit[p:] - orbit[:-p]).max() <= tolerance * size:
            return p
    return None
