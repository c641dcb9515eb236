"""The header of a GGUF file, walked once so that no count in it leads beyond the end of the file."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

VERSIONS = (2, 3)
TENSORS = 2**17
SETTINGS = 2**16
DIMENSIONS = 4
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of each type of number
STRING, ARRAY = 8, 9


class Damaged(ValueError):
    """A header that cannot be read."""


def check_header(path: Path) -> None:
    """Refuse a header with lengths that its file does not have; nothing is kept, so nothing grows."""
    with path.open("rb") as file:
        if path.stat().st_size < 24:
            raise Damaged("it ends within its header")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _Walk(data).header()


class _Walk:
    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place, self.end = data, 4, len(data)

    def header(self) -> None:
        version = self.number("<I")
        if version not in VERSIONS:
            raise Damaged(f"version {version} of the format, or another byte order")
        tensors, settings = self.number("<Q"), self.number("<Q")
        if tensors > TENSORS or settings > SETTINGS:
            raise Damaged(f"{tensors} tensors and {settings} settings")
        for _ in range(settings):
            self.text()
            self.value(self.number("<I"))
        elements = 0
        for _ in range(tensors):
            self.text()
            count = self.number("<I")
            if count > DIMENSIONS:
                raise Damaged(f"a tensor of {count} dimensions")
            size = 1
            for _ in range(count):
                size *= self.number("<Q")
            elements += size
            self.number("<I")
            self.number("<Q")
        if elements > 8 * self.end:  # no format has less than a bit for each
            raise Damaged(f"tensors of {elements} numbers in {self.end} bytes")

    def skip(self, size: int) -> None:
        if size > self.end - self.place:
            raise Damaged("it ends within its header")
        self.place += size

    def number(self, kind: str) -> int:
        begin = self.place
        self.skip(struct.calcsize(kind))
        value: int = struct.unpack_from(kind, self.data, begin)[0]
        return value

    def text(self) -> None:
        self.skip(self.number("<Q"))

    def value(self, kind: int) -> None:
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            self.array()
        elif kind in SIZES:
            self.skip(SIZES[kind])
        else:
            raise Damaged(f"a setting of the unknown type {kind}")

    def array(self) -> None:
        kind, count = self.number("<I"), self.number("<Q")
        if kind in SIZES:
            self.skip(SIZES[kind] * count)
        elif kind == STRING:
            for _ in range(count):  # each takes 8 bytes or more, so the end comes first
                self.text()
        else:
            raise Damaged(f"an array of the type {kind}")
