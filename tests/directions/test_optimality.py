"""Best-scoring tokens, neighbors, local and global optimality, and directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hardmax.data import example, fig9_oracle, sphere
from hardmax.directions.direction import directional_margin, in_cone
from hardmax.directions.enumerate import selections
from hardmax.directions.neighbors import attracts, neighbors, score_gap, selection_of
from hardmax.limits.late import path_offset
from hardmax.margin.att_svm import best_max_margins, max_margin
from hardmax.margin.constraints import Constraints
from hardmax.problem import Problem
from hardmax.problem.selection import Selection, best_tokens, is_best, selected_tokens


def test_ties_are_sets_and_exact() -> None:
    """Scores are compared as floats: 0.1 + 0.2 is not 0.3, and a gap of 1e-300 is a gap."""
    apart = Problem([[[1.0], [2.0], [0.0]]], [[0.1 + 0.2, 0.3, 0.0]])
    assert best_tokens(apart).sets == ((0,),)
    tiny = Problem([[[1.0], [0.0]], [[1.0], [0.0]]], [[1e-300, 0.0], [1.0 + 2**-52, 1.0]])
    assert best_tokens(tiny).sets == ((0,), (0,))
    assert attracts(tiny, [0, 0]).verdict is True
    problem = Problem([[[1.0], [2.0], [0.0]], [[1.0], [0.0]]], [[0.3, 0.3, 0.0], [0.0, 1e-9]])
    assert best_tokens(problem).sets == ((0, 1), (1,))
    assert is_best(problem, [1, 1])
    assert not is_best(problem, [2, 1])
    assert is_best(problem, max_margin(problem, [1, 1]))
    with pytest.raises(ValueError, match="names none"):
        is_best(problem, max_margin(Constraints.dense([[1.0]])))
    with pytest.raises(ValueError, match="input 0 has tied tokens"):
        max_margin(problem)
    with pytest.raises(ValueError, match="picks one"):
        max_margin(problem, best_tokens(problem))
    assert [tokens for tokens, _ in best_max_margins(problem)] == [(0, 1), (1, 1)]


def test_a_selection_must_fit_the_problem() -> None:
    problem = example("B-FIG-8")
    for wrong in ([0], [0, 2], [0, -1], [0.0, 1.0], "ab"):
        with pytest.raises(ValueError, match="selection"):
            max_margin(problem, wrong)  # type: ignore[arg-type]
    assert max_margin(problem, Selection(((0,), (1,)))).p.tolist() == pytest.approx([1.0, 0.0])
    with pytest.raises(ValueError, match="selection"):
        max_margin(Constraints.dense([[1.0]]), [0])
    assert max_margin(Constraints.dense([[2.0]])).margin == 2.0


def test_degenerate_cases() -> None:
    twin = Problem([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.5, 0.0]])
    best = max_margin(twin, [0])
    assert best.status == "infeasible"
    assert [best.constraints.label(int(j)) for j in np.flatnonzero(best.farkas)] == [(0, 1)]
    assert not attracts(twin, best).verdict
    alone = Problem([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [0.0]])
    best = max_margin(alone, [0, 0])
    assert (best.status, best.p_norm, best.direction) == ("certified", 0.0, None)
    assert attracts(alone, best).verdict
    mixed = Problem([[[1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], [[1.0], [0.0, 1.0]])
    assert max_margin(mixed, [0, 0]).p.tolist() == pytest.approx([0.0, 1.0])


def test_neighbours_of_the_oracles(oracles: dict[str, Any]) -> None:
    for data in oracles["b"]["att_svm"].values():
        if not isinstance(data, dict) or "K" not in data:
            continue
        problem = Problem(data["K"], data["gamma"])
        for known in data["feasible_selections"]:
            best = max_margin(problem, known["alpha"])
            assert selection_of(problem, best) == tuple(known["alpha"])
            assert [list(pair) for pair in neighbors(problem, best).pairs] == known["neighbours"]
            assert attracts(problem, best).verdict is known["is_lmm"]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("away", [5e-7, 5e-6, 1e-12, 2.0**-52])
def test_a_small_slack_is_no_tight_row(exact: bool, away: float) -> None:
    """Issue: with keys (1,0), (0,0), (-5e-7,0), scores 1, 0, 2 the first token is locally optimal."""
    problem = Problem([[[1.0, 0.0], [0.0, 0.0], [-away, 0.0]]], [[1.0, 0.0, 2.0]])
    best = max_margin(problem, [0], exact=exact)
    found = neighbors(problem, best)
    assert (found.sets, found.doubtful) == (((1,),), ())
    assert best.support == ((0, 1),)
    assert score_gap(problem, best) == 1.0
    assert attracts(problem, best).verdict is attracts(problem, [0]).verdict is True
    assert {f.selection: f.attracts.verdict for f in selections(problem)}[(0,)] is True


@pytest.mark.parametrize("exact", [False, True])
def test_a_row_tight_with_multiplier_zero_is_found(exact: bool) -> None:
    """Rows (3,0), (3,-7), (3,5) are all tight at p = (1/3, 0); the first alone makes p."""
    keys = [[[0.0, 0.0], [-3.0, 0.0], [-3.0, 7.0], [-3.0, -5.0]]]
    problem = Problem(keys, [[1.0, 0.0, 2.0, 0.0]])
    best = max_margin(problem, [0], exact=exact)
    assert neighbors(problem, best).sets == ((1, 2, 3),)
    assert attracts(problem, best).verdict is False
    loose = Problem([[*keys[0][:2], [-3.0 - 2**-50, 7.0], keys[0][3]]], [[1.0, 0.0, 2.0, 0.0]])
    best = max_margin(loose, [0], exact=exact)
    assert neighbors(loose, best).sets == ((1, 3),)
    assert attracts(loose, best).verdict is True


def test_doubt_beyond_exact_arithmetic_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three-valued: only rows that may be tight count against True, only rows that are count for False."""
    monkeypatch.setattr("hardmax.margin.solve.EXACT_ROWS", 0)
    keys = [[[0.0, 0.0], [-3.0, 0.0], [-3.0, 7.0]]]
    for scores, verdict in (([1.0, 0.0, 2.0], None), ([1.0, 0.0, 0.5], True), ([1.0, 2.0, 2.0], None)):
        problem = Problem(keys, [scores])
        best = max_margin(problem, [0])
        assert best.is_certified
        assert attracts(problem, best).verdict is verdict
        assert np.isnan(score_gap(problem, best)) == (verdict is None)
        assert neighbors(problem, best).doubtful == best.doubtful == ((0, 1), (0, 2))
        assert next(f for f in selections(problem) if f.selection == (0,)).attracts.verdict is verdict
    with pytest.raises(ValueError, match="in doubt"):
        path_offset(problem, best)
    clear = Problem([[[0.0, 0.0], [-3.0, 1.0], [-3.0, -7.0]]], [[1.0, 0.0, 2.0]])
    assert attracts(clear, [0]).verdict is False


