"""Results that explain a classifier: one prediction, the tokens it selects, few tokens, maps and statistics.

Attention is shown next to its effect: contributions that sum to the score, and the accuracy of predictions
from the most telling tokens alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.files import whole_text
from hardmax._lib.notebook import Pictured, picture, save_picture, table
from hardmax._lib.result import Shown
from hardmax._lib.terminal import grid
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.statistics import Assumption4, Assumption4Witness, assumption_4
from hardmax.embeddings.minibatch.result import Following
from hardmax.embeddings.patterns import pattern_max_margin, score_selection
from hardmax.margin.solution import MaxMargin

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from hardmax.text.classifier import AttentionClassifier


GREEN, RED = "0, 128, 96", "192, 64, 0"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ overflow-x: auto }} h1 {{ font-size: 1.3rem }} img {{ max-width: 100% }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


class PageOfText(Shown):
    """A result that can be written as a page of HTML."""

    def _title(self) -> str:
        return type(self).__name__

    def _body(self) -> str:
        """HTML above the table."""
        return ""

    def _repr_html_(self) -> str:
        return self._body() + super()._repr_html_()

    def save(self, path: str | PathLike[str]) -> None:
        """Write one page of HTML that needs nothing else."""
        with whole_text(path) as file:
            file.write(_PAGE.format(title=escape(self._title()), body=self._repr_html_()))


def bar(share: float, width: int = 12) -> str:
    """Show a number from -1 to 1 as a bar of signs."""
    return ("+" if share > 0 else "-") * round(abs(share) * width)


def marked(words: tuple[tuple[str, float], ...]) -> str:
    """Mark words as HTML: green where they support the class, red where they oppose it."""
    if not words:
        return ""
    most = max(abs(weight) for _, weight in words) or 1.0
    spans = [
        f'<span style="background: rgba({GREEN if weight > 0 else RED}, {abs(weight) / most * 0.6:.2f})" '
        f'title="{weight:+.3f}">{escape(word)}</span>'
        for word, weight in words
    ]
    return f"<p>{' '.join(spans)}</p>"


SHOWN = 12  # rows of a table
BACKGROUND = "(background)"  # of every text; no token has brackets


class TokenPart(NamedTuple):
    """A token of a text: how often it counts, its share of attention, value, and share times value."""

    token: str
    occurrences: float
    share: float
    value: float
    contribution: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(PageOfText):
    """A text's class and the tokens that made it, by falling size of contribution; these sum to ``score``.

    ``score`` is that of ``label``, the predicted class by default; with two classes
    it is the log-odds of it. ``words`` are the text's words in order, each with the contribution of the
    tokens it is part of.

    >>> import hardmax as hm
    >>> texts, labels = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    >>> found = model.explain("a good film")
    >>> found.label, found.parts[0].token, abs(sum(p.contribution for p in found.parts) - found.score) < 1e-12
    ('+', 'good', True)
    """

    label: Any
    probability: float
    score: float
    parts: tuple[TokenPart, ...]
    words: tuple[tuple[str, float], ...]
    unknown: int
    predicted: Any

    def table(self) -> Table:
        """Return a table of the tokens that contribute most."""
        most = max((abs(part.contribution) for part in self.parts), default=1.0) or 1.0
        rows = []
        for part in self.parts[:SHOWN]:
            numbers = f"{part.share:.1%}", f"{part.value:+.2f}", f"{part.contribution:+.3f}"
            rows.append((part.token, *numbers, bar(part.contribution / most)))
        rest = self.parts[SHOWN:]
        if rest:
            share = math.fsum(part.share for part in rest)
            contribution = math.fsum(part.contribution for part in rest)
            rows.append((f"{len(rest)} more", f"{share:.1%}", "", f"{contribution:+.3f}", ""))
        rows.append(("sum", "100.0%", "", f"{self.score:+.3f}", ""))
        names = ("token", "attention", "value", "contribution", "")
        table = grid(names, rows, numbers=names[1:4])
        table.title = f"{self.label}: probability {self.probability:.3f}, score {self.score:+.3f}"
        table.title_justify = "left"
        return table

    def _body(self) -> str:
        return marked(self.words)

    def _title(self) -> str:
        return f"Why {self.label}?"


class Word(NamedTuple):
    """A selected token: for which class, its share of occurrences there, occurrences, logit and value."""

    token: str
    label: Any
    posterior: float
    occurrences: float
    logit: float
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class TokenRanking(PageOfText):
    """The tokens that a model selects for its classes: the largest attention times value, e^logit value.

    >>> import hardmax as hm
    >>> texts, labels = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    >>> [(each.token, each.label, each.posterior, each.occurrences) for each in model.top_tokens(1).words]
    [('good', '+', 1.0, 10.0), ('bad', '-', 1.0, 10.0)]
    """

    words: tuple[Word, ...]

    @property
    def headline(self) -> str:
        """The number of tokens and of classes."""
        return f"{len(self.words)} tokens of {len({word.label for word in self.words})} classes"

    def table(self) -> Table:
        """Return a table of the tokens, class by class."""
        names, rows = ("class", "token", "posterior", "count", "logit", "value"), []
        for w in self.words:
            whole = w.occurrences == round(w.occurrences)  # weighted counts are not
            count = f"{w.occurrences:,.0f}" if whole else f"{w.occurrences:,.1f}"
            numbers = f"{w.posterior:.3f}", count, f"{w.logit:+.2f}", f"{w.value:+.2f}"
            rows.append((str(w.label), w.token, *numbers))
        return grid(names, rows, numbers=names[2:])

    def _title(self) -> str:
        return "The tokens that matter"


@dataclass(frozen=True, eq=False, repr=False)
class TopKReport(PageOfText):
    """Predictions from the k most telling tokens of each text, and the loss of accuracy.

    ``agreement`` is the share of texts whose class stays the same; ``attended`` the mean share of attention
    that the kept tokens have. ``accuracy`` and ``full_accuracy`` are None without labels. ``needed`` is the
    mean share of a text's tokens that hold nine tenths of its attention: softmax attention is not sparse.

    >>> import hardmax as hm
    >>> texts, labels = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    >>> kept = model.evaluate_top_k(texts, labels, k=1)
    >>> kept.accuracy, kept.full_accuracy, kept.agreement
    (1.0, 1.0, 1.0)
    """

    k: int
    by: str
    predictions: np.ndarray
    agreement: float
    attended: float
    needed: float
    accuracy: float | None = None
    full_accuracy: float | None = None

    @property
    def cost(self) -> float | None:
        """Accuracy that is lost."""
        if self.accuracy is None or self.full_accuracy is None:
            return None
        return self.full_accuracy - self.accuracy

    def table(self) -> Table:
        """Return a table of the numbers."""
        rows = {
            "tokens kept": f"{self.k}, by {self.by}",
            "their share of attention": f"{self.attended:.1%}",
            "same class as from all tokens": f"{self.agreement:.1%}",
        }
        if self.accuracy is not None and self.full_accuracy is not None:
            rows["accuracy from these alone"] = f"{self.accuracy:.2%}"
            rows["accuracy from all tokens"] = f"{self.full_accuracy:.2%}"
        rows["tokens that hold 90% of attention"] = f"{self.needed:.0%}"
        return grid(("", ""), rows.items(), head=False)

    def _title(self) -> str:
        return f"From {self.k} tokens alone"


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
        """Draw a dot per token in the color of its posterior difference, and name the strongest."""
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
        # a few tokens without information are far below
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


MOST_TOKENS = 2000  # distinct ones, of a corpus whose max-margin direction is computed


@dataclass(frozen=True, eq=False)
class Followed(Following):
    """Logits ``a`` and values ``c`` for a class, and x, the posterior difference minus the mean label."""

    label: Any
    x: np.ndarray  # nan for a token that never occurs
    a: np.ndarray
    c: np.ndarray

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
