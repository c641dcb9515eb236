"""Scoring: how a fitted classifier reads texts and predicts, apart from how it was trained."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from hardmax.text import kernels as compiled
from hardmax.text.counting.tokens import mapped
from hardmax.text.counting.vectorizer import NgramVectorizer, workers
from hardmax.text.inputs import holds_texts
from hardmax.text.training import Rows

TEXTS = 4096  # whose scores one thread computes at a time


class Scoring:
    """Predictions of what has ``_model``, the table of masses and values, and reads texts by a vectorizer."""

    classes_: np.ndarray
    attention_: np.ndarray  # (columns,) logits
    values_: np.ndarray  # (columns, values), one for two classes
    background_: np.ndarray  # (values,)
    vectorizer_: Any  # where it was trained on texts
    n_features_in_: int
    feature_names_in_: np.ndarray
    _model: np.ndarray  # (columns + 1, 1 + values)

    vectorizer: Any
    ngram_range: tuple[int, int]
    min_df: float
    n_jobs: int | None

    @property
    def _top(self) -> int:
        """Tokens that a prediction is made from; 0 for all."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: log-odds (n,) of the second of two classes, or one column per class."""
        check_is_fitted(self, "attention_")
        rows = self._rows(X)
        if hasattr(self, "vectorizer_"):
            self._tell_of_unknown(rows)
        scores = self._scores(rows, self._model, self._top)[0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each text."""
        scores = self.decision_function(X)
        return self.classes_[self._labels(scores[:, None] if scores.ndim == 1 else scores)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Their logarithms."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        return log_softmax(scores, axis=1)

    @staticmethod
    def _labels(scores: np.ndarray) -> np.ndarray:
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)

    def _scores(
        self, rows: Rows, model: np.ndarray, top: int = 0, by_value: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n, values) and the share of attention that they are made from."""
        scores, attended = np.empty((len(rows), model.shape[1] - 1)), np.empty(len(rows))

        def part(at: int) -> None:
            span = slice(at, min(at + TEXTS, len(rows)))
            compiled.scores_of(
                rows.data,
                rows.indices,
                rows.indptr[span.start : span.stop + 1],
                model,
                top,
                by_value,
                scores[span],
                attended[span],
            )

        mapped(part, range(0, len(rows), TEXTS), workers(self.n_jobs))
        return scores, attended

    @staticmethod
    def _tell_of_unknown(rows: Rows) -> None:
        without = int((np.diff(rows.indptr) == 0).sum())
        if without:
            warnings.warn(
                f"{without:,} of {len(rows):,} texts hold no token that the model knows; they get the score "
                "of the background",
                stacklevel=4,
            )

    def _rows(self, X: Any, learn: bool = False) -> Rows:
        """X as rows of counts; ``learn`` the vocabulary from texts, or the number of columns."""
        if not holds_texts(X):
            if not learn and hasattr(self, "vectorizer_"):
                raise ValueError(
                    f"X must be texts or lists of words as in fit, got {type(X).__name__}; "
                    "or give counts to fit, too"
                )
            self.__dict__.pop("vectorizer_", None)
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=learn)
            check_non_negative(X, "AttentionClassifier (X holds how often each token occurs)")
            return Rows.of(_canonical(X))
        if learn:
            if self.vectorizer is None:
                self.vectorizer_ = NgramVectorizer(
                    ngram_range=self.ngram_range,
                    min_df=self.min_df,
                    binary=True,
                    dtype=np.float64,
                    n_jobs=self.n_jobs,
                )
            else:
                self.vectorizer_ = clone(self.vectorizer)
            counts = self.vectorizer_.fit_transform(X)
            self.n_features_in_ = counts.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            if not hasattr(self, "vectorizer_"):
                raise ValueError(
                    "X must be a matrix of counts as in fit, got texts; or give texts to fit, too"
                )
            counts = self.vectorizer_.transform(X)
        check_non_negative(counts, "AttentionClassifier (a vectorizer must count; see alternate_sign)")
        return Rows.of(counts)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The tokens: those of the vectorizer, names of columns, or x0, x1, ..."""
        check_is_fitted(self, "attention_")
        if hasattr(self, "vectorizer_"):
            return self.vectorizer_.get_feature_names_out()
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)


def _canonical(X: Any) -> Any:
    """A matrix as CSR with each token once in a row, and no zeros; a user's own is left as it is."""
    from scipy.sparse import csr_matrix, issparse

    made = csr_matrix(X, copy=issparse(X))
    made.sum_duplicates()
    made.eliminate_zeros()
    return made
