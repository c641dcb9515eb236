"""Factors W = K Q' at a solution of the nuclear-norm problem, or at another KKT point (D-THM-2).

A KKT point of min (|K|^2 + |Q|^2)/2 with R_j . K Q' >= 1 has K = M Q and Q = M'K with M = sum_j l_j R_j and
l >= 0 on the tight rows. It solves the nuclear-norm problem if and only if, for some such l, no singular
value of M is above 1; where one is, its singular pair is a way out for a column that is free in both factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.constraints import Constraints, Floats
from hardmax.margin.norms import norm
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.selection import Selection, leaders, selected_tokens


@dataclass(frozen=True, eq=False)
class FactoredPoint:
    """Factors K and Q, scaled to the least margin 1, against the KKT conditions and the nuclear optimum.

    ``multipliers`` fit K = M Q, Q = M'K and complementarity best, up to the relative ``residual``; where they
    are ``unique``, no others fit. ``best`` solves the nuclear-norm problem of the same rows.

    >>> import numpy as np, hardmax as hm
    >>> tokens = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    >>> problem = hm.Problem.from_queries(tokens, [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]])
    >>> point = hm.margin.factored_point(problem, np.eye(2), np.eye(2))
    >>> point.status, point.rank, round(point.operator_norm, 12), [round(x, 9) for x in point.interval]
    ('optimal', 2, 1.0, [0.5, 0.5])
    >>> hm.margin.factored_point(problem, np.eye(2), [[1.0, 1.0], [0.0, 1.0]]).status
    'not stationary'
    """

    constraints: Constraints
    K: Floats
    Q: Floats
    multipliers: Floats
    residual: float
    unique: bool
    best: MaxMargin
    tolerance: float

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"FactoredPoint({self.status}, rank={self.rank}, margin={low:.6g} of {high:.6g}, "
            f"residual={self.residual:.2g}, |M|={self.operator_norm:.6g})"
        )

    @property
    def W(self) -> Floats:
        """The matrix W = K Q'."""
        return self.K @ self.Q.T

    @cached_property
    def M(self) -> Floats:
        """The combination sum_j l_j R_j of the rows."""
        return combined(self.constraints, self.multipliers)

    @cached_property
    def operator_norm(self) -> float:
        """The largest singular value of M: at most 1 at a solution of the nuclear-norm problem."""
        return norm("spectral").value(self.M)

    @cached_property
    def rank(self) -> int:
        """The rank of W, singular values below 1e-9 of the largest apart."""
        values = np.linalg.svd(self.W, compute_uv=False)
        return int((values > 1e-9 * values[0]).sum())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The margin of W over its nuclear norm, and the largest there is."""
        reach = float(self.constraints.along(self.W.ravel()).min())
        return reach / norm("nuclear").value(self.W), self.best.margin_interval[1]

    @property
    def status(self) -> Literal["optimal", "stationary", "not stationary"]:
        """Optimal if the margin is the largest up to the tolerance, else whether the KKT conditions hold."""
        low, high = self.interval
        if low >= (1.0 - self.tolerance) * high:
            return "optimal"
        return "stationary" if self.residual <= self.tolerance else "not stationary"

    @property
    def escape(self) -> tuple[Floats, Floats] | None:
        """The singular pair (u, v) of M above 1: columns that K and Q would grow along; None if none is."""
        if self.status == "optimal" or self.operator_norm <= 1.0:
            return None
        U, _, Vt = np.linalg.svd(self.M)
        return U[:, 0], Vt[0]


@check_arguments
def factored_point(
    problem: Problem,
    K: ArrayLike,
    Q: ArrayLike,
    selection: Iterable[int] | Selection | None = None,
    *,
    tolerance: float = 1e-6,
) -> FactoredPoint:
    """Decide whether factors of W solve the nuclear-norm problem, are another KKT point, or neither.

    Args:
        problem: one with queries, `Problem.from_queries`.
        K: the factor (d_x, m) of the tokens, of any length, as a run has it.
        Q: the factor (d_z, m) of the queries.
        selection: one token per input; those that W = K Q' selects by default.
        tolerance: relative, of the residual and of the margin. A run is as near as its steps brought it.

    >>> import numpy as np, hardmax as hm
    >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]])
    >>> hm.margin.factored_point(problem, [[1.0], [-1.0]], [[1.0], [1.0]]).status
    'optimal'
    """
    if len(problem.shape) != 2:
        raise ValueError("problem must be one with queries, got one of a vector p; make it with from_queries")
    left = expect.finite_array("K", K, (problem.shape[0], None))
    right = expect.finite_array("Q", Q, (problem.shape[1], left.shape[1]))
    W = (left @ right.T).ravel()
    chosen = selected_tokens(problem, W).tokens if selection is None else selection
    rows = AttentionRows(problem).constraints(enumerate(leaders(problem, chosen)))
    reach = float(rows.along(W).min(initial=math.inf))
    if not 0.0 < reach < math.inf:
        raise ValueError(
            f"K, Q must select the tokens by a margin, got {reach:.3g}; train longer, or leave out selection"
        )
    left, right = left / math.sqrt(reach), right / math.sqrt(reach)
    fit = fitted(rows, left, right)
    return FactoredPoint(rows, left, right, *fit, norm("nuclear").solve(rows), tolerance)


def fitted(rows: Constraints, K: Floats, Q: Floats) -> tuple[Floats, float, bool]:
    """Multipliers >= 0 that fit K = M Q, Q = M'K and l_j slack_j = 0 best, the relative residual, if unique.

    Unique means: the equations have full rank, with singular values above 1e-7 of the largest.
    """
    assert rows.right is not None
    assert rows.right_of is not None
    x, z = rows.left(), rows.right[rows.right_of]
    by_K = np.einsum("ja,jb->abj", x, z @ Q).reshape(-1, len(x))  # R_j Q
    by_Q = np.einsum("ja,jb->abj", z, x @ K).reshape(-1, len(x))  # R_j'K
    size = math.sqrt(float((K * K).sum() + (Q * Q).sum()))
    slack = np.diag((rows.along((K @ Q.T).ravel()) - 1.0) / size)
    target = np.concatenate([K.ravel(), Q.ravel(), np.zeros(len(x))])
    system = np.vstack([by_K, by_Q, slack])
    weights, off = nnls(system, target)
    values = np.linalg.svd(system, compute_uv=False)
    return weights, float(off) / size, bool(values[-1] > 1e-7 * values[0])


def combined(rows: Constraints, weights: Floats) -> Floats:
    """sum_j l_j R_j, (d_x, d_z)."""
    assert rows.right is not None
    return (rows.left().T * weights) @ rows.right[rows.right_of]
