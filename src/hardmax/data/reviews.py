"""Labeled texts from the files in which people keep them: IMDB, Yelp and other tables, packed or not."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import math
import re
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Generic, NamedTuple, TypeVar, cast

from hardmax._lib import reading
from hardmax._lib.archive import LARGEST_UNPACKED
from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install

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
    """Return the files of that name, each in the first of its packings that is there."""
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


def _open_file(file: Path, stack: ExitStack) -> io.BufferedReader:
    return _unpacked(stack.enter_context(file.open("rb")), stack)


def unpacked_name(name: str) -> str:
    """Return the name of a file without the ending of its packer."""
    return str(PurePosixPath(name).with_suffix("")) if name.lower().endswith(_ENDINGS) else name


def _inside(path: Path, file: io.BufferedReader, stack: ExitStack) -> Iterator[Member]:
    """Yield the members of an archive, or the file itself."""
    # A zip archive has its table of contents at the end: it is opened as a file, not as a stream.
    if file.peek(4).startswith(b"PK\x03\x04"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        for info in archive.infolist():
            if not info.is_dir():
                yield Member(unpacked_name(info.filename), partial(_open, archive.open, info, stack))
        return
    stream = _unpacked(file, stack)
    if stream.peek(512)[257:262] != b"ustar":
        yield Member(unpacked_name(path.name), lambda: stream, alone=True)
        return
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for entry in tar:
            if entry.isfile():
                yield Member(unpacked_name(entry.name), partial(_open, tar.extractfile, entry, stack))
            tar.members = []  # type: ignore[attr-defined]  # it would remember a hundred thousand of them


def _open(opener: Callable[[Any], IO[bytes] | None], member: Any, stack: ExitStack) -> io.BufferedReader:
    """Open a member; what only zipfile unpacks is buffered."""
    stream = opener(member)
    assert stream is not None  # it is a file
    if isinstance(stream, zipfile.ZipExtFile):
        stream = _buffered(stack.enter_context(stream))
    return _unpacked(cast(io.BufferedReader, stream), stack)


def _unpacked(file: io.BufferedReader, stack: ExitStack) -> io.BufferedReader:
    start = file.peek(6)
    unpack = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), None)
    return file if unpack is None else _buffered(stack.enter_context(unpack(file)))


def _buffered(stream: IO[bytes]) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)


# -- the members of a path as tables ------------------------------------------------------------------------

TEXT_COLUMNS = ("review", "text")
LABEL_COLUMNS = ("sentiment", "label", "stars", "label2", "rating")
# A review is short; a line or a field beyond this is a quote that was never closed, or no table at all.
LONGEST = 1 << 24
LONGEST_ROW = 4 * LONGEST
LARGEST = 1 << 34  # bytes of a table once unpacked, which is read line by line
BLOCK = 512

# The Stanford folder names the label; its third kind, unsup, has none.
_STANFORD = re.compile(r"(?:^|/)(?:train|test)/(pos|neg)/[^/]+\.txt$")
# Hugging Face's file of reviews without labels marks each with -1, which would be taken for a label.
_UNLABELLED = re.compile(r"(?:^|/)unsupervised[^/]*$")
# The other tables of Yelp's archive, and what operating systems leave behind.
_OTHER = re.compile(r"yelp_academic_dataset_(?!review)|(?:^|/)(?:\.|__MACOSX)")
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")


class ReviewRow(NamedTuple):
    """A text, its label as written, and the line on which they end."""

    line: int
    text: str
    label: Any


class Table(NamedTuple):
    """The rows of a file and the name of the column of their labels."""

    column: str
    rows: Iterator[ReviewRow]


Wanted = tuple[str | None, str | None]
Reader = Callable[[io.BufferedReader, Wanted], Table]


def reader_of(name: str, *, alone: bool) -> Reader | None:
    """Return the reader for a file of that name, or None; a file that is ``alone`` is always read."""
    stanford = _STANFORD.search(name)
    if stanford:
        return partial(_single, stanford[1])
    if _UNLABELLED.search(name):
        return None
    is_table = PurePosixPath(name).suffix.lower() in _TABLES and not _OTHER.search(name)
    return _by_content if is_table or alone else None


def _single(label: str, stream: io.BufferedReader, _: Wanted) -> Table:
    return Table("folder", iter([ReviewRow(1, _decoded(_all_of(stream, LONGEST), 1), label)]))


def _by_content(stream: io.BufferedReader, wanted: Wanted) -> Table:
    start = stream.peek(64)[:64].removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"PAR1"):
        return _parquet(stream, wanted)
    return _json_lines(stream, wanted) if start.startswith((b"{", b"[")) else _csv(stream, wanted)


def _all_of(stream: io.BufferedReader, largest: int) -> bytes:
    content = stream.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"the file must be at most {reading.size_of(largest)}, got more; split it")
    return content


def _decoded(content: bytes, line: int) -> str:
    try:
        return content.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            _encoding(line + content.count(b"\n", 0, error.start), content[error.start])
        ) from None


def _encoding(line: int, byte: int) -> str:
    return f"line {line} must be in UTF-8, got byte 0x{byte:02x}; save the file as UTF-8"


def _chosen(columns: Sequence[str], wanted: Wanted) -> tuple[str, str]:
    """Return the names of the columns of text and label."""
    lower = {name.strip().lower(): name for name in reversed(columns)}

    def choose(role: str, name: str | None, usual: tuple[str, ...]) -> str:
        column = name if name in columns else None
        if name is None:
            column = next((lower[candidate] for candidate in usual if candidate in lower), None)
        if column is None:
            problem = f"no column {name!r}" if name else f"no column of {role} (tried {', '.join(usual)})"
            raise ValueError(f"{problem} among {', '.join(map(repr, columns))}; name it by {role}=")
        return column

    return choose("text", wanted[0], TEXT_COLUMNS), choose("label", wanted[1], LABEL_COLUMNS)


# -- CSV --------------------------------------------------------------------------------------------------


def _csv(stream: io.BufferedReader, wanted: Wanted) -> Table:
    if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise ValueError("the file must be in UTF-8, got UTF-16; save it as UTF-8")
    # A byte that is not UTF-8 becomes a mark that is found in its row, so that the row can be named.
    lines = _Lines(stream)
    blank, first = 0, next(lines, "").removeprefix("\ufeff")
    while first and not first.strip():
        blank, first = blank + 1, next(lines, "")
    if not first:
        raise ValueError("the file must be a table with a column of texts and one of labels, got nothing")
    comma = max(",\t;", key=first.count)
    table = itertools.chain(["\n"] * blank, [first], lines)  # a message counts the blank lines too
    parsed = _rows(csv.reader(table, delimiter=comma, strict=True), lines)
    line, head = next(parsed)
    if len(head) == 2 and re.fullmatch("[0-9]", head[0].strip()) and wanted == (None, None):
        everything = itertools.chain([(line, head)], parsed)
        return Table("the first", _cells(everything, 2, 1, 0, unescape=True))
    try:
        text, label = _chosen(head, wanted)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}, or write a first line of column names") from None
    return Table(label, _cells(parsed, len(head), head.index(text), head.index(label), unescape=False))


class _Lines(Iterator[str]):
    """Lines as text, with the number of bytes ``taken`` since a row was last complete."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._lines, self.taken = reading.lines(stream, LONGEST, LARGEST), 0

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken += len(line)
        if self.taken > LONGEST_ROW:
            raise ValueError("a row goes on for too many lines; is a quote left open before it?")
        return line.decode("utf-8", "surrogateescape")


