"""Texts to words (A-DATA-6, steps 1 and 3): what is done to every character, and to every distinct word.

Workers run this file as a program, see `gathering.TextWorkers`. It therefore imports nothing else of the
package, which would take longer to load than the work of a worker takes.
"""

from __future__ import annotations

import html
import pickle
import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from hardmax._lib.pool import serve

# A tag begins with a letter, so that "<3" and "2 < 3 > 1" are none.
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


# Distinct words in order of first appearance; for every text in turn, the places of its words among them; and
# how many words each text has.
Split = tuple[list[str], "array[int]", "array[int]"]


def split_words(texts: list[str]) -> Split:
    """Strip HTML, lower-case, remove punctuation, and split at white space."""
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    numbers, sizes = array("i"), array("i")
    for text in texts:
        words = plain(text).split()
        numbers.extend(map(number.__getitem__, words))
        sizes.append(len(words))
    return list(number), numbers, sizes


def plain(text: str) -> str:
    """Remove HTML, capitals, punctuation and invisible characters from a text."""
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    text = text.lower().translate(_KEPT)
    # Composed, the two ways to write an accented letter are one word.
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class _Kept(dict[int, int | None]):
    """A table of what replaces each character, itself or nothing; it is filled on first use."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if _is_removed(chr(code)) else code
        return self[code]


def _is_removed(letter: str) -> bool:
    """Punctuation, symbols, and what cannot be seen; never white space, which separates words."""
    if letter.isspace():
        return False
    # Marks belong to their letter, but for those that only choose a picture or draw a ring around it.
    kind = unicodedata.category(letter)
    return kind[0] in "PSC" or kind == "Me" or unicodedata.name(letter, "").startswith("VARIATION SELECTOR")


_KEPT = _Kept()


def stem_words(words: list[str]) -> list[str]:
    """Return Porter's stem of each word."""
    import snowballstemmer

    # One for each call: it keeps the word it works on, and two threads would mix theirs.
    return snowballstemmer.stemmer("porter").stemWords(words)


TASKS: dict[str, Callable[[list[str]], Any]] = {"split": split_words, "stem": stem_words}


def _answer(message: bytes) -> bytes:
    task, block = pickle.loads(message)
    return pickle.dumps(TASKS[task](block))


if __name__ == "__main__":
    serve(_answer)
