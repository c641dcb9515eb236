"""Many max-margin problems in one call, in l1 and linf: the compiled simplex method against fractions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.margin.batch import solve_batch
from hardmax.margin.norms import norm
from hardmax.margin.norms.corners import at_corners

halves = st.integers(-4, 4).map(lambda x: x / 2)
tables = st.tuples(st.integers(1, 4), st.integers(1, 7)).flatmap(
    lambda shape: st.lists(
        st.lists(halves, min_size=shape[0], max_size=shape[0]), min_size=shape[1], max_size=shape[1]
    )
)


@pytest.mark.parametrize("name", ["l1", "linf"])
def test_batch_equals_single_calls(name: str) -> None:
    """Margins to 1e-12, p, support, uniqueness and faces; ties and contradictions go to fractions."""
    rng = np.random.default_rng(0)
    problems = [hm.data.sphere(n=4, T=6, d=10, rng=i) for i in range(12)]
    keys = rng.integers(-3, 4, size=(30, 2, 3, 3)) / 2
    problems += [hm.Problem(each, [[2.0, 1.0, 0.0]] * 2) for each in keys]
    tokens = [tuple(int(t) for t in rng.integers(0, 3, size=problem.n)) for problem in problems]
    many = hm.max_margin(problems, tokens, norm=name)
    ones = [
        hm.max_margin(problem, chosen, norm=name) for problem, chosen in zip(problems, tokens, strict=True)
    ]
    statuses = [best.status for best in many]
    assert statuses == [best.status for best in ones]
    assert {"certified", "infeasible"} == set(statuses)
    assert {"float", "exact"} == {best.arithmetic for best in many if best.is_certified}
    for best, one in zip(many, ones, strict=True):
        assert (best.selection, best.norm) == (one.selection, name)
        assert hm.certify(best.to_dict()).valid
        if not one.is_certified:
            continue
        assert best.margin == pytest.approx(one.margin, rel=1e-12)
        assert best.p == pytest.approx(one.p, abs=1e-12 * one.p_norm)
        assert (best.unique, best.support) == (one.unique, one.support)
        assert (best.face.dim, best.face.box.tolist()) == (one.face.dim, one.face.box.tolist())


def test_batch_does_not_depend_on_workers_or_company() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((150, 9, 4)) + np.array([1.5, 0, 0, 0])
    alone, together = solve_batch(rows, workers=1, norm="linf"), solve_batch(rows, workers=3, norm="linf")
    part = solve_batch(rows[70:80], norm="linf")
    for one, other in zip(alone, together, strict=True):
        assert one.margin_interval == other.margin_interval
    assert [best.margin_interval for best in part] == [best.margin_interval for best in alone[70:80]]


def test_batch_in_other_norms() -> None:
    """l_r, and matrices, one by one: the same as single calls."""
    rng = np.random.default_rng(2)
    rows = [hm.Constraints.dense(rng.standard_normal((4, 3)) + np.array([2.0, 0, 0])) for _ in range(3)]
    for name in ("l1.5", 3):
        many = hm.max_margin(rows, norm=name)
        assert [best.margin for best in many] == [hm.max_margin(each, norm=name).margin for each in rows]
    problems = [hm.data.example(name) for name in ("w22", "w33", "w44")]
    chosen = [hm.best_tokens(problem).tokens for problem in problems]
    for name in ("nuclear", "spectral", "linf"):
        for best, problem, tokens in zip(
            hm.max_margin(problems, chosen, norm=name), problems, chosen, strict=True
        ):
            one = hm.max_margin(problem, tokens, norm=name)
            assert best.is_certified
            assert (best.norm, best.selection) == (name, tokens)
            assert best.margin == pytest.approx(one.margin, rel=1e-12)
            np.testing.assert_allclose(best.W, one.W, atol=1e-9 * one.p_norm)
    gram = hm.Problem.from_gram(np.eye(3), [[0, 1], [0, 2]], [[1, 0], [1, 0]])
    with pytest.raises(ValueError, match='norm must be "l2" for tokens known by a Gram matrix'):
        hm.max_margin([gram], [[0, 0]], norm="l1")
    with pytest.raises(ValueError, match="norm must be one of vectors"):
        hm.max_margin(rows, norm="nuclear")


@settings(max_examples=60, deadline=None)
@given(tables, st.sampled_from(["l1", "linf"]), st.integers(0, 3))
def test_a_strict_corner_is_the_only_optimum(rows: list[list[float]], name: str, spread: int) -> None:
    """What floats call proved, fractions confirm; and the margin is right where nothing is proved, too."""
    A, h = np.array(rows), 2.0 ** (np.arange(len(rows)) % (spread + 1))
    found = at_corners(A[None], h[None], np.zeros((1, len(h)), dtype=bool), norm(name))
    best = hm.max_margin(hm.Constraints.dense(A, h), norm=name)
    if not best.is_feasible:
        assert not found.strict[0]
        return
    if found.found[0]:
        assert norm(name).value(found.p[0]) == pytest.approx(best.p_norm, rel=1e-12)
    if found.strict[0]:
        assert best.unique
        assert np.array_equal(found.weights[0] > 0, best.face.essential)
        assert found.p[0] == pytest.approx(best.p, abs=1e-12 * best.p_norm)


def test_wild_rows_are_left_to_the_others() -> None:
    """Equalities, bounds of zero and numbers far from 1 are not for the compiled method."""
    tame = np.array([[1.0, 2.0], [3.0, 1.0]])
    ones, none = np.ones((1, 2)), np.zeros((1, 2), dtype=bool)
    assert at_corners(tame[None], ones, none, norm("l1")).strict[0]
    for A, h, equal in (
        (tame * 1e9, ones, none),
        (tame, ones * 1e-9, none),
        (tame, ones * [1, 0], none),
        (tame, ones, ~none),
    ):
        assert not at_corners(A[None], h, equal, norm("l1")).found[0]
    for factor in (1e-150, 1e9):
        many = hm.max_margin([hm.Constraints.dense(tame * factor)] * 2, norm="linf")
        assert [best.margin for best in many] == pytest.approx([3.0 * factor] * 2, rel=1e-12)
