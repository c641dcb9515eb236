"""Saved models that were tampered with: every field is flipped, cut and retyped; each ends in a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hardmax.nexttoken import Predictor, Samples
from hardmax.nexttoken.predict import load_reached
from hardmax.nexttoken.training import train

CHANGES = {
    "cut": lambda a: a[..., :-1],
    "longer": lambda a: np.concatenate([a, a], axis=-1),
    "flat": lambda a: a.ravel()[:1].reshape(()),
    "deeper": lambda a: a[None],
    "text": lambda a: a.astype(str),
    "complex": lambda a: a.astype(float) + 1j,
    "dates": lambda a: a.astype("datetime64[s]"),
    "objects": lambda a: np.array([{"a": 1}]),
    "empty": lambda a: np.empty(0),
    "negative": lambda a: -7 - np.abs(a.astype(int)),
    "large": lambda a: a.astype(int) + 10**6,
    "halves": lambda a: a + 0.5,
    "not a number": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
    "infinite": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.inf, a),
    "huge": lambda a: a * 1e300 + 1e300,
    "reversed": lambda a: a[..., ::-1],
}
# Other numbers in these are another model, which may be read.
READABLE = {
    "values": ("halves", "negative", "large", "reversed"),
    "star": ("halves", "negative", "large", "reversed"),
    "residual": ("halves", "negative", "large", "reversed"),
    "collocation": ("reversed",),
    "orders": ("cut",),
}
HEADS = [
    {"format": "hardmax.ntp-model/2"},
    {"format": None},
    {"vocabulary": None},
    {"vocabulary": {}},
    {"vocabulary": ["S"]},
    {"vocabulary": [1, 2, 3, 4]},
    {"vocabulary": ["S", "S", "O", "P"]},
    {"vocabulary": ["S", "V", "O"]},
    {"margin": "3"},
    {"margin": -1},
    {"margin": None},
    {"margin": [1]},
    {"margin": float("nan")},
    {"margin": float("inf")},
    {"reached": 3},
    {"reached": {}},
    {"reached": None},
    {"reached": {"steps": -1}},
    {"reached": {"steps": "9", "rate": 1}},
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.npz"
    run = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]), steps=50)
    run.predictor.save(file, reached=run.reached())
    with np.load(file) as stored:
        return file, {name: stored[name] for name in stored.files}


def read(path, arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)
    model, reached = load_reached(path)
    for limit in (False, True):
        for sentence in ("S", "O S P", "P P V"):
            told = model.predict(sentence, limit=limit)
            assert np.isfinite(told.probabilities).all()
    return reached


def test_the_model_itself_is_read(saved, tmp_path):
    assert read(tmp_path / "m", saved[1]).steps == 50


@pytest.mark.parametrize(
    "name, change",
    [
        (name, change)
        for name in ("collocation", "token", "query", "values", "orders", "star", "residual")
        for change in CHANGES
    ],
)
def test_an_array_that_was_changed(saved, tmp_path, name, change):
    arrays = saved[1] | {name: CHANGES[change](saved[1][name])}
    if change in READABLE.get(name, ()):
        read(tmp_path / "m", arrays)
        return
    with pytest.raises(ValueError, match="must be a model written by hardmax ntp train"):
        read(tmp_path / "m", arrays)


@pytest.mark.parametrize("name", ["head", "collocation", "token", "query", "values", "orders"])
def test_an_array_that_is_missing(saved, tmp_path, name):
    with pytest.raises(ValueError, match="must be a model"):
        read(tmp_path / "m", {key: array for key, array in saved[1].items() if key != name})


@pytest.mark.parametrize("change", HEADS, ids=str)
def test_a_head_that_was_changed(saved, tmp_path, change):
    head = json.loads(saved[1]["head"].tobytes()) | change
    arrays = saved[1] | {"head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)}
    with pytest.raises(ValueError, match="must be a model"):
        read(tmp_path / "m", arrays)


@pytest.mark.parametrize("head", [b"", b"{", b"[]", b"3", b"null", b'"x"', b"[" * 100_000, b"\xff"])
def test_a_head_that_is_none(saved, tmp_path, head):
    with pytest.raises(ValueError, match="must be a model"):
        read(tmp_path / "m", saved[1] | {"head": np.frombuffer(head, dtype=np.uint8)})


def test_bits_that_were_flipped_and_ends_that_were_cut(saved, tmp_path):
    content, rng, refused = saved[0].read_bytes(), np.random.default_rng(0), 0
    for k in range(150):
        broken = bytearray(content)
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        (tmp_path / "m").write_bytes(broken if k % 3 else content[: rng.integers(len(content))])
        try:
            Predictor.load(tmp_path / "m")
        except ValueError as error:
            refused += "must be a model" in str(error)
    assert refused > 100
