"""Reading files that others wrote: no more is held than a stated size, and any damage is one sentence."""

from __future__ import annotations

import json
import math
import warnings
import zipfile
from collections.abc import Iterator
from os import PathLike
from typing import IO, Any

import numpy as np

# A page of docs/files.md gives these numbers too.
LARGEST_JSON = 2**26  # bytes; JSON is held whole, in up to twenty times its size
LARGEST_TEXT = 2**30  # bytes of a text once unpacked, which is read in pieces
LARGEST_UNPACKED = (
    2**30
)  # bytes of all packed arrays of an npz file; arrays that are not packed are as they are
PIECE = 2**20
LONGEST_NAME = 200  # letters of the name of an array
PLAIN_KINDS = "biufcmMSU"  # of arrays: numbers, dates and texts
WIDEST = 64  # bytes that a value of an array without data may have


def size_of(amount: int) -> str:
    """A number of bytes in words."""
    return f"{amount / 2**30:g} GiB" if amount >= 2**30 else f"{amount / 2**20:g} MiB"


def pieces(stream: IO[bytes], largest: int) -> Iterator[bytes]:
    """The content of a stream in pieces, refused when it becomes larger than ``largest``."""
    seen = 0
    while piece := stream.read(PIECE):
        seen += len(piece)
        if seen > largest:
            raise ValueError(f"text must be at most {size_of(largest)} once unpacked, got more; split it")
        yield piece


def lines(stream: IO[bytes], longest: int, largest: int) -> Iterator[bytes]:
    """The lines of a stream, each of at most ``longest`` bytes and together of at most ``largest``."""
    seen = number = 0
    while line := stream.readline(longest + 1):
        seen, number = seen + len(line), number + 1
        if len(line) > longest:
            raise ValueError(
                f"line {number} must be at most {size_of(longest)}, got a longer one; "
                "is a quote or a bracket left open, or the file packed more than once?"
            )
        if seen > largest:
            raise ValueError(f"text must be at most {size_of(largest)} once unpacked, got more; split it")
        yield line


def read_bytes(path: str | PathLike[str], largest: int) -> bytes:
    """The content of a file of at most ``largest`` bytes."""
    with open(path, "rb") as stream:
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{path} must be at most {size_of(largest)}, got a larger file; give less at a time")
    return content


def read_json(path: str | PathLike[str], due: str) -> Any:
    """The value in a JSON file; a ValueError names the file, what is wrong with it and what was ``due``."""
    try:
        return parse_json(read_bytes(path, LARGEST_JSON).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: not UTF-8 ({error.reason}); give {due}") from None
    except NotJson as error:
        raise ValueError(f"{path} is not valid JSON: {error}; give {due}") from None


class NotJson(ValueError):
    """A text that is not JSON, or nested too deeply to be read."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; also one that is nested beyond reason ends in a sentence."""
    try:
        return json.loads(text)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None


def read_arrays(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an npz file: never pickles, and what is packed unpacks to LARGEST_UNPACKED at most."""
    with open(path, "rb") as stream:
        return arrays_in(stream, str(path))


def arrays_in(stream: IO[bytes], name: str) -> dict[str, np.ndarray]:
    """The arrays of an npz file that is open; refusals speak of ``name``."""
    try:
        with zipfile.ZipFile(stream) as archive:  # np.load would take another file for a pickle
            members = archive.infolist()
            unpacked = sum(each.file_size for each in members if each.compress_type != zipfile.ZIP_STORED)
            plain = sum(each.file_size for each in members if each.compress_type == zipfile.ZIP_STORED)
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


def _arrays(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> dict[str, np.ndarray]:
    """All arrays, after all headers were found to fit their data."""
    names = [each.filename.removesuffix(".npy") for each in members]
    if len(set(names)) < len(names) or max(map(len, names), default=0) > LONGEST_NAME:
        raise ValueError("names")
    for each in members:
        with archive.open(each) as stream:
            _check_header(stream, each.file_size)
    arrays = {}
    for name, each in zip(names, members, strict=True):
        with _quiet(), archive.open(each) as stream:
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
    count, held = math.prod(shape), size - stream.tell()
    if dtype.kind not in PLAIN_KINDS or dtype.shape or dtype.names is not None or min(shape, default=0) < 0:
        raise ValueError("dtype")
    if count * dtype.itemsize != held or dtype.itemsize > max(held, WIDEST) or (count > 1 and not held):
        raise ValueError("size")


def read_array(path: str | PathLike[str]) -> np.ndarray:
    """The array of an npy file, never a pickle."""
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
    """numpy warns of headers that it had to mend."""
    return warnings.catch_warnings(action="ignore")
