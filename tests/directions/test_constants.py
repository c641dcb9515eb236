"""The constants of Lemma 7 and what they promise; general position."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hardmax.data import example, sphere
from hardmax.directions.direction import local_constants
from hardmax.directions.position import _count, _every, general_position
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import attention
from hardmax.margin.att_svm import max_margin
from hardmax.problem import Problem
from hardmax.problem.keys import Dense


def test_figure_1b() -> None:
    problem = example("B-FIG-1b")
    found = local_constants(problem, max_margin(problem, [1]))
    assert pytest.approx(1.0, rel=1e-12) == found.Theta
    assert found.delta == pytest.approx(0.05, rel=1e-9)
    assert pytest.approx(1.00499, abs=1e-5) == found.A
    assert found.mu == pytest.approx(3.094e-4, abs=1e-7)
    assert found.half_angle == pytest.approx(1.425, abs=1e-3)
    assert found.R_bar == pytest.approx(107.36, abs=5e-3)
    assert found.c == pytest.approx(0.0303, abs=5e-5)
    assert pytest.approx(1.316, abs=5e-4) == found.C
    assert found.A_bar == pytest.approx(1.4866, abs=5e-5)
    assert found.cosine == pytest.approx(0.0155, abs=5e-5)


def test_figure_8_has_an_input_without_neighbours() -> None:
    problem = example("B-FIG-8")
    found = local_constants(problem, max_margin(problem, [0, 1]))
    assert found.delta == pytest.approx(0.5)
    assert found.mu == pytest.approx(0.015625)
    assert found.half_angle == pytest.approx(10.14, abs=5e-3)
    assert found.R_bar == pytest.approx(10.40, abs=5e-3)


def test_lemma_7_in_its_cone() -> None:
    """L2 on sampled p and q: c avg <= -<grad L(p), q> <= C avg, and the angle to the gradient."""
    problem = example("B-FIG-1b")
    best = max_margin(problem, [1])
    k = local_constants(problem, best)
    rng = np.random.default_rng(0)
    for _ in range(100):
        angles = rng.uniform(-1, 1, size=2) * math.radians(k.half_angle)
        p = rng.uniform(1, 3) * k.R_bar * np.array([math.cos(angles[0]), math.sin(angles[0])])
        q = best.p_norm * np.array([math.cos(angles[1]), math.sin(angles[1])])
        descent = gradient(problem, p)
        s = attention(problem, p)[0]
        log_avg = math.log(s[0] + s[2])
        log_ratio = descent.log_norm + math.log(descent.direction @ q) - log_avg
        assert math.log(k.c) <= log_ratio <= math.log(k.C)
        assert descent.direction @ q / best.p_norm >= k.cosine


def test_lemma_7_speaks_of_locally_optimal_selections_only() -> None:
    problem = example("B-FIG-1b")
    with pytest.raises(ValueError, match="locally optimal"):
        local_constants(problem, max_margin(problem, [2]))
    alone = Problem([[[1.0, 0.0]]], [[1.0]])
    with pytest.raises(ValueError, match="no competing token"):
        local_constants(alone, max_margin(alone, [0]))


def test_general_position() -> None:
    found = general_position(sphere(n=2, T=3, d=3, rng=0))
    assert (found.holds, found.exhaustive, found.witness) == (True, True, None)
    # Parallel differences in two inputs: one row of each is dependent.
    keys = np.array([[[0.0, 0.0], [3.0, 1.0], [1.0, 5.0]], [[7.0, 2.0], [13.0, 4.0], [2.0, 8.0]]])
    problem = Problem(keys, np.zeros((2, 3)))
    found = general_position(problem)
    assert not found.holds
    rows = [keys[i, a] - keys[i, t] for i, a, t in found.witness or ()]
    assert abs(np.linalg.det(rows)) < 1e-12


def test_three_tight_rows_in_the_plane_break_general_position() -> None:
    """Rows (1,0), (0,1), (1/2,1/2) are pairwise independent and all tight at p = (1,1)."""
    keys = [[[0.0, 0.0], [-1.0, 0.0], [0.0, -1.0]], [[0.0, 0.0], [-0.5, -0.5]]]
    found = general_position(Problem(keys, [[1.0, 0.0, 0.0], [1.0, 0.0]]))
    assert not found.holds
    assert len(found.witness or ()) == 3


def test_few_rows_must_all_be_independent() -> None:
    wide = sphere(n=2, T=2, d=5, rng=0)
    assert general_position(wide).holds
    keys = np.array(wide.split(wide.keys))
    keys[1] = keys[0]
    flat = wide._with(table=Dense(keys.reshape(-1, 5)))
    assert not general_position(flat).holds


def test_twins_break_general_position() -> None:
    assert not general_position(Problem([[[1.0], [1.0]]], [[1.0, 0.0]])).holds
    assert general_position(Problem([[[1.0]]], [[1.0]])).holds


def test_large_cases_are_sampled_and_say_so() -> None:
    problem = sphere(n=6, T=6, d=6, rng=0)
    with pytest.raises(ValueError, match="rng"):
        general_position(problem, limit=500)
    found = general_position(problem, limit=500, rng=0)
    assert (found.holds, found.exhaustive, found.checked) == (True, False, 500)


def test_the_number_of_sets_is_known_beforehand() -> None:
    for sizes, total in (([3, 2], 2), ([4], 3), ([2, 2, 3], 3), ([3, 3], 4)):
        every = list(_every(sizes, total))
        assert len(every) == len(set(every)) == _count(sizes, total)
