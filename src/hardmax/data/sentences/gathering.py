"""Sentences from a text that is never held: it comes in pieces, and only the numbers of its words stay."""

from __future__ import annotations

import codecs
import io
import re
from array import array
from collections.abc import Iterable, Iterator

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
    """Pieces of bytes as text with line ends \\n, whatever system wrote them, without a byte order mark.

    ``marked`` says whether there was one, ``odd`` counts the unusual spaces so far.
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
    """How many lines end in it, by \\n, \\r or both together."""
    returns = content.count(b"\r")
    return content.count(b"\n") + (returns - content.count(b"\r\n") if returns else 0)


def gather(pieces: Iterable[str], max_length: int | None, punctuation: str = KEEP) -> Sentences:
    """The sentences of a text, one per line; tokens behind the first `max_length` of each are counted."""
    made, word = _Making(max_length, punctuation), ""
    for piece in pieces:
        text = word + piece
        # a word may go on in the next piece
        word = "" if text[-1].isspace() else text.rsplit(None, 1)[-1]
        _refuse_long(len(word))
        first, *others = text[: len(text) - len(word)].split("\n")
        made.go_on(first)
        for line in others:
            made.end_line()
            made.go_on(line)
        made.refuse_many()
    made.go_on(word)
    made.end_line()
    return made.sentences()


def _refuse_long(length: int) -> None:
    if length > LONGEST_WORD:
        raise ValueError(LONG_WORD)


class _Making:
    """Sentences in the making: numbers of words in order of first appearance."""

    def __init__(self, max_length: int | None, punctuation: str) -> None:
        self.max_length, self.punctuation = max_length, punctuation
        self._number: dict[str, int] = {}
        self._tokens, self._ends = array("q"), array("q", [0])
        self._lost = self._cut = self._cut_tokens = 0

    def go_on(self, line: str) -> None:
        """More of the line that was begun."""
        words = line.split()
        if len(line) > LONGEST_WORD:
            _refuse_long(max(map(len, words), default=0))
        if self.punctuation != KEEP:
            words = apart(words, self.punctuation)
        if self.max_length is not None:
            room = self.max_length - (len(self._tokens) - self._ends[-1])
            if len(words) > room:
                self._lost += len(words) - room
                del words[room:]
        number = self._number
        self._tokens.extend([number.setdefault(word, len(number)) for word in words])

    def end_line(self) -> None:
        if len(self._tokens) > self._ends[-1]:
            self._ends.append(len(self._tokens))
            self._cut, self._cut_tokens = self._cut + (self._lost > 0), self._cut_tokens + self._lost
        self._lost = 0

    def refuse_many(self) -> None:
        if len(self._tokens) > MOST_TOKENS:
            raise ValueError(
                f"the sentences must have at most {MOST_TOKENS:,} tokens, got more; choose a smaller "
                "`max_length`, or split the file"
            )
        if len(self._number) > LARGEST_VOCABULARY:
            raise ValueError(
                f"the sentences must have at most {LARGEST_VOCABULARY:,} distinct tokens, got more; "
                "use less text or a coarser tokenization"
            )

    def sentences(self) -> Sentences:
        if len(self._ends) == 1:
            raise ValueError("sentences must hold at least one sentence with a token in it, got none")
        tokens, offsets = (np.array(each, dtype=np.int64) for each in (self._tokens, self._ends))
        return Sentences(tokens, offsets, tuple(self._number), self.max_length, self._cut, self._cut_tokens)
