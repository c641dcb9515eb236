"""Best-scoring tokens, neighbours, local and global optimality, and directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hardmax.data import fig9_oracle, named, sphere
from hardmax.margin.attention import global_max_margins, max_margin
from hardmax.margin.constraints import Constraints
from hardmax.margin.enumerate import feasible_selections
from hardmax.problem import Problem
from hardmax.selection import Selection, selected_tokens
from hardmax.selection.direction import directional_margin, in_cone
from hardmax.selection.neighbours import is_locally_optimal, neighbours, score_gap, selection_of
from hardmax.selection.optimal import is_globally_optimal, optimal_tokens


def test_ties_are_sets_also_up_to_rounding() -> None:
    problem = Problem.from_scores(
        [[[1.0], [2.0], [0.0]], [[1.0], [0.0]]], [[0.1 + 0.2, 0.3, 0.0], [0.0, 1e-9]]
    )
    assert optimal_tokens(problem).sets == ((0, 1), (1,))
    assert is_globally_optimal(problem, [1, 1])
    assert not is_globally_optimal(problem, [2, 1])
    with pytest.raises(ValueError, match="input 0 does not select one token"):
        max_margin(problem)
    with pytest.raises(ValueError, match="decide which one"):
        max_margin(problem, optimal_tokens(problem))
    assert [tokens for tokens, _ in global_max_margins(problem)] == [(0, 1), (1, 1)]


def test_a_selection_must_fit_the_problem() -> None:
    problem = named("B-FIG-8")
    for wrong in ([0], [0, 2], [0, -1], [0.0, 1.0], "ab"):
        with pytest.raises(ValueError, match="selection"):
            max_margin(problem, wrong)  # type: ignore[arg-type]
    assert max_margin(problem, Selection(((0,), (1,)))).p.tolist() == pytest.approx([1.0, 0.0])
    with pytest.raises(ValueError, match="selection"):
        max_margin(Constraints.dense([[1.0]]), [0])
    assert max_margin(Constraints.dense([[2.0]])).margin == 2.0


def test_degenerate_cases() -> None:
    twin = Problem.from_scores([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.5, 0.0]])
    best = max_margin(twin, [0])
    assert best.status == "infeasible"
    assert [best.constraints.label(int(j)) for j in np.flatnonzero(best.farkas)] == [(0, 1)]
    assert not is_locally_optimal(twin, best)
    alone = Problem.from_scores([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [0.0]])
    best = max_margin(alone, [0, 0])
    assert (best.status, best.norm, best.direction) == ("certified", 0.0, None)
    assert is_locally_optimal(alone, best)
    mixed = Problem.from_scores([[[1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], [[1.0], [0.0, 1.0]])
    assert max_margin(mixed, [0, 0]).p.tolist() == pytest.approx([0.0, 1.0])


def test_neighbours_of_the_oracles(oracles: dict[str, Any]) -> None:
    for data in oracles["b"]["att_svm"].values():
        if not isinstance(data, dict) or "K" not in data:
            continue
        problem = Problem.from_scores(data["K"], data["gamma"])
        for known in data["feasible_selections"]:
            best = max_margin(problem, known["alpha"])
            assert selection_of(problem, best) == tuple(known["alpha"])
            assert [list(pair) for pair in neighbours(problem, best).pairs] == known["neighbours"]
            assert is_locally_optimal(problem, best) is known["is_lmm"]


def test_a_slack_near_the_tolerance_is_flagged() -> None:
    problem = Problem.from_scores([[[1.0, 0.0], [0.0, 0.0], [-5e-6, 0.0]]], [[1.0, 0.0, 2.0]])
    best = max_margin(problem, [0])
    found = neighbours(problem, best)
    assert (found.sets, found.doubtful) == (((1,),), ((0, 2),))
    assert score_gap(problem, best) == 1.0
    assert score_gap(problem, best, tolerance=1e-5) == -1.0
    assert neighbours(problem, best, tolerance=1e-9).doubtful == ()


def test_neighbours_need_a_solution_of_this_problem() -> None:
    problem, other = named("B-FIG-8"), named("B-FIG-1b")
    with pytest.raises(ValueError, match="solution of this problem"):
        neighbours(problem, max_margin(other, [0]))
    with pytest.raises(ValueError, match="solution of this problem"):
        neighbours(problem, max_margin(Constraints.dense([[1.0, 0.0]])))
    infeasible = Problem.from_scores([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="infeasible"):
        score_gap(infeasible, max_margin(infeasible, [0, 0]))


def test_fig9_gaps_do_not_hang_on_the_tolerance() -> None:
    """B-DEF-12: every tau from 1e-10 to 1e-5 gives the same neighbours on random data."""
    for problem in fig9_oracle(d=5, trials=5):
        for found in feasible_selections(problem, limit=20):
            sets = {neighbours(problem, found.max_margin, tau).sets for tau in (1e-10, 1e-8, 1e-6, 1e-5)}
            assert len(sets) == 1


def test_directional_margin_oracle(oracles: dict[str, Any]) -> None:
    data = oracles["b"]["directional_margin"]
    problem = Problem.from_scores(data["K"], data["gamma"])
    found = directional_margin(problem, data["q"])
    assert list(found.selected.tokens) == data["selected"]
    assert found.Gamma == pytest.approx(data["Gamma_q"], abs=1e-15)
    assert [list(pair) for pair in found.neighbours] == data["neighbours"]
    assert found.neighbour_optimal is data["neighbour_optimal"]
    assert found.unique
    assert found.delta == pytest.approx(0.6, abs=1e-15)


def test_definitions_2_and_3_agree() -> None:
    """B-DEF-16: at p_mm the directional margin is the margin and the neighbours are the same."""
    problem = sphere(n=3, T=4, d=3, rng=5)
    for found in feasible_selections(problem):
        at = directional_margin(problem, found.direction)
        assert at.selected.tokens == found.selection
        assert at.Gamma == pytest.approx(found.max_margin.margin, rel=1e-12)
        assert at.neighbours == neighbours(problem, found.max_margin).pairs
        assert at.neighbour_optimal is found.locally_optimal


def test_a_direction_that_ties_or_has_no_rival() -> None:
    problem = Problem.from_scores([[[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]], [[1.0, 0.0, 0.0]])
    found = directional_margin(problem, [1.0, 0.0])
    assert (found.unique, found.Gamma, found.neighbours) == (False, 0.0, ((0, 0), (0, 1)))
    assert not found.neighbour_optimal
    alone = directional_margin(Problem.from_scores([[[1.0]]], [[1.0]]), [1.0])
    assert (alone.Gamma, alone.neighbours, alone.neighbour_optimal) == (np.inf, (), True)
    with pytest.raises(ValueError, match="q is zero"):
        directional_margin(problem, [0.0, 0.0])


def test_cones() -> None:
    mu = 1 - np.cos(0.1)
    inside, outside = [np.cos(0.0999), np.sin(0.0999)], [np.cos(0.1001), np.sin(0.1001)]
    assert in_cone(inside, [2.0, 0.0], mu)
    assert not in_cone(outside, [2.0, 0.0], mu)
    assert not in_cone(inside, [2.0, 0.0], mu, R=1.1)
    assert in_cone([3.0, 0.0], max_margin(named("B-FIG-8"), [0, 1]), 1e-12, R=3.0)


def test_selected_tokens_keep_ties() -> None:
    problem = named("B-FIG-8")
    assert selected_tokens(problem, [0.0, 1.0]).sets == ((0, 1), (0,))
    assert not selected_tokens(problem, [0.0, 1.0]).is_unique
