"""The late phase of training: the part of p off p_mm, and the step above which it does not settle.

Once every input attends to its selected token, only the support rows d_e (the rows of ATT-SVM that are tight)
pull, each with the weight c_e exp(-d_e.p), c_e = |l'(gamma_selected)| (gamma_selected - gamma_t). Write
p = a p_mm + R with R orthogonal to p_mm. Then d_e.p = a + d_e.R, and R descends the convex function

    F(R) = log sum_e c_e exp(-d_e.R)      within the span of the rows, orthogonal to p_mm:

by gradient descent with the step eta |p_mm| (near w; `LateMap` has it anywhere) if p follows normalized
gradient descent (B-NEW-3), by a gradient flow if p follows one, and as its minimum if p is on the
regularization path (B-NEW-2). All three end at the same w. The flow is a straight line in log t besides:
stationarity of sum_e (t/n) c_e exp(-d_e.p) d_e
against dp/dlog t = p_mm gives a = log t - log n + F(w) - 2 log|p_mm|. The part outside the span of the
support rows is frozen. Where the support rows are independent, w has a closed form, `path_offset`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.optimize import linprog

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import exponent, lengths
from hardmax.directions.neighbors import row_gaps, selection_of, tight_rows
from hardmax.dynamics.laws import swing_rate
from hardmax.dynamics.run import Run
from hardmax.limits.searching import Expanded, minimize
from hardmax.margin.constraints import Floats, Ints
from hardmax.margin.rationals import row_rank
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem


@check_arguments
def path_offset(problem: Problem, max_margin: MaxMargin) -> Floats:
    """Return w with p(R) = R p_mm/|p_mm| + w + O(1/R) on the regularization path, orthogonal to p_mm.

    The support rows must be independent with positive multipliers, and each selected token must score above
    its neighbors: then every support row carries the same weight in the limit, which fixes w.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> hm.limits.path_offset(problem, hm.max_margin(problem, [0, 0])).round(7).tolist()
    [-0.2541894, 0.0847298]
    """
    multipliers = max_margin.decided.multipliers
    if max_margin.direction is None or multipliers is None:
        raise ValueError(f"max_margin must have a direction, got none: it is {max_margin.status}")
    near, log_c = support_weights(problem, max_margin.only_l2())
    # Inputs that occur several times require one row: their weights add up.
    D, same = np.unique(max_margin.constraints.rows()[near], axis=0, return_inverse=True)
    firsts = near[[int(np.flatnonzero(same == row)[0]) for row in range(len(D))]]
    log_c = np.array([np.logaddexp.reduce(log_c[same == row]) for row in range(len(D))])
    weight = np.bincount(same, multipliers[near])
    if row_rank(max_margin.constraints.subset(firsts)) < len(D):
        raise ValueError("max_margin must have independent support rows, got dependent ones; w is not unique")
    if (weight <= 0).any():
        row = max_margin.constraints.label(int(firsts[np.argmin(weight)]))
        raise ValueError(f"max_margin must have positive multipliers, got zero at the tight row {row}")
    # d_j.w = log(c_j / lambda_j) + kappa, w = D'z and w.p_mm = 0: one bordered system in (z, kappa).
    k = len(D)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k], system[:k, k], system[k, :k] = D @ D.T, -1.0, D @ max_margin.need()
    z = np.linalg.solve(system, np.append(log_c - np.log(weight), 0.0))[:k]
    offset: Floats = D.T @ z
    return offset


def support_weights(problem: Problem, max_margin: MaxMargin) -> tuple[Ints, Floats]:
    """The support rows of a locally optimal selection, by number, and log c of each, the cost of a row.

    c is the slope of the loss at the selected score times the score gap times the number of copies of the
    losing token, over the number of copies of the selected one, times the weight of the input.
    """
    chosen = problem.offsets[:-1] + np.array(selection_of(problem, max_margin))
    near = tight_rows(max_margin)
    gaps = row_gaps(problem, max_margin)[near]
    if (gaps <= 0).any():
        raise ValueError(
            "max_margin must be of a locally optimal selection, got one with a neighbor that scores as high"
        )
    labels = [cast(tuple[int, int], max_margin.constraints.label(int(j))) for j in near]
    inputs = np.array([i for i, _ in labels], dtype=np.intp)
    losers = problem.offsets[:-1][inputs] + np.array([t for _, t in labels], dtype=np.intp)
    copies = np.log(np.bincount(problem.groups, problem.counts)[problem.groups])
    u = problem.readout.vertex_predictions(problem.tokens, problem.offsets)[chosen]
    slopes = problem.loss.log_slopes(u[inputs]) + problem.log_weights[inputs]
    return near, slopes + np.log(gaps) + copies[losers] - copies[chosen][inputs]


# Singular values and multipliers below this, relative to the largest, are zero.
ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class LateResidual:
    """The part of p orthogonal to p_mm late in training, as `late_residual` computes it.

    ``w`` is the minimizer of F, None if F has none; ``status`` is the reason: "independent" (the hypotheses
    of B-NEW-2: independent support rows with positive multipliers), "dependent" (dependent rows, but with
    some positive multipliers that give p_mm, so that w exists all the same) or "zero multiplier" (some tight
    row has to have the multiplier zero: F falls forever and the residual grows without bound, ever slower).
    ``eta_c`` is the step above which normalized gradient descent does not settle at w: infinite with one
    support row, nan without w. Just above it p swings with period 2; farther above, periods may double until
    there is none (`LateMap`).

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> late = hm.limits.late_residual(problem, hm.max_margin(problem, [0, 0]))
    >>> late.status, late.w.round(7).tolist(), round(late.eta_c, 6)
    ('independent', [-0.2541894, 0.0847298], 0.301169)
    """

    problem: Problem
    max_margin: MaxMargin
    status: str
    w: np.ndarray | None
    span: np.ndarray  # (d, r) orthonormal: where R moves
    curvatures: np.ndarray  # (r,) eigenvalues of the Hessian of F at w, ascending
    floor: float  # F(w)
    eta_c: float  # 2 / (|p_mm| lambda_max)

    def frozen(self, point: Any) -> np.ndarray:
        """The part of a late p that no longer moves: outside the support rows' span."""
        residual = self._across(self.problem.vector("point", point))
        return residual - self.span @ (self.span.T @ residual)

    def residual(self, point: Any = None) -> np.ndarray:
        """Predicted limit of p minus its part along p_mm: w, and the frozen part of a late ``point``."""
        if self.w is None:
            raise ValueError("the residual has no limit: a tight row has the multiplier zero")
        return self.w if point is None else self.w + self.frozen(point)

    def predicted_misalignment(self, norm: float, point: Any = None, *, rate: float = 0.0) -> float:
        """Predicted 1 - cos to p_mm at a norm of p.

        ``rate`` is the step of normalized gradient descent; zero is for the flow and the path. There is
        no prediction (nan) for a rate of eta_c or more, nor for a norm below that of the residual.
        """
        sine = float(lengths(self.residual(point))) / expect.positive("norm", norm)
        if rate >= self.eta_c or sine > 1.0:
            return math.nan
        return sine**2 / (1.0 + math.sqrt(1.0 - sine**2))

    def flow_point(self, log_time: float, point: Any = None) -> np.ndarray:
        """Where gradient flow is at a late log t; ``point`` is an earlier late point of it."""
        best = self.max_margin
        along = log_time - math.log(self.problem.total) + self.floor - 2.0 * math.log(best.p_norm)
        return along * best.need() + self.residual(point)

    def compare(self, trajectory: Run) -> LateComparison:
        """The residual along a trajectory of the same problem against the prediction.

        >>> import hardmax as hm
        >>> problem = hm.data.example("B-FIG-8")
        >>> late = hm.limits.late_residual(problem, hm.max_margin(problem, [0, 0]))
        >>> late.compare(hm.flow(problem, until_norm=1e3)).distances[-1] < 1e-6
        np.True_
        """
        if self.w is None:
            raise ValueError(
                "late must have a residual w, got none: a tight row has the multiplier zero; move the data a "
                "little, or choose another selection"
            )
        residuals = np.array([self._across(p) for p in trajectory.points])
        off = residuals @ self.span - self.span.T @ self.w
        half = int(np.argmax(trajectory.p_norms >= 0.5 * trajectory.p_norms[-1]))
        drift = self.frozen(trajectory.p) - self.frozen(trajectory.points[half])
        return LateComparison(
            trajectory.p_norms,
            lengths(off),
            float(lengths(drift)),
            trajectory.cosine_distance(self.max_margin),
            self.predicted_misalignment(trajectory.p_norm, trajectory.points[half]),
            _swing(trajectory, residuals),
        )

    def _across(self, p: np.ndarray) -> np.ndarray:
        unit = cast(np.ndarray, self.max_margin.direction)
        return p - (p @ unit) * unit


