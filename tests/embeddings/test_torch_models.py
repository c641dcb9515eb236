"""The PyTorch modules in float64 against the closed forms."""

from typing import Any

import numpy as np
import pytest

import hardmax as hm

from .conftest import Instance

torch = pytest.importorskip("torch", reason="the modules need PyTorch: make test-extras")
pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def models() -> Any:
    return hm.torch


@pytest.fixture(scope="module")
def uneven() -> Instance:
    """Sequences of different lengths, so that batches are padded."""
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 9, size=T).tolist() for T in (1, 2, 5, 12, 30)]
    corpus = hm.Corpus.from_sequences(sequences, [1, -1, 1, 1, -1])
    E, p, v = rng.normal(size=(corpus.S, 6)), rng.normal(size=6), rng.normal(size=6)
    return Instance(corpus, E, p, v)


def trained(models: Any, model: Any, corpus: hm.Corpus) -> float:
    """The loss, with gradients left in the parameters."""
    y = torch.tensor(corpus.signs)
    loss = torch.nn.functional.softplus(-y * model(*models.padded(corpus))).mean()
    loss.backward()
    return float(loss.detach())


@pytest.mark.parametrize("name", ["d1", "uneven"])
def test_one_layer(models: Any, name: str, request: pytest.FixtureRequest) -> None:
    corpus, E, p, v = request.getfixturevalue(name)
    model = models.OneLayer(E, p, v)
    loss = trained(models, model, corpus)
    assert loss == pytest.approx(hm.embeddings.one_layer.evaluate(corpus, E @ p, E @ v).loss, rel=1e-14)
    want = hm.embeddings.one_layer.gradients(corpus, E, p, v)
    for each in "Epv":
        np.testing.assert_allclose(getattr(model, each).grad, getattr(want, each), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("name", ["d1", "uneven"])
def test_key_query(models: Any, name: str, request: pytest.FixtureRequest) -> None:
    corpus, E, p, v = request.getfixturevalue(name)
    W = np.random.default_rng(1).normal(size=(len(p), len(p)))
    model = models.KeyQuery(E, p, W, v)
    want = hm.embeddings.one_layer.key_query_gradients(corpus, E, p, W, v)
    assert trained(models, model, corpus) == pytest.approx(want.loss, rel=1e-14)
    for each in "EpWv":
        np.testing.assert_allclose(getattr(model, each).grad, getattr(want, each), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name", ["d1", "uneven"])
def test_two_layer(models: Any, name: str, affine: bool, request: pytest.FixtureRequest) -> None:
    corpus, E, p, v = request.getfixturevalue(name)
    model = models.TwoLayer(E, p, v, epsilon=1e-4, affine=affine)
    closed = hm.embeddings.two_layer.TwoLayerNetwork(epsilon=1e-4)
    if affine:
        gain, bias = np.random.default_rng(2).normal(size=(2, len(p)))
        model.norm.weight.data, model.norm.bias.data = torch.from_numpy(gain), torch.from_numpy(bias)
        closed = hm.embeddings.two_layer.TwoLayerNetwork(1e-4, gain, bias)
    want = closed.gradients(corpus, E, p, v)
    np.testing.assert_allclose(model(*models.padded(corpus)).detach(), want.f, rtol=1e-12)
    assert trained(models, model, corpus) == pytest.approx(want.loss, rel=1e-13)
    for each in "Epv":
        np.testing.assert_allclose(getattr(model, each).grad, getattr(want, each), rtol=1e-10, atol=1e-14)
    if affine:
        np.testing.assert_allclose(model.norm.weight.grad, want.gain, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(model.norm.bias.grad, want.bias, rtol=1e-10, atol=1e-14)


def test_a_batch_is_the_same_sequences_alone(models: Any, uneven: Instance) -> None:
    corpus, E, p, v = uneven
    model = models.TwoLayer(E, p, v)
    whole = model(*models.padded(corpus)).detach().numpy()
    for rows in ([4, 0], [2]):
        part = model(*models.padded(corpus, rows)).detach().numpy()
        np.testing.assert_allclose(part, whole[rows], rtol=1e-13)


def test_parameters_are_copies_and_all_of_them_train(models: Any, uneven: Instance) -> None:
    corpus, E, p, v = uneven
    before = E.copy()
    E.setflags(write=False)
    model = models.OneLayer(E, p, v)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        losses.append(trained(models, model, corpus))
        optimiser.step()
    want = hm.embeddings.one_layer.descend_embeddings(corpus, E, p, v, steps=20, rate=0.5, train="Epv")
    np.testing.assert_allclose(losses, want.losses[:-1], rtol=1e-11)
    np.testing.assert_allclose(model.E.detach(), want.E, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(E, before)
