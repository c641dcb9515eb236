"""Losses against mpmath: slopes, rates, constants, and the mean slope over a fall."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.heads import LOSSES, as_loss

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
names = pytest.mark.parametrize("name", list(LOSSES))


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
    assert LOSSES[name].log_mean_slope(score, fall) == pytest.approx(expected, rel=1e-11, abs=1e-12)


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
    own = hm.Loss("own", LOSSES["logistic"].value, lambda u: -float(np.logaddexp(0, u)))
    for score, fall in ((0.3, 1e-9), (-2.0, 0.7), (1.0, -3.0), (0.0, 0.0), (900.0, 2.0)):
        assert own.log_mean_slope(score, fall) == pytest.approx(
            LOSSES["logistic"].log_mean_slope(score, fall), abs=1e-10
        )
    u = np.array([-3.0, 0.0, 2.0])
    np.testing.assert_allclose(own.slope_rates(u), LOSSES["logistic"].slope_rates(u), atol=1e-9)
    with pytest.raises(ValueError, match="has no constants"):
        hm.smoothness(hm.Problem.from_scores([[[1.0], [0.0]]], [[1.0, 0.0]], loss=own))


def test_refusals():
    with pytest.raises(ValueError, match="loss must be one of"):
        as_loss("hinge")
    with pytest.raises(ValueError, match="log_slope must be callable"):
        hm.Loss("bad", np.negative, 3.0)
    assert math.isclose(as_loss("logistic").log_slope(800.0), -800.0)
