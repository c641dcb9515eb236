"""Reviews to numbers of words: read, filtered, and split on all cores; finished chunks are cached.

`TextReport` counts the reviews, words and tokens at each step.
"""

from __future__ import annotations

import hashlib
import heapq
import io
import itertools
import json
import os
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import files
from hardmax._lib.archive import arrays_in, npz_bytes
from hardmax._lib.extras import install
from hardmax._lib.parallel import cores, in_order
from hardmax._lib.pool import Pool, WorkerDied
from hardmax.data.reviews import read_reviews
from hardmax.data.text import words


@dataclass(frozen=True)
class TextReport:
    """Numbers of reviews, words and tokens at each step of `text_corpus`, and notes.

    Reviews: ``read`` of the files; left out as ``unlabelled`` (three stars, blank), too ``short`` or too
    ``long`` in characters, ``unsampled`` (not drawn), ``emptied`` (no token left); ``reviews`` remain.
    Words: ``words`` in all, ``distinct_words`` of them, ``stopped`` as stop words. Tokens: ``tokens`` found,
    ``cut`` from the ends of long reviews, ``purged`` as rare; ``kept`` remain. ``distinct_tokens`` are there
    before the purge, ``vocabulary`` after it.

    >>> from hardmax.embeddings import TextReport
    >>> report = TextReport(read=3, unlabelled=1, reviews=2, words=9, stopped=2, tokens=7, kept=7)
    >>> print(report)
    reviews read                 3
      without a label           -1
      in the corpus              2
    words                        9
      stop words                -2
    tokens                       7
      in the corpus              7
    """

    read: int = 0
    unlabelled: int = 0
    short: int = 0
    long: int = 0
    unsampled: int = 0
    emptied: int = 0
    reviews: int = 0
    words: int = 0
    distinct_words: int = 0
    stopped: int = 0
    tokens: int = 0
    cut: int = 0
    purged: int = 0
    kept: int = 0
    distinct_tokens: int = 0
    vocabulary: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = (
            ("reviews read", self.read),
            ("  without a label", -self.unlabelled),
            ("  too short", -self.short),
            ("  too long", -self.long),
            ("  not in the sample", -self.unsampled),
            ("  emptied", -self.emptied),
            ("  in the corpus", self.reviews),
            ("words", self.words),
            ("  stop words", -self.stopped),
            ("  distinct", self.distinct_words),
            ("tokens", self.tokens),
            ("  cut from long reviews", -self.cut),
            ("  purged as rare", -self.purged),
            ("  in the corpus", self.kept),
            ("  distinct before the purge", self.distinct_tokens),
            ("  distinct in the corpus", self.vocabulary),
        )
        cells = [(what, f"{number:,}") for what, number in rows if number]
        width = max((len(number) for _, number in cells), default=0)
        lines = [f"{what:<28}{number:>{width}}" for what, number in cells]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


class TextWorkers:
    """``count`` processes, one for each core by default, started when there are two blocks to share.

    The tasks of `words.py` hold Python's lock, and so gain nothing from threads.
    """

    def __init__(self, count: int | None) -> None:
        self.count = count or cores()
        self._pool = Pool(self.count, [sys.executable, "-P", words.__file__])

    def __enter__(self) -> TextWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def run(self, task: str, blocks: Iterable[list[str]]) -> Iterator[Any]:
        """Yield the result of a task for every block in order; a few blocks are read in advance."""
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        if self.count == 1 or len(first) < 2:
            yield from map(words.TASKS[task], itertools.chain(first, blocks))
            return
        messages = ((task, block) for block in itertools.chain(first, blocks))
        try:
            yield from in_order(self._pool.submit, messages, 2 * self.count)
        except WorkerDied as death:
            raise OSError(
                f"a worker died ({death}), possibly out of memory; finished parts are in the cache: "
                "call again, with fewer workers"
            ) from None


# Counted up when the same input would give another result.
VERSION = 3
TEXTS = ("words", "vocabulary", "written", "report")  # fields of entries that are lists of words


def cache_folder() -> Path:
    """Return the folder HARDMAX_CACHE, or the operating system's folder for caches."""
    folder = os.environ.get("HARDMAX_CACHE")
    if folder:
        return Path(folder)
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(f"the cache needs platformdirs ({error}): {install('text')}") from error
    return Path(platformdirs.user_cache_path("hardmax"))


def digest_of(settings: dict[str, Any]) -> str:
    """Return the key of a result: everything it depends on, including Python's table of characters."""
    content = {"version": VERSION, "unicode": unicodedata.unidata_version} | settings
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_path(path: Path) -> str:
    """Return a digest of the bytes of a file; for a folder, of the names and bytes of all its files."""
    if not path.is_dir():
        return files.digest(path)
    whole = hashlib.sha256()
    for file_path in sorted(member for member in path.rglob("*") if member.is_file()):
        name = file_path.relative_to(path).as_posix()
        whole.update(f"{len(name)} {name} {digest_of_path(file_path)}".encode())
    return whole.hexdigest()


