"""Float engines: each guesses a support (or a contradiction); the polish turns a support into numbers."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.kernel import CONTRADICTION, STUCK, active_set

# Measured: daqp prices every row at every step, the kernel only a pool; they cross here.
DAQP_ROWS = 300
NNLS_ROWS = 2000


class Guess(NamedTuple):
    """Multipliers of a supposed optimum, or a supposed Farkas vector if ``contradiction``.

    >>> Guess(False, np.ones(2)).contradiction
    False
    """

    contradiction: bool
    multipliers: Floats


@cache
def _daqp() -> Any:
    import daqp  # type: ignore[import-untyped, unused-ignore]

    return daqp.solve


@cache
def _nnls() -> Any:
    from scipy.optimize import nnls  # scipy is slow to import, and the least problems do without

    return nnls


@cache
def _lapack() -> tuple[Any, Any, Any]:
    from scipy.linalg.lapack import dgeqp3, dorgqr, dtrtrs  # their wrappers cost more than a small problem

    return dgeqp3, dorgqr, dtrtrs


def by_daqp(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """The compiled dual active-set solver; its tolerances are set to rounding level (default 1e-6).

    >>> by_daqp(np.eye(2), np.ones(2), np.zeros(2, bool)).multipliers.tolist()
    [1.0, 1.0]
    """
    m, d = A.shape
    sense = np.where(equal, 5, 0).astype(np.int32)
    above = np.where(equal, h, 1e30)
    _, _, flag, info = _daqp()(
        np.eye(d), np.zeros(d), A, above, h, sense, primal_tol=1e-12, dual_tol=1e-12, iter_limit=50 * (m + d)
    )
    if flag == 1:
        return Guess(False, -info["lam"])
    return None  # an infeasible verdict comes without a Farkas vector


def by_kernel(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """The pooled dual active-set kernel, for many rows.

    >>> by_kernel(np.eye(2), np.ones(2), np.zeros(2, bool)).multipliers.tolist()
    [1.0, 1.0]
    """
    norms = np.sqrt(np.einsum("ij,ij->i", A, A))
    norms[norms == 0] = 1.0
    p, multipliers = np.empty(A.shape[1]), np.empty(A.shape[0])
    verdict, _ = active_set(A, h, equal, norms, p, multipliers)
    return None if verdict == STUCK else Guess(verdict == CONTRADICTION, multipliers)


def by_nnls(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """Lawson and Hanson's least-distance programming: the residual of one NNLS holds p or a Farkas vector.

    >>> by_nnls(np.array([[1.0], [-1.0]]), np.ones(2), np.zeros(2, bool)).contradiction
    True
    """
    signed = np.vstack([A, -A[equal]])  # an equality is two inequalities
    bounds = np.concatenate([h, -h[equal]])
    system = np.vstack([signed.T, bounds])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    try:
        u, _ = _nnls()(system, target)
    except RuntimeError:  # the iteration limit
        return None
    weights = u[: len(h)].copy()
    weights[equal] -= u[len(h) :]
    residual = system @ u - target
    if -residual[-1] < 1e-12:
        return Guess(True, weights)
    return Guess(False, weights / -residual[-1])


def polish(A: Floats, h: Floats, equal: Bools, guess: Floats) -> tuple[Floats, Floats] | None:
    """The minimum-norm p that makes the guessed support tight, by QR of the rows, not of their Gram matrix.

    Rows that come out with a negative multiplier leave the support; dependent rows get multiplier zero.

    >>> polish(np.array([[2.0, 0.0]]), np.ones(1), np.zeros(1, bool), np.ones(1))[0].tolist()
    [0.5, 0.0]
    """
    dgeqp3, dorgqr, dtrtrs = _lapack()
    largest = np.abs(guess).max(initial=0.0)
    working = np.flatnonzero(equal | (guess > 1e-14 * largest))
    for _ in range(8):
        if not len(working):
            return None
        packed, order, tau, _, _ = dgeqp3(A[working].T, overwrite_a=1)
        diagonal = np.abs(np.diag(packed))
        rank = int(np.sum(diagonal > 1e-13 * diagonal[0]))
        working = working[order[:rank] - 1]
        R = packed[:rank, :rank].copy(order="F")
        Q, _, _ = dorgqr(packed[:, :rank], tau[:rank])
        active, bounds = A[working], h[working]
        p = Q @ dtrtrs(R, bounds, trans=1)[0]
        p += Q @ dtrtrs(R, bounds - active @ p, trans=1)[0]  # one refinement
        weights = dtrtrs(R, Q.T @ p)[0]
        wrong = (weights < 0) & ~equal[working]
        if not wrong.any():
            multipliers = np.zeros(len(h))
            multipliers[working] = weights
            return p, multipliers
        working = working[~wrong]
    return None
