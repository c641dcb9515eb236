"""Two thousand problems whose truth is known by construction: no wrong verdict, none undecided."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from hardmax.margin.certificates import certify
from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import refute
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import _refute, solve

from .conftest import contradictory, dot, planted


def agrees(best: MaxMargin, p: list[Fraction], rows: np.ndarray) -> None:
    assert best.status == "certified"
    square = dot(p, p)
    lower, upper = (Fraction(x) for x in best.margin_interval)
    assert lower**2 * square <= 1 <= upper**2 * square, "the interval misses the true margin"
    assert upper - lower <= Fraction(1, 10**9) * upper
    assert best.kkt <= 1e-9
    truth = np.array([float(x) for x in p])
    assert np.abs(best.p - truth).max() <= 1e-7 * np.abs(truth).max()
    reach = [dot(row, p) for row in rows.tolist()]
    assert best.tight.tolist() == [r == 1 for r in reach]


SHAPES = [(4, 2), (6, 3), (12, 3), (12, 10), (6, 40), (30, 4), (60, 8)]  # small, wide, tall


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.no_cover
def test_planted_solutions(shape: tuple[int, int]) -> None:
    m, d = shape
    rng = np.random.default_rng([1, m, d])
    seen = Counter()
    for _ in range(100):
        rows, p = planted(rng, m, d, k=int(rng.integers(1, 3)), tilt=0.25)
        best = solve(Constraints.dense(rows))
        agrees(best, p, rows)
        seen[best.arithmetic] += 1
    assert seen["float"] >= 90  # exact arithmetic is for the doubtful ones


@pytest.mark.parametrize("exponent", range(3, 10))
@pytest.mark.no_cover
def test_small_margins(exponent: int) -> None:
    """Margins of 1e-3 to 1e-9 relative to the rows, where float solvers give wrong verdicts."""
    rng = np.random.default_rng([2, exponent])
    tilt = 2.0 ** -round(exponent / np.log10(2))
    for _ in range(60):
        rows, p = planted(rng, int(rng.integers(4, 16)), int(rng.integers(2, 7)), k=2, tilt=tilt)
        agrees(solve(Constraints.dense(rows)), p, rows)


@pytest.mark.parametrize("exponent", range(3, 10))
@pytest.mark.no_cover
def test_just_infeasible(exponent: int) -> None:
    """The mirror image: the gap by which the rows fail to be separable is 1e-3 to 1e-9."""
    rng = np.random.default_rng([3, exponent])
    tilt = 2.0 ** -round(exponent / np.log10(2))
    for _ in range(30):
        rows, _ = planted(rng, int(rng.integers(4, 12)), int(rng.integers(2, 7)), k=2, tilt=tilt)
        center = rows[:, None, :] + rows[None, :, :]
        _, pair = min((np.abs(c).max(), tuple(c)) for c in center.reshape(-1, rows.shape[1]))
        rows = np.vstack([rows, -np.array(pair)])  # opposes the sum of two rows, exactly
        infeasible(Constraints.dense(rows))


def infeasible(constraints: Constraints) -> None:
    best = solve(constraints)
    assert best.status == "infeasible"
    assert best.margin_interval == (0.0, 0.0)
    verdict = certify(best.to_dict())
    assert verdict["valid"], verdict["violations"]
    assert verdict["what"].startswith("infeasible")


@pytest.mark.parametrize("shape", [(4, 2), (8, 3), (20, 5), (30, 10), (40, 3)], ids=str)
@pytest.mark.no_cover
def test_contradictions(shape: tuple[int, int]) -> None:
    m, d = shape
    rng = np.random.default_rng([4, m, d])
    for _ in range(60):
        infeasible(Constraints.dense(contradictory(rng, m, d, k=int(rng.integers(1, d + 1)))))


@pytest.mark.no_cover
def test_ties() -> None:
    """Equalities b.p = 0 with b orthogonal to the truth leave it optimal."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        d = int(rng.integers(3, 7))
        rows, p = planted(rng, int(rng.integers(4, 12)), d, k=1, tilt=0.25)
        u = np.array([float(x / max(map(abs, p))) for x in p])
        whole = np.array([int(x * 60 / max(map(abs, p))) for x in p], dtype=float)
        i, j = rng.choice(d, size=2, replace=False)
        tie = np.zeros(d)
        tie[i], tie[j] = whole[j], -whole[i]
        ties = np.array([tie, 2 * tie])[: int(rng.integers(1, 3))]  # sometimes dependent
        assert all(dot(t, p) == 0 for t in ties.tolist())
        assert u.any()
        constraints = Constraints.dense(rows, E=ties)
        best = solve(constraints)
        assert best.status == "certified"
        assert Fraction(best.margin_interval[0]) ** 2 * dot(p, p) <= 1
        assert np.abs(best.p - np.array([float(x) for x in p])).max() <= 1e-9 * max(map(float, map(abs, p)))


