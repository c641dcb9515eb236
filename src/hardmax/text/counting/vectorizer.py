"""NgramVectorizer: counts of words and n-grams as a sparse matrix, by compiled loops on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hardmax._lib import expect
from hardmax._lib.parallel import cores
from hardmax.text.counting import kernels as compiled
from hardmax.text.counting.ngrams import Bounds, Level, build, find
from hardmax.text.counting.tokens import Tokens, mapped, read_documents, tokens_of

DOCUMENTS = 2048  # that one thread takes at a time
MOST_GRAM = 8


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
        bounds = list(range(0, len(offsets) - 1, DOCUMENTS))
        return self._matrix(
            mapped(
                lambda at: self._rows(offsets[at : at + DOCUMENTS + 1], numbers), bounds, workers(self.n_jobs)
            )
        )

    def transform(self, X: Any) -> csr_matrix:
        """The counts of what is known in texts, (n, columns)."""
        check_is_fitted(self, "levels_")
        documents = read_documents(X)
        tables = self._tables

        def part(at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            tokens = tokens_of(documents[at : at + DOCUMENTS], 1)
            return self._rows(tokens.offsets, self._columns(find(tokens, self.levels_, tables)))

        return self._matrix(mapped(part, range(0, len(documents), DOCUMENTS), workers(self.n_jobs)))

    def columns_of(self, document: Any) -> list[tuple[int, int]]:
        """Columns of the tokens of one text in their order, each with the number of its first word."""
        check_is_fitted(self, "levels_")
        tokens = tokens_of(read_documents([document]), 1)
        numbers = self._columns(find(tokens, self.levels_, self._tables))
        return [(int(j), int(i)) for i, j in sorted(zip(*_present(numbers), strict=True))]

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each token."""
        return {name: k for k, name in enumerate(self.get_feature_names_out().tolist())}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The token of each column."""
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
        return {
            name: each for name, each in super().__getstate__().items() if name not in ("_tables", "_names")
        }

    # -- how it is done -----------------------------------------------------------------------------------

    def _learn(self, documents: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Set the vocabulary; the offsets of the documents and the columns (levels, N) of their n-grams."""
        for name in ("_tables", "_names"):
            self.__dict__.pop(name, None)
        _, most = _lengths(self.ngram_range)
        tokens = tokens_of(documents, workers(self.n_jobs))
        bounds = Bounds(
            _frequency("min_df", self.min_df, len(documents)),
            _frequency("max_df", self.max_df, len(documents)),
        )
        self.levels_, numbers, firsts = build(tokens, most, bounds, workers(self.n_jobs))
        self.words_ = tokens.spell(firsts[0])
        if not sum(len(level) for level in self._kept):
            raise ValueError(_nothing(tokens, self.min_df))
        return tokens.offsets, self._columns(numbers)

    @property
    def _kept(self) -> list[Level]:
        return self.levels_[_lengths(self.ngram_range)[0] - 1 :]

    def _columns(self, numbers: np.ndarray) -> np.ndarray:
        """The columns that the numbers of n-grams mean, in place."""
        least = _lengths(self.ngram_range)[0]
        before = 0
        for level, own in zip(self._kept, numbers[least - 1 :], strict=True):
            own[own >= 0] += before
            before += len(level)
        return numbers[least - 1 :]

    def _rows(self, offsets: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = int(offsets[-1] - offsets[0]) * len(columns)
        indices, counts = np.empty(size, np.int32), np.empty(size, np.int32)
        lengths = np.empty(len(offsets) - 1, np.int64)
        found = compiled.rows(columns, offsets, indices, counts, lengths)
        return indices[:found].copy(), counts[: 0 if self.binary else found].copy(), lengths

    def _matrix(self, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> csr_matrix:
        lengths = np.concatenate([np.empty(0, np.int64), *(each[2] for each in parts)])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = np.concatenate([np.empty(0, np.int32), *(each[0] for each in parts)])
        if self.binary:
            counts = np.ones(len(indices), self.dtype)
        else:
            counts = np.concatenate([np.empty(0, np.int32), *(each[1] for each in parts)]).astype(self.dtype)
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
            lefts, rights = (
                (level.keys >> np.uint64(32)).tolist(),
                (level.keys & np.uint64(0xFFFFFFFF)).tolist(),
            )
            names = [f"{names[left]} {last[right]}" for left, right in zip(lefts, rights, strict=True)]
            last = [last[right] for right in rights]
            every.append(names)
        kept = every[_lengths(self.ngram_range)[0] - 1 :]
        return np.array([name for level in kept for name in level], dtype=object)


def workers(n_jobs: int | None) -> int:
    """Threads for a scikit-learn ``n_jobs``: all cores for None, one where joblib's workers share them."""
    from joblib import effective_n_jobs

    if n_jobs is not None and n_jobs != -1:
        expect.whole("n_jobs", n_jobs, 1)
    return int(min(cores(), effective_n_jobs(-1 if n_jobs is None else int(n_jobs))))


def _present(numbers: np.ndarray) -> tuple[list[int], list[int]]:
    """Positions and columns of what is there, words before longer ones at the same place."""
    levels, places = np.nonzero(numbers >= 0)
    order = np.lexsort((levels, places))
    return places[order].tolist(), numbers[levels[order], places[order]].tolist()


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


def _frequency(name: str, given: Any, n: int) -> int:
    """A number of texts, given as such or as a share of all."""
    if isinstance(given, int | np.integer) and given >= 1 and given is not True:
        return int(given)
    if isinstance(given, float) and 0.0 <= given <= 1.0:
        return int(np.ceil(given * n)) if name == "min_df" else int(given * n)
    raise ValueError(
        f"{name} must be a whole number of texts from 1 on or a share from 0.0 to 1.0, got {given!r:.40}"
    )


def _nothing(tokens: Tokens, min_df: float) -> str:
    if not len(tokens.hashes):
        return f"X must hold words, got none in {len(tokens.offsets) - 1:,} texts; are they empty?"
    return (
        f"min_df must leave some words, got {min_df!r}, and no word or n-gram is in that many of the "
        f"{len(tokens.offsets) - 1:,} texts; give min_df=1"
    )
