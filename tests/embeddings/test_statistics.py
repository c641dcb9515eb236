"""alpha, posterior difference, frequency and classes against the oracles and their identities."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm

from .conftest import Instance, numbers


def test_oracle_d1(oracles: dict, d1: Instance) -> None:
    given = oracles["a"]["one_layer_D1"]
    np.testing.assert_array_equal(d1.corpus.alpha, numbers(given["alpha"]))
    np.testing.assert_array_equal(d1.corpus.alpha_per_sequence, numbers(given["alpha"]))
    np.testing.assert_array_equal(d1.corpus.posterior_difference, numbers(given["posterior_difference"]))


def test_oracle_a4(oracles: dict) -> None:
    given = oracles["a"]["statistics_A4"]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    np.testing.assert_array_equal(corpus.alpha, numbers(given["alpha"]))
    np.testing.assert_array_equal(corpus.posterior_difference, numbers(given["posterior_difference"]))
    for name in ("completely_positive", "completely_negative", "irrelevant"):
        assert getattr(corpus, name).tolist() == given[name]
    assert corpus.positive.tolist() == [0, 2]
    assert corpus.negative.tolist() == [1, 3]
    assert corpus.important.tolist() == [0, 1, 2, 3]


def direct(M: np.ndarray, y: np.ndarray) -> tuple[list[Fraction], list[Fraction]]:
    """Both normalizations of alpha, by definition and in fractions."""
    n, S = M.shape
    total = int(M.sum())
    counted = [sum((Fraction(int(y[k] * M[k, s])) for k in range(n)), Fraction(0)) / total for s in range(S)]
    averaged = [
        sum((Fraction(int(y[k] * M[k, s]), int(M[k].sum())) for k in range(n)), Fraction(0)) / n
        for s in range(S)
    ]
    return counted, averaged


matrices = st.integers(1, 6).flatmap(
    lambda S: st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=S, max_size=S).filter(any), st.sampled_from([-1, 1])),
        min_size=1,
        max_size=7,
    )
)


@given(matrices)
def test_identities(rows: list[tuple[list[int], int]]) -> None:
    M, y = np.array([row for row, _ in rows]), np.array([label for _, label in rows])
    corpus = hm.Corpus.from_counts(M, y)
    counted, averaged = direct(M, y)
    assert corpus.alpha.tolist() == [float(x) for x in counted]
    np.testing.assert_allclose(
        corpus.alpha_per_sequence, [float(x) for x in averaged], atol=1e-16, rtol=1e-15
    )
    assert corpus.alpha_per_sequence.sum() == pytest.approx(y.mean(), abs=1e-15)
    if len(set(corpus.lengths.tolist())) == 1:
        np.testing.assert_array_equal(corpus.alpha_per_sequence, corpus.alpha)
    seen = M.sum(axis=0) > 0
    posterior = corpus.posterior_difference
    assert np.isnan(posterior).tolist() == (~seen).tolist()
    np.testing.assert_allclose((posterior * corpus.frequency)[seen], corpus.alpha[seen], rtol=1e-15)
    assert corpus.frequency.sum() == pytest.approx(1.0, rel=1e-15)
    assert (np.abs(corpus.alpha) <= corpus.frequency).all()


@given(matrices)
def test_classes(rows: list[tuple[list[int], int]]) -> None:
    M, y = np.array([row for row, _ in rows]), np.array([label for _, label in rows])
    corpus = hm.Corpus.from_counts(M, y)
    classes = [corpus.positive, corpus.negative, corpus.irrelevant]
    seen = np.flatnonzero(M.sum(axis=0))
    assert sorted(np.concatenate(classes).tolist()) == seen.tolist()
    for label, tokens in ((1, corpus.completely_positive), (-1, corpus.completely_negative)):
        assert tokens.tolist() == [s for s in seen if set(y[M[:, s] > 0]) == {label}]
    assert set(corpus.completely_positive) <= set(corpus.positive)
    assert set(corpus.completely_negative) <= set(corpus.negative)


def test_zero_is_decided_on_integers() -> None:
    # In floating point 0.1 + 0.2 - 0.3 is not zero, and neither is a sum of shares of unequal lengths.
    corpus = hm.Corpus.from_counts([[1, 9], [2, 8], [3, 7]], [1, 1, -1])
    assert corpus.irrelevant.tolist() == [0]
    assert corpus.alpha_per_sequence[0] == 0.0
