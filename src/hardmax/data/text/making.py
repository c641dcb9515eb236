"""Real text to a Corpus: the pipeline of paper A's experiments (A-DATA-6), in parallel and cached."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.text.cache import Arrays, Cache, digest_of, narrow, packed, unpacked
from hardmax.data.text.gathering import Chunk, Source, TextReport, gather
from hardmax.data.text.tokens import (
    WORDS,
    Counted,
    Tokenizer,
    TokenTable,
    count,
    pieces_of,
    read_vocabulary,
    spell,
    spell_by,
    stems,
    stop_words,
)
from hardmax.data.text.words import plain
from hardmax.data.text.workers import Workers

Progress = Callable[[float], None]
LEAST = 50  # occurrences of a token that is kept (A-DATA-6)
# Share of the work that is reading and splitting.
_READING = 0.7


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """Reviews as a `Corpus`, with ``places`` (where each stood among all reviews read) and a ``report``.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("text,stars\\nGood films!,5\\nso so,3\\nA bad film,1\\n")
    ...     made = hm.embeddings.text_corpus(file, least=1)
    >>> made.corpus.vocabulary, made.places.tolist(), made.report.stopped
    (('good', 'film', 'bad'), [0, 2], 1)
    """

    corpus: Corpus
    places: np.ndarray  # (n,)
    report: TextReport
    recipe: Recipe = field(repr=False)

    def tokens(self, texts: Iterable[str]) -> list[list[str]]:
        """New texts as the corpus would take them: cleaned, stemmed, and without words it does not know.

        A single text may be given too. What it gives is for `EmbeddingTraining.predict`.

        >>> import pathlib, tempfile
        >>> import hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("text,stars\\nGood films!,5\\nA bad film,1\\n")
        ...     made = hm.embeddings.text_corpus(file, least=1)
        >>> made.tokens(["A really GOOD film.", "the end"])
        [['good', 'film'], []]
        """
        listed = [texts] if isinstance(texts, str) else list(expect.sequences("texts", texts))
        odd = next((each for each in listed if not isinstance(each, str)), None)
        if odd is not None:
            raise ValueError(f"texts must be a list of strings, got {odd!r:.40}")
        known = set(self.corpus.vocabulary or ())
        with Workers(1) as pool:
            return [[token for token in self.recipe.spell(text, pool) if token in known] for text in listed]


@dataclass(frozen=True)
class Recipe:
    """What is done with the words."""

    stopped: frozenset[str]
    stem: bool
    pieces: dict[str, int] | None
    function: Callable[[str], Iterable[str]] | None
    least: int
    most: int | None

    def key(self, source: str) -> str | None:
        """What the result depends on; a function has no content to go by."""
        if self.function is not None:
            return None
        pieces = None if self.pieces is None else list(self.pieces.items())
        settings = {"stopped": sorted(self.stopped), "stem": self.stem, "pieces": pieces}
        return digest_of(settings | {"least": self.least, "most": self.most, "source": source})

    def spell(self, text: str, pool: Workers) -> list[str]:
        """The tokens of one text."""
        words = [word for word in stems(plain(text).split(), self.stopped, self.stem, pool) if word]
        if self.function is not None:
            return list(self.function(" ".join(words)))
        return [piece for word in pieces_of(words, self.pieces) for piece in word]


def text_corpus(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    text: str | None = None,
    label: str | None = None,
    signs: Mapping[Any, int | None] | None = None,
    characters: tuple[int, int] | None = None,
    sample: int | None = None,
    rng: int = 0,
    stopwords: str | PathLike[str] | None = None,
    stem: bool = True,
    tokenizer: Tokenizer = WORDS,
    least: int = LEAST,
    most: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> TextCorpus:
    """Labelled reviews to a Corpus as in paper A (A-DATA-6): one result whatever the number of ``workers``.

    HTML is stripped and letters lower-cased, punctuation removed, stop words left out (scikit-learn's, or
    those of the file ``stopwords``), words stemmed (Porter) unless ``stem`` is false. ``tokenizer`` is
    "words", the file of a WordPiece vocabulary, or a function from a text, the stems with spaces between
    them, to its tokens. ``most`` cuts each review to its first so many tokens. Tokens with fewer than
    ``least`` occurrences in what is left are purged, and reviews without tokens dropped.

    ``text``, ``label`` and ``signs`` are those of `hardmax.data.read_reviews`. ``characters`` keeps reviews
    whose raw text is at least and at most so long, ``sample`` draws so many of them with the seed ``rng``.
    ``progress`` is called with the share that is done. Finished work is cached, see docs/text.md.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("review,sentiment\\nLoved<br />truly,positive\\nHated it. Hated!,negative\\n")
    ...     made = hm.embeddings.text_corpus(file, least=1)
    >>> made.corpus.vocabulary, made.corpus.matrix.toarray().tolist()
    (('love', 'truli', 'hate'), [[1, 1, 0], [0, 0, 2]])
    """
    source = Source(
        _paths(paths),
        text,
        label,
        signs,
        _lengths(characters),
        None if sample is None else expect.whole("sample", sample, 1),
        expect.whole("rng", rng),
    )
    stopped, notes = stop_words(stopwords)
    recipe = Recipe(
        stopped,
        bool(stem),
        None if callable(tokenizer) or tokenizer == WORDS else read_vocabulary(tokenizer),
        tokenizer if callable(tokenizer) else None,
        expect.whole("least", least, 1),
        None if most is None else expect.whole("most", most, 1),
    )
    count_of = None if workers is None else expect.whole("workers", workers, 1)
    key = source.key()
    cache = Cache(key)
    whole_key = recipe.key(key)
    made = _from_cache(cache, whole_key, recipe)
    if made is None:
        with Workers(count_of) as pool:
            made = _made(source, recipe, cache, pool, progress or (lambda share: None))
        _to_cache(cache, whole_key, made)
    if progress is not None:
        progress(1.0)
    labels = made.corpus.labels
    if (labels == labels[0]).all():
        notes.append(f"all {len(labels):,} reviews of the corpus have the label {labels[0]:+d}")
    if recipe.least == LEAST and made.report.purged > made.report.kept:  # not what somebody chose
        notes.append(_purged(made.report, recipe.least))
        warnings.warn(notes[-1], stacklevel=2)
    notes += [cache.trouble] if cache.trouble is not None else []
    return replace(made, report=replace(made.report, notes=tuple(notes)))


def _purged(report: TextReport, least: int) -> str:
    fewer = max(1, min(least // 2, report.reviews // 100))
    return (
        f"least={least} leaves {report.vocabulary:,} of {report.distinct_tokens:,} distinct tokens, for most "
        f"are rarer in {report.reviews:,} reviews; give a smaller one, such as least={fewer}"
    )


def _paths(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> tuple[Path, ...]:
    listed = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    found = tuple(Path(path) for path in listed)
    if not found:
        raise ValueError("paths must name at least one file, got none")
    missing = next((path for path in found if not path.exists()), None)
    if missing is not None:
        raise ValueError(f"paths: there is no file or folder {missing}")
    return found


def _lengths(characters: tuple[int, int] | None) -> tuple[int, int] | None:
    if characters is None:
        return None
    try:
        least, most = (expect.whole("characters", each) for each in characters)
    except (TypeError, ValueError):
        raise ValueError(
            f"characters must be two integers, such as (1000, 1500), got {characters!r:.40}"
        ) from None
    if least > most:
        raise ValueError(f"characters must be the least and the most, in this order, got {characters}")
    return least, most


def _made(source: Source, recipe: Recipe, cache: Cache, pool: Workers, progress: Progress) -> TextCorpus:
    chunks, passage = gather(source, cache, pool, lambda share: progress(_READING * share))
    if not chunks:
        raise ValueError(
            f"no review is left of {passage.read:,}: {passage.unlabelled:,} without a label, "
            f"{passage.short:,} too short, {passage.long:,} too long"
        )
    words, numbers = _joined(chunks)
    progress(_READING)
    stemmed = stems(words, recipe.stopped, recipe.stem, pool)
    progress(0.85)
    labels = np.concatenate([chunk.labels for chunk in chunks])
    counted = _counted(chunks, numbers, stemmed, labels, recipe)
    is_stopped = np.array([word in recipe.stopped for word in words])
    report = TextReport(
        **asdict(passage),
        emptied=len(labels) - counted.corpus.n,
        reviews=counted.corpus.n,
        words=sum(len(each) for each in numbers),
        distinct_words=len(words),
        stopped=int(sum(is_stopped[each].sum() for each in numbers)),
        tokens=counted.tokens,
        cut=counted.cut,
        purged=counted.purged,
        kept=int(counted.corpus.counts.sum()),
        distinct_tokens=counted.distinct,
        vocabulary=counted.corpus.S,
    )
    corpus = replace(counted.corpus, written=_written(counted.corpus, words, numbers, stemmed))
    places = np.concatenate([chunk.places for chunk in chunks])[counted.kept]
    return TextCorpus(corpus, places, report, recipe)


def _written(
    corpus: Corpus, words: list[str], numbers: list[np.ndarray], stemmed: list[str]
) -> tuple[str, ...]:
    """Each token as it is written most often; a piece of words, or a user's own token, stays as it is."""
    often = np.bincount(np.concatenate(numbers), minlength=len(words))
    form: dict[str, str] = {}
    for at in np.argsort(-often, kind="stable").tolist():
        form.setdefault(stemmed[at], words[at])
    return tuple(form.get(token, token) for token in corpus.vocabulary or ())


