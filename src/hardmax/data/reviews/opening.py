"""The files behind a path: a plain or packed file, everything in a folder, everything in an archive.

What a file is packed with is read from its first bytes; its name is not believed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, cast

_PACKED: dict[bytes, Callable[[BinaryIO], IO[bytes]]] = {
    b"\x1f\x8b": lambda stream: cast(IO[bytes], gzip.GzipFile(fileobj=stream)),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
BUFFER = 1 << 18
_ENDINGS = (".gz", ".bz2", ".xz")
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile)


class Member(NamedTuple):
    """A file by its name without the packer's ending, with ``/`` between folders; open it before the next."""

    name: str
    open: Callable[[], io.BufferedReader]
    alone: bool = False  # all there is behind the path


class Opened:
    """The members of a path, in the order of their names (of an archive, in its own order)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done, self._size = 0, 0
        self._file: io.BufferedReader | None = None

    @property
    def share(self) -> float:
        """How much of the path has been read, from 0 to 1: bytes of a file, files of a folder."""
        done = self._done if self._file is None or self._file.closed else self._file.tell()
        return min(1.0, done / self._size) if self._size else 0.0

    def members(self) -> Generator[Member]:
        """One after the other."""
        if self.path.is_dir():
            files = sorted(path for path in self.path.rglob("*") if path.is_file())
            self._size = len(files)
            for file in files:
                with ExitStack() as stack:
                    name = file.relative_to(self.path.parent).as_posix()
                    yield Member(unpacked_name(name), partial(_open_file, file, stack))
                self._done += 1
            return
        with ExitStack() as stack:
            self._size = self.path.stat().st_size
            self._file = stack.enter_context(self.path.open("rb"))
            yield from _inside(self.path, self._file, stack)
        self._done = self._size


def unpacked_name(name: str) -> str:
    """A file's name without the ending of its packer."""
    return str(PurePosixPath(name).with_suffix("")) if name.lower().endswith(_ENDINGS) else name


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """A broken archive is the user's to mend."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); fetch it again") from error


def _inside(path: Path, file: io.BufferedReader, stack: ExitStack) -> Iterator[Member]:
    # A zip archive has its table of contents at the end: it is opened as a file, not as a stream.
    if file.peek(4).startswith(b"PK\x03\x04"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        for info in archive.infolist():
            if not info.is_dir():
                yield Member(unpacked_name(info.filename), partial(_open_zipped, archive, info, stack))
        return
    stream = _unpacked(file, stack)
    if stream.peek(512)[257:262] != b"ustar":
        yield Member(unpacked_name(path.name), lambda: stream, alone=True)
        return
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for entry in tar:
            if entry.isfile():
                yield Member(unpacked_name(entry.name), partial(_open_tarred, tar, entry, stack))
            tar.members = []  # type: ignore[attr-defined]  # it would remember a hundred thousand of them


def _open_file(file: Path, stack: ExitStack) -> io.BufferedReader:
    return _unpacked(stack.enter_context(file.open("rb")), stack)


def _open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, stack: ExitStack) -> io.BufferedReader:
    return _unpacked(_buffered(stack.enter_context(archive.open(info))), stack)


def _open_tarred(tar: tarfile.TarFile, entry: tarfile.TarInfo, stack: ExitStack) -> io.BufferedReader:
    found = tar.extractfile(entry)
    assert found is not None  # it is a file
    return _unpacked(cast(io.BufferedReader, found), stack)


def _unpacked(file: io.BufferedReader, stack: ExitStack) -> io.BufferedReader:
    start = file.peek(6)
    unpack = next((made for magic, made in _PACKED.items() if start.startswith(magic)), None)
    return file if unpack is None else _buffered(stack.enter_context(unpack(file)))


def _buffered(stream: IO[bytes]) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)
