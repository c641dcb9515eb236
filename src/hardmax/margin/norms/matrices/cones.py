"""Max-margin problems in the nuclear and the spectral norm of a matrix W by clarabel, the extra `cone`.

It takes what `interior` leaves open: rows that are no outer products, and hard ones (D-ALG-1).

Nuclear: the least half trace of a semidefinite [[X, W], [W', Y]]. Spectral: the least t for which
[[t I, W], [W', t I]] is semidefinite. The solver's multipliers of the rows are the other half of the proof.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib.extras import install
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.norms.matrices.definition import Singular
from hardmax.margin.norms.matrices.face import shortest
from hardmax.margin.norms.pair import Pair, scored

TOLERANCE = 1e-13  # asked of the solver, which stops where it cannot do better


def by_cone(A: Floats, h: Floats, equal: Bools, norm: Singular, shape: tuple[int, ...]) -> Pair | None:
    """W, read row by row, with multipliers; None if it fails.

    >>> from hardmax.margin.norms import norm
    >>> one = np.ones(1)
    >>> found = by_cone(np.array([[2.0, 0.0, 0.0, 1.0]]), one, one < 0, norm("nuclear"), (2, 2))
    >>> bool(np.abs(found.p - [0.5, 0, 0, 0]).max() < 1e-6)
    True
    """
    clarabel = _solver(norm)
    from scipy import sparse

    width, height = shape
    side, corner = width + height, _corner(width, height)
    order = np.concatenate([np.flatnonzero(equal), np.flatnonzero(~equal)])
    ties, size = int(equal.sum()), side * (side + 1) // 2
    diagonal = np.array([k * (k + 1) // 2 + k for k in range(side)])
    if norm.nuclear:  # the unknown is the triangle of the semidefinite matrix
        rows = np.zeros((len(h), size))
        rows[:, corner] = A / math.sqrt(2)
        goal, matrix = np.zeros(size), sparse.identity(size)
        goal[diagonal] = 0.5
    else:  # the unknown is (W, t)
        rows = np.column_stack([A, np.zeros(len(h))])
        goal = np.append(np.zeros(len(corner)), 1.0)
        places = np.concatenate([corner, diagonal])
        values = np.concatenate([np.full(len(corner), math.sqrt(2)), np.ones(side)])
        unknown = np.concatenate([np.arange(len(corner)), np.full(side, len(corner))])
        matrix = sparse.csc_matrix((values, (places, unknown)), shape=(size, len(goal)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((len(goal), len(goal))),
        goal,
        sparse.csc_matrix(sparse.vstack([sparse.csc_matrix(-rows[order]), -matrix])),
        np.concatenate([-h[order], np.zeros(size)]),
        [clarabel.ZeroConeT(ties), clarabel.NonnegativeConeT(len(h) - ties), clarabel.PSDTriangleConeT(side)],
        settings,
    ).solve()
    x = np.array(solution.x)
    W = x[corner] / math.sqrt(2) if norm.nuclear else x[:-1]
    weights = np.zeros(len(h))
    weights[order] = np.array(solution.z)[: len(h)]
    weights = np.where(equal, weights, np.maximum(weights, 0.0))
    found = scored(A, h, equal, norm, W, weights, shape)
    return shortest(A, h, equal, norm, found, shape) if found.width < 1 else None


def _corner(width: int, height: int) -> Ints:
    """Where the entries of W stand in the upper triangle of the matrix, which is read column by column."""
    a, b = np.divmod(np.arange(width * height), height)
    column = width + b
    return np.asarray(column * (column + 1) // 2 + a, dtype=np.int64)


def _solver(norm: Singular) -> Any:
    try:
        import clarabel  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ValueError(
            f"norm must be one of the entries of W for these rows without the extra cone, got {norm.name!r}; "
            f"install it with {install('cone')}"
        ) from None
    return clarabel
