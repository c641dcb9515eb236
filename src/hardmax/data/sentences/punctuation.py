"""Punctuation marks at the ends of words: kept, as separate tokens, or left out."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

KEEP, SPLIT, STRIP = "keep", "split", "strip"
PUNCTUATION = (KEEP, SPLIT, STRIP)


def checked(punctuation: str) -> str:
    """Return the setting, or raise a ValueError that lists the settings there are."""
    from hardmax._lib.expect import one_of

    return one_of("punctuation", punctuation, PUNCTUATION)


def is_mark(letter: str) -> bool:
    """Return whether a character is a punctuation mark by Unicode's categories."""
    return unicodedata.category(letter).startswith("P")


def bare(word: str) -> str:
    """Return a word without the marks at its ends."""
    low, high = 0, len(word)
    while low < high and is_mark(word[low]):
        low += 1
    while low < high and is_mark(word[high - 1]):
        high -= 1
    return word[low:high]


def apart(words: Iterable[str], punctuation: str) -> list[str]:
    """Keep the marks at the ends of words, make them separate tokens, or leave them out.

    >>> from hardmax.data.sentences.punctuation import apart
    >>> apart(["(She", "sings.)"], "split"), apart(["Don't,", "--", "stop!"], "strip")
    (['(', 'She', 'sings', '.', ')'], ["Don't", 'stop'])
    """
    if punctuation == KEEP:
        return list(words)
    tokens: list[str] = []
    for word in words:
        core = bare(word)
        low = word.index(core) if core else len(word)
        if punctuation == SPLIT:
            tokens += word[:low]
        if core:
            tokens.append(core)
        if punctuation == SPLIT:
            tokens += word[low + len(core) :]
    return tokens


def apart_text(text: str, punctuation: str) -> str:
    r"""Treat the marks at the ends of words like `apart`, in a text that begins and ends between words.

    >>> from hardmax.data.sentences.punctuation import apart_text
    >>> apart_text("She sings.\n(Well-known)", "strip")
    'She sings\nWell-known'
    """
    if punctuation == KEEP:
        return text
    if punctuation == STRIP:
        return _at_ends().sub("", text)
    return _at_ends().sub(lambda match: f" {' '.join(match.group())} ", text)


@cache
def _at_ends() -> re.Pattern[str]:
    """Runs of marks at the beginning or at the end of a word; each run is looked at once."""
    marks = [c for c in range(sys.maxunicode + 1) if is_mark(chr(c))]
    breaks = [k for k, (a, b) in enumerate(pairwise(marks), start=1) if b > a + 1]
    runs = [(marks[low], marks[high - 1]) for low, high in pairwise([0, *breaks, len(marks)])]
    some = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)
    return re.compile(rf"(?<!\S)[{some}]++|(?<![{some}])[{some}]++(?!\S)")
