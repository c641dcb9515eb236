"""Token statistics of a corpus: signed counts, frequencies and classes (A-DATA-1, A-DATA-2, A-DEF-7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class TokenStatistics:
    """Integer counts of every token, and what follows from them.

    ``signed`` is the sum of y_k m_s(X_k), ``total`` the sum of m_s(X_k). Classes are decided on these
    integers, never on quotients; a token that does not occur belongs to none.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1, 1], [2, 0, 3], [3, 3, 1], [2, 2, 0]], [1, -1, 1, -1])
    >>> found = corpus.statistics
    >>> found.signed.tolist(), found.total.tolist()
    ([-1, 3, -3, 1], [3, 3, 3, 3])
    >>> found.completely_positive.tolist(), found.positive.tolist()
    ([1], [1, 3])
    """

    signed: np.ndarray  # (S,) int64
    total: np.ndarray  # (S,) int64
    alpha_per_sequence: np.ndarray  # (S,) mean of y m_s(X) / T_X

    @property
    def alpha(self) -> np.ndarray:
        """Average signed frequency, equation (3), with the number of all tokens for nT."""
        return self.signed / self.total.sum()

    @property
    def frequency(self) -> np.ndarray:
        """Share of a token among all tokens; alpha = posterior_difference * frequency."""
        return self.total / self.total.sum()

    @property
    def posterior_difference(self) -> np.ndarray:
        """Equation (37): 1 for a token of positive sequences only; nan for a token that never occurs."""
        out = np.full(len(self.total), np.nan)
        np.divide(self.signed, self.total, out=out, where=self.total > 0)
        return out

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
        """Tokens of sequences with label +1 only."""
        return np.flatnonzero((self.signed == self.total) & (self.total > 0))

    @property
    def completely_negative(self) -> np.ndarray:
        """Tokens of sequences with label -1 only."""
        return np.flatnonzero((self.signed == -self.total) & (self.total > 0))
