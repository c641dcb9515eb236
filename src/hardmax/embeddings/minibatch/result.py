"""A trained model of paper A: its parameters and losses, and its results for tokens, words and texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.notebook import table
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.generators import KLevel
from hardmax.dynamics.run import Run


class TrainedWord(NamedTuple):
    """A word with its logit E p, its value E v, how often it occurs and its posterior difference."""

    word: str
    attention: float
    value: float
    occurrences: int
    posterior_difference: float


class Words(tuple[TrainedWord, ...]):
    """Words in order, printed and shown as a table."""

    NAMES = ("word", "E p", "E v", "count", "x")

    def __str__(self) -> str:
        width = max(4, max((len(w.word) for w in self), default=4))
        head = "{:<{w}}  {:>9}  {:>9}  {:>7}  {:>6}".format(*self.NAMES, w=width)
        rows = (
            f"{w.word:<{width}}  {w.attention:9.4f}  {w.value:+9.4f}  {w.occurrences:7,}  "
            f"{w.posterior_difference:+6.2f}"
            for w in self
        )
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        return table("Words", self.NAMES, self)


class TextVerdict(NamedTuple):
    """The verdict of the model on a text, and the word that it attends to most.

    ``score`` is the output of the model, ``probability`` that of the label +1; ``label`` is their sign. A
    text without a known word has no label (None) and the score nan.
    """

    label: int | None
    score: float
    probability: float
    word: str | None
    weight: float


def verdicts(corpus: Corpus, a: np.ndarray, c: np.ndarray, sequences: Iterable[Any]) -> Iterator[TextVerdict]:
    """The model's output for each sequence: the mean of E v, weighted by the softmax of E p."""
    from scipy.special import softmax

    number = {word: s for s, word in enumerate(corpus.vocabulary or ())}
    for k, sequence in enumerate(expect.sequences("sequences", sequences)):
        words = sequence.split() if isinstance(sequence, str) else expect.values(sequence)
        if words is None:
            raise ValueError(
                f"sequences[{k}] must be a string or a list of words or numbers, got {sequence!r:.40}"
            )
        numbers = [_number(word, number, corpus, k) for word in words]
        tokens = np.array([s for s in numbers if s is not None], np.intp)
        if not tokens.size:
            yield TextVerdict(None, math.nan, math.nan, None, math.nan)
            continue
        weights = softmax(a[tokens])
        score = float(weights @ c[tokens])
        per_token = np.bincount(tokens, weights=weights, minlength=corpus.S)
        top = int(per_token.argmax())
        small = math.exp(-abs(score))
        probability = (1.0 if score >= 0 else small) / (1 + small)
        label = (score > 0) - (score < 0)
        yield TextVerdict(label, score, probability, corpus.word(top), float(per_token[top]))


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


class Deciles(NamedTuple):
    """Median of E p over the tenth of the tokens with the largest |x|, and over that with the smallest."""

    top: float
    bottom: float


class Following:
    """Measures on x (nan for a token that never occurs), logits a = E p and values c = E v."""

    x: Any  # (S,) posterior difference minus the mean label: an uninformative token has x = 0
    a: np.ndarray  # (S,)
    c: np.ndarray  # (S,)

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


class LevelMeans(NamedTuple):
    """Means over the tokens of each level 1..K: of sign E v and of E p; and of E p over irrelevant tokens."""

    value: np.ndarray  # (K,)
    logit: np.ndarray  # (K,)
    irrelevant_logit: float


