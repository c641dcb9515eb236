"""Newton's method for a nearly optimal matrix W of nuclear or spectral norm 1, once its structure is known.

Let y be the multipliers of the rows whose multiplier counts, sum_j y_j h_j = 1, M = sum_j y_j row_j, t the
margin. At the optimum all these rows reach row_j . W = h_j t, and over the singular vectors of M

* spectral: W = [[I, 0], [0, Z]] where M = [[s, 0], [0, 0]], s > 0;
* nuclear: W = [[S, 0], [0, 0]] where M = [[m I, 0], [0, s]], s < m, and S is symmetric with trace 1.

In the unknowns y, Z or S, t and m this is a system with a symmetric derivative [[H, C], [C', 0]]: H tells how
the singular vectors, and W with them, turn with y, and C how the rows see Z or S. From errors of 1e-5 two
steps reach what floats can hold; an interior-point method loses digits there instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats
from hardmax.margin.norms.matrices.definition import Singular
from hardmax.margin.norms.pair import Pair, scored

STEPS = 5
LEAST = 1e-12  # singular values of the system below this, relative to the largest, are zero
DONE = 1e-13  # relative width at which to stop
ZERO = 1e-11  # for numbers relative to 1


class _Form(NamedTuple):
    """Where Z or S stands, a basis of what it may be, (n, a, b), the nearest one allowed, and how W turns."""

    place: slice
    basis: Floats
    allowed: Callable[[Floats], Floats]
    turned: Callable[[Floats, Floats, Floats], Floats]


def sharpened(A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The pair after some steps, or the given one where it is better.

    >>> from hardmax.margin.norms import norm
    >>> rows, one = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]), np.ones(2)
    >>> near = Pair(np.array([1.0, 0.999, 0.0, 0.0]), np.array([1.0, 1.01]), 1e-2)
    >>> [sharpened(rows, one, one < 0, norm(n), near, (2, 2)).width < 1e-12 for n in ("nuclear", "spectral")]
    [True, True]
    """
    tight, r = counting(A, h, equal, norm, pair, shape)
    k = int(tight.sum())
    basis, back = _independent(A[tight])
    rows = basis.reshape(-1, *shape)
    W = pair.p.reshape(shape) / norm.value(pair.p.reshape(shape))
    y, bounds = back @ pair.weights[tight] / float(h @ pair.weights), _solved(back.T, h[tight])
    form, nuclear = _form(norm, r, shape), norm.nuclear
    unit = form.basis.trace(axis1=1, axis2=2) if nuclear else np.zeros(len(form.basis))
    n = k + len(unit)
    for _ in range(STEPS):
        U, values, Vt = np.linalg.svd(np.tensordot(y, rows, 1))
        inner = form.allowed((U.T @ W @ Vt.T)[form.place, form.place])
        whole = np.zeros(shape)
        whole[:r, :r] = np.eye(r)
        whole[form.place, form.place] = inner
        W = U @ whole @ Vt
        weights = np.zeros(len(h))
        own = _solved(back, y)
        weights[tight] = np.where(equal[tight], own, np.maximum(own, 0.0))
        reach = np.tensordot(rows, W, 2)
        t = float(y @ reach) / float(y @ bounds)
        found = scored(A, h, equal, norm, W.ravel() / max(t, ZERO), weights, shape)
        pair = found if found.width < pair.width else pair
        if pair.width < DONE:
            break
        seen = U.T @ rows @ Vt.T
        turned = form.turned(seen, inner, values)
        sees = np.tensordot(seen[:, form.place, form.place], form.basis, ((1, 2), (1, 2)))
        top = float(values[:r].mean())
        system, H = np.zeros((n + 2, n + 2)), seen.reshape(k, -1) @ turned.reshape(k, -1).T
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


def _solved(triangle: Floats, values: Floats) -> Floats:
    return np.asarray(np.linalg.solve(triangle, values))


