"""Joint paths of v and p: the angles of B-THM-5, B-THM-6 and B-NEW-1."""

from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits import joint_path


def polar(points: np.ndarray) -> np.ndarray:
    return np.degrees(np.arctan2(points[:, 1], points[:, 0]))


@pytest.mark.parametrize(
    "coupling, expected",
    [
        ({"rho": 1.0}, [11.82, 12.45, 13.16, 13.43]),
        ({"r": 2.0}, [12.28, 12.92, 13.45, 13.64]),
        ({"rho": 3.0}, [12.07, 12.36, 13.13, 13.42]),
    ],
)
@pytest.mark.no_cover
def test_all_inputs_support(coupling: dict[str, float], expected: list[float]) -> None:
    path = joint_path(hm.data.example("B-FIG-3a"), [5, 10, 20, 30], **coupling)
    np.testing.assert_allclose(polar(path.points), expected, atol=5.1e-3)
    assert (np.abs(polar(path.points) - np.degrees(np.arctan(0.25))) <= 20 / path.radii).all()
    assert (path.agreeing >= 2).all()
    assert path.agreement.max() <= 1e-6
    if coupling == {"rho": 1.0}:
        np.testing.assert_allclose(polar(path.v_points), [88.10, 88.88, 89.40, 89.59], atol=5.1e-3)
        assert (np.degrees(path.head_angle([0.0, 1.0])) <= 20 / path.radii).all()


@pytest.mark.no_cover
def test_both_norms_are_used_up() -> None:
    path = joint_path(hm.data.example("B-FIG-3a"), [5, 20], rho=3.0)
    np.testing.assert_allclose(np.linalg.norm(path.points, axis=1), [5, 20], rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(path.v_points, axis=1), [15, 60], rtol=1e-12)


@pytest.mark.parametrize("rho, expected", [(3.0, [0.0, 0.0, 0.0]), (1.5, [0.476, 0.0205, 0.0011])])
@pytest.mark.no_cover
def test_a_growing_head_leads_to_the_relaxed_svm(rho: float, expected: list[float]) -> None:
    path = joint_path(hm.data.example("B-FIG-3b"), [10, 20, 30], rho=rho)
    np.testing.assert_allclose(np.degrees(path.angle([1.0, 0.0])), expected, atol=5e-4)


@pytest.mark.parametrize(
    "rho, expected", [(0.1, 10.61), (0.25, 8.95), (0.5, 6.19), (0.75, 3.43), (1.0, 0.94), (1.5, 0.0)]
)
def test_the_ratio_of_the_norms_decides(rho: float, expected: float) -> None:
    path = joint_path(hm.data.example("B-FIG-3b"), [30], rho=rho)
    assert polar(path.points)[0] == pytest.approx(expected, abs=5.1e-3)


@pytest.mark.no_cover
def test_a_fixed_head_leads_to_p_mm() -> None:
    path = joint_path(hm.data.example("B-FIG-3b"), [10, 20, 30, 35], r=2.0)
    np.testing.assert_allclose(polar(path.points), [10.48, 10.87, 11.01, 11.05], atol=5.1e-3)


def test_far_beyond_the_digits_of_the_risk(oracles: dict[str, dict[str, Any]]) -> None:
    limits = oracles["b"]["fig3_svms"]["b"]["rho_interpolated_limit_angle_deg"]
    limit = next(each["angle_deg"] for each in limits if each["rho"] == 0.5)
    path = joint_path(hm.data.example("B-FIG-3b"), [30, 100, 300], rho=0.5)
    error = np.abs(polar(path.points) - limit)
    np.testing.assert_allclose(error * path.radii, error[-1] * 300, rtol=0.02)
    assert error[-1] < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("rho, limit, chosen", [(1.0, 39.8, (1, 1, 1)), (8.0, 26.6, (1, 1, 0))])
@pytest.mark.no_cover
def test_the_ratio_may_decide_the_selection(rho: float, limit: float, chosen: tuple[int, ...]) -> None:
    tokens = [[[0, 0], [1, 1]], [[0, 0], [2, -1]], [[1.6, 1.2], [0.6, 2.4]]]
    problem = hm.Problem.from_tokens(tokens, labels=[1, -1, 1], readout=[0.0, 1.0])
    path = joint_path(problem, [10, 20, 30], rho=rho)
    assert hm.selected_tokens(problem, path.points[-1]).tokens == chosen
    assert abs(polar(path.points)[-1] - limit) <= 20 / 30


def test_inseparable_labels_keep_the_head_finite() -> None:
    tokens = [[[1.0, 0.0]], [[-1.0, 0.5]], [[0.0, -1.0]]]
    problem = hm.Problem.from_tokens(tokens, labels=[1, 1, 1], readout=[1.0, 0.0])
    v = joint_path(problem, [10.0], r=50.0).v_points[0]
    Z = np.array([rows[0] for rows in tokens])
    assert np.linalg.norm(v) < 5
    np.testing.assert_allclose((1 / (1 + np.exp(Z @ v))) @ Z, 0, atol=1e-9)


def test_refusals() -> None:
    problem = hm.data.example("B-FIG-3a")
    with pytest.raises(ValueError, match="exactly one of rho"):
        joint_path(problem, [10.0])
    with pytest.raises(ValueError, match="exactly one of rho"):
        joint_path(problem, [10.0], rho=1.0, r=1.0)
    with pytest.raises(ValueError, match="at most 10000"):
        joint_path(problem, [10.0], r=1e4)
    with pytest.raises(ValueError, match="values, labels"):
        joint_path(hm.data.example("B-FIG-8"), [10.0], rho=1.0)
    with pytest.raises(ValueError, match="at least one radius"):
        joint_path(problem, [], rho=1.0)
