"""Words to tokens (A-DATA-6, steps 2 to 4): stop words, stems, and the pieces of each distinct word.

All three look at one word at a time, so it is enough to do them once for each distinct word. That holds for
WordPiece too: it first splits a text at white space and then goes word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib.extras import install
from hardmax.data.text.words import plain
from hardmax.data.text.workers import Workers

WORDS = "words"
BLOCK = 5000  # words stemmed at a time
Tokenizer = str | PathLike[str] | Callable[[str], Iterable[str]]


def missing(package: str, what: str, error: ImportError) -> ValueError:
    """A missing package as a message that says how to get it."""
    return ValueError(f"{what} needs {package} ({error}): {install('text')}")


def stop_words(stopwords: str | PathLike[str] | None) -> tuple[frozenset[str], list[str]]:
    """The words to leave out, scikit-learn's by default or those of a file, and what is odd about them."""
    if stopwords is None:
        try:
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
        except ImportError as error:
            raise missing("scikit-learn", "the list of stop words", error) from error
        return frozenset(ENGLISH_STOP_WORDS), []
    try:
        words = frozenset(Path(stopwords).read_text(encoding="utf-8-sig").lower().split())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"stopwords must be a file of words in UTF-8, got {stopwords} ({error})") from None
    vain = sorted(word for word in words if plain(word) != word)
    if not vain:
        return words, []
    return words, [
        f"{len(vain)} of {len(words)} stop words hold punctuation, such as {vain[0]!r}, and match nothing: "
        "punctuation is removed first; write them without it to leave them out"
    ]


def read_vocabulary(path: str | PathLike[str]) -> dict[str, int]:
    """A vocabulary of WordPiece: one piece a line, numbered from 0."""
    try:
        content = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"tokenizer must be 'words', a function, or a WordPiece vocabulary in UTF-8, got {path} ({error})"
        ) from None
    pieces = [line.rstrip("\r") for line in content.removesuffix("\n").split("\n")]
    if "[UNK]" not in pieces:
        raise ValueError(f"{path} is no WordPiece vocabulary: a line [UNK], for unknown words, is missing")
    return {piece: number for number, piece in enumerate(pieces)}


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The tokens of each distinct word, ``flat[starts[w] : starts[w] + sizes[w]]``; none for a stop word."""

    vocabulary: list[str]
    flat: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, pieces: Iterable[Iterable[str]]) -> TokenTable:
        """From the tokens of every word; tokens are numbered in order of first appearance."""
        number: dict[str, int] = {}
        numbers = [[number.setdefault(piece, len(number)) for piece in word] for word in pieces]
        sizes = np.array([len(word) for word in numbers], np.int64)
        flat = np.array([token for word in numbers for token in word], np.int64)
        return cls(list(number), flat, np.cumsum(sizes) - sizes, sizes)

    def spelled(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a list of words in order, and how many each word gave."""
        sizes = self.sizes[numbers]
        ends = np.cumsum(sizes)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        return self.flat[np.repeat(self.starts[numbers], sizes) + within], sizes


def stems(words: list[str], stopped: frozenset[str], stem: bool, workers: Workers) -> list[str]:
    """The stem of every word; empty for a stop word."""
    kept = [word for word in words if word not in stopped]
    if not stem:
        found = dict(zip(kept, kept, strict=True))
    else:
        try:
            import snowballstemmer  # noqa: F401  # the workers need it
        except ImportError as error:
            raise missing("snowballstemmer", "stemming", error) from error
        blocks = [kept[at : at + BLOCK] for at in range(0, len(kept), BLOCK)]
        stemmed = (each for block in workers.run("stem", blocks) for each in block)
        found = dict(zip(kept, stemmed, strict=True))
    return [found.get(word, "") for word in words]


def pieces_of(words: list[str], vocabulary: dict[str, int] | None) -> list[list[str]]:
    """The tokens of every word: its pieces in a vocabulary of WordPiece, or itself."""
    if vocabulary is None:
        return [[word] if word else [] for word in words]
    distinct = list(dict.fromkeys(words))
    encoded = _wordpiece(vocabulary).encode_batch(distinct, add_special_tokens=False)
    pieces = {word: each.tokens for word, each in zip(distinct, encoded, strict=True)}
    return [pieces[word] for word in words]


def _wordpiece(vocabulary: dict[str, int]) -> Any:
    try:
        from tokenizers import Tokenizer
        from tokenizers.models import WordPiece
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer
    except ImportError as error:
        raise missing("tokenizers", "a WordPiece vocabulary", error) from error
    made = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    return made
