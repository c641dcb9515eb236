"""Global paths: the angles of B-THM-1, the offset of B-NEW-2, B-THM-8 and the case without a separator."""

from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits import regularization_path
from hardmax.limits.late import path_offset
from hardmax.limits.searching import Landscape, scan_circle
from hardmax.margin.att_svm import max_margin

RADII = [1, 3, 10, 30, 100, 300, 1e3, 1e4]

# Degrees between p(R) and p_mm, as measured for the specification.
ANGLES = {
    "B-FIG-1a": [20.46, 14.29, 6.249, 1.369, 0.0027, 0, 0, 0],
    "B-FIG-1b": [14.18, 1.978, 1.553, 0.250, 0.0003, 0, 0, 0],
    "B-FIG-1c": [17.05, 10.08, 2.699, 1.117, 1.015, 0.2655, 0.0720, 0.0075],
    "B-FIG-8": [27.72, 7.423, 1.585, 0.5092, 0.1533, 0.0511, 0.0153, 0.0015],
}


@pytest.fixture
def figure(oracles: dict[str, dict[str, Any]]) -> Any:
    def make(name: str, loss: str = "logistic", shift: float = 0.0) -> hm.Problem:
        if name == "B-FIG-1c":
            data = oracles["b"]["att_svm"]["fig1c"]
            return hm.Problem(data["K"], data["gamma"], loss)
        problem = hm.data.example(name, loss)
        keys, scores = problem.split(problem.keys[problem.tokens]), problem.split(problem.scores)
        return hm.Problem(keys, [s + shift for s in scores], loss)

    return make


def degrees(path: Any) -> np.ndarray:
    return np.degrees(path.angle(path.target.minimizers[0]))


@pytest.mark.parametrize("name", ANGLES)
@pytest.mark.no_cover
def test_angles_of_theorem_1(name: str, figure: Any) -> None:
    path = regularization_path(figure(name), RADII)
    np.testing.assert_allclose(degrees(path), ANGLES[name], rtol=2e-3, atol=5.1e-5)
    assert path.is_reliable.all()
    assert not path.interior.any()
    assert path.agreement.max() <= 1e-6
    np.testing.assert_allclose(np.linalg.norm(path.points, axis=1), RADII, rtol=1e-14)


@pytest.mark.no_cover
def test_oracle_of_figure_8(oracles: dict[str, dict[str, Any]]) -> None:
    oracle = oracles["b"]["regularisation_path_fig8"]
    radii = [float(R) for R in oracle["angles_to_gmm_deg"]]
    path = regularization_path(hm.data.example("B-FIG-8"), radii)
    expected = [float(x) for x in oracle["angles_to_gmm_deg"].values()]
    np.testing.assert_allclose(degrees(path), expected, rtol=1e-9)
    far = regularization_path(hm.data.example("B-FIG-8"), [1e5])
    offset = far.points[0] - 1e5 * np.array([1.0, 3.0]) / np.sqrt(10)
    np.testing.assert_allclose(offset, [float(x) for x in oracle["first_order_offset_w"]], atol=1e-6)


@pytest.mark.parametrize("loss", ["exponential", "correlation"])
def test_one_support_row_gives_the_same_path_for_every_loss(loss: str, figure: Any) -> None:
    path = regularization_path(figure("B-FIG-1a", loss), [30, 300])
    np.testing.assert_allclose(degrees(path), [1.369, 0], rtol=6e-4, atol=1e-6)


