"""The two-layer model by inner products against the vectors (A-RED-6) and A-ORC-3."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import initial_vectors
from hardmax.embeddings.two_layer import TwoLayerGram, TwoLayerNetwork, descend_two_layer

from .conftest import Instance, numbers


def test_oracle(oracles: dict, d1: Instance) -> None:
    want = oracles["a"]["two_layer_D1"]
    state = TwoLayerGram.from_vectors(d1.E, d1.p, d1.v)
    assert state.loss(d1.corpus) == pytest.approx(float(want["loss"]), rel=1e-13)
    np.testing.assert_allclose(state.predict(d1.corpus), numbers(want["f"]), rtol=1e-12)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["E", "p", "v", "Ep", "pv", "Epv"]))
def test_one_step(seed: int, train: str) -> None:
    rng = np.random.default_rng(seed)
    S, d = int(rng.integers(2, 6)), int(rng.integers(2, 9))
    corpus = hm.Corpus.from_sequences(
        rng.integers(0, S, size=(4, 5)), rng.choice([-1, 1], size=4), [str(s) for s in range(S)]
    )
    vectors = [rng.normal(size=(S, d)), rng.normal(size=d), rng.normal(size=d)]
    epsilon, rate = float(rng.choice([1e-5, 0.1])), 0.3
    found = TwoLayerNetwork(epsilon=epsilon).gradients(corpus, *vectors)
    state = TwoLayerGram.from_vectors(*vectors, epsilon=epsilon)
    np.testing.assert_allclose(state.predict(corpus), found.f, rtol=1e-9, atol=1e-11)
    moved = [
        x - rate * getattr(found, name) if name in train else x
        for name, x in zip("Epv", vectors, strict=True)
    ]
    want = TwoLayerGram.from_vectors(*moved).G
    np.testing.assert_allclose(state.step(corpus, rate, train).G, want, atol=1e-10 * np.abs(want).max())


def test_same_path_as_vectors() -> None:
    """Five hundred steps, to 1e-12."""
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    E, p, v = initial_vectors(corpus.S, 30, rng=1)
    run = descend_two_layer(corpus, TwoLayerGram.from_vectors(E, p, v), steps=500, rate=0.1, record=[])
    model = TwoLayerNetwork()
    for _ in range(500):
        by = model.gradients(corpus, E, p, v)
        E, p, v = E - 0.1 * by.E, p - 0.1 * by.p, v - 0.1 * by.v
    want = TwoLayerGram.from_vectors(E, p, v)
    assert np.abs(run.state.G - want.G).max() < 1e-12 * np.abs(want.G).max()
    assert run.losses[-1] == pytest.approx(model.gradients(corpus, E, p, v).loss, rel=1e-12)
    np.testing.assert_allclose(run.state.one_layer.a, E @ p, atol=1e-12)
    assert run.losses[0] > 0.3
    assert run.losses[-1] < 0.01


def test_records_and_refusals(d1: Instance) -> None:
    state = TwoLayerGram.from_vectors(d1.E, d1.p, d1.v)
    run = descend_two_layer(d1.corpus, state, steps=6, rate=0.1, record=4)
    assert run.times.tolist() == [0, 4, 6]
    with pytest.raises(ValueError, match="corpus must have the 4 tokens"):
        state.predict(hm.Corpus.from_sequences([[0, 1]], [1]))
    with pytest.raises(ValueError, match="epsilon must be a positive number"):
        TwoLayerGram.from_vectors(d1.E, d1.p, d1.v, epsilon=0.0)