def _joined(chunks: list[Chunk]) -> tuple[list[str], list[np.ndarray]]:
    """One list of distinct words for all chunks, and each chunk's words as places in it."""
    number: dict[str, int] = {}
    numbers = []
    for chunk in chunks:
        places = np.array([number.setdefault(word, len(number)) for word in chunk.words], np.int64)
        numbers.append(places[chunk.numbers])
    return list(number), numbers


def _counted(
    chunks: list[Chunk], numbers: list[np.ndarray], stemmed: list[str], labels: np.ndarray, recipe: Recipe
) -> Counted:
    if recipe.function is not None:
        found: dict[str, int] = {}
        spelled = spell_by(recipe.function, chunks, numbers, stemmed, found)
        return count(spelled, labels, found, least=recipe.least, most=recipe.most)
    table = TokenTable.of(pieces_of(stemmed, recipe.pieces))
    spelled = spell(chunks, numbers, table)
    return count(spelled, labels, table.vocabulary, least=recipe.least, most=recipe.most)


# -- the finished corpus in the cache ---------------------------------------------------------------------


def _to_cache(cache: Cache, key: str | None, made: TextCorpus) -> None:
    if key is None:
        return
    corpus = made.corpus
    assert corpus.vocabulary is not None
    arrays: Arrays = {
        "tokens": narrow(corpus.tokens),
        "counts": narrow(corpus.counts),
        "offsets": corpus.offsets,
        "labels": corpus.labels,
        "vocabulary": packed(corpus.vocabulary),
        "places": made.places,
        "report": packed([json.dumps(asdict(made.report))]),
        "written": packed(corpus.written or ()),
    }
    cache.write(f"corpus-{key[:32]}", arrays)


def _from_cache(cache: Cache, key: str | None, recipe: Recipe) -> TextCorpus | None:
    found = None if key is None else cache.read(f"corpus-{key[:32]}")
    if found is None:
        return None
    vocabulary = tuple(unpacked(found["vocabulary"]))
    found |= {"tokens": found["tokens"].astype(np.intp), "counts": found["counts"].astype(np.int64)}
    for array in found.values():
        array.setflags(write=False)
    corpus = Corpus(
        found["tokens"],
        found["counts"],
        found["offsets"],
        found["labels"],
        len(vocabulary),
        vocabulary,
        tuple(unpacked(found["written"])),
    )
    report = json.loads(unpacked(found["report"])[0]) | {"notes": ()}
    return TextCorpus(corpus, found["places"], TextReport(**report), recipe)
