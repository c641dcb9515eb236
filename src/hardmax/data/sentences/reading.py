"""Text files to sentences and back: one sentence per line, tokens between white space, or JSON lists."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from stat import S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG
from typing import IO, Any

from hardmax._lib import reading
from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import whole
from hardmax._lib.files import whole_text
from hardmax._lib.terminal import shown
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.gathering import Decoded, gather, line_parts
from hardmax.data.sentences.punctuation import KEEP, apart, bare, checked
from hardmax.data.sentences.sentences import Sentences

_UNPACK: dict[str, Callable[[Path], Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
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
            f"{text.cut_tokens:,} tokens were left out; a larger max_length (--max-length) keeps more"
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
    return _UNPACK.get(path.suffix, _open)(path)


def is_packed(path: Path) -> bool:
    """Return whether a file has to be unpacked, by its name."""
    return path.suffix in _UNPACK


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def undamaged(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a file; an unpacker's error about damage becomes a ValueError."""
    try:
        yield from pieces
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not an unpacker's
            raise
        raise ValueError(f"cannot decompress the file: {error}; copy it again") from None


def as_lists(text: Iterator[str], path: Path) -> tuple[list[Any] | None, list[str]]:
    """Return the lists of a JSON file, or None and what was read so far if the file is plain text."""
    packed = path.suffix in _UNPACK
    named = (Path(path.stem) if packed else path).suffix == ".json"
    read: list[str] = []
    size, bracket = 0, named
    for piece in text:
        read.append(piece)
        size += len(piece)
        bracket = bracket or piece.lstrip()[:1] == "["
        if not bracket and piece.strip():
            return None, read
        if size > reading.LARGEST_JSON:
            break
    content = "".join(read)
    if size > reading.LARGEST_JSON:
        if not named and re.match(r"\s*\[\s*\[", content) is None:
            return None, [content]
        largest = reading.size_of(reading.LARGEST_JSON)
        raise ValueError(
            f"the JSON must be at most {largest}, got more; write it as text, one sentence a line"
        )
    data = _parsed(content, named)
    return data, [] if data is not None else [content] if content else []


def _parsed(text: str, named: bool) -> list[Any] | None:
    if not text.lstrip().startswith("[") and not named:
        return None
    try:
        data = reading.parse_json(text)
    except reading.NotJson as error:
        if not named:
            return None
        raise ValueError(f"not valid JSON: {error}; write a list of lists of words or ids") from None
    if not isinstance(data, list) or not all(isinstance(sentence, list) for sentence in data):
        if not named:
            return None
        raise ValueError("the JSON must be a list of lists of words or ids, got another shape")
    for word in (word for sentence in data for word in sentence if isinstance(word, str)):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"words must be Unicode characters, got {word!a:.60}")
    return data


def _about_words(vocabulary: tuple[str, ...]) -> list[str]:
    """Words that look the same and are not."""
    looks: dict[str, str] = {}
    twins, unseen = [], 0
    words, marked = set(vocabulary), []
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
    notes = []
    if marked:
        first, second = marked[0]
        notes.append(
            f"words that differ from others only in punctuation marks at their ends: {len(marked):,}, "
            f"such as {shown(second)} and {shown(first)}; "
            "punctuation (--punctuation) split or strip joins them"
        )
    if twins:
        first, second = twins[0]
        notes.append(
            f"{len(twins):,} words look like others but differ in invisible characters or in Unicode's "
            f"normal form, such as {first!a} and {second!a}; they are different tokens"
        )
    if unseen:
        notes.append(f"{unseen:,} words are made of invisible characters only; they are tokens like others")
    return notes
