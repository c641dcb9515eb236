"""The verb `solve_in`: a max-margin problem in any norm, by the solver of that norm (D-DEF-3, D-ALG-1).

Whether any p meets the rows does not depend on the norm, so the l2 solver decides that, exactly. The solver
of a norm is imported where it is called: whoever asks for l2, as most do, waits for none of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.measure import Measured, Tight, rounding
from hardmax.margin.norms.corners import at_corners, by_highs, measured_in
from hardmax.margin.norms.definition import Norm, norm
from hardmax.margin.norms.matrices.cones import by_cone
from hardmax.margin.norms.matrices.interior import Rows, by_interior
from hardmax.margin.norms.polyhedral import solve_polyhedral, tight_lines
from hardmax.margin.norms.powers import newton
from hardmax.margin.rationals import to_float
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import (
    EXACT_ROWS,
    TOLERANCE,
    Scaled,
    correction,
    kept,
    proves,
    scale,
    solve,
    unscaled,
)

if TYPE_CHECKING:
    from hardmax.margin.norms.face import Face

CONE_TOLERANCE = 1e-8  # relative width of a certified interval in the nuclear and the spectral norm
EXACT_WIDTH = 40  # entries of p up to which l1 and linf are solved in fractions


def solve_in(constraints: Constraints, name: Norm | str | float, exact: bool = False) -> MaxMargin:
    """The p of least norm, certified, or a proof that there is none; in l2 it is `solve`.

    l1 and linf are solved in fractions up to 200 rows and 40 entries of p, and in floats beyond. The nuclear
    and the spectral norm of a matrix may need the extra cone.

    >>> solve_in(Constraints.dense([[1.0, 1.0]]), "linf").p.tolist()
    [0.5, 0.5]
    """
    ball = norm(name)
    if ball.power == 2:
        return solve(constraints, exact)
    check_norm(constraints, ball, exact)
    if ball.is_polyhedral and constraints.h.any():
        return _at_a_corner(constraints, ball, exact)
    plain = solve(constraints)
    if plain.is_feasible is False or plain.p_norm == 0:
        return replace(plain, norm=ball.name)
    scaled = scale(constraints)
    if plain.p is None or plain.multipliers is None or not plain.p.any():
        return _answer(constraints, scaled, ball, *_nothing(scaled))
    if ball.of_matrix:
        return _answer(constraints, scaled, ball, *_of_matrix(scaled, ball, constraints.shape))

    p, weights, _ = newton(scaled.A, scaled.h, scaled.equal, ball.power, *_start(plain, scaled))
    return _answer(constraints, scaled, ball, p, weights)


def _start(plain: MaxMargin, scaled: Scaled) -> tuple[Floats, Floats]:
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


def _of_matrix(scaled: Scaled, ball: Norm, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Nuclear and spectral: our own method for rows that are outer products, else the cone solver."""

    found = None
    if scaled.factors is not None:
        found = by_interior(Rows(*scaled.factors, scaled.h, scaled.equal), ball)
    if found is None or found.width > CONE_TOLERANCE / 2:
        again = by_cone(scaled.A, scaled.h, scaled.equal, ball, shape)
        found = min(
            (each for each in (found, again) if each is not None), key=lambda each: each.width, default=None
        )
    return _nothing(scaled) if found is None else found[:2]


def _at_a_corner(constraints: Constraints, ball: Norm, exact: bool) -> MaxMargin:
    """l1 and linf: a corner in floats, which proves that there is a p at all, then fractions if small."""

    scaled = scale(constraints)
    stack = scaled.A[None], scaled.h[None], scaled.equal[None]
    (p,), (weights,), _, (strict,) = at_corners(*stack, ball)
    if not _measured(scaled, ball, p, weights, constraints.shape).lower > 0:
        plain = solve(constraints)
        if plain.is_feasible is False:
            return replace(plain, norm=ball.name)
        p, weights = by_highs(scaled.A, scaled.h, scaled.equal, ball)
    if exact or is_small(constraints):
        return solve_polyhedral(constraints, ball, tight_lines(scaled, ball, p, weights))
    answer = _answer(constraints, scaled, ball, p, weights)
    return only_optimum(answer) if strict and answer.is_certified else answer


