"""Texts of any size to their distinct sentences: in blocks, on all cores, the same however they are cut."""

from __future__ import annotations

import base64
import bz2
import codecs
import gzip
import io
import lzma
import os
import pickle
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, NamedTuple

import numpy as np

from hardmax._lib import reading
from hardmax._lib.parallel import cores, in_order
from hardmax._lib.terminal import shown
from hardmax.data.sentences import counting
from hardmax.data.sentences.distinct import MANY_WORDS, Distinct, Making
from hardmax.data.sentences.punctuation import KEEP, apart, apart_text, bare
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences

BLOCK = 2**23  # bytes
_LINE_ENDS = (b"\n", b"\r")
_SPACES = [chr(c).encode() for c in range(0x3001) if chr(c).isspace()]
_MARK = codecs.BOM_UTF8
_UNPACK: dict[str, Callable[[Path, str], Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
_INVISIBLE = re.compile("[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
# Spaces that look like one or like none; they separate tokens too, which is noted.
_ODD_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
LONGEST_WORD = 2**20  # characters
LONG_WORD = f"words must have at most {LONGEST_WORD:,} characters, got a longer one"


def count_odd_spaces(text: str) -> int:
    """Count the white space that looks like a space or like nothing."""
    return len(_ODD_SPACES.findall(text))


@dataclass(frozen=True)
class FileBlock:
    """Bytes of a file from the beginning of a line, or of a word in it if the line before ``goes_on``.

    ``lines`` and ``place`` count lines and bytes of the file in front of it; ``name`` is that of the file,
    and ``punctuation`` decides about marks at the ends of words.
    """

    content: bytes
    name: str = ""
    lines: int = 0
    place: int = 0
    goes_on: bool = False
    marked: bool = False
    punctuation: str = KEEP

    def text(self) -> str:
        """Return the decoded content; a ValueError names the line of a byte that is not UTF-8."""
        if not self.place and self.content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("the file must be in UTF-8, got UTF-16; save it as UTF-8")
        zero = self.content.find(b"\0")
        try:
            text = self.content[: zero if zero >= 0 else None].decode()
        except UnicodeDecodeError as error:
            start = error.start
            line = self.lines + line_ends(self.content[:start]) + 1
            raise ValueError(
                f"line {line} must be in UTF-8, got byte 0x{self.content[start]:02x} "
                f"(byte {self.place + start} of all); save it as UTF-8"
            ) from None
        if zero >= 0:
            raise ValueError("the file must be text, got zero bytes; is it a text file in UTF-8?")
        return text


class ListedText(NamedTuple):
    """The sentences of a JSON file, its unusual spaces, and whether it began with a byte order mark."""

    sentences: Sentences
    odd: int
    marked: bool


def line_ends(content: bytes) -> int:
    r"""Count the lines that end in some bytes, by \n, \r or both together."""
    returns = content.count(b"\r")
    return content.count(b"\n") + (returns - content.count(b"\r\n") if returns else 0)


def blocks(
    pieces: Iterable[bytes],
    name: str = "text",
    largest: int | None = None,
    *,
    marked: bool = False,
    punctuation: str = KEEP,
) -> Iterator[FileBlock]:
    """Yield the lines of a file in blocks about as large as its pieces; cut a longer line between words.

    ``largest`` is the most that is read. A byte order mark in front of the pieces is an empty block.
    """
    lines = place = 0
    rest, goes_on, returned = b"", False, False
    if marked:
        place = len(_MARK)
        yield FileBlock(b"", name, 0, place, marked=True)
    for piece in chain(pieces, [b""]):
        ended = not piece
        buffer = rest + piece
        start = 0
        for stop, more in _cuts(buffer, goes_on, ended):
            content = buffer[start:stop]
            if returned and content.startswith(b"\n"):  # one line end, cut in two
                lines -= 1
            returned = content.endswith(b"\r")
            yield FileBlock(content, name, lines, place, more, punctuation=punctuation)
            lines += line_ends(content)
            place += len(content)
            start, goes_on = stop, more
            if largest is not None and place > largest:
                most = reading.size_of(largest)
                raise ValueError(f"text must be at most {most} once unpacked, got more; split it")
        if ended and goes_on:  # the file ends with the space behind a word
            yield FileBlock(b"", name, lines, place)
        rest = buffer[start:]
        if len(rest) > 4 * LONGEST_WORD + BLOCK:
            raise ValueError(LONG_WORD)


def _cuts(buffer: bytes, goes_on: bool, ended: bool) -> Iterator[tuple[int, bool]]:
    """Yield where to cut a buffer, and whether its line continues after the cut."""
    start = 0
    if goes_on and (end := re.search(b"[\n\r]", buffer)):
        start = end.end()
        yield start, False
    last = 1 + max(buffer.rfind(end) for end in _LINE_ENDS)
    if ended:
        last = len(buffer)
    if last > start:
        yield last, False
    elif not start and not last:
        cut = max((at + len(space) for space in _SPACES if (at := buffer.rfind(space)) >= 0), default=0)
        if cut:
            yield cut, True


def count(block: FileBlock, max_length: int) -> Distinct:
    """Read the sentences of a block, each as often as it occurs; an error names the file."""
    try:
        return _count(block, max_length)
    except ValueError as error:
        raise ValueError(f"{block.name}: {error}") from None


def _count(block: FileBlock, max_length: int) -> Distinct:
    content, text = block.content, block.text()
    if block.punctuation != KEEP:
        content = apart_text(text, block.punctuation).encode()
    data = np.frombuffer(content, dtype=np.uint8)
    words = 2**15
    lines = sum(content.count(end) for end in _LINE_ENDS) + 1
    starts = np.empty(min(lines, len(content) // 2 + 1) + 1, dtype=np.uint32)  # each has a letter and an end
    rows = np.empty(len(content) // 2 + 2, dtype=np.int64)
    while True:
        letters, at = np.empty(len(content), dtype=np.uint8), np.empty(words + 1, dtype=np.int64)
        slots = np.zeros(4 * words, np.int64)
        status, V, n, cut, cut_tokens, odd = counting.count_block(
            data, counting.KINDS, max_length, LONGEST_WORD, slots, letters, at, rows, starts
        )
        if status == counting.LONG_WORD:
            raise ValueError(LONG_WORD)
        if status == counting.MANY_WORDS and words > LARGEST_VOCABULARY:
            raise ValueError(MANY_WORDS)
        if status == counting.FINE:
            break
        words *= 4  # begin again with more room
    vocabulary, ends = letters[: at[V]].tobytes(), at[: V + 1].tolist()
    encoded = tuple(vocabulary[low:high] for low, high in pairwise(ends))
    counts, firsts = np.ones(n, dtype=np.uint32), np.arange(n, dtype=np.uint32)
    totals = n, max_length, cut, cut_tokens, odd, int(block.marked)
    return Distinct(encoded, rows[: starts[n]], starts[: n + 1], counts, firsts, *totals)


def _joined(line: Distinct, more: Distinct, max_length: int) -> Distinct:
    """Return a line and its continuation as one sentence."""
    words = [text.encoded[x] for text in (line, more) if text.n for x in text.tokens(0)]
    whole = b" ".join(words[:max_length])
    excess = line.cut_tokens + more.cut_tokens + len(words) - min(len(words), max_length)
    return replace(
        count(FileBlock(whole), max_length),
        cut=int(excess > 0),
        cut_tokens=excess,
        odd=line.odd + more.odd,
        marked=line.marked + more.marked,
    )


def gather_distinct(
    texts: Iterable[FileBlock | Distinct],
    max_length: int,
    *,
    workers: int | None = None,
    tell: Callable[[int], object] = lambda size: None,
    enough: Callable[[], bool] = lambda: False,
) -> Making:
    """Join the sentences of blocks, which come in the order of the text.

    A text may also come as its distinct sentences. ``tell`` is called with the size of each finished
    block; if ``enough`` returns True, the rest is left out.
    """
    workers = workers or cores()

    def counted(text: FileBlock | Distinct) -> tuple[FileBlock | None, Distinct]:
        return (None, text) if isinstance(text, Distinct) else (text, count(text, max_length))

    making = Making(max_length)
    line: Distinct | None = None
    with ThreadPoolExecutor(workers, thread_name_prefix="hardmax-text") as threads:
        for block, sentences in in_order(lambda text: threads.submit(counted, text), texts, workers + 1):
            if line is not None:
                sentences = _joined(line, sentences, max_length)
            line = sentences if block is not None and block.goes_on else None
            if line is None:
                making.add(sentences)
            tell(0 if block is None else len(block.content))
            if enough():
                break
    return making


def read_distinct(
    paths: Sequence[str | PathLike[str]],
    max_length: int,
    *,
    size: int = BLOCK,
    punctuation: str = KEEP,
    workers: int | None = None,
    tell: Callable[[int], object] = lambda size: None,
    enough: Callable[[], bool] = lambda: False,
) -> Distinct:
    """Read the distinct sentences of files as one text; see `read_sentences` for the formats.

    Args:
        paths: the files.
        max_length: longer sentences are cut.
        size: of a block in bytes, which changes nothing but the time.
        punctuation: keep marks at the ends of words, split them off as tokens, or strip them.
        workers: threads, one for each core by default.
        tell: called with the number of bytes of each finished block.
        enough: whether to leave out what follows.
    """
    texts = (text for path in paths for text in texts_of(Path(path), max_length, size, punctuation))
    making = gather_distinct(texts, max_length, workers=workers, tell=tell, enough=enough)
    return finished(making, paths)


def finished(making: Making, paths: Sequence[str | PathLike[str]]) -> Distinct:
    """Return all distinct sentences with notes; an error names the files."""
    if not making.n:
        names = ", ".join(map(str, paths))
        raise ValueError(f"{names}: sentences must hold at least one sentence with a token in it, got none")
    text = making.distinct()
    single = int(text.counts[text.lengths == 1].sum())
    return replace(text, notes=notes_of(text, text.marked, text.odd, single))


def texts_of(
    path: Path, max_length: int, size: int = BLOCK, punctuation: str = KEEP
) -> Iterator[FileBlock | Distinct]:
    """Yield the blocks of a file, or its distinct sentences if it is JSON; an error names the file."""
    try:
        for text in file_texts(path, max_length, size, punctuation):
            if isinstance(text, ListedText):
                yield replace(Distinct.of(text.sentences), odd=text.odd, marked=int(text.marked))
            else:
                yield text
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def file_texts(
    path: Path, max_length: int | None, size: int, punctuation: str = KEEP, largest: int | None = None
) -> Iterator[FileBlock | ListedText]:
    """Read a file in blocks, or the lists of a JSON file at once; it is opened once, so it may be a pipe."""
    is_packed_file = is_packed(path)
    is_json = (Path(path.stem) if is_packed_file else path).suffix == ".json"
    with _UNPACK.get(path.suffix, open)(path, "rb") as stream:
        pieces = _undamaged(iter(partial(stream.read, size), b""))
        start, has_bracket = bytearray(), is_json
        for piece in pieces:
            start += piece
            (letter,) = re.findall(rb"^(?:\xef\xbb\xbf)?\s*(\S?)", start)
            has_bracket = has_bracket or letter == b"["
            if len(start) > reading.LARGEST_JSON or not (
                has_bracket or not letter or _MARK.startswith(start)
            ):
                break
        read, marked = bytes(start), start.startswith(_MARK)
        lists = _lists(read, is_json) if has_bracket else None
        if lists is not None:
            if punctuation != KEEP:
                lists = [apart(map(str, words), punctuation) for words in lists]
            sentences = Sentences.from_lists(lists, max_length=max_length)
            odd = count_odd_spaces(read.decode())
            yield ListedText(sentences, odd, marked)
            return
        if is_packed_file:
            largest = reading.LARGEST_TEXT
        first = (read[at : at + size] for at in range(len(_MARK) * marked, len(read), size))
        yield from blocks(chain(first, pieces), str(path), largest, marked=marked, punctuation=punctuation)


def _lists(content: bytes, is_json: bool) -> list[Any] | None:
    """Return the lists of a JSON file; None for a text that only begins with a bracket."""
    if len(content) > reading.LARGEST_JSON:
        if not is_json and re.match(rb"(?:\xef\xbb\xbf)?\s*\[\s*\[", content) is None:
            return None
        largest = reading.size_of(reading.LARGEST_JSON)
        raise ValueError(
            f"the JSON must be at most {largest}, got more; write it as text, one sentence a line"
        )
    try:
        data = reading.parse_json(FileBlock(content).text().removeprefix("\ufeff"))
    except reading.NotJson as error:
        if not is_json:
            return None
        raise ValueError(f"not valid JSON: {error}; write a list of lists of words or ids") from None
    if not isinstance(data, list) or not all(isinstance(sentence, list) for sentence in data):
        if not is_json:
            return None
        raise ValueError("the JSON must be a list of lists of words or ids, got another shape")
    for word in (word for sentence in data for word in sentence if isinstance(word, str)):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"words must be Unicode characters, got {word!a:.60}")
    return data


def is_packed(path: Path) -> bool:
    """Return whether a file has to be unpacked, by its name."""
    return path.suffix in _UNPACK


def _undamaged(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a file; an unpacker's error about damage becomes a ValueError."""
    try:
        yield from pieces
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not an unpacker's
            raise
        raise ValueError(f"cannot decompress the file: {error}; copy it again") from None


def notes_of(text: Sentences | Distinct, marked: int, odd: int, single: int) -> tuple[str, ...]:
    """Return notes about a text that was read.

    They name byte order marks, unusual spaces, sentences of one token, truncation, and words that look equal.
    """
    notes = ["a byte order mark at the start was left out"] if marked else []
    if odd:
        notes.append(f"{odd:,} unusual spaces, such as non-breaking ones, separate tokens like other spaces")
    if text.cut:
        notes.append(
            f"{text.cut:,} of {text.n:,} sentences were cut after {text.max_length} tokens, "
            f"{text.cut_tokens:,} tokens were left out; a larger max_length keeps more"
        )
    if single:
        notes.append(f"{single:,} sentences of one token have no next token and give no sample")
    return tuple(notes + _about_words(text.vocabulary))


def _about_words(vocabulary: tuple[str, ...]) -> list[str]:
    """Return notes about words that look the same and are not."""
    looks: dict[str, str] = {}
    twins, marked, unseen = [], [], 0
    words = set(vocabulary)
    for word in vocabulary:
        look = word if word.isascii() else unicodedata.normalize("NFC", _INVISIBLE.sub("", word))
        unseen += not look
        same = looks.setdefault(look, word)
        if look and same != word:
            twins.append((same, word))
        if not word[0].isalnum() or not word[-1].isalnum():
            core = bare(word)
            if core != word and core in words:
                marked.append((core, word))
    notes = [
        f"words that differ from others only in punctuation marks at their ends: {len(marked):,}, "
        f"such as {shown(second)} and {shown(first)}; punctuation split or strip joins them"
        for first, second in marked[:1]
    ]
    notes += [
        f"{len(twins):,} words look like others but differ in invisible characters or in Unicode's "
        f"normal form, such as {first!a} and {second!a}; they are different tokens"
        for first, second in twins[:1]
    ]
    if unseen:
        notes.append(f"{unseen:,} words are made of invisible characters only; they are tokens like others")
    return notes


PART = 2**25  # bytes of a file
WHOLE = -1  # the end of a part that is all of a file, however long
HERE = -2  # the same of a pipe, which has one reader and no second time: the process that asks
TASK = "hardmax.data.sentences.streaming:count_part"


def parts_of(
    paths: Sequence[str | PathLike[str]], max_length: int, size: int = PART, punctuation: str = KEEP
) -> Iterator[dict[str, Any]]:
    """Yield the parts of files in the order of the text: whole lines of plain text, other files whole.

    A worker finds the ``file`` from any folder; ``name`` is what the user calls it.
    """
    for path in map(Path, paths):
        is_file = S_ISREG(os.stat(path).st_mode)
        spans = [(0, WHOLE if is_file else HERE)]
        if is_file and not is_packed(path) and path.suffix != ".json":
            with path.open("rb") as stream:
                # file_texts decides by the first letter whether it may be JSON
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
                "punctuation": punctuation,
            }


def _line_start(stream: IO[bytes], at: int) -> int:
    """Return the first beginning of a line at or after a byte."""
    if at == 0:
        return 0
    at = stream.seek(at - 1)
    while piece := stream.read(reading.PIECE):
        if end := re.search(b"[\n\r]", piece):
            return at + end.end()
        at += len(piece)
    return at


def _span(stream: IO[bytes], start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes of a file from start to stop, in pieces."""
    stream.seek(start)
    while start < stop and (piece := stream.read(min(BLOCK, stop - start))):
        start += len(piece)
        yield piece


def count_part(parameters: Mapping[str, Any], seed: int = 0) -> dict[str, str]:
    """Do the work of a worker: return the distinct sentences of a part as text, nothing for a pipe."""
    path, start, stop = Path(parameters["file"]), parameters["start"], parameters["stop"]
    max_length, punctuation = parameters["max_length"], parameters["punctuation"]
    if stop == HERE:
        return {"part": ""}
    if stop == WHOLE:
        text = gather_distinct(
            texts_of(path, max_length, BLOCK, punctuation), max_length, workers=1
        ).distinct()
    else:
        with path.open("rb") as stream:
            marked = start == 0 and stream.read(len(_MARK)) == _MARK
            pieces = _span(stream, len(_MARK) if marked else start, stop)
            texts = blocks(pieces, str(path), marked=marked, punctuation=punctuation)
            text = gather_distinct(texts, max_length, workers=1).distinct()
    return {"part": base64.b64encode(pickle.dumps(text)).decode()}


def unpacked(packed: str) -> Distinct:
    """Read the distinct sentences that a worker sent, whose messages are pickles anyway."""
    text: Distinct = pickle.loads(base64.b64decode(packed))
    return text
