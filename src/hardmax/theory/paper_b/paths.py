"""Theorem 1 and the first-order correction of the regularisation path (B-NEW-2)."""

from __future__ import annotations

import numpy as np

from hardmax.margin.residual import path_offset
from hardmax.paths import regularization_path
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import decreasing_loss, separable_best, strict_best

FLOOR = 1e-6  # radians: what a path of doubles resolves


def angle_allowed(offset: float, R: float) -> float:
    """Twice the angle that the offset of B-NEW-2 explains at radius R."""
    return max(2 * offset / R, FLOOR)


@statement(
    "B-THM-1",
    "Theorem 1: the global regularisation path",
    "With a decreasing loss, one best token per input and the best tokens separable, p(R)/R tends to "
    "p_mm/|p_mm|.",
    kind="limit",
    errata=("B-ERR-01", "B-ERR-07"),
)
def global_path(problem: Problem) -> Outcome:
    """Angles at radii from 10 to 1000 margins: falling, and within twice the offset's angle from 300 on."""
    separable, best = separable_best(problem)
    hypotheses = (decreasing_loss(problem), strict_best(problem), separable)
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if best is None or best.direction is None:
        if separable.holds:
            return unsaid(hypotheses)
        path = regularization_path(problem, [1e3])
        found = {"interior minimiser": path.points[0], "norm": float(np.linalg.norm(path.points[0]))}
        return Outcome(
            hypotheses, measured=found, witness=path.points[0], paper_slack=-float(path.interior[0])
        )
    radii = np.array([10.0, 30.0, 100.0, 300.0, 1000.0]) / best.margin
    path = regularization_path(problem, radii)
    angles = path.angle(best)
    try:
        offset = float(np.linalg.norm(path_offset(problem, best)))
    except ValueError:  # B-NEW-2 does not apply; the angle must then still fall like 1/R
        offset = float(angles[2] * radii[2])
    rises = float(np.diff(angles).max())
    allowed = [angle_allowed(offset, R) for R in radii[3:].tolist()]
    slack = min(FLOOR - rises, *(1 - a / b for a, b in zip(angles[3:].tolist(), allowed, strict=True)))
    found = {"radii": radii, "angles in degrees": np.degrees(angles), "|w|": offset}
    believed = slack if path.is_reliable.all() and not path.interior.any() else None
    return Outcome(hypotheses, believed, found, paper_slack=believed)


def predicted(p_unit: np.ndarray, offset: np.ndarray, R: float) -> np.ndarray:
    """The path to first order: R times the unit direction, plus the offset w."""
    return R * p_unit + offset


@statement(
    "B-NEW-2",
    "First-order correction of the path",
    "If the support rows are independent with positive multipliers, p(R) = R p_mm/|p_mm| + w + O(1/R) with "
    "the explicit w of the bordered system.",
    kind="limit",
    label="derived",
)
def first_order_path(problem: Problem) -> Outcome:
    """The residual at 30 to 1000 margins: it must fall like 1/R."""
    separable, best = separable_best(problem)
    hypotheses = [decreasing_loss(problem), strict_best(problem), separable]
    if unmet(hypotheses) or best is None or best.direction is None:
        return unsaid(hypotheses)
    try:
        w = path_offset(problem, best)
    except ValueError as reason:
        return Outcome(
            (*hypotheses, Hypothesis("independent support, positive multipliers", False, str(reason)))
        )
    hypotheses.append(Hypothesis("independent support, positive multipliers", True, len(best.support)))
    radii = np.array([30.0, 100.0, 300.0, 1000.0]) / best.margin
    path = regularization_path(problem, radii)
    residuals = [
        float(np.linalg.norm(p - predicted(best.direction, w, R)))
        for p, R in zip(path.points, radii.tolist(), strict=True)
    ]
    # ten times the radius leaves a tenth of the residual, give or take a half; rounding grows with R
    allowed = max(0.15 * residuals[1], 1e-9 * radii[-1])
    slack = 1 - residuals[-1] / allowed
    found = {"residuals": residuals, "|w|": float(np.linalg.norm(w)), "w": w}
    return Outcome(tuple(hypotheses), slack if path.is_reliable.all() else None, found)
