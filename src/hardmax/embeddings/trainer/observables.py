"""What the figures of paper A look at: E p and E v of the tokens against the share of their labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax import _inputs
from hardmax.embeddings.corpus import Corpus
from hardmax.embeddings.generators import KLevel
from hardmax.embeddings.trainer.words import Words, top_words


class LevelMeans(NamedTuple):
    """Means over the tokens of each level 1..K: of sign E v and of E p; and of E p over irrelevant tokens."""

    value: np.ndarray  # (K,)
    logit: np.ndarray  # (K,)
    irrelevant_logit: float


class Deciles(NamedTuple):
    """Median of E p over the tenth of the tokens with the largest |x|, and over that with the smallest."""

    top: float
    bottom: float


@dataclass(frozen=True, eq=False)
class Observables:
    """Logits a = E p and values c = E v of a corpus's tokens after some epochs of training.

    Everything is taken over the tokens that occur, with x the posterior difference (A-DATA-2) minus the mean
    label, which is where a token that says nothing lies.
    """

    corpus: Corpus
    epochs: int
    a: np.ndarray  # (S,) float64
    c: np.ndarray  # (S,) float64

    @cached_property
    def x(self) -> np.ndarray:
        """Posterior difference minus the mean label; nan for a token that never occurs."""
        return self.corpus.posterior_difference - self.corpus.signs.mean()

    @cached_property
    def _seen(self) -> np.ndarray:
        return ~np.isnan(self.x)

    @cached_property
    def r_v(self) -> float:
        """Spearman correlation of x and E v."""
        return _spearman(self.x[self._seen], self.c[self._seen])

    @cached_property
    def r_p(self) -> float:
        """Spearman correlation of |x| and E p."""
        return _spearman(np.abs(self.x[self._seen]), self.a[self._seen])

    @cached_property
    def deciles(self) -> Deciles:
        """Medians of E p over the tokens with the largest and the smallest |x|, a tenth of all each."""
        order = np.argsort(np.abs(self.x[self._seen]), kind="stable")
        tenth = max(1, len(order) // 10)
        a = self.a[self._seen]
        return Deciles(float(np.median(a[order[-tenth:]])), float(np.median(a[order[:tenth]])))

    def sign_accuracy(self, beyond: float = 0.3) -> float:
        """Share of the tokens with |x| above ``beyond`` whose E v has the sign of x; nan if there is none."""
        clear = self._seen & (np.abs(self.x) > beyond)
        return float((np.sign(self.c) == np.sign(self.x))[clear].mean()) if clear.any() else float("nan")

    def pearson(self, relevant: np.ndarray) -> float:
        """Pearson correlation of x and E v over the tokens of a mask, such as ``model.level > 0``."""
        chosen = self._seen & relevant
        return _pearson(self.x[chosen], self.c[chosen])

    def top(self, count: int = 10, by: str = "attention") -> Words:
        """The words that matter: the largest E p, which attention selects; or "positive", "negative" E v.

        >>> import hardmax as hm
        >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
        >>> trained = hm.embeddings.train_embeddings(corpus, 8, rate=0.1, epochs=20, batch=4, rng=0)
        >>> [(each.word, each.occurrences) for each in trained.top(1, by="negative")]
        [('bad', 4)]
        """
        _inputs.one_of("by", by, ("attention", "positive", "negative"))
        return top_words(self.corpus, self.a, self.c, _inputs.whole("count", count, 1), by)

    def level_means(self, model: KLevel) -> LevelMeans:
        """Means by the levels of the model that drew the corpus; nan where no token of a level occurs."""
        if model.S != self.corpus.S:
            raise ValueError(
                f"model must have the corpus's {self.corpus.S} tokens, got {model.S}; "
                "give the KLevel that drew it"
            )
        means = np.full((2, len(model.sizes) + 1), np.nan)
        for level in range(means.shape[1]):
            chosen = self._seen & (model.level == level)
            if chosen.any():
                means[:, level] = (model.sign * self.c)[chosen].mean(), self.a[chosen].mean()
        return LevelMeans(means[0, 1:], means[1, 1:], float(means[1, 0]))


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import rankdata

    return _pearson(rankdata(x), rankdata(y))


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """nan where one of them does not vary."""
    if x.size == 0 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
