"""The batched excess risk against the one of the dynamics, its derivatives, and the minimizer on spheres."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits.searching import Expanded, Landscape, minimize


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
@pytest.mark.parametrize("selection", [(0, 1, 2), (3, 3, 0)])
def test_excess_of_many_points_is_the_excess_of_each(loss: str, selection: tuple[int, ...]) -> None:
    problem = hm.data.gaussian(n=3, T=4, d=5, rng=7, loss=loss)
    landscape = Landscape(problem, selection)
    points = (
        np.random.default_rng(0).normal(size=(8, 5)) * np.array([0.1, 1, 3, 10, 30, 100, 1e3, 1e4])[:, None]
    )
    sign, log = landscape.excess(points @ landscape.basis)
    for k, p in enumerate(points):
        expected = hm.dynamics.excess_loss(problem, p, selection)
        assert sign[k] == expected.sign
        assert log[k] == pytest.approx(expected.log, rel=1e-9, abs=1e-9)


def test_a_selection_that_p_makes_is_approached_from_above_or_below_by_its_neighbours() -> None:
    problem = hm.data.example("B-FIG-1b")
    above, below = Landscape(problem, [1]), Landscape(problem, [2])
    assert above.excess(np.array([[50.0, 0.0]]) @ above.basis)[0] == 1
    assert below.excess(np.array([[-50.0, -55.0]]) @ below.basis)[0] == -1


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradient_and_hessian_of_the_log_excess(scale: float) -> None:
    problem = hm.data.gaussian(n=3, T=4, d=3, rng=1)
    landscape = Landscape(problem, hm.selected_tokens(problem, [1.0, 2.0, 3.0]).tokens)
    p = scale * np.array([0.6, -0.5, 0.3])
    at, h = landscape.expanded(p), 1e-5
    steps = h * np.eye(3)
    slope = [(landscape.log_excess(p + e) - landscape.log_excess(p - e)) / (2 * h) for e in steps]
    bend = [
        (landscape.expanded(p + e).gradient - landscape.expanded(p - e).gradient) / (2 * h) for e in steps
    ]
    np.testing.assert_allclose(at.gradient, slope, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(at.hessian, bend, rtol=1e-6, atol=1e-7)


def test_least_orders_by_the_risk_itself() -> None:
    problem = hm.data.example("B-FIG-1b")
    landscape = Landscape(problem, [2])
    points = np.random.default_rng(1).normal(size=(50, 2)) * 3
    risks = [hm.loss(problem, p) for p in points @ landscape.basis.T]
    assert landscape.least(points) == np.argmin(risks)


def test_newton_finds_the_lowest_eigenvector_on_a_sphere() -> None:
    draw = np.random.default_rng(2).normal(size=(6, 6))
    A = draw @ draw.T
    end = minimize(lambda x: Expanded(float(x @ A @ x) / 2, A @ x, A), np.ones(6), 2.0)
    values, vectors = np.linalg.eigh(A)
    assert end.value == pytest.approx(2.0 * values[0], rel=1e-12)
    assert abs(end.p @ vectors[:, 0]) == pytest.approx(2.0, rel=1e-12)


def test_newton_finds_a_free_minimum() -> None:
    A, b = np.diag([1.0, 1e4, 1e-3]), np.array([1.0, 2.0, 3.0])
    end = minimize(lambda x: Expanded(float(x @ A @ x) / 2 - b @ x, A @ x - b, A), np.zeros(3))
    np.testing.assert_allclose(end.p, b / np.diag(A), rtol=1e-10)
