"""The index theorem of attention on random problems, and that the check has power (B-NEW-4)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits.stationary import DescentField, degree, stationary_points
from hardmax.papers.max_margin import paths

from .soundness_index import draw, verdicts


@pytest.mark.parametrize("d, count", [(2, 9), (3, 3)])
def test_random_problems(d: int, count: int) -> None:
    """A few of the 1,000 planar and 50 spatial problems of soundness_index.py; none fails."""
    seen = [check.verdict for _, check in verdicts(d, count)]
    assert "fails" not in seen
    assert seen.count("holds") >= count - 2  # an input alone may leave nothing to select


def test_one_direction_too_few_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted error: infinity without one of its saddles is refuted by the winding number."""
    found = hm.critical_directions(hm.data.example("B-FIG-1b"))
    monkeypatch.setattr(
        paths, "critical_directions", lambda *_, **__: replace(found, directions=found.directions[:-1])
    )
    check = hm.check_statement("B-NEW-4", hm.data.example("B-FIG-1b"))
    assert check.verdict == "fails"
    assert check.witness == [0, [0, 0]]


def test_a_missing_finite_point_is_said_and_is_no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "stationary_points", lambda *a: stationary_points(*a)[1:])
    check = hm.check_statement("B-NEW-4", hm.data.gaussian(n=4, T=4, d=2, rng=13))
    assert check.verdict == "undecided"
    assert check.measured["Q"] == "a stationary point is missing"


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_finite_points_are_stationary_and_their_index_is_that_of_the_hessian(seed: int) -> None:
    problem = draw(2, seed)
    found = hm.critical_directions(problem)
    for each in stationary_points(DescentField(problem), 100.0, found.corners):
        assert np.linalg.norm(hm.gradient(problem, each.p).vector) < 1e-12
        curvatures = np.linalg.eigvalsh(hm.dynamics.hessian(problem, each.p))
        assert (curvatures < 0).sum() == each.index


def test_degree_counts_what_is_inside() -> None:
    """Circles through the plane of one problem: the degree changes by the index of each point passed."""
    problem = hm.data.gaussian(n=4, T=4, d=2, rng=13)
    found = hm.critical_directions(problem)
    points = stationary_points(DescentField(problem), 1000.0, found.corners)
    radii = [float(np.linalg.norm(each.p)) for each in points]
    for k, (inner, outer) in enumerate(zip(radii, [*radii[1:], 2 * radii[-1]], strict=True)):
        inside = sum((-1) ** each.index for each in points[: k + 1] if each.index is not None)
        assert degree(DescentField(problem), 0.5 * (inner + outer), found.corners) == inside


def test_field_is_the_gradient() -> None:
    problem = hm.data.gaussian(n=3, T=4, d=3, rng=2)
    field = DescentField(problem)
    points = np.random.default_rng(0).normal(size=(20, 3)) * np.logspace(-1, 5, 20)[:, None]
    for p, there in zip(points, field.at(points * field.unit), strict=True):
        assert np.abs(hm.gradient(problem, p).direction - there).max() < 1e-9


def scaled(c: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda keys: c * keys


@pytest.mark.parametrize("change", [scaled(2.0**-400), scaled(2.0**400), scaled(0.3), lambda k: k + 7.0])
def test_scale_and_shift_change_nothing(change: Callable[[np.ndarray], np.ndarray]) -> None:
    problem = hm.data.gaussian(n=3, T=3, d=2, rng=3)
    keys, scores = problem.keys.reshape(3, 3, 2), problem.scores.reshape(3, 3)

    def seen(k: Any) -> tuple[str, Any, Any]:
        check = hm.check_statement("B-NEW-4", hm.Problem(k, scores))
        return check.verdict, check.measured["indices at infinity"], check.measured["their indices"]

    assert seen(change(keys)) == seen(keys)
    assert seen(keys)[0] == "holds"


@pytest.mark.parametrize(
    "indices, wanted", [([0], [0]), ([0, 0, 1], [1, 0]), ([1], [-1, 2]), ([0, 1], [0, 1])]
)
def test_morse_quotient(indices: list[int], wanted: list[int]) -> None:
    assert paths.morse_quotient(indices) == wanted
