"""Rows of a file: CSV, JSON lines, Parquet, or one review a file; each with its line, for messages."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from hardmax._lib import reading
from hardmax._lib.extras import install

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
_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")


class Row(NamedTuple):
    """A text, its label as written, and where they stand."""

    line: int
    text: str
    label: Any


class Table(NamedTuple):
    """The rows of a file and the name of the column of their labels."""

    column: str
    rows: Iterator[Row]


Wanted = tuple[str | None, str | None]
Reader = Callable[[io.BufferedReader, Wanted], Table]


def reader_of(name: str, *, alone: bool) -> Reader | None:
    """How to read a file of that name, None if it is none of ours; a file given ``alone`` is tried anyway."""
    stanford = _STANFORD.search(name)
    if stanford:
        return lambda stream, wanted: _single(stream, stanford[1])
    if _UNLABELLED.search(name):
        return None
    ours = PurePosixPath(name).suffix.lower() in _ENDINGS and not _OTHER.search(name)
    return _by_content if ours or alone else None


def _by_content(stream: io.BufferedReader, wanted: Wanted) -> Table:
    start = stream.peek(64)[:64].removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"PAR1"):
        return _parquet(stream, wanted)
    return _json_lines(stream, wanted) if start.startswith((b"{", b"[")) else _csv(stream, wanted)


def _single(stream: io.BufferedReader, label: str) -> Table:
    return Table("folder", iter([Row(1, _decoded(_all_of(stream, LONGEST), 1), label)]))


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


def _chosen(found: Sequence[str], wanted: Wanted) -> tuple[str, str]:
    """The names of the columns of text and label."""
    lower = {name.strip().lower(): name for name in reversed(found)}
    chosen = []
    for what, name, usual in zip(("text", "label"), wanted, (TEXT_COLUMNS, LABEL_COLUMNS), strict=True):
        known = name if name in found else None
        if name is None:
            known = next((lower[each] for each in usual if each in lower), None)
        if known is None:
            missed = f"no column {name!r}" if name else f"no column of {what} (tried {', '.join(usual)})"
            raise ValueError(f"{missed} among {', '.join(map(repr, found))}; name it by {what}=")
        chosen.append(known)
    return chosen[0], chosen[1]


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
    parsed = _blocks(csv.reader(table, delimiter=comma, strict=True), lines)
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


@contextmanager
def _wide_fields() -> Iterator[None]:
    with _LIMIT:
        before = csv.field_size_limit(LONGEST)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _blocks(reader: Any, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line on which they end; what precedes a broken one comes first."""
    broken: csv.Error | None = None
    while broken is None:
        block, held = [], 0
        with _wide_fields():
            try:
                for row in itertools.islice(reader, BLOCK):
                    block.append((reader.line_num, row))
                    held, lines.taken = held + lines.taken, 0
                    if held > LONGEST_ROW:
                        break
            except csv.Error as error:
                broken = error
        yield from ((line, row) for line, row in block if row)
        if not block and broken is None:
            return
    raise ValueError(f"line {reader.line_num}: not a row of CSV ({broken}); is a quote left open before it?")


def _cells(
    rows: Iterator[tuple[int, list[str]]], width: int, text: int, label: int, *, unescape: bool
) -> Iterator[Row]:
    for line, row in rows:
        if len(row) != width:
            raise ValueError(f"line {line} must have {width} columns, got {len(row)}; mend or delete the row")
        content = row[text]
        if not content.isascii():
            _check_encoding(content, line)
        # The star files without a header write a line break as a backslash and an n.
        yield Row(line, content.replace("\\n", "\n") if unescape else content, row[label])


def _check_encoding(text: str, line: int) -> None:
    mark = re.search("[\udc80-\udcff]", text)
    if mark:
        raise ValueError(_encoding(line, ord(mark[0]) - 0xDC00))


# -- JSON lines and Parquet -------------------------------------------------------------------------------


def _json_lines(stream: io.BufferedReader, wanted: Wanted) -> Table:
    parsed = _objects(stream)
    first = next(parsed, None)
    if first is None:
        raise ValueError("the file must have one JSON object a line, with a text and a label, got nothing")
    text, label = _chosen(list(first[1]), wanted)
    return Table(label, _members(itertools.chain([first], parsed), text, label))


def _objects(stream: io.BufferedReader) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, content in enumerate(reading.lines(stream, LONGEST, LARGEST), 1):
        decoded = _decoded(content, line)
        if not decoded.strip():
            continue
        if decoded.lstrip().startswith("["):
            raise ValueError(f"line {line} must be one JSON object, got a list; write JSON lines")
        try:
            found = reading.parse_json(decoded)
        except reading.NotJson as error:
            raise ValueError(
                f"line {line} must be one JSON object, got none ({error}); mend or delete the line"
            ) from None
        if not isinstance(found, dict):
            raise ValueError(
                f"line {line} must be one JSON object, got {decoded.strip():.40}; mend or delete it"
            )
        yield line, found


def _members(objects: Iterator[tuple[int, dict[str, Any]]], text: str, label: str) -> Iterator[Row]:
    for line, found in objects:
        if not isinstance(found.get(text), str):
            raise ValueError(f"line {line} must have a text {text!r}, got {found.get(text)!r:.40}; delete it")
        yield Row(line, found[text], found.get(label))


def _parquet(stream: io.BufferedReader, wanted: Wanted) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"Parquet needs pyarrow ({error}): {install('export')}") from error
    # Its table of contents is at the end, so a stream that cannot go back is read first.
    source = stream if stream.seekable() else io.BytesIO(_all_of(stream, reading.LARGEST_UNPACKED))
    try:
        file = pq.ParquetFile(source)
        text, label = _chosen(file.schema_arrow.names, wanted)
        batches = file.iter_batches(batch_size=BLOCK, columns=[text, label])
    except pa.ArrowInvalid as error:
        raise ValueError(f"not a readable Parquet file ({error})") from None
    return Table(label, _columns(batches, text, label))


def _columns(batches: Any, text: str, label: str) -> Iterator[Row]:
    row = 0
    for batch in batches:
        found = batch.to_pydict()
        for content, value in zip(found[text], found[label], strict=True):
            row += 1
            if not isinstance(content, str):
                raise ValueError(f"row {row} must have a text, got {content!r:.40}; delete it")
            yield Row(row, content, value)