def solve_many_in(
    problems: list[Constraints], A: Floats, h: Floats, equal: Bools, ball: Norm, workers: int = 1
) -> list[MaxMargin]:
    """`solve_in` of problems of one shape, whose rows, bounds and equalities are stacked: (B, m, d), (B, m).

    In l1 and linf a corner that is proved to be the only optimum is the answer, in floats; its face can be
    asked for.

    >>> rows = np.array([[[2.0, 1.0]], [[0.0, 3.0]]])
    >>> some, one = [Constraints.dense(each) for each in rows], np.ones((2, 1))
    >>> [best.margin for best in solve_many_in(some, rows, one, one < 0, Norm(1.0))]
    [2.0, 3.0]
    """
    if not ball.is_polyhedral:
        return [solve_in(each, ball) for each in problems]

    for each in problems:
        check_norm(each, ball)
    p, weights, _, strict = at_corners(A, h, equal, ball, workers)
    Mp, u = (A @ p[..., None])[..., 0], (weights[:, None] @ A)[:, 0]
    lengths = ball.dual.of_rows(A) * (1 + ball.dual.rounding(A.shape[2]))
    measured = measured_in(
        ball,
        h,
        equal,
        weights,
        Mp,
        (u * p).sum(axis=1),
        ball.of_rows(p),
        ball.dual.of_rows(u),
        lengths,
        A.shape[2],
    )
    good = strict & proves(measured)
    kkt, lower, upper = (np.asarray(x).tolist() for x in measured)
    return [
        only_optimum(
            MaxMargin(
                c,
                "certified",
                "float",
                p[b].reshape(c.shape),
                weights[b],
                (lower[b], upper[b]),
                kkt[b],
                norm=ball.name,
            )
        )
        if good[b]
        else solve_in(c, ball)
        for b, c in enumerate(problems)
    ]


def only_optimum(best: MaxMargin) -> MaxMargin:
    """The same solution, which is proved to be the only one, and tight where it has multipliers.

    >>> only_optimum(solve_in(Constraints.dense([[2.0, 1.0]]), "l1")).unique
    True
    """
    tight = np.asarray(best.multipliers) > 0
    best.__dict__.update(unique=True, enclosure=Tight(tight, tight))  # where cached_property looks
    return best


def face_in(best: MaxMargin) -> Face | None:
    """All optimal p of a solution in l1 or linf, in fractions; None beyond the size of these.

    >>> face_in(solve_in(Constraints.dense([[1.0, 1.0]]), "l1")).dim
    1
    """
    if best.p is None or best.multipliers is None or not is_small(best.constraints):
        return None

    scaled, ball = scale(best.constraints), norm(best.norm)
    p, weights = np.ldexp(best.p.ravel(), scaled.b), np.ldexp(best.multipliers, scaled.a + scaled.b)
    return solve_polyhedral(best.constraints, ball, tight_lines(scaled, ball, p, weights)).face


def is_small(constraints: Constraints) -> bool:
    """Whether l1 and linf are solved in fractions.

    >>> is_small(Constraints.dense([[2.0, 1.0]]))
    True
    """
    return constraints.count <= EXACT_ROWS and math.prod(constraints.shape) <= EXACT_WIDTH


def proved_by(constraints: Constraints, name: Norm | str | float, p: Floats, weights: Floats) -> MaxMargin:
    """What a p and weights >= 0 of the rows prove together, wherever they come from, whatever their lengths.

    Rows must ask for a margin. The interval is right for any p and weights; a p that meets no margin proves
    the upper end alone.

    >>> rows = Constraints.dense([[1.0, 1.0], [1.0, -1.0]])
    >>> found = proved_by(rows, "l2", np.array([4.0, 1.0]), np.array([2.0, 3.0]))
    >>> found.status, [round(x, 6) for x in found.margin_interval]
    ('undecided', [0.727607, 1.019804])
    """
    ball, scaled = norm(name), scale(constraints)
    check_norm(constraints, ball)
    p, weights = p / np.abs(p).max(), np.ldexp(weights / weights.max(), scaled.a)
    reach = float((scaled.A @ p / scaled.h).min())
    p = p / reach if reach > 0 else p
    weights *= ball.value(p.reshape(constraints.shape)) ** 2 / float(weights @ scaled.h)
    return _answer(constraints, scaled, ball, p, weights)


