"""Sentences from a text that is never held: it comes in pieces, and only the numbers of its words stay."""

from __future__ import annotations

import codecs
import io
import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from hardmax.data.sentences.punctuation import KEEP, apart
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences

MOST_TOKENS = (
    40_000_000  # kept of one file, eight bytes each; the trie of their prefixes takes ten times that
)
LONGEST_WORD = 2**20  # characters
LONG_WORD = f"words must have at most {LONGEST_WORD:,} characters, got a longer one"

# Spaces that look like one or like none: they separate tokens too, which deserves a word.
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
        _refuse_long([word])
        *lines, last = text[: len(text) - len(word)].split("\n")
        for line in lines:
            yield _words(line, punctuation), True
        yield _words(last, punctuation), False


def _words(line: str, punctuation: str) -> list[str]:
    words = line.split()
    if len(line) > LONGEST_WORD:
        _refuse_long(words)
    return apart(words, punctuation)


def _refuse_long(words: list[str]) -> None:
    if max(map(len, words), default=0) > LONGEST_WORD:
        raise ValueError(LONG_WORD)


def gather(pieces: Iterable[str], max_length: int | None, punctuation: str = KEEP) -> Sentences:
    """Read the sentences of a text, one per line; count the tokens beyond the first `max_length` of each.

    Tokens are numbers of words in order of first appearance.
    """
    number: dict[str, int] = {}
    tokens, ends = array("q"), array("q", [0])
    lost = cut = cut_tokens = 0
    for words, ended in line_parts(pieces, punctuation):
        room = len(words) if max_length is None else max_length - (len(tokens) - ends[-1])
        lost += max(len(words) - room, 0)
        tokens.extend([number.setdefault(word, len(number)) for word in words[:room]])
        if not ended:
            _refuse_many(len(tokens), len(number))
            continue
        if len(tokens) > ends[-1]:
            ends.append(len(tokens))
            cut += lost > 0
            cut_tokens += lost
        lost = 0
    if len(ends) == 1:
        raise ValueError("sentences must hold at least one sentence with a token in it, got none")
    flat, offsets = (np.array(numbers, dtype=np.int64) for numbers in (tokens, ends))
    return Sentences(flat, offsets, tuple(number), max_length, cut, cut_tokens)


def _refuse_many(tokens: int, words: int) -> None:
    if tokens > MOST_TOKENS:
        raise ValueError(
            f"the sentences must have at most {MOST_TOKENS:,} tokens, got more; choose a smaller "
            "`max_length`, or split the file"
        )
    if words > LARGEST_VOCABULARY:
        raise ValueError(
            f"the sentences must have at most {LARGEST_VOCABULARY:,} distinct tokens, got more; "
            "use less text or a coarser tokenization"
        )
