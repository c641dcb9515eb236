"""What is left when p_mm is taken away: the constant offset of the regularisation path (B-NEW-2)."""

from __future__ import annotations

from typing import cast

import numpy as np

from hardmax.directions.neighbors import row_gaps, selection_of, tight_rows
from hardmax.margin.constraints import Floats, Ints
from hardmax.margin.rationals import row_rank
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem


def path_offset(problem: Problem, max_margin: MaxMargin) -> Floats:
    """The vector w with p(R) = R p_mm/|p_mm| + w + O(1/R) on the regularisation path, orthogonal to p_mm.

    The support rows must be independent with positive multipliers, and each selected token must score above
    its neighbours: then every support row carries the same weight in the limit, which fixes w.

    >>> import hardmax as hm
    >>> problem = hm.data.named("B-FIG-8")
    >>> hm.limits.path_offset(problem, hm.max_margin(problem, [0, 0])).round(7).tolist()
    [-0.2541894, 0.0847298]
    """
    multipliers = max_margin.decided.multipliers
    if max_margin.direction is None or multipliers is None:
        raise ValueError(f"max_margin must have a direction, got none: it is {max_margin.status}")
    near, log_c = support_weights(problem, max_margin)
    # Inputs that stand there several times ask for one row: what they weigh adds up.
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
    """The support rows of a locally optimal selection, by number, and log c of each: what a row costs.

    c is the slope of the loss at the selected score times the score gap times the number of copies of the
    losing token, over the number of copies of the selected one, times the weight of the input.
    """
    chosen = problem.offsets[:-1] + np.array(selection_of(problem, max_margin))
    near = tight_rows(max_margin)
    gaps = row_gaps(problem, max_margin)[near]
    if (gaps <= 0).any():
        raise ValueError(
            "max_margin must be of a locally optimal selection, got one with a neighbour that scores as high"
        )
    labels = [cast(tuple[int, int], max_margin.constraints.label(int(j))) for j in near]
    inputs = np.array([i for i, _ in labels], dtype=np.intp)
    losers = problem.offsets[:-1][inputs] + np.array([t for _, t in labels], dtype=np.intp)
    copies = np.log(np.bincount(problem.groups, problem.counts)[problem.groups])
    u = problem.head.vertex_predictions(problem.tokens, problem.offsets)[chosen]
    slopes = problem.loss.log_slopes(u[inputs]) + problem.log_weights[inputs]
    return near, slopes + np.log(gaps) + copies[losers] - copies[chosen][inputs]
