"""NgramVectorizer: counts of words and n-grams as a sparse matrix, by compiled loops on all cores.

Level 1 is the words, known by their hashes; level n the n-grams, known by the numbers of the two (n-1)-grams
that they begin and end with, so that an n-gram can only be kept if both of these are. Numbers fall with the
documents that hold an n-gram, ties in order of appearance: what is used often is close together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hardmax._lib import expect
from hardmax._lib.parallel import cores
from hardmax.text.counting import kernels as compiled

DOCUMENTS = 2048  # that one thread takes at a time
MOST_GRAM = 8
PIECE = 1 << 22  # bytes of text that one thread takes at a time
MADE_AGAIN = ("_tables", "_names")  # attributes that are not pickled
_OTHER = re.compile(r"[^\x00-\x7f\w]+")  # signs of other alphabets are gaps, as those of ASCII are


@dataclass(frozen=True, eq=False)
class Tokens:
    """The hashes of all tokens, one document after the other, and how to spell those at some positions."""

    hashes: np.ndarray  # (N,) uint64
    offsets: np.ndarray  # (n + 1,) int64, of the documents
    spell: Callable[[np.ndarray], list[str]]

    @property
    def documents(self) -> np.ndarray:
        """The document of each token."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))


def mapped(function: Callable[..., Any], jobs: Iterable[Any], workers: int) -> list[Any]:
    """Apply a function to each job on some threads; return the results in order."""

    def quietly(job: Any) -> Any:
        with np.errstate(over="ignore"):  # hashes overflow on purpose; plain Python would warn
            return function(job)

    if workers == 1:
        return [quietly(job) for job in jobs]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(quietly, jobs))


def read_texts(texts: Sequence[str], workers: int) -> Tokens:
    """Split texts into lower-case words, with inner apostrophes, and each ! and ?; HTML tags are gaps."""
    coded = [_coded(text) for text in texts]
    sizes = np.fromiter(map(len, coded), np.int64, len(coded))
    pieces = (np.cumsum(sizes) - sizes) // PIECE
    bounds = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(coded)] if coded else [0]

    def split(bound: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bytes]:
        whole = b"".join(coded[bound[0] : bound[1]])
        ends = np.cumsum(sizes[bound[0] : bound[1]])
        hashes, starts = np.empty(len(whole), np.uint64), np.empty(len(whole), np.int32)
        stops, counts = np.empty(len(whole), np.int32), np.empty(len(ends), np.int64)
        text = np.frombuffer(whole, np.uint8)
        count = compiled.split(text, ends, compiled.KINDS, compiled.LOWER, hashes, starts, stops, counts)
        return hashes[:count].copy(), starts[:count].copy(), stops[:count].copy(), counts, whole

    done = mapped(split, list(pairwise(bounds)), workers)
    first = np.cumsum([0, *(len(part[0]) for part in done)])

    def spell(positions: np.ndarray) -> list[str]:
        words = [""] * len(positions)
        piece = np.searchsorted(first, positions, side="right") - 1
        for k, (_, starts, stops, _, whole) in enumerate(done):
            chosen = np.flatnonzero(piece == k)
            at = positions[chosen] - first[k]
            spans = zip(chosen.tolist(), starts[at].tolist(), stops[at].tolist(), strict=True)
            for where, start, stop in spans:
                words[where] = whole[start:stop].decode().lower()
        return words

    hashes = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in done)])
    counts = np.concatenate([np.zeros(1, np.int64), *(part[3] for part in done)])
    return Tokens(hashes, np.cumsum(counts), spell)


def read_lists(lists: Sequence[Sequence[str]]) -> Tokens:
    """Take tokens as they are given, including upper case."""
    number: dict[str, int] = {}
    flat = [number.setdefault(token, len(number)) for tokens in lists for token in tokens]
    words = list(number)
    coded = [word.encode("utf-8", "surrogatepass") for word in words]
    hashes = np.empty(len(words), np.uint64)
    ends = np.cumsum([0, *map(len, coded)])[1:]
    with np.errstate(over="ignore"):
        compiled.whole_hashes(np.frombuffer(b"".join(coded), np.uint8), ends, hashes)
    places = np.array(flat, np.intp)
    offsets = np.cumsum([0, *map(len, lists)])
    return Tokens(hashes[places], offsets, lambda positions: [words[k] for k in places[positions]])


