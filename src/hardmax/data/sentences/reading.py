"""Text files to sentences and back: one sentence per line, tokens between white space, or JSON lists."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from stat import S_ISCHR, S_ISDIR, S_ISFIFO, S_ISREG

import numpy as np

from hardmax._lib import reading
from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import whole
from hardmax._lib.files import whole_text
from hardmax.data.sentences.distinct import MANY_WORDS
from hardmax.data.sentences.punctuation import KEEP, apart, checked
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences
from hardmax.data.sentences.streaming import (
    LONG_WORD,
    LONGEST_WORD,
    FileBlock,
    count_odd_spaces,
    file_texts,
    is_packed,
    notes_of,
)

MOST_TOKENS = 40_000_000  # of one file, eight bytes each; the trie of their prefixes takes ten times that


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
    number: dict[str, int] = {}
    tokens, ends = array("q"), array("q", [0])
    excess = cut = cut_tokens = odd = marked = 0
    try:
        for text in file_texts(path, max_length, reading.PIECE, punctuation, reading.LARGEST_TEXT):
            if not isinstance(text, FileBlock):
                sentences, odd, marked = text
                break
            content = text.text()
            odd, marked = odd + count_odd_spaces(content), marked + text.marked
            for words, ended in _lines(text, content):
                room = len(words) if max_length is None else max_length - (len(tokens) - ends[-1])
                excess += max(len(words) - room, 0)
                tokens.extend([number.setdefault(word, len(number)) for word in words[:room]])
                if ended and len(tokens) > ends[-1]:
                    ends.append(len(tokens))
                    cut, cut_tokens = cut + (excess > 0), cut_tokens + excess
                excess = 0 if ended else excess
            if len(tokens) > MOST_TOKENS:
                raise ValueError(
                    f"the sentences must have at most {MOST_TOKENS:,} tokens, got more; choose a smaller "
                    "`max_length`, or split the file"
                )
            if len(number) > LARGEST_VOCABULARY:
                raise ValueError(MANY_WORDS)
        else:
            if len(ends) == 1:
                raise ValueError("sentences must hold at least one sentence with a token in it, got none")
            flat, offsets = (np.array(numbers, dtype=np.int64) for numbers in (tokens, ends))
            sentences = Sentences(flat, offsets, tuple(number), max_length, cut, cut_tokens)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    single = int((sentences.offsets[1:] - sentences.offsets[:-1] == 1).sum())
    return replace(sentences, notes=notes_of(sentences, marked, odd, single))


def _lines(block: FileBlock, content: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each line of a block with this content, and whether the line ends in it."""
    lines = content.replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(line) > LONGEST_WORD and max(map(len, words), default=0) > LONGEST_WORD:
            raise ValueError(LONG_WORD)
        if block.punctuation != KEEP:
            words = apart(words, block.punctuation)
        yield words, number < len(lines) or not block.goes_on


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


def raw_sentences(path: str | PathLike[str], max_length: int, punctuation: str = KEEP) -> Iterator[list[str]]:
    """Yield the words of one raw sentence after the other, at most `max_length` of each."""
    sentence: list[str] = []
    for text in file_texts(Path(path), max_length, reading.PIECE, punctuation):
        if not isinstance(text, FileBlock):
            yield from map(text.sentences.words, range(text.sentences.n))
            return
        for words, ended in _lines(text, text.text()):
            sentence += words[: max_length - len(sentence)]
            if ended:
                if sentence:
                    yield sentence
                sentence = []


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
    if is_packed(path):
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
