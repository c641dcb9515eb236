"""Equalities with a right side that is not zero: every engine, the exact solver and the checker."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hardmax.margin.att_svm import max_margin
from hardmax.margin.certificates import certify
from hardmax.margin.constraints import Constraints
from hardmax.margin.engines import by_daqp, by_kernel, by_nnls, polish
from hardmax.margin.exact import decide, refute
from hardmax.margin.solve import solve


def equalities(M: object, h: object, equal: object) -> Constraints:
    rows = np.asarray(M, dtype=float)
    return Constraints.pairs(rows, np.arange(len(rows)), np.full(len(rows), -1), h, equal)


def test_a_right_side_is_kept() -> None:
    """Issue: h was silently set to zero on equality rows."""
    c = equalities([[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0], [False, True])
    assert c.h.tolist() == [2.0, 3.0]
    for exact in (False, True):
        best = max_margin(c, exact=exact)
        assert best.p.tolist() == pytest.approx([2.0, 3.0])
        assert best.margin_interval[0] <= 1 / np.sqrt(13) <= best.margin_interval[1]
        assert best.tight.tolist() == [True, True]
        assert certify(best.to_dict())["valid"]


def test_without_bounds_inequalities_ask_for_one_and_equalities_for_zero() -> None:
    assert equalities(np.eye(2), None, [False, True]).h.tolist() == [1.0, 0.0]
    assert equalities(np.eye(2), 2.0, [False, True]).h.tolist() == [2.0, 2.0]
    assert equalities([[1.0]], [-2.0], [True]).h.tolist() == [-2.0]
    with pytest.raises(ValueError, match="h must have bounds >= 0 on inequalities, got -1"):
        equalities(np.eye(2), [-1.0, -1.0], [False, True])


def test_a_negative_right_side() -> None:
    best = solve(equalities([[2.0, 0.0], [1.0, 1.0]], [-4.0, 1.0], [True, False]))
    assert best.p.tolist() == pytest.approx([-2.0, 3.0])
    assert best.multipliers.tolist() == pytest.approx([-2.5, 3.0])
    assert solve(equalities([[1.0]], [-3.0], [True])).p.tolist() == pytest.approx([-3.0])


def test_contradictory_equalities() -> None:
    for M, h in (([[1.0], [2.0]], [1.0, 3.0]), ([[0.0], [1.0]], [-1.0, 0.0]), ([[1.0], [1.0]], [1.0, -1.0])):
        c = equalities(M, h, [True, True])
        best = solve(c)
        assert best.status == "infeasible"
        assert certify(best.to_dict())["valid"]
    signs = refute(equalities([[1.0], [2.0]], [1.0, 1.0], [True, True]), [0, 1])
    assert signs is not None
    assert sum(w * b for w, b in zip(signs.multipliers, (1, 1), strict=True)) > 0


@pytest.mark.parametrize("engine", [by_daqp, by_kernel, by_nnls])
def test_every_engine_meets_them(engine: object) -> None:
    A, h, equal = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]), np.array([1.0, -4.0]), np.array([False, True])
    guess = engine(A, h, equal)  # type: ignore[operator]
    assert guess is not None
    p, _ = polish(A, h, equal, guess.multipliers)
    assert p.tolist() == pytest.approx([0.5, -2.0, 0.5])


def random_constraints(rng: np.random.Generator, grid: bool) -> Constraints:
    d, m = rng.integers(1, 5), rng.integers(1, 7)
    M = rng.integers(-2, 3, size=(m, d)).astype(float) if grid else rng.normal(size=(m, d))
    equal = rng.random(m) < 0.4
    h = np.where(equal, rng.integers(-2, 3, size=m), rng.integers(0, 2, size=m)).astype(float)
    return equalities(M, h, equal)


def test_verdicts_intervals_and_certificates_are_right() -> None:
    rng = np.random.default_rng(0)
    many = [random_constraints(rng, grid=bool(k % 2)) for k in range(200)]
    for c, batched in zip(many, max_margin(many), strict=True):
        truth = decide(c)
        for best in (solve(c), solve(c, exact=True), batched):
            assert best.status == ("certified" if truth.feasible else "infeasible")
            assert certify(best.to_dict())["valid"]
            if truth.feasible and truth.norm_squared:
                lower, upper = map(Fraction, best.margin_interval)
                assert lower**2 * truth.norm_squared <= 1 <= upper**2 * truth.norm_squared
                assert best.tight.tolist() == list(truth.tight)


def test_gram_form_and_many_rows_agree() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(-3, 4, size=(6, 8)).astype(float)
    plus, minus, h, equal = [0, 1, 2, 3], [4, 5, -1, 4], [1.0, -2.0, 0.5, 1.0], [False, True, True, False]
    known = solve(Constraints.from_gram(X @ X.T, plus, minus, h, equal))
    dense = solve(Constraints.pairs(X, plus, minus, h, equal))
    assert known.p_norm == pytest.approx(dense.p_norm, rel=1e-12)
    assert known.tight.tolist() == dense.tight.tolist()
    assert certify(known.to_dict())["valid"]
    M, p = rng.normal(size=(500, 30)), rng.normal(size=30)
    M *= np.sign(M @ p)[:, None]
    flags = np.arange(500) < 3
    large = solve(equalities(M, np.where(flags, 1.0, 0.5) * (M @ p), flags))
    assert large.is_certified
    assert large.slack[:3] == pytest.approx(0, abs=1e-9)
    assert large.slack.min() > -1e-9


def test_a_batch_takes_constraints() -> None:
    c = Constraints.dense([[2.0]])
    assert [best.margin for best in max_margin([c, Constraints.dense([[0.0, 4.0]])])] == [2.0, 4.0]
    both, other = "Constraints without selections|problem must be", "problem must be"
    for problems, selections, words in (([c], [[0]], both), ([c, 3], None, both), ([3], [[0]], other)):
        with pytest.raises(ValueError, match=words):
            max_margin(problems, selections)  # type: ignore[arg-type]
