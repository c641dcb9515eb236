"""Generators: Assumption 4 holds whatever is drawn, and the K-level model is exact (A-ORC-7)."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import KLevel, assumption_4, assumption_4_corpus


@given(st.data())
def test_drawn_corpora_satisfy_assumption_4(data: st.DataObject) -> None:
    half, T = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    important = data.draw(st.tuples(st.integers(1, half), st.integers(1, half)))
    places = half * (T - 1)
    irrelevant = data.draw(st.integers(min(1, places), places))
    rng = data.draw(st.integers(0, 2**32 - 1))
    corpus = assumption_4_corpus(2 * half, T, important=important, irrelevant=irrelevant, rng=rng)
    assert assumption_4(corpus).holds
    assert (corpus.n, corpus.T, corpus.S) == (2 * half, T, sum(important) + irrelevant)
    assert (corpus.statistics.total > 0).all()
    assert corpus.completely_positive.tolist() == list(range(important[0]))
    assert corpus.completely_negative.tolist() == list(range(important[0], sum(important)))
    assert corpus.irrelevant.tolist() == list(range(sum(important), corpus.S))
    assert corpus.vocabulary[0] == "+0"
    assert corpus.vocabulary[important[0]] == "-0"


def test_the_same_seed_draws_the_same_and_defaults_fit() -> None:
    one, two, other = (assumption_4_corpus(8, 5, rng=seed) for seed in (3, 3, 4))
    assert (one.matrix != two.matrix).nnz == 0
    assert (one.matrix != other.matrix).nnz > 0
    assert one.S == 4 + 4 + 5
    assert assumption_4_corpus(2, 2, rng=0).S == 3
    assert assumption_4_corpus(4, 1, rng=0).S == 4


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n": 5, "T": 3}, "n must be even"),
        ({"n": 4, "T": 3, "important": (3, 1)}, "at most n/2 = 2"),
        ({"n": 4, "T": 3, "important": (0, 1)}, "important must be an integer of at least 1"),
        ({"n": 4, "T": 3, "important": 2}, "important must be a tuple of 2 values"),
        ({"n": 4, "T": 3, "important": (1, 1, 1)}, "important must be a tuple of 2 values"),
        ({"n": 4, "T": 3, "irrelevant": 5}, r"at most \(n/2\)\(T-1\) = 4"),
        ({"n": 4, "T": 3, "irrelevant": 0}, "irrelevant must be an integer of at least 1"),
    ],
)
def test_refusals(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assumption_4_corpus(**arguments, rng=0)


@pytest.mark.parametrize("index, model", [(0, KLevel.as_printed()), (1, KLevel())])
def test_oracle(oracles: dict, index: int, model: KLevel) -> None:
    given = oracles["a"]["k_level"]["variants"][index]

    def exact(name: str) -> tuple[Fraction, ...]:
        return tuple(Fraction(x) for x in given[name])

    assert list(model.sizes) == given["sizes"]
    assert (given["sum_one_sign"], given["vocab_total"]) == (model.N, model.S)
    assert model.irrelevant_probability == Fraction(given["p_irrelevant"])
    assert (model.own, model.other) == (exact("p_own"), exact("p_other"))
    assert model.relevant_probability == Fraction(given["marginal_relevant"])
    ratio = model.irrelevant_probability / model.relevant_probability
    assert ratio == Fraction(given["frequency_ratio_irrelevant_over_relevant"])
    assert (model.levels, model.alphas) == (exact("posterior_levels_1_minus_2delta"), exact("alpha_levels"))
    assert model.equal_frequency_delta_tilde == Fraction(given["delta_tilde_for_equal_frequency"])


@pytest.mark.parametrize("model", [KLevel(), KLevel.as_printed(), KLevel.surrogate()])
def test_probabilities_are_exact(model: KLevel) -> None:
    plus, minus = model.probabilities(1), model.probabilities(-1)
    assert sum(plus) == sum(minus) == 1
    assert len(plus) == model.S
    for s in range(model.S):
        # Posterior of (35) under balanced labels, and what alpha and the posterior difference are made of.
        level, sign = int(model.level[s]), int(model.sign[s])
        difference = (plus[s] - minus[s]) / (plus[s] + minus[s])
        assert difference == (sign * model.levels[level - 1] if level else 0)
        if level:
            assert (plus[s] + minus[s]) / 2 == model.relevant_probability
            assert (plus[s] - minus[s]) / 2 == sign * model.alphas[level - 1]


def test_equal_frequency_is_what_it_says() -> None:
    model = KLevel(delta_tilde=KLevel().equal_frequency_delta_tilde)
    assert model.irrelevant_probability == model.relevant_probability


def test_surrogate() -> None:
    model = KLevel.surrogate()
    assert (model.S, model.N, model.T) == (192, 46, 24)
    assert model.levels == (Fraction(3, 10), Fraction(3, 5), Fraction(4, 5), Fraction(24, 25))


def test_draws_follow_the_model() -> None:
    model = KLevel.surrogate()
    corpus = model.draw(4096, rng=0)
    assert (corpus.n, corpus.T, corpus.S, int(corpus.labels.sum())) == (4096, 24, 192, 0)
    assert corpus.vocabulary[0] == "j.0"
    assert corpus.vocabulary[100] == "+1.100"
    half = 2048 * 24
    for y in (1, -1):
        chances = np.array([float(x) for x in model.probabilities(y)])
        counts = corpus.matrix[np.flatnonzero(corpus.labels == y)].sum(axis=0)
        spread = np.sqrt(half * chances * (1 - chances))
        assert (np.abs(counts - half * chances) < 5 * spread + 1).all()
    levels = [np.nanmean((model.sign * corpus.posterior_difference)[model.level == k]) for k in range(1, 5)]
    np.testing.assert_allclose(levels, [float(x) for x in model.levels], atol=0.05)
    again = model.draw(4096, rng=0)
    assert (again.matrix != corpus.matrix).nnz == 0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: KLevel(sizes=5), "sizes must be a tuple"),
        (lambda: KLevel(deltas=Fraction(1, 3)), "deltas must be a tuple"),
        (lambda: KLevel(sizes=(2, 3)), "deltas must be one per level, 2"),
        (lambda: KLevel(sizes=(0,), deltas=(Fraction(1, 3),)), "sizes must be"),
        (lambda: KLevel(delta_tilde=0.05), "delta_tilde must be a Fraction"),
        (lambda: KLevel(sizes=(1,), deltas=(Fraction(4, 3),)), "deltas must be a Fraction from 0 to 1"),
        (lambda: KLevel().probabilities(0), "y must be"),
        (lambda: KLevel().draw(3, rng=0), "n must be even"),
        (lambda: KLevel(T=0), "T must be"),
    ],
)
def test_model_refusals(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_the_module_is_public() -> None:
    assert hm.embeddings.KLevel is KLevel
