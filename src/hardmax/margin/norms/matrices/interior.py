"""An interior-point method for the nuclear and the spectral norm of a matrix W.

Both are semidefinite programs of one form, in the unknown x,

    largest b.x  with  Z = I - [[0, G(x)], [G(x)', 0]] semidefinite,  z = -B x >= 0,  E x = 0,

nuclear:   x are the multipliers l, G = sum_j l_j row_j, z the multipliers of inequalities, b = h; the matrix
           X that belongs to Z has W in its corner;
spectral:  x = (W, t), G = -W, z_j = row_j . W - h_j t for inequalities, E the same for equalities, and b.x is
           t; the multipliers belong to z and E.

The steps are Mehrotra's, in the direction of Helmberg, Kojima and Monteiro. Where rows are a b', the matrix
of the Newton system is made of products of small Gram matrices: a step costs a few products of matrices as
large as W. A solution's W then only has columns in the span of the a and rows in that of the b, and no norm
here changes with the basis, so W is first made as small as these.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats, outer
from hardmax.margin.measure import EPS
from hardmax.margin.norms.matrices.definition import Singular
from hardmax.margin.norms.matrices.face import shortest
from hardmax.margin.norms.matrices.newton import sharpened
from hardmax.margin.norms.pair import Pair, scored

STEPS = 150
IDLE = 30  # steps in a row that gain nothing, after which it ends
WALL = 0.98  # of the way to the boundary
NEAR = (1e-4, 1e-6, 1e-8, 1e-10)  # relative widths at which Newton's method is tried,
NEAR_ENOUGH = 1e-2  # or at the end,
GOOD = 1e-11  # the one at which to stop,
ENOUGH = 1e-9  # and the one from which steps that gain nothing end it


class Rows(NamedTuple):
    """Rows (m, d e), each a matrix read row by row, their bounds, and which are equalities.

    ``factors`` are a (m, d) and b (m, e) where all rows are outer products a_j b_j'.
    """

    A: Floats
    shape: tuple[int, int]
    h: Floats
    equal: Bools
    factors: tuple[Floats, Floats] | None = None


class Program(NamedTuple):
    """Goal b, lines B, ties E and the first x of the form above; the maps are those of a norm."""

    rows: Rows
    nuclear: bool
    goal: Floats
    lines: Floats
    ties: Floats
    start: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """That of W."""
        return self.rows.shape

    def block(self, x: Floats) -> Floats:
        """G(x)."""
        return np.asarray(x @ self.rows.A if self.nuclear else -x[:-1]).reshape(self.shape)

    def adjoint(self, corner: Floats) -> Floats:
        """The gradient in x of <G(x), Y + Y'>, where Y is this corner of a symmetric matrix."""
        if self.nuclear:
            return np.asarray(2 * self.rows.A @ corner.ravel())
        return np.append(-2 * corner.ravel(), 0.0)

    def curvature(self, X: Floats, V: Floats) -> Floats:
        """The matrix with entries tr(A_i X A_j V), where A_i is the matrix that x_i multiplies in Z."""
        d = self.shape[0]
        Xs, Vs = ((M[:d, :d], M[:d, d:], M[d:, d:]) for M in (X, V))
        if self.nuclear and self.rows.factors is None:
            R, ((Xa, Xm, Xb), (Va, Vm, Vb)) = self.rows.A.reshape(-1, *self.shape), (Xs, Vs)
            turned = R.transpose(0, 2, 1)
            seen = Xa @ R @ Vb + Va @ R @ Xb + Xm @ turned @ Vm + Vm @ turned @ Xm
            K = self.rows.A @ seen.reshape(len(R), -1).T
            return (K + K.T) / 2
        if self.nuclear and self.rows.factors is not None:
            a, b = self.rows.factors
            (Xa, Xm, Xb), (Va, Vm, Vb) = ((a @ M[0] @ a.T, a @ M[1] @ b.T, b @ M[2] @ b.T) for M in (Xs, Vs))
            K = Xa * Vb + Xb * Va + Xm * Vm.T + Xm.T * Vm
            return (K + K.T) / 2
        (Xa, Xm, Xb), (Va, Vm, Vb) = Xs, Vs
        K = np.multiply.outer(Xa, Vb) + np.multiply.outer(Va, Xb)  # a, c, b, d
        cross = np.multiply.outer(Xm, Vm) + np.multiply.outer(Vm, Xm)  # a, d, c, b
        K = (K.transpose(0, 2, 1, 3) + cross.transpose(0, 3, 2, 1)).reshape(Xa.shape[0] * Xb.shape[0], -1)
        return np.pad((K + K.T) / 2, (0, 1))


