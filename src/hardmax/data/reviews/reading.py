"""Reviews from any of the files in which people keep them, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from hardmax.data.reviews.labels import Labels, Scale, own_scale
from hardmax.data.reviews.opening import Opened, damage_named
from hardmax.data.reviews.rows import LONGEST_ROW, Table, reader_of

# Rows by which a column of labels is understood, before the first review is given out.
PEEK = 1000


class Review(NamedTuple):
    """A text and its label: +1, -1, or None for three stars, a neutral word or a blank.

    >>> import hardmax as hm
    >>> hm.data.Review("Great film", 1).label
    1
    """

    text: str
    label: int | None


class ReviewReader(Iterator[Review]):
    """The reviews of a path one after the other, and how much of it has been read so far."""

    def __init__(self, path: Path, text: str | None, label: str | None, scale: Scale | None) -> None:
        self._opened = Opened(path)
        self._reviews = self._read(path, (text, label), scale)

    def __next__(self) -> Review:
        return next(self._reviews)

    @property
    def share(self) -> float:
        """How much of the path has been read, from 0 to 1."""
        return self._opened.share

    def _read(
        self, path: Path, wanted: tuple[str | None, str | None], scale: Scale | None
    ) -> Iterator[Review]:
        found = False
        with damage_named(path), closing(self._opened.members()) as members:
            for member in members:
                read = reader_of(member.name, alone=member.alone)
                if read is None:
                    continue
                found = True
                try:
                    yield from _signed(read(member.open(), wanted), scale)
                except ValueError as error:
                    where = path if member.alone else f"{path}: {member.name}"
                    raise ValueError(f"{where}: {error}") from None
        if not found:
            raise ValueError(
                f"{path} holds no reviews with labels; expected CSV, JSON lines or Parquet files, or folders "
                "train/pos, train/neg, test/pos, test/neg of text files"
            )


def _signed(table: Table, own: Scale | None) -> Iterator[Review]:
    first, held = [], 0
    for row in itertools.islice(table.rows, PEEK):
        first.append(row)
        held += len(row.text)
        if held > LONGEST_ROW:
            break
    labels = Labels(table.column, [row.label for row in first], own)
    for line, text, value in itertools.chain(first, table.rows):
        try:
            sign = labels.sign(value)
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None
        yield Review(text, sign)


def read_reviews(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    signs: Mapping[Any, int | None] | None = None,
) -> ReviewReader:
    """The reviews of a file, a folder or an archive, one at a time.

    CSV, JSON lines, Parquet and the Stanford folders are told apart by their content and names, also inside
    tar and zip archives, and unpacked from gzip, bzip2 or xz on the way. ``text`` and ``label`` name the
    columns where they are not the usual ones (review or text; sentiment, label or stars). Labels may be
    words, 0 and 1, signs, or stars: 1 and 2 are -1, 4 and 5 are +1, 3 is None. ``signs`` says what other
    labels mean, such as ``{"good": 1, "bad": -1, "mixed": None}``. A broken row is a ValueError that names
    file and line.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text('stars,text\\n5,"Good, really"\\n3,So so\\n1,Bad\\n')
    ...     for review in hm.data.read_reviews(file):
    ...         print(review.label, review.text)
    1 Good, really
    None So so
    -1 Bad
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"path: there is no file or folder {path}")
    return ReviewReader(path, text, label, None if signs is None else own_scale(signs))
