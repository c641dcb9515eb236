"""Reviews from any of the files in which people keep them, one at a time, with labels as they write them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from hardmax.data.reviews.opening import Opened, damage_named
from hardmax.data.reviews.rows import LONGEST_ROW, Table, reader_of

WORDS = {"positive": 1, "pos": 1, "negative": -1, "neg": -1, "neutral": None}
_TRUTH = {"true": 1, "false": 0}
STARS = {1: -1, 2: -1, 3: None, 4: 1, 5: 1}

# The one number of a text such as "Review Stars: 4.0".
_NUMBER = re.compile(r"(?:[^\d+-]*:)?\s*([+-]?\d+(?:\.\d+)?)\s*")
_SAY = "say what they mean, such as signs={'1': -1, '2': 1}"
Scale = Mapping[Any, int | None]


def plain(value: Any) -> Any:
    """A label as a whole number or a lower-case word; None for a blank."""
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None:
            word = value.strip().lower()
            return _TRUTH.get(word, word or None)
        value = float(found[1])
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() else value
    return int(value) if isinstance(value, (bool, int)) else value if value is None else repr(value)


class Labels:
    """The signs of a column's labels, understood from those met so far; ``own`` is the user's reading."""

    def __init__(self, column: str, first: Sequence[Any], own: Scale | None) -> None:
        self.column, self.own = column, own
        self._written: list[Any] = list(first)
        self._signs: dict[Any, int | None] = {None: None}
        self._scale = _scale_of(column, self._written) if own is None else own

    def sign(self, value: Any) -> int | None:
        """+1, -1 or None; a label that would turn the meaning of an earlier one is refused."""
        label = plain(value)
        if label in self._signs:
            return self._signs[label]
        if label not in self._scale:
            if self.own is not None:
                raise ValueError(f"signs must say what each label means, it lacks {value!r:.40}")
            self._written.append(value)
            self._scale = _scale_of(self.column, self._written)
            for known, sign in self._signs.items():
                if known is not None and self._scale.get(known) != sign:
                    raise ValueError(
                        f"the column {self.column!r} holds {value!r}, after which {known} would mean "
                        f"something else; {_SAY}"
                    )
        self._signs[label] = self._scale[label]
        return self._signs[label]


def _scale_of(column: str, values: Sequence[Any]) -> Scale:
    """What labels mean, by their column's name and their values.

    They are stars by the name of the column or if the highest star is among them: 1 to 3 and 0 to 2 are more
    often classes, with the neutral one in the middle.
    """
    seen = {plain(value) for value in values} - {None}
    if seen <= WORDS.keys():
        return WORDS
    starry = re.search("star|rating", column, re.IGNORECASE) or any(
        isinstance(value, str) and "star" in value.lower() for value in values
    )
    if seen <= STARS.keys() and (starry or 5 in seen):
        return STARS
    if seen <= {0, 1}:
        return {1: 1, 0: -1}
    if seen <= {-1, 0, 1}:
        return {1: 1, 0: None, -1: -1}
    if {0, 4} <= seen <= {0, 1, 2, 3, 4}:  # stars counted from zero
        return {stars - 1: sign for stars, sign in STARS.items()}
    shown = ", ".join(sorted(map(repr, seen))[:8])
    raise ValueError(
        f"the column {column!r} must hold positive and negative, 0 and 1, -1 and 1, or 1 to 5 stars; it "
        f"holds {shown}, whose meaning is not clear; name another column by label=, or {_SAY}"
    )


def own_scale(signs: Mapping[Any, int | None]) -> Scale:
    """The user's own reading: a sign for each label, None or 0 for a label that is left out."""
    if not isinstance(signs, Mapping) or not signs or not set(signs.values()) <= {1, -1, 0, None}:
        raise ValueError(f"signs must map labels to 1, -1 or None, such as {{'good': 1}}, got {signs!r:.60}")
    return {plain(label): sign or None for label, sign in signs.items()}


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


class Labelled(NamedTuple):
    """A text and its label as it is written: a whole number, a lower-case word, or None for a blank.

    >>> import hardmax as hm
    >>> hm.data.Labelled("Great film", "comedy").label
    'comedy'
    """

    text: str
    label: Any


class ReviewReader(Iterator[Review]):
    """The reviews of a path one after the other, and how much of it has been read so far."""

    def __init__(self, path: Path, text: str | None, label: str | None, scale: Scale | None) -> None:
        self._opened = Opened(path)
        self._reviews = _rows_of(path, self._opened, (text, label), lambda table: _signed(table, scale))

    def __next__(self) -> Review:
        return next(self._reviews)

    @property
    def share(self) -> float:
        """How much of the path has been read, from 0 to 1."""
        return self._opened.share


def _rows_of(
    path: Path,
    opened: Opened,
    wanted: tuple[str | None, str | None],
    read_table: Callable[[Table], Iterator[Any]],
) -> Iterator[Any]:
    found = False
    with damage_named(path), closing(opened.members()) as members:
        for member in members:
            read = reader_of(member.name, alone=member.alone)
            if read is None:
                continue
            found = True
            try:
                yield from read_table(read(member.open(), wanted))
            except ValueError as error:
                where = path if member.alone else f"{path}: {member.name}"
                raise ValueError(f"{where}: {error}") from None
    if not found:
        raise ValueError(
            f"{path} must hold reviews with labels, got none; give CSV, JSON lines or Parquet files, or "
            "folders train/pos, train/neg, test/pos, test/neg of text files"
        )


def read_labelled(
    path: str | PathLike[str], *, text: str | None = None, label: str | None = None
) -> Iterator[Labelled]:
    """The texts of a file, a folder or an archive with their labels as written, whatever they mean.

    Files, ``text`` and ``label`` are those of `read_reviews`. A number in a text, as "Stars: 4.0", is read as
    that number.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text('label,text\\nsport,They won\\nnews,They voted\\n')
    ...     print([each.label for each in hm.data.read_labelled(file)])
    ['sport', 'news']
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"path: there is no file or folder {path}")

    def written(table: Table) -> Iterator[Labelled]:
        return (Labelled(row.text, plain(row.label)) for row in table.rows)

    return _rows_of(path, Opened(path), (text, label), written)


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