@dataclass(frozen=True, eq=False)
class LateComparison:
    """A trajectory compared with the prediction: distance of its residual to w, and 1 - cos at its end.

    ``distances`` are those of the moving part of the residual from w, at every snapshot; ``drift`` is how far
    the frozen part still moved since |p| was half of its last value. ``predicted`` takes the frozen part from
    there. ``swing`` is the amplitude of a period-2 oscillation over the last three steps: 0 if there is none
    (which does not mean that p settles), nan if they were not recorded.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> late = hm.limits.late_residual(problem, hm.max_margin(problem, [0, 0]))
    >>> for factor in (0.97, 1.03):
    ...     step = hm.optim.Normalized(factor * late.eta_c)
    ...     path = hm.train(problem, step, steps=4000, record=range(3990, 4001))
    ...     round(late.compare(path).swing, 2), round(late.compare(path).ratio, 3)
    (0.0, 1.0)
    (0.07, 1.295)
    """

    norms: np.ndarray
    distances: np.ndarray
    drift: float
    measured: float
    predicted: float
    swing: float

    @property
    def ratio(self) -> float:
        """Measured over predicted 1 - cos at the end; nan where nothing is left to predict."""
        return self.measured / self.predicted if self.predicted > 0.0 else math.nan


@check_arguments
def late_residual(problem: Problem, max_margin: MaxMargin) -> LateResidual:
    """Return the late residual w orthogonal to p_mm, its stability threshold and the frozen part.

    ``max_margin`` is the solution for a locally optimal selection: each selected token must score above its
    neighbors; otherwise p does not go there.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-1a")
    >>> hm.limits.late_residual(problem, hm.max_margin(problem)).eta_c   # one support row: nothing swings
    inf
    """
    if max_margin.direction is None or max_margin.slack is None or max_margin.multipliers is None:
        raise ValueError(f"max_margin must have a direction, got one that is {max_margin.status}")
    near, log_c = support_weights(problem, max_margin)
    # In units in which the longest row has length one, which Newton's method needs: p is over 2^power there.
    D, p = max_margin.constraints.rows()[near], max_margin.need()
    power = exponent(lengths(D))
    D, p = np.ldexp(D, -power), np.ldexp(p, power)
    status = _status(D, np.ldexp(max_margin.multipliers[near], 2 * power), p)
    across = D - np.outer(D @ max_margin.direction, max_margin.direction)
    _, values, vectors = np.linalg.svd(across, full_matrices=False)
    span = vectors[values > ZERO * np.linalg.norm(D, axis=1).max()].T
    if status == "zero multiplier":
        unknown = np.full(span.shape[1], math.nan)
        return LateResidual(problem, max_margin, status, None, span, unknown, math.nan, math.nan)
    expand = late_risk(log_c, across, span)
    z = minimize(expand, np.zeros(span.shape[1])).p
    end = expand(z)
    curvatures = np.linalg.eigvalsh(end.hessian)
    steepest = float(curvatures[-1]) if len(curvatures) else 0.0
    eta_c = swing_rate(float(np.linalg.norm(p)), steepest)
    with np.errstate(over="ignore", under="ignore"):  # of keys beyond 1e154 the curvatures are not floats
        curvatures, w = np.ldexp(curvatures, 2 * power), np.ldexp(span @ z, -power)
    return LateResidual(
        problem, max_margin, status, w, span, curvatures, end.value, math.ldexp(eta_c, -power)
    )


