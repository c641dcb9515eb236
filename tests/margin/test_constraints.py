"""Constraints say what is wrong with their input; degenerate problems have their named answers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax._lib.arrays import cosine_distance
from hardmax.margin.closed_forms import blocks, important_only, kq_star, ov_star, pattern
from hardmax.margin.constraints import Constraints
from hardmax.margin.label_svm import label_svm, rho_svm
from hardmax.margin.solve import solve

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Constraints.dense([1.0]), "M must be an array with 2 axes"),
        (lambda: Constraints.dense([[np.nan]]), "M must be finite numbers, got nan"),
        (lambda: Constraints.dense(EYE, h=[1.0]), "h must have one bound per row of M"),
        (lambda: Constraints.dense(EYE, h=-1.0), "h must have bounds >= 0 on inequalities, got -1.0"),
        (lambda: Constraints.dense(EYE, E=[[1.0]]), "E must have 2 columns"),
        (lambda: Constraints.dense(EYE, labels=[(0,)]), "labels must be one per row"),
        (lambda: Constraints.pairs(EYE, [2], [0]), "plus must be indices in 0..1"),
        (lambda: Constraints.pairs(EYE, [0], [-2]), "minus must be indices in -1..1"),
        (lambda: Constraints.pairs(EYE, [0.5], [0]), "plus must be a list of integers"),
        (lambda: Constraints.pairs(EYE, [0], [0, 1]), "minus must have as many rows"),
        (lambda: Constraints.pairs(EYE, [0], [1], equal=[1]), "equal must have one bool per row"),
        (lambda: Constraints.pairs(EYE, [0], [1], h=[1.0, 2.0]), "h must have one bound per row"),
        (
            lambda: Constraints.pairs(EYE, [0], [1], right=EYE),
            "right, right_of must be both given or neither",
        ),
        (
            lambda: Constraints.pairs(EYE, [0], [1], right=EYE, right_of=[0, 1]),
            "right_of must have one index",
        ),
        (lambda: Constraints.from_gram([[1.0, 2.0], [0.0, 1.0]], [0], [1]), "gram must be a symmetric"),
        (lambda: Constraints.from_gram(EYE, [0], [1]).rows(), "rows must come from a table"),
        (lambda: Constraints.pairs([[1.7e308], [-1.7e308]], [0], [1]).rows(), "table must have differences"),
        (lambda: label_svm(EYE, [1, 0]), "labels must be 2 values"),
        (lambda: label_svm([1.0], [1]), "features must have one row per input"),
        (lambda: rho_svm([EYE], [0.0], {1}, 1.0, 1.0), "support must be inputs in 0..0"),
        (lambda: rho_svm([], [], (), 1.0, 1.0), "rows_by_input must be"),
        (lambda: rho_svm([EYE, EYE], [0.0, 0.0], {0}, 1.0, 1.0), "nu must have positive values"),
        (lambda: rho_svm([EYE, EYE], [0.0], {0}, 1.0, 1.0), "nu must have one value per input"),
        (lambda: rho_svm([EYE], [0.0], {0}, 1.0, -1.0), "rho, Gamma must be at least 0"),
        (lambda: rho_svm([EYE, -EYE], [0.0, 0.0], {0, 1}, 1.0, 0.0), "rows_by_input must have a feasible"),
        (lambda: pattern([[0, 1]], [], EYE), "selection must have one set"),
        (lambda: pattern([[0, 1]], [[2]], EYE), "selection must be a non-empty part of sequence 0"),
        (lambda: pattern([[0, 1]], [[0]]), "embeddings, gram must be one of them"),
        (lambda: important_only([[0, 1], [1, 0]], [0, 1]), "important must be tokens that are irrelevant"),
        (lambda: important_only([[0, 1]], []), "important must have one token"),
        (lambda: blocks([(0, 1), (1, 2)]), "edges must have no token both"),
        (lambda: ov_star([2, 0]), "collocation must be tokens in 0..1"),
        (lambda: kq_star({0: [(0, 5)]}, 2), "edges_by_query must have tokens in 0..1"),
    ],
)
def test_messages(call, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(".", r"\.")):
        call()


def test_rows_and_gram_agree() -> None:
    rng = np.random.default_rng(0)
    table, right = rng.normal(size=(5, 3)), rng.normal(size=(2, 4))
    plus, minus, which = [0, 1, 4], [1, -1, 2], [0, 1, 1]
    c = Constraints.pairs(table, plus, minus, right=right, right_of=which)
    assert c.shape == (3, 4)
    assert c.rows().shape == (3, 12)
    assert c.rows()[0] == pytest.approx(np.outer(table[0] - table[1], right[0]).ravel())
    assert c.gram() == pytest.approx(c.rows() @ c.rows().T)
    inner = Constraints.from_gram(table @ table.T, plus, minus)
    flat = Constraints.pairs(table, plus, minus)
    assert inner.gram() == pytest.approx(flat.gram())
    assert solve(inner).p_norm == pytest.approx(solve(flat).p_norm, rel=1e-12)


@pytest.mark.parametrize("h", [0.0, 1.0])
def test_no_rows_or_nothing_asked(h: float) -> None:
    best = solve(Constraints.dense(np.zeros((0, 3)), h) if h else Constraints.dense(np.ones((2, 3)), h))
    assert best.status == "certified"
    assert best.margin == math.inf
    assert best.direction is None
    assert best.p.tolist() == [0.0] * 3
    assert best.support == ()
    assert best.margin_interval == (math.inf, math.inf)


def test_zero_row_is_its_own_contradiction() -> None:
    c = Constraints.pairs([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [0, 0], [2, 1], labels=[(0, 2), (0, 1)])
    best = solve(c)
    assert best.status == "infeasible"
    assert best.farkas.tolist() == [0.0, 1.0]
    assert best.p_norm == math.inf
    assert best.margin == 0.0
    assert best.is_feasible is False
    assert solve(Constraints.from_gram(EYE, [0], [0])).status == "infeasible"


def test_gram_that_is_not_one() -> None:
    with pytest.raises(ValueError, match="gram must be a positive semidefinite matrix"):
        solve(Constraints.from_gram([[1.0, 2.0], [2.0, 1.0]], [0], [1]), exact=True)


def test_nearly_dependent_ties_are_decided_exactly() -> None:
    """p = 0 is forced by two ties that floats cannot tell apart, so the row cannot be met."""
    c = Constraints.dense([[0.0, 1.0]], E=[[1.0, 2.0**-60], [1.0, 0.0]])
    best = solve(c)
    assert best.status == "infeasible"
    assert best.arithmetic == "exact"
    assert solve(Constraints.dense([[0.0, 1.0]], E=[[1.0, 0.0], [2.0, 0.0]])).p == pytest.approx([0.0, 1.0])


def test_undecided_says_what_is_known() -> None:
    """A large problem with a margin near 1e-14: no verdict, but a true interval."""
    rng = np.random.default_rng(0)
    z = rng.integers(1, 9, size=(400, 1)).astype(float)
    rows = np.hstack([np.full((400, 1), 2.0**-46), z * np.where(np.arange(400) % 2, 1, -1)[:, None]])
    best = solve(Constraints.dense(rows))
    assert best.status == "undecided"
    assert best.margin_interval[0] <= 2.0**-46 <= best.margin_interval[1]
    assert best.direction is None  # nobody can take it for a limit
    with pytest.raises(ValueError, match="undecided: only a margin in"):
        best.need()
    with pytest.raises(ValueError, match="other has no direction: it is zero, infeasible or undecided"):
        cosine_distance(np.ones(2), best)


def test_solution_beyond_the_floats() -> None:
    """A row of 1e-315 asks for |p| = 1e315: decided exactly, infinite in floats."""
    best = solve(Constraints.dense([[1e-315, 0.0], [0.0, 1.0]]))
    assert best.status == "certified"
    assert best.exact is not None
    assert best.exact.p[0] * Fraction(1e-315) == 1
    assert best.p_norm == math.inf
    assert best.margin_interval[0] <= 1e-315 <= best.margin_interval[1]


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1.0, 1e150, 1e200])
def test_support_at_any_scale(scale: float) -> None:
    best = solve(Constraints.dense(scale * np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.5]])))
    assert best.support == ((0,), (1,))
    assert best.margin == pytest.approx(scale, rel=1e-12)
    assert np.allclose(best.direction, [1.0, 0.0], atol=1e-15)
