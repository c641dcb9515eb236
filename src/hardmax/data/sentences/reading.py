"""Text files to sentences and back: one sentence per line, tokens between white space, or JSON lists."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import re
import unicodedata
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from stat import S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG
from typing import Any

import numpy as np

from hardmax._lib import reading
from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import whole
from hardmax._lib.files import whole_text
from hardmax._lib.terminal import shown
from hardmax.data.sentences.distinct import MANY_WORDS, Distinct
from hardmax.data.sentences.punctuation import KEEP, apart, bare, checked
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences

_UNPACK: dict[str, Callable[[Path, str], Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
_INVISIBLE = re.compile("[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


@check_arguments
def read_sentences(
    path: str | PathLike[str], *, max_length: int | None = None, punctuation: str = KEEP
) -> Sentences:
    r"""Read raw sentences: a text file with one per line, or a JSON list of lists of words or ids.

    A file packed with xz, gzip or bzip2 is unpacked. The text must be UTF-8. Words stay as they are
    written: those that differ only in an invisible character or in Unicode's normal form are different
    tokens, and ``notes`` says so. With `max_length`, longer sentences are cut, and ``notes`` says that too.
    `punctuation` decides about marks at the ends of words: "keep" them, "split" them off as tokens of their
    own, or "strip" them; marks inside a word stay.
    A text is read in pieces and may have a gibibyte once unpacked, JSON 64 MiB; no more is ever held.

    >>> import tempfile, pathlib
    >>> from hardmax.nexttoken import read_sentences
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "two.txt")
    ...     _ = file.write_text("the cat sat\nthe dog\n")
    ...     read_sentences(file).words(1)
    ['the', 'dog']
    """
    path = Path(path)
    if max_length is not None:
        whole("max_length", max_length, least=2)
    checked(punctuation)
    with opened(path) as stream:
        text = Decoded(undamaged(reading.pieces(stream, reading.LARGEST_TEXT)))
        try:
            listed, start = as_lists(text, path)
            if listed is not None:
                sentences = Sentences.from_lists(apart_lists(listed, punctuation), max_length=max_length)
            else:
                sentences = gather(chain(start, text), max_length, punctuation)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    single = int((sentences.offsets[1:] - sentences.offsets[:-1] == 1).sum())
    return replace(sentences, notes=notes_of(sentences, text.marked, text.odd, single))


def look_at(paths: Iterable[str | PathLike[str]]) -> None:
    """Raise what opening one of these files would, while nothing has been read yet."""
    for path in paths:
        mode = os.stat(path).st_mode
        if not S_ISFIFO(mode) and not S_ISCHR(mode):  # whoever opens a pipe has to read it
            with open(path, "rb"):
                pass


def refuse_pipes(paths: Iterable[str | PathLike[str]]) -> None:
    """Refuse what can be read only once, where it would be read a second time."""
    for path in paths:
        mode = os.stat(path).st_mode
        if not S_ISREG(mode) and not S_ISDIR(mode):
            raise ValueError(
                f"{path} must be a file on disk, because saving the realizable part reads it a second time, "
                "got a pipe or a device; write it to a file and check that"
            )


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


def apart_lists(lists: list[Any], punctuation: str) -> list[Any]:
    """Apply `apart` to the lists of a JSON file."""
    if punctuation == KEEP:
        return lists
    return [apart(map(str, words), punctuation) for words in lists]


def raw_sentences(path: str | PathLike[str], max_length: int, punctuation: str = KEEP) -> Iterator[list[str]]:
    """Yield the words of one raw sentence after the other, at most `max_length` of each."""
    path = Path(path)
    with opened(path) as stream:
        text = Decoded(undamaged(reading.pieces(stream, 2**63)))
        listed, start = as_lists(text, path)
        if listed is not None:
            lists = apart_lists(listed, punctuation)
            yield from ([str(word) for word in sentence[:max_length]] for sentence in lists if sentence)
            return
        words: list[str] = []
        for part, ended in line_parts(chain(start, text), punctuation):
            words += part[: max_length - len(words)]
            if ended:
                if words:
                    yield words
                words = []


@check_arguments
def write_sentences(path: str | PathLike[str], sentences: Sentences) -> None:
    """Write sentences so that `read_sentences` gives them back: as text, or as JSON if `path` ends in .json.

    >>> import tempfile, pathlib
    >>> from hardmax.nexttoken import named_sentences, read_sentences, write_sentences
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sentences(pathlib.Path(folder, "svop.txt"), named_sentences("C-EX-1"))
    ...     read_sentences(pathlib.Path(folder, "svop.txt")).words(0)
    ['S', 'V', 'O', 'P']
    """
    write_raw(path, (sentences.words(i) for i in range(sentences.n)))


def write_raw(path: str | PathLike[str], lists: Iterable[list[str]]) -> None:
    """Write sentences that come one after the other."""
    path = Path(path)
    if path.suffix in _UNPACK:
        raise ValueError(f"{path}: sentences are written unpacked; choose a name without {path.suffix}")
    with whole_text(path) as file:
        if path.suffix == ".json":
            between = "["
            for words in lists:
                file.write(between + json.dumps(words, ensure_ascii=False))
                between = ", "
            file.write("]\n")
            return
        for words in lists:
            line = " ".join(words)
            if line.split() != words:
                spaced = next(word for word in words if word.split() != [word])
                raise ValueError(
                    f"{path}: the word {spaced!r} holds white space; write to a name that ends in .json"
                )
            file.write(line + "\n")


def opened(path: Path) -> Any:
    """Open a file for reading in bytes; its name decides whether it is unpacked."""
    return _UNPACK.get(path.suffix, open)(path, "rb")


def is_packed(path: Path) -> bool:
    """Return whether a file has to be unpacked, by its name."""
    return path.suffix in _UNPACK


def undamaged(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a file; an unpacker's error about damage becomes a ValueError."""
    try:
        yield from pieces
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not an unpacker's
            raise
        raise ValueError(f"cannot decompress the file: {error}; copy it again") from None


