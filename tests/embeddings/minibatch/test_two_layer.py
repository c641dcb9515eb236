"""The two-layer trainer against A-DEF-6, torch.optim on the padded module, itself on other threads and after
a kill, and the surrogate of A-DATA-7."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings.minibatch.train import epoch_order

from ..conftest import Instance, numbers

torch = pytest.importorskip("torch", reason="the two-layer trainer needs PyTorch: make test-extras")

from hardmax.embeddings.minibatch import train_embeddings, two_layer_step  # noqa: E402

pytestmark = pytest.mark.extra
train_two_layer = partial(train_embeddings, layers=2)
PARTS = ("E", "p", "v", "a", "c", "losses")


@pytest.fixture(scope="module")
def uneven() -> Instance:
    """One distinct token, or many; one token that never occurs; means far from zero, for the LayerNorm."""
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 30, size=T).tolist() for T in (1, 2, 5, 12, 30, 3, 3, 9, 40, 1)]
    sequences[3] = [7] * 12
    corpus = hm.Corpus.from_sequences(sequences, [1, -1, 1, 1, -1, 1, -1, -1, 1, -1])
    E, p, v = (rng.normal(size=shape) + 2.0 for shape in ((corpus.S, 6), 6, 6))
    return Instance(corpus, E, p, v)


def gradients(at: Instance, monkeypatch: pytest.MonkeyPatch) -> tuple[float, np.ndarray]:
    """Loss and gradient of the stack [E; p; v], as they reach the optimizer."""
    seen: list[np.ndarray] = []
    monkeypatch.setattr(two_layer_step, "update_adamw", lambda x, g, *_: seen.append(g.copy()))
    with two_layer_step.TwoLayerModel(at.E, at.p, at.v, AdamW(0.1), "float64", 1) as model:
        loss = model.step(at.corpus, 0.01)
        assert model.measured(at.corpus)[0] == pytest.approx(loss, rel=1e-14)
        assert not model._by_W.any()
    return loss, np.concatenate(seen).reshape(-1, len(at.p))


def test_oracle_two_layer_D1(oracles: Any, d1: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    want = oracles["a"]["two_layer_D1"]
    loss, found = gradients(d1, monkeypatch)
    assert loss == pytest.approx(float(want["loss"]), abs=1e-12)
    expected = np.vstack([numbers(want[f"grad_{name}"]) for name in "Epv"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("numbers_per_group", [1, 2000, 2**21], ids=["one by one", "some", "all"])
def test_gradient_is_the_closed_form(
    uneven: Instance, scale: float, numbers_per_group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with inner products of the order of 1000, where every row of the softmax is saturated."""
    monkeypatch.setattr(two_layer_step, "GROUP", numbers_per_group)
    at = uneven._replace(E=uneven.E * scale)
    want = hm.embeddings.two_layer.TwoLayerNetwork().gradients(*at)
    loss, found = gradients(at, monkeypatch)
    assert loss == pytest.approx(want.loss, rel=1e-13)
    np.testing.assert_allclose(found, np.vstack([want.E, want.p, want.v]), rtol=1e-9, atol=1e-13)
    absent = np.setdiff1d(np.arange(at.corpus.S), at.corpus.tokens)
    assert absent.size
    assert not found[absent].any()


def test_groups_are_of_similar_size() -> None:
    sizes = np.random.default_rng(0).integers(1, 300, size=128)
    groups = list(two_layer_step.similar(sizes, 256))
    assert sorted(np.concatenate(groups).tolist()) == list(range(128))
    padded = sum(len(group) * sizes[group].max() for group in groups)
    assert padded < 1.1 * sizes.sum()
    assert len(groups) < 60


def torch_run(at: Instance, batch: int, epochs: int, seed: int) -> list[np.ndarray]:
    """[E; p; v] after every epoch by autograd on padded batches with torch's optimizer and schedule."""
    from hardmax.torch import TwoLayer, padded

    model = TwoLayer(at.E, at.p, at.v)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.3)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [3, 4], gamma=0.1)
    out = []
    for epoch in range(epochs):
        order = epoch_order(at.corpus.n, seed, epoch)
        for first in range(0, at.corpus.n, batch):
            rows = order[first : first + batch]
            optimiser.zero_grad()
            f = model(*padded(at.corpus, rows))
            torch.nn.functional.softplus(-torch.tensor(at.corpus.signs[rows]) * f).mean().backward()
            optimiser.step()
        schedule.step()
        out.append(np.vstack([x.detach().numpy() for x in (model.E, model.p, model.v)]))
    return out


