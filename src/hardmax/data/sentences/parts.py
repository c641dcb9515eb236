"""Parts of files for workers that share nothing: where to cut, what a worker does, what it sends back."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any

import numpy as np

from hardmax._lib import reading
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.reading import is_packed
from hardmax.data.sentences.streaming import Readable, blocks, gather_distinct, texts_of

PART = 2**25  # bytes of a file
WHOLE = -1  # the end of a part that is all of a file, however long
HERE = -2  # the same of a pipe, which has one reader and no second time: the process that asks
TASK = "hardmax.data.sentences.parts:count_part"
_ARRAYS = ("rows", "starts", "counts", "firsts")
_NUMBERS = ("n", "max_length", "cut", "cut_tokens", "odd", "marked")


def parts_of(
    paths: Sequence[str | PathLike[str]], max_length: int, size: int = PART
) -> Iterator[dict[str, Any]]:
    """The parts of files, in the order of the text: whole lines of plain text, other files whole.

    A worker finds the ``file`` from any folder; ``name`` is what the user calls it.
    """
    for path in map(Path, paths):
        is_file = S_ISREG(os.stat(path).st_mode)
        spans = [(0, WHOLE if is_file else HERE)]
        if is_file and not is_packed(path) and path.suffix != ".json":
            with path.open("rb") as stream:
                # as_lists decides what may be JSON by the first letter
                start = stream.read(reading.PIECE).removeprefix(b"\xef\xbb\xbf").lstrip()
                if start and not start.startswith(b"["):
                    end = stream.seek(0, io.SEEK_END)
                    cuts = sorted({_line_start(stream, at) for at in range(0, end, size)} | {end})
                    spans = list(pairwise(cuts))
        for low, high in spans:
            yield {
                "file": os.path.abspath(path),
                "name": str(path),
                "start": low,
                "stop": high,
                "max_length": max_length,
            }


def _line_start(stream: IO[bytes], at: int) -> int:
    """The first beginning of a line at or behind a byte."""
    if at == 0:
        return 0
    at = stream.seek(at - 1)
    while piece := stream.read(reading.PIECE):
        ends = [place for end in (b"\n", b"\r") if (place := piece.find(end)) >= 0]
        if ends:
            return at + min(ends) + 1
        at += len(piece)
    return at


class _Part:
    """Some bytes of a stream."""

    def __init__(self, stream: IO[bytes], start: int, stop: int) -> None:
        stream.seek(start)
        self._stream, self._left = stream, stop - start

    def read(self, size: int) -> bytes:
        """At most so many bytes, none at the end."""
        piece = self._stream.read(min(size, self._left))
        self._left -= len(piece)
        return piece


def count_part(parameters: Mapping[str, Any], seed: int = 0) -> dict[str, str]:
    """What a worker does: the distinct sentences of a part, as text; of a pipe nothing."""
    path, start, stop = Path(parameters["file"]), parameters["start"], parameters["stop"]
    if stop == HERE:
        return {"part": ""}
    if stop == WHOLE:
        made = gather_distinct(texts_of(path, parameters["max_length"]), parameters["max_length"], workers=1)
        return {"part": _packed(made.distinct())}
    with path.open("rb") as stream:
        part: Readable = _Part(stream, start, stop)
        texts = blocks(part, str(path), begins=start == 0)
        return {"part": _packed(gather_distinct(texts, parameters["max_length"], workers=1).distinct())}


def _packed(text: Distinct) -> str:
    """Distinct sentences as letters."""
    words = np.array([len(word) for word in text.encoded], dtype=np.int64)
    held = {name: getattr(text, name) for name in _ARRAYS}
    numbers = np.array([getattr(text, name) for name in _NUMBERS], dtype=np.int64)
    letters = np.frombuffer(b"".join(text.encoded), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **held, numbers=numbers, words=words, letters=letters)
    return base64.b64encode(stream.getvalue()).decode()


def unpacked(packed: str) -> Distinct:
    """The distinct sentences that a worker sent."""
    held = reading.arrays_in(io.BytesIO(base64.b64decode(packed)), "a part")
    ends, letters = np.cumsum(held["words"]).tolist(), held["letters"].tobytes()
    words = tuple(letters[low:high] for low, high in pairwise([0, *ends]))
    numbers = dict(zip(_NUMBERS, held["numbers"].tolist(), strict=True))
    rows, starts, counts, firsts = (held[name] for name in _ARRAYS)
    return Distinct(words, rows, starts, counts, firsts, **numbers)