def counting(
    A: Floats, h: Floats, equal: Bools, norm: Singular, pair: Pair, shape: tuple[int, ...]
) -> tuple[Bools, int]:
    """Rows whose multiplier counts, not their slack; how many singular values belong to the first block.

    >>> from hardmax.margin.norms import norm
    >>> rows, one = np.eye(4), np.ones(4)
    >>> pair = Pair(np.array([1.0, 2.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0]), 0.0)
    >>> counting(rows, one, one < 0, norm("spectral"), pair, (2, 2))[0].tolist()
    [True, False, False, True]
    """
    values = np.linalg.svd((A.T @ pair.weights).reshape(shape), compute_uv=False)
    sizes = np.linalg.svd(pair.p.reshape(shape), compute_uv=False)
    scale = np.sqrt((A**2).sum(axis=1)) * np.sqrt((sizes**2).sum())
    slack, gain = (A @ pair.p - h) / scale, pair.weights * scale / float(h @ pair.weights)
    values, sizes = values / values[0], sizes / sizes[0]
    # Where both are zero, W is at the boundary of several optima, and M and the multipliers decide.
    first = np.maximum(sizes, ZERO) > 1 - values if norm.nuclear else values > np.maximum(1 - sizes, ZERO)
    return equal | (gain > np.maximum(slack, ZERO)), int(first.sum())


def clipped(Z: Floats, most: float = 1.0) -> Floats:
    """The nearest matrix of spectral norm at most this.

    >>> clipped(np.array([[2.0, 0.0], [0.0, 0.5]])).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    U, values, Vt = np.linalg.svd(Z, full_matrices=False)
    return np.asarray((U * np.minimum(values, most)) @ Vt)


def semidefinite(S: Floats) -> Floats:
    """The nearest symmetric matrix without negative eigenvalues.

    >>> semidefinite(np.array([[1.0, 0.0], [0.0, -0.5]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def symmetric_basis(r: int) -> Floats:
    """Orthonormal symmetric matrices, (r(r+1)/2, r, r).

    >>> symmetric_basis(1).tolist()
    [[[1.0]]]
    """
    i, j = np.triu_indices(r)
    made = np.zeros((len(i), r, r))
    every = np.arange(len(i))
    made[every, i, j] = made[every, j, i] = np.where(i == j, 1.0, math.sqrt(0.5))
    return made


def every_basis(d: int, e: int) -> Floats:
    """Matrices with one entry, (de, d, e).

    >>> every_basis(1, 1).tolist()
    [[[1.0]]]
    """
    return np.eye(d * e).reshape(d * e, d, e)


def _form(norm: Singular, r: int, shape: tuple[int, ...]) -> _Form:
    if norm.nuclear:
        return _Form(slice(0, r), symmetric_basis(r), semidefinite, _with_all)
    return _Form(slice(r, None), every_basis(shape[0] - r, shape[1] - r), clipped, _with_some)


def _with_some(seen: Floats, Z: Floats, values: Floats) -> Floats:
    """How W turns with M by each row, in the spectral norm: as the polar factor U V', and Z along with it."""
    r = seen.shape[1] - Z.shape[0]
    top = values[:r]
    low, side = seen[:, r:, :r] / top, seen[:, :r, r:] / top[:, None]
    turned = np.zeros_like(seen)
    turned[:, :r, :r] = (seen[:, :r, :r] - seen[:, :r, :r].transpose(0, 2, 1)) / (top[:, None] + top)
    turned[:, r:, :r] = low - Z @ side.transpose(0, 2, 1)
    turned[:, :r, r:] = side - low.transpose(0, 2, 1) @ Z
    return turned


def _with_all(seen: Floats, S: Floats, values: Floats) -> Floats:
    """How W turns with M by each row, in the nuclear norm: as the space of the largest singular value m."""
    r, (_, d, e) = len(S), seen.shape
    m, both = float(values[:r].mean()), min(d, e) - r
    rest = values[r:]
    low, side = seen[:, r:, :r], seen[:, :r, r:].transpose(0, 2, 1)
    P, Q = m * low, m * side
    P[:, :both] += rest[:, None] * side[:, :both]
    Q[:, :both] += rest[:, None] * low[:, :both]
    for each in (P, Q):
        each[:, :both] /= (m**2 - rest**2)[:, None]
        each[:, both:] /= m**2
    skew = (seen[:, :r, :r] - seen[:, :r, :r].transpose(0, 2, 1)) / (4 * m)
    turned = np.zeros_like(seen)
    turned[:, :r, :r] = skew @ S + S @ skew
    turned[:, r:, :r], turned[:, :r, r:] = P @ S, S @ Q.transpose(0, 2, 1)
    return turned
