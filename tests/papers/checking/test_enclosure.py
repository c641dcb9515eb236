"""What a flow selects is proved in balls, agrees with floats, and is refused where nothing is proved."""

import doctest

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.papers.checking import enclosure
from hardmax.papers.checking.enclosure import Disc, selected, step, trapped
from hardmax.papers.checking.proof import BallProblem, at_precision, balls

HEAD_START = hm.Problem([[[0, 0], [5, 4], [1, 0]]], [[1, 0.9375, 0]])
PARTING = hm.Problem([[[0, 0], [2, 1], [1, 0]]], [[2, 1, 0]], "correlation")


def test_examples_of_the_module():
    found = doctest.testmod(enclosure)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_a_head_start_is_lost():
    assert hm.attention(HEAD_START, [-1.0, 1.0])[0][0] > 0.57
    assert selected(HEAD_START, [-1.0, 1.0]) == 1
    assert selected(HEAD_START, [1.0, -3.0]) == 0


def test_no_share_below_one_is_a_guarantee():
    """Keys 0, (L, L - 1), (1, 0), scores 1, 1 - e, 0 and p = (-c, c): the trap is shut at the start."""
    for c, L, e in ((1.0, 12, 1 / 16), (3.0, 128, 1 / 128), (9.0, 2**16, 2.0**-16)):
        problem = hm.Problem([[[0, 0], [L, L - 1], [1, 0]]], [[1, 1 - e, 0]])
        assert hm.attention(problem, [-c, c])[0][0] == pytest.approx(1 / (1 + 2 * np.exp(-c)))
        assert selected(problem, [-c, c], steps=1) == 1


def test_steps_hold_the_flow():
    """A disc after many steps holds where the float flow is, and is small."""

    def follow():
        disc, field, h = Disc(balls([0.9, 0.1]), arb(0)), BallProblem(PARTING, "correlation"), arb(2) ** -7
        for _ in range(256):
            disc = step(field, disc, h)
        return disc

    disc = at_precision(128, follow)
    end = hm.flow(PARTING, start=[0.9, 0.1], until_log_time=float(np.log(2.0)))
    assert float(disc.radius) < 1e-9
    assert np.hypot(*(np.array([float(x) for x in disc.middle]) - end.p)) < 1e-6


def test_a_wide_disc_holds_the_ends_of_its_points():
    start, h = [0.9, 0.1], arb(2) ** -7
    disc = at_precision(
        128, lambda: step(BallProblem(PARTING, "correlation"), Disc(balls(start), arb(0.0001)), h)
    )
    for angle in np.linspace(0, 2 * np.pi, 7):
        point = np.array(start) + 0.0000999 * np.array([np.cos(angle), np.sin(angle)])
        own = at_precision(
            128, lambda point=point: step(BallProblem(PARTING, "correlation"), Disc(balls(point), arb(0)), h)
        )
        apart = np.hypot(*(float(x - y) for x, y in zip(own.middle, disc.middle, strict=True)))
        assert apart < float(disc.radius)


def test_the_field_is_the_pull_of_the_risk():
    p = np.array([0.3, -0.7])
    found = at_precision(128, lambda: BallProblem(PARTING, "correlation").pull(balls(p)))
    pull = hm.gradient(PARTING, p)  # the correlation loss has slope 1; keys count from the first one
    assert [float(x) for x in found] == pytest.approx(np.exp(pull.log_norm) * pull.direction, rel=1e-12)


@pytest.mark.slow
def test_the_flow_of_finding_3():
    assert selected(PARTING, [0.928, 0.0]) == 1


def test_refusals():
    """Nothing is proved about two inputs, a stationary point, too few steps, twins, or a step too long."""
    two = hm.Problem([[[0.0], [1.0]]] * 2, [[0.0, 1.0]] * 2)
    assert selected(two, [0.0]) is None
    balanced = hm.Problem([[[0.0], [1.0], [-1.0]]], [[0.0, 1.0, 1.0]])
    assert selected(balanced, [0.0]) is None  # p = 0 is stationary
    assert selected(PARTING, [0.928, 0.0], steps=20) is None
    twins = hm.Problem([[[0.0], [1.0], [1.0]]], [[0.0, 2.0, 1.0]])
    assert selected(twins, [0.0], steps=50) is None
    assert (
        at_precision(
            128, lambda: step(BallProblem(PARTING, "correlation"), Disc(balls([0.9, 0.1]), arb(0)), arb(64))
        )
        is None
    )
    assert (
        at_precision(
            128, lambda: step(BallProblem(PARTING, "correlation"), Disc(balls([0.9, 0.1]), arb(50)), arb(1))
        )
        is None
    )


def test_a_disc_across_the_boundary_is_never_trapped():
    """Both ends lie in one box: whatever is claimed must hold for all of its points."""
    field = BallProblem(PARTING, "correlation")
    assert at_precision(128, lambda: trapped(field, Disc(balls([1.0, 1.0]), arb(3)).box)) is None


@pytest.mark.parametrize("seed", range(12))
def test_random_problems_agree_with_floats(seed):
    rng = np.random.default_rng(seed)
    problem = hm.Problem(rng.normal(size=(1, 3, 2)), rng.normal(size=(1, 3)))
    start = rng.normal(size=2)
    found = selected(problem, start, steps=150)
    assert found is None or (found,) == hm.flow(problem, start=start, until_norm=1e3).selection
