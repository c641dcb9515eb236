"""Corpus: labeled sequences of tokens, kept as counts, which is all the one-layer model sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.models import made
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.statistics import assumption_4
from hardmax.data.tokens import distinct_words, number_tokens, token_lists
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.losses import LossFunction, as_loss
from hardmax.problem.readouts import LinearReadout

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from hardmax.embeddings.models import EmbeddingModel

# Without a vocabulary the largest number decides its size, and a table of that size has to fit.
LARGEST_TOKEN = 2**31 - 1
# Signed counts are summed as floating-point numbers, which up to here are whole and exact.
MOST_TOKENS = 2**53


@dataclass(frozen=True, eq=False)
class Corpus:
    """n sequences of tokens 0..S-1 with labels y = +-1; sequence k holds ``counts[l]`` times ``tokens[l]``.

    The slots l of sequence k are ``offsets[k]:offsets[k+1]``, its distinct tokens in ascending order.
    Sequences may differ in length. Make one with `from_sequences` or `from_counts`.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good good film", "bad film film"], labels=[1, -1])
    >>> corpus.vocabulary, corpus.matrix.toarray().tolist()
    (('good', 'film', 'bad'), [[2, 1, 0], [0, 2, 1]])
    >>> corpus, corpus.T
    (Corpus(n=2, S=3, nnz=4), 3)
    >>> corpus.signed.tolist(), corpus.completely_positive.tolist()
    ([2, -1, -1], [0])
    """

    tokens: np.ndarray  # (nnz,) intp
    counts: np.ndarray  # (nnz,) int64, m_s(X) > 0
    offsets: np.ndarray  # (n + 1,) intp
    labels: np.ndarray  # (n,) int8
    S: int
    vocabulary: tuple[str, ...] | None = None
    written: tuple[str, ...] | None = None  # where words are stems: how each is written most often

    @classmethod
    def from_sequences(
        cls, sequences: Iterable[Any], labels: Any, vocabulary: Sequence[str] | None = None
    ) -> Corpus:
        """Make a corpus of lists of words, strings to be split at white space, or lists of token numbers.

        Arrays, tensors and columns of a table are taken too, also of shape (T, 1); labels of shape (n, 1).
        Words are numbered in order of first appearance unless ``vocabulary`` lists them; numbers are
        positions in the vocabulary, which without one ends at the largest of them.

        >>> import hardmax as hm
        >>> hm.Corpus.from_sequences([[0, 1, 1], [2, 0, 3]], [1, -1]).counts.tolist()
        [1, 2, 1, 1, 1]
        """
        lists = list(token_lists("sequences", sequences))
        if not lists:
            raise ValueError("sequences must hold at least one sequence, got none")
        sizes = np.array([len(tokens) for tokens in lists])
        _refuse_empty(sizes, "sequences[{}]")
        flat = [token for tokens in lists for token in tokens]
        tokens, words = number_tokens("sequences", flat, vocabulary, LARGEST_TOKEN)
        S = int(tokens.max()) + 1 if words is None else len(words)
        places = np.repeat(np.arange(len(sizes)), sizes)
        slots, counts = np.unique(places * S + tokens, return_counts=True)
        return cls._of_slots(slots % S, counts, np.bincount(slots // S), labels, S, words)

    @classmethod
    def from_counts(cls, M: Any, y: Any, vocabulary: Sequence[str] | None = None) -> Corpus:
        """Make a corpus of a count matrix M (n, S), dense or scipy sparse, and labels y.

        >>> import hardmax as hm
        >>> hm.Corpus.from_counts([[2, 1, 0], [0, 2, 1]], [1, -1]).lengths.tolist()
        [3, 3]
        """
        from scipy.sparse import csr_array

        try:
            matrix = csr_array(M)
            if np.iscomplexobj(matrix):
                raise TypeError
            with np.errstate(invalid="ignore"):  # nan and infinity are refused below
                whole = matrix.data.astype(np.int64)
        except (TypeError, ValueError):
            raise ValueError(f"M must be an (n, S) matrix of counts, got {type(M).__name__}") from None
        if matrix.ndim != 2 or (whole != matrix.data).any() or (whole < 0).any():
            raise ValueError("M must be an (n, S) matrix of whole numbers of at least 0; round it first")
        matrix = csr_array((whole, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        n, S = matrix.shape
        if n == 0:
            raise ValueError("M must have at least one row, got none")
        words = None if vocabulary is None else distinct_words(vocabulary)
        if words is not None and len(words) != S:
            raise ValueError(f"vocabulary must hold {S} words, one per column of M, got {len(words)}")
        return cls._of_slots(matrix.indices, matrix.data, np.diff(matrix.indptr), y, S, words)

    @classmethod
    def _of_slots(
        cls,
        tokens: np.ndarray,
        counts: np.ndarray,
        sizes: np.ndarray,
        labels: Any,
        S: int,
        words: tuple[str, ...] | None,
    ) -> Corpus:
        _refuse_empty(sizes)
        if (amount := float(counts.sum(dtype=float))) > MOST_TOKENS:
            raise ValueError(f"M must hold at most 2^53 tokens in all, got about {amount:.3g}; scale it down")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        signs = expect.signs("labels", labels, len(sizes))
        return cls(
            _frozen(tokens.astype(np.intp)),
            _frozen(counts.astype(np.int64)),
            _frozen(offsets.astype(np.intp)),
            _frozen(signs.astype(np.int8)),
            S,
            words,
        )

    # -- contents --------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Corpus(n={self.n}, S={self.S}, nnz={self.nnz})"

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.labels)

    @property
    def nnz(self) -> int:
        """Number of slots: pairs of a sequence and a distinct token of it."""
        return len(self.tokens)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens per sequence, T_X."""
        return _frozen(np.add.reduceat(self.counts, self.offsets[:-1]))

    @property
    def T(self) -> int:
        """The common length of all sequences, which the theory of paper A assumes."""
        least, most = int(self.lengths.min()), int(self.lengths.max())
        if least != most:
            raise ValueError(f"T needs sequences of one length, got lengths from {least} to {most}")
        return most

    @cached_property
    def matrix(self) -> csr_array:
        """The count matrix M (n, S), sparse."""
        from scipy.sparse import csr_array

        return csr_array((self.counts, self.tokens, self.offsets), shape=(self.n, self.S))

    @cached_property
    def weights(self) -> np.ndarray:
        """The counts as floating-point numbers, as the kernels take them."""
        return _frozen(self.counts.astype(float))

    @cached_property
    def log_counts(self) -> np.ndarray:
        """Logarithms of the counts."""
        return _frozen(np.log(self.weights))

    @cached_property
    def signs(self) -> np.ndarray:
        """The labels as floating-point numbers."""
        return _frozen(self.labels.astype(float))

    def per_slot(self, x: np.ndarray) -> np.ndarray:
        """Repeat a quantity per sequence on the slots of the sequence."""
        return np.repeat(x, np.diff(self.offsets))

    def per_token(self, x: np.ndarray) -> np.ndarray:
        """Sum a quantity per slot over all slots of each token."""
        return np.bincount(self.tokens, weights=x, minlength=self.S)

    def sequences(self) -> list[np.ndarray]:
        """Return the tokens of every sequence, each as often as it occurs."""
        return np.split(np.repeat(self.tokens, self.counts), np.cumsum(self.lengths)[:-1])

    def word(self, token: int) -> str:
        """Return the word of a token as it is written, or its number where there is no vocabulary."""
        words = self.vocabulary if self.written is None else self.written
        return str(token) if words is None else words[token]

    # -- statistics ---------------------------------------------------------------------------------------

    @property
    def statistics(self) -> Corpus:
        """The corpus itself: its counts and sets of tokens, as version 0.2 named them together."""
        return self

    @cached_property
    def signed(self) -> np.ndarray:
        """Signed count of every token, the sum of y m_s(X); sets of tokens are decided on these integers."""
        return self.per_token(self.per_slot(self.signs) * self.weights).astype(np.int64)

    @cached_property
    def total(self) -> np.ndarray:
        """Count of every token, the sum of m_s(X)."""
        return self.per_token(self.weights).astype(np.int64)

    @property
    def alpha(self) -> np.ndarray:
        """alpha_s, the signed count over the number of all tokens: nT where all lengths are T."""
        return self.signed / self.total.sum()

    @cached_property
    def alpha_per_sequence(self) -> np.ndarray:
        """Mean of y m_s(X) / T_X, which the first step of training learns; alpha if all lengths are equal."""
        if self.lengths.min() == self.lengths.max():  # integers keep its zeros exact
            return self.alpha
        return self.per_token(self.per_slot(self.signs / self.lengths) * self.weights) / self.n

    @property
    def posterior_difference(self) -> np.ndarray:
        """Signed count over count, in [-1, 1]; nan for a token that never occurs."""
        out = np.full(self.S, np.nan)
        np.divide(self.signed, self.total, out=out, where=self.total > 0)
        return out

    @property
    def frequency(self) -> np.ndarray:
        """Share of a token among all tokens; alpha is the posterior difference times it."""
        return self.total / self.total.sum()

    @property
    def positive(self) -> np.ndarray:
        """Tokens with alpha > 0."""
        return np.flatnonzero(self.signed > 0)

    @property
    def negative(self) -> np.ndarray:
        """Tokens with alpha < 0."""
        return np.flatnonzero(self.signed < 0)

    @property
    def irrelevant(self) -> np.ndarray:
        """Tokens that occur, with alpha = 0."""
        return np.flatnonzero((self.signed == 0) & (self.total > 0))

    @property
    def completely_positive(self) -> np.ndarray:
        """Tokens that occur in sequences with label +1 only."""
        return np.flatnonzero((self.signed == self.total) & (self.total > 0))

    @property
    def completely_negative(self) -> np.ndarray:
        """Tokens that occur in sequences with label -1 only."""
        return np.flatnonzero((self.signed == -self.total) & (self.total > 0))

    @property
    def important(self) -> np.ndarray:
        """S_c, the tokens that are s*_X of some sequence; only under Assumption 4 is there such a set."""
        assumption = assumption_4(self)
        if assumption.important is None:
            raise ValueError(f"important tokens need Assumption 4, which fails: {assumption.witness}")
        return np.unique(assumption.important)

    # -- as a model of paper A ----------------------------------------------------------------------------

    def model(
        self,
        d: int | None = None,
        *,
        layers: int = 1,
        blocks: tuple[str, ...] = ("E", "p", "v"),
        start: Any = None,
        scale: Scale = None,
        first_scale: Scale = None,
    ) -> EmbeddingModel:
        """Return the attention model of paper A on this corpus, for `hm.train` and `hm.flow`.

        Args:
            d: dimension of the embeddings; required where no ``start`` is given.
            layers: 1 or 2; the second needs PyTorch for mini-batches.
            blocks: what is trained, some of "E", "p" and "v".
            start: (E, p, v), or a `GramState` or `TwoLayerGram` of inner products; drawn by default.
            scale: factor of the logits: a positive number, "1/sqrt(d)", or None for 1.
            first_scale: factor of the logits of the first of two layers.

        Returns:
            The model; it holds no trained weights.

        >>> import hardmax as hm
        >>> hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1]).model(d=8).layers
        1
        """
        scales = {"scale": scale, "first_scale": first_scale}
        options = {name: value for name, value in scales.items() if value is not None}
        model: EmbeddingModel = made("embeddings", self, d, layers, tuple(blocks), start, options)
        return model

    # -- as a problem of paper B --------------------------------------------------------------------------

    def problem(
        self, E: Any, v: Any, loss: str | LossFunction = "logistic", *, scale: Scale = None
    ) -> Problem:
        """Return training of p with E and v fixed as a `hardmax.Problem`: keys E_x, scores y E_x.v.

        Positions are slots, so a token that occurs m times in a sequence has m of them. ``scale`` multiplies
        the keys: a positive number, "1/sqrt(d)", or None for 1.

        >>> import hardmax as hm
        >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
        >>> problem = corpus.problem([[1, 0, 0, 8], [0, 1, 0, -8], [0, 0, 1, 0]], [0, 0, 0, 1])
        >>> hm.max_margin(problem, [0, 0]).p.round(12).tolist()
        [0.333333333333, 0.333333333333, -0.666666666667, 0.0]
        """
        E = expect.finite_array("E", E, (self.S, None))
        v = expect.finite_array("v", v, (E.shape[1],))
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.intp)
        head = LinearReadout(E, self.signs, v, as_loss(loss))
        factor = read_scale("scale", scale, E.shape[1])
        keys = E if factor == 1.0 else factor * E
        return Problem._flat(Dense(keys), np.repeat(self.tokens, self.counts), offsets, head)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _refuse_empty(sizes: np.ndarray, name: str = "sequence {}") -> None:
    if (sizes == 0).any():
        where = name.format(int(np.argmin(sizes)))
        raise ValueError(f"{where} is empty: every sequence needs at least one token; drop it")
