"""How logits and values of tokens follow their posterior difference: paper A's observables."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np


class Deciles(NamedTuple):
    """Median of E p over the tenth of the tokens with the largest |x|, and over that with the smallest."""

    top: float
    bottom: float


class Following:
    """Measures of what has x (nan for a token that never occurs), logits a = E p and values c = E v."""

    a: np.ndarray  # (S,)
    c: np.ndarray  # (S,)

    @property
    def x(self) -> np.ndarray:
        """Posterior difference minus the mean label, which is where a token that says nothing lies."""
        raise NotImplementedError

    @cached_property
    def _seen(self) -> np.ndarray:
        return ~np.isnan(self.x)

    @cached_property
    def r_v(self) -> float:
        """Spearman correlation of x and E v."""
        return spearman(self.x[self._seen], self.c[self._seen])

    @cached_property
    def r_p(self) -> float:
        """Spearman correlation of |x| and E p."""
        return spearman(np.abs(self.x[self._seen]), self.a[self._seen])

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


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation of the ranks; nan where one of them does not vary."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation; nan where one of them does not vary."""
    if x.size == 0 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
