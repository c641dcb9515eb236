"""Of several optimal matrices the one of least Frobenius norm, which stands for them all (D-DEF-4).

With M = sum_j l_j row_j from the multipliers, U and V its singular vectors and S, Z some matrices, W is
optimal if rows with a multiplier are tight, the others hold, and

* nuclear: W = U S V' over the largest singular value of M, S semidefinite;
* spectral: W = U V' over all of M, plus a free part U' Z V' over the rest, where M is zero, |Z| <= 1.

An interior-point method ends inside of this set, so it is known from there which rows have a multiplier and
which singular values count. Where only one S or Z makes the rows tight there is nothing to choose.
"""

from __future__ import annotations

import numpy as np

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.engines import by_daqp, polish
from hardmax.margin.norms.matrices.definition import Singular
from hardmax.margin.norms.matrices.newton import clipped, counting, every_basis, semidefinite, symmetric_basis
from hardmax.margin.norms.pair import Pair, scored

FLAT = 1e-6  # singular values of the tight rows, relative to the largest, that stand for zero
NARROW = 1e-9  # width up to which a shorter matrix is as good
ROUNDS = 1_000
MOST_MOVES = 1_000  # directions in which W may move; beyond, it stays where it is


def shortest(A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The pair with the optimal W of least Frobenius norm, as far as floats tell; else the pair as it is.

    >>> from hardmax.margin.norms import norm
    >>> rows, one = np.array([[1.0, 0.0, 0.0, 0.0]]), np.ones(1)
    >>> pair = Pair(np.array([1.0, 0.0, 0.0, 0.5]), one, 0.0)
    >>> shortest(rows, one, one < 0, norm("spectral"), pair, (2, 2)).p.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    W, M = pair.p.reshape(shape), (A.T @ pair.weights).reshape(shape)
    U, _, Vt = np.linalg.svd(M)
    tight, rank = counting(A, h, equal, norm, pair, shape)
    if norm.nuclear:
        left, right = U[:, :rank], Vt[:rank].T
    else:
        left, right = U[:, rank:], Vt[rank:].T
    if not 0 < left.shape[1] * right.shape[1] <= MOST_MOVES:
        return pair
    inner = symmetric_basis(rank) if norm.nuclear else every_basis(left.shape[1], right.shape[1])
    basis = (left @ inner @ right.T).reshape(len(inner), -1)  # directions in which W may move, orthonormal
    seen = A @ basis.T
    moves = _kernel(seen[tight])
    if not len(moves):
        return pair
    here = basis @ pair.p
    there = here - moves.T @ (moves @ here)
    tried = scored(A, h, equal, norm, pair.p + (there - here) @ basis, pair.weights, shape)
    if tried.width > max(pair.width, NARROW):
        given = A @ (pair.p - here @ basis)  # by the part of W that does not move
        most = float(np.linalg.norm(W, 2))
        there = _within(seen[~tight], (h - given)[~tight], norm, inner, there, moves, most)
        tried = scored(A, h, equal, norm, pair.p + (there - here) @ basis, pair.weights, shape)
    return tried if tried.width <= max(2 * pair.width, NARROW) else pair


def _kernel(rows: Floats) -> Floats:
    """An orthonormal basis of what the rows do not see, (k, d)."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, values, Vt = np.linalg.svd(rows)
    return Vt[int((values > FLAT * values[0]).sum()) :]


def _within(
    rows: Floats, h: Floats, norm: Singular, inner: Floats, fixed: Floats, moves: Floats, most: float
) -> Floats:
    """Of the points ``fixed + moves'g`` that meet the rows the shortest; ``fixed`` is the shortest of all.

    It also has to stay in the cone of semidefinite matrices or in the ball of radius ``most``. Projections on
    both in turn, each undoing its own last change first (Dykstra), tend to it.
    """
    lines, bounds = rows @ moves.T, h - rows @ fixed
    x, change, other = fixed, np.zeros_like(fixed), np.zeros_like(fixed)
    for _ in range(ROUNDS):
        y = _in_ball(x + change, norm, inner, most)
        change = x + change - y
        g = moves @ (y + other - fixed)
        new = fixed + (g + _onto(lines, bounds - lines @ g)) @ moves
        other = y + other - new
        moved, x = float(np.abs(new - x).max()), new
        if moved < 1e-13 * most:
            break
    return x


def _in_ball(x: Floats, norm: Singular, inner: Floats, most: float) -> Floats:
    """Coordinates of the nearest semidefinite matrix, or of the nearest one of spectral norm ``most``."""
    T = np.tensordot(x, inner, 1)
    T = semidefinite(T) if norm.nuclear else clipped(T, most)
    return np.asarray(np.tensordot(inner, T, 2))


def _onto(lines: Floats, missing: Floats) -> Floats:
    """The shortest change that makes up for what lines miss."""
    none = np.zeros(len(lines), dtype=bool)
    if not (missing > 0).any():
        return np.zeros(lines.shape[1])
    guess = by_daqp(lines, missing, none)
    found = None if guess is None else polish(lines, missing, none, guess.multipliers)
    return np.zeros(lines.shape[1]) if found is None else found[0]
