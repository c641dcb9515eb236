"""Selections that are feasible, those that attract, and what paper B says around a direction."""

import itertools
import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

FIG1B, FIG8 = n.example("B-FIG-1b"), n.example("B-FIG-8")


def test_enumeration_is_brute_force():
    for seed in range(4):
        keys, scores = f.draw(3, 3, 2, seed)
        problem = n.problem(keys, scores)
        by_hand = {s for s in itertools.product(range(3), repeat=3) if n.max_margin(problem, s).is_feasible}
        found = n.selections(problem)
        assert {each.selection for each in found} == by_hand
        strong = {each.selection for each in n.attractors(problem)}
        assert strong == {s for s in by_hand if n.attracts(problem, s) == "strong"}
        for each in found:
            keys_ = f.rows(keys, each.selection) @ each.direction
            assert keys_.min() == pytest.approx(each.max_margin.margin, rel=1e-9)


def test_what_attracts_outscores_its_neighbors():
    """A selection attracts if each support token of its max margin scores less than the selected token."""
    keys, scores = f.draw(2, 3, 3, seed=7)
    problem = n.problem(keys, scores)
    for selection in itertools.product(range(3), repeat=2):
        best = n.max_margin(problem, selection)
        if not best.is_feasible:
            continue
        tight = {(i, t) for i, t in best.support}
        assert {(i, t) for i, each in enumerate(n.neighbors(problem, selection)) for t in each} == tight
        expected = all(scores[i][selection[i]] > scores[i][t] for i, t in tight)
        assert (n.attracts(problem, selection) == "strong") is expected


def test_paper_b_examples():
    assert [n.attracts(FIG1B, [t]) for t in range(3)] == ["strong", "strong", "no"]
    assert sorted(each.selection for each in n.attractors(FIG8)) == [(0, 0), (0, 1)]
    assert n.neighbors(FIG1B, [1]) == ((2,),)
    assert n.score_gap(FIG1B, [1]) == pytest.approx(0.9)


def test_attraction_depends_on_the_norm():
    problem = n.problem([[[1.0, 0.0], [0.0, 0.0], [-0.5, -1.0]]], [[1.0, 0.0, 2.0]])
    assert [n.attracts(problem, [0], norm=norm) for norm in ("l1", "l2", "linf")] == [
        "strong",
        "strong",
        "weak",
    ]
    plane = n.example("plane")  # part D's oracle
    assert [n.attracts(plane, [0, 2], norm=norm) for norm in ("l2", "linf")] == ["no", "strong"]
    assert (0, 2) in {each.selection for each in n.attractors(plane, norm="linf")}


def test_a_budget_ends_a_search():
    problem = n.sphere(6, 4, 4, rng=0)
    found, status = n.search(problem, limit=5)
    assert len(found) == 5
    assert status != "complete"


def test_critical_directions_at_infinity():
    found = n.critical_directions(FIG1B)
    assert [each.index for each in found.directions] == [0, 0, 1]
    assert found.sum == 1  # Euler characteristic of the circle of directions plus one
    saddle = found.directions[-1].direction
    assert f.close(saddle, np.array([10.0, 1.0]) / math.sqrt(101.0))


def test_directional_margin():
    found = n.directional_margin(FIG1B, [0.6, 0.8])
    assert found.Gamma == pytest.approx(0.14)
    assert found.neighbors == ((0, 1),)
    assert found.neighbor_optimal


def test_assumptions():
    assert n.assumption_b(n.example("B-FIG-1a")).holds
    assert n.assumption_b(FIG1B).witness == (0, 1, 2)
    assert n.assumption_c(n.example("B-FIG-3a"), [1, 1, 1], rng=0).nu == pytest.approx(0.5, abs=1e-3)
    assert not n.assumption_c(n.example("B-FIG-3b"), [1, 1, 1], rng=0).holds
    assert n.assumption_d(FIG8).epsilon == 1.0
    assert not n.assumption_d(n.problem([[[1.0], [0.0]]], [[-1.0, -2.0]])).holds
    line = n.problem([[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]], [[1.0, 0.0, 0.0]])
    assert n.general_position(FIG8).holds
    assert not n.general_position(line).holds


def test_cones_and_their_constants():
    q, p = np.array([1.0, 0.0]), np.array([10.0, 0.1])
    distance = f.cosine_distance(p, q)
    assert n.in_cone(p, q, mu=1.01 * distance, R=5.0)
    assert not n.in_cone(p, q, mu=0.99 * distance)
    assert not n.in_cone(p, q, mu=1.0, R=11.0)
    found = n.local_constants(FIG8, n.max_margin(FIG8, [0, 1]))
    assert found.mu == pytest.approx(1 / 64)
    assert math.cos(math.radians(found.half_angle)) == pytest.approx(1 - 1 / 64, abs=1e-4)


def test_svms_of_joint_training():
    """The oracle of paper B's figure 3."""
    a, b = n.example("B-FIG-3a"), n.example("B-FIG-3b")
    assert f.close(n.label_max_margin(a, [1, 1, 1]).p, [0.0, 1.0])
    assert f.close(n.max_margin(a, [1, 1, 1]).p, [4 / 3, 1 / 3])
    assert f.close(n.max_margin(b, [1, 1, 1]).p, [5 / 4, 1 / 4])
    assert f.close(n.relaxed_max_margin(b, [1, 1, 1]).p, [1.0, 0.0])
    for rho, angle in ((0.25, 8.499649081942867), (0.5, 5.682576164905721), (2.0, 0.0)):
        direction = n.interpolated_max_margin(b, rho, "best").direction
        assert math.degrees(math.atan2(direction[1], direction[0])) == pytest.approx(angle, abs=1e-6)


def test_the_plane_is_drawn():
    assert len(n.plane_plot(FIG8, n.attractors(FIG8)).axes) == 3