# The limit is one for the whole process: another thread may not set it back while a row is read.
_LIMIT = threading.Lock()


def _next_row(reader: Any) -> list[str] | None:
    """Return the next row, with fields of any length that a line may have; None at the end."""
    with _LIMIT:
        before = csv.field_size_limit(LONGEST)
        try:
            return next(reader, None)
        except csv.Error as error:
            raise ValueError(
                f"line {reader.line_num}: not a row of CSV ({error}); is a quote left open before it?"
            ) from None
        finally:
            csv.field_size_limit(before)


def _rows(reader: Any, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, with the line on which they end."""
    while (row := _next_row(reader)) is not None:
        lines.taken = 0
        if row:
            yield reader.line_num, row


def _cells(
    rows: Iterator[tuple[int, list[str]]], width: int, text: int, label: int, *, unescape: bool
) -> Iterator[ReviewRow]:
    for line, row in rows:
        if len(row) != width:
            raise ValueError(f"line {line} must have {width} columns, got {len(row)}; fix or delete the row")
        content = row[text]
        if not content.isascii() and (mark := re.search("[\udc80-\udcff]", content)):
            raise ValueError(_encoding(line, ord(mark[0]) - 0xDC00))
        # The star files without a header write a line break as a backslash and an n.
        yield ReviewRow(line, content.replace("\\n", "\n") if unescape else content, row[label])


# -- JSON lines and Parquet -------------------------------------------------------------------------------


def _json_lines(stream: io.BufferedReader, wanted: Wanted) -> Table:
    objects = _objects(stream)
    first = next(objects, None)
    if first is None:
        raise ValueError("the file must have one JSON object a line, with a text and a label, got nothing")
    text, label = _chosen(list(first[1]), wanted)

    def rows() -> Iterator[ReviewRow]:
        for line, entry in itertools.chain([first], objects):
            if not isinstance(entry.get(text), str):
                raise ValueError(
                    f"line {line} must have a text {text!r}, got {entry.get(text)!r:.40}; delete it"
                )
            yield ReviewRow(line, entry[text], entry.get(label))

    return Table(label, rows())


def _objects(stream: io.BufferedReader) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, content in enumerate(reading.lines(stream, LONGEST, LARGEST), 1):
        decoded = _decoded(content, line).strip()
        if not decoded:
            continue
        if decoded.startswith("["):
            raise ValueError(f"line {line} must be one JSON object, got a list; write JSON lines")
        try:
            entry = reading.parse_json(decoded)
        except reading.NotJson as error:
            raise ValueError(
                f"line {line} must be one JSON object, got none ({error}); fix or delete the line"
            ) from None
        if not isinstance(entry, dict):
            raise ValueError(f"line {line} must be one JSON object, got {decoded:.40}; fix or delete it")
        yield line, entry


def _parquet(stream: io.BufferedReader, wanted: Wanted) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(f"Parquet needs pyarrow ({error}): {install('export')}") from error
    # Its table of contents is at the end, so a stream that cannot go back is read first.
    source = stream if stream.seekable() else io.BytesIO(_all_of(stream, LARGEST_UNPACKED))
    try:
        file = pq.ParquetFile(source)
        text, label = _chosen(file.schema_arrow.names, wanted)
        batches = file.iter_batches(batch_size=BLOCK, columns=[text, label])
    except pa.ArrowInvalid as error:
        raise ValueError(f"not a readable Parquet file ({error})") from None
    return Table(label, _columns(batches, text, label))


def _columns(batches: Any, text: str, label: str) -> Iterator[ReviewRow]:
    row = 0
    for batch in batches:
        columns = batch.to_pydict()
        for content, value in zip(columns[text], columns[label], strict=True):
            row += 1
            if not isinstance(content, str):
                raise ValueError(f"row {row} must have a text, got {content!r:.40}; delete it")
            yield ReviewRow(row, content, value)


WORDS = {"positive": 1, "pos": 1, "negative": -1, "neg": -1, "neutral": None}
_TRUTH = {"true": 1, "false": 0}
STARS = {1: -1, 2: -1, 3: None, 4: 1, 5: 1}

# The one number of a text such as "Review Stars: 4.0".
_NUMBER = re.compile(r"(?:[^\d+-]*:)?\s*([+-]?\d+(?:\.\d+)?)\s*")
_REMEDY = "give their meaning, such as label_map={'1': -1, '2': 1}"
Scale = Mapping[Any, int | None]


def plain(value: Any) -> Any:
    """Return a label as an integer or a lower-case word; None for a blank."""
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value)
        if number is None:
            word = value.strip().lower()
            return _TRUTH.get(word, word or None)
        value = float(number[1])
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() else value
    return int(value) if isinstance(value, (bool, int)) else value if value is None else repr(value)


class LabelColumn:
    """The signs of a column's labels, understood from those so far; ``scale`` is that of the user."""

    def __init__(self, column: str, first: Sequence[Any], scale: Scale | None) -> None:
        self.column, self.is_free = column, scale is None
        self._written: list[Any] = list(first)
        self._signs: dict[Any, int | None] = {None: None}
        self._scale = _scale_of(column, self._written) if scale is None else scale

    def sign(self, value: Any) -> int | None:
        """Return +1, -1 or None; refuse a label that would change the meaning of an earlier one."""
        label = plain(value)
        if label in self._signs:
            return self._signs[label]
        if label not in self._scale:
            if not self.is_free:
                raise ValueError(f"label_map must hold every label, it lacks {value!r:.40}")
            self._written.append(value)
            self._scale = _scale_of(self.column, self._written)
            for earlier, sign in self._signs.items():
                if earlier is not None and self._scale.get(earlier) != sign:
                    raise ValueError(
                        f"label {value!r} makes the column {self.column!r} ambiguous: the meaning of "
                        f"{earlier} changes; {_REMEDY}"
                    )
        self._signs[label] = self._scale[label]
        return self._signs[label]


def _scale_of(column: str, values: Sequence[Any]) -> Scale:
    """Decide what labels mean by the name of their column and their values.

    They are stars by the name of the column or if the highest star is among them: 1 to 3 and 0 to 2 are more
    often classes, with the neutral one in the middle.
    """
    labels = {plain(value) for value in values} - {None}
    if labels <= WORDS.keys():
        return WORDS
    names_stars = re.search("star|rating", column, re.IGNORECASE) or any(
        isinstance(value, str) and "star" in value.lower() for value in values
    )
    if labels <= STARS.keys() and (names_stars or 5 in labels):
        return STARS
    if labels <= {0, 1}:
        return {1: 1, 0: -1}
    if labels <= {-1, 0, 1}:
        return {1: 1, 0: None, -1: -1}
    if {0, 4} <= labels <= {0, 1, 2, 3, 4}:  # stars counted from zero
        return {stars - 1: sign for stars, sign in STARS.items()}
    examples = ", ".join(sorted(map(repr, labels))[:8])
    raise ValueError(
        f"the column {column!r} must hold positive and negative, 0 and 1, -1 and 1, or 1 to 5 stars; it "
        f"holds {examples}, whose meaning is not clear; name another column by label=, or {_REMEDY}"
    )


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


Row = TypeVar("Row")


class ReviewReader(Iterator[Row], Generic[Row]):
    """The rows of a path one after the other, and how much of it has been read so far.

    Members of a folder come in the order of their names, those of an archive in its own order. ``read_table``
    makes the rows of a member of what was read of it.
    """

    def __init__(
        self, path: str | PathLike[str], wanted: Wanted, read_table: Callable[[Table], Iterator[Row]]
    ) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        self._done, self._size = 0, 0
        self._file: io.BufferedReader | None = None
        self._rows = self._read(wanted, read_table)

    def __next__(self) -> Row:
        return next(self._rows)

    @property
    def share(self) -> float:
        """Share of the path that has been read, from 0 to 1: bytes of a file, files of a folder."""
        done = self._done if self._file is None or self._file.closed else self._file.tell()
        return min(1.0, done / self._size) if self._size else 0.0

    def _read(self, wanted: Wanted, read_table: Callable[[Table], Iterator[Row]]) -> Iterator[Row]:
        any_table = False
        try:
            with closing(self._members()) as members:
                for member in members:
                    read = reader_of(member.name, alone=member.alone)
                    if read is None:
                        continue
                    any_table = True
                    try:
                        yield from read_table(read(member.open(), wanted))
                    except ValueError as error:
                        where = self.path if member.alone else f"{self.path}: {member.name}"
                        raise ValueError(f"{where}: {error}") from None
        except DAMAGE as error:
            raise ValueError(f"{self.path} is damaged or cut short ({error}); fetch it again") from error
        if not any_table:
            raise ValueError(
                f"{self.path} must hold reviews with labels, got none; give CSV, JSON lines or Parquet "
                "files, or folders train/pos, train/neg, test/pos, test/neg of text files"
            )

    def _members(self) -> Generator[Member]:
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


@check_arguments
def read_labelled(
    path: str | PathLike[str], *, text: str | None = None, label: str | None = None
) -> Iterator[Labelled]:
    r"""Read the texts of a file, a folder or an archive with their labels as written.

    Files, ``text`` and ``label`` are those of `read_reviews`. A number in a text, as "Stars: 4.0", is read as
    that number.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text('label,text\nsport,They won\nnews,They voted\n')
    ...     print([row.label for row in hm.data.read_labelled(file)])
    ['sport', 'news']
    """

    def written(table: Table) -> Iterator[Labelled]:
        return (Labelled(row.text, plain(row.label)) for row in table.rows)

    return ReviewReader(path, (text, label), written)


def _signed(table: Table, scale: Scale | None) -> Iterator[Review]:
    first, size = [], 0
    for row in itertools.islice(table.rows, PEEK):
        first.append(row)
        size += len(row.text)
        if size > LONGEST_ROW:
            break
    labels = LabelColumn(table.column, [row.label for row in first], scale)
    for line, text, value in itertools.chain(first, table.rows):
        try:
            sign = labels.sign(value)
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None
        yield Review(text, sign)


@check_arguments
def read_reviews(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    label_map: Mapping[Any, int | None] | None = None,
) -> ReviewReader[Review]:
    r"""Read the reviews of a file, a folder or an archive, one at a time.

    CSV, JSON lines, Parquet and the Stanford folders are recognized by content and names, also inside tar
    and zip archives, and unpacked from gzip, bzip2 or xz on the way. ``text`` and ``label`` name the
    columns where they are not the usual ones (review or text; sentiment, label or stars). Labels may be
    words, 0 and 1, signs, or stars: 1 and 2 are -1, 4 and 5 are +1, 3 is None. ``label_map`` gives the
    meaning of other labels, such as ``{"good": 1, "bad": -1, "mixed": None}``. A broken row is a ValueError
    that names file and line.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text('stars,text\n5,"Good, really"\n3,So so\n1,Bad\n')
    ...     for review in hm.data.read_reviews(file):
    ...         print(review.label, review.text)
    1 Good, really
    None So so
    -1 Bad
    """
    scale: Scale | None = None  # a sign for each label, None for a label that is left out
    if label_map is not None:
        if not label_map or not set(label_map.values()) <= {1, -1, 0, None}:
            raise ValueError(
                f"label_map must map labels to 1, -1 or None, such as {{'good': 1}}, got {label_map!r:.60}"
            )
        scale = {plain(name): sign or None for name, sign in label_map.items()}
    return ReviewReader(path, (text, label), partial(_signed, scale=scale))