def by_interior(rows: Rows, norm: Singular) -> Pair | None:
    """W, read row by row, with multipliers; None if not even a feasible W was found.

    >>> from hardmax.margin.norms import norm
    >>> one = np.ones(1)
    >>> rows = Rows(np.array([[0.0, 2.0, 0.0, 0.0]]), (2, 2), one, one < 0)
    >>> found = by_interior(rows, norm("nuclear"))
    >>> found.p.round(6).tolist(), found.width < 1e-9
    ([0.0, 0.5, 0.0, 0.0], True)
    """
    sizes = np.sqrt((rows.A**2).sum(axis=1))
    if not (sizes > 0).all():
        return None
    h = rows.h / sizes
    unit = np.abs(h).max()
    left, right = np.eye(rows.shape[0]), np.eye(rows.shape[1])
    small = Rows(rows.A / sizes[:, None], rows.shape, h / unit, rows.equal)
    if rows.factors is not None:
        (left, a), (right, b) = (_basis(factor) for factor in rows.factors)
        a, b = (x / np.sqrt((x**2).sum(axis=1))[:, None] for x in (a, b))
        small = Rows(outer(a, b), (a.shape[1], b.shape[1]), h / unit, rows.equal, (a, b))
    with np.errstate(all="ignore"):
        found = _follow(_program(small, norm), norm)
    if found is None:
        return None
    found = shortest(small.A, small.h, small.equal, norm, found, small.shape)
    W = left @ (unit * found.p).reshape(small.shape) @ right.T
    final = scored(rows.A, rows.h, rows.equal, norm, W.ravel(), found.weights / sizes, W.shape)
    return final if final.width < 1 else None


def _basis(factors: Floats) -> tuple[Floats, Floats]:
    """An orthonormal basis of the span of some vectors, (d, r), and their coordinates in it."""
    some, which = np.unique(factors, axis=0, return_inverse=True)
    if len(some) >= factors.shape[1]:
        return np.eye(factors.shape[1]), factors
    Q, R = np.linalg.qr(some.T)
    return Q, np.ascontiguousarray(R.T[which])


def _program(rows: Rows, norm: Singular) -> Program:
    A, h, equal = rows.A, rows.h, rows.equal
    m, width = A.shape
    if norm.nuclear:
        start = np.where(equal, 0.0, 1.0)
        start *= 0.5 / np.linalg.norm((start @ A).reshape(rows.shape), 2)
        return Program(rows, True, h, -np.eye(m)[~equal], np.zeros((0, m)), start)
    lines = np.column_stack([-A, h])
    last = np.append(np.zeros(width), 1.0)
    return Program(rows, False, last, lines[~equal], lines[equal], -last)


def _follow(program: Program, norm: Singular) -> Pair | None:
    """The central path from far, to where floats end; the best pair that was met."""
    rows, (d, e), B, E = program.rows, program.shape, program.lines, program.ties
    A = rows.A
    count, far = d + e + len(B), max(1.0, 1 / float(rows.h[rows.h > 0].min(initial=1.0)) ** 0.5)
    x, X, y, free = program.start, far * np.eye(d + e), np.full(len(B), far), np.zeros(len(E))
    z = np.maximum(-B @ x, 0.1 * np.abs(B @ x).max(initial=1.0))
    best: Pair | None = None
    idle = tried = 0
    for _ in range(STEPS):
        G = program.block(x)
        Z = _around(-G, 1.0)
        below = _roots(X, Z)
        if below is None:
            break
        best, gained = _better(best, _pair(program, A, norm, x, X, y, free))
        idle = 0 if gained else idle + 1
        ends = best is not None and ((idle == 2 and best.width < ENOUGH) or idle == IDLE)
        if best is not None and (ends or best.width < NEAR[tried]):
            best = sharpened(A, rows.h, rows.equal, norm, best, program.shape)
            tried += 1
        if best is not None and (ends or best.width < GOOD or tried == len(NEAR)):
            break
        move = _Newton(program, x, X, y, z, free, below[1].T @ below[1])
        mu = (float(np.vdot(X, Z)) + float(y @ z)) / count
        step = move.to(0.0)
        if step is None:
            break
        p, q = _lengths(below, X, y, z, step)
        ahead = float(np.vdot(X + p * step.X, Z + q * step.Z)) + float((y + p * step.y) @ (z + q * step.z))
        step = move.to(mu * min(1.0, max(ahead / count / mu, 1e-3)) ** 3, step)
        if step is None:
            break
        p, q = _lengths(below, X, y, z, step)
        X, y, free = X + p * step.X, y + p * step.y, free + p * step.free
        x, z = x + q * step.x, z + q * step.z
    if best is not None and GOOD < best.width < NEAR_ENOUGH:  # floats ended before Newton's method was tried
        best = sharpened(A, rows.h, rows.equal, norm, best, program.shape)
    return best


