"""Files of problems and paths that are damaged, tampered with or meant for something else."""

import struct
import zipfile

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib import reading
from hardmax._lib.archive import read_array

KEYS = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
GOOD = {"keys": KEYS, "offsets": np.array([0, 3]), "scores": np.array([1.0, 0.0, 0.5])}
LINEAR = {
    "keys": KEYS,
    "offsets": np.array([0, 3]),
    "values": KEYS,
    "labels": np.array([1.0]),
    "head": np.array([1.0, 2.0]),
}


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def with_header(text):
    """An npy file whose header is `text`."""
    padded = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"keys": KEYS + 1j}, "keys must be numbers"),
        ({"keys": KEYS.astype(str)}, "keys must be numbers"),
        ({"keys": KEYS.astype("datetime64[s]")}, "keys must be numbers"),
        ({"keys": np.empty((3, 0))}, "at least one token of one number"),
        ({"keys": np.empty((0, 2)), "offsets": np.array([0, 0])}, "at least one token of one number"),
        ({"scores": np.array([1j, 0, 0])}, "scores must be numbers"),
        ({"values": KEYS}, "either scores, or values, labels and head, not both"),
        ({"W": np.eye(2)}, "a file of scores has no values"),
        ({"offsets": np.array([0, 5, 2, 3], dtype=np.uint64)}, "offsets must rise"),
        ({"notes": np.array("x\x1b[31m")}, "unknown name 'notes'"),
        ({"loss": np.array("hinge\n")}, r"got 'hinge\\n'"),
    ],
)
def test_what_was_taken_silently_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        hm.Problem.load(saved(tmp_path / "p.npz", **(GOOD | changes)))


@pytest.mark.parametrize("W", [np.eye(3), np.ones((1, 2)), 2 * np.eye(2), np.full((2, 2), np.nan)])
def test_a_map_of_the_wrong_shape_or_of_other_keys_is_refused(tmp_path, W):
    assert hm.Problem.load(saved(tmp_path / "p.npz", **LINEAR, W=np.eye(2))).W.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"W must|keys must be W x"):
        hm.Problem.load(saved(tmp_path / "p.npz", **LINEAR, W=W))


@pytest.mark.parametrize(
    "header", ["(", "{'descr': (", "{}", "{'descr': '<f8', 'fortran_order': 0, 'shape': 3}"]
)
def test_a_header_that_cannot_be_parsed_is_a_sentence(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("keys.npy", with_header(header))
    with pytest.raises(ValueError, match="not a readable npz file"):
        hm.Problem.load(tmp_path / "p.npz")
    (tmp_path / "p.npy").write_bytes(with_header(header))
    with pytest.raises(ValueError, match="not a readable npy file"):
        read_array(tmp_path / "p.npy")


def test_arrays_that_unpack_beyond_the_limit_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("hardmax._lib.archive.LARGEST_UNPACKED", 2**16)
    np.savez_compressed(tmp_path / "p.npz", keys=np.zeros((10_000, 2)))
    with pytest.raises(ValueError, match=r"at most .* MiB, got 160,"):
        hm.Problem.load(tmp_path / "p.npz")


def test_json_beyond_the_limit_or_nested_beyond_reason(tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    path.write_text('{"keys": ' + 100_000 * "[" + 100_000 * "]" + ', "scores": [[1]]}')
    with pytest.raises(ValueError, match="not valid JSON: it is nested too deeply"):
        hm.Problem.load(path)
    path.write_text('{"keys": ' + 500 * "[" + 500 * "]" + ', "scores": [[1]]}')
    with pytest.raises(ValueError, match="must be numbers"):
        hm.Problem.load(path)
    monkeypatch.setattr(reading, "LARGEST_JSON", 100)
    with pytest.raises(ValueError, match=r"exceeds the limit of .*; split the file"):
        hm.Problem.load(path)


def test_strings_and_complex_numbers_are_no_keys():
    for keys in ([[["1", "0"], ["0", "0"]]], np.ones((1, 2, 2)) * 1j, [[[1, "0"], [0, 0]]], [[[], []]]):
        with pytest.raises(ValueError, match=r"keys(\[0\])? must"):
            hm.Problem(keys, [[1, 0]])


def test_a_tampered_path_is_refused(tmp_path):
    file, other = tmp_path / "path.npz", tmp_path / "other.npz"
    hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=5).save(file)
    with np.load(file) as stored:
        good = {name: stored[name] for name in stored.files}
    for name in ("times", "points", "problem_keys", "problem_offsets", "problem_tokens", "problem_scores"):
        for change in (good[name].astype(str), good[name][..., None], np.array([]), np.array(["x"])):
            with pytest.raises(ValueError, match=r"must|hold"):
                hm.Run.load(saved(other, **(good | {name: change})))
    for name in ("times", "points", "clock", "problem_keys", "problem_offsets", "problem_scores"):
        with pytest.raises(ValueError, match="hold"):
            hm.Run.load(saved(other, **{k: v for k, v in good.items() if k != name}))


def test_a_flipped_bit_is_a_sentence_or_nothing(tmp_path):
    file, rng = tmp_path / "p.npz", np.random.default_rng(0)
    content = saved(file, **GOOD).read_bytes()
    refused = 0
    for _ in range(200):
        broken = bytearray(content)
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        file.write_bytes(broken)
        try:
            hm.Problem.load(file)
        except ValueError as error:
            refused += str(file) in str(error)
    assert refused > 100