class Cache:
    """Finished work on disk, found by content: the entries of one key.

    A process may be killed at any time, and several may work at the same time. ``trouble`` is the reason if
    entries cannot be written.
    """

    def __init__(self, key: str) -> None:
        self.trouble: str | None = None
        self.folder = cache_folder() / "text" / key[:32]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.sweep(self.folder)
        except OSError as error:
            self._give_up(error)

    def read(self, name: str) -> dict[str, Any] | None:
        """Read an entry, the fields of TEXTS as lists of words; None if it is missing or damaged."""
        with suppress(OSError, ValueError):
            content = (self.folder / name).read_bytes()
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                arrays = arrays_in(io.BytesIO(content[32:]), name)
                return {name: _words(array) if name in TEXTS else array for name, array in arrays.items()}
        return None

    def write(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write an entry atomically, behind its digest; or note that this is impossible."""
        if self.trouble is not None:
            return
        arrays = {
            name: np.frombuffer("\n".join(value).encode(), np.uint8) if name in TEXTS else value
            for name, value in fields.items()
        }
        content = npz_bytes(arrays)
        try:
            with files.whole(self.folder / name) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        self.trouble = (
            f"nothing was cached: {self.folder} cannot be written ({why}); set HARDMAX_CACHE to a "
            "folder that can"
        )


def _words(content: np.ndarray) -> list[str]:
    """Return words that were joined by line breaks."""
    text = content.tobytes().decode()
    return text.split("\n") if text else []


# Characters of a chunk: some tenths of a second of work.
CHUNK = 2_000_000


@dataclass(frozen=True)
class Source:
    """Which reviews: files, columns, what the labels mean, the length in characters, the size of a sample."""

    paths: tuple[Path, ...]
    text: str | None
    label: str | None
    signs: Mapping[Any, int | None] | None
    characters: tuple[int, int] | None
    sample: int | None
    rng: int

    def key(self) -> str:
        """Return a digest of what the chunks depend on, without the location of the files."""
        signs = None if self.signs is None else sorted(map(repr, self.signs.items()))
        settings = {**vars(self), "files": [*map(digest_of_path, self.paths)], "signs": signs, "chunk": CHUNK}
        del settings["paths"]
        return digest_of(settings)


class PlacedReview(NamedTuple):
    """A review that is used, with its place among all that were read."""

    place: int
    text: str
    label: int


class Chunk(NamedTuple):
    """Consecutive reviews: review k has the next ``sizes[k]`` of ``numbers``, places in ``words``."""

    words: list[str]
    numbers: np.ndarray
    sizes: np.ndarray
    labels: np.ndarray
    places: np.ndarray


# How many reviews were read, and how many of them were left out and why, by the fields of `TextReport`.
Passage = dict[str, Any]
FATES = ("read", "unlabelled", "short", "long", "unsampled")


def gather(
    source: Source, cache: Cache, workers: TextWorkers, progress: Callable[[float], None]
) -> tuple[list[Chunk], Passage]:
    """Return all chunks of a source; those in the cache are not made again."""
    passage: Passage = dict.fromkeys(FATES, 0)
    chunks = _finished(cache, passage)
    if chunks is not None:
        return chunks, passage
    done: dict[int, Chunk] = {}
    waiting: deque[tuple[int, list[PlacedReview]]] = deque()

    def missing() -> Iterator[list[str]]:
        for number, block in enumerate(_blocks(_passing(source, passage, progress))):
            entry = cache.read(f"{number}")
            if entry is not None:
                done[number] = Chunk(**entry)
            else:
                waiting.append((number, block))
                yield [review.text for review in block]

    for distinct, numbers, sizes in workers.run("split", missing()):
        number, block = waiting.popleft()
        chunk = done[number] = Chunk(
            distinct,
            np.array(numbers, np.int32),
            np.array(sizes, np.int32),
            np.array([review.label for review in block], np.int8),
            np.array([review.place for review in block], np.int64),
        )
        cache.write(f"{number}", chunk._asdict())
    counts = {"chunks": len(done), **passage}
    cache.write("end", {name: np.array(count) for name, count in counts.items()})
    return [done[number] for number in range(len(done))], passage


def _finished(cache: Cache, passage: Passage) -> list[Chunk] | None:
    end = cache.read("end")
    if end is None:
        return None
    chunks = []
    for number in range(int(end.pop("chunks"))):
        entry = cache.read(f"{number}")
        if entry is None:
            return None
        chunks.append(Chunk(**entry))
    passage |= {name: int(number) for name, number in end.items()}
    return chunks


def _passing(source: Source, passage: Passage, progress: Callable[[float], None]) -> Iterator[PlacedReview]:
    """Yield the reviews with a label and of the wanted length, or a sample of them."""
    if source.sample is None:
        yield from _labelled(source, passage, progress)
        return
    # Each draws a number and the smallest win, which needs no more memory than the sample itself.
    draw = np.random.default_rng(source.rng).random
    draws = ((float(draw()), review) for review in _labelled(source, passage, progress))
    sample = heapq.nsmallest(source.sample, draws)
    passage["unsampled"] = passage["read"] - sum(passage[fate] for fate in FATES[1:]) - len(sample)
    yield from sorted(review for _, review in sample)


def _labelled(source: Source, passage: Passage, progress: Callable[[float], None]) -> Iterator[PlacedReview]:
    least, most = source.characters or (0, None)
    for done, path in enumerate(source.paths):
        reader = read_reviews(path, text=source.text, label=source.label, label_map=source.signs)
        for text, label in reader:
            passage["read"] += 1
            if passage["read"] % 1000 == 0:
                progress((done + reader.share) / len(source.paths))
            if label is None:
                passage["unlabelled"] += 1
            elif len(text) < least:
                passage["short"] += 1
            elif most is not None and len(text) > most:
                passage["long"] += 1
            else:
                yield PlacedReview(passage["read"] - 1, text, label)


def _blocks(reviews: Iterator[PlacedReview]) -> Iterator[list[PlacedReview]]:
    block: list[PlacedReview] = []
    size = 0
    for review in reviews:
        block.append(review)
        size += len(review.text)
        if size >= CHUNK:
            yield block
            block, size = [], 0
    if block:
        yield block
