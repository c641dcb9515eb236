"""The trainer against torch.optim, the oracle, itself on other threads, and itself after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import hardmax as hm
from hardmax.embeddings.trainer import epoch_order, rate_at, train_embeddings
from hardmax.embeddings.trainer.batches import epoch_batches

RAGGED = [[0, 1, 1, 3], [2], [0, 2, 2, 2, 4], [4, 4, 1], [3, 0, 1], [5, 2], [1, 5, 5, 0, 0, 3]]
LABELS = [1, -1, 1, -1, 1, -1, 1]


def ragged_corpus() -> hm.Corpus:
    return hm.Corpus.from_sequences(RAGGED, LABELS)


def torch_run(
    corpus: hm.Corpus, start: Any, make: Any, batch: int, epochs: int, milestones: Any
) -> list[Any]:
    """(E, p, v) after every epoch, by autograd, position by position, with torch's optimiser and schedule.

    The order of the sequences is the trainer's, found from the seed that rng=5 gives after no other draw.
    """
    torch = pytest.importorskip("torch")
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


@pytest.mark.parametrize(
    ("options", "make"),
    [
        (
            {"optimiser": "adamw", "rate": 0.02, "weight_decay": 0.3},
            lambda torch, x: torch.optim.AdamW(x, lr=0.02, weight_decay=0.3),
        ),
        (
            {"optimiser": "sgd", "rate": 0.5, "weight_decay": 0.05, "momentum": 0.9},
            lambda torch, x: torch.optim.SGD(x, lr=0.5, weight_decay=0.05, momentum=0.9),
        ),
        ({"optimiser": "sgd", "rate": 1.0}, lambda torch, x: torch.optim.SGD(x, lr=1.0)),
    ],
    ids=["adamw", "sgd momentum", "sgd plain"],
)
@pytest.mark.parametrize("batch", [3, 7])  # 7 is one step per epoch, so every step is compared
def test_equals_torch_step_by_step(options, make, batch):
    corpus, d = ragged_corpus(), 5
    start = hm.embeddings.initial_vectors(corpus.S, d, rng=1)
    expected = torch_run(corpus, start, make, batch, 8, (4, 6))
    for epochs in range(1, 9):
        got = train_embeddings(
            corpus,
            d,
            **options,
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


def test_rows_that_no_batch_needs_for_long_move_as_torch_moves_them():
    """Token 0 is in one sequence of 150, so its row misses more steps than are remembered."""
    rng = np.random.default_rng(8)
    sequences = [[0, 1], *rng.integers(1, 6, (149, 3)).tolist()]
    corpus = hm.Corpus.from_sequences(sequences, rng.choice([-1, 1], 150))
    start = hm.embeddings.initial_vectors(corpus.S, 5, rng=1)
    options = {"rate": 0.02, "weight_decay": 0.3}

    def make(torch, x):
        return torch.optim.AdamW(x, lr=0.02, weight_decay=0.3)

    expected = torch_run(corpus, start, make, 1, 2, ())[-1]
    more = {"epochs": 2, "batch": 1, "milestones": (), "rng": 5, "start": start, "dtype": "float64"}
    got = train_embeddings(corpus, 5, **options, **more)
    for ours, theirs in zip((got.E, got.p, got.v), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def decimals(nested: Any) -> np.ndarray:
    return np.array(nested, dtype=float)


def test_oracle_adamw_five_steps(oracles, d1):
    given = oracles["a"]["trajectories_D1"]["adamw_5steps_lr0.01_wd0.1"]
    end = train_embeddings(
        d1.corpus, 3, rate=0.01, weight_decay=0.1, epochs=5, batch=d1.corpus.n, rng=0,
        start=(d1.E, d1.p, d1.v), dtype="float64",
    )  # fmt: skip
    assert end.loss == pytest.approx(float(given["loss"]), abs=1e-12)
    for name in "Epv":
        np.testing.assert_allclose(getattr(end, name), decimals(given[name]), rtol=0, atol=1e-12)


def test_oracle_gradient_descent_of_all_parameters(oracles, d1):
    given = oracles["a"]["trajectories_D1"]["joint_E_p_v_100steps_eta0.1"]
    end = train_embeddings(
        d1.corpus, 3, optimiser="sgd", rate=0.1, epochs=100, batch=d1.corpus.n, milestones=(), rng=0,
        start=(d1.E, d1.p, d1.v), dtype="float64",
    )  # fmt: skip
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
@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_threads_change_no_bit(dtype, optimiser):
    corpus = hm.embeddings.KLevel.surrogate().draw(40, rng=2)
    ends = [
        train_embeddings(
            corpus,
            30,
            optimiser=optimiser,
            rate=0.01,
            epochs=2,
            batch=16,
            rng=3,
            dtype=dtype,
            threads=threads,
        )
        for threads in (1, 2, 3, 7)
    ]
    for end in ends[1:]:
        for name in ("E", "p", "v", "a", "c", "losses"):
            assert getattr(end, name).tobytes() == getattr(ends[0], name).tobytes()
    assert ends[0].E.dtype == dtype


def test_tiles_and_blocks_of_any_size():
    """More columns than a tile and fewer rows than blocks: E p and E v are those of the returned vectors."""
    end = train_embeddings(ragged_corpus(), 700, rate=0.01, epochs=3, batch=4, rng=0, dtype="float64")
    np.testing.assert_allclose(end.a, end.E @ end.p, atol=1e-12)
    np.testing.assert_allclose(end.c, end.E @ end.v, atol=1e-12)


def test_float32_follows_float64():
    corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
    low, high = (
        train_embeddings(corpus, 32, rate=1e-3, epochs=5, batch=16, rng=3, dtype=x)
        for x in ("float32", "float64")
    )
    np.testing.assert_allclose(low.losses, high.losses, rtol=1e-4)


def test_stops_at_the_stated_loss():
    corpus = ragged_corpus()
    seen: list[tuple[int, float]] = []
    end = train_embeddings(
        corpus,
        16,
        rate=0.05,
        epochs=500,
        batch=3,
        rng=0,
        until_loss=0.3,
        progress=lambda e, x: seen.append((e, x)),
    )
    assert end.stopped == "loss"
    assert 1 < end.epochs < 500
    assert end.epoch_losses[-1] <= 0.3 < end.epoch_losses[-2]
    assert [e for e, _ in seen] == list(range(1, end.epochs + 1))
    np.testing.assert_allclose([x for _, x in seen], end.epoch_losses)
    weights = np.array([3, 3, 1]) / 7
    assert end.epoch_losses[0] == pytest.approx(end.losses[:3] @ weights)


def run_with(path: Path | None, epochs: int, **more: Any) -> Any:
    return train_embeddings(
        ragged_corpus(), 6, rate=0.02, epochs=epochs, batch=3, milestones=(3,), checkpoint=path,
        **{"rng": 4, "checkpoint_every": 2, **more},
    )  # fmt: skip


@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
def test_more_epochs_go_on_from_the_end(tmp_path, optimiser):
    path = tmp_path / "run.npz"
    run_with(path, 3, optimiser=optimiser)
    resumed, straight = run_with(path, 7, optimiser=optimiser), run_with(None, 7, optimiser=optimiser)
    for name in ("E", "p", "v", "a", "c", "losses"):
        assert getattr(resumed, name).tobytes() == getattr(straight, name).tobytes()
    assert [each.epochs for each in resumed.snapshots] == [each.epochs for each in straight.snapshots]
    assert all((x.a == y.a).all() for x, y in zip(resumed.snapshots, straight.snapshots, strict=True))
    assert not list(tmp_path.glob("*.part"))


def test_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, 2)
    with pytest.raises(ValueError, match=r"checkpoint must come from the same training.*weight_decay"):
        run_with(path, 2, weight_decay=0.5)
    with pytest.raises(ValueError, match=r"\(another rng or d, another rng, d or start\); name another file"):
        run_with(path, 2, rng=9)
    whole = path.read_bytes()
    np.save(tmp_path / "array.npy", np.ones(3))
    for content in (b"half a file", whole[: len(whole) // 2], (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint must be a file that a training of hardmax wrote"):
            run_with(path, 2)


def test_checkpoint_folder_is_checked_before_the_first_epoch(tmp_path):
    seen: list[int] = []
    with pytest.raises(ValueError, match="checkpoint must lie in a folder that can be written"):
        run_with(tmp_path / "no" / "run.npz", 2, progress=lambda epoch, loss: seen.append(epoch))
    assert not seen


def test_two_trainings_of_one_checkpoint_do_not_meet_in_a_half_written_file(tmp_path, monkeypatch):
    path, straight = tmp_path / "run.npz", run_with(None, 4)
    savez, inside = np.savez, []

    def late(file: Any, **arrays: Any) -> None:
        """While the first writes, another run begins, ends, and puts its own file in place."""
        monkeypatch.setattr(np, "savez", savez)
        inside.append(run_with(path, 4))
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", late)
    ends = [run_with(path, 4), *inside, run_with(path, 4)]
    assert all(end.E.tobytes() == straight.E.tobytes() for end in ends)
    assert [each.name for each in tmp_path.iterdir()] == ["run.npz"]


def test_what_a_kill_leaves_half_written_is_swept_and_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    old, young = tmp_path / "run.npz.0a.part", tmp_path / "run.npz.0b.part"
    for part in (old, young):
        part.touch()
    os.utime(old, (0, 0))
    run_with(tmp_path / "run.npz", 1)
    assert {each.name for each in tmp_path.iterdir()} == {"run.npz", young.name}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        run_with(tmp_path / "run.npz", 2)
    assert {each.name for each in tmp_path.iterdir()} == {"run.npz", young.name}


KILLED = """
import sys
import hardmax as hm
from hardmax.embeddings.trainer import train_embeddings
corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
train_embeddings(corpus, 24, rate=1e-3, epochs=int(sys.argv[2]), batch=24, rng=3, checkpoint=sys.argv[1],
                 checkpoint_every=3, progress=lambda epoch, loss: print(epoch, flush=True))
