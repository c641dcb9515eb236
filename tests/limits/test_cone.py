"""Which directions attract a cone-restricted path (B-THM-4)."""

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.directions.enumerate import selections
from hardmax.limits import local_path
from hardmax.limits.searching import Landscape, minimize
from hardmax.margin.att_svm import max_margin

CONE = {"mu": 2e-4, "R0": 20.0, "radii": [50.0, 200.0, 1000.0]}
HALF = 1.14593469  # degrees


def turned(q: np.ndarray, angle: float) -> np.ndarray:
    a = math.radians(angle)
    return np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) @ q


def direction(token: int) -> np.ndarray:
    found = max_margin(hm.data.example("B-FIG-1b"), [token]).direction
    assert found is not None
    return found


@pytest.mark.parametrize("token, first", [(1, 0.044637), (0, 0.037888)])
@pytest.mark.no_cover
def test_locally_optimal_directions_attract(token: int, first: float) -> None:
    path = local_path(hm.data.example("B-FIG-1b"), direction(token), **CONE)
    np.testing.assert_allclose(path.norms, CONE["radii"], rtol=1e-12)
    np.testing.assert_allclose(np.degrees(path.angles), [first, 0, 0], atol=2e-6)
    assert path.tends_to_q
    assert not path.is_bounded
    assert np.degrees(path.half_angle) == pytest.approx(HALF)


def test_the_scan_agrees_with_newton_on_the_sphere() -> None:
    landscape = Landscape(hm.data.example("B-FIG-1b"), [1], basis=np.eye(2))
    end = minimize(landscape.expanded, np.array([50.0, 0.1]), 50.0)
    path = local_path(hm.data.example("B-FIG-1b"), [1.0, 0.0], mu=2e-4, R0=20.0, radii=[50.0])
    assert np.linalg.norm(path.points[0] - end.p) < 1e-5
    assert path.log_excess[0] == pytest.approx(end.value, abs=1e-9)


@pytest.mark.no_cover
def test_a_selection_that_is_not_locally_optimal_keeps_the_path_back() -> None:
    path = local_path(hm.data.example("B-FIG-1b"), direction(2), **CONE)
    np.testing.assert_allclose(path.norms, 20.0, rtol=1e-9)
    assert path.sign.tolist() == [-1, -1, -1]
    assert path.is_bounded
    assert not path.tends_to_q


@pytest.mark.parametrize("token, angle", [(0, 5.0), (1, 3.0)])
@pytest.mark.no_cover
def test_other_directions_lose_the_path_to_the_rim(token: int, angle: float) -> None:
    path = local_path(hm.data.example("B-FIG-1b"), turned(direction(token), angle), **CONE)
    np.testing.assert_allclose(np.degrees(path.angles), HALF, rtol=1e-6)
    assert not path.tends_to_q


@pytest.mark.no_cover
def test_a_tie_is_broken_towards_the_better_token() -> None:
    problem = hm.data.example("B-FIG-1b")
    q = np.array([1.0, 1.1]) / math.hypot(1.0, 1.1)  # tokens 0 and 1 tie, 0 scores higher
    path = local_path(problem, q, **CONE)
    assert hm.selected_tokens(problem, path.points[-1]).tokens == (0,)
    assert not path.tends_to_q


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.no_cover
def test_four_dimensions(seed: int) -> None:
    problem = hm.data.gaussian(n=3, T=4, d=4, rng=seed)
    found = sorted(selections(problem), key=lambda each: -each.max_margin.margin)
    for each in [
        next(f for f in found if f.attracts.verdict),
        next(f for f in found if not f.attracts.verdict),
    ]:
        norm = each.max_margin.p_norm
        path = local_path(problem, each.direction, mu=2e-4, R0=20 * norm, radii=[50 * norm, 1000 * norm])
        assert path.tends_to_q == each.attracts.verdict
        if each.attracts.verdict:
            np.testing.assert_allclose(path.norms, path.radii, rtol=1e-9)
        else:
            assert path.sign[-1] == -1
            assert path.norms[-1] < 60 * norm


def test_one_dimension() -> None:
    problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    best, worst = (local_path(problem, [q], mu=0.1, R0=1.0, radii=[2.0, 50.0]) for q in (1.0, -1.0))
    assert best.points.ravel() == pytest.approx([2.0, 50.0])
    assert worst.points.ravel() == pytest.approx([-1.0, -1.0])
    assert best.tends_to_q
    assert worst.is_bounded


def test_refusals() -> None:
    problem = hm.data.example("B-FIG-1b")
    with pytest.raises(ValueError, match="q is zero"):
        local_path(problem, [0.0, 0.0], **CONE)
    with pytest.raises(ValueError, match="at least R0"):
        local_path(problem, [1.0, 0.0], mu=1e-3, R0=20.0, radii=[10.0])
    with pytest.raises(ValueError, match="mu must lie"):
        local_path(problem, [1.0, 0.0], mu=1.5, R0=20.0, radii=[30.0])
