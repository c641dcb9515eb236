"""Files of reviews: where a folder holds those of IMDB and Yelp, and how packed ones are opened."""

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
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, cast

from hardmax._lib.arguments import check_arguments

_PACKINGS = ("", ".gz", ".bz2", ".xz", ".zip")

# In the order of preference; one entry is one download, whose files belong together.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "imdb": (
        ("IMDB Dataset.csv",),
        ("imdb_50k.csv",),
        ("aclImdb",),
        ("aclImdb_v1.tar",),
        ("plain_text/train-*.parquet", "plain_text/test-*.parquet"),
        ("imdb/train-*.parquet", "imdb/test-*.parquet"),
    ),
    "yelp": (
        ("yelp_academic_dataset_review.json",),
        ("yelp_dataset.tar",),
        ("yelp_review_full_csv",),
        ("yelp_review_full_csv.tar",),
        ("yelp_review_full_csv.tgz",),
        ("yelp.csv",),
        ("yelp_10k.csv", "yelp_augpe_*.csv"),
    ),
}
_ORIGIN = {
    "imdb": "the Kaggle dataset lakshmi25npathi/imdb-dataset-of-50k-movie-reviews (kaggle.com) or from "
    "ai.stanford.edu/~amaas/data/sentiment",
    "yelp": "the Kaggle dataset yelp-dataset/yelp-dataset (kaggle.com)",
}


@check_arguments
def find_reviews(folder: str | PathLike[str], kind: str) -> tuple[Path, ...]:
    """Find the files of "imdb" or "yelp" in a folder; a ValueError names where to get them.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "IMDB Dataset.csv").touch()
    ...     [path.name for path in hm.data.find_reviews(folder, "imdb")]
    ['IMDB Dataset.csv']
    """
    if kind not in _NAMES:
        raise ValueError(f"kind must be one of {', '.join(_NAMES)}, got {kind!r}")
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"folder: there is no folder {folder}; make it and put the {kind} files there")
    for names in _NAMES[kind]:
        files = tuple(path for name in names for path in _present(folder, name))
        if files:
            return files
    if kind == "imdb" and (folder / "train" / "pos").is_dir():
        return (folder,)
    listed = ", ".join(name for names in _NAMES[kind] for name in names)
    raise ValueError(
        f"no {kind} reviews in {folder}: get them as {_ORIGIN[kind]}, and put the file there under "
        f"one of the names {listed}, packed ({', '.join(_PACKINGS[1:])}) or not"
    )


def _present(folder: Path, name: str) -> list[Path]:
    """The files of that name, each in the first of its packings that is there."""
    paths: dict[str, Path] = {}
    for ending in _PACKINGS:
        for path in sorted(folder.glob(name + ending)):
            paths.setdefault(str(path).removesuffix(ending), path)
    return list(paths.values())


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
        """Share of the path that has been read, from 0 to 1: bytes of a file, files of a folder."""
        done = self._done if self._file is None or self._file.closed else self._file.tell()
        return min(1.0, done / self._size) if self._size else 0.0

    def members(self) -> Generator[Member]:
        """Yield the members one after the other."""
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
    """Return the name of a file without the ending of its packer."""
    return str(PurePosixPath(name).with_suffix("")) if name.lower().endswith(_ENDINGS) else name


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn an error about a broken archive into one that names the file and the remedy."""
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
    member = tar.extractfile(entry)
    assert member is not None  # it is a file
    return _unpacked(cast(io.BufferedReader, member), stack)


def _unpacked(file: io.BufferedReader, stack: ExitStack) -> io.BufferedReader:
    start = file.peek(6)
    unpack = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), None)
    return file if unpack is None else _buffered(stack.enter_context(unpack(file)))


def _buffered(stream: IO[bytes]) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)
