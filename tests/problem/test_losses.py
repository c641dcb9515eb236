"""Losses against mpmath: slopes, rates, constants, and the mean slope over a fall."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import hardmax as hm
from hardmax.problem.losses import LOSSES, as_loss

FORMULA = {
    "logistic": lambda u: mpmath.log1p(mpmath.exp(-u)),
    "exponential": lambda u: mpmath.exp(-u),
    "correlation": lambda u: -u,
}
SLOPE = {
    "logistic": lambda u: 1 / (1 + mpmath.exp(u)),
    "exponential": lambda u: mpmath.exp(-u),
    "correlation": lambda u: mpmath.mpf(1),
}
predictions = st.floats(-700, 700)
names = pytest.mark.parametrize("name", list(FORMULA))


@names
@given(u=predictions)
def test_value_and_slopes(name, u):
    loss = LOSSES[name]
    with mpmath.workdps(700):
        value, slope = FORMULA[name](mpmath.mpf(u)), SLOPE[name](mpmath.mpf(u))
        rate = mpmath.diff(lambda x: mpmath.log(SLOPE[name](x)), mpmath.mpf(u)) if abs(u) < 50 else None
        log_slope = float(mpmath.log(slope))
    assert float(loss.value(np.array([u]))[0]) == pytest.approx(float(value), rel=1e-13)
    assert loss.log_slope(u) == pytest.approx(log_slope, rel=1e-14, abs=1e-300)
    if rate is not None:
        assert loss.slope_rates(np.array([u]))[0] == pytest.approx(float(rate), rel=1e-12, abs=1e-30)


@names
@given(score=st.floats(-900, 900), fall=st.floats(-30, 30), exponent=st.integers(0, 320))
def test_mean_slope(name, score, fall, exponent):
    fall = fall * 10.0**-exponent
    with mpmath.workdps(1200):
        g, x = mpmath.mpf(score), mpmath.mpf(fall)
        exact = (FORMULA[name](g - x) - FORMULA[name](g)) / x if x else SLOPE[name](g)
        expected = float(mpmath.log(exact))
    assert LOSSES[name].log_mean_slope(score, fall) == pytest.approx(expected, rel=1e-14, abs=1e-15)


@names
@pytest.mark.parametrize(
    "score, fall",
    [
        (-13.0, -13.0),
        (-13.0, 13.0),
        (-5.0, -100.0),
        (0.3, -1e-5),
        (39.9, 0.99),
        (40.1, 350.0),
        (-40.1, -0.5),
        (-20.0, -750.0),
        (-700.0, -690.0),
        (-900.0, -1500.0),
        (700.0, 1500.0),
        (900.0, 6000.0),
        (-5000.0, 3e-7),
    ],
)
def test_mean_slope_where_differences_cancel(name, score, fall):
    """log1p(expm1(fall) sigmoid(-score)) lost five digits at the first."""
    with mpmath.workdps(30 + int(abs(score) + abs(fall))):
        g, x = mpmath.mpf(score), mpmath.mpf(fall)
        expected = float(mpmath.log((FORMULA[name](g - x) - FORMULA[name](g)) / x))
    assert LOSSES[name].log_mean_slope(score, fall) == pytest.approx(expected, rel=3e-15, abs=5e-16)


@names
@given(lo=st.floats(-5, 5), width=st.floats(0, 5), at=st.floats(0, 1))
def test_constants_bound(name, lo, width, at):
    loss = LOSSES[name]
    M0, M1 = loss.constants(lo, lo + width)
    u = np.array([lo + at * width])
    slope = np.exp(loss.log_slopes(u))[0]
    assert slope <= M1 * (1 + 1e-12)
    assert abs(slope * loss.slope_rates(u)[0]) <= M0 * (1 + 1e-12)


def test_own_loss_by_quadrature_and_differences():
    """Without mean_slope and slope_rate, the built-in formulas are the oracle."""
    own = hm.LossFunction("own", LOSSES["logistic"].value, lambda u: -float(np.logaddexp(0, u)))
    for score, fall in ((0.3, 1e-9), (-2.0, 0.7), (1.0, -3.0), (0.0, 0.0), (900.0, 2.0)):
        assert own.log_mean_slope(score, fall) == pytest.approx(
            LOSSES["logistic"].log_mean_slope(score, fall), abs=1e-10
        )
    u = np.array([-3.0, 0.0, 2.0])
    np.testing.assert_allclose(own.slope_rates(u), LOSSES["logistic"].slope_rates(u), atol=1e-9)
    with pytest.raises(ValueError, match="has no constants"):
        hm.dynamics.smoothness(hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]], loss=own))


RISING = hm.LossFunction("rising", lambda u: u, lambda u: 0.0)
FALLING = {
    "negative": (hm.LossFunction("negative", np.negative, lambda u: 0.0), (-1.0, 2.0)),
    "copy": (hm.LossFunction("copy", LOSSES["logistic"].value, LOSSES["logistic"].log_slope), (800.0, 900.0)),
    "arctan": (
        hm.LossFunction("arctan", lambda u: np.pi / 2 - np.arctan(u), lambda u: -math.log1p(u * u)),
        (1e9, 2e9),
    ),
    "minus log": (hm.LossFunction("minus log", lambda u: -np.log(u), lambda u: -math.log(u)), (0.0, 1.0)),
    "square": (
        hm.LossFunction("square", lambda u: (1 - u) ** 2, lambda u: math.log(2 * abs(1 - u))),
        (-1.0, 0.9),
    ),
    "one point": (hm.LossFunction("one point", np.negative, lambda u: 0.0), (3.0, 3.0)),
}
NOT_FALLING = {
    "rising": (RISING, (-1.0, 1.0)),
    "rising at a point": (RISING, (1e9, 1e9)),
    "square": (
        hm.LossFunction("square", lambda u: (1 - u) ** 2, lambda u: math.log(2 * abs(1 - u))),
        (0.0, 1.1),
    ),
    "constant": (hm.LossFunction("constant", np.zeros_like, lambda u: 0.0), (0.0, 1.0)),
    "flat": (
        hm.LossFunction("flat", lambda u: np.maximum(-u, 0), lambda u: 0.0 if u < 0 else -math.inf),
        (-1.0, 1.0),
    ),
    "not a number": (hm.LossFunction("log", lambda u: -np.log(u), lambda u: -math.log(u)), (-1.0, 1.0)),
}


@pytest.mark.parametrize("case", FALLING)
def test_losses_that_decrease(case):
    loss, interval = FALLING[case]
    assert loss.decreases(*interval)


@pytest.mark.parametrize("case", NOT_FALLING)
def test_losses_that_do_not_decrease(case):
    loss, interval = NOT_FALLING[case]
    assert not loss.decreases(*interval)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_rising_loss_is_refused(compiled):
    """l(u) = u: only the size of its slope was looked at, and the risk rose under descent."""
    loss = hm.LossFunction("rising", lambda u: u, njit(lambda u: 0.0)) if compiled else RISING
    tokens = [[[1.0, 0.0], [0.0, 1.0]]]
    problem = hm.Problem.from_tokens(tokens, [1], [1.0, 0.0], loss=loss)
    for verb in (
        lambda problem: hm.train(problem, hm.optim.Normalized(0.1)),
        hm.flow,
        lambda problem: hm.train(problem.joint(), hm.optim.Normalized(0.1)),
        lambda problem: hm.gradient(problem, None),
        lambda problem: hm.dynamics.hessian(problem, None),
        lambda problem: hm.train(problem.matrix(prompt=[1.0, 0.0]), hm.optim.Normalized(0.1)),
        lambda problem: hm.limits.regularization_path(problem, [1.0, 2.0]),
    ):
        with pytest.raises(ValueError, match="loss 'rising' must decrease on the range of the predictions"):
            verb(problem)
    assert hm.loss(problem, [0.0, 0.0]) == 0.5
    bent = hm.Problem.from_psi(
        tokens, tokens, [1], lambda z: z[:, 0], lambda z: np.array([[1.0, 0.0]]), loss=loss
    )
    with pytest.raises(ValueError, match="must decrease"):
        hm.train(bent, hm.optim.Normalized(0.1))


@pytest.mark.parametrize("name", [*FORMULA, "own"])
def test_the_risk_falls_under_small_steps(name):
    loss = LOSSES.get(name) or FALLING["square"][0]
    rng = np.random.default_rng(3)
    problem = hm.Problem(rng.normal(size=(3, 4, 2)), rng.uniform(-1, 0.9, size=(3, 4)), loss=loss)
    risks = hm.train(problem, hm.optim.GD(0.01), steps=50, record=1).losses
    assert (np.diff(risks) < 0).all()


def test_refusals():
    with pytest.raises(ValueError, match="loss must be one of"):
        as_loss("hinge")
    with pytest.raises(ValueError, match="log_slope must be callable"):
        hm.LossFunction("bad", np.negative, 3.0)
    assert math.isclose(as_loss("logistic").log_slope(800.0), -800.0)
