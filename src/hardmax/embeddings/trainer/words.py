"""What a trained one-layer model says: which words matter, and what it makes of a new text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hardmax import _inputs
from hardmax._notebook import table
from hardmax.embeddings.corpus import Corpus


class Word(NamedTuple):
    """A word: E p, its claim to attention; E v, the verdict it stands for; how often and how one-sided."""

    word: str
    attention: float
    value: float
    occurrences: int
    posterior_difference: float


class Words(tuple[Word, ...]):
    """Words in order, printed and shown as a table."""

    NAMES = ("word", "E p", "E v", "count", "x")

    def __str__(self) -> str:
        width = max((len(each.word) for each in self), default=4)
        head = "{:<{w}}  {:>9}  {:>9}  {:>7}  {:>6}".format(*self.NAMES, w=max(width, 4))
        rows = (
            f"{w.word:<{max(width, 4)}}  {w.attention:9.4f}  {w.value:+9.4f}  {w.occurrences:7,}  "
            f"{w.posterior_difference:+6.2f}"
            for w in self
        )
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        return table("Words", self.NAMES, self)


class Verdict(NamedTuple):
    """What the model says of a text, and the word that it attends to most.

    ``score`` is the output of the model, ``probability`` that of the label +1; ``label`` is their sign. A
    text without a word that the model knows has no label (None) and the score nan.
    """

    label: int | None
    score: float
    probability: float
    word: str | None
    weight: float


def top_words(corpus: Corpus, a: np.ndarray, c: np.ndarray, count: int, by: str) -> Words:
    """The words with the largest E p ("attention"), E v ("positive") or -E v ("negative")."""
    order = {"attention": -a, "positive": -c, "negative": c}[by]
    seen = corpus.statistics.total > 0
    best = [s for s in np.argsort(order, kind="stable").tolist() if seen[s]][:count]
    totals, x = corpus.statistics.total, corpus.posterior_difference
    return Words(Word(corpus.word(s), float(a[s]), float(c[s]), int(totals[s]), float(x[s])) for s in best)


def verdicts(corpus: Corpus, a: np.ndarray, c: np.ndarray, sequences: Iterable[Any]) -> Iterator[Verdict]:
    """The model's output for each sequence: the mean of E v, weighted by the softmax of E p."""
    number = {word: s for s, word in enumerate(corpus.vocabulary or ())}
    for k, sequence in enumerate(_inputs.sequences("sequences", sequences)):
        words = sequence.split() if isinstance(sequence, str) else _inputs.values(sequence)
        if words is None:
            raise ValueError(
                f"sequences[{k}] must be a string or a list of words or numbers, got {sequence!r:.40}"
            )
        tokens = [_number(each, number, corpus, k) for each in words]
        known = np.array([s for s in tokens if s is not None], np.intp)
        if not known.size:
            yield Verdict(None, math.nan, math.nan, None, math.nan)
            continue
        weights = np.exp(a[known] - a[known].max())
        weights /= weights.sum()
        score = float(weights @ c[known])
        per_token = np.bincount(known, weights=weights, minlength=corpus.S)
        top = int(per_token.argmax())
        small = math.exp(-abs(score))
        probability = (1.0 if score >= 0 else small) / (1 + small)
        yield Verdict(
            1 if score > 0 else -1 if score < 0 else 0, score, probability, corpus.word(top),
            float(per_token[top]),
        )  # fmt: skip


def _number(token: str | int, number: dict[str, int], corpus: Corpus, k: int) -> int | None:
    """The token's number; None for a word that the corpus does not have."""
    if isinstance(token, str):
        if corpus.vocabulary is None:
            raise ValueError(f"sequences[{k}] holds words and the corpus only numbers; give token numbers")
        return number.get(token)
    if isinstance(token, (int, np.integer)) and 0 <= token < corpus.S:
        return int(token)
    raise ValueError(
        f"sequences[{k}] must hold words, or numbers from 0 to {corpus.S - 1}, got {token!r:.40}"
    )
