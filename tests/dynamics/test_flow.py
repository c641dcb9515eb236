"""Gradient flow in log time: limits, extreme norms, events, and agreement with small-step descent."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.dynamics.test_saturation import max_margin_direction

import hardmax as hm


def limit_of(path):
    keys = path.problem.split(path.problem.keys[path.problem.tokens])
    return max_margin_direction(keys, path.selection)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(12), 23])
@pytest.mark.no_cover
def test_log_time_ten_million(seed):
    path = hm.flow(hm.data.sphere(4, 6, 10, rng=seed), until_log_time=1e7)
    assert path.event is None
    assert path.times[-1] == pytest.approx(1e7, rel=1e-9)
    assert path.cosine_distance(limit_of(path)) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.no_cover
def test_norm_ten_to_the_twelve(seed):
    path = hm.flow(hm.data.sphere(4, 6, 10, rng=seed), until_norm=1e12)
    assert path.p_norm == pytest.approx(1e12, rel=1e-9)
    assert path.cosine_distance(limit_of(path)) <= 1e-18
    assert 1e-5 < path.logit_error < 1e-3


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
@pytest.mark.no_cover
def test_follows_an_explicit_solver(loss):
    """In ordinary time, where a general solver is at ease, both give the same point."""
    problem = hm.data.sphere(3, 4, 5, rng=2, loss=loss)
    path = hm.flow(problem, until_log_time=3.0)
    reference = solve_ivp(
        lambda t, p: -hm.gradient(problem, p).vector, (0, math.exp(3.0)), np.zeros(5), rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(path.p, reference.y[:, -1], atol=1e-8)


def test_follows_an_explicit_solver_with_a_nonlinear_head_and_an_own_loss():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(2, 3, 4)), rng.normal(size=4)
    own = hm.LossFunction("own", lambda u: -np.arctan(u), lambda u: -math.log1p(u * u))
    curved = hm.Problem.from_psi(
        X, X, [1, -1], lambda z: np.tanh(z @ v), lambda z: v / np.cosh(z @ v)[:, None] ** 2, loss=own
    )
    for problem in (curved, hm.Problem.from_tokens(X, [1, -1], v, loss=own)):
        path = hm.flow(problem, until_log_time=2.0)
        reference = solve_ivp(
            lambda t, p, problem=problem: -hm.gradient(problem, p).vector,
            (0, math.exp(2.0)),
            np.zeros(4),
            rtol=1e-10,
            atol=1e-12,
        )
        np.testing.assert_allclose(path.p, reference.y[:, -1], atol=1e-7)


def test_starts_choose_the_basin():
    """B-FIG-8: the flow from (2, 0) goes to the locally optimal (1, 0), from the origin to (1, 3)."""
    problem = hm.data.example("B-FIG-8")
    assert hm.flow(problem, start=[2.0, 0.0]).cosine_distance([1.0, 0.0]) < 1e-12
    assert hm.flow(problem).cosine_distance([1.0, 3.0]) < 1e-12


def test_start_far_out():
    """The gradient at the start is e^-5000; the clock starts when p starts to move."""
    path = hm.flow(hm.data.example("B-FIG-8"), start=[5000.0, 0.0], until_norm=1e5)
    assert path.times[0] > 4900
    assert path.cosine_distance([1.0, 0.0]) < 1e-9


def test_late_speed_is_one_over_the_margin():
    """|p| grows by |p_mm| per unit of log t (B-THM-2's ln 10 / margin per decade)."""
    a = hm.flow(hm.data.example("B-FIG-1a"), until_log_time=1000.0)
    b = hm.flow(hm.data.example("B-FIG-1a"), until_log_time=2000.0)
    along = np.array([-0.1, 1.0]) / math.sqrt(1.01)
    assert (b.p - a.p) @ along / 1000.0 == pytest.approx(1 / math.sqrt(1.01), rel=1e-9)


def test_finite_limit_is_an_event():
    """B-ERR-01's counterexample: not separable, p converges to -0.69209."""
    problem = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [2.0, 0.0]])
    path = hm.flow(problem)
    assert path.event == "stationary point"
    assert path.p[0] == pytest.approx(-0.69209, abs=5e-6)
    assert abs(hm.gradient(problem, path.p).vector[0]) < 1e-16


