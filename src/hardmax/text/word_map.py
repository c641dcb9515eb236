"""The map of all tokens, value against attention: paper A's first figure, for a fitted classifier."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.notebook import Pictured, picture, save_picture
from hardmax.text.statistics import class_number, column_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.text.classifier import AttentionClassifier

DRAWN = 20_000  # dots; of more tokens the most frequent ones
NAMED = 8  # tokens with their name, on each side


@dataclass(frozen=True, eq=False, repr=False)
class WordMap(Pictured):
    """Value and logit of every token for one class, with its posterior difference and count.

    >>> import hardmax as hm
    >>> texts, labels = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    >>> found = model.word_map("+")
    >>> str(found.tokens[found.value.argmax()])
    'good'
    """

    label: Any
    tokens: np.ndarray
    value: np.ndarray
    logit: np.ndarray
    posterior_difference: np.ndarray
    count: np.ndarray

    def __repr__(self) -> str:
        return f"WordMap(label={self.label!r}, tokens={len(self.tokens):,})"

    def plot(self) -> Figure:
        """The picture: a dot per token in the color of its posterior difference, the strongest named."""
        figure = picture((7.0, 5.0))
        self.draw(figure)
        return figure

    def draw(self, figure: Figure) -> None:
        """Draw it into a given figure."""
        axes = figure.add_subplot()
        often = np.argsort(-self.count, kind="stable")[:DRAWN][::-1]
        dots = axes.scatter(
            self.value[often],
            self.logit[often],
            c=self.posterior_difference[often],
            s=6,
            cmap="RdYlGn",
            vmin=-1,
            vmax=1,
            alpha=0.6,
            linewidths=0,
            rasterized=True,
        )
        figure.colorbar(dots, label=f"posterior difference for {self.label}")
        pull = np.exp(self.logit[often]) * self.value[often] * np.log1p(self.count[often])
        order = np.argsort(pull, kind="stable")
        for side, chosen in ((-1, order[:NAMED]), (1, order[::-1][:NAMED])):
            self._name(axes, often[chosen], side)
        axes.set(xlabel=f"value: evidence for {self.label}", ylabel="attention logit")
        axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
        axes.margins(x=0.4)
        # a few tokens that say nothing lie far below
        low, high = np.quantile(self.logit[often], [0.001, 1.0])
        axes.set_ylim(low - 0.05 * (high - low), high + 0.1 * (high - low) + 1e-9)

    def _name(self, axes: Any, chosen: np.ndarray, side: int) -> None:
        """Names in a column at the side, the highest token first, each with a line to its dot."""
        for place, j in enumerate(chosen[np.argsort(-self.logit[chosen], kind="stable")].tolist()):
            axes.annotate(
                str(self.tokens[j]),
                (self.value[j], self.logit[j]),
                xytext=(0.5 + 0.485 * side, 0.96 - 0.045 * place),
                textcoords="axes fraction",
                fontsize=8,
                ha="right" if side > 0 else "left",
                va="center",
                parse_math=False,
                arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.5},
            )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture as .svg, .png or .pdf."""
        save_picture(self.plot(), Path(path))


def word_map(model: AttentionClassifier, label: Any = None) -> WordMap:
    """The map for a class; by default the last one."""
    k = len(model.classes_) - 1 if label is None else class_number(model, label)
    return WordMap(
        model.classes_.tolist()[k],
        model.get_feature_names_out(),
        column_for(model.values_, k),
        model.attention_,
        model.statistics_.posterior_difference[:, k],
        model._counts.sum(axis=1),
    )