"""


@pytest.mark.compiled
def test_kill_then_resume_gives_the_same_bits(tmp_path):
    path = tmp_path / "run.npz"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), "1000000"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 20:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    with np.load(path) as held:
        done = len(held["losses"]) // 3
    assert done >= 18
    assert done % 3 == 0
    corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
    options: dict[str, Any] = {"rate": 1e-3, "epochs": done + 5, "batch": 24, "rng": 3}
    resumed = train_embeddings(corpus, 24, **options, checkpoint=path, checkpoint_every=3)
    straight = train_embeddings(corpus, 24, **options)
    for name in ("E", "p", "v", "a", "c", "losses"):
        assert getattr(resumed, name).tobytes() == getattr(straight, name).tobytes()


def test_observables():
    model = hm.embeddings.KLevel.surrogate()
    corpus = model.draw(400, rng=2)
    end = train_embeddings(corpus, 32, rate=1e-2, epochs=12, batch=64, rng=3)
    seen = corpus.statistics.total > 0
    x = corpus.posterior_difference[seen]
    assert end.r_v == pytest.approx(spearmanr(x, end.c[seen]).statistic)
    assert end.r_p == pytest.approx(spearmanr(np.abs(x), end.a[seen]).statistic)
    assert end.r_v > 0.8
    assert end.r_p > 0.5
    assert end.sign_accuracy() > 0.9
    assert end.pearson(model.level > 0) > 0.9
    means = end.level_means(model)
    first = model.level == 1
    assert means.value[0] == pytest.approx((model.sign * end.c)[first & seen].mean())
    assert means.logit[3] > means.logit[0] > means.irrelevant_logit
    order = np.argsort(np.abs(x), kind="stable")
    tenth = len(order) // 10
    assert end.deciles.top == np.median(end.a[seen][order[-tenth:]])
    assert end.deciles.top > end.deciles.bottom == np.median(end.a[seen][order[:tenth]])
    assert [each.epochs for each in end.snapshots] == [0, 1, 2, 5, 10, 12]
    E, p, _ = hm.embeddings.initial_vectors(corpus.S, 32, rng=3)
    np.testing.assert_allclose(end.snapshots[0].a, E @ p, atol=1e-6)
    early = train_embeddings(corpus, 32, rate=1e-2, epochs=5, batch=64, rng=3)
    assert end.snapshots[3].c.tobytes() == early.c.tobytes()
    assert end.snapshots[3].r_v == early.r_v < end.r_v == end.snapshots[-1].r_v
    assert np.isnan(end.sign_accuracy(beyond=1.0))
    assert np.isnan([end.pearson(np.arange(corpus.S) < k) for k in (0, 1)]).all()
    with pytest.raises(ValueError, match="model must have the corpus's 192 tokens"):
        end.level_means(hm.embeddings.KLevel())


def test_unbalanced_labels_are_centred():
    corpus = hm.Corpus.from_sequences([[0, 1], [0, 1], [0, 2]], [1, 1, -1])
    end = train_embeddings(corpus, 4, rate=0.01, epochs=1, rng=0)
    np.testing.assert_allclose(end.x, [0, 2 / 3, -4 / 3], atol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": "adam"}, "optimiser must be one of adamw, sgd"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"momentum": 0.9}, "momentum must be 0"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of at least 0"),
        ({"rate": 0.0}, "rate must be a positive number"),
        ({"batch": 0}, "batch must be an integer of at least 1"),
        ({"milestones": 100}, "milestones must be a list of epochs"),
        ({"start": (np.zeros((6, 4)), np.zeros(4))}, "start must be three arrays"),
        ({"start": (np.zeros((6, 3)), np.zeros(3), np.zeros(3))}, "start must hold vectors of d = 4"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        train_embeddings(ragged_corpus(), 4, **{"rate": 0.1, "epochs": 1, "rng": 0, **change})


def test_a_corpus_is_asked_for_by_name():
    with pytest.raises(
        ValueError, match=r"corpus must be a Corpus, got ndarray; a TextCorpus has a \.corpus"
    ):
        train_embeddings(np.ones((2, 3)), 4, rate=0.1, epochs=1, rng=0)  # type: ignore[arg-type]


def test_the_last_step_may_not_end_in_infinity_either(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(FloatingPointError, match="training diverged in epoch 1"), np.errstate(all="ignore"):
        train_embeddings(ragged_corpus(), 4, rate=1e30, epochs=1, rng=0, threads=1, checkpoint=path)
    assert not path.exists()


def test_divergence_says_so():
    # numpy keeps errstate per thread, and without the compiler the kernels are numpy
    with pytest.raises(FloatingPointError, match="training diverged in epoch"), np.errstate(all="ignore"):
        train_embeddings(
            ragged_corpus(), 4, optimiser="sgd", weight_decay=9.0, rate=1e12, epochs=60, rng=0, threads=1
        )
