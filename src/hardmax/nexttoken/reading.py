"""Text files to sentences and back: one sentence per line, tokens between white space, or JSON lists."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import re
import unicodedata
import zlib
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from hardmax._files import whole_text
from hardmax.nexttoken.sentences import MAX_LENGTH, Sentences

_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
}
# Spaces that look like one or like none: they separate tokens too, which deserves a word.
_ODD_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_INVISIBLE = re.compile("[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def read_sentences(path: str | PathLike[str], *, max_length: int = MAX_LENGTH) -> Sentences:
    """Read raw sentences: a text file with one per line, or a JSON list of lists of words or ids.

    A file packed with xz, gzip or bzip2 is unpacked. The text must be UTF-8. Words stay as they are
    written: those that differ only in an invisible character or in Unicode's normal form are different
    tokens, and ``notes`` says so.

    >>> import tempfile, pathlib
    >>> from hardmax.nexttoken import read_sentences
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "two.txt")
    ...     _ = file.write_text("the cat sat\\nthe dog\\n")
    ...     read_sentences(file).words(1)
    ['the', 'dog']
    """
    path = Path(path)
    text, notes = _decode(_unpack(path), path)
    listed = _listed(text, path)
    try:
        if listed is not None:
            sentences = Sentences.from_lists(listed, max_length=max_length)
        else:
            # \r is never inside a word, whatever system wrote the file
            sentences = Sentences.from_lists(re.split("\r\n|\n|\r", text), max_length=max_length)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if sentences.cut:
        notes.append(
            f"{sentences.cut:,} of {sentences.n:,} sentences were cut after {max_length} tokens, "
            f"{sentences.cut_tokens:,} tokens were left out; a larger max_length (--max-length) keeps more"
        )
    notes += _about_lengths(sentences) + _about_words(sentences.vocabulary)
    return replace(sentences, notes=tuple(notes))


def write_sentences(path: str | PathLike[str], sentences: Sentences) -> None:
    """Write sentences so that `read_sentences` gives them back: as text, or as JSON if `path` ends in .json.

    >>> import tempfile, pathlib
    >>> from hardmax.nexttoken import named, read_sentences, write_sentences
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sentences(pathlib.Path(folder, "svop.txt"), named("C-EX-1"))
    ...     read_sentences(pathlib.Path(folder, "svop.txt")).words(0)
    ['S', 'V', 'O', 'P']
    """
    path = Path(path)
    if path.suffix in _UNPACK:
        raise ValueError(f"{path}: sentences are written unpacked; choose a name without {path.suffix}")
    lists = (sentences.words(i) for i in range(sentences.n))
    if path.suffix == ".json":
        with whole_text(path) as file:
            file.write(json.dumps(list(lists), ensure_ascii=False) + "\n")
        return
    spaced = next(
        (word for word in sentences.vocabulary if len(word.split()) != 1 or word != word.strip()), None
    )
    if spaced is not None:
        raise ValueError(f"{path}: the word {spaced!r} holds white space; write to a name that ends in .json")
    with whole_text(path) as file:
        file.writelines(" ".join(words) + "\n" for words in lists)


def _unpack(path: Path) -> bytes:
    content = path.read_bytes()
    unpack = _UNPACK.get(path.suffix)
    if unpack is None:
        return content
    try:
        return unpack(content)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path}: expected a file packed as its name says, got damage: {error}") from None


def _decode(content: bytes, path: Path) -> tuple[str, list[str]]:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path}: expected UTF-8, got UTF-16; save the file as UTF-8")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: expected UTF-8, got byte 0x{content[error.start]:02x} in line {line} "
            f"(byte {error.start}); save the file as UTF-8"
        ) from None
    if "\0" in text:
        raise ValueError(f"{path}: expected text, got a file with zero bytes; is it a text file in UTF-8?")
    notes = []
    if text.startswith("\ufeff"):
        text = text[1:]
        notes.append("a byte order mark at the start was left out")
    odd = len(_ODD_SPACES.findall(text))
    if odd:
        notes.append(f"{odd:,} unusual spaces, such as non-breaking ones, separate tokens like other spaces")
    return text, notes


def _listed(text: str, path: Path) -> list[Any] | None:
    """The lists of a JSON file; None if the file is plain text."""
    packed = path.suffix in _UNPACK
    named = (Path(path.stem) if packed else path).suffix == ".json"
    if not named and not text.lstrip().startswith("["):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not named:
            return None
        raise ValueError(f"{path}: expected JSON, a list of lists of words or ids: {error}") from None
    if not isinstance(data, list) or not all(isinstance(each, list) for each in data):
        if not named:
            return None
        raise ValueError(f"{path}: expected a JSON list of lists of words or ids, got another shape")
    for word in (word for each in data for word in each if isinstance(word, str)):
        if not word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"{path}: expected words of Unicode characters, got {word!a}")
    return data


def _about_lengths(sentences: Sentences) -> list[str]:
    single = int((sentences.offsets[1:] - sentences.offsets[:-1] == 1).sum())
    if not single:
        return []
    return [f"{single:,} sentences of one token have no next token and give no sample"]


def _about_words(vocabulary: tuple[str, ...]) -> list[str]:
    """Words that look the same and are not."""
    looks: dict[str, str] = {}
    twins, unseen = [], 0
    for word in vocabulary:
        look = word if word.isascii() else unicodedata.normalize("NFC", _INVISIBLE.sub("", word))
        unseen += not look
        same = looks.setdefault(look, word)
        if look and same != word:
            twins.append((same, word))
    notes = []
    if twins:
        first, second = twins[0]
        notes.append(
            f"{len(twins):,} words look like others but differ in invisible characters or in Unicode's "
            f"normal form, such as {first!a} and {second!a}; they are different tokens"
        )
    if unseen:
        notes.append(f"{unseen:,} words are made of invisible characters only; they are tokens like others")
    return notes
