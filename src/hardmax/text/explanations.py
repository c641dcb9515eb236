"""Explain a classifier: one prediction, the tokens it selects, the cost of few tokens, a map of all tokens.

Attention is shown with what it is worth: contributions that sum to the score, and the accuracy that is left
when only the most telling tokens are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax

from hardmax._lib import expect
from hardmax._lib.files import whole_text
from hardmax._lib.notebook import Pictured, picture, save_picture
from hardmax._lib.result import Shown
from hardmax.text import kernels as compiled
from hardmax.text.counting.vectorizer import read_documents, tokens_of
from hardmax.text.statistics import class_number, column_for

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


def number(count: float) -> str:
    """Format a count with commas; weighted counts are not whole."""
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


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
BACKGROUND = "(background)"  # what every text holds; no token has brackets


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

    ``score`` is that of ``label``, the class that is predicted unless another was asked for; with two classes
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
        from rich import markup
        from rich.table import Table

        title = f"{self.label}: probability {self.probability:.3f}, score {self.score:+.3f}"
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        for name in ("token", "attention", "value", "contribution", ""):
            table.add_column(name, justify="left" if name in ("token", "") else "right")
        most = max((abs(part.contribution) for part in self.parts), default=1.0) or 1.0
        for part in self.parts[:SHOWN]:
            numbers = f"{part.share:.1%}", f"{part.value:+.2f}", f"{part.contribution:+.3f}"
            table.add_row(markup.escape(part.token), *numbers, bar(part.contribution / most))
        rest = self.parts[SHOWN:]
        if rest:
            share, contribution = (
                math.fsum(getattr(p, name) for p in rest) for name in ("share", "contribution")
            )
            table.add_row(f"{len(rest)} more", f"{share:.1%}", "", f"{contribution:+.3f}", "")
        table.add_row("sum", "100.0%", "", f"{self.score:+.3f}", "")
        return table

    def _body(self) -> str:
        return marked(self.words)

    def _title(self) -> str:
        return f"Why {self.label}?"


def _one_row(counts: Any, columns: int) -> Any:
    """The counts of one text, for a model that was trained on counts, as a step of a pipeline is."""
    if not issparse(counts):
        is_text = isinstance(counts, str) or np.asarray(counts).dtype.kind not in "biuf"
        counts = None if is_text else np.reshape(counts, (1, -1))
    if counts is None or counts.shape != (1, columns):
        got = "texts" if counts is None else f"counts of shape {counts.shape}"
        raise ValueError(
            f"text must be one row of {columns} counts, because the model was trained on counts, got {got}; "
            "in a pipeline give pipeline[:-1].transform([text])"
        )
    return counts


def explain(model: AttentionClassifier, text: Any, label: Any = None) -> Explanation:
    """Take one prediction apart; a text without any known token is refused."""
    whole = hasattr(model, "vectorizer_")
    rows = model._rows([text] if whole else _one_row(text, model.n_features_in_))
    if not len(rows.data):
        raise ValueError(
            "text must hold a token that the model knows, got none; its prediction is that of the background"
        )
    scores = model._scores(rows, model._model, model._top)[0]
    predicted = int(model._labels(scores)[0])
    k = predicted if label is None else class_number(model, label)
    columns, shares = _shares(model, rows)
    values = column_for(model._model[:, 1:], k)[columns]
    names = model.get_feature_names_out()
    parts = [
        TokenPart(
            BACKGROUND if j == len(names) else str(names[j]),
            1.0 if j == len(names) else float(n),
            float(s),
            float(v),
            float(s * v),
        )
        for j, n, s, v in zip(columns.tolist(), np.append(rows.data, 1.0), shares, values, strict=True)
        if s > 0.0
    ]
    parts.sort(key=lambda part: (-abs(part.contribution), part.token))
    by_column = {j: s * v for j, s, v in zip(columns.tolist(), shares.tolist(), values.tolist(), strict=True)}
    words, unknown = _words(model, text, by_column) if whole else ((), 0)
    score = float(column_for(scores, k)[0])
    probability = expit(score) if scores.shape[1] == 1 else softmax(scores[0])[k]
    return Explanation(
        model.classes_.tolist()[k],
        float(probability),
        score,
        tuple(parts),
        words,
        unknown,
        model.classes_.tolist()[predicted],
    )


def _shares(model: AttentionClassifier, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns of one text, the background last, with their shares of attention; zero for what is not kept."""
    amounts = np.append(rows.data * model._model[rows.indices, 0], model._model[-1, 0])
    columns = np.append(rows.indices, len(model._model) - 1)
    if model._top:
        strength = np.array([compiled.telling(model._model, int(j)) for j in columns]) * amounts
        strength[-1] = np.inf
        places = np.empty(len(columns), np.int64)
        count = compiled.keep(strength, len(columns), model._top + 1, places)
        left = np.setdiff1d(np.arange(len(columns)), places[:count])
        amounts[left] = 0.0
    return columns, amounts / amounts.sum()