class _Step(NamedTuple):
    x: Floats
    X: Floats
    Z: Floats
    y: Floats
    z: Floats
    free: Floats


class _Newton:
    """The linear system of one iteration, factored once for both of its right sides."""

    def __init__(
        self, program: Program, x: Floats, X: Floats, y: Floats, z: Floats, free: Floats, V: Floats
    ) -> None:
        self.program, self.X, self.y, self.z, self.V = program, X, y, z, V
        self.d, B, E = program.shape[0], program.lines, program.ties
        self.wrong = program.goal - program.adjoint(X[: self.d, self.d :]) - B.T @ y - E.T @ free
        self.missing, self.untied = -B @ x - z, -E @ x
        n = len(x)
        self.size, self.system = n, np.zeros((n + len(E), n + len(E)))
        self.system[:n, :n] = program.curvature(X, V) + (B.T * (y / z)) @ B
        self.system[n:, :n], self.system[:n, n:] = E, E.T

    def to(self, target: float, seen: _Step | None = None) -> _Step | None:
        """The step to a point of the path, with the second-order terms of a step that was seen."""
        T, w = target * self.V - self.X, target / self.z - self.y
        if seen is not None:
            T = T - _symmetric(seen.X @ seen.Z @ self.V)
            w = w - seen.y * seen.z / self.z
        B, ratio = self.program.lines, self.y / self.z
        w = w - ratio * self.missing
        right = self.wrong - self.program.adjoint(T[: self.d, self.d :]) - B.T @ w
        right = np.concatenate([right, self.untied])
        try:
            found = np.linalg.solve(self.system, right)
            again = np.linalg.solve(self.system, right - self.system @ found)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(again).all():
            return None
        x, free = np.split((found + again).astype(np.float64), [self.size])
        D = _around(self.program.block(x), 0.0)
        X = T + _symmetric(self.X @ D @ self.V)
        change = B @ x
        return _Step(x, X, -D, w + ratio * change, self.missing - change, free)


def _around(G: Floats, diagonal: float) -> Floats:
    """[[c I, G], [G', c I]]."""
    d, e = G.shape
    whole = np.zeros((d + e, d + e))
    whole[:d, d:], whole[d:, :d] = G, G.T
    np.fill_diagonal(whole, diagonal)
    return whole


def _symmetric(M: Floats) -> Floats:
    return (M + M.T) / 2


def _roots(X: Floats, Z: Floats) -> tuple[Floats, Floats] | None:
    """Inverses of the triangular factors of X and Z; None where one has left its cone."""
    try:
        made = tuple(np.linalg.inv(np.linalg.cholesky(M)) for M in (X, Z))
    except np.linalg.LinAlgError:
        return None
    return (made[0], made[1]) if all(np.isfinite(M).all() for M in made) else None


def _lengths(
    below: tuple[Floats, Floats], X: Floats, y: Floats, z: Floats, step: _Step
) -> tuple[float, float]:
    """How far X and y may go, and how far Z and z."""
    far = []
    for root, D, v, w in ((below[0], step.X, y, step.y), (below[1], step.Z, z, step.z)):
        least = min(
            float(np.linalg.eigvalsh(_symmetric(root @ D @ root.T))[0]), float((w / v).min(initial=0.0))
        )
        far.append(min(1.0, -WALL / least) if least < 0 else 1.0)
    return far[0], far[1]


def _pair(program: Program, A: Floats, norm: Singular, x: Floats, X: Floats, y: Floats, free: Floats) -> Pair:
    rows, (d, _) = program.rows, program.shape
    if program.nuclear:
        W, weights = 2 * X[:d, d:].ravel(), x
    else:
        W, weights = x[:-1] / max(float(x[-1]), EPS), np.zeros(len(rows.h))
        weights[~rows.equal], weights[rows.equal] = y, free
    return scored(A, rows.h, rows.equal, norm, W, weights, program.shape)


def _better(best: Pair | None, found: Pair) -> tuple[Pair | None, bool]:
    if not math.isfinite(found.width) or (best is not None and found.width >= best.width):
        return best, best is None
    return found, best is None or found.width < 0.9 * best.width