def late_risk(log_c: np.ndarray, across: np.ndarray, span: np.ndarray) -> Callable[[np.ndarray], Expanded]:
    """F(R) = log sum_e c_e exp(-d_e.R) with its derivatives, as a function of z, R = span z."""

    def expand(z: np.ndarray) -> Expanded:
        exponents = log_c - across @ (span @ z)
        top = float(exponents.max())
        share = np.exp(exponents - top)
        mass = float(share.sum())
        share /= mass
        rows = across @ span
        mean = share @ rows
        return Expanded(top + math.log(mass), -mean, (share[:, None] * rows).T @ rows - np.outer(mean, mean))

    return expand


def _status(D: np.ndarray, multipliers: np.ndarray, p: np.ndarray) -> str:
    """Whether F has a minimum: it does if positive multipliers, of all tight rows, give p_mm."""
    lengths = np.linalg.norm(D, axis=1)
    values = np.linalg.svd(D / lengths[:, None], compute_uv=False)
    if len(D) <= D.shape[1] and values[-1] >= ZERO * values[0]:
        positive = (multipliers > ZERO * multipliers.max()).all()
        return "independent" if positive else "zero multiplier"
    # The largest t with D'(t + x) = p_mm, x >= 0.
    k = len(D)
    scale = float(multipliers.max())
    system = np.column_stack([D.T, D.sum(axis=0)])
    answer = linprog(
        np.append(np.zeros(k), -1.0), A_eq=system, b_eq=p / scale, bounds=[(0, None)] * k + [(None, None)]
    )
    return "dependent" if answer.success and answer.x[-1] > 1e-6 else "zero multiplier"


def _swing(trajectory: Run, residuals: np.ndarray) -> float:
    """|change of the residual| over the last step if the step before undid it, else 0."""
    if trajectory.clock != "step" or len(residuals) < 3 or trajectory.times[-1] - trajectory.times[-3] != 2:
        return math.nan
    last = float(lengths(residuals[-1] - residuals[-2]))
    around = float(lengths(residuals[-1] - residuals[-3]))
    return last if last > 1e-9 * trajectory.p_norm and around < 0.1 * last else 0.0


class LateMap:
    """Steps of the moving part z of the residual, R = span z, for many residuals and rates at once."""

    def __init__(self, late: LateResidual) -> None:
        best = late.max_margin
        near, self.log_c = support_weights(late.problem, best)
        self.rows = best.constraints.rows()[near] @ late.span  # (k, r), the parts across p_mm
        self.length = best.p_norm
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
        """Largest Lyapunov exponent at every rate: how fast neighbors part, per step, on a log scale."""
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
    """Least number of steps, up to ``most``, after which an orbit comes back to itself; None without one."""
    size = float(np.ptp(orbit, axis=0).max())
    for p in range(1, most + 1):
        if size <= tolerance or np.abs(orbit[p:] - orbit[:-p]).max() <= tolerance * size:
            return p
    return None
