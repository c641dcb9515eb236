"""Reading files that others wrote: no more is held than a stated size, and any damage is one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from typing import IO, Any

# A page of docs/reference/files.md gives these numbers too, and that of `archive`.
LARGEST_JSON = 2**26  # bytes; JSON is held whole, in up to twenty times its size
LARGEST_TEXT = 2**30  # bytes of a text once unpacked, which is read in pieces
PIECE = 2**20


def size_of(amount: int) -> str:
    """Return a number of bytes in words."""
    return f"{amount / 2**30:g} GiB" if amount >= 2**30 else f"{amount / 2**20:g} MiB"


def pieces(stream: IO[bytes], largest: int) -> Iterator[bytes]:
    """Yield the content of a stream in pieces; a ValueError when it becomes larger than ``largest``."""
    total = 0
    while piece := stream.read(PIECE):
        total += len(piece)
        if total > largest:
            raise ValueError(f"text must be at most {size_of(largest)} once unpacked, got more; split it")
        yield piece


def lines(stream: IO[bytes], longest: int, largest: int) -> Iterator[bytes]:
    """Yield the lines of a stream, each of at most ``longest`` bytes and together of at most ``largest``."""
    total = number = 0
    while line := stream.readline(longest + 1):
        total, number = total + len(line), number + 1
        if len(line) > longest:
            raise ValueError(
                f"line {number} must be at most {size_of(longest)}, got a longer one; "
                "is a quote or a bracket left open, or the file packed more than once?"
            )
        if total > largest:
            raise ValueError(f"text must be at most {size_of(largest)} once unpacked, got more; split it")
        yield line


def read_bytes(path: str | PathLike[str], largest: int) -> bytes:
    """Return the content of a file of at most ``largest`` bytes."""
    with open(path, "rb") as stream:
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{path} exceeds the limit of {size_of(largest)}; split the file")
    return content


def read_json(path: str | PathLike[str], due: str) -> Any:
    """Read a JSON file; a ValueError names the file, what is wrong with it and what was ``due``."""
    try:
        return parse_json(read_bytes(path, LARGEST_JSON).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: not UTF-8 ({error.reason}); give {due}") from None
    except NotJson as error:
        raise ValueError(f"{path} is not valid JSON: {error}; give {due}") from None


class NotJson(ValueError):
    """A text that is not JSON, or nested too deeply to be read."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; `NotJson` if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
