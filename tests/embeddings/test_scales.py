"""A factor before the logits of the readout, and of the first softmax: against identities, differences of the
loss, and a network written out in plain torch, position by position."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.optim import SGD, AdamW
from hardmax.embeddings import GramState, TwoLayerGram
from hardmax.embeddings.gram import descend_gram, flow_gram
from hardmax.embeddings.minibatch import train_embeddings
from hardmax.embeddings.minibatch.train import epoch_order
from hardmax.embeddings.one_layer import descend_embeddings, evaluate, gradients, token_mass
from hardmax.embeddings.two_layer import TwoLayerNetwork

from .conftest import Instance

D = 5
WIDTH = 1.0 / np.sqrt(D)


@pytest.fixture(scope="module")
def uneven() -> Instance:
    rng = np.random.default_rng(1)
    sequences = [rng.integers(0, 9, size=T).tolist() for T in (1, 2, 5, 12, 20, 4)]
    corpus = hm.Corpus.from_sequences(sequences, [1, -1, 1, 1, -1, -1])
    return Instance(corpus, rng.normal(size=(corpus.S, D)), rng.normal(size=D), rng.normal(size=D))


def plain_torch(at: Instance, layers: int, scale: float, first: float, rows: Any = None) -> tuple[Any, ...]:
    """Loss, gradients and attention of the readout with autograd: no counts, no distinct tokens."""
    torch = pytest.importorskip("torch", reason="plain torch is the reference here: make test-extras")
    E, p, v = (torch.tensor(x, requires_grad=True) for x in at[1:])
    sequences, y = list(at.corpus.sequences()), at.corpus.signs
    loss, heaviest = torch.zeros((), dtype=torch.float64), []
    rows = range(len(sequences)) if rows is None else rows
    for k in rows:
        X = E[torch.tensor([int(x) for x in sequences[k]])]
        if layers == 2:
            X = torch.nn.functional.layer_norm(X + (first * X @ X.T).softmax(1) @ X, (D,))
        q = (scale * X @ p).softmax(0)
        heaviest.append(max(float(q[np.array(sequences[k]) == s].sum().detach()) for s in set(sequences[k])))
        loss = loss + torch.nn.functional.softplus(-y[k] * (q @ (X @ v))) / len(rows)
    loss.backward()
    return float(loss.detach()), [x.grad.numpy() for x in (E, p, v)], float(np.mean(heaviest))


@pytest.mark.parametrize("scale", ["1/sqrt(d)", 0.3, 2.0])
def test_a_scaled_readout_is_p_with_another_length(uneven: Instance, scale: Any) -> None:
    """f(E, p, v; c) = f(E, c p, v): the gradient by p is c times that by c p, all others are equal."""
    corpus, E, p, v = uneven
    c = WIDTH if isinstance(scale, str) else scale
    got, want = gradients(corpus, E, p, v, scale=scale), gradients(corpus, E, c * p, v)
    np.testing.assert_allclose(got.p, c * want.p, rtol=1e-13)
    np.testing.assert_allclose(got.v, want.v, rtol=1e-13)
    np.testing.assert_allclose(got.E, want.E, rtol=1e-12)
    model, printed = TwoLayerNetwork(scale=scale), TwoLayerNetwork()
    got2, want2 = model.gradients(corpus, E, p, v), printed.gradients(corpus, E, c * p, v)
    np.testing.assert_allclose(got2.p, c * want2.p, rtol=1e-12)
    np.testing.assert_allclose(got2.E, want2.E, rtol=1e-11, atol=1e-14)
    assert got2.loss == pytest.approx(want2.loss, rel=1e-14)


def test_where_the_scaled_logits_are_huge(uneven: Instance) -> None:
    """The branch of the log domain: A underflows, its direction and its exponent do not."""
    corpus, E, p, v = uneven
    got, want = evaluate(corpus, E @ p, E @ v, 1e4), evaluate(corpus, E @ (1e4 * p), E @ v)
    np.testing.assert_allclose(got.A_hat, 1e4 * want.A_hat, rtol=1e-10)
    assert got.log_scale == pytest.approx(want.log_scale)


@pytest.mark.parametrize("names", [{"first_scale": 0.4}, {"first_scale": "1/sqrt(d)", "scale": 2.0}])
def test_two_layer_gradients_are_differences_of_the_loss(uneven: Instance, names: dict[str, Any]) -> None:
    corpus, E, p, v = uneven
    model, rng, h = TwoLayerNetwork(**names), np.random.default_rng(2), 1e-6
    found = model.gradients(corpus, E, p, v)
    toward = rng.normal(size=E.shape)
    ahead, behind = (model.gradients(corpus, E + s * h * toward, p, v).loss for s in (1, -1))
    assert float((found.E * toward).sum()) == pytest.approx((ahead - behind) / (2 * h), rel=1e-7)


@pytest.mark.extra
@pytest.mark.parametrize("first", [1.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, WIDTH])
def test_models_are_the_network_in_plain_torch(uneven: Instance, scale: float, first: float) -> None:
    torch = pytest.importorskip("torch", reason="the modules need PyTorch: make test-extras")
    corpus, *vectors = uneven
    loss, want, heaviest = plain_torch(uneven, 2, scale, first)
    model = TwoLayerNetwork(scale=scale, first_scale=first)
    found = model.gradients(corpus, *vectors)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    for got, expected in zip((found.E, found.p, found.v), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13)
    shares = model.attention(corpus, *vectors)
    assert np.maximum.reduceat(shares, corpus.offsets[:-1]).mean() == pytest.approx(heaviest, rel=1e-12)
    module = hm.torch.TwoLayer(*vectors, scale=scale, first_scale=first)
    module.loss(corpus).backward()
    np.testing.assert_allclose(module.E.grad, want[0], rtol=1e-9, atol=1e-13)
    problem = hm.torch.problem_of(module, corpus)
    assert hm.loss(problem, hm.torch.point_of(module, problem)) == pytest.approx(loss, rel=1e-10)
    one = hm.torch.OneLayer(*vectors, scale="1/sqrt(d)")
    one_loss, one_want, _ = plain_torch(uneven, 1, WIDTH, 1.0)
    one.loss(corpus).backward()
    np.testing.assert_allclose(one.p.grad, one_want[1], rtol=1e-10)
    problem = hm.torch.problem_of(one, corpus)
    assert hm.loss(problem, hm.torch.point_of(one, problem)) == pytest.approx(one_loss, rel=1e-12)
    assert torch.is_tensor(one.E)


@pytest.mark.extra
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("scales", [{"scale": "1/sqrt(d)"}, {"scale": 0.7, "first_scale": "1/sqrt(d)"}])
def test_trainers_take_the_steps_of_torch(uneven: Instance, layers: int, scales: dict[str, Any]) -> None:
    """Every mini-batch of three epochs against autograd on the network written out, with torch's AdamW."""
    torch = pytest.importorskip("torch", reason="plain torch is the reference here: make test-extras")
    if layers == 1 and "first_scale" in scales:
        pytest.skip("one layer has one softmax")
    numbers = {name: WIDTH if isinstance(c, str) else c for name, c in scales.items()}
    train = partial(train_embeddings, layers=layers)
    options = {"batch": 4, "rng": 5, "start": uneven[1:], "dtype": "float64", **scales}
    got = train(uneven.corpus, D, AdamW(0.02), epochs=3, **options)
    seed = int(np.random.default_rng(5).integers(2**63))
    now, losses = [torch.tensor(x) for x in uneven[1:]], []
    optimiser = torch.optim.AdamW(now, lr=0.02, weight_decay=0.0)
    for epoch in range(3):
        order = epoch_order(uneven.corpus.n, seed, epoch)
        for first in range(0, uneven.corpus.n, 4):
            at = Instance(uneven.corpus, *(x.numpy() for x in now))
            factors = numbers["scale"], numbers.get("first_scale", 1.0)
            loss, by, _ = plain_torch(at, layers, *factors, rows=order[first : first + 4])
            losses.append(loss)
            for x, g in zip(now, by, strict=True):
                x.grad = torch.tensor(g)
            optimiser.step()
    np.testing.assert_allclose(got.losses, losses, rtol=1e-9)
    np.testing.assert_allclose(got.E, now[0].numpy(), rtol=1e-8, atol=1e-10)
    at = Instance(uneven.corpus, got.E, got.p, got.v)
    loss, _, heaviest = plain_torch(at, layers, numbers["scale"], numbers.get("first_scale", 1.0))
    assert got.loss == pytest.approx(loss, rel=1e-10)
    assert got.mass == pytest.approx(heaviest, rel=1e-10)
    assert (got.scale, got.first_scale) == (numbers["scale"], numbers.get("first_scale", 1.0))