def as_lists(text: Iterator[str], path: Path) -> tuple[list[Any] | None, list[str]]:
    """Return the lists of a JSON file, or None and the text read so far if the file is plain text."""
    is_json = (Path(path.stem) if is_packed(path) else path).suffix == ".json"
    parts: list[str] = []
    size, has_bracket = 0, is_json
    for piece in text:
        parts.append(piece)
        size += len(piece)
        has_bracket = has_bracket or piece.lstrip()[:1] == "["
        if not has_bracket and piece.strip():
            return None, parts
        if size > reading.LARGEST_JSON:
            break
    content = "".join(parts)
    if size > reading.LARGEST_JSON:
        if not is_json and re.match(r"\s*\[\s*\[", content) is None:
            return None, [content]
        largest = reading.size_of(reading.LARGEST_JSON)
        raise ValueError(
            f"the JSON must be at most {largest}, got more; write it as text, one sentence a line"
        )
    if not is_json and not has_bracket:
        return None, parts
    try:
        data = reading.parse_json(content)
    except reading.NotJson as error:
        if not is_json:
            return None, [content]
        raise ValueError(f"not valid JSON: {error}; write a list of lists of words or ids") from None
    if not isinstance(data, list) or not all(isinstance(sentence, list) for sentence in data):
        if not is_json:
            return None, [content]
        raise ValueError("the JSON must be a list of lists of words or ids, got another shape")
    for word in (word for sentence in data for word in sentence if isinstance(word, str)):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"words must be Unicode characters, got {word!a:.60}")
    return data, []


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


MOST_TOKENS = 40_000_000  # of one file, eight bytes each; the trie of their prefixes takes ten times that
LONGEST_WORD = 2**20  # characters
LONG_WORD = f"words must have at most {LONGEST_WORD:,} characters, got a longer one"

# Spaces that look like one or like none; they separate tokens too, which is noted.
_ODD_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


