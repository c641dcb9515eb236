"""The sampler of inner products: moments at every width, exactness at huge ones, Lemma 2 against mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import ks_2samp

import hardmax as hm
from hardmax.embeddings.first_step import MANY_DEGREES, StructuredState, chi_deviation, draw_initial

from .conftest import exact_model


def matrices(S: int, d: int, draws: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([draw_initial(S, d, rng=rng).gram.matrix for _ in range(draws)])


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 50])
def test_moments(d: int) -> None:
    """Means and covariances of all inner products are those of Gaussian vectors, also with d < S + 2."""
    S, draws = 3, 4_000
    G = matrices(S, d, draws)
    mean, spread = G.mean(axis=0), G.std(axis=0)
    error = 5.0 / math.sqrt(draws)
    want = np.eye(S + 2)
    assert (np.abs(mean - want) <= error * spread + 1e-12).all()
    variance = np.full((S + 2, S + 2), 1 / d)
    np.fill_diagonal(variance, 2 / d)
    variance[-1, -1] = 0.0  # v is a unit vector
    np.testing.assert_allclose(spread**2, variance, rtol=0, atol=12 * error / d)
    # a fourth moment: the square of E_0.E_1 given the lengths, E[(E_0.E_1)^2 |E_0|^2] = (d + 2)/d^2
    found = (G[:, 0, 1] ** 2 * G[:, 0, 0]).mean()
    assert found == pytest.approx((d + 2) / d**2, rel=0.5)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_distribution_is_that_of_vectors(d: int) -> None:
    """Every inner product and the largest eigenvalues, against Gram matrices of drawn Gaussian vectors."""
    S, draws = 3, 3_000
    W = np.random.default_rng(1).normal(size=(draws, S + 2, d)) / math.sqrt(d)
    W[:, -1] = np.eye(d)[0]
    found, wanted = matrices(S, d, draws), W @ W.transpose(0, 2, 1)
    pairs = [(found[:, i, j], wanted[:, i, j]) for i in range(S + 1) for j in range(i + 1)]
    pairs += [(found[:, -1, j], wanted[:, -1, j]) for j in range(S + 1)]
    eigenvalues = np.linalg.eigvalsh(found), np.linalg.eigvalsh(wanted)
    pairs += [(eigenvalues[0][:, -k], eigenvalues[1][:, -k]) for k in range(1, min(d, S + 2) + 1)]
    assert min(ks_2samp(*pair).pvalue for pair in pairs) > 1e-4


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_rank_is_that_of_vectors(d: int) -> None:
    values = np.linalg.eigvalsh(matrices(3, d, 1)[0])
    assert (values > 1e-12).sum() == d
    assert values[0] > -1e-12


@pytest.mark.parametrize("k", [10**8, 10**44, 10**400])
def test_chi_of_many_degrees(k: int) -> None:
    """Deviations of chi_k / sqrt(k) from 1, in units of 1/sqrt(2k): mean, variance and skewness."""
    rng = np.random.default_rng(0)
    unit = math.exp(0.5 * (math.log(2) + math.log(k)))
    z = np.array([chi_deviation(k, k, rng) for _ in range(20_000)]) * unit
    assert abs(z.mean()) < 0.03
    assert z.var() == pytest.approx(1.0, abs=0.05)
    assert abs((z**3).mean()) < 0.15


def test_the_two_ways_to_draw_chi_agree() -> None:
    """Quantiles of the cube-root form against the exact distribution, where both are used."""
    from scipy.stats import chi, norm

    k = MANY_DEGREES
    levels = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])

    class Fixed:
        def __init__(self, z: float) -> None:
            self.z = z

        def normal(self) -> float:
            return self.z

    ours = [chi_deviation(k, k, Fixed(z)) for z in norm.ppf(levels)]  # type: ignore[arg-type]
    theirs = chi.ppf(levels, k) / math.sqrt(k) - 1.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-13)


def test_deviation_keeps_its_digits_where_the_sum_would_not() -> None:
    rng = np.random.default_rng(0)
    found = np.array([chi_deviation(10**60 - 5, 10**60, rng) for _ in range(1000)])
    assert found.std() == pytest.approx(math.sqrt(0.5) * 1e-30, rel=0.1)
    assert (found != 0.0).all()


@pytest.mark.parametrize("digits", [20, 44, 63, 75])
def test_lemma_2_against_mpmath(digits: int) -> None:
    """|err_s| and |err_p| of the first step from drawn inner products, to 1e-15 relative."""
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=digits)
    state = draw_initial(corpus.S, 10**digits, rng=digits)
    first_rate = 576
    found = state.errors(corpus, first_rate)
    with mpmath.workdps(3 * digits):
        tokens, p = exact_coordinates(state)
        a, c = [mpmath.fdot(row, p) for row in tokens], [row[-1] for row in tokens]
        point = exact_model(corpus, a, c)
        alpha = [mpmath.mpf(int(x)) / (corpus.n * corpus.T) for x in corpus.statistics.signed]
        r = [-C - x / 2 for C, x in zip(point.C, alpha, strict=True)]
        w = [-A for A in point.A]
        v = [mpmath.mpf(0)] * (len(p) - 1) + [mpmath.mpf(1)]
        errors = [
            first_rate * mpmath.norm([rs * vi + ws * pi for vi, pi in zip(v, p, strict=True)])
            for rs, ws in zip(r, w, strict=True)
        ]
        err_p = first_rate * mpmath.norm([mpmath.fdot(w, column) for column in zip(*tokens, strict=True)])
        relative = [
            float(mpmath.mpf(float(x)) / y - 1) for x, y in zip(found.token_errors, errors, strict=True)
        ]
        relative_p = float(mpmath.mpf(found.cls_error) / err_p - 1)
    assert np.abs(relative).max() < 5e-15
    assert abs(relative_p) < 5e-15
    assert found.largest < 1e-3 * found.bound(10**digits)


def exact_coordinates(state: StructuredState) -> tuple[list[list], list]:
    """The vectors of a state without any rounding."""
    rows = [
        [mpmath.mpf(float(x)) + (1 if i == j else 0) for j, x in enumerate(row)]
        for i, row in enumerate(state.noise)
    ]
    last = [*state.c.tolist(), state.rho]
    rows = [[*row, mpmath.mpf(x)] for row, x in zip(rows, last, strict=True)]
    return rows[:-1], rows[-1]


def test_seeds_and_refusals() -> None:
    one, two = draw_initial(4, 10**50, rng=3), draw_initial(4, 10**50, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(one.noise, two.noise)
    for d in (0, -1, 2.5):
        with pytest.raises(ValueError, match="d must be an integer"):
            draw_initial(4, d, rng=0)  # type: ignore[arg-type]
