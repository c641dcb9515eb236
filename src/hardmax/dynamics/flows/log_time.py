"""The flow in log time: its field, and a step of it in coordinates of its own (see flow.py)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from hardmax.dynamics.flows.field import Field, extrapolated

# Unknowns up to which a step is one compiled call; LAPACK is faster at larger systems.
SMALL = 64


class LogField(Field):
    """The field of a flow in log time; with keys over c it is the same in the time c^degree t."""

    degree = 2.0

    def leg(self, x: np.ndarray, heading: np.ndarray | None, reach: float) -> LogLeg:
        """A step from x = (p, tau), no longer than ``reach``."""
        return LogLeg(self, x, heading)

    def begin(self) -> np.ndarray:
        """(p, tau) where p has just begun to move."""
        return np.append(self.start, self.first_log_time()).astype(np.longdouble)

    def log_time(self, x: np.ndarray) -> float:
        """log t of a state."""
        return float(x[-1]) - self.degree * self.scale.log


class LogLeg:
    """One step's own coordinates: (p, tau) = x + sigma heading + z, with sigma the arc length of (p, tau)."""

    compiles: bool = True  # whether the compiled step is that of this force
    size: float = 0.0  # what errors may be relative to, besides the length of the step

    def __init__(self, field: Field, x: np.ndarray, heading: np.ndarray | None) -> None:
        self.field, self.x = field, x
        self.tops, self.D = self._look()
        along = self._products()
        self.exponents = along(x)
        self.heading, self.rise = np.zeros(len(x)), np.zeros(len(self.D))
        self.velocity, self.jacobian = self._linearize()
        self.heading = self.velocity if heading is None else self._aim(heading)
        self.rise = along(self.heading.astype(np.longdouble))

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """The top slots, and what their keys are less than those of the others."""
        settled = self.field.settle(self.x[:-1])
        return settled.tops, settled.differences(self.field.slots.keys)

    def _products(self) -> Callable[[np.ndarray], np.ndarray]:
        """What an exponent changes along (p, tau), in extended precision."""
        wide = np.column_stack([self.D, np.ones(len(self.D))]).astype(np.longdouble)
        return lambda x: (wide @ x).astype(float)

    def _aim(self, heading: np.ndarray) -> np.ndarray:
        """The heading of the step before, in this step's coordinates."""
        return heading

    def _gaps(self, sigma: float, z: np.ndarray) -> tuple[np.ndarray, float]:
        """tau + logit gaps to the top slots, and tau."""
        gaps = self.exponents + sigma * self.rise + self.D @ z[:-1] + z[-1]
        return gaps, float(self.x[-1]) + sigma * self.heading[-1] + z[-1]

    def _force(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """F = dp/dtau."""
        return self.field.force(*self._gaps(sigma, z), self.D, self.tops)

    def _bend(self) -> tuple[np.ndarray, bool]:
        """dF/dp at the start of the step, and whether the pulls cancel to rounding."""
        return self.field.bend(*self._gaps(0.0, np.zeros(len(self.x))), self.D, self.tops)

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """d(p, tau)/dsigma = (F, 1) / sqrt(1 + |F|^2)."""
        F = np.append(self._force(sigma, z), 1.0)
        return F / math.sqrt(F @ F)

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        """Speed and its derivative by (p, tau) at the start of the step."""
        r = len(self.x) - 1
        F = np.append(self._force(0.0, np.zeros(r + 1)), 1.0)
        length = math.sqrt(F @ F)
        dF = np.zeros((r + 1, r + 1))
        dF[:r, :r], self.is_noise = self._bend()
        dF[:r, r] = F[:r]  # F grows like t
        unit = F / length
        return unit, (dF - np.outer(unit, unit @ dF)) / length

    def step(self, sigma: float) -> tuple[np.ndarray, float]:
        """((p, tau) at the end of a step of length sigma, error estimate)."""
        if self.compiles and self.field.is_compiled and len(self.x) <= SMALL:
            z, error = self.field.extrapolated(
                sigma,
                float(self.x[-1]),
                self.exponents,
                self.rise,
                self.D,
                self.heading,
                self.jacobian,
                self.tops,
            )
        else:
            z, error = extrapolated(sigma, self.speed, self.heading, self._solver)
        end = self.x + np.longdouble(sigma) * self.heading.astype(np.longdouble) + z.astype(np.longdouble)
        return end, error

    def _solver(self, h: float) -> Callable[[np.ndarray], np.ndarray]:
        factors, pivots, _ = dgetrf(np.eye(len(self.x)) - h * self.jacobian)
        return lambda r: dgetrs(factors, pivots, r)[0]
