"""`corpus.model` calls what is behind it: the same numbers, and errors that name the remedy."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.optim import GD, AdamW
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.gram import GramState, descend_gram, flow_gram
from hardmax.embeddings.minibatch import train_embeddings
from hardmax.embeddings.one_layer import descend_embeddings
from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer


@pytest.fixture
def corpus():
    return hm.Corpus.from_sequences([[0, 2], [1, 2], [0, 1, 2], [1, 1]], [1, -1, 1, -1])


def test_batches(corpus):
    ours = hm.train(corpus.model(d=4), AdamW(0.01), epochs=3, batch=2, rng=0)
    theirs = train_embeddings(corpus, 4, AdamW(0.01), epochs=3, batch=2, rng=0)
    np.testing.assert_array_equal(ours.E, theirs.E)
    start = initial_vectors(corpus.S, 4, rng=0)
    ours = hm.train(corpus.model(start=start, scale=0.5), AdamW(0.01), epochs=2, batch=2, rng=1)
    theirs = train_embeddings(corpus, 4, AdamW(0.01), epochs=2, batch=2, rng=1, start=start, scale=0.5)
    np.testing.assert_array_equal(ours.a, theirs.a)


@pytest.mark.parametrize("blocks", [("E", "p"), ("p",), ("E", "p", "v")])
def test_steps_on_the_whole_corpus(corpus, blocks):
    E, p, v = initial_vectors(corpus.S, 5, rng=3)
    how = {"steps": 20, "rate": 0.1, "train": blocks}
    ours = hm.train(corpus.model(start=(E, p, v), blocks=blocks), GD(0.1), steps=20)
    np.testing.assert_array_equal(ours.a, descend_embeddings(corpus, E, p, v, **how).a)
    drawn = hm.train(corpus.model(d=5, blocks=blocks), GD(0.1), steps=20, rng=3)
    np.testing.assert_array_equal(drawn.a, ours.a)
    state = GramState.from_vectors(E, p, v)
    ours = hm.train(corpus.model(start=state, blocks=blocks), GD(0.1), steps=20)
    np.testing.assert_array_equal(ours.a, descend_gram(corpus, state, **how).a)


def test_two_layers(corpus):
    vectors = initial_vectors(corpus.S, 5, rng=3)
    state = TwoLayerGram.from_vectors(*vectors)
    theirs = descend_two_layer(corpus, state, steps=5, rate=0.1)
    for start in (vectors, state):
        ours = hm.train(corpus.model(start=start, layers=2), GD(0.1), steps=5)
        np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-14)


def test_the_whole_corpus_by_adam(corpus):
    """A batch of all inputs is the whole corpus; mini-batches have single precision."""
    model = corpus.model(start=initial_vectors(corpus.S, 4, rng=0))
    ours = hm.train(model, AdamW(0.1), steps=3)
    theirs = hm.train(model, AdamW(0.1), epochs=3, batch=corpus.n, rng=0)
    for name in ("E", "p", "v"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-6)


def test_flow(corpus):
    state = GramState.infinite(corpus.S)
    ours = hm.flow(corpus.model(start=state, blocks=("E", "p")), times=[0, 1, 10])
    np.testing.assert_array_equal(ours.state.a, flow_gram(corpus, state, times=[0, 1, 10]).state.a)
    with pytest.raises(TypeError, match=r"one layer only; train two layers with hm\.train"):
        hm.flow(corpus.model(d=3, layers=2), times=[0, 1])


def test_refusals(corpus):
    with pytest.raises(ValueError, match="d must be given where no start is"):
        corpus.model()
    with pytest.raises(ValueError, match="layers must be 1 or 2, got 3"):
        corpus.model(d=2, layers=3)
    with pytest.raises(ValueError, match="blocks must be some of E, p and v"):
        corpus.model(d=2, blocks=("W",))
    model = corpus.model(d=2)
    with pytest.raises(ValueError, match=r"give epochs .* or steps"):
        hm.train(model, GD(0.1))
    two = TwoLayerGram.from_vectors(*initial_vectors(3, 2, rng=0))
    for start, layers in ((GramState.infinite(3), 1), (two, 2)):
        with pytest.raises(TypeError, match=r"optimizer of E .* for inner products.* start from vectors"):
            hm.train(corpus.model(start=start, layers=layers), AdamW(0.1), steps=3)
    with pytest.raises(TypeError, match="rng must be given where the start is drawn"):
        hm.train(model, GD(0.1), steps=3)
    with pytest.raises(TypeError, match="record is not an option for embeddings; the options are batch"):
        hm.train(model, AdamW(0.1), epochs=1, rng=0, record=1)
    with pytest.raises(ValueError, match="optimizer of p must have a norm of vectors, got Muon; give a dict"):
        hm.train(model, hm.optim.Muon(0.1), steps=1, rng=0)
