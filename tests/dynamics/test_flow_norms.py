"""Flows in norms other than l2: they are descent with small steps early, and the norm's max margin late."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import hardmax as hm


def deficit(path):
    return path.margin_gap(hm.max_margin(path.problem, path.selection, norm=path.norm))


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("norm", ["l1.5", "l3"])
@pytest.mark.parametrize("name", ["skew", "triple", "space-b"])
@pytest.mark.no_cover
def test_ends_at_the_max_margin_of_its_norm(name, norm, mirror):
    """The deficit is a mean slack over the length of p (D-THM-3), here 1e6, and so at most some 1e-6."""
    path = hm.flow(hm.data.example(name), norm=norm, mirror=mirror)
    best = {"skew": (0, 0), "triple": (1, 0, 0), "space-b": (0, 1)}[name]
    assert (path.event, path.selection, path.norm) == (None, best, norm)
    assert path.p_norm == pytest.approx(1e6, rel=1e-9)
    assert -1e-12 < deficit(path) < 1e-6


@pytest.mark.parametrize(
    ("name", "norm", "mirror"),
    [("plane", "l3", False), ("plane", "l8", False), ("ragged", "l3", True), ("plane", "l5", True)],
)
@pytest.mark.no_cover
def test_coordinates_that_slide_or_cross_zero(name, norm, mirror):
    """On `plane` the optimum has a zero: pulls at that coordinate cancel, where the field is not smooth."""
    path = hm.flow(hm.data.example(name), norm=norm, mirror=mirror)
    assert path.event is None
    assert deficit(path) < 2e-6


@pytest.mark.parametrize("norm", [1.5, 3.0])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("name", ["skew", "triple", "space-b"])
@pytest.mark.no_cover
def test_is_descent_with_small_steps(name, norm, mirror):
    """Euler's error is of first order: a tenth of the rate, a tenth of the distance."""
    problem, t = hm.data.example(name), 4.0
    path = hm.flow(problem, norm=norm, mirror=mirror, until_log_time=math.log(t))
    apart = []
    for rate in (1e-3, 1e-4):
        rule = hm.optim.Mirror(rate, norm, normalized=False) if mirror else hm.optim.GD(rate, f"l{norm:g}")
        apart.append(np.abs(hm.train(problem, rule, steps=round(t / rate)).p - path.p).max())
    assert apart[1] < 1e-3
    assert apart[1] < 0.2 * apart[0] + 1e-7


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("norm", [1.5, 3.0])
def test_follows_an_explicit_solver_at_any_scale_of_keys(norm, scale):
    """Steepest flow has p ~ 1/scale at t ~ 1/scale^2, mirror flow at t ~ 1/scale^norm."""
    plain = hm.data.sphere(3, 4, 5, rng=2)
    keys, q = [k * scale for k in plain.split(plain.keys[plain.tokens])], norm / (norm - 1)
    problem = hm.Problem(keys, plain.split(plain.scores))

    def steepest(t, p):
        g = -hm.gradient(plain, p).vector
        return np.linalg.norm(g, q) * hm.margin.norm(norm).step(g)

    def mirror(t, xi):
        return -hm.gradient(plain, np.sign(xi) * np.abs(xi) ** (q - 1)).vector

    for field, degree, power in ((steepest, 2.0, 1.0), (mirror, norm, q - 1)):
        end = solve_ivp(field, (0, 20.0), np.zeros(5), rtol=1e-11, atol=1e-13).y[:, -1]
        late = math.log(20.0) - degree * math.log(scale)
        path = hm.flow(problem, norm=norm, mirror=field is mirror, until_log_time=late)
        np.testing.assert_allclose(path.p * scale, np.sign(end) * np.abs(end) ** power, atol=1e-7)


def test_l2_is_the_flow_without_a_norm():
    problem = hm.data.example("triple")
    plain = hm.flow(problem, until_norm=100.0)
    for path in (
        hm.flow(problem, until_norm=100.0, norm=n, mirror=m) for n in ("l2", 2) for m in (False, True)
    ):
        assert (path.p == plain.p).all()
        assert (path.method, path.norm) == ("gradient flow", "l2")


def test_starts_where_it_is_told_and_rests_at_a_minimum():
    pull = hm.Problem([[[1.0, 0.5], [0.0, 0.0]], [[-1.0, 0.5], [0.0, 0.0]]], [[1, 0], [2, 0]])
    start = np.array([0.3, -0.2])
    for mirror in (False, True):
        path = hm.flow(pull, norm="l3", mirror=mirror, start=start, until_norm=50.0)
        assert path.points[0].tolist() == start.tolist()
        assert path.p_norm == pytest.approx(50.0)
    cycle = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]], loss="logistic")
    finite = [hm.flow(cycle, norm=norm, mirror=m) for norm in ("l2", "l1.5", "l3") for m in (False, True)]
    assert {path.event for path in finite} == {"stationary point"}
    assert [path.p[0] for path in finite] == pytest.approx([finite[0].p[0]] * 6, abs=1e-9)


def test_a_saved_flow_knows_its_norm(tmp_path):
    hm.flow(hm.data.example("skew"), norm="l3", mirror=True, until_norm=10.0).save(tmp_path / "run.npz")
    path = hm.Run.load(tmp_path / "run.npz")
    assert (path.norm, path.method) == ("l3", "mirror flow in l3")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"norm": "linf"}, "hm.optim.Sign(rate, decay=0.5)"),
        ({"norm": "l1", "mirror": True}, "hm.optim.Coordinate(rate, decay=0.5)"),
        ({"norm": "nuclear"}, 'hm.optim.Normalized(rate, norm="nuclear")'),
        ({"norm": "spectral"}, "hm.optim.Spectral(rate)"),
        ({"mirror": 3}, "mirror must be True or False"),
        ({"norm": "l0.5"}, "a power above 1"),
        ({"norm": "l3", "clock": "arc length"}, 'hm.optim.Normalized(rate, norm="l3")'),
        ({"norm": "l3", "clock": "arc length", "mirror": True}, "hm.optim.Mirror(rate, 3)"),
    ],
)
def test_refusals_name_what_to_call_instead(options, told):
    with pytest.raises(ValueError, match="must be") as refused:
        hm.flow(hm.data.example("skew"), **options)
    assert told in str(refused.value)


def test_split_is_for_l2():
    problem = hm.data.example("cycle")
    with pytest.raises(ValueError, match="norm must be l2 for a remainder"):
        hm.flow(hm.decompose(problem).remainder, norm="l3")


def test_first_step():
    """On `space-b` coordinate descent first turns to (2, 1); the selection of the end is another."""
    problem = hm.data.example("space-b")
    run = hm.train(problem, hm.optim.Coordinate(0.1), steps=10_000, record=[10_000])
    assert (run.first_step.tokens, run.selection) == ((2, 1), (0, 1))
    for path, rule in (
        (hm.flow(problem, until_norm=10.0), hm.optim.GD(1e-6)),
        (hm.flow(problem, norm=3, until_norm=10.0), hm.optim.GD(1e-6, "l3")),
        (hm.flow(problem, norm=3, mirror=True, until_norm=10.0), hm.optim.Mirror(1e-6, 3)),
    ):
        assert path.first_step.tokens == hm.train(problem, rule, steps=1).selection
    assert hm.flow(problem, start=[0.0, 0.0, -1.0]).first_step == selected_at(problem, [0.0, 0.0, -1.0])


def selected_at(problem, p):
    return hm.train(problem, hm.optim.GD(1e-9), steps=0, start=p).selection
