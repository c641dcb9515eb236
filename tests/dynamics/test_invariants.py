"""Properties that hold on any data (hypothesis)."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm

seeds = st.integers(0, 2**32 - 1)
losses = st.sampled_from(["logistic", "exponential", "correlation"])


def ragged_problem(rng, d=None):
    d = d or int(rng.integers(1, 7))
    sizes = rng.integers(1, 6, size=int(rng.integers(1, 5)))
    keys = [rng.normal(size=(T, d)) for T in sizes]
    return keys, [rng.normal(size=T) for T in sizes], d


def draw(seed, loss):
    rng = np.random.default_rng(seed)
    keys, scores, d = ragged_problem(rng)
    p = rng.normal(size=d) * 10.0 ** rng.uniform(-2, 3.5)
    return rng, keys, scores, p, hm.Problem(keys, scores, loss=loss)


def assert_same_gradient(a, b, rotation=None):
    direction = a.direction if rotation is None else rotation @ a.direction
    if a.is_stationary or b.is_stationary:
        assert a.log_norm == b.log_norm
        return
    np.testing.assert_allclose(direction, b.direction, atol=1e-8)
    assert a.log_norm == pytest.approx(b.log_norm, rel=1e-11, abs=1e-8)


@given(seeds, losses)
@pytest.mark.no_cover
def test_gradient_against_exact_arithmetic(seed, loss):
    """The direction and the log norm, against 3,000 digits of the plain formula."""
    _, keys, scores, p, problem = draw(seed, loss)
    p = p / max(1.0, np.linalg.norm(p) / 500)  # gaps up to e^-6,000, within those digits
    with mpmath.workdps(3000):
        total = [mpmath.mpf(0)] * len(p)
        for K, gamma in zip(keys, scores, strict=True):
            e = [mpmath.exp(mpmath.fdot(map(mpmath.mpf, k), map(mpmath.mpf, p))) for k in K.tolist()]
            s = [x / mpmath.fsum(e) for x in e]
            u = mpmath.fdot(s, map(mpmath.mpf, gamma.tolist()))
            slope = {"logistic": 1 / (1 + mpmath.exp(u)), "exponential": mpmath.exp(-u), "correlation": 1}[
                loss
            ]
            for st_, g, k in zip(s, gamma.tolist(), K.tolist(), strict=True):
                total = [x + slope * st_ * (g - u) * y / len(keys) for x, y in zip(total, k, strict=True)]
        norm = mpmath.sqrt(mpmath.fsum(x * x for x in total))
        expected = [float(x / norm) for x in total] if norm else None
        log_norm = float(mpmath.log(norm)) if norm else -math.inf
    ours = hm.gradient(problem, p)
    if expected is None:
        assert ours.is_stationary
        return
    np.testing.assert_allclose(ours.direction, expected, atol=1e-9)
    assert ours.log_norm == pytest.approx(log_norm, rel=1e-11, abs=1e-9)


@given(seeds, losses)
def test_rotation_of_keys(seed, loss):
    rng, keys, scores, p, problem = draw(seed, loss)
    Q, _ = np.linalg.qr(rng.normal(size=(len(p), len(p))))
    turned = hm.Problem([K @ Q.T for K in keys], scores, loss=loss)
    assert_same_gradient(hm.gradient(problem, p), hm.gradient(turned, Q @ p), Q)


@given(seeds)
def test_shift_of_keys_in_each_input(seed):
    rng, keys, scores, p, _ = draw(seed, "logistic")
    # Shifts on a binary grid keep the keys' differences exact.
    grid = [np.round(K * 2**20) / 2**20 for K in keys]
    moved = [K + rng.integers(-8, 9, size=len(p)) for K in grid]
    a = hm.gradient(hm.Problem(grid, scores), p)
    assert_same_gradient(a, hm.gradient(hm.Problem(moved, scores), p))


@given(seeds)
def test_shift_of_scores_in_each_input_leaves_the_correlation_loss(seed):
    rng, keys, scores, p, _ = draw(seed, "correlation")
    grid = [np.round(s * 2**20) / 2**20 for s in scores]
    moved = [s + rng.integers(-8, 9) for s in grid]
    a = hm.gradient(hm.Problem(keys, grid, loss="correlation"), p)
    assert_same_gradient(a, hm.gradient(hm.Problem(keys, moved, loss="correlation"), p))


@given(seeds, losses)
def test_twins_share_attention_and_change_nothing_else(seed, loss):
    """Tokens with the same key share attention, whatever their scores (B-ERR-15)."""
    _, keys, scores, p, _ = draw(seed, loss)
    twin_keys = [np.concatenate([K, K[:1], K[:1]]) for K in keys]
    twin_scores = [np.concatenate([s, s[:1] + 1.0, s[:1] - 0.5]) for s in scores]
    twins = hm.Problem(twin_keys, twin_scores, loss=loss)
    weights = hm.attention(twins, p)
    for s in weights:
        assert s.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_array_equal(s[-2:], s[0])
    # By brute force, at a norm where the plain formula is safe.
    q = p / max(1.0, np.linalg.norm(p))
    u = [a @ g for a, g in zip(hm.attention(twins, q), twin_scores, strict=True)]
    slopes = np.exp(twins.loss.log_slopes(np.array(u)))
    plain = sum(
        slope * ((a * (g - ui)) @ K)
        for slope, a, g, ui, K in zip(slopes, hm.attention(twins, q), twin_scores, u, twin_keys, strict=True)
    )
    np.testing.assert_allclose(-hm.gradient(twins, q).vector * len(keys), plain, atol=1e-12)


@given(seeds, losses)
def test_hessian_is_the_derivative_of_the_gradient(seed, loss):
    _, _, _, p, problem = draw(seed, loss)
    p = p / max(1.0, np.linalg.norm(p) / 3)
    h = 1e-6
    H = hm.dynamics.hessian(problem, p)
    for j, e in enumerate(np.eye(len(p))):
        difference = hm.gradient(problem, p + h * e).vector - hm.gradient(problem, p - h * e).vector
        np.testing.assert_allclose(H[j], difference / (2 * h), atol=1e-8 * (1 + np.abs(H).max()))


@given(seeds, losses)
def test_smoothness_bounds_the_curvature(seed, loss):
    _, _, _, p, problem = draw(seed, loss)
    bound = hm.dynamics.smoothness(problem)
    curvature = np.abs(
        np.linalg.eigvalsh(hm.dynamics.hessian(problem, p / max(1.0, np.linalg.norm(p) / 2)))
    ).max()
    assert curvature <= bound.tight * (1 + 1e-12)
    assert curvature <= bound.L_p * (1 + 1e-12)


@given(seeds, losses)
def test_descent_inequality(seed, loss):
    """B-THM-L6 for one step of 1/L_p from anywhere."""
    _, _, _, p, problem = draw(seed, loss)
    p = p / max(1.0, np.linalg.norm(p) / 5)
    L = hm.dynamics.smoothness(problem).L_p
    if L == 0.0:
        return
    g = hm.gradient(problem, p).vector
    after = hm.loss(problem, p - g / L)
    assert after - hm.loss(problem, p) <= -0.5 / L * (g @ g) + 1e-14 * (1 + abs(after))


@given(seeds)
def test_kernel_primal_and_qr_trajectories(seed):
    rng = np.random.default_rng(seed)
    keys, scores, d = ragged_problem(rng, d=int(rng.integers(2, 30)))
    problem = hm.Problem(keys, scores)
    start = rng.normal(size=d)
    paths = [
        hm.train(problem, hm.optim.Normalized(0.3), steps=40, start=start, coordinates=c)
        for c in ("primal", "gram", "qr")
    ]
    if paths[0].event is None:
        # Near a stationary point normalized steps amplify rounding; away from it the three agree.
        lengths = [hm.gradient(problem, x).log_norm for x in paths[0].points[:-1]]
        if min(lengths) > -30 and np.abs(hm.dynamics.hessian(problem, paths[0].p)).max() < 1:
            np.testing.assert_allclose(paths[1].points, paths[0].points, atol=1e-6)
            np.testing.assert_allclose(paths[2].points, paths[0].points, atol=1e-6)


@given(seeds, losses)
def test_excess_risk_is_a_difference_of_risks(seed, loss):
    rng, _, _, p, problem = draw(seed, loss)
    p = p / max(1.0, np.linalg.norm(p) / 4)
    selection = [int(rng.integers(T)) for T in problem.sizes]
    chosen = problem.scores[problem.offsets[:-1] + selection]
    direct = hm.loss(problem, p) - problem.loss.value(chosen).mean()
    assert float(hm.dynamics.excess_loss(problem, p, selection)) == pytest.approx(
        direct, abs=1e-12 * (1 + abs(direct))
    )


@given(seeds)
def test_attention_and_defect(seed):
    _, _, _, p, problem = draw(seed, "logistic")
    weights = hm.attention(problem, p)
    assert all(1 <= hm.dynamics.soft_sparsity(s) <= len(s) + 1e-9 for s in weights)
    off = np.mean([1 - s.max() for s in weights])
    assert hm.dynamics.off_top_attention(problem, p) == pytest.approx(off, abs=1e-14)
