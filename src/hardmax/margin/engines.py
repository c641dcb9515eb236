"""Float engines: each guesses a support (or a contradiction); the polish turns a support into numbers.

Rows known by their Gram matrix alone have an engine for whole sets of rows at once. Where many rows are
tight, a method that adds them one by one is slow. Block principal pivoting (Judice and Pires) guesses all
tight rows, solves for them, and exchanges every row that is wrong; one Cholesky factor a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.kernel import CONTRADICTION, STUCK, active_set
from hardmax.margin.measure import rounding

# Measured: daqp prices every row at every step, the kernel only a pool; they cross here.
DAQP_ROWS = 300
NNLS_ROWS = 2000


class Guess(NamedTuple):
    """Multipliers of a supposed optimum, or a supposed Farkas vector if ``contradiction``."""

    contradiction: bool
    multipliers: Floats


@cache
def _module(name: str) -> Any:
    """A library that is slow to import, and that the least problems do without."""
    return import_module(name)


def _lapack() -> Any:
    return _module("scipy.linalg.lapack")  # scipy's wrappers of it cost more than a small problem


def by_daqp(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """The compiled dual active-set solver; its tolerances are set to rounding level (default 1e-6)."""
    m, d = A.shape
    sense = np.where(equal, 5, 0).astype(np.int32)
    above = np.where(equal, h, 1e30)
    _, _, flag, info = _module("daqp").solve(
        np.eye(d), np.zeros(d), A, above, h, sense, primal_tol=1e-12, dual_tol=1e-12, iter_limit=50 * (m + d)
    )
    if flag == 1:
        return Guess(False, -info["lam"])
    return None  # an infeasible verdict comes without a Farkas vector


def by_kernel(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """The pooled dual active-set kernel, for many rows."""
    norms = np.sqrt(np.einsum("ij,ij->i", A, A))
    norms[norms == 0] = 1.0
    p, multipliers = np.empty(A.shape[1]), np.empty(A.shape[0])
    verdict, _ = active_set(A, h, equal, norms, p, multipliers)
    return None if verdict == STUCK else Guess(verdict == CONTRADICTION, multipliers)


def by_nnls(A: Floats, h: Floats, equal: Bools) -> Guess | None:
    """Lawson and Hanson's least-distance programming: the residual of one NNLS holds p or a Farkas vector."""
    signed = np.vstack([A, -A[equal]])  # an equality is two inequalities
    bounds = np.concatenate([h, -h[equal]])
    system = np.vstack([signed.T, bounds])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    try:
        u, _ = _module("scipy.optimize").nnls(system, target)
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
    """
    lapack = _lapack()
    largest = np.abs(guess).max(initial=0.0)
    working = np.flatnonzero(equal | (guess > 1e-14 * largest))
    for _ in range(8):
        if not len(working):
            return None
        packed, order, tau, _, _ = lapack.dgeqp3(A[working].T, overwrite_a=1)
        diagonal = np.abs(np.diag(packed))
        rank = int(np.sum(diagonal > 1e-13 * diagonal[0]))
        working = working[order[:rank] - 1]
        R = packed[:rank, :rank].copy(order="F")
        Q, _, _ = lapack.dorgqr(packed[:, :rank], tau[:rank])
        active, bounds = A[working], h[working]
        p = Q @ lapack.dtrtrs(R, bounds, trans=1)[0]
        p += Q @ lapack.dtrtrs(R, bounds - active @ p, trans=1)[0]  # one refinement
        weights = lapack.dtrtrs(R, Q.T @ p)[0]
        wrong = (weights < 0) & ~equal[working]
        if not wrong.any():
            multipliers = np.zeros(len(h))
            multipliers[working] = weights
            return p, multipliers
        working = working[~wrong]
    return None


ROUNDS = 40
STEPS = 400
REFINED = 6
DEPENDENT = 1e-10  # pivots of the Gram matrix below this share of the largest count as dependent rows


@dataclass(frozen=True, eq=False)
class Span:
    """The span of rows, by the Cholesky factor of their Gram matrix (of independent ones among them)."""

    factor: Floats  # lower
    rows: Ints  # the independent rows, in the factor's order

    @property
    def rank(self) -> int:
        """Dimension of the span, up to a relative 1e-10 of the Gram matrix."""
        return len(self.rows)

    def length(self, along: Floats) -> float:
        """|Pi W| for a W with these inner products with the rows."""
        return float(np.linalg.norm(_lapack().dtrtrs(self.factor, along[self.rows], lower=True)[0]))


def span_of(gram: Floats) -> Span:
    """Plain Cholesky where rows are independent, with pivots where they are not."""
    factor, info = _lapack().dpotrf(gram.T, lower=True)  # LAPACK reads the transpose
    pivots = np.diag(factor)
    if info == 0 and pivots.min(initial=np.inf) ** 2 > DEPENDENT * np.diag(gram).max(initial=0.0):
        return Span(factor, np.arange(len(gram)))
    tolerance = DEPENDENT * float(np.diag(gram).max())
    factor, order, rank, _ = _lapack().dpstrf(gram, lower=True, tol=tolerance)
    return Span(np.tril(factor[:rank, :rank]), order[:rank] - 1)


def pivoted(gram: Floats, span: Span | None = None, steps: int = STEPS) -> Floats | None:
    """Multipliers of min |p| with row_j . p >= 1, by pivoting from all rows on.

    Where pivoting runs in circles, at most ``steps`` steps that never go back take over; without any the
    answer is None. Where rows depend on each other, a ridge of 1e-10 of the largest row picks one of many
    multipliers, and steps of refinement with the same factor take its effect away.
    """
    m = len(gram)
    span = span or span_of(gram)
    ridge = 0.0 if span.rank == m else DEPENDENT * float(np.diag(gram).max())
    system = _System(gram, ridge, None if ridge else span.factor)
    tight, fewest, patience = np.ones(m, dtype=bool), m + 1, 3
    for _ in range(ROUNDS):
        weights = system.solved(tight)
        violated = gram @ weights + ridge * weights < 1.0 - 1e-12
        wrong = np.where(tight, weights < 0.0, violated)
        count = int(wrong.sum())
        if count == 0:
            return system.refined(weights, tight)
        patience, fewest = (3, count) if count < fewest else (patience - 1, fewest)
        if patience == 0:
            break
        tight ^= wrong
    if not steps:
        return None
    weights = system.descended(np.maximum(system.solved(tight), 0.0), steps)
    return system.refined(weights, weights > 0.0)


def seen_by(gram: Floats, weights: Floats, lengths: Floats) -> tuple[Floats, float, Floats, int]:
    """Inner products of the rows with p = sum_j l_j row_j, |p| from above, and how far they may be off.

    That is: lengths and terms for `measure`. Inner products of Gram entries err by the rows' lengths times
    the reach of the weights.
    """
    along, reach, terms = gram @ weights, float(np.abs(weights) @ lengths), len(gram) + 8
    norm = float(np.sqrt(max(weights @ along, 0.0) + rounding(terms) * reach**2))
    return along, norm, lengths * (reach / norm if norm else 1.0), terms


@dataclass(frozen=True, eq=False)
class _System:
    """(gram + ridge I) weights = 1 on some rows: the problem's optimality where all are tight."""

    gram: Floats
    ridge: float
    whole: Floats | None  # the factor for all rows, if it is known

    def factor(self, tight: Bools) -> tuple[Ints, Floats]:
        used = np.flatnonzero(tight)
        if self.whole is not None and len(used) == len(self.gram):
            return used, self.whole
        some = part(self.gram, used)
        some.ravel()[:: len(used) + 1] += self.ridge
        factor, info = _lapack().dpotrf(some.T, lower=True, overwrite_a=True, clean=False)
        if info:
            raise np.linalg.LinAlgError("rows must be independent up to the ridge")
        return used, factor

    def solved(self, tight: Bools) -> Floats:
        weights = np.zeros(len(self.gram))
        if tight.any():
            used, factor = self.factor(tight)
            weights[used] = _lapack().dpotrs(factor, np.ones(len(used)), lower=True)[0]
        return weights

    def descended(self, weights: Floats, steps: int) -> Floats:
        """Lawson and Hanson's steps from weights >= 0: the dual objective falls with each, so they end."""
        single = False
        for _ in range(steps):
            tight = weights > 0.0
            aim = self.solved(tight)
            if (aim >= 0.0).all():
                weights = aim
                lacking = np.where(tight, 0.0, 1.0 - self.gram @ weights)
                if lacking.max(initial=0.0) <= 1e-12:
                    break
                most = lacking == lacking.max() if single else lacking > 0.5 * lacking.max()
                tight = tight | most
                aim = self.solved(tight)
                stuck = most & (aim <= 0.0)
                single = bool(stuck.any())
                if single and not (tight & (aim <= 0.0) & ~most).any():
                    continue
            falling = tight & (aim < 0.0)
            share = weights[falling] / (weights[falling] - aim[falling])
            step = float(share.min(initial=1.0))
            weights = np.maximum(weights + step * (aim - weights), 0.0)
            if step < 1.0:
                weights[np.flatnonzero(falling)[share <= step]] = 0.0
        return weights

    def refined(self, weights: Floats, tight: Bools) -> Floats:
        """Undo the effect of the ridge on the weights of the tight rows."""
        if not self.ridge or not tight.any():
            return weights
        used, factor = self.factor(tight)
        better = weights.copy()
        for _ in range(REFINED):
            better[used] += _lapack().dpotrs(factor, 1.0 - (self.gram @ better)[used], lower=True)[0]
        return np.maximum(better, 0.0)


@kernel()
def part(gram: Floats, used: Ints) -> Floats:
    """Rows and columns of some; numpy's own way takes as long as the Cholesky factor."""
    out = np.empty((used.size, used.size))
    for i in range(used.size):
        row = gram[used[i]]
        for j in range(used.size):
            out[i, j] = row[used[j]]
    return out
