"""The trainer against torch.optim, the oracle, itself on other threads, and itself after a kill."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.dynamics.optim import SGD, AdamW
from hardmax.embeddings.minibatch import epoch_order, rate_at, train_embeddings
from hardmax.embeddings.minibatch.train import epoch_batches

RAGGED = [[0, 1, 1, 3], [2], [0, 2, 2, 2, 4], [4, 4, 1], [3, 0, 1], [5, 2], [1, 5, 5, 0, 0, 3]]
LABELS = [1, -1, 1, -1, 1, -1, 1]


def ragged_corpus() -> hm.Corpus:
    return hm.Corpus.from_sequences(RAGGED, LABELS)


def torch_run(
    corpus: hm.Corpus, start: Any, make: Any, batch: int, epochs: int, milestones: Any
) -> list[Any]:
    """(E, p, v) after every epoch, by autograd, position by position, with torch's optimizer and schedule.

    The order of the sequences is the trainer's, found from the seed that rng=5 gives after no other draw.
    """
    torch = pytest.importorskip("torch", reason="compares with PyTorch: make test-extras does")
    seed = int(np.random.default_rng(5).integers(2**63))
    E, p, v = (torch.tensor(np.array(x), dtype=torch.float64, requires_grad=True) for x in start)
    optimiser = make(torch, [E, p, v])
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(milestones), gamma=0.1)
    sequences = corpus.sequences()
    out = []
    for epoch in range(epochs):
        order = epoch_order(corpus.n, seed, epoch)
        for first in range(0, corpus.n, batch):
            optimiser.zero_grad()
            losses = []
            for k in order[first : first + batch]:
                X = E[torch.tensor(sequences[k])]
                f = torch.softmax(X @ p, 0) @ (X @ v)
                losses.append(torch.nn.functional.softplus(-float(corpus.labels[k]) * f))
            torch.stack(losses).mean().backward()
            optimiser.step()
        schedule.step()
        out.append([x.detach().numpy().copy() for x in (E, p, v)])
    return out


@pytest.mark.extra
@pytest.mark.parametrize(
    ("step", "make"),
    [
        (AdamW(0.02, weight_decay=0.3), lambda torch, x: torch.optim.AdamW(x, lr=0.02, weight_decay=0.3)),
        (
            SGD(0.5, weight_decay=0.05, momentum=0.9),
            lambda torch, x: torch.optim.SGD(x, lr=0.5, weight_decay=0.05, momentum=0.9),
        ),
        (hm.optim.GD(1.0), lambda torch, x: torch.optim.SGD(x, lr=1.0)),
    ],
    ids=["adamw", "sgd momentum", "sgd plain"],
)
@pytest.mark.parametrize("batch", [3, 7])  # 7 is one step per epoch, so every step is compared
def test_equals_torch_step_by_step(step, make, batch):
    corpus, d = ragged_corpus(), 5
    start = hm.embeddings.initial_vectors(corpus.S, d, rng=1)
    expected = torch_run(corpus, start, make, batch, 8, (4, 6))
    for epochs in range(1, 9):
        got = train_embeddings(
            corpus,
            d,
            step,
            epochs=epochs,
            batch=batch,
            milestones=(4, 6),
            rng=5,
            start=start,
            dtype="float64",
        )
        for ours, theirs in zip((got.E, got.p, got.v), expected[epochs - 1], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got.a, got.E @ got.p, rtol=0, atol=1e-14)
        assert len(got.losses) == -(-corpus.n // batch) * epochs


@pytest.mark.extra
def test_rows_that_no_batch_needs_for_long_move_as_torch_moves_them():
    """Token 0 is in one sequence of 150, so its row misses more steps than are remembered."""
    rng = np.random.default_rng(8)
    sequences = [[0, 1], *rng.integers(1, 6, (149, 3)).tolist()]
    corpus = hm.Corpus.from_sequences(sequences, rng.choice([-1, 1], 150))
    start = hm.embeddings.initial_vectors(corpus.S, 5, rng=1)
    step = AdamW(0.02, weight_decay=0.3)

    def make(torch, x):
        return torch.optim.AdamW(x, lr=0.02, weight_decay=0.3)

    expected = torch_run(corpus, start, make, 1, 2, ())[-1]
    more = {"epochs": 2, "batch": 1, "milestones": (), "rng": 5, "start": start, "dtype": "float64"}
    got = train_embeddings(corpus, 5, step, **more)
    for ours, theirs in zip((got.E, got.p, got.v), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def decimals(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)


def test_oracle_adamw_five_steps(oracles, d1):
    given = oracles["a"]["trajectories_D1"]["adamw_5steps_lr0.01_wd0.1"]
    end = train_embeddings(
        d1.corpus,
        3,
        AdamW(0.01, weight_decay=0.1),
        epochs=5,
        batch=d1.corpus.n,
        rng=0,
        start=(d1.E, d1.p, d1.v),
        dtype="float64",
    )
    assert end.loss == pytest.approx(float(given["loss"]), abs=1e-12)
    for name in "Epv":
        np.testing.assert_allclose(getattr(end, name), decimals(given[name]), rtol=0, atol=1e-12)


def test_oracle_gradient_descent_of_all_parameters(oracles, d1):
    given = oracles["a"]["trajectories_D1"]["joint_E_p_v_100steps_eta0.1"]
    end = train_embeddings(
        d1.corpus,
        3,
        SGD(0.1),
        epochs=100,
        batch=d1.corpus.n,
        milestones=(),
        rng=0,
        start=(d1.E, d1.p, d1.v),
        dtype="float64",
    )
    assert end.loss == pytest.approx(float(given["loss"]), abs=1e-12)
    for name in ("p", "v", "a", "c"):
        np.testing.assert_allclose(getattr(end, name), decimals(given[name]), rtol=0, atol=1e-12)


@given(n=st.integers(1, 7), batch=st.integers(1, 9), seed=st.integers(0, 99), epoch=st.integers(0, 9))
@settings(max_examples=30)
def test_batches_hold_every_sequence_once(n, batch, seed, epoch):
    corpus = hm.Corpus.from_sequences(RAGGED[:n], LABELS[:n])
    parts = list(epoch_batches(corpus, batch, seed, epoch))
    assert [part.n for part in parts[:-1]] == [batch] * (len(parts) - 1)
    got = [(tuple(x), y) for part in parts for x, y in zip(part.sequences(), part.labels, strict=True)]
    assert sorted(got) == sorted(
        (tuple(x), y) for x, y in zip(corpus.sequences(), corpus.labels, strict=True)
    )


def test_each_epoch_has_its_own_order():
    orders = {tuple(epoch_order(50, 3, epoch)) for epoch in range(20)}
    assert len(orders) == 20


def test_schedule_multiplies_once_per_milestone():
    assert [rate_at(1.0, (2, 2, 5), e) for e in (1, 2, 5)] == pytest.approx([1.0, 0.01, 0.001])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", [AdamW, SGD])
def test_threads_change_no_bit(dtype, rule):
    corpus = hm.embeddings.KLevel.surrogate().draw(40, rng=2)
    ends = [
        train_embeddings(corpus, 30, rule(0.01), epochs=2, batch=16, rng=3, dtype=dtype, workers=workers)
        for workers in (1, 2, 3, 7)
    ]
    for end in ends[1:]:
        for name in ("E", "p", "v", "a", "c", "losses"):
            assert getattr(end, name).tobytes() == getattr(ends[0], name).tobytes()
    assert ends[0].E.dtype == dtype


def test_tiles_and_blocks_of_any_size():
    """More columns than a tile and fewer rows than blocks: E p and E v are those of the returned vectors."""
    end = train_embeddings(ragged_corpus(), 700, AdamW(0.01), epochs=3, batch=4, rng=0, dtype="float64")
    np.testing.assert_allclose(end.a, end.E @ end.p, atol=1e-12)
    np.testing.assert_allclose(end.c, end.E @ end.v, atol=1e-12)


def test_float32_follows_float64():
    corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
    low, high = (
        train_embeddings(corpus, 32, AdamW(1e-3), epochs=5, batch=16, rng=3, dtype=x)
        for x in ("float32", "float64")
    )
    np.testing.assert_allclose(low.losses, high.losses, rtol=1e-4)


def test_stops_at_the_stated_loss():
    corpus = ragged_corpus()
    seen: list[tuple[int, int]] = []
    end = train_embeddings(
        corpus,
        16,
        AdamW(0.05),
        epochs=500,
        batch=3,
        rng=0,
        until_loss=0.3,
        progress=lambda *call: seen.append(call),
    )
    assert end.event == "loss reached"
    assert 1 < end.epochs < 500
    assert end.epoch_losses[-1] <= 0.3 < end.epoch_losses[-2]
    assert seen == [(epoch, 500) for epoch in range(1, end.epochs + 1)]
    weights = np.array([3, 3, 1]) / 7
    assert end.epoch_losses[0] == pytest.approx(end.losses[:3] @ weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": "adam"}, "must be an optimizer"),
        ({"step": hm.optim.Normalized(0.1), "dtype": "float32"}, "dtype must be .float64. where the plain"),
        ({"step": AdamW([0.1, 0.2])}, "lr must be one number or one for each of the 1 steps"),
        ({"step": AdamW(0.1, eps=1e-20)}, "eps must be at least 1e-12 .* in float32, got 1e-20"),
        ({"step": AdamW(0.1, eps=0.0), "dtype": "float64"}, "eps must be at least 1e-140"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"batch": 0}, "batch must be an integer of at least 1"),
        ({"milestones": 100}, "milestones must be a list of integers"),
        ({"start": (np.zeros((6, 4)), np.zeros(4))}, "start must be a tuple of 3 values"),
        ({"start": (np.zeros((6, 3)), np.zeros(3), np.zeros(3))}, "start must hold vectors of d = 4"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        train_embeddings(ragged_corpus(), 4, **{"step": AdamW(0.1), "epochs": 1, "rng": 0, **change})


def test_a_small_epsilon_sees_small_moments():
    """Token 1 has 1e-26 of the attention: its second moments are far below those of float32."""
    corpus, rate, epsilon = hm.Corpus.from_sequences([[0, 1], [2, 1]], [1, -1]), 1e-2, 1e-30
    E = np.zeros((3, 4))
    E[1] = [-60.0, 0.3, 0.0, 0.0]
    start = (E, np.eye(4)[0], np.eye(4)[1])
    x, first, second = [each.copy() for each in start], [0.0] * 3, [0.0] * 3
    for step in range(1, 6):
        for i, g in enumerate(hm.embeddings.one_layer.gradients(corpus, *x)):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            root = np.sqrt(second[i] / (1 - 0.999**step))
            x[i] = x[i] - rate * (first[i] / (1 - 0.9**step)) / (root + epsilon)
    run = train_embeddings(corpus, 4, AdamW(rate, eps=epsilon), epochs=5, rng=0, start=start, dtype="float64")
    assert x[0][1, 0] != -60.0
    for found, want in zip((run.E, run.p, run.v), x, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)


def test_a_corpus_is_asked_for_by_name():
    with pytest.raises(
        ValueError, match=r"corpus must be a hardmax\.Corpus, got ndarray; .*a TextCorpus has a \.corpus"
    ):
        train_embeddings(np.ones((2, 3)), 4, AdamW(0.1), epochs=1, rng=0)  # type: ignore[arg-type]


def test_the_last_step_may_not_end_in_infinity_either(tmp_path):
    path = tmp_path / "run.npz"
    with np.errstate(all="ignore"):
        run = train_embeddings(ragged_corpus(), 4, AdamW(1e30), epochs=1, rng=0, workers=1, checkpoint=path)
    assert run.event == "diverged in epoch 1: lower the rate (1e+30)"
    assert run.epochs == 0
    assert np.isfinite(run.a).all()
    assert not path.exists()


def test_divergence_says_so():
    # numpy keeps errstate per thread, and without the compiler the kernels are numpy
    with np.errstate(all="ignore"):
        run = train_embeddings(ragged_corpus(), 4, SGD(1e12, weight_decay=9.0), epochs=60, rng=0, workers=1)
    assert run.event is not None
    assert run.event.startswith("diverged in epoch")
    assert math.isnan(run.loss)
    assert len(run.epoch_losses) < 60
    assert np.isfinite(run.epoch_losses).all()