class Decoded(Iterator[str]):
    r"""Pieces of bytes as text with line ends \n, whatever system wrote them, without a byte order mark.

    ``marked`` is true if there was one, ``odd`` counts the unusual spaces so far.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._decoder = pieces, codecs.getincrementaldecoder("utf-8")()
        # \r is never inside a word, whatever system wrote the file
        self._line_ends = io.IncrementalNewlineDecoder(None, translate=True)
        self._bytes = self._lines = self.odd = 0
        self._returned = False  # the piece before ended with \r, which a \n may follow
        self._start, self.marked, self._ended = True, False, False

    def __next__(self) -> str:
        while not self._ended:
            content = next(self._pieces, b"")
            self._ended = not content
            text = self._line_ends.decode(self._text(content), final=self._ended)
            if text:
                return text
        raise StopIteration

    def _text(self, content: bytes) -> str:
        if self._start and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("the file must be in UTF-8, got UTF-16; save it as UTF-8")
        waiting = len(self._decoder.getstate()[0])
        if self._returned and content.startswith(b"\n"):
            self._lines -= 1
        try:
            text = self._decoder.decode(content, final=self._ended)
        except UnicodeDecodeError as error:
            byte, line = error.object[error.start], self._lines + line_ends(error.object[: error.start]) + 1
            place = self._bytes - waiting + error.start
            raise ValueError(
                f"line {line} must be in UTF-8, got byte 0x{byte:02x} (byte {place} of all); save it as UTF-8"
            ) from None
        self._bytes, self._lines = self._bytes + len(content), self._lines + line_ends(content)
        self._returned = content.endswith(b"\r")
        if "\0" in text:
            raise ValueError("the file must be text, got zero bytes; is it a text file in UTF-8?")
        if self._start and text:
            self._start, self.marked = False, text.startswith("\ufeff")
            text = text.removeprefix("\ufeff")
        self.odd += len(_ODD_SPACES.findall(text))
        return text


def line_ends(content: bytes) -> int:
    r"""Count the lines that end in some bytes, by \n, \r or both together."""
    returns = content.count(b"\r")
    return content.count(b"\n") + (returns - content.count(b"\r\n") if returns else 0)


def line_parts(pieces: Iterable[str], punctuation: str = KEEP) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of a text part by part, and whether a line ends after each; no line is held whole."""
    word = ""
    for piece in chain(pieces, ["\n"]):
        text = word + piece
        # a word may go on in the next piece
        word = "" if text[-1].isspace() else text.rsplit(None, 1)[-1]
        *lines, last = text[: len(text) - len(word)].split("\n")
        for line in (*lines, last, word):
            if len(line) > LONGEST_WORD and max(map(len, line.split()), default=0) > LONGEST_WORD:
                raise ValueError(LONG_WORD)
        yield from ((apart(line.split(), punctuation), True) for line in lines)
        yield apart(last.split(), punctuation), False


def gather(pieces: Iterable[str], max_length: int | None, punctuation: str = KEEP) -> Sentences:
    """Read the sentences of a text, one per line; count the tokens beyond the first `max_length` of each.

    Tokens are numbers of words in order of first appearance.
    """
    number: dict[str, int] = {}
    tokens, ends = array("q"), array("q", [0])
    excess = cut = cut_tokens = 0
    for words, ended in line_parts(pieces, punctuation):
        room = len(words) if max_length is None else max_length - (len(tokens) - ends[-1])
        excess += max(len(words) - room, 0)
        tokens.extend([number.setdefault(word, len(number)) for word in words[:room]])
        if not ended:
            if len(tokens) > MOST_TOKENS:
                raise ValueError(
                    f"the sentences must have at most {MOST_TOKENS:,} tokens, got more; choose a smaller "
                    "`max_length`, or split the file"
                )
            if len(number) > LARGEST_VOCABULARY:
                raise ValueError(MANY_WORDS)
            continue
        if len(tokens) > ends[-1]:
            ends.append(len(tokens))
            cut += excess > 0
            cut_tokens += excess
        excess = 0
    if len(ends) == 1:
        raise ValueError("sentences must hold at least one sentence with a token in it, got none")
    flat, offsets = (np.array(numbers, dtype=np.int64) for numbers in (tokens, ends))
    return Sentences(flat, offsets, tuple(number), max_length, cut, cut_tokens)
