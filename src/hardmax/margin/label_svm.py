"""Hard-margin problems of paper B by name, over plain arrays: label, relaxed and rho-interpolated SVM."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import solve
from hardmax.problem.selection import Selection


def label_svm(features: ArrayLike, labels: ArrayLike, exact: bool = False) -> MaxMargin:
    """B-DEF-14: ``v_mm = argmin |v|`` with ``Y_i v . r_i >= 1``, no bias; its margin is Gamma.

    ``support`` lists (i,) for every tight input, also with multiplier zero (B-ERR-13).
    """
    r = np.asarray(features, dtype=np.float64)
    Y = np.asarray(labels, dtype=np.float64)
    if r.ndim != 2:
        raise ValueError(f"features must have one row per input, got shape {r.shape}")
    if Y.shape != (len(r),) or not np.isin(Y, (-1.0, 1.0)).all():
        raise ValueError(f"labels must be {len(r)} values of +1 or -1, got {Y.tolist()}")
    return solve(Constraints.dense(Y[:, None] * r), exact)


@dataclass(frozen=True, eq=False)
class InterpolatedMaxMargin:
    """Where p tends when the norm of v grows like rho times that of p: direction q*(rho) and its margin m.

    ``solution`` solves the rows with the bounds that hold at q*: ``max(0, 1 - rho Gamma nu_i / m)``, 0 for
    a gain; its norm is 1/m. From ``rho_star`` on, it is that of the relaxed SVM. Where a gain decides (see
    `rho_svm`), ``gain`` is its row (input, row). Of a problem's selection there is more: ``label`` is its
    label SVM, and ``exponents`` are the rates, per unit of |p|, of the terms of the risk relative to
    exp(-rho Gamma |p|), the slowest first: 0 for inputs in the label SVM's support, rho Gamma nu_i for the
    others, and m.

    >>> import hardmax as hm
    >>> limit = hm.directions.interpolated_max_margin(hm.data.example("B-FIG-3b"), rho=2.0, selection="best")
    >>> limit.selection, limit.direction.round(12).tolist(), round(limit.rho_star, 12)
    ((1, 1, 1), [1.0, -0.0], 1.0)
    """

    solution: MaxMargin
    margin: float
    rho_star: float
    gain: tuple[int, int] | None = None
    label: MaxMargin | None = None
    exponents: tuple[float, ...] = ()

    @property
    def direction(self) -> Floats:
        """The unit vector q*."""
        direction = self.solution.direction
        assert direction is not None  # some bounds are positive
        return direction

    @property
    def selection(self) -> tuple[int, ...]:
        """The tokens that attention selects, one per input."""
        return Selection(self.solution.selection or ()).tokens


def rho_svm(
    rows_by_input: Sequence[ArrayLike],
    nu: ArrayLike,
    support: Collection[int],
    Gamma: float,
    rho: float,
    gains: Collection[tuple[int, int]] = (),
) -> InterpolatedMaxMargin:
    """B-NEW-1 for a given selection: the unit q of largest margin m, relaxed outside the support.

    Rows of support inputs require ``d_it . q >= m``, the others for ``>= max(0, m - rho Gamma nu_i)``. Rows
    (input, row) in ``gains`` have a rival of larger label margin: attention on it lowers the risk, by
    exp(-(rho Gamma nu_i + d_it . q) |p|), so they only require ``>= 0``. If that falls more slowly than the
    losses, exp(-m |p|), it decides: q* is then where the gain is largest without the losses overtaking it.

    For fixed m the least norm N(m) of q is a hard-margin problem, and m* is where N(m) = 1. N is convex and
    piecewise the root of a quadratic in m, so solving the quadratic of the active rows converges in a few
    steps; a bracket keeps every step safe.
    """
    blocks = [np.asarray(rows, dtype=np.float64) for rows in rows_by_input]
    if not blocks or any(block.ndim != 2 or block.shape[1] != blocks[0].shape[1] for block in blocks):
        raise ValueError("rows_by_input must be a (rows, d) array per input, all of one d")
    if any(not 0 <= i < len(blocks) for i in support):
        raise ValueError(f"support must be inputs in 0..{len(blocks) - 1}, got {sorted(support)}")
    labels = [(i, t) for i, block in enumerate(blocks) for t in range(len(block))]
    rows, inputs = Constraints.dense(np.vstack(blocks), labels=labels), np.array([i for i, _ in labels], int)
    outside = ~np.isin(inputs, list(support))
    excess = np.asarray(nu, dtype=np.float64)
    if excess.shape != (len(blocks),):
        raise ValueError(f"nu must have one value per input ({len(blocks)}), got shape {excess.shape}")
    if not (rho >= 0 and Gamma > 0 and math.isfinite(Gamma)):
        raise ValueError(f"rho, Gamma must be at least 0 and above 0, got {rho} and {Gamma}")
    gaining = np.array([label in set(gains) for label in labels]) & outside
    if (excess[inputs[outside]] <= 0).any():
        raise ValueError(
            "nu must have positive values outside the support, where label constraints are slack"
        )
    relaxed = solve(replace(rows, h=(~outside).astype(np.float64)))
    if not relaxed.is_certified or relaxed.direction is None:
        raise ValueError(
            f"rows_by_input must have a feasible relaxed problem with a direction, got {relaxed.status}"
        )
    M = rows.rows()
    reach = M[outside] @ relaxed.direction
    rho_star = float(np.max((relaxed.margin - reach) / (Gamma * excess[inputs[outside]]), initial=0.0))
    if rho >= rho_star:
        return InterpolatedMaxMargin(relaxed, relaxed.margin, rho_star)
    give = np.where(outside, rho * Gamma * excess[inputs], 0.0)
    best = _largest_margin(rows, np.where(gaining, np.inf, give), relaxed.margin, rho_star)
    # m is the root of a quadratic, right to rounding: a gain that falls as fast decides nothing.
    for row in np.flatnonzero(gaining & (give + M @ best.direction < (1 - 1e-12) * best.margin)).tolist():
        solution = _largest_gain(rows, give, gaining, row, float(M[row] @ best.direction))
        if solution.direction is not None:
            margin = float((M[~outside] @ solution.direction).min())
            best = InterpolatedMaxMargin(solution, margin, rho_star, labels[row])
    return best


def _largest_margin(rows: Constraints, give: Floats, high: float, rho_star: float) -> InterpolatedMaxMargin:
    """The unit q of largest m, up to ``high``, with rows >= max(0, m - give)."""
    low, m = 0.0, high
    for _ in range(200):
        solution = solve(replace(rows, h=np.maximum(0.0, 1.0 - give / m)))
        feasible = solution.is_certified and solution.p_norm * m <= 1
        low, high = (max(low, m), high) if feasible else (low, min(high, m))
        step = _newton(rows.rows(), give, solution, m) if solution.is_certified else None
        after = step if step is not None and low <= step <= high else 0.5 * (low + high)
        if abs(after - m) <= 4e-16 * m or high - low <= 4e-16 * high:
            break
        m = after
    if solution.direction is None:
        raise ValueError(f"rows_by_input must be a solvable problem, got {solution.status}")
    return InterpolatedMaxMargin(solution, m, rho_star)


def _largest_gain(rows: Constraints, give: Floats, gaining: Bools, row: int, high: float) -> MaxMargin:
    """The unit q at which the gain of ``row`` falls most slowly, its exponent still below every loss.

    With ``e = give + s`` the gain's exponent at ``d . q = s``, losses require ``rows >= e - give``. The s up
    to ``high`` that some |q| <= 1 allows form an interval; this is its lower end (at 0 the two tokens tie).
    """

    def at(s: float) -> MaxMargin:
        bound = np.where(gaining, 0.0, np.maximum(0.0, give[row] + s - give))
        bound[row] = s
        return solve(replace(rows, h=bound, equal=np.arange(len(bound)) == row))

    low, solution = 0.0, at(0.0)
    if not (solution.is_certified and solution.p_norm <= 1):
        while high - low > 4e-16 * max(high, 1e-300) and low < (middle := 0.5 * (low + high)) < high:
            trial = at(middle)
            low, high = (low, middle) if trial.is_certified and trial.p_norm <= 1 else (middle, high)
        solution = at(high)
    return solution


def _newton(M: Floats, give: Floats, solution: MaxMargin, m: float) -> float | None:
    """The m at which the active rows alone give |q| = 1: a quadratic, c = m 1 - give, |q|^2 = c' G^-1 c."""
    assert solution.multipliers is not None
    active = np.flatnonzero((solution.multipliers > 0) & (solution.constraints.h > 0))
    flat = np.flatnonzero((solution.multipliers > 0) & (solution.constraints.h == 0))
    working = np.concatenate([active, flat])
    inverse = np.linalg.pinv(M[working])
    slope = inverse @ np.concatenate([np.ones(len(active)), np.zeros(len(flat))])
    offset = inverse @ np.concatenate([give[active], np.zeros(len(flat))])
    a, b, c = slope @ slope, slope @ offset, offset @ offset - 1.0
    inside = b * b - a * c
    return float((b + math.sqrt(inside)) / a) if inside >= 0 and a > 0 else None
