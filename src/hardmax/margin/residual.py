"""What is left when p_mm is taken away: the constant offset of the regularisation path (B-NEW-2)."""

from __future__ import annotations

from typing import cast

import numpy as np

from hardmax.margin.constraints import Floats
from hardmax.margin.integers import row_rank
from hardmax.margin.maxmargin import MaxMargin
from hardmax.margin.neighbours import row_gaps, selection_of, tight_rows
from hardmax.problem import Problem


def path_offset(problem: Problem, max_margin: MaxMargin) -> Floats:
    """The vector w with p(R) = R p_mm/|p_mm| + w + O(1/R) on the regularisation path, orthogonal to p_mm.

    The support rows must be independent with positive multipliers, and each selected token must score above
    its neighbours: then every support row carries the same weight in the limit, which fixes w.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-8")
    >>> hm.path_offset(problem, hm.max_margin(problem, [0, 0])).round(7).tolist()
    [-0.2541894, 0.0847298]
    """
    tokens = selection_of(problem, max_margin)
    p, multipliers = max_margin.p, max_margin.decided.multipliers
    if p is None or not p.any() or multipliers is None:
        raise ValueError(f"max_margin must have a direction, got none: it is {max_margin.status}")
    near = tight_rows(max_margin)
    D, weight = max_margin.constraints.rows()[near], multipliers[near]
    if row_rank(max_margin.constraints.subset(near)) < len(near):
        raise ValueError("max_margin: expected independent support rows, got dependent ones; w is not unique")
    if (weight <= 0).any():
        row = max_margin.constraints.label(int(near[np.argmin(weight)]))
        raise ValueError(f"max_margin: expected positive multipliers, got zero at the tight row {row}")
    gaps = row_gaps(problem, max_margin)[near]
    if (gaps <= 0).any():
        raise ValueError("max_margin: expected a locally optimal selection, a neighbour scores as high")
    chosen = problem.scores[problem.offsets[:-1] + np.array(tokens)]
    inputs = [cast(int, max_margin.constraints.label(int(j))[0]) for j in near]
    log_c = problem.loss.log_slopes(chosen[inputs]) + np.log(gaps)
    # d_j.w = log(c_j / lambda_j) + kappa, w = D'z and w.p_mm = 0: one bordered system in (z, kappa).
    k = len(near)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k], system[:k, k], system[k, :k] = D @ D.T, -1.0, D @ p
    z = np.linalg.solve(system, np.append(log_c - np.log(weight), 0.0))[:k]
    offset: Floats = D.T @ z
    return offset