def _words(
    model: AttentionClassifier, text: Any, by_column: dict[int, float]
) -> tuple[tuple[tuple[str, float], ...], int]:
    """The words in order, each with its part of the contributions; and how many are in no known token."""
    tokens = tokens_of(read_documents([text]), 1)
    spelled = tokens.spell(np.arange(len(tokens.hashes)))
    if not hasattr(model.vectorizer_, "columns_of"):
        return tuple((word, 0.0) for word in spelled), 0
    columns, names = model.vectorizer_.columns_of(text), model.get_feature_names_out()
    times: dict[int, int] = {}
    for j, _ in columns:
        times[j] = times.get(j, 0) + 1
    contributions, covered = np.zeros(len(spelled)), np.zeros(len(spelled), bool)
    for j, at in columns:
        length = names[j].count(" ") + 1 if isinstance(text, str) else _length(model.vectorizer_, j)
        contributions[at : at + length] += by_column[j] / times[j] / length
        covered[at : at + length] = True
    return tuple(zip(spelled, contributions.tolist(), strict=True)), int((~covered).sum())


def _length(vectorizer: Any, column: int) -> int:
    """The words of a column, by the level it belongs to: a given token may hold spaces itself."""
    lengths = np.cumsum([len(level) for level in vectorizer._kept])
    return int(vectorizer.ngram_range[0] + np.searchsorted(lengths, column, side="right"))


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
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("class", "token", "posterior", "count", "logit", "value"):
            table.add_column(name, justify="left" if name in ("class", "token") else "right")
        for w in self.words:
            table.add_row(
                escape(str(w.label)),
                escape(w.token),
                f"{w.posterior:.3f}",
                number(w.occurrences),
                f"{w.logit:+.2f}",
                f"{w.value:+.2f}",
            )
        return table

    def _title(self) -> str:
        return "The tokens that matter"


def top_tokens(model: AttentionClassifier, n: int = 10, label: Any = None) -> TokenRanking:
    """Rank the n tokens with the largest attention times value for a class, or for each class."""
    n = expect.whole("n", n, 1)
    classes = range(len(model.classes_)) if label is None else [class_number(model, label)]
    names, mass = model.get_feature_names_out(), model._model[:-1, 0]
    total, words = model._counts.sum(axis=1), []
    for k in classes:
        values = column_for(model.values_, k)
        if model.values_.shape[1] > 1:
            values = values - model.values_.mean(axis=1)
        pull = np.where(values > 0, mass * values, -np.inf)
        best = np.argsort(-pull, kind="stable")[:n]
        words += [
            Word(
                str(names[j]),
                model.classes_.tolist()[k],
                float(model._counts[j, k] / total[j]) if total[j] else math.nan,
                float(total[j]),
                float(model.attention_[j]),
                float(values[j]),
            )
            for j in best.tolist()
            if np.isfinite(pull[j])
        ]
    return TokenRanking(tuple(words))


@dataclass(frozen=True, eq=False, repr=False)
class TopKReport(PageOfText):
    """Predictions from the k tokens of each text that tell most, and what is lost by reading no others.

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
        return (
            None
            if self.accuracy is None or self.full_accuracy is None
            else self.full_accuracy - self.accuracy
        )

    def table(self) -> Table:
        """Return a table of the numbers."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_row("tokens kept", f"{self.k}, by {self.by}")
        table.add_row("their share of attention", f"{self.attended:.1%}")
        table.add_row("same class as from all tokens", f"{self.agreement:.1%}")
        if self.accuracy is not None and self.full_accuracy is not None:
            table.add_row("accuracy from these alone", f"{self.accuracy:.2%}")
            table.add_row("accuracy from all tokens", f"{self.full_accuracy:.2%}")
        table.add_row("tokens that hold 90% of attention", f"{self.needed:.0%}")
        return table

    def _title(self) -> str:
        return f"From {self.k} tokens alone"


def evaluate_top_k(
    model: AttentionClassifier, X: Any, y: Any = None, k: int = 10, by: str = "contribution"
) -> TopKReport:
    """Predict from k tokens of each text: the most telling ("contribution") or the most attended."""
    k = expect.whole("k", k, 1)
    expect.one_of("by", by, ("contribution", "attention"))
    rows = model._rows(X)
    scores, attended = model._scores(rows, model._model, k, by == "contribution")
    full = model._labels(model._scores(rows, model._model, model._top)[0])
    short = model._labels(scores)
    needed = np.empty(len(rows))
    compiled.needed(*rows.arrays, model._model, 0.9, needed)
    accuracies: dict[str, float] = {}
    if y is not None:
        truth = np.asarray(y)
        if len(truth) != len(rows):
            raise ValueError(f"y must have {len(rows)} labels, one per text, got {len(truth)}")
        accuracies["accuracy"] = float(np.mean(model.classes_[short] == truth))
        accuracies["full_accuracy"] = float(np.mean(model.classes_[full] == truth))
    return TopKReport(
        k,
        by,
        model.classes_[short],
        float(np.mean(short == full)),
        float(attended.mean()),
        float(needed.mean()),
        **accuracies,
    )


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
    """Return the map for a class; by default the last one."""
    k = len(model.classes_) - 1 if label is None else class_number(model, label)
    return WordMap(
        model.classes_.tolist()[k],
        model.get_feature_names_out(),
        column_for(model.values_, k),
        model.attention_,
        model.statistics_.posterior_difference[:, k],
        model._counts.sum(axis=1),
    )