def test_other_events():
    one_token = hm.Problem([[[1.0, 2.0]]], [[1.0]])
    assert hm.flow(one_token).event == "no competing token"
    opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    assert hm.flow(opposed).event == "stationary point"
    twins = hm.Problem([[[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]], [[1.0, 0.0, 0.9]])
    path = hm.flow(twins)
    assert path.event == "tie"
    assert path.selection.sets == ((0, 2),)
    with pytest.raises(ValueError, match=r"input 0 has tied tokens \[0, 2\]"):
        _ = path.selection.tokens


@pytest.mark.slow
def test_pulls_that_cancel_beyond_float64_are_an_event():
    """Two copies of an input with opposite labels: the pulls cancel, and rounding takes over."""
    problem = hm.Problem.from_tokens([[[1.0, 1.0], [0.0, 0.0]]] * 2, [1, -1], [1.0, 0.0])
    path = hm.flow(problem)
    assert path.event == "precision exhausted"
    assert 10 < path.p_norm < 60
    assert path.cosine_distance([-1.0, -1.0]) < 1e-12


def test_stops():
    problem = hm.data.example("B-FIG-1a")
    target = [-0.1, 1.0]
    path = hm.flow(problem, until_cosine_distance=(target, 1e-4))
    assert path.cosine_distance(target) == pytest.approx(1e-4, rel=1e-6)
    assert hm.flow(problem, until_norm=50.0).p_norm == pytest.approx(50.0, rel=1e-12)
    first = hm.flow(problem, until_norm=50.0, until_log_time=2.0)
    assert first.times[-1] == pytest.approx(2.0, rel=1e-12)
    with pytest.raises(ValueError, match="until_norm must be a positive number, got -1"):
        hm.flow(problem, until_norm=-1)


@pytest.mark.parametrize("factor", [1e-9, 1e8])
@pytest.mark.no_cover
def test_scale_of_keys_only_rescales(factor):
    """Keys times s: p/s at the time t/s^2. Nothing in the integration may have a size of its own."""
    plain = hm.data.sphere(3, 4, 6, rng=4)
    scaled = hm.Problem(plain.keys.reshape(3, 4, 6) * factor, plain.scores.reshape(3, 4))
    a = hm.flow(plain, until_log_time=500.0)
    b = hm.flow(scaled, until_log_time=500.0 - 2 * math.log(factor))
    np.testing.assert_allclose(b.p * factor, a.p, rtol=1e-7)
    assert b.event is None


def test_the_display_of_a_long_flow_is_no_vertical_line():
    """What happens at log t = 10 takes its share of the width although the flow goes on to 3e5."""
    problem = hm.data.example("B-FIG-8")
    path = hm.flow(problem, until_norm=1e6)
    figure = path.display(target=hm.max_margin(problem, path.selection)).plot()
    figure.draw_without_rendering()
    for panel in figure.axes:
        (line,) = panel.lines
        x, y = line.get_data()
        seen = (y > panel.get_ylim()[0]) & (y < panel.get_ylim()[1])
        across = panel.transAxes.inverted().transform(panel.transData.transform(np.column_stack([x, y])))
        assert np.ptp(across[seen, 0]) > 0.3, panel.get_title()


def test_a_compiled_step_is_the_plain_one(monkeypatch):
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    compiled = hm.flow(problem, until_norm=1e4)
    monkeypatch.setattr("hardmax.dynamics.fields.SMALL", 0)
    plain = hm.flow(problem, until_norm=1e4)
    assert compiled.cosine_distance(plain) < 1e-24
    np.testing.assert_allclose(compiled.p, plain.p, atol=1e-9)
    assert compiled.times[-1] == pytest.approx(plain.times[-1], rel=1e-12)
