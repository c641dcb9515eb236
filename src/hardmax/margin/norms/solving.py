"""The common parts of the solvers of all norms: feasibility, units, and the proof by a p and multipliers.

Whether any p meets the rows does not depend on the norm, so the l2 solver decides that, exactly. The solver
of a norm only finds a p and multipliers; the interval that they prove is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import _short
from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.measure import Measured, Tight, measure, rounding
from hardmax.margin.rationals import to_float
from hardmax.margin.registry import Norm, norm
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import Scaled, correction, kept, proves, scale, solve, unscaled


class Pair(NamedTuple):
    """A p with row_j . p >= h_j, multipliers with N*(sum_j l_j row_j) = N(p), and the relative width.

    The width is that of the interval for the margin that they prove, infinite if they prove none.
    """

    p: Floats
    weights: Floats
    width: float


def scored(
    A: Floats, h: Floats, equal: Bools, norm: Norm, p: Floats, weights: Floats, shape: tuple[int, ...]
) -> Pair:
    """The pair on the rays of p and of the multipliers, as scaled above; as given where that is impossible.

    If an equality has a bound that is not zero, p cannot be scaled: the violation counts as width.
    """
    reach, u = A @ p, A.T @ weights
    positive, fixed = h > 0, bool(h[equal].any())
    with np.errstate(over="ignore"):
        t = 1.0 if fixed else float((reach[positive] / h[positive]).min(initial=np.inf))
    size, other = norm.value(p.reshape(shape)), norm.dual.value(u.reshape(shape))
    gain = float(h @ weights)
    if not (t > 0 and size > 0 and other > 0 and gain > 0 and math.isfinite(size * other)):
        return Pair(p, weights, math.inf)
    if math.isfinite(t):
        p, size = p / t, size / t
    width = abs(1 - gain / (size * other))
    if fixed:
        wrong = np.where(equal, np.abs(reach - h), np.maximum(h - reach, 0.0))
        with np.errstate(divide="ignore"):  # a row of zeros is met, or it never is
            width += float((wrong[wrong > 0] / (np.abs(A) @ np.abs(p))[wrong > 0]).max(initial=0.0))
    return Pair(p, weights * (size / other), width if math.isfinite(width) else math.inf)


Start = tuple[Floats, Floats]  # p and multipliers of the l2 solution, in the units of the scaled problem
Optimum = Callable[[Scaled, Start], tuple[Floats, Floats] | None]


@check_arguments
def solve_by(own: Norm, constraints: Constraints, optimum: Optimum, exact: bool = False) -> MaxMargin:
    """Solve in a norm by a function that finds p and multipliers; infeasible problems are settled first.

    Args:
        own: the norm.
        constraints: the problem.
        optimum: a function of a problem with rows ``A``, bounds ``h`` and equalities ``equal`` near 1, and of
            the p and multipliers of its l2 solution. It returns a p near the optimum and multipliers near
            those of the optimum, of any length, or None. A wrong optimum is measured and not certified.
        exact: refused, as its solutions are not rational.

    >>> import hardmax as hm
    >>> rows = hm.Constraints.dense([[1.0, 0.0]])
    >>> hm.margin.solve_by(hm.margin.norm("l3"), rows, lambda problem, start: start).margin
    1.0
    """
    own.refuse(constraints, exact)
    plain = solve(constraints)
    if plain.is_feasible is False or plain.p_norm == 0:
        return replace(plain, norm=own.name)
    scaled = scale(constraints)
    solution = None
    if plain.p is not None and plain.multipliers is not None and plain.p.any():
        solution = optimum(scaled, _start(plain, scaled))
        shapes = [scaled.A.shape[1:], scaled.h.shape]
        is_pair = isinstance(solution, tuple) and [*map(np.shape, solution)] == shapes
        if not (solution is None or is_pair):
            raise TypeError(
                f"optimum must return p and multipliers, of shapes {shapes[0]} and {shapes[1]}, or None, got "
                f"{_short(solution)}"
            )
    if solution is None:
        solution = np.zeros(scaled.A.shape[1]), np.zeros(len(scaled.h))
    pair = scored(scaled.A, scaled.h, scaled.equal, own, *solution, constraints.shape)
    return answer(constraints, scaled, own, pair.p, pair.weights)


def _start(plain: MaxMargin, scaled: Scaled) -> Start:
    """The l2 solution in the units of the scaled problem; of fractions, whose floats may have overflowed."""
    assert plain.p is not None
    assert plain.multipliers is not None
    if plain.exact is None or plain.exact.p is None:
        return np.ldexp(plain.p.ravel(), scaled.b), np.ldexp(plain.multipliers, scaled.a + scaled.b)
    two = Fraction(2)
    p = [to_float(x * two**scaled.b) for x in plain.exact.p]
    powers = (scaled.a + scaled.b).tolist()
    weights = [to_float(x * two**k) for x, k in zip(plain.exact.multipliers, powers, strict=True)]
    return np.array(p), np.array(weights)


def proved_by(constraints: Constraints, name: Norm | str | float, p: Floats, weights: Floats) -> MaxMargin:
    """Measure the interval that a p and weights >= 0 of the rows prove, of any origin and any lengths.

    Bounds must be positive. The interval is right for any p and weights; a p without a margin proves
    the upper end alone.
    """
    ball, scaled = norm(name), scale(constraints)
    ball.refuse(constraints)
    p, weights = p / np.abs(p).max(), np.ldexp(weights / weights.max(), scaled.a)
    reach = float((scaled.A @ p / scaled.h).min())
    p = p / reach if reach > 0 else p
    weights *= ball.value(p.reshape(constraints.shape)) ** 2 / float(weights @ scaled.h)
    return answer(constraints, scaled, ball, p, weights)


def answer(constraints: Constraints, scaled: Scaled, ball: Norm, p: Floats, weights: Floats) -> MaxMargin:
    """The solution with the proof by p and the multipliers of the scaled problem."""
    measured = measured_at(scaled, ball, p, weights, constraints.shape)
    best = replace(unscaled(constraints, scaled, p, weights, measured, "certified"), norm=ball.name)
    used = weights != 0
    if used.any() and not kept(weights, np.asarray(best.multipliers)):
        # As 1/row^2 grows with the unit of the rows, multipliers of N*(A'l) = N(p) may not be floats. Times
        # the power of two that puts them around 1 they prove the same interval.
        powers = np.frexp(weights)[1] - scaled.a - scaled.b
        middle = (int(powers[used].min()) + int(powers[used].max())) // 2
        best = replace(best, multipliers=np.ldexp(weights, -scaled.a - scaled.b - middle))
    whole = kept(p, np.asarray(best.p).ravel()) and kept(weights, np.asarray(best.multipliers))
    good = scaled.faithful and whole and proves(measured, ball.tolerance)
    return best if good else replace(best, status="undecided")


def measured_at(problem: Scaled, ball: Norm, p: Floats, weights: Floats, shape: tuple[int, ...]) -> Measured:
    """`measure` with lengths of p in the norm and lengths of rows in its dual, or above these."""
    A, h, equal, d = problem.A, problem.h, problem.equal, len(p)
    u, Mp = A.T @ weights, A @ p
    size, other = ball.value(p.reshape(shape)), ball.dual.value(u.reshape(shape))
    if size == 0 or other == 0:
        return Measured(np.inf, 0.0, np.inf)
    lengths = ball.dual.above_rows(A, shape)
    shift, shifted = correction(problem, Mp, lengths * size * (1 + ball.rounding(d)) * rounding(d))
    shift *= ball.over_l2(shape)
    return measured_in(ball, h, equal, weights, Mp, u @ p, size, other, lengths, d, shift, shifted)


def measured_in(
    ball: Norm,
    h: Floats,
    equal: Bools,
    weights: Floats,
    Mp: Floats,
    pull: Any,
    size: Any,
    other: Any,
    lengths: Floats,
    d: int,
    shift: Any = 0.0,
    shifted: Bools | bool = False,
) -> Measured:
    """`measure` in a norm: ``size`` = N(p), ``other`` = N*(u) and ``pull`` = u.p for u = sum_j l_j row_j.

    ``lengths`` are N* of the rows, or above. For one problem, or for a stack.
    """
    with np.errstate(all="ignore"):
        gap = np.abs(size - pull / size)
    size, other = size * (1 + ball.rounding(d)), other * (1 + ball.dual.rounding(d))
    return measure(Mp, h, equal, weights, lengths, size, other, gap, d, shift, shifted)


@check_arguments
def enclose_by(best: MaxMargin, near: Bools | None = None) -> Tight:
    """Find the rows that are tight at every optimal p, and those that may be, by solving without them.

    A row without which the margin is larger is tight everywhere, and one that makes it smaller as an equality
    is tight nowhere. ``near`` are the rows that may be tight, where they are known: then only the first test
    is made.

    >>> import hardmax as hm
    >>> rows = hm.Constraints.dense([[1.0, 0.5], [1.0, 2.0]])
    >>> hm.margin.enclose_by(hm.max_margin(rows, norm="l3")).doubtful.tolist()
    [False, False]
    """
    c, ball = best.constraints, norm(best.norm)
    none = np.zeros(c.count, dtype=bool)
    if near is not None and near.shape != none.shape:
        raise ValueError(f"near must have shape {none.shape}, one value per row, got {near.shape}")
    if best.p_norm == 0 or best.p is None:
        return Tight(none, ~none if math.isnan(best.p_norm) else none)
    if c.equal.any() or not (c.h > 0).all():
        return Tight(c.equal, ~none)
    is_near, near = near is not None, ~none if near is None else near
    tight, slack = none.copy(), np.asarray(best.slack) / c.h
    shares = np.asarray(best.multipliers) * c.h  # of N(p)^2, which is their sum
    shares = shares / shares.sum()
    for j in np.flatnonzero(near):
        if is_near or shares[j] > slack[j]:
            without = ball.solve(c.subset(np.delete(np.arange(c.count), j)))
            tight[j] = without.margin_interval[0] > best.margin_interval[1]
        if not (is_near or tight[j]):
            tied = ball.solve(replace(c, equal=np.arange(c.count) == j))
            near[j] = not tied.margin_interval[1] < best.margin_interval[0]
    return Tight(tight, near)
