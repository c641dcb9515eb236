"""The flow among working sets is the flow of the whole, and what is left out is below rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax._lib.arrays import cosine_distance
from hardmax.dynamics import flow, working
from hardmax.dynamics.fields import ABSOLUTE, Field, ForceLeg
from hardmax.dynamics.flow import explicit
from hardmax.dynamics.working import WorkingField, WorkingLeg
from hardmax.problem.coordinates import scaled

KINDS = ("random", "tied", "nearly tied", "badly scaled", "weighted")


def made(kind: str, seed: int, n: int = 12, T: int = 9, d: int = 6) -> hm.Problem:
    """A problem whose inputs soon select tokens of their own."""
    rng = np.random.default_rng(seed)
    keys, scores = rng.normal(size=(n, T, d)), rng.normal(size=(n, T))
    if kind == "tied":  # tokens that stand twice, and others that score the same
        keys[:, 1] = keys[:, 0]
        scores[:, 3] = scores[:, 2]
    if kind == "nearly tied":
        keys[:, 1] = keys[:, 0] + 1e-9 * rng.normal(size=(n, d))
        scores[:, 3] = scores[:, 2] + 1e-9
    if kind == "badly scaled":
        keys *= 10.0 ** rng.integers(-3, 1, size=(n, 1, 1))
        keys += 100.0 * rng.normal(size=(n, 1, d))
        scores *= 10.0 ** rng.integers(-2, 2, size=(n, 1))
    problem = hm.Problem(keys, scores)
    return problem.weighted(rng.uniform(0.1, 2.0, n)) if kind == "weighted" else problem


@pytest.fixture
def among(monkeypatch):
    """Flows on working sets, or on the whole, whatever the size; also explicit steps where ``many`` says."""

    def run(problem: hm.Problem, is_large: bool, many: int = 10**9, **ends):
        monkeypatch.setattr(flow, "is_large", lambda _: is_large)
        monkeypatch.setattr(working, "MANY", many)
        return hm.flow(problem, **ends)

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_flow_of_the_whole_all_along(among, kind):
    problem = made(kind, 0)
    for ends in ({"until_log_time": 3.0}, {"until_norm": 1e2}, {"until_norm": 1e6}):
        whole = among(problem, False, **ends)
        for many in (10**9, 1):
            part = among(problem, True, many, **ends)
            assert part.event == whole.event
            assert cosine_distance(part.p, whole.p) <= 1e-13
            assert part.p_norm == pytest.approx(whole.p_norm, rel=1e-8)
            if part.event is None:  # else it is when a limit was noticed
                assert part.times[-1] == pytest.approx(whole.times[-1], abs=1e-7, rel=1e-9)


def test_a_stationary_point_is_the_same(among):
    """Two inputs that want opposite tokens hold p at a finite point."""
    rng = np.random.default_rng(3)
    keys, scores = rng.normal(size=(6, 5, 3)), rng.normal(size=(6, 5))
    problem = hm.Problem(np.concatenate([keys, keys]), np.concatenate([scores, -0.5 * scores]))
    whole, part = (among(problem, each, 1, until_norm=1e6) for each in (False, True))
    assert part.event == whole.event
    assert cosine_distance(part.p, whole.p) <= 1e-13


@pytest.mark.parametrize("size", [1e-160, 1.0, 1e160])
def test_keys_of_any_size(among, size):
    problem = made("random", 5)
    scaled = hm.Problem(size * problem.keys.reshape(12, 9, 6), problem.scores.reshape(12, 9))
    one, other = among(problem, True, until_norm=1e3), among(scaled, True, until_norm=1e3 / size)
    assert cosine_distance(one.p, other.p / other.p_norm) <= 1e-13


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**16), st.sampled_from(KINDS), st.floats(0.0, 1.0), st.floats(-1.0, 1.0))
def test_what_a_leg_leaves_out_is_below_rounding(seed, kind, along, aside):
    """At any point of a step, and next to it within its room, the force of the whole is that of the part."""
    field = WorkingField(scaled(made(kind, seed), to_one=True), np.zeros(6))
    rng = np.random.default_rng(seed)
    x = np.append(40.0 * rng.normal(size=len(field.start)), 8.0).astype(np.longdouble)
    first = field.leg(x, None, 1.0)
    leg = field.leg(x, first.velocity, 2.0)
    z = rng.normal(size=len(x))
    z *= aside * min(leg.room, 1.0) / np.linalg.norm(z)
    part = leg.speed(2.0 * along, z)
    whole = WorkingLeg(field, field, x, first.velocity, first.tops, math.inf, False).speed(2.0 * along, z)
    # speeds are unit vectors; at the far end of a step the force may be less than at its start
    assert np.abs(part - whole).max() <= 1e-13


def test_most_slots_are_left_out_late():
    problem = hm.data.sphere(60, 20, 8, rng=0)
    field = WorkingField(scaled(problem, to_one=True), np.zeros(8))
    path = hm.flow(problem, until_norm=1e4)
    x = np.append(field.basis.T @ path.p, path.times[-1]).astype(np.longdouble)
    x[:-1] = np.ldexp(x[:-1].astype(float), field.scale.exponent)
    x[-1] += 2.0 * field.scale.log
    whole = field.leg(x, None, 1.0)
    leg = field.leg(x, whole.velocity, 1.0)
    assert isinstance(leg, ForceLeg)
    assert 2 <= len(leg.D) <= 0.2 * len(whole.D)
    np.testing.assert_allclose(leg.velocity, whole.velocity, rtol=0, atol=1e-14)
    off = np.abs(leg.jacobian - whole.jacobian).max()
    assert off <= 1e-12 * np.abs(whole.jacobian).max()


def test_blocks_add_up_to_the_whole(monkeypatch):
    problem = made("weighted", 2)
    units = scaled(problem, to_one=True)
    plain, field = Field(units, np.zeros(6)), WorkingField(units, np.zeros(6))
    monkeypatch.setattr(working, "BLOCK", 20)
    y = np.random.default_rng(0).normal(size=6)
    one, many = plain.expand(y), field.expand(y)
    scale = math.exp(one.common - many.common) / plain.reduced.total
    np.testing.assert_allclose(many.H, scale * one.H, rtol=0, atol=1e-13 * np.abs(many.H).max())
    np.testing.assert_allclose(many.V, scale * one.V, rtol=0, atol=1e-13 * np.abs(many.V).max())
    assert many.size == pytest.approx(scale * one.size, rel=1e-13)


def test_an_explicit_step_is_of_order_8():
    """z' = -z - heading turned: against the closed form, with an error estimate that is not too small."""
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])

    def speed(sigma: float, z: np.ndarray) -> np.ndarray:
        return turn @ (np.array([1.0, 0.0]) + z)

    def off(sigma: float) -> tuple[float, float, float]:
        z, error, slope = explicit(sigma, speed, np.zeros(2), speed(0.0, np.zeros(2)))
        return float(np.abs(z - [math.cos(sigma) - 1.0, -math.sin(sigma)]).max()), error, slope

    far, near = off(0.5), off(0.25)
    assert far[0] / near[0] > 2**7.5
    assert far[0] <= far[1] <= 1e3 * ABSOLUTE
    assert far[2] == pytest.approx(1.0, rel=1e-6)


def test_other_losses_and_small_problems_are_followed_as_a_whole():
    large = hm.data.sphere(n=250, T=10, d=4, rng=0)
    assert flow.is_large(large)
    assert not flow.is_large(hm.data.sphere(n=4, T=6, d=10, rng=0))
    cauchy = hm.LossFunction("cauchy", lambda u: np.pi / 2 - np.arctan(u), lambda u: -math.log1p(u * u))
    keys, scores = large.keys.reshape(250, 10, 4), large.scores.reshape(250, 10)
    assert not flow.is_large(hm.Problem(keys, scores, loss=cauchy))
