"""The data of figures 1, 3 and 4: reviews of IMDB and Yelp where they are at hand, else A-DATA-7."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hardmax.data.reviews import find_reviews
from hardmax.data.text.making import LEAST
from hardmax.embeddings import Corpus, KLevel, TextCorpus, imdb_corpus, yelp_corpus
from hardmax.figures.figure import Setting
from hardmax.figures.paper_a.training import SEED

Source = Literal["IMDB", "Yelp"]
SOURCES: tuple[Source, ...] = ("IMDB", "Yelp")
SURROGATE_SEQUENCES = 512
NO_FOLDER = "no folder of real data was given; hardmax reproduce --data DIR takes the reviews from there."


@dataclass(frozen=True, eq=False)
class Reviews:
    """A corpus for a figure: what it is, in words for the figure, and notes to stand beside it.

    ``drawn_from`` is the generator of data that stand in for text, None for text.
    """

    name: str
    corpus: Corpus
    says: str
    notes: tuple[str, ...]
    drawn_from: KLevel | None = None


def surrogate(source: Source, why: str) -> Reviews:
    """A-DATA-7, another draw for each source, and ``why`` it stands here."""
    model = KLevel.surrogate()
    corpus = model.draw(SURROGATE_SEQUENCES, rng=np.random.default_rng([SEED, SOURCES.index(source)]))
    note = (
        f"{source}: {why} Drawn is the surrogate A-DATA-7, {corpus.n} sequences of {corpus.T} tokens of the "
        "K-level model with four levels: it shows the shapes, and is no evidence about reviews."
    )
    return Reviews(f"{source} surrogate", corpus, f"surrogate data, A-DATA-7: not {source}", (note,), model)


def reviews_of(
    source: Source, setting: Setting, *, most: int | None = None, sample: int | None = None
) -> Reviews:
    """The reviews in the folder of real data, or the surrogate with the reason why they cannot be had.

    ``most`` is the number of tokens after which a review is cut, ``sample`` that of the reviews to draw.
    """
    if setting.data is None:
        return surrogate(source, NO_FOLDER)
    try:
        find_reviews(setting.data, source.lower())
    except ValueError as missing:
        return surrogate(source, f"{missing}; or name another folder by --data DIR.")
    read = imdb_corpus if source == "IMDB" else yelp_corpus
    text = read(
        setting.data,
        most=most,
        progress=lambda share: setting.progress(0.0, f"reading {source}, {share:.0%}"),
    )
    whole = text.corpus
    corpus = whole if sample is None or sample >= whole.n else draw_reviews(whole, sample)
    part = "" if corpus is whole else f" of {whole.n:,}"
    says = f"{source}, {corpus.n:,}{part} reviews, {corpus.S:,} tokens"
    return Reviews(source, corpus, says, (f"{source}: {told(text)}",))


def told(text: TextCorpus) -> str:
    """What became of the reviews, in a sentence, and the notes of the pipeline."""
    report = text.report
    left_out = {
        "without a label or with three stars": report.unlabelled,
        "too short": report.short,
        "too long": report.long,
        "not drawn": report.unsampled,
        "emptied": report.emptied,
    }
    reasons = ", ".join(f"{number:,} {why}" for why, number in left_out.items() if number)
    positive = np.mean(text.corpus.labels > 0)
    first = (
        f"{report.read:,} reviews read, {reasons or 'none'} left out, {report.reviews:,} kept, of which "
        f"{positive:.0%} are positive; {report.vocabulary:,} tokens occur at least {LEAST} times."
    )
    return " ".join([first, *(f"{note[:1].upper()}{note[1:]}." for note in report.notes)])


def draw_reviews(corpus: Corpus, number: int) -> Corpus:
    """Some reviews at random; tokens are purged and emptied reviews dropped as in the whole (A-DATA-6)."""
    chosen = np.sort(np.random.default_rng(SEED).choice(corpus.n, number, replace=False))
    counts = corpus.matrix[chosen]
    kept = np.flatnonzero(counts.sum(axis=0) >= LEAST)
    counts = counts[:, kept]
    full = np.flatnonzero(counts.sum(axis=1))
    words, written = (
        None if names is None else tuple(names[s] for s in kept)
        for names in (corpus.vocabulary, corpus.written)
    )
    return replace(Corpus.from_counts(counts[full], corpus.labels[chosen[full]], words), written=written)
