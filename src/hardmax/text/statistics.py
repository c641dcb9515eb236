"""Comparison of a trained classifier with theory (paper A's observables)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.notebook import table
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.statistics import Assumption4, Assumption4Witness, assumption_4
from hardmax.embeddings.minibatch.result import Following
from hardmax.embeddings.patterns import pattern_max_margin, score_selection
from hardmax.margin.solution import MaxMargin

if TYPE_CHECKING:
    from hardmax.text.classifier import AttentionClassifier

MOST_TOKENS = 2000  # distinct ones, of a corpus whose max-margin direction is computed


@dataclass(frozen=True, eq=False)
class Followed(Following):
    """Logits ``a`` and values ``c`` for a class, and x, the posterior difference minus the mean label."""

    label: Any
    differences: np.ndarray
    a: np.ndarray
    c: np.ndarray

    @property
    def x(self) -> np.ndarray:
        """Posterior difference minus the mean label; nan for a token that never occurs."""
        return self.differences

    def __repr__(self) -> str:
        return (
            f"Followed(label={self.label!r}, r_v={self.r_v:.3f}, r_p={self.r_p:.3f}, "
            f"signs={self.sign_accuracy():.3f})"
        )


class TextStatistics:
    """Posterior difference of each token for each class, and how the fitted model follows it.

    For a class, the posterior difference of a token is +1 if it occurs in texts of this class only and -1 if
    in others only; ``of(label)`` compares logits and values with it. ``assumption_4`` tests whether the texts
    are as paper A's Theorem 5 needs them; where they are, ``max_margin`` is the direction of the selection
    that the fitted logits make, with its certificate.

    >>> import hardmax as hm
    >>> texts, labels = ["good film", "bad film"] * 10, [1, 0] * 10
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    >>> found = model.statistics_
    >>> found.of(1).sign_accuracy(), found.assumption_4.holds, found.max_margin.is_certified
    (1.0, True, True)
    """

    def __init__(self, model: AttentionClassifier) -> None:
        self._model = model

    @cached_property
    def posterior_difference(self) -> np.ndarray:
        """(tokens, classes); nan for a token that never occurs."""
        counts = self._model._counts
        total = counts.sum(axis=1, keepdims=True)
        out = np.full(counts.shape, np.nan)
        return np.divide(2 * counts - total, total, out=out, where=total > 0)

    def of(self, label: Any = None) -> Followed:
        """Compare logits and values with the posterior difference of a class; by default the last one."""
        model = self._model
        k = class_number(model, label)
        shares = model._shares / model._shares.sum()
        x = self.posterior_difference[:, k] - (2 * shares[k] - 1)
        return Followed(model.classes_.tolist()[k], x, model.attention_, column_for(model.values_, k))

    @cached_property
    def assumption_4(self) -> Assumption4:
        """Whether each text has one telling token and otherwise neutral ones, all texts of one length."""
        corpus = self._model._corpus
        if isinstance(corpus, Corpus):
            return assumption_4(corpus)
        return Assumption4(None, Assumption4Witness("length", 0, (), corpus))

    @cached_property
    def max_margin(self) -> MaxMargin | None:
        """The max-margin direction of the selected tokens, in logits; None where Assumption 4 fails."""
        corpus = self._model._corpus
        if not isinstance(corpus, Corpus) or not self.assumption_4.holds:
            return None
        chosen = score_selection(corpus, self._model.attention_)
        return pattern_max_margin(corpus, chosen, np.eye(corpus.S))

    def __repr__(self) -> str:
        lines = [repr(self.of(label)) for label in self._model.classes_.tolist()]
        return "\n".join([*lines, f"Assumption 4: {self.assumption_4.witness or 'holds'}"])

    def _repr_html_(self) -> str:
        classes = map(self.of, self._model.classes_.tolist())
        rows = [(one.label, one.r_v, one.r_p, one.sign_accuracy()) for one in classes]
        return table("How the model follows the posterior difference", ("class", "r_v", "r_p", "signs"), rows)


def class_number(model: AttentionClassifier, label: Any) -> int:
    """Return the index of a class of the model; by default of the last one."""
    if label is None:
        return len(model.classes_) - 1
    places = [k for k, name in enumerate(model.classes_.tolist()) if np.isscalar(label) and name == label]
    if not places:
        raise ValueError(f"label must be one of {model.classes_.tolist()}, got {expect._short(label)}")
    return places[0]


def column_for(values: np.ndarray, k: int) -> np.ndarray:
    """Return the column of class k of values or scores; of two classes, the first is minus the second."""
    if values.shape[1] == 1:
        return values[:, 0] * (1 if k == 1 else -1)
    return values[:, k]


def corpus_of(rows: Any, codes: np.ndarray, classes: int) -> Corpus | str:
    """Return the texts as the theory sees them, or why it does not cover them; large corpora are not kept."""
    if classes != 2:
        return f"labels are of {classes} classes, where the theory has two"
    lengths = np.diff(rows.indptr)
    if not (rows.data == 1).all():
        lengths = np.add.reduceat(np.append(rows.data, 0.0), rows.indptr[:-1])
    if not (lengths > 0).all() or lengths.min() != lengths.max():
        return (
            f"texts have from {lengths.min():g} to {lengths.max():g} tokens, where the theory has one length"
        )
    if rows.columns > MOST_TOKENS or (rows.data != np.floor(rows.data)).any():
        return "the texts are too many tokens, or weighed; the theory is applied to small corpora of counts"
    return Corpus.from_counts(rows.matrix, 2 * codes - 1)
