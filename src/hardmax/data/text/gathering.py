"""Reviews to numbers of words: read, filtered, and split on all cores; each chunk is kept when done.

`TextReport` counts what each step left out.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib.archive import Arrays
from hardmax._lib.parallel import cores, in_order
from hardmax._lib.pool import Pool, WorkerDied
from hardmax.data.reviews.reading import read_reviews
from hardmax.data.text import words
from hardmax.data.text.cache import Cache, digest_of, digest_of_path, packed, unpacked


@dataclass(frozen=True)
class TextReport:
    """Numbers of reviews, words and tokens at each step of `text_corpus`, and what else is worth knowing.

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
            ("reviews read", self.read, 1),
            ("  without a label", self.unlabelled, -1),
            ("  too short", self.short, -1),
            ("  too long", self.long, -1),
            ("  not in the sample", self.unsampled, -1),
            ("  emptied", self.emptied, -1),
            ("  in the corpus", self.reviews, 1),
            ("words", self.words, 1),
            ("  stop words", self.stopped, -1),
            ("  distinct", self.distinct_words, 1),
            ("tokens", self.tokens, 1),
            ("  cut from long reviews", self.cut, -1),
            ("  purged as rare", self.purged, -1),
            ("  in the corpus", self.kept, 1),
            ("  distinct before the purge", self.distinct_tokens, 1),
            ("  distinct in the corpus", self.vocabulary, 1),
        )
        cells = [(what, f"{sign * number:,}") for what, number, sign in rows if number]
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
        settings = {
            "files": [digest_of_path(path) for path in self.paths],
            "text": self.text,
            "label": self.label,
            "signs": None if self.signs is None else sorted(map(repr, self.signs.items())),
            "characters": self.characters,
            "sample": self.sample,
            "rng": self.rng,
            "chunk": CHUNK,
        }
        return digest_of(settings)


class Taken(NamedTuple):
    """A review that passed, with its place among all that were read."""

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

    @classmethod
    def of(cls, arrays: Arrays) -> Chunk:
        """Make the chunk of a cache entry."""
        fields: dict[str, Any] = {**arrays, "words": unpacked(arrays["words"])}
        return cls(**fields)

    def arrays(self) -> Arrays:
        """Return the cache entry of the chunk."""
        return self._asdict() | {"words": packed(self.words)}


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
    waiting: deque[tuple[int, list[Taken]]] = deque()

    def missing() -> Iterator[list[str]]:
        for number, block in enumerate(_blocks(_passing(source, passage, progress))):
            entry = cache.read(f"{number}")
            if entry is not None:
                done[number] = Chunk.of(entry)
            else:
                waiting.append((number, block))
                yield [review.text for review in block]

    for distinct, numbers, sizes in workers.run("split", missing()):
        number, block = waiting.popleft()
        done[number] = Chunk(
            distinct,
            np.array(numbers, np.int32),
            np.array(sizes, np.int32),
            np.array([review.label for review in block], np.int8),
            np.array([review.place for review in block], np.int64),
        )
        cache.write(f"{number}", done[number].arrays())
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
        chunks.append(Chunk.of(entry))
    passage |= {name: int(number) for name, number in end.items()}
    return chunks


def _passing(source: Source, passage: Passage, progress: Callable[[float], None]) -> Iterator[Taken]:
    """The reviews with a label and of the wanted length; of these a sample, if one is asked for."""
    if source.sample is None:
        yield from _labelled(source, passage, progress)
        return
    # Each draws a number and the smallest win, which needs no more memory than the sample itself.
    draw = np.random.default_rng(source.rng).random
    sample: list[tuple[float, Taken]] = []
    for review in _labelled(source, passage, progress):
        entry = (-float(draw()), review)
        if len(sample) < source.sample:
            heapq.heappush(sample, entry)
        else:
            heapq.heappushpop(sample, entry)
            passage["unsampled"] += 1
    yield from sorted(review for _, review in sample)


def _labelled(source: Source, passage: Passage, progress: Callable[[float], None]) -> Iterator[Taken]:
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
                yield Taken(passage["read"] - 1, text, label)


def _blocks(reviews: Iterator[Taken]) -> Iterator[list[Taken]]:
    block: list[Taken] = []
    size = 0
    for review in reviews:
        block.append(review)
        size += len(review.text)
        if size >= CHUNK:
            yield block
            block, size = [], 0
    if block:
        yield block
