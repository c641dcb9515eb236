"""The nuclear and the spectral norm of a matrix W, and an interior-point method for their problems.

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

Near the optimum an interior-point method loses digits, and Newton's method on the structure takes over. Let y
be the multipliers of the rows whose multiplier counts, sum_j y_j h_j = 1, M = sum_j y_j row_j, t the margin.
At the optimum all these rows reach row_j . W = h_j t, and over the singular vectors of M

* spectral: W = [[I, 0], [0, Z]] where M = [[s, 0], [0, 0]], s > 0;
* nuclear: W = [[S, 0], [0, 0]] where M = [[m I, 0], [0, s]], s < m, and S is symmetric with trace 1.

In the unknowns y, Z or S, t and m this is a system with a symmetric derivative [[H, C], [C', 0]]: H is how
the singular vectors, and W with them, turn with y, and C how the rows see Z or S. From errors of 1e-5 two
steps reach the precision of floats.

Several W may be optimal: those of this structure, with any semidefinite S or any Z of spectral norm
at most 1, that make rows with a multiplier tight and meet the others. Of these the one of least Frobenius
norm is given. The interior-point method ends inside of this set, so it is known from there which rows have a
multiplier and which singular values count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Bools, Constraints, Floats, outer
from hardmax.margin.engines import by_daqp, polish
from hardmax.margin.measure import EPS, Tight, rounding
from hardmax.margin.norms.powers import along, lengths
from hardmax.margin.norms.solving import Pair, enclose_by, scored, solve_by
from hardmax.margin.registry import Norm
from hardmax.margin.solution import MaxMargin, texts
from hardmax.margin.solve import Scaled

ROUNDING = 1e-13  # singular values below this share of the largest are zero to a steepest step
MOST_SIDE = 100  # rows or columns of a matrix whose solution is saved


@dataclass(frozen=True)
class Singular(Norm):
    """The nuclear norm, the sum of the singular values of W, or the spectral norm, the largest of them."""

    nuclear: bool

    strictly_convex, of_matrix = False, True
    tolerance = 1e-8

    @property
    def name(self) -> str:
        """Name of the norm, "nuclear" or "spectral"."""
        return "nuclear" if self.nuclear else "spectral"

    @property
    def dual(self) -> Singular:
        """The spectral norm for the nuclear one, and the other way round."""
        return type(self)(not self.nuclear)

    @property
    def _r(self) -> float:
        return 1.0 if self.nuclear else math.inf

    def value(self, p: ArrayLike) -> float:
        """N(p) of a matrix, off by at most a relative `rounding`."""
        return float(lengths(np.linalg.svd(np.asarray(p, dtype=np.float64), compute_uv=False), self._r))

    def above_rows(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Between l2 and these norms there is at most the root of the rank."""
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(norms * self.over_l2(shape) * (1 + rounding(rows.shape[1])))

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """The root of the largest rank."""
        return math.sqrt(min(shape))

    def step(self, g: ArrayLike) -> Floats:
        """The steepest step, of singular values that are not zero but for rounding."""
        slope = np.asarray(g, dtype=np.float64)
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(slope)
        U, values, Vt = np.linalg.svd(slope / largest, full_matrices=False)
        values = np.where(values > ROUNDING * values[0], values, 0.0)
        return np.asarray((U * along(values, self._r)) @ Vt)

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """By an interior-point method, whatever the rows are."""

        def optimum(scaled: Scaled, _: Any) -> tuple[Floats, Floats] | None:
            d, e = constraints.shape
            pair = by_interior(Rows(scaled.A, (d, e), scaled.h, scaled.equal, scaled.factors), self)
            return None if pair is None else pair[:2]

        return solve_by(self, constraints, optimum, exact)

    def enclose(self, best: MaxMargin) -> Tight:
        """By solving with and without the rows."""
        return enclose_by(best)

    def certificate(self, best: MaxMargin) -> dict[str, Any]:
        """The shape, and factors K and Q whose product is near p or near the combination of the rows.

        They prove a bound of its nuclear norm, |KQ'| <= (|K|^2 + |Q|^2)/2, which is sharp for these.
        """
        c = best.constraints
        if max(c.shape) > MOST_SIDE:
            raise ValueError(
                f"max_margin must be of a matrix of at most {MOST_SIDE} rows and columns to be saved in the "
                f"norm {self.name}, got {c.shape[0]} x {c.shape[1]}; its margin_interval is what it proves"
            )
        if best.p is None or best.multipliers is None or not best.p.any():
            return {"shape": [*c.shape], "factors": None}
        matrix = best.p if self.nuclear else best.multipliers @ c.rows()
        U, values, Vt = np.linalg.svd(np.reshape(matrix, c.shape), full_matrices=False)
        roots = np.sqrt(values)
        factors = {"left": [texts(row) for row in U * roots], "right": [texts(row) for row in Vt.T * roots]}
        return {"shape": [*c.shape], "factors": factors}


