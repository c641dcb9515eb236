"""A token that occurs several times in an input (equal key and equal score) is one token."""

from __future__ import annotations

import numpy as np
import pytest

from hardmax.data import example
from hardmax.directions.assumptions import assumption_b, assumption_d
from hardmax.directions.direction import directional_margin, local_constants
from hardmax.directions.enumerate import attractors, selections
from hardmax.directions.joint_margins import relaxed_max_margin
from hardmax.directions.neighbors import attracts, neighbors, score_gap
from hardmax.directions.position import general_position
from hardmax.dynamics.flow import flow
from hardmax.margin.att_svm import best_max_margins, max_margin, set_max_margin
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens, is_best

# Input 0 holds its best token at 1 and 3 and another one at 0 and 4; input 1 is one token, twice.
KEYS = [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], [[2.0, 2.0], [2.0, 2.0]]]
SCORES = [[0.0, 1.0, 0.5, 1.0, 0.0], [0.3, 0.3]]
COPIES = Problem(KEYS, SCORES)
PLAIN = Problem([KEYS[0][:3], KEYS[1][:1]], [SCORES[0][:3], SCORES[1][:1]])


def test_the_recipe_of_the_readme_works() -> None:
    path = flow(COPIES, until_norm=1e6)
    chosen = path.selection
    best = max_margin(COPIES, chosen)
    assert (chosen.tokens, best.selection, best.status) == ((1, 0), (1, 0), "certified")
    assert path.cosine_distance(best) < 1e-9
    assert [found.selection for found in attractors(COPIES)] == [(1, 0)]
    assert local_constants(COPIES, best).Theta == pytest.approx(best.margin)


def test_everything_is_as_without_the_copies() -> None:
    found = {f.selection: f for f in selections(COPIES)}
    plain = {f.selection: f for f in selections(PLAIN)}
    assert found.keys() == plain.keys() == {(0, 0), (1, 0), (2, 0)}
    for tokens, f in found.items():
        assert f.max_margin.p.tolist() == plain[tokens].max_margin.p.tolist()
        assert f.max_margin.support == plain[tokens].max_margin.support
        assert (f.score_gap, f.is_best) == (plain[tokens].score_gap, plain[tokens].is_best)
        assert neighbors(COPIES, f.max_margin) == neighbors(PLAIN, tokens)
    assert general_position(COPIES) == general_position(PLAIN)
    assert directional_margin(COPIES, [3.0, 1.0]) == directional_margin(PLAIN, [3.0, 1.0])
    assert assumption_b(COPIES) == assumption_b(PLAIN)
    assert assumption_d(COPIES).epsilon == assumption_d(PLAIN).epsilon


def test_the_lowest_index_names_the_group() -> None:
    assert max_margin(COPIES, [3, 1]).selection == (1, 0)
    assert max_margin([COPIES], [[3, 1]])[0].selection == (1, 0)
    assert best_tokens(COPIES).sets == ((1,), (0,))
    assert is_best(COPIES, [3, 1])
    assert attracts(COPIES, [3, 1]).verdict is True
    assert score_gap(COPIES, [3, 0]) == 0.5
    assert [tokens for tokens, _ in best_max_margins(COPIES)] == [(1, 0)]
    assert set_max_margin(COPIES, [[3, 1], [1]]).solutions[0].selection.sets == ((1,), (0,))


def test_equal_keys_with_different_scores_stay_twins() -> None:
    """B-ERR-15: no p selects one of them."""
    twins = Problem([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], [[1.0, 1.0, 0.5, 0.0]])
    assert {f.selection for f in selections(twins)} == {(3,)}
    best = max_margin(twins, [1])
    assert (best.status, best.selection) == ("infeasible", (0,))
    assert best.constraints.labels == ((0, 2), (0, 3))


def test_one_token_many_times_asks_for_nothing() -> None:
    problem = Problem([[[1.0]] * 3], [[2.0] * 3])
    (only,) = attractors(problem)
    assert (only.selection, only.max_margin.p_norm, only.attracts.verdict) == ((0,), 0.0, True)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_dimension_is_data_like_any_other(d: int) -> None:
    keys = np.zeros((2, 3, d))
    keys[:, :, 0] = [[0.0, -1.0, -3.0], [1.0, 0.0, -1.0]]
    problem = Problem(keys, [[1.0, 0.0, 0.5], [1.0, 0.0, 0.0]])
    assert {f.selection: f.attracts.verdict for f in selections(problem)} == {(0, 0): True, (2, 2): False}
    assert directional_margin(problem, keys[0, 0] - keys[0, 1]).neighbors == ((0, 1), (1, 1))
    assert local_constants(problem, [0, 0]).delta == pytest.approx(0.5)
    assert general_position(problem).holds is False  # parallel rows, all tight for some p
    assert general_position(Problem([keys[0][:2, :1]], [[1.0, 0.0]])).holds


def test_inputs_to_relax_can_be_named() -> None:
    problem = example("B-FIG-3b")
    assert relaxed_max_margin(problem, [1, 1, 1], relax={2}).p.tolist() == pytest.approx(
        relaxed_max_margin(problem, [1, 1, 1]).p.tolist()
    )
    none = relaxed_max_margin(problem, [1, 1, 1], relax=())
    assert none.p.tolist() == pytest.approx(max_margin(problem, [1, 1, 1]).p.tolist())
    assert relaxed_max_margin(COPIES, [1, 0], relax=[0]).p_norm == 0.0
    with pytest.raises(ValueError, match="relax must be inputs from 0 to 2, got 3"):
        relaxed_max_margin(problem, [1, 1, 1], relax=[3])
