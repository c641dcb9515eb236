"""Words to tokens, and tokens to counts (A-DATA-6, steps 2 to 5): stop words, stems, pieces, cuts, purges.

All three look at one word at a time, so it is enough to do them once for each distinct word. That holds for
WordPiece too: it first splits a text at white space and then goes word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hardmax._lib.extras import install
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.text.gathering import Chunk
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


# A chunk of reviews as tokens: numbers of all tokens in order, and how many each review has.
Spelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Counted:
    """The corpus, and what the cut and the purge took away."""

    corpus: Corpus
    kept: np.ndarray  # (n,) positions of the corpus' reviews among those that were counted
    tokens: int
    cut: int
    purged: int
    distinct: int


def spell(chunks: Iterable[Chunk], numbers: Iterable[np.ndarray], table: TokenTable) -> Iterator[Spelled]:
    """The tokens of every chunk by the table of distinct words; ``numbers`` are its words in the table."""
    for chunk, words in zip(chunks, numbers, strict=True):
        tokens, sizes = table.spelled(words)
        ends = np.concatenate([[0], np.cumsum(sizes)])[np.cumsum(chunk.sizes)]
        yield tokens, np.diff(ends, prepend=0)


def spell_by(
    function: Callable[[str], Iterable[str]],
    chunks: Iterable[Chunk],
    numbers: Iterable[np.ndarray],
    stems: list[str],
    vocabulary: dict[str, int],
) -> Iterator[Spelled]:
    """The tokens that a user's function finds in each review, its stems with a space between them.

    ``vocabulary`` grows by the tokens that are new.
    """
    for chunk, words in zip(chunks, numbers, strict=True):
        tokens, sizes = [], []
        for part in np.split(words, np.cumsum(chunk.sizes)[:-1]):
            found = _listed(function(" ".join(stems[word] for word in part if stems[word])))
            tokens += [vocabulary.setdefault(token, len(vocabulary)) for token in found]
            sizes.append(len(found))
        yield np.array(tokens, np.int64), np.array(sizes, np.int64)


def _listed(tokens: Any) -> list[str]:
    """The answer of a user's function; a string would be taken for its letters, a dictionary for its keys."""
    if isinstance(tokens, Iterable) and not isinstance(tokens, (str, Mapping)):
        found = list(tokens)
        if all(isinstance(token, str) for token in found):
            return found
    raise ValueError(f"tokenizer must give the tokens of a text as a list of strings, got {tokens!r:.60}")


def count(
    spelled: Iterable[Spelled], labels: np.ndarray, vocabulary: Iterable[str], *, least: int, most: int | None
) -> Counted:
    """Count tokens, leaving out those after the first ``most`` of a review and then the rare ones.

    The cut comes first, as a part of tokenising: a model that takes so many tokens takes the first ones of
    the text, and a token is rare or not in what is left to learn from. ``vocabulary`` may grow while the
    tokens are read.
    """
    everything, cut, sizes, slots = 0, 0, [], []
    for tokens, lengths in spelled:
        everything += len(tokens)
        review = np.repeat(np.arange(len(lengths)), lengths)
        if most is not None:
            first = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths) < most
            tokens, review = tokens[first], review[first]
            cut += len(first) - len(tokens)
        width = int(tokens.max(initial=0)) + 1
        places, counts = np.unique(review * width + tokens, return_counts=True)
        sizes.append(np.bincount(places // width, minlength=len(lengths)))
        slots.append((places % width, counts))
    words = list(vocabulary)
    tokens, counts = (np.concatenate(each) for each in zip(*slots, strict=True))
    total = np.bincount(tokens, weights=counts, minlength=len(words)).astype(np.int64)
    if not total.any():
        raise ValueError(f"no token is left in {len(labels):,} reviews: their texts are blank, or stop words")
    common = total >= least
    if not common.any():
        raise ValueError(
            f"least: no token occurs at least {least} times among {int(total.sum()):,}, the most frequent "
            f"occurs {int(total.max(initial=0))} times; lower least or read more reviews"
        )
    kept_slots = common[tokens]
    review = np.repeat(np.arange(len(labels)), np.concatenate(sizes))[kept_slots]
    left, lengths = np.unique(review, return_counts=True)
    renumbered = (np.cumsum(common) - 1)[tokens[kept_slots]]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    S = int(common.sum())
    matrix = csr_array((counts[kept_slots], renumbered, offsets), shape=(len(left), S))
    names = [word for word, often in zip(words, common, strict=True) if often]
    return Counted(
        Corpus.from_counts(matrix, labels[left], names),
        left,
        everything,
        cut,
        int(total[~common].sum()),
        int((total > 0).sum()),
    )
