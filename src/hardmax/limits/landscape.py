"""The risk seen from its floor: log-domain excess risk of many points at once, with gradient and Hessian.

log E is a smooth function of order |p| where the risk itself is flat to the last digit, so paths are computed
on it. Points live in an orthonormal basis of the key differences, outside of which the risk does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardmax.problem import Problem
from hardmax.problem.coordinates import orthonormal_basis
from hardmax.problem.keys import Dense
from hardmax.problem.layout import Slots, slots_of
from hardmax.problem.selection import chosen_slots, score_gaps
from hardmax.train.gradient import expand, settle_at

# A fall of the prediction by less than exp of this leaves the loss's slope the same to the last digit.
VANISHED = -40.0

STEEPEST = 300.0  # log of the largest slope of log|E| that is told


@dataclass(frozen=True, eq=False)
class Expanded:
    """Value, gradient and Hessian of a function at a point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


class Landscape:
    """Excess risk of a problem over a reference selection, in the span of the key differences (B-DEF-5).

    Another orthonormal ``basis`` may be given: the identity where constraints on p reach out of the span.
    """

    def __init__(self, problem: Problem, selection: Sequence[int], basis: np.ndarray | None = None) -> None:
        problem.need_decreasing_loss()
        slots = slots_of(problem)
        self.problem = problem
        self.selection = tuple(int(t) for t in selection)
        self.basis = orthonormal_basis(slots) if basis is None else basis
        keys = np.ascontiguousarray(problem.keys @ self.basis)
        self.reduced = replace(problem, table=Dense(keys), W=None)
        self.slots: Slots = replace(slots, table=Dense(keys))
        chosen = chosen_slots(problem, self.selection)
        self.scores = problem.scores[chosen]
        self.gaps = score_gaps(problem, self.scores)
        self._log_counts = 0.0 if problem.counts is None else np.log(problem.counts)
        table = keys[problem.tokens]
        self.rows = table - np.repeat(table[chosen], problem.sizes, axis=0)
        with np.errstate(divide="ignore"):
            self._log_gaps = np.log(np.abs(self.gaps))
        self._log_slopes = problem.loss.log_slopes(self.scores)

    @property
    def d(self) -> int:
        """Dimension of the span."""
        return self.basis.shape[1]

    def lift(self, points: np.ndarray) -> np.ndarray:
        """Points of the span in the coordinates of the keys."""
        return points @ self.basis.T

    def excess(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(sign, log|E|) at points (m, d): `hm.excess_risk` for many points.

        Differences are taken to the reference token, so that nothing cancels when it scores best.
        """
        firsts, sizes = self.problem.offsets[:-1], self.problem.sizes
        logits = points @ self.rows.T + self._log_counts  # (m, slots), zero at a reference that stands once
        top = np.maximum.reduceat(logits, firsts, axis=1)
        masses = np.exp(logits - np.repeat(top, sizes, axis=1))
        log_mass = top + np.log(np.add.reduceat(masses, firsts, axis=1))
        terms = logits - np.repeat(log_mass, sizes, axis=1) + self._log_gaps
        peak = _finite(np.maximum.reduceat(terms, firsts, axis=1))
        signed = np.sign(self.gaps) * np.exp(terms - np.repeat(peak, sizes, axis=1))
        falls = np.add.reduceat(signed, firsts, axis=1)
        sign, log = np.sign(falls), _log(np.abs(falls)) + peak  # score - u_i, (m, n)
        log = log + self._log_mean_slopes(np.where(log < VANISHED, 0.0, sign * np.exp(log)))
        log = log + self.problem.log_weights
        peak = _finite(log.max(axis=1))
        total = (sign * np.exp(log - peak[:, None])).sum(axis=1)
        return np.sign(total), _log(np.abs(total)) + peak - math.log(self.problem.total)

    def _log_mean_slopes(self, falls: np.ndarray) -> np.ndarray:
        logs = np.tile(self._log_slopes, (len(falls), 1))  # late nearly all falls have vanished
        m, i = np.nonzero(falls)
        mean, pairs = self.problem.loss.log_mean_slope, zip(self.scores[i], falls[m, i], strict=True)
        logs[m, i] = [mean(float(score), float(fall)) for score, fall in pairs]
        return logs

    def log_excess(self, p: np.ndarray) -> float:
        """log E at one point; for references that score best E is never negative."""
        return float(self.excess(p[None])[1][0])

    def least(self, points: np.ndarray) -> int:
        """Which point has the least risk: E negative before positive, whatever its size."""
        sign, log = self.excess(points)
        order = np.where(sign == sign.min(), sign.min() * log if sign.min() else 0.0, np.inf)
        return int(np.argmin(order))

    def expanded(self, p: np.ndarray) -> Expanded:
        """log|E| with gradient and Hessian, all relative to E and so free of underflow."""
        settled = settle_at(self.reduced, p, self.slots)
        second = expand(self.reduced, settled, settled.differences(self.slots.keys))
        sign, log = self.excess(p[None])
        value = float(log[0])
        if not math.isfinite(value) or second.common == -math.inf:
            return Expanded(value, np.zeros(self.d), np.zeros((self.d, self.d)))
        # Where E changes its sign log|E| falls without bound: the slope is capped, its square is a float.
        scale = float(sign[0]) * math.exp(min(second.common - math.log(self.problem.total) - value, STEEPEST))
        slope = -scale * second.V
        return Expanded(value, slope, -scale * second.H - np.outer(slope, slope))


def _finite(peaks: np.ndarray) -> np.ndarray:
    """Largest exponents, with zero for sums without a term."""
    return np.where(np.isfinite(peaks), peaks, 0.0)


def _log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(x)