def test_enclosures_agree_with_rational_arithmetic() -> None:
    """What floats call tight or slack is; generic data leave nothing open."""
    rng = np.random.default_rng(3)
    doubts = 0
    for k in range(150):
        n, T, d = rng.integers(1, 4), rng.integers(2, 5), rng.integers(1, 5)
        grid = k % 2 == 0
        keys = rng.integers(-2, 3, size=(n, T, d)) / 3.0 if grid else rng.normal(size=(n, T, d))
        keys = keys * 10.0 ** rng.integers(-9, 10)
        problem = Problem(keys, rng.normal(size=(n, T)))
        for found in selections(problem, limit=6):
            truth = max_margin(problem, found.selection, exact=True)
            if not truth.p_norm:
                continue
            tight = np.array(truth.exact.tight)
            for solution in (found.max_margin, max_margin(problem, found.selection)):
                assert not (solution.enclosure.certain & ~tight).any()
                assert not (tight & ~solution.enclosure.possible).any()
                assert (solution.tight == tight).all()
                doubts += not grid and solution.enclosure.doubtful.any()
    assert doubts == 0


def test_a_selection_is_read_and_never_guessed() -> None:
    problem = example("B-FIG-8")
    best = max_margin(problem, [0, 1])
    same = max_margin(Constraints.dense(best.constraints.rows(), labels=best.constraints.labels))
    with pytest.raises(ValueError, match="does not say what it selects: give the tokens instead"):
        selection_of(problem, same)
    told = replace(same, selection=(0, 1))
    assert selection_of(problem, told) == selection_of(problem, best) == best.selection == (0, 1)
    for chosen in (best, told, [0, 1], Selection(((0,), (1,)))):
        assert attracts(problem, chosen).verdict is True
        assert score_gap(problem, chosen) == 1.0
        assert neighbors(problem, chosen).pairs == ((0, 1),)
    with pytest.raises(ValueError, match="other rows"):
        attracts(problem, replace(best, selection=(0, 0)))
    other = max_margin(Constraints.dense(2 * best.constraints.rows(), labels=best.constraints.labels))
    with pytest.raises(ValueError, match="other rows"):
        score_gap(problem, replace(other, selection=(0, 1)))


