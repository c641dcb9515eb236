"""Checkpoints: what resumes ends with the same bits, what is another training or half a file is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings.minibatch import train_embeddings

SHORT = hm.Corpus.from_sequences(
    [[0, 1, 1, 3], [2], [0, 2, 2, 2, 4], [4, 4, 1], [3, 0, 1], [5, 2]], [1, -1] * 3
)


def run_with(path: Path | None, epochs: int, **more: Any) -> Any:
    return train_embeddings(
        SHORT,
        6,
        epochs=epochs,
        batch=3,
        milestones=(3,),
        checkpoint=path,
        **{"step": hm.optim.AdamW(0.02), "rng": 4, "checkpoint_every": 2, **more},
    )


@pytest.mark.parametrize("step", [hm.optim.AdamW(0.02), hm.optim.SGD(0.02)])
def test_more_epochs_go_on_from_the_end(tmp_path, step):
    path = tmp_path / "run.npz"
    run_with(path, 3, step=step)
    resumed, straight = run_with(path, 7, step=step), run_with(None, 7, step=step)
    for name in ("E", "p", "v", "a", "c", "losses"):
        assert getattr(resumed, name).tobytes() == getattr(straight, name).tobytes()
    assert [each.epochs for each in resumed.snapshots] == [each.epochs for each in straight.snapshots]
    assert all((x.a == y.a).all() for x, y in zip(resumed.snapshots, straight.snapshots, strict=True))
    assert not list(tmp_path.glob("*.part"))


def test_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, 2)
    with pytest.raises(ValueError, match=r"checkpoint must come from the same training.*weight_decay"):
        run_with(path, 2, step=hm.optim.AdamW(0.02, weight_decay=0.5))
    with pytest.raises(ValueError, match=r"\(another rng, d or start\); name another file"):
        run_with(path, 2, rng=9)
    whole = path.read_bytes()
    np.save(tmp_path / "array.npy", np.ones(3))
    for content in (b"half a file", whole[: len(whole) // 2], (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint must be a file that a training of hardmax wrote"):
            run_with(path, 2)


def test_checkpoint_that_was_tampered_with_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, 2)
    with np.load(path) as stored:
        good = {name: stored[name] for name in stored.files}
    changes = (
        lambda a: a[None],
        lambda a: a.ravel()[:-1],
        lambda a: a.astype(str),
        lambda a: a.astype(complex),
        lambda a: a * np.nan,
        lambda a: a.astype(np.float16),
    )
    for name in good.keys() - {"identity"}:
        for change in changes:
            np.savez(path, **(good | {name: change(good[name])}))
            with pytest.raises(ValueError, match="checkpoint must be"):
                run_with(path, 3)
        np.savez(path, **{key: array for key, array in good.items() if key != name})
        with pytest.raises(ValueError, match="checkpoint must be"):
            run_with(path, 3)
    for identity in ("[]", "{", "3", "[" * 100_000):
        np.savez(path, **(good | {"identity": np.array(identity)}))
        with pytest.raises(ValueError, match="checkpoint must be"):
            run_with(path, 3)


def test_checkpoint_folder_is_checked_before_the_first_epoch(tmp_path):
    seen: list[int] = []
    with pytest.raises(ValueError, match="checkpoint must lie in a folder that can be written"):
        run_with(tmp_path / "no" / "run.npz", 2, progress=lambda epoch, total: seen.append(epoch))
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
    old, young = tmp_path / ".hardmax-0a.part", tmp_path / ".hardmax-0b.part"
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
from hardmax.embeddings.minibatch import train_embeddings
corpus = hm.embeddings.KLevel.surrogate().draw(64, rng=2)
step = hm.optim.AdamW(1e-3)
train_embeddings(corpus, 24, step, epochs=int(sys.argv[2]), batch=24, rng=3, checkpoint=sys.argv[1],
                 checkpoint_every=3, progress=lambda epoch, total: print(epoch, flush=True))
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
    options: dict[str, Any] = {"step": hm.optim.AdamW(1e-3), "epochs": done + 5, "batch": 24, "rng": 3}
    resumed = train_embeddings(corpus, 24, **options, checkpoint=path, checkpoint_every=3)
    straight = train_embeddings(corpus, 24, **options)
    for name in ("E", "p", "v", "a", "c", "losses"):
        assert getattr(resumed, name).tobytes() == getattr(straight, name).tobytes()