@pytest.mark.no_cover
def test_homogeneous_rows() -> None:
    """Rows >= 0: those the truth meets, strictly or with equality, change nothing."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        d = int(rng.integers(2, 7))
        rows, p = planted(rng, int(rng.integers(4, 12)), d, k=1, tilt=0.25)
        extra = rng.integers(-8, 9, size=(4, d)).astype(float)
        extra = np.array([row if dot(row, p) >= 0 else -row for row in extra])
        h = np.concatenate([np.ones(len(rows)), np.zeros(len(extra))])
        best = solve(Constraints.dense(np.vstack([rows, extra]), h))
        assert best.status == "certified"
        lower, upper = (Fraction(x) for x in best.margin_interval)
        assert lower**2 * dot(p, p) <= 1 <= upper**2 * dot(p, p)


@pytest.mark.parametrize("exponent", [5, 7, 9, 11])
@pytest.mark.no_cover
def test_thin_wedges(exponent: int) -> None:
    """Gaussian rows with a first coordinate of 10^-k to 2 10^-k: e_1 separates them, by at least 10^-k."""
    rng = np.random.default_rng([9, exponent])
    for m, d in ((60, 8), (80, 20)):
        rows = rng.normal(size=(m, d))
        rows[:, 0] = 10.0**-exponent * (1 + rng.random(m))
        best = solve(Constraints.dense(rows))
        assert best.status == "certified"
        assert best.margin_interval[1] >= rows[:, 0].min()
        assert certify(best.to_dict())["valid"]


def test_exact_agrees_with_float() -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        m, d = int(rng.integers(2, 25)), int(rng.integers(2, 12))
        X = rng.normal(size=(m, d))
        X *= np.sign(X @ rng.normal(size=d))[:, None]
        best, proof = solve(Constraints.dense(X)), solve(Constraints.dense(X), exact=True)
        assert proof.arithmetic == "exact"
        assert proof.exact is not None
        assert abs(best.p_norm / proof.p_norm - 1) <= 1e-12
        assert np.array_equal(best.tight, proof.tight)
        assert dot(proof.exact.p, proof.exact.p) == proof.exact.norm_squared


def test_large_problem_is_certified_and_large_contradiction_proved() -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 30))
    X *= np.sign(X @ rng.normal(size=30))[:, None]
    best = solve(Constraints.dense(X))
    assert best.is_certified
    assert best.kkt <= 1e-9
    tight = X[np.flatnonzero(best.multipliers)]
    assert (
        abs(solve(Constraints.dense(tight), exact=True).p_norm / best.p_norm - 1) <= 1e-12
    )  # the support alone
    assert (X @ best.p).min() >= 1 - 1e-9
    X = np.round(X * 1024) / 1024
    X[17] = -(X[3] + X[5])
    assert solve(Constraints.dense(X)).status == "infeasible"


def test_contradiction_hidden_among_suspects() -> None:
    """Four suspects with two dependencies, of which only one mix is a Farkas vector, in a large problem."""
    rng = np.random.default_rng(10)
    suspects = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    rows = np.vstack([suspects, np.abs(rng.integers(1, 9, size=(300, 2))).astype(float)])
    constraints = Constraints.dense(rows)
    assert refute(constraints, range(4)) is None
    proof = _refute(constraints, np.arange(4))
    assert proof is not None
    assert [j for j, weight in enumerate(proof.multipliers) if weight] == [2, 3]
    assert solve(constraints).status == "infeasible"