SHARPENINGS = 5  # steps of Newton's method
LEAST = 1e-12  # singular values of the system below this, relative to the largest, are zero
DONE = 1e-13  # relative width at which to stop
ZERO = 1e-11  # for numbers relative to 1


class _Form(NamedTuple):
    """The place of Z or S, a basis of all it may be, (n, a, b), the nearest one allowed, and how W turns."""

    place: slice
    basis: Floats
    allowed: Callable[[Floats], Floats]
    turned: Callable[[Floats, Floats, Floats], Floats]


def sharpened(A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The pair after some steps, or the given one where it is better."""
    tight, r = counting(A, h, equal, norm, pair, shape)
    k = int(tight.sum())
    basis, back = _independent(A[tight])
    rows = basis.reshape(-1, *shape)
    W = pair.p.reshape(shape) / norm.value(pair.p.reshape(shape))
    y, bounds = back @ pair.weights[tight] / float(h @ pair.weights), np.linalg.solve(back.T, h[tight])
    nuclear = norm.nuclear
    if nuclear:
        form = _Form(slice(0, r), symmetric_basis(r), semidefinite, _with_all)
    else:
        form = _Form(slice(r, None), every_basis(shape[0] - r, shape[1] - r), clipped, _with_some)
    unit = form.basis.trace(axis1=1, axis2=2) if nuclear else np.zeros(len(form.basis))
    n = k + len(unit)
    for _ in range(SHARPENINGS):
        U, values, Vt = np.linalg.svd(np.tensordot(y, rows, 1))
        inner = form.allowed((U.T @ W @ Vt.T)[form.place, form.place])
        whole = np.zeros(shape)
        whole[:r, :r] = np.eye(r)
        whole[form.place, form.place] = inner
        W = U @ whole @ Vt
        weights = np.zeros(len(h))
        of_rows = np.linalg.solve(back, y)
        weights[tight] = np.where(equal[tight], of_rows, np.maximum(of_rows, 0.0))
        reach = np.tensordot(rows, W, 2)
        t = float(y @ reach) / float(y @ bounds)
        trial = scored(A, h, equal, norm, W.ravel() / max(t, ZERO), weights, shape)
        pair = trial if trial.width < pair.width else pair
        if pair.width < DONE:
            break
        images = U.T @ rows @ Vt.T
        turned = form.turned(images, inner, values)
        sees = np.tensordot(images[:, form.place, form.place], form.basis, ((1, 2), (1, 2)))
        top = float(values[:r].mean())
        system, H = np.zeros((n + 2, n + 2)), images.reshape(k, -1) @ turned.reshape(k, -1).T
        system[:k, :k] = (H + H.T) / 2
        system[:k, k:n], system[:k, n], system[k:n, n + 1] = sees, -bounds, -unit
        system[k:, :k], system[n + 1, k:n] = system[:k, k:].T, -unit
        right = [bounds * t - reach, top * unit - y @ sees]
        last = [0.0, float(np.trace(inner)) - 1 if nuclear else 0.0]
        step = np.linalg.lstsq(system, np.concatenate([*right, last]), rcond=LEAST)[0]
        change = np.tensordot(step[:k], turned, 1)
        change[form.place, form.place] += np.tensordot(step[k:n], form.basis, 1)
        y, W = y + step[:k], W + U @ change @ Vt
    return pair


def _independent(rows: Floats) -> tuple[Floats, Floats]:
    """An orthonormal basis of the rows and the triangle R with rows = R' basis; dependent rows as they are.

    Rows that nearly cancel would leave no digits in the products of the system.
    """
    if len(rows) <= rows.shape[1]:
        Q, R = np.linalg.qr(rows.T)
        sizes = np.abs(np.diag(R))
        if sizes.min(initial=1.0) > ZERO * sizes.max(initial=1.0):
            return Q.T, R
    return rows, np.eye(len(rows))


def counting(
    A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]
) -> tuple[Bools, int]:
    """Rows whose multiplier counts, not their slack; how many singular values belong to the first block."""
    values = np.linalg.svd((A.T @ pair.weights).reshape(shape), compute_uv=False)
    sizes = np.linalg.svd(pair.p.reshape(shape), compute_uv=False)
    scale = np.sqrt((A**2).sum(axis=1)) * np.sqrt((sizes**2).sum())
    slack, gain = (A @ pair.p - h) / scale, pair.weights * scale / float(h @ pair.weights)
    values, sizes = values / values[0], sizes / sizes[0]
    # Where both are zero, W is at the boundary of several optima, and M and the multipliers decide.
    first = np.maximum(sizes, ZERO) > 1 - values if norm.nuclear else values > np.maximum(1 - sizes, ZERO)
    return equal | (gain > np.maximum(slack, ZERO)), int(first.sum())


def clipped(Z: Floats, most: float = 1.0) -> Floats:
    """The nearest matrix of spectral norm at most this."""
    U, values, Vt = np.linalg.svd(Z, full_matrices=False)
    return np.asarray((U * np.minimum(values, most)) @ Vt)


def semidefinite(S: Floats) -> Floats:
    """The nearest symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def symmetric_basis(r: int) -> Floats:
    """Orthonormal symmetric matrices, (r(r+1)/2, r, r)."""
    i, j = np.triu_indices(r)
    basis, every = np.zeros((len(i), r, r)), np.arange(len(i))
    basis[every, i, j] = basis[every, j, i] = np.where(i == j, 1.0, math.sqrt(0.5))
    return basis


def every_basis(d: int, e: int) -> Floats:
    """Matrices with one entry, (de, d, e)."""
    return np.eye(d * e).reshape(d * e, d, e)


def _with_some(images: Floats, Z: Floats, values: Floats) -> Floats:
    """How W turns with M by each row, in the spectral norm: as the polar factor U V', and Z along with it."""
    r = images.shape[1] - Z.shape[0]
    top = values[:r]
    low, side = images[:, r:, :r] / top, images[:, :r, r:] / top[:, None]
    turned = np.zeros_like(images)
    turned[:, :r, :r] = (images[:, :r, :r] - images[:, :r, :r].transpose(0, 2, 1)) / (top[:, None] + top)
    turned[:, r:, :r] = low - Z @ side.transpose(0, 2, 1)
    turned[:, :r, r:] = side - low.transpose(0, 2, 1) @ Z
    return turned


def _with_all(images: Floats, S: Floats, values: Floats) -> Floats:
    """How W turns with M by each row, in the nuclear norm: as the space of the largest singular value m."""
    r, (_, d, e) = len(S), images.shape
    m, both = float(values[:r].mean()), min(d, e) - r
    rest = values[r:]
    low, side = images[:, r:, :r], images[:, :r, r:].transpose(0, 2, 1)
    P, Q = m * low, m * side
    P[:, :both] += rest[:, None] * side[:, :both]
    Q[:, :both] += rest[:, None] * low[:, :both]
    for T in (P, Q):
        T[:, :both] /= (m**2 - rest**2)[:, None]
        T[:, both:] /= m**2
    skew = (images[:, :r, :r] - images[:, :r, :r].transpose(0, 2, 1)) / (4 * m)
    turned = np.zeros_like(images)
    turned[:, :r, :r] = skew @ S + S @ skew
    turned[:, r:, :r], turned[:, :r, r:] = P @ S, S @ Q.transpose(0, 2, 1)
    return turned


FLAT = 1e-6  # singular values of the tight rows, relative to the largest, that count as zero
NARROW = 1e-9  # width up to which a shorter matrix is as good
ROUNDS = 1_000
MOST_MOVES = 1_000  # directions in which W may move; beyond, it stays where it is


def shortest(A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The pair with the optimal W of least Frobenius norm, to rounding; else the pair as it is."""
    W, M = pair.p.reshape(shape), (A.T @ pair.weights).reshape(shape)
    U, _, Vt = np.linalg.svd(M)
    tight, rank = counting(A, h, equal, norm, pair, shape)
    place = slice(0, rank) if norm.nuclear else slice(rank, None)
    left, right = U[:, place], Vt[place].T
    if not 0 < left.shape[1] * right.shape[1] <= MOST_MOVES:
        return pair
    inner = symmetric_basis(rank) if norm.nuclear else every_basis(left.shape[1], right.shape[1])
    basis = (left @ inner @ right.T).reshape(len(inner), -1)  # directions in which W may move, orthonormal
    images = A @ basis.T
    moves = np.eye(len(basis))  # orthonormal, and orthogonal to the tight rows
    if tight.any():
        _, values, Vt = np.linalg.svd(images[tight])
        moves = Vt[int((values > FLAT * values[0]).sum()) :]
    if not len(moves):
        return pair
    here = basis @ pair.p
    there = here - moves.T @ (moves @ here)
    trial = scored(A, h, equal, norm, pair.p + (there - here) @ basis, pair.weights, shape)
    if trial.width > max(pair.width, NARROW):
        bounds = (h - A @ (pair.p - here @ basis))[~tight]  # less the part of W that does not move
        most = float(np.linalg.norm(W, 2))
        there = _within(images[~tight], bounds, norm, inner, there, moves, most)
        trial = scored(A, h, equal, norm, pair.p + (there - here) @ basis, pair.weights, shape)
    return trial if trial.width <= max(2 * pair.width, NARROW) else pair


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
        T = np.tensordot(x + change, inner, 1)
        y = np.tensordot(inner, semidefinite(T) if norm.nuclear else clipped(T, most), 2)
        change = x + change - y
        g = moves @ (y + other - fixed)
        missing, none = bounds - lines @ g, np.zeros(len(lines), dtype=bool)
        if (missing > 0).any():  # the shortest change by which the lines reach their bounds
            guess = by_daqp(lines, missing, none)
            polished = None if guess is None else polish(lines, missing, none, guess.multipliers)
            g = g if polished is None else g + polished[0]
        new = fixed + g @ moves
        other = y + other - new
        moved, x = float(np.abs(new - x).max()), new
        if moved < 1e-13 * most:
            break
    return x


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
        """Shape of W."""
        return self.rows.shape

    def block(self, x: Floats) -> Floats:
        """Return the off-diagonal block G(x) of Z."""
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
        if self.nuclear and self.rows.factors is not None:
            a, b = self.rows.factors
            Xs, Vs = ((a @ M[0] @ a.T, a @ M[1] @ b.T, b @ M[2] @ b.T) for M in (Xs, Vs))
        (Xa, Xm, Xb), (Va, Vm, Vb) = Xs, Vs
        if not self.nuclear:
            K = np.multiply.outer(Xa, Vb) + np.multiply.outer(Va, Xb)  # a, c, b, d
            cross = np.multiply.outer(Xm, Vm) + np.multiply.outer(Vm, Xm)  # a, d, c, b
            K = (K.transpose(0, 2, 1, 3) + cross.transpose(0, 3, 2, 1)).reshape(len(Xa) * len(Xb), -1)
        elif self.rows.factors is not None:
            K = Xa * Vb + Xb * Va + Xm * Vm.T + Xm.T * Vm
        else:
            R = self.rows.A.reshape(-1, *self.shape)
            turned = R.transpose(0, 2, 1)
            images = Xa @ R @ Vb + Va @ R @ Xb + Xm @ turned @ Vm + Vm @ turned @ Xm
            K = self.rows.A @ images.reshape(len(R), -1).T
        K = (K + K.T) / 2
        return K if self.nuclear else np.pad(K, (0, 1))


def by_interior(rows: Rows, norm: Singular) -> Pair | None:
    """W, read row by row, with multipliers; None if not even a feasible W was found."""
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
        pair = _follow(_program(small, norm), norm)
    if pair is None:
        return None
    pair = shortest(small.A, small.h, small.equal, norm, pair, small.shape)
    W = left @ (unit * pair.p).reshape(small.shape) @ right.T
    final = scored(rows.A, rows.h, rows.equal, norm, W.ravel(), pair.weights / sizes, W.shape)
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
    idle = sharpenings = 0
    for _ in range(STEPS):
        G = program.block(x)
        Z = _around(-G, 1.0)
        below = _roots(X, Z)
        if below is None:
            break
        if program.nuclear:
            W, weights = 2 * X[:d, d:].ravel(), x
        else:
            W, weights = x[:-1] / max(float(x[-1]), EPS), np.zeros(len(rows.h))
            weights[~rows.equal], weights[rows.equal] = y, free
        pair = scored(A, rows.h, rows.equal, norm, W, weights, program.shape)
        before = math.inf if best is None else best.width
        idle = 0 if best is None or pair.width < 0.9 * before else idle + 1
        best = pair if pair.width < before else best
        ends = best is not None and ((idle == 2 and best.width < ENOUGH) or idle == IDLE)
        if best is not None and (ends or best.width < NEAR[sharpenings]):
            best = sharpened(A, rows.h, rows.equal, norm, best, program.shape)
            sharpenings += 1
        if best is not None and (ends or best.width < GOOD or sharpenings == len(NEAR)):
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

    def to(self, target: float, first: _Step | None = None) -> _Step | None:
        """The step to a point of the path, with the second-order terms of a first step."""
        T, w = target * self.V - self.X, target / self.z - self.y
        if first is not None:
            T = T - _symmetric(first.X @ first.Z @ self.V)
            w = w - first.y * first.z / self.z
        B, ratio = self.program.lines, self.y / self.z
        w = w - ratio * self.missing
        right = self.wrong - self.program.adjoint(T[: self.d, self.d :]) - B.T @ w
        right = np.concatenate([right, self.untied])
        try:
            solution = np.linalg.solve(self.system, right)
            change = np.linalg.solve(self.system, right - self.system @ solution)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(change).all():
            return None
        x, free = np.split((solution + change).astype(np.float64), [self.size])
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
        roots = np.linalg.inv(np.linalg.cholesky(X)), np.linalg.inv(np.linalg.cholesky(Z))
    except np.linalg.LinAlgError:
        return None
    return roots if all(np.isfinite(root).all() for root in roots) else None


def _lengths(
    below: tuple[Floats, Floats], X: Floats, y: Floats, z: Floats, step: _Step
) -> tuple[float, float]:
    """How far X and y may go, and how far Z and z."""
    far = []
    for root, D, v, w in ((below[0], step.X, y, step.y), (below[1], step.Z, z, step.z)):
        lowest = float(np.linalg.eigvalsh(_symmetric(root @ D @ root.T))[0])
        least = min(lowest, float((w / v).min(initial=0.0)))
        far.append(min(1.0, -WALL / least) if least < 0 else 1.0)
    return far[0], far[1]
