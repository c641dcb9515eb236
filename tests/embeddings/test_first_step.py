"""The first step: the errors of Lemma 2, exact at any width, and the limit of infinite width."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import initial_vectors, one_layer, take_first_step
from hardmax.embeddings.first_step import (
    first_step_errors,
    infinite_width,
    initial_event,
    initial_event_from_gram,
)
from hardmax.embeddings.one_layer import descend_embeddings

from .conftest import Instance, exact_model, numbers


def random_corpus(seed: int, S: int = 6, n: int = 8, T: int = 5) -> hm.Corpus:
    rng = np.random.default_rng(seed)
    return hm.Corpus.from_sequences(rng.integers(0, S, size=(n, T)), rng.choice([-1, 1], size=n))


def test_oracle_step(oracles: dict, d1: Instance) -> None:
    want = oracles["a"]["one_layer_D1"]["gd_step_eta2"]
    step = take_first_step(*d1, first_rate=2)
    np.testing.assert_allclose(step.E, numbers(want["E1"]), rtol=1e-12)
    np.testing.assert_allclose(step.p, numbers(want["p1"]), rtol=1e-12)
    run = descend_embeddings(*d1, steps=1, rate=2)
    np.testing.assert_allclose(step.E, run.E, rtol=1e-15)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_decomposition(seed: int, uneven: bool) -> None:
    """E1 = E0 + (eta0/2) alpha v + err and p1 = p0 + err_p; lengths agree with those from inner products."""
    rng = np.random.default_rng(seed)
    corpus = random_corpus(seed)
    if uneven:
        rows = [rng.integers(0, 6, size=rng.integers(1, 7)).tolist() for _ in range(5)]
        corpus = hm.Corpus.from_sequences(rows, rng.choice([-1, 1], size=5), vocabulary="abcdef")
    E, p, v = rng.normal(size=(corpus.S, 7)), rng.normal(size=7), rng.normal(size=7)
    first_rate = float(rng.uniform(0.1, 100))
    step = take_first_step(corpus, E, p, v, first_rate)
    plain = E + 0.5 * first_rate * np.outer(corpus.alpha_per_sequence, v)
    np.testing.assert_allclose(plain + step.err_E, step.E, rtol=1e-12, atol=1e-12 * first_rate)
    np.testing.assert_allclose(p + step.err_p, step.p, rtol=1e-12, atol=1e-12 * first_rate)
    found = first_step_errors(corpus, E @ E.T, E @ p, E @ v, p @ p, p @ v, v @ v, first_rate)
    np.testing.assert_allclose(found.token_errors, np.linalg.norm(step.err_E, axis=1), rtol=1e-9, atol=1e-14)
    assert found.cls_error == pytest.approx(float(np.linalg.norm(step.err_p)), rel=1e-9)
    assert step.errors.largest == pytest.approx(max(found.token_errors.max(), found.cls_error), rel=1e-9)
    np.testing.assert_array_equal(found.r, step.errors.r)


@pytest.mark.parametrize("digits", [0, 5, 30, 99])
@pytest.mark.parametrize("seed", range(3))
def test_residuals_against_mpmath(digits: int, seed: int) -> None:
    """With inner products of size 10^-digits the residuals keep all digits, as at d = 10^(2 digits)."""
    corpus = random_corpus(seed)
    rng = np.random.default_rng([seed, digits])
    a, c = rng.normal(size=(2, corpus.S)) * 10.0**-digits
    found = first_step_errors(corpus, np.eye(corpus.S), a, c, 1.0, 0.0, 1.0, first_rate=64)
    with mpmath.workdps(2 * digits + 60):
        point = exact_model(corpus, a, c)
        signed = corpus.statistics.signed.tolist()
        alpha = [mpmath.mpf(x) / (corpus.n * corpus.T) for x in signed]
        r = np.array([float((-C - x / 2) * 10**digits) for C, x in zip(point.C, alpha, strict=True)])
        w = np.array([float(-A * 10**digits) for A in point.A])
    for ours, theirs in ((found.r, r), (found.w, w)):
        np.testing.assert_allclose(ours * 10.0**digits, theirs, rtol=0, atol=5e-15 * np.abs(theirs).max())
    assert (np.abs(r) > 0).all()


def test_a_sequence_of_one_token_has_no_softmax_error() -> None:
    corpus = hm.Corpus.from_sequences([[0, 0, 0], [1, 1, 1]], [1, -1])
    found = first_step_errors(corpus, np.eye(2), [0.3, -0.1], [0.0, 0.0], 1.0, 0.0, 1.0, first_rate=1)
    assert found.largest == 0.0


@pytest.mark.parametrize("kind", ["random", "assumption 4"])
def test_lemma_2_on_vectors(kind: str) -> None:
    """The bound holds with room, and the error falls like d^(-1/2), faster than the d^(-1/4) of the bound."""
    corpus = (
        random_corpus(0, S=12, n=10) if kind == "random" else hm.embeddings.assumption_4_corpus(6, 4, rng=0)
    )
    sizes = []
    widths = [256, 1024, 4096, 16384]
    for d in widths:
        largest = []
        for seed in range(5):
            E, p, v = initial_vectors(corpus.S, d, rng=seed)
            assert initial_event(E, p, v, delta=1e-6).holds
            errors = take_first_step(corpus, E, p, v, first_rate=64).errors
            assert errors.largest <= 0.01 * errors.bound(d)
            largest.append(errors.largest / 64)
        sizes.append(np.mean(largest))
    slope = np.polyfit(np.log(widths), np.log(sizes), 1)[0]
    assert -0.65 < slope < -0.35


def test_bound_at_a_width_no_float_holds() -> None:
    corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    zero = np.zeros(3)
    found = first_step_errors(corpus, np.eye(3), zero, zero, 1.0, 0.0, 1.0, first_rate=64)
    assert found.bound(10**400) == pytest.approx(11 * 64 * 1e-100, rel=1e-12)


@pytest.mark.parametrize("S, d, delta", [(20, 256, 0.1), (200, 1024, 0.1)])
def test_event_14_is_as_frequent_as_it_should_be(S: int, d: int, delta: float) -> None:
    seen = [initial_event(*initial_vectors(S, d, rng=seed), delta=delta) for seed in range(40)]
    assert sum(event.holds for event in seen) >= (1 - delta) * 40
    assert seen[0].overlap_bound == pytest.approx(math.sqrt(2 * math.log(S**2 / delta) / d), rel=1e-12)


def test_event_14_fails_for_a_long_or_an_overlapping_vector() -> None:
    fine: dict[str, Any] = {"diagonal": [1.0, 1.0], "a": [0.0, 0.0], "c": [0.0, 0.0], "pi": 1.0, "rho": 0.0}
    assert initial_event_from_gram(**fine, d=100, delta=0.1).holds
    for change in (
        {"a": [0.0, 0.5]},
        {"c": [-0.5, 0.0]},
        {"rho": 0.5},
        {"pi": 4.1},
        {"diagonal": [1.0, 4.1]},
    ):
        assert not initial_event_from_gram(**{**fine, **change}, d=100, delta=0.1).holds
    with pytest.raises(ValueError, match="delta must be"):
        initial_event_from_gram(**fine, d=100, delta=1.5)


def test_oracle_infinite_width(oracles: dict) -> None:
    """A-ORC-4."""
    given = oracles["a"]["statistics_A4"]
    want = given["d_infinite_first_step"]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    limit = infinite_width(corpus, float(Fraction(want["eta0"])))
    np.testing.assert_array_equal(limit.c, numbers(want["c1"]))
    np.testing.assert_array_equal(limit.a, numbers(want["a1"]))
    np.testing.assert_array_equal(limit.K, np.eye(7) + (1024**2 / 4) * np.outer(corpus.alpha, corpus.alpha))
    np.testing.assert_array_equal(limit.E @ limit.E.T, limit.K)
    np.testing.assert_array_equal(limit.E @ limit.v, limit.c)
    point = one_layer.evaluate(corpus, limit.a, limit.c)
    assert point.loss == pytest.approx(float(want["loss_E1_p1"]), rel=1e-12)


def test_wide_vectors_tend_to_the_limit() -> None:
    corpus = random_corpus(3)
    limit = infinite_width(corpus, 8.0)
    E, p, v = initial_vectors(corpus.S, 200_000, rng=0)
    step = take_first_step(corpus, E, p, v, first_rate=8.0)
    np.testing.assert_allclose(step.E @ step.E.T, limit.K, atol=0.03)
    np.testing.assert_allclose(step.E @ v, limit.c, atol=0.03)
    np.testing.assert_allclose(step.E @ step.p, limit.a, atol=0.03)


def test_refusals(d1: Instance) -> None:
    with pytest.raises(ValueError, match="first_rate must be a positive number"):
        take_first_step(*d1, first_rate=0)
    with pytest.raises(ValueError, match="K must have shape"):
        first_step_errors(d1.corpus, np.eye(3), [0.0] * 4, [0.0] * 4, 1.0, 0.0, 1.0, first_rate=1)


def test_width_and_lengths_of_the_event_are_checked() -> None:
    event = hm.embeddings.first_step.initial_event_from_gram
    with pytest.raises(ValueError, match="d must be an integer of at least 1"):
        event([1.0], [0.0], [0.0], 1.0, 0.0, d=0, delta=0.1)
    with pytest.raises(ValueError, match="a must have shape"):
        event([1.0], [0.0, 0.0], [0.0], 1.0, 0.0, d=9, delta=0.1)
    with pytest.raises(ValueError, match="use draw_initial"):
        hm.embeddings.initial_vectors(4, 10**400, rng=0)


def test_a_step_beyond_floats_is_refused():
    corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    with pytest.raises(ValueError, match="first_rate must be a number of at most 1e308"):
        hm.embeddings.first_step.infinite_width(corpus, 10**400)
