"""Archives of another hand: headers are held against the data before an array is made."""

import hashlib
import io
import zipfile

import numpy as np
import pytest

from hardmax._lib import archive
from hardmax._lib.archive import read_array, read_arrays


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def described(descr: object, shape: tuple[int, ...]) -> str:
    return repr({"descr": descr, "fortran_order": False, "shape": shape})


HOSTILE = {
    "one wide text": npy(described("<U500000000", ()), b"x" * 64),
    "a wide text of none": npy(described("<U500000000", (0,))),
    "more rows than data": npy(described("<f8", (2**40,)), b"x" * 64),
    "values of no size": npy(described("<U0", (2**40,))),
    "a structure": npy(described([("a", "<f8")], (8,)), b"x" * 64),
    "an object in a structure": npy(described([("a", "|O")], (8,)), b"x" * 64),
    "objects": npy(described("|O", (8,)), b"x" * 64),
    "a negative side": npy(described("<f8", (-1, -8)), b"x" * 64),
    "raw bytes": npy(described("|V8", (8,)), b"x" * 64),
    "no array": b"text",
}


def test_headers_that_do_not_fit_their_data(tmp_path, confined):
    for k, content in enumerate(HOSTILE.values()):
        (tmp_path / f"{k}.npy").write_bytes(content)
        for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            with zipfile.ZipFile(tmp_path / f"{k}-{kind}.npz", "w", kind) as archive:
                archive.writestr("a.npy", content)
    code = f"""
for path in sorted(Path({str(tmp_path)!r}).iterdir()):
    try:
        (read_array if path.suffix == ".npy" else read_arrays)(path)
    except ValueError as error:
        print(error)
"""
    setup = "from pathlib import Path\nfrom hardmax._lib.archive import read_array, read_arrays"
    said = confined(code, setup, megabytes=50).splitlines()
    assert len(said) == 3 * len(HOSTILE)
    assert all("is not a readable np" in each for each in said)


def test_entries_that_share_their_bytes(tmp_path):
    """A thousand entries of one place would unpack to a thousand times the file."""
    file = tmp_path / "file.npz"
    np.savez(file, a=np.zeros(10_000))
    with zipfile.ZipFile(file, "a") as archive:
        first = archive.infolist()[0]
        for k in range(1_000):
            again = zipfile.ZipInfo(f"b{k}.npy")
            for name in (
                "CRC",
                "compress_size",
                "file_size",
                "header_offset",
                "compress_type",
                "external_attr",
            ):
                setattr(again, name, getattr(first, name))
            archive.filelist.append(again)
        archive._didModify = True
    with pytest.raises(ValueError, match="is not a readable npz file"):
        read_arrays(file)


def test_what_numpy_writes_is_read(tmp_path):
    arrays = {
        "numbers": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "none": np.zeros((0, 3)),
        "text": np.array("some text"),
        "empty": np.array(""),
        "no texts": np.array([], dtype="<U1"),
        "table/column": np.array([True, False]),
        "date": np.array("2020-01-01", dtype="datetime64[D]"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "file.npz", **arrays)
        found = read_arrays(tmp_path / "file.npz")
        assert list(found) == list(arrays)
        for name, each in arrays.items():
            assert found[name].dtype == each.dtype
            assert np.array_equal(found[name], each)
    np.save(tmp_path / "file.npy", arrays["numbers"])
    assert read_array(tmp_path / "file.npy").tolist() == arrays["numbers"].tolist()
    stream = io.BytesIO()
    np.save(stream, np.array([None], dtype=object), allow_pickle=True)
    (tmp_path / "file.npy").write_bytes(stream.getvalue())
    with pytest.raises(ValueError, match="is not a readable npy file"):
        read_array(tmp_path / "file.npy")


def test_headers_digests_and_bytes(tmp_path):
    head, numbers = archive.encoded({"format": "x/1", "size": [1, 2]}), np.arange(6.0).reshape(2, 3)
    archive.write_arrays(tmp_path / "file.npz", {"head": head, "numbers": numbers.T, "name": "text"})
    held = read_arrays(tmp_path / "file.npz")
    assert archive.decoded(held["head"]) == {"format": "x/1", "size": [1, 2]}
    assert (held["numbers"] == numbers.T).all()
    assert str(held["name"]) == "text"
    assert archive.decoded(np.array('{"a": null}')) == {"a": None}
    written = (tmp_path / "file.npz").read_bytes()
    assert archive.npz_bytes({"head": head, "numbers": numbers.T, "name": "text"}) == written
    expected = hashlib.sha256(b"ab" + np.array([0.0, 3.0, 1.0, 4.0, 2.0, 5.0]).tobytes()).hexdigest()
    assert archive.digest("a", "b", numbers.T) == expected


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="mine must hold numbers or texts"):
        archive.write_arrays(tmp_path / "file.npz", {"mine": np.array([None])})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ValueError, KeyError, IndexError, TypeError, AttributeError])
def test_wrong_contents_are_one_sentence(error):
    with pytest.raises(ValueError, match=r"^it must be a model$"), archive.refused("it must be a model"):
        raise error
    with pytest.raises(MemoryError), archive.refused("it must be a model"):
        raise MemoryError