def test_a_scaled_readout_trains_as_p_with_its_own_rate_and_start(uneven: Instance) -> None:
    """With q = c p a step of SGD at the rate r moves q at c^2 r: here by full batches of p alone."""
    corpus, E, p, v = uneven
    c, options = 0.3, {"steps": 40, "train": ["p"]}
    got = descend_embeddings(corpus, E, p, v, rate=0.5, scale=c, **options)
    want = descend_embeddings(corpus, E, c * p, v, rate=0.5 * c**2, **options)
    np.testing.assert_allclose(c * got.a, want.a, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-12)
    assert hm.loss(got.problem, got.p) == pytest.approx(got.losses[-1], rel=1e-12)


@pytest.mark.parametrize("train", ["Ep", "Epv"])
def test_inner_products_follow_the_vectors(uneven: Instance, train: str) -> None:
    corpus, E, p, v = uneven
    start = GramState.from_vectors(E, p, v)
    want = descend_embeddings(corpus, E, p, v, steps=30, rate=0.1, train=train, scale=0.4)
    got = descend_gram(corpus, start, steps=30, rate=0.1, train=train, scale=0.4)
    np.testing.assert_allclose(got.a[-1], want.a[-1], rtol=1e-11)
    np.testing.assert_allclose(start.step(corpus, 0.1, train, scale=0.4).a, got.a[1], rtol=1e-13)
    flow = flow_gram(corpus, start, times=[0.0, 0.3], train=train, scale=0.4)
    near = descend_gram(corpus, start, steps=3000, rate=1e-4, train=train, scale=0.4)
    np.testing.assert_allclose(flow.state.a, near.state.a, atol=1e-3)
    assert hm.loss(flow.problem, flow.final) == pytest.approx(flow.losses[-1], rel=1e-10)
    assert abs(flow.losses[-1] - flow_gram(corpus, start, times=[0.0, 0.3], train=train).losses[-1]) > 1e-3