def test_what_is_no_selection_is_refused_in_a_sentence() -> None:
    problem = example("B-FIG-8")
    for function in (attracts, is_best, score_gap, neighbors):
        for wrong in (3, [0], [0, 2], "ab", [0.5, 0.0], object()):
            with pytest.raises(ValueError, match=r"selection|chosen"):
                function(problem, wrong)
    for function in (attracts, score_gap, neighbors):  # no silent choice of the best tokens
        with pytest.raises(ValueError, match="got None"):
            function(problem, None)


def test_a_gram_matrix_decides_what_its_rounded_keys_leave_open() -> None:
    """A row is tight with multiplier zero: coordinates round it away, the Gram matrix does not."""
    X = np.array([[0.0, 0.0, 1.0], [-3.0, 0.0, 1.0], [-3.0, 7.0, 1.0], [-3.0, -5.0, 1.0]])
    for gamma, verdict in (([1.0, 0.0, 2.0, 0.0], False), ([1.0, 0.0, 0.5, 0.0], True)):
        problem = Problem.from_gram(X @ X.T, [[0, 1, 2, 3]], [gamma])
        for exact in (False, True):
            best = max_margin(problem, [0], exact=exact)
            assert attracts(problem, best).verdict is verdict
            assert best.support == ((0, 1), (0, 2), (0, 3))
        assert next(f for f in selections(problem) if f.selection == (0,)).attracts.verdict is verdict


def test_neighbours_need_a_solution_of_this_problem() -> None:
    problem, other = example("B-FIG-8"), example("B-FIG-1b")
    with pytest.raises(ValueError, match="solution of this problem"):
        neighbors(problem, max_margin(other, [0]))
    with pytest.raises(ValueError, match="solution of this problem"):
        neighbors(problem, max_margin(Constraints.dense([[1.0, 0.0]])))
    infeasible = Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="infeasible"):
        score_gap(infeasible, max_margin(infeasible, [0, 0]))


def test_fig9_gaps_do_not_hang_on_rounding() -> None:
    """B-DEF-12: on random data floats decide which rows are tight, far from any doubt."""
    for problem in fig9_oracle(d=5, trials=5):
        for found in selections(problem, limit=20):
            assert not found.max_margin.enclosure.doubtful.any()
            assert found.max_margin.slack[~found.max_margin.tight].min() > 1e-5


def test_directional_margin_oracle(oracles: dict[str, Any]) -> None:
    data = oracles["b"]["directional_margin"]
    problem = Problem(data["K"], data["gamma"])
    found = directional_margin(problem, data["q"])
    assert list(found.selected.tokens) == data["selected"]
    assert found.Gamma == pytest.approx(data["Gamma_q"], abs=1e-15)
    assert [list(pair) for pair in found.neighbors] == data["neighbours"]
    assert found.neighbor_optimal is data["neighbour_optimal"]
    assert found.unique
    assert found.delta == pytest.approx(0.6, abs=1e-15)


def test_definitions_2_and_3_agree() -> None:
    """B-DEF-16: at p_mm the directional margin is the margin and the neighbors are the same."""
    problem = sphere(n=3, T=4, d=3, rng=5)
    for found in selections(problem):
        at = directional_margin(problem, found.direction)
        assert at.selected.tokens == found.selection
        assert at.Gamma == pytest.approx(found.max_margin.margin, rel=1e-12)
        assert at.neighbors == neighbors(problem, found.max_margin).pairs
        assert at.neighbor_optimal is found.attracts.verdict


def test_a_direction_that_ties_or_has_no_rival() -> None:
    problem = Problem([[[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]], [[1.0, 0.0, 0.0]])
    found = directional_margin(problem, [1.0, 0.0])
    assert (found.unique, found.Gamma, found.neighbors) == (False, 0.0, ((0, 0), (0, 1)))
    assert not found.neighbor_optimal
    alone = directional_margin(Problem([[[1.0]]], [[1.0]]), [1.0])
    assert (alone.Gamma, alone.neighbors, alone.neighbor_optimal) == (np.inf, (), True)
    with pytest.raises(ValueError, match="q is zero"):
        directional_margin(problem, [0.0, 0.0])


def test_cones() -> None:
    mu = 1 - np.cos(0.1)
    inside, outside = [np.cos(0.0999), np.sin(0.0999)], [np.cos(0.1001), np.sin(0.1001)]
    assert in_cone(inside, [2.0, 0.0], mu)
    assert not in_cone(outside, [2.0, 0.0], mu)
    assert not in_cone(inside, [2.0, 0.0], mu, R=1.1)
    assert in_cone([3.0, 0.0], max_margin(example("B-FIG-8"), [0, 1]), 1e-12, R=3.0)


def test_selected_tokens_keep_ties() -> None:
    problem = example("B-FIG-8")
    assert selected_tokens(problem, [0.0, 1.0]).sets == ((0, 1), (0,))
    assert not selected_tokens(problem, [0.0, 1.0]).is_unique