def test_negative_scores_change_the_head_of_the_path_only(figure: Any) -> None:
    path = regularization_path(figure("B-FIG-8", shift=-3.0), [1e3, 1e4])
    w = path_offset(path.problem, max_margin(path.problem))
    np.testing.assert_allclose(degrees(path), np.degrees(np.linalg.norm(w) / path.radii), rtol=2e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
@pytest.mark.no_cover
def test_the_angle_falls_below_twice_the_offset_over_the_radius(seed: int, loss: str) -> None:
    problem = hm.data.gaussian(n=3, T=4, d=5, rng=seed, loss=loss)
    best = max_margin(problem)
    path = regularization_path(problem, np.array([10, 30, 100, 300, 1000]) * best.p_norm)
    angles = path.angle(best)
    assert (np.diff(angles) < 0).all()
    w = np.linalg.norm(path_offset(problem, best))
    assert (angles[1:] <= np.maximum(2 * w / path.radii[1:], 1e-6)).all()


def test_first_order_correction() -> None:
    problem = hm.data.gaussian(n=3, T=4, d=5, rng=0)
    best = max_margin(problem)
    w = path_offset(problem, best)
    path = regularization_path(problem, np.array([30, 100, 300, 1000]) * best.p_norm)
    left = [np.linalg.norm(p - R * best.direction - w) for p, R in zip(path.points, path.radii, strict=True)]
    np.testing.assert_allclose(left[0], 2.4e-2, rtol=0.02)
    np.testing.assert_allclose(left[-1], 7.3e-4, rtol=0.02)
    assert path.is_reliable.all()


def test_far_out_in_ten_dimensions() -> None:
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    best = max_margin(problem)
    path = regularization_path(problem, [1e4 * best.p_norm])
    w = path_offset(problem, best)
    left = path.points[0] - path.radii[0] * best.direction - w
    assert np.linalg.norm(left) < 1e-2 * np.linalg.norm(w)
    assert path.agreement[0] <= 1e-6
    assert path.log_excess[0] == pytest.approx(-1e4, rel=1e-2)


def test_more_dimensions_than_differences() -> None:
    small = hm.data.example("B-FIG-8")
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 2)))
    keys = [rows @ turn.T + 5.0 for rows in small.split(small.keys[small.tokens])]
    path = regularization_path(hm.Problem(keys, small.split(small.scores)), [30.0])
    assert np.degrees(path.angle(turn @ [1.0, 3.0]))[0] == pytest.approx(0.5092214235, rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.no_cover
def test_several_best_tokens(seed: int) -> None:
    keys = np.random.default_rng(seed).normal(size=(2, 4, 2))
    problem = hm.Problem(keys, [[1, 1, 0, 0]] * 2)
    norm = regularization_path(problem, [1.0]).target.p_norm
    path = regularization_path(problem, np.array([10, 100, 1e3, 1e4]) * norm)
    distance = np.degrees(np.min([path.angle(p) for p in path.target.minimizers], axis=0))
    assert (np.diff(distance) < 0).all()
    assert distance[0] < 2.5
    assert distance[-1] < 4e-3
    assert distance[-1] == pytest.approx(distance[-2] / 10, rel=0.1)


@pytest.mark.parametrize("second, expected", [(1.0, 0.0), (2.0, -0.69209)])
def test_without_a_separator_the_path_stays_inside(second: float, expected: float) -> None:
    problem = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [second, 0]])
    path = regularization_path(problem, [0.1, 10.0, 1000.0])
    assert path.points[1:, 0] == pytest.approx([expected] * 2, abs=5e-6)
    assert path.interior.tolist() == [expected == 0.0, True, True]
    assert path.target.p_norm == np.inf


def test_without_a_separator_the_risk_may_still_fall_for_ever() -> None:
    problem = hm.data.sphere(n=4, T=6, d=2, rng=2)
    path = regularization_path(problem, [100.0, 1000.0])
    chosen = hm.selected_tokens(problem, path.points[1])
    best = max_margin(problem, chosen)
    assert path.target.p_norm == np.inf
    assert not path.interior.any()
    assert path.is_reliable.all()
    assert path.angle(best)[1] < 1e-2


@pytest.mark.no_cover
def test_the_global_grid_agrees_with_newton() -> None:
    problem = hm.data.example("B-FIG-8")
    landscape = Landscape(problem, [0, 0])
    for R in (1.0, 30.0, 1000.0):
        scanned = landscape.lift(scan_circle(landscape, R))
        found = regularization_path(problem, [R]).points[0]
        assert np.linalg.norm(scanned - found) / R < 1e-7


def test_the_point_of_least_risk_is_below_every_sampled_one() -> None:
    problem = hm.data.gaussian(n=3, T=4, d=4, rng=5)
    path = regularization_path(problem, [4.0])
    p = np.random.default_rng(0).normal(size=(4000, 4))
    p *= (
        4.0
        * np.random.default_rng(1).uniform(size=(4000, 1)) ** 0.1
        / np.linalg.norm(p, axis=1, keepdims=True)
    )
    landscape = Landscape(problem, [int(np.argmax(s)) for s in problem.split(problem.scores)])
    assert path.log_excess[0] <= landscape.excess(p @ landscape.basis)[1].min()


@pytest.mark.parametrize("name", ["two-inputs", "three-inputs", "space-a"])
def test_in_a_tiny_ball_the_gradient_at_zero_decides(name: str) -> None:
    problem = hm.data.example(name)
    radii = [5e-324, 1e-300, 1e-160, 1e-20, 1e-15, 1e-13, 1e-8]
    path = regularization_path(problem, radii)
    descent = hm.gradient(problem, np.zeros(problem.d)).direction
    assert path.cosine_distances(descent)[1:] == pytest.approx(0.0, abs=1e-14)
    assert path.is_reliable.all()


def test_order_of_radii_and_repetition_do_not_matter() -> None:
    problem = hm.data.example("B-FIG-8")
    path = regularization_path(problem, [100, 3, 100])
    np.testing.assert_allclose(degrees(path), [0.153287215493, 7.42263249237, 0.153287215493], rtol=1e-9)


def test_refusals() -> None:
    problem = hm.data.example("B-FIG-8")
    with pytest.raises(ValueError, match="radii"):
        regularization_path(problem, [])
    with pytest.raises(ValueError, match="radii must be a positive number"):
        regularization_path(problem, [-1.0])
    with pytest.raises(ValueError, match="scores below another"):
        regularization_path(hm.Problem([[[1.0], [0.0]]], [[1.0, 1.0]]), [1.0])