def _nothing(scaled: Scaled) -> tuple[Floats, Floats]:
    return np.zeros(scaled.A.shape[1]), np.zeros(len(scaled.h))


def _answer(constraints: Constraints, scaled: Scaled, ball: Norm, p: Floats, weights: Floats) -> MaxMargin:
    """What p and the multipliers of the scaled problem prove."""
    measured = _measured(scaled, ball, p, weights, constraints.shape)
    answer = replace(unscaled(constraints, scaled, p, weights, measured, "certified"), norm=ball.name)
    if not kept(weights, np.asarray(answer.multipliers)):
        answer = replace(answer, multipliers=_within_floats(weights, scaled))
    whole = kept(p, np.asarray(answer.p).ravel()) and kept(weights, np.asarray(answer.multipliers))
    good = scaled.faithful and whole and proves(measured, CONE_TOLERANCE if ball.of_matrix else TOLERANCE)
    return answer if good else replace(answer, status="undecided")


def _within_floats(weights: Floats, scaled: Scaled) -> Floats:
    """The multipliers times the power of two that puts them around 1: they prove the same interval.

    As 1/row^2 grows with the unit of the rows, multipliers of N*(A'l) = N(p) may not be floats.
    """
    used = weights != 0
    if not used.any():
        return weights
    powers = np.frexp(weights)[1] - scaled.a - scaled.b
    middle = (int(powers[used].min()) + int(powers[used].max())) // 2
    return np.ldexp(weights, -scaled.a - scaled.b - middle)


def check_norm(constraints: Constraints, ball: Norm, exact: bool = False) -> None:
    """Refuse a norm that this problem does not have, or that is not computed.

    >>> check_norm(Constraints.dense([[1.0]]), Norm(1.0), exact=True)
    """
    if ball.power == 2:
        return
    if constraints.token_gram is not None or constraints.origin is not None:
        raise ValueError(
            f'norm must be "l2" for tokens known by a Gram matrix, which has no coordinates, got '
            f"{ball.name!r}; give the tokens themselves"
        )
    if ball.of_matrix and len(constraints.shape) != 2:
        raise ValueError(
            f"norm must be one of vectors for a p of shape {constraints.shape}, got {ball.name!r}; choose "
            '"l1", "l2", "linf" or a power such as "l1.5"'
        )
    if exact and not ball.is_polyhedral:
        raise ValueError(
            f"exact must be False with norm {ball.name!r}, whose solutions are not rational, got True; leave "
            'it out, or choose "l1", "l2" or "linf"'
        )


def _measured(problem: Scaled, ball: Norm, p: Floats, weights: Floats, shape: tuple[int, ...]) -> Measured:
    """`measure` with lengths of p in the norm and lengths of rows in its dual, or above these."""

    A, h, equal, d = problem.A, problem.h, problem.equal, len(p)
    u, Mp = A.T @ weights, A @ p
    size, other = ball.value(p.reshape(shape)), ball.dual.value(u.reshape(shape))
    if size == 0 or other == 0:
        return Measured(np.inf, 0.0, np.inf)
    if ball.of_matrix:  # between l2 and these norms there is at most the root of the rank
        root = math.sqrt(min(shape))
        lengths = problem.norms * root * (1 + rounding(d))
    else:
        root = d ** max(0.0, 1 / ball.power - 0.5)
        lengths = ball.dual.of_rows(A) * (1 + ball.dual.rounding(d))
    shift, shifted = correction(problem, Mp, lengths * size * (1 + ball.rounding(d)) * rounding(d))
    return measured_in(ball, h, equal, weights, Mp, u @ p, size, other, lengths, d, shift * root, shifted)