@dataclass(frozen=True, eq=False)
class TokenObservables(Following):
    """Logits a = E p and values c = E v of a corpus's tokens after some epochs of training.

    Everything is taken over the tokens that occur, with x the posterior difference (A-DATA-2) minus the mean
    label, so that an uninformative token has x = 0.
    """

    corpus: Corpus
    epochs: int
    a: np.ndarray  # (S,) float64
    c: np.ndarray  # (S,) float64

    @cached_property
    def x(self) -> np.ndarray:
        """Posterior difference minus the mean label; nan for a token that never occurs."""
        return self.corpus.posterior_difference - self.corpus.signs.mean()

    def pearson(self, relevant: np.ndarray) -> float:
        """Pearson correlation of x and E v over the tokens of a mask, such as ``model.level > 0``."""
        chosen = self._seen & relevant
        return pearson(self.x[chosen], self.c[chosen])

    def top(self, count: int = 10, by: str = "attention") -> Words:
        """The words that matter: the largest E p, which attention selects; or "positive", "negative" E v."""
        orders = {"attention": -self.a, "positive": -self.c, "negative": self.c}
        order, count = orders[expect.one_of("by", by, tuple(orders))], expect.whole("count", count, 1)
        corpus, total, x = self.corpus, self.corpus.total, self.corpus.posterior_difference
        best = [s for s in np.argsort(order, kind="stable").tolist() if total[s] > 0][:count]
        return Words(
            TrainedWord(corpus.word(s), float(self.a[s]), float(self.c[s]), int(total[s]), float(x[s]))
            for s in best
        )

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


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingTraining(Run, TokenObservables):
    """A training by mini-batches: its parameters and observables at the end, and the loss of every step.

    ``losses`` holds the mean loss of the batch of each step, before it; ``event`` is "loss reached" where the
    mean of an epoch fell to ``until_loss``, and begins with "diverged" where E, p or v became infinite: the
    observables are then those of the last snapshot before that. ``snapshots`` are the observables after 0, 1,
    2, 5, 10, 20, 50, ... epochs and at the end; no vectors are kept on the way, so ``points`` is None.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
    >>> trained = hm.train(corpus.model(d=8), hm.optim.AdamW(0.1), epochs=20, batch=4, rng=0)
    >>> [corpus.word(s) for s in trained.c.argsort()], trained.epochs, trained.event
    (['bad', 'film', 'good'], 20, None)
    """

    E: np.ndarray = field(kw_only=True)  # (S, d)
    v: np.ndarray = field(kw_only=True)  # (d,)
    loss: float = field(kw_only=True)  # of the trained model on the whole corpus
    mass: float = field(kw_only=True)  # mean over the sequences of the largest share of attention of a token
    snapshots: tuple[TokenObservables, ...] = field(kw_only=True)
    batch: int = field(kw_only=True)
    layers: int = field(kw_only=True, default=1)
    scale: float = field(kw_only=True, default=1.0)  # before the logits of the readout
    first_scale: float = field(kw_only=True, default=1.0)  # before those of the first softmax of two layers

    def predict(self, sequences: Iterable[Any]) -> list[TextVerdict]:
        """Predict the labels of new sequences, words or token numbers; unknown words are ignored.

        Texts that went through `text_corpus` are asked about by their tokens: ``trained.predict(
        made.tokens(["A new review."]))``.

        >>> import hardmax as hm
        >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
        >>> step = hm.optim.AdamW(0.1)
        >>> trained = hm.embeddings.minibatch.train_embeddings(corpus, 8, step, epochs=20, batch=4, rng=0)
        >>> [(each.label, each.word) for each in trained.predict(["a good book", "bad bad film", "so so"])]
        [(1, 'good'), (-1, 'bad'), (None, None)]
        """
        if self.layers != 1:
            raise ValueError(
                "predict is that of the one-layer model; for two layers use TwoLayerNetwork on E, p, v"
            )
        if isinstance(sequences, str):
            sequences = [sequences]
        return list(verdicts(self.corpus, self.scale * self.a, self.c, sequences))

    @cached_property
    def epoch_losses(self) -> np.ndarray:
        """Loss curve: mean over the sequences of each epoch, in the order of training."""
        return mean_by_epoch(self.losses, self.corpus.n, self.batch)


def mean_by_epoch(losses: np.ndarray, n: int, batch: int) -> np.ndarray:
    """Batch losses averaged over each epoch's n sequences; the last batch of an epoch may be smaller."""
    first = np.arange(0, n, batch)
    share = np.minimum(batch, n - first) / n
    whole = len(losses) // len(first) * len(first)  # a training that diverged ends within an epoch
    return np.asarray(losses)[:whole].reshape(-1, len(first)) @ share