def read_documents(X: Any, name: str = "X") -> list[Any]:
    """Check that all documents are texts, or all are lists of words; an error names the place."""
    if isinstance(X, str | bytes):
        raise ValueError(f"{name} must be a list of texts, got one text; put it into a list")
    if X is None or not hasattr(X, "__iter__"):
        raise ValueError(f"{name} must be a list of texts, got {type(X).__name__}")
    documents = list(expect.sequences(name, X))
    are_texts = any(isinstance(document, str) for document in documents)
    for k, document in enumerate(documents):
        if are_texts and not isinstance(document, str):
            raise ValueError(f"{name}[{k}] must be a string, got {document!r:.40}; use '' for missing texts")
        words = document if are_texts else expect.values(document)
        if words is None:
            raise ValueError(
                f"{name}[{k}] must be a text or a list of words, got {document!r:.40}; give words"
            )
        odd = None if are_texts else next((word for word in words if not isinstance(word, str)), None)
        if odd is not None:
            raise ValueError(f"{name}[{k}] must be a list of words, got {odd!r:.40} in it; give words only")
        documents[k] = words
    return documents


def tokens_of(documents: Sequence[Any], workers: int) -> Tokens:
    """Return the tokens of documents that `read_documents` returned."""
    if all(isinstance(document, str) for document in documents):
        return read_texts(documents, workers)
    return read_lists(documents)


