"""Paths do not depend on the units of the keys: powers of two change no digit."""

from functools import cache

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits import joint_path, late_residual, local_path, regularization_path
from hardmax.margin.att_svm import max_margin

POWERS = (-530, -40, 1, 530)


def keys_of(name, c):
    base = hm.data.example(name)
    return base, hm.Problem(np.array(base.split(base.keys * c)), np.array(base.split(base.scores)))


@pytest.mark.parametrize("power", POWERS)
def test_regularization_path(power):
    c = 2.0**power
    base, scaled = keys_of("B-FIG-8", c)
    expected = regularization_path(base, [10.0, 100.0], starts=2)
    path = regularization_path(scaled, np.array([10.0, 100.0]) / c, starts=2)
    np.testing.assert_array_equal(path.points * c, expected.points)
    np.testing.assert_array_equal(path.log_excess, expected.log_excess)
    np.testing.assert_array_equal(path.directions, expected.directions)
    assert path.is_reliable.all()
    assert path.angle([1.0, 3.0])[-1] == pytest.approx(np.radians(0.1533), rel=1e-3)


@cache
def unscaled_local_path():
    return local_path(hm.data.example("B-FIG-1b"), [1.0, 0.0], mu=2e-4, R0=20.0, radii=[50.0, 200.0])


@pytest.mark.parametrize("power", POWERS)
def test_local_path(power):
    c, expected = 2.0**power, unscaled_local_path()
    _, scaled = keys_of("B-FIG-1b", c)
    path = local_path(scaled, [1.0, 0.0], mu=2e-4, R0=20.0 / c, radii=np.array([50.0, 200.0]) / c)
    np.testing.assert_array_equal(path.points * c, expected.points)
    assert path.tends_to_q
    assert expected.tends_to_q


@cache
def unscaled_joint_path():
    return joint_path(hm.data.example("B-FIG-3a"), [5.0], rho=1.0, starts=2)


@pytest.mark.parametrize("power", [-530, 3, 530])
def test_joint_path(power):
    """Keys times a, values times b: p over a, v over b, rho times a/b."""
    a, b = 2.0**power, 2.0 ** (power // 2)
    base = hm.data.example("B-FIG-3a")
    head = base.readout
    parts = [np.array(base.split(x)) for x in (base.keys * a, head.values * b)]
    scaled = hm.Problem.from_values(*parts, head.labels, head.v / b)
    expected = unscaled_joint_path()
    path = joint_path(scaled, [5.0 / a], rho=a / b, starts=2)
    np.testing.assert_array_equal(path.points * a, expected.points)
    np.testing.assert_array_equal(path.v_points * b, expected.v_points)
    np.testing.assert_array_equal(path.log_risk, expected.log_risk)


@pytest.mark.parametrize("power", [-500, -40, 1, 500])
def test_late_residual(power):
    """Up to there the multipliers, which scale with the square, are floats."""
    c = 2.0**power
    base, scaled = keys_of("B-FIG-8", c)
    expected = late_residual(base, max_margin(base, [0, 0]))
    late = late_residual(scaled, max_margin(scaled, [0, 0]))
    assert late.status == expected.status == "independent"
    np.testing.assert_allclose(late.w * c, expected.w, rtol=1e-9)
    assert late.eta_c * c == pytest.approx(expected.eta_c, rel=1e-9)
    path = hm.flow(scaled, until_norm=1e3 / c)
    assert late.compare(path).distances[-1] * c < 1e-6