def test_two_layers_by_inner_products(uneven: Instance) -> None:
    corpus, E, p, v = uneven
    names = {"scale": "1/sqrt(d)", "first_scale": 0.3}
    model, state = TwoLayerNetwork(**names), TwoLayerGram.from_vectors(E, p, v, **names)
    for _ in range(3):
        found = model.gradients(corpus, E, p, v)
        E, p, v = E - 0.2 * found.E, p - 0.2 * found.p, v - 0.2 * found.v
        state = state.step(corpus, 0.2)
    assert state.loss(corpus) == pytest.approx(model.gradients(corpus, E, p, v).loss, rel=1e-12)


def test_the_default_is_as_printed_to_the_bit(uneven: Instance) -> None:
    options: dict[str, Any] = {"epochs": 3, "batch": 4, "rng": 0}
    printed = train_embeddings(uneven.corpus, 4, SGD(0.1), **options)
    for scale in (1, 1.0, None):
        assert train_embeddings(uneven.corpus, 4, SGD(0.1), scale=scale, **options).E.tobytes() == (
            printed.E.tobytes()
        )
    scaled = train_embeddings(uneven.corpus, 4, SGD(0.1), scale=0.5, **options)
    assert scaled.E.tobytes() != printed.E.tobytes()
    top = np.maximum.reduceat(token_mass(uneven.corpus, 0.5 * scaled.a), uneven.corpus.offsets[:-1])
    assert scaled.mass == pytest.approx(top.mean())
    pair = hm.Corpus.from_sequences([[0, 1], [uneven.corpus.S - 1]], [1, -1])
    want = float(evaluate(pair, 0.5 * scaled.a, scaled.c).f[0])
    assert scaled.predict([[0, 1]])[0].score == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("bad", [0, -1.0, "sqrt", float("nan"), "1/sqrt(n)"])
def test_other_scales_are_refused(uneven: Instance, bad: Any) -> None:
    with pytest.raises(ValueError, match=r"scale must be .*(positive|number)"):
        train_embeddings(uneven.corpus, 4, SGD(0.1), epochs=1, rng=0, scale=bad)
    with pytest.raises(ValueError, match=r"first_scale must be .*positive"):
        TwoLayerNetwork(first_scale=bad)


def test_inner_products_have_no_width(uneven: Instance) -> None:
    start = GramState.infinite(uneven.corpus.S)
    with pytest.raises(ValueError, match=r"scale must be .*number"):
        descend_gram(uneven.corpus, start, steps=1, rate=0.1, scale="1/sqrt(d)")  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", [1, pytest.param(2, marks=pytest.mark.extra)])
def test_checkpoints_record_the_scale(uneven: Instance, tmp_path: Path, layers: int) -> None:
    if layers == 2:
        pytest.importorskip("torch", reason="the two-layer trainer needs PyTorch: make test-extras")
    train = partial(train_embeddings, layers=layers)
    path = tmp_path / "run.npz"

    def run(**more: Any) -> Any:
        return train(uneven.corpus, 4, AdamW(0.1), epochs=2, batch=4, rng=0, checkpoint=path, **more)

    scaled = run(scale="1/sqrt(d)")
    assert run(scale=0.5).E.tobytes() == scaled.E.tobytes()
    with pytest.raises(ValueError, match=r"same training.*\(scale: 0\.5 there, 1\.0 here\)"):
        run()
    path.unlink()
    printed = run()
    with np.load(path) as held:
        arrays = dict(held)
    identity = json.loads(str(arrays.pop("identity")))
    older = {name: each for name, each in identity.items() if "scale" not in name}
    assert len(identity) - len(older) == layers
    np.savez(path, identity=json.dumps(older), **arrays)
    assert run().E.tobytes() == printed.E.tobytes()
    with pytest.raises(ValueError, match=r"\(scale: 1\.0 there, 0\.1 here\)"):
        run(scale=0.1)