def _coded(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    lower = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return _OTHER.sub(" ", lower).encode()


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length that are kept: their keys, and the documents of each."""

    keys: np.ndarray  # (S,) uint64
    frequency: np.ndarray  # (S,) int32

    def __len__(self) -> int:
        return len(self.keys)

    def table(self) -> np.ndarray:
        """Make the table for looking up keys: a power of two of places, at most half of them taken."""
        table = np.zeros(1 << max(4, (2 * len(self.keys) - 1).bit_length()), np.int32)
        with np.errstate(over="ignore"):
            compiled.fill(self.keys, len(self.keys), table)
        return table


def pairs(numbers: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the keys of the next level, where there are any, and how many each shard has."""
    keys, present = np.zeros(numbers.size, np.uint64), np.zeros(numbers.size, np.bool_)
    sizes = np.zeros(compiled.SHARDS, np.int64)
    with np.errstate(over="ignore"):
        compiled.pair_keys(numbers, documents, keys, present, sizes)
    return keys, present, sizes


def build(
    tokens: Tokens, levels: int, bounds: tuple[int, int], workers: int
) -> tuple[list[Level], np.ndarray, list[np.ndarray]]:
    """Build the levels of a vocabulary, the numbers (levels, N) of n-grams, and where each is first.

    ``bounds`` are on the documents that hold an n-gram which is kept.
    """
    documents = tokens.documents
    numbers = np.full((levels, len(tokens.hashes)), -1, np.int32)
    # Words are few and most of them common, so one table does; pairs are many, and go shard by shard.
    words = _Keys(tokens.hashes, documents, None, [slice(0, len(documents))])
    numbered = [_numbered(words, bounds, 1, numbers[0])]
    for level in range(1, levels):
        keys = _sharded(documents, *pairs(numbers[level - 1], documents))
        numbered.append(_numbered(keys, bounds, workers, numbers[level]))
    return [level for level, _ in numbered], numbers, [first for _, first in numbered]


class _Keys(NamedTuple):
    """Keys and their documents in parts, and the position of each among all tokens; None for the same."""

    keys: np.ndarray
    documents: np.ndarray
    positions: np.ndarray | None
    parts: list[slice]


def _sharded(documents: np.ndarray, keys: np.ndarray, present: np.ndarray, sizes: np.ndarray) -> _Keys:
    """The keys that are present, by shards that have none in common."""
    ends = np.cumsum(sizes)
    outputs = [np.empty(ends[-1], kind) for kind in (np.int32, np.uint64, np.int32)]
    with np.errstate(over="ignore"):
        compiled.shard(keys, documents, present, ends - sizes, *outputs)
    positions, shard_keys, shard_documents = outputs
    parts = [slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    return _Keys(shard_keys, shard_documents, positions, parts)


def _numbered(
    keys: _Keys, bounds: tuple[int, int], workers: int, out: np.ndarray
) -> tuple[Level, np.ndarray]:
    """Number the keys that are kept, into ``out``; also the position of the first of each."""

    def count(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        places, first, frequency = (np.empty(part.stop - part.start, np.int32) for _ in range(3))
        size = compiled.number(keys.keys[part], keys.documents[part], places, first, frequency)
        return places, first[:size] + np.int32(part.start), frequency[:size].copy()

    counted = mapped(count, keys.parts, workers)
    first = np.concatenate([shard[1] for shard in counted])  # places among the keys
    frequency = np.concatenate([shard[2] for shard in counted])
    position = first if keys.positions is None else keys.positions[first]
    chosen = np.flatnonzero((frequency >= bounds[0]) & (frequency <= bounds[1]))
    chosen = chosen[np.lexsort((position[chosen], -frequency[chosen]))]
    rank = np.full(len(first), -1, np.int32)
    rank[chosen] = np.arange(len(chosen), dtype=np.int32)
    begin = np.cumsum([0, *(len(shard[1]) for shard in counted)])

    def place(k: int) -> None:
        part = keys.parts[k]
        where = part if keys.positions is None else keys.positions[part]
        out[where] = rank[begin[k] : begin[k + 1]][counted[k][0]]

    mapped(place, range(len(keys.parts)), workers)
    return Level(keys.keys[first[chosen]], frequency[chosen]), position[chosen]


def find(tokens: Tokens, levels: list[Level], tables: list[np.ndarray]) -> np.ndarray:
    """Find the numbers (levels, N) of the n-grams of new tokens; -1 for those that are not kept."""
    numbers = np.full((len(levels), len(tokens.hashes)), -1, np.int32)
    keys, present, documents = tokens.hashes, np.ones(len(tokens.hashes), np.bool_), tokens.documents
    with np.errstate(over="ignore"):
        for k, (level, table) in enumerate(zip(levels, tables, strict=True)):
            if k:
                keys, present, _ = pairs(numbers[k - 1], documents)
            compiled.look_up(keys, present, level.keys, table, numbers[k])
    return numbers


class NgramVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts to a sparse matrix of counts, with the interface of scikit-learn's CountVectorizer.

    Words are lower-case letters and digits with inner apostrophes; each ! and ? is a token too, and tags of
    HTML are gaps. Lists of words are taken as they are. A word is kept if at least ``min_df`` texts hold it
    (a share of them if it is a float), at most ``max_df``; an n-gram also only if both (n-1)-grams in it are
    kept. Columns go by length, then by falling number of texts. The matrix is the same, bit for bit, whatever
    ``n_jobs`` is (all cores by default).

    Args:
        ngram_range: least and greatest number of words in a token.
        min_df, max_df: texts that hold a kept token, at least and at most; a float is a share.
        binary: ones instead of counts.
        dtype: of the matrix.
        n_jobs: threads.

    >>> import hardmax as hm
    >>> vectorizer = hm.text.NgramVectorizer(ngram_range=(1, 2), min_df=1)
    >>> counts = vectorizer.fit_transform(["Not good!", "so GOOD, not bad"])
    >>> vectorizer.get_feature_names_out().tolist()
    ['not', 'good', '!', 'so', 'bad', 'not good', 'good !', 'so good', 'good not', 'not bad']
    >>> counts.toarray()[0].tolist()
    [1, 1, 1, 0, 0, 1, 1, 0, 0, 0]
    """

    def __init__(
        self,
        *,
        ngram_range: tuple[int, int] = (1, 1),
        min_df: float = 2,
        max_df: float = 1.0,
        binary: bool = False,
        dtype: Any = np.int64,
        n_jobs: int | None = None,
    ) -> None:
        self.ngram_range = ngram_range
        self.min_df = min_df
        self.max_df = max_df
        self.binary = binary
        self.dtype = dtype
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which words and n-grams are kept."""
        self._learn(read_documents(X))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """Learn the vocabulary and return the counts of the same texts, cheaper than one after the other."""
        offsets, numbers = self._learn(read_documents(X))

        def part(at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return self._rows(offsets[at : at + DOCUMENTS + 1], numbers)

        return self._matrix(mapped(part, range(0, len(offsets) - 1, DOCUMENTS), workers(self.n_jobs)))

    def transform(self, X: Any) -> csr_matrix:
        """Count the known tokens of texts, (n, columns)."""
        check_is_fitted(self, "levels_")
        documents = read_documents(X)
        tables = self._tables

        def part(at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            tokens = tokens_of(documents[at : at + DOCUMENTS], 1)
            return self._rows(tokens.offsets, self._columns(find(tokens, self.levels_, tables)))

        return self._matrix(mapped(part, range(0, len(documents), DOCUMENTS), workers(self.n_jobs)))

    def columns_of(self, document: Any) -> list[tuple[int, int]]:
        """Return the columns of the tokens of one text in order, each with the number of its first word."""
        check_is_fitted(self, "levels_")
        tokens = tokens_of(read_documents([document]), 1)
        numbers = self._columns(find(tokens, self.levels_, self._tables))
        levels, places = np.nonzero(numbers >= 0)
        return [
            (j, i) for i, j in sorted(zip(places.tolist(), numbers[levels, places].tolist(), strict=True))
        ]

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each token."""
        return {name: k for k, name in enumerate(self.get_feature_names_out().tolist())}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the token of each column."""
        check_is_fitted(self, "levels_")
        return self._names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.requires_fit = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Tables and names are made again where they are needed."""
        return {name: value for name, value in super().__getstate__().items() if name not in MADE_AGAIN}

    # -- how it is done -----------------------------------------------------------------------------------

    def _learn(self, documents: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Set the vocabulary; the offsets of the documents and the columns (levels, N) of their n-grams."""
        for name in MADE_AGAIN:
            self.__dict__.pop(name, None)
        _, most = _lengths(self.ngram_range)
        tokens, n = tokens_of(documents, workers(self.n_jobs)), len(documents)
        bounds = _frequency("min_df", self.min_df, n), _frequency("max_df", self.max_df, n)
        self.levels_, numbers, firsts = build(tokens, most, bounds, workers(self.n_jobs))
        self.words_ = tokens.spell(firsts[0])
        if not len(tokens.hashes):
            raise ValueError(f"X must hold words, got none in {n:,} texts; are they empty?")
        if not sum(map(len, self._kept)):
            raise ValueError(
                f"min_df must leave some words, got {self.min_df!r}, and no word or n-gram is in that many "
                f"of the {n:,} texts; give min_df=1"
            )
        return tokens.offsets, self._columns(numbers)

    @property
    def _kept(self) -> list[Level]:
        return self.levels_[_lengths(self.ngram_range)[0] - 1 :]

    def _columns(self, numbers: np.ndarray) -> np.ndarray:
        """The columns that the numbers of n-grams mean, in place."""
        least = _lengths(self.ngram_range)[0]
        before = 0
        for level, columns in zip(self._kept, numbers[least - 1 :], strict=True):
            columns[columns >= 0] += before
            before += len(level)
        return numbers[least - 1 :]

    def _rows(self, offsets: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = int(offsets[-1] - offsets[0]) * len(columns)
        indices, counts = np.empty(size, np.int32), np.empty(size, np.int32)
        lengths = np.empty(len(offsets) - 1, np.int64)
        total = compiled.rows(columns, offsets, indices, counts, lengths)
        if self.binary:
            counts[:total] = 1
        return indices[:total].copy(), counts[:total].astype(self.dtype), lengths

    def _matrix(self, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> csr_matrix:
        lengths = np.concatenate([np.empty(0, np.int64), *(part[2] for part in parts)])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = np.concatenate([np.empty(0, np.int32), *(part[0] for part in parts)])
        counts = np.concatenate([np.empty(0, self.dtype), *(part[1] for part in parts)])
        shape = len(lengths), sum(map(len, self._kept))
        return csr_matrix((counts, indices, indptr), shape=shape, copy=False)

    @cached_property
    def _tables(self) -> list[np.ndarray]:
        return [level.table() for level in self.levels_]

    @cached_property
    def _names(self) -> np.ndarray:
        """Names level by level: an n-gram is its first (n-1)-gram and the last word of its second."""
        names, last = list(self.words_), list(self.words_)
        every = [names]
        for level in self.levels_[1:]:
            lefts = (level.keys >> np.uint64(32)).tolist()
            rights = (level.keys & np.uint64(0xFFFFFFFF)).tolist()
            names = [f"{names[i]} {last[j]}" for i, j in zip(lefts, rights, strict=True)]
            last = [last[right] for right in rights]
            every.append(names)
        levels = every[_lengths(self.ngram_range)[0] - 1 :]
        return np.array([name for level in levels for name in level], dtype=object)


def workers(n_jobs: int | None) -> int:
    """Return the threads for scikit-learn's ``n_jobs``: all cores for None, one inside a joblib worker."""
    from joblib import effective_n_jobs

    if n_jobs is not None and n_jobs != -1:
        expect.whole("n_jobs", n_jobs, 1)
    return int(min(cores(), effective_n_jobs(-1 if n_jobs is None else int(n_jobs))))


def _lengths(ngram_range: Any) -> tuple[int, int]:
    try:
        least, most = ngram_range
        fits = 1 <= least <= most <= MOST_GRAM and int(least) == least and int(most) == most
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"ngram_range must be two whole numbers from 1 to {MOST_GRAM}, least first, "
            f"got {ngram_range!r:.40}"
        )
    return int(least), int(most)


def _frequency(name: str, bound: Any, n: int) -> int:
    """A number of texts, from one or from a share of all."""
    if isinstance(bound, int | np.integer) and bound >= 1 and bound is not True:
        return int(bound)
    if isinstance(bound, float) and 0.0 <= bound <= 1.0:
        return int(np.ceil(bound * n)) if name == "min_df" else int(bound * n)
    raise ValueError(
        f"{name} must be a whole number of texts from 1 on or a share from 0.0 to 1.0, got {bound!r:.40}"
    )
