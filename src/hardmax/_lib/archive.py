"""Archives: npz files of plain arrays, with a header in JSON and a digest where a format asks for them.

Every format that holds arrays is an archive: problems, runs, models, checkpoints, cached texts, tables of
figures. Archives are written whole or not at all, and never hold a pickle. Reading one that is damaged, or
made to do harm, ends in a sentence and takes no more memory than the file is large. What the arrays mean, and
whether they fit together, is for the format to check.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any

import numpy as np

from hardmax._lib.files import whole
from hardmax._lib.reading import parse_json, size_of

LARGEST_UNPACKED = 2**30  # bytes of all packed arrays; arrays that are not packed are as they are
LONGEST_NAME = 200  # letters of the name of an array
PLAIN_KINDS = "biufcmMSU"  # of arrays: numbers, dates and texts
WIDEST = 64  # bytes that a value of an array without data may have

Arrays = dict[str, np.ndarray]


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, Any], *, packed: bool = False) -> None:
    """Write an npz file, whole or not at all.

    Args:
        path: the file, which may have any name.
        arrays: arrays, numbers and texts by name.
        packed: whether to compress them.
    """
    with whole(path) as file:
        _savez(file, arrays, packed)


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Return what `write_arrays` writes."""
    stream = io.BytesIO()
    _savez(stream, arrays)
    return stream.getvalue()


def _savez(stream: IO[bytes], arrays: Mapping[str, Any], packed: bool = False) -> None:
    plain: dict[str, Any] = {name: np.asanyarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.hasobject:  # numpy would pickle them
            raise ValueError(f"{name} must hold numbers or texts to be saved, got other objects")
    (np.savez_compressed if packed else np.savez)(stream, **plain)


def encoded(header: Any) -> np.ndarray:
    """Return a header as an array of bytes."""
    return np.frombuffer(json.dumps(header).encode(), np.uint8)


def decoded(header: np.ndarray) -> Any:
    """Return the header in an array of bytes, or in a text; a ValueError if it is not JSON."""
    return parse_json(str(header) if header.dtype.kind == "U" else header.tobytes())


def digest(*parts: str | np.ndarray) -> str:
    """Return SHA-256 of texts and of the bytes of arrays, one after another, in hexadecimal digits."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes())
    return total.hexdigest()


@contextmanager
def refused(sentence: str) -> Iterator[None]:
    """Let whatever a wrong content leads to be a ValueError with this sentence."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(sentence) from None


def demand(holds: bool) -> None:
    """Raise a ValueError without words, inside `refused`, unless a condition holds."""
    if not holds:
        raise ValueError


def read_arrays(path: str | PathLike[str]) -> Arrays:
    """Read the arrays of an npz file: never pickles, and at most LARGEST_UNPACKED bytes of packed arrays."""
    with open(path, "rb") as stream:
        return arrays_in(stream, str(path))


def arrays_in(stream: IO[bytes], name: str) -> Arrays:
    """Read the arrays of an open npz file; errors call it ``name``."""
    try:
        with zipfile.ZipFile(stream) as archive:  # np.load would take another file for a pickle
            members = archive.infolist()
            plain = sum(m.file_size for m in members if m.compress_type == zipfile.ZIP_STORED)
            unpacked = sum(m.file_size for m in members) - plain
            if unpacked <= LARGEST_UNPACKED and plain <= stream.seek(0, 2):  # entries may overlap
                return _arrays(archive, members)
    except MemoryError:
        raise
    except Exception:  # a damaged file leads zipfile, zlib and numpy into any error there is
        unpacked = 0
    if unpacked > LARGEST_UNPACKED:
        raise ValueError(
            f"{name} must hold packed arrays of at most {size_of(LARGEST_UNPACKED)}, got {unpacked:,} bytes; "
            "save them with numpy.savez, which does not pack"
        )
    raise ValueError(f"{name} is not a readable npz file") from None


def _arrays(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Arrays:
    """Read all arrays after checking that every header fits its data."""
    names = [member.filename.removesuffix(".npy") for member in members]
    if len(set(names)) < len(names) or max(map(len, names), default=0) > LONGEST_NAME:
        raise ValueError("names")
    for member in members:
        with archive.open(member) as stream:
            _check_header(stream, member.file_size)
    arrays = {}
    for name, member in zip(names, members, strict=True):
        with _quiet(), archive.open(member) as stream:
            arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return arrays


def _check_header(stream: IO[bytes], size: int) -> None:
    """Refuse an array of ``size`` bytes unless its header describes plain values of just this many bytes.

    numpy makes the array of a header before it reads the data.
    """
    with _quiet():
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    count, content = math.prod(shape), size - stream.tell()
    if dtype.kind not in PLAIN_KINDS or dtype.shape or dtype.names is not None or min(shape, default=0) < 0:
        raise ValueError("dtype")
    if (
        count * dtype.itemsize != content
        or dtype.itemsize > max(content, WIDEST)
        or (count > 1 and not content)
    ):
        raise ValueError("size")


def read_array(path: str | PathLike[str]) -> np.ndarray:
    """Read the array of an npy file, never a pickle."""
    with open(path, "rb") as stream:
        try:
            size = stream.seek(0, 2)
            stream.seek(0)
            _check_header(stream, size)
            stream.seek(0)
            with _quiet():
                return np.lib.format.read_array(stream, allow_pickle=False)
        except MemoryError:
            raise
        except Exception:  # as above
            raise ValueError(f"{path} is not a readable npy file") from None


def _quiet() -> warnings.catch_warnings[None]:
    """Suppress numpy's warnings about headers that it had to fix."""
    return warnings.catch_warnings(action="ignore")
