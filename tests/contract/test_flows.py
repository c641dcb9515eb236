"""Gradient flow: on both clocks, in other norms, to its ends and beside a finite part."""

import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

FIG8 = n.example("B-FIG-8")


def test_flow_solves_the_differential_equation():
    keys, scores = f.draw(3, 4, 5, seed=1)
    run = n.flow(n.problem(keys, scores), until_log_time=2.0)
    p, h = np.zeros(5), math.exp(2.0) / 4000  # Runge-Kutta in t
    for _ in range(4000):
        a = -f.gradient(keys, scores, p)
        b = -f.gradient(keys, scores, p + h / 2 * a)
        c = -f.gradient(keys, scores, p + h / 2 * b)
        p = p + h / 6 * (a + 2 * b + 2 * c - f.gradient(keys, scores, p + h * c))
    assert run.times[-1] == pytest.approx(2.0)
    assert f.close(run.p, p, rtol=1e-7)


def test_flow_ends_at_the_max_margin_direction():
    run = n.flow(FIG8, until_norm=1e6)
    assert n.p_norm(run) == pytest.approx(1e6, rel=1e-6)
    assert n.selection(run) == (0, 0)
    assert n.distance_to(run, [1.0, 3.0]) < 1e-11
    assert run.event is None
    # ln t = margin |p| + O(1): the margin is 1/sqrt(10)
    assert run.times[-1] * math.sqrt(10.0) == pytest.approx(1e6, rel=1e-4)


def test_by_arc_length_it_is_the_same_curve():
    along = n.flow(FIG8, clock="arc length", until_length=50.0, record=[10.0, 50.0])
    assert np.allclose(along.times[-2:], [10.0, 50.0])
    assert n.distance_to(along, n.flow(FIG8, until_norm=n.p_norm(along))) < 1e-12


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("norm", ["l1.5", "l3"])
def test_flows_in_other_norms_end_at_their_margin(norm, mirror):
    run = n.flow(n.example("triple"), norm=norm, mirror=mirror)
    assert n.run_norm(run) == norm
    bound = 0.01 if (norm, mirror) == ("l1.5", True) else 1e-5  # mirror flow closes like |p|^(1 - r)
    assert abs(n.margin_gap(run, n.max_margin(n.example("triple"), n.selection(run), norm=norm))) < bound


def test_flow_stops_at_a_finite_minimum():
    opposed = n.problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [2.0, 0.0]])
    run = n.flow(opposed)
    assert run.event == "stationary point"
    assert run.p[0] == pytest.approx(-0.6921, abs=1e-4)
    assert (
        abs(
            f.gradient(
                [[[1.0], [0.0]], [[-1.0], [0.0]]] * np.ones(1), [[1.0, 0.0], [2.0, 0.0]] * np.ones(1), run.p
            )
        )
        < 1e-8
    )


def test_flow_stops_at_a_distance_to_a_direction():
    run = n.flow(FIG8, until_misalignment=([1.0, 3.0], 1e-4))
    assert n.distance_to(run, [1.0, 3.0]) == pytest.approx(1e-4, rel=1e-3)


def test_flow_beside_a_finite_part():
    run = n.flow(n.remainder(n.example("cycle")), until_norm=1e6)
    finite = np.array([1.0, -1.0, 0.0]) * math.log(3.0) / 2
    assert f.cosine_distance(run.p - finite, [1.0, 1.0, -2.0]) < 1e-12