@pytest.mark.parametrize("batch", [4, 99])  # 99: larger than the corpus, so that every step is compared
def test_equals_torch_step_by_step(uneven: Instance, batch: int) -> None:
    seed = int(np.random.default_rng(5).integers(2**63))
    for epochs, want in enumerate(torch_run(uneven, batch, 5, seed), start=1):
        got = train_two_layer(
            uneven.corpus,
            6,
            AdamW(0.02, weight_decay=0.3),
            epochs=epochs,
            batch=batch,
            milestones=(3, 4),
            rng=5,
            start=uneven[1:],
            dtype="float64",
        )
        np.testing.assert_allclose(np.vstack([got.E, got.p, got.v]), want, rtol=0, atol=1e-12)
        np.testing.assert_allclose([got.a, got.c], [got.E @ got.p, got.E @ got.v], rtol=0, atol=1e-13)
        assert len(got.losses) == -(-uneven.corpus.n // batch) * epochs
    want_loss = hm.embeddings.two_layer.TwoLayerNetwork().gradients(uneven.corpus, got.E, got.p, got.v).loss
    assert got.loss == pytest.approx(want_loss, rel=1e-13)


def test_float32_survives_large_inner_products(uneven: Instance) -> None:
    """Inner products of several hundred, in float32: the loss is that of float64."""
    E = 5.0 * uneven.E
    assert np.abs(E @ E.T).max() > 500
    low, high = (
        train_two_layer(
            uneven.corpus, 6, AdamW(1e-3), epochs=3, batch=4, rng=5, start=(E, *uneven[2:]), dtype=x
        )
        for x in ("float32", "float64")
    )
    assert low.E.dtype == np.float32
    np.testing.assert_allclose(low.losses, high.losses, rtol=2e-4)


def surrogate_run(epochs: int, path: Path | None = None, **more: Any) -> Any:
    corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
    options = {"step": AdamW(1e-2), "batch": 24, "rng": 3, "milestones": (5,), "checkpoint_every": 3, **more}
    return train_two_layer(corpus, 40, epochs=epochs, checkpoint=path, **options)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_layer_step, "GROUP", 2**14)
    monkeypatch.setattr(two_layer_step, "BLOCK", 2**10)
    before = torch.get_num_threads()
    one, *others = (surrogate_run(3, workers=workers) for workers in (1, 2, 3))
    for other in others:
        for name in PARTS:
            assert getattr(other, name).tobytes() == getattr(one, name).tobytes()
    assert torch.get_num_threads() == before


KILLED = """
import sys
import hardmax as hm
from hardmax.embeddings.minibatch import train_embeddings
corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
step = hm.optim.AdamW(1e-2)
train_embeddings(corpus, 40, step, epochs=10**6, batch=24, rng=3, milestones=(5,), checkpoint=sys.argv[1],
                 layers=2, checkpoint_every=3, progress=lambda epoch, total: print(epoch, flush=True))
"""


@pytest.mark.compiled
def test_kill_then_resume_gives_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 8:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    with np.load(path) as held:
        done = len(held["losses"]) // 3
    assert done >= 6
    assert done % 3 == 0
    resumed, straight = surrogate_run(done + 4, path), surrogate_run(done + 4)
    for name in PARTS:
        assert getattr(resumed, name).tobytes() == getattr(straight, name).tobytes()
    with pytest.raises(ValueError, match=r"checkpoint must come from the same training.*weight_decay"):
        surrogate_run(done + 4, path, step=AdamW(1e-2, weight_decay=0.5))
    with pytest.raises(ValueError, match=r"model: two layers there, one layer here"):
        hm.embeddings.minibatch.train_embeddings(
            straight.corpus, 40, AdamW(1e-2), batch=24, rng=3, milestones=(5,), epochs=1, checkpoint=path
        )


@pytest.mark.compiled
def test_surrogate_learns_as_the_specification_saw() -> None:
    """A-FIG-1 on A-DATA-7: loss 6.3e-5, r_v 0.918, r_p 0.821 there, by another seed and batch order."""
    model = hm.embeddings.KLevel.surrogate()
    end = train_two_layer(
        model.draw(512, rng=0), 64, AdamW(1e-2, weight_decay=1e-8), epochs=60, milestones=(30, 48), rng=1
    )
    assert 5e-6 < end.loss < 1e-3
    assert 0.85 < end.r_v < 0.97
    assert 0.7 < end.r_p < 0.92
    means = end.level_means(model)
    assert means.logit[3] > means.logit[0] > means.irrelevant_logit
    assert means.value.min() > 0.5
    assert [each.epochs for each in end.snapshots] == [0, 1, 2, 5, 10, 20, 50, 60]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"step": hm.optim.SGD(0.1), "dtype": "float32"}, "dtype must be .float64. where the plain loop"),
        ({"start": (np.zeros((30, 3)), np.zeros(3), np.zeros(3))}, "start must hold vectors of d = 6"),
    ],
)
def test_bad_arguments_are_named(uneven: Instance, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_two_layer(uneven.corpus, 6, **{"step": AdamW(0.1), "epochs": 1, "rng": 0, **change})


def test_divergence_says_so(uneven: Instance) -> None:
    with np.errstate(all="ignore"):
        run = train_two_layer(uneven.corpus, 6, AdamW(1e30, weight_decay=1.0), epochs=20, rng=0, workers=1)
    assert run.event is not None
    assert run.event.startswith("diverged in epoch")
