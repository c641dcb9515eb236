"""Duplicates, zeros, huge and tiny scales: verdicts agree with rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.margin.batch import solve_batch
from hardmax.margin.certificates import certify
from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import decide
from hardmax.margin.solve import solve

pytestmark = pytest.mark.no_cover

small = st.integers(-3, 3).map(float)
entry = st.one_of(small, st.floats(1e-3, 2), st.floats(-2, -1e-3))
scale = st.sampled_from([1.0, 1.0, 1e-150, 1e150, 1e-8, 1e8, 2.0**-40])


@st.composite
def problems(draw: st.DrawFn, scales: bool = True, ties: bool = True) -> Constraints:
    d, m = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    rows = [draw(st.lists(entry, min_size=d, max_size=d)) for _ in range(m)]
    rows = [rows[draw(st.integers(0, i))] if draw(st.booleans()) else row for i, row in enumerate(rows)]
    factor = (
        [draw(scale) for _ in rows]
        if scales and draw(st.booleans())
        else [draw(scale) if scales else 1.0] * m
    )
    M = np.array(rows) * np.array(factor)[:, None]
    h = np.array([draw(st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.5])) for _ in rows])
    E = (
        [draw(st.lists(small, min_size=d, max_size=d)) for _ in range(draw(st.integers(0, 2)))]
        if ties
        else []
    )
    return Constraints.dense(M, h, E=np.array(E).reshape(-1, d))


@settings(max_examples=200, deadline=None)
@given(problems())
def test_verdicts(constraints: Constraints) -> None:
    best, truth = solve(constraints), decide(constraints)
    assert best.status == ("certified" if truth.feasible else "infeasible")
    if truth.feasible and truth.norm_squared:
        lower, upper = (Fraction(x) for x in best.margin_interval)
        assert lower**2 * truth.norm_squared <= 1 <= upper**2 * truth.norm_squared
        assert upper - lower <= Fraction(2, 10**9) * upper
        p = [Fraction(x) for x in best.p.tolist()]
        error = sum((a - b) ** 2 for a, b in zip(p, truth.p, strict=True))
        assert error <= Fraction(1, 10**12) * truth.norm_squared


@settings(max_examples=100, deadline=None)
@given(problems())
def test_certificates(constraints: Constraints) -> None:
    for exact in (False, True):
        verdict = certify(solve(constraints, exact).to_dict())
        assert verdict["valid"], verdict["violations"]


@settings(max_examples=30, deadline=None)
@given(st.lists(problems(), min_size=1, max_size=6))
def test_batch_agrees(many: list[Constraints]) -> None:
    for constraints, best in zip(many, solve_batch(many), strict=True):
        truth = decide(constraints)
        assert best.status == ("certified" if truth.feasible else "infeasible")
        assert certify(best.to_dict())["valid"]


@settings(max_examples=50, deadline=None)
@given(problems(scales=False, ties=False), st.integers(-140, 140))
def test_powers_of_two_change_no_digit(constraints: Constraints, power: int) -> None:
    """Scaling all rows by 2^k scales p by 2^-k."""
    best = solve(constraints)
    moved = solve(Constraints.dense(np.ldexp(constraints.table, power), constraints.h))
    assert moved.status == best.status
    if best.p is not None and best.p.any():
        assert np.ldexp(moved.p, power) == pytest.approx(best.p, rel=1e-9, abs=1e-9 * best.p_norm)
