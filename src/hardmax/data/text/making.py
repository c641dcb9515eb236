"""Real text to a Corpus: the pipeline of paper A's experiments, in parallel and cached."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.json import attributes
from hardmax._lib.progress import Progress, by_share
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.reviews import find_reviews
from hardmax.data.text.gathering import Cache, Chunk, Source, TextReport, TextWorkers, digest_of, gather
from hardmax.data.text.words import plain

WORDS = "words"
BLOCK = 5000  # words stemmed at a time
Tokenizer = str | PathLike[str] | Callable[[str], Iterable[str]]


def missing(package: str, what: str, error: ImportError) -> ImportError:
    """Return an error that names a missing package and how to install it."""
    return ImportError(f"{what} needs {package} ({error}): {install('text')}")


def stop_words(stopwords: str | PathLike[str] | None) -> tuple[frozenset[str], list[str]]:
    """Return the words to leave out, scikit-learn's by default or those of a file, and notes about them."""
    if stopwords is None:
        try:
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
        except ImportError as error:
            raise missing("scikit-learn", "the list of stop words", error) from error
        return frozenset(ENGLISH_STOP_WORDS), []
    try:
        words = frozenset(Path(stopwords).read_text(encoding="utf-8-sig").lower().split())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"stopwords must be a file of words in UTF-8, got {stopwords} ({error})") from None
    marked = sorted(word for word in words if plain(word) != word)
    notes = [
        f"{len(marked)} of {len(words)} stop words hold punctuation, such as {word!r}, and match nothing: "
        "punctuation is removed first; write them without it to leave them out"
        for word in marked[:1]
    ]
    return words, notes


def read_vocabulary(path: str | PathLike[str]) -> dict[str, int]:
    """Read a vocabulary of WordPiece: one piece per line, numbered from 0."""
    try:
        content = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"tokenizer must be 'words', a function, or a WordPiece vocabulary in UTF-8, got {path} ({error})"
        ) from None
    pieces = [line.rstrip("\r") for line in content.removesuffix("\n").split("\n")]
    if "[UNK]" not in pieces:
        raise ValueError(f"{path} is not a WordPiece vocabulary: a line [UNK], for unknown words, is missing")
    return {piece: number for number, piece in enumerate(pieces)}


def token_table(pieces: Iterable[Iterable[str]]) -> tuple[list[str], csr_array]:
    """Number tokens in order of first appearance; return them, and a row of numbers for every word."""
    number: dict[str, int] = {}
    numbers = [[number.setdefault(piece, len(number)) for piece in word] for word in pieces]
    flat = np.array([token for word in numbers for token in word], np.int64)
    offsets = np.cumsum([0, *map(len, numbers)])
    return list(number), csr_array((flat, flat, offsets), shape=(len(numbers), max(len(number), 1)))


def stems(words: list[str], stopped: frozenset[str], stem: bool, workers: TextWorkers) -> list[str]:
    """Return the stem of every word; empty for a stop word."""
    remaining = [word for word in words if word not in stopped]
    stemmed: Iterable[str] = remaining
    if stem:
        try:
            import snowballstemmer  # noqa: F401  # the workers need it
        except ImportError as error:
            raise missing("snowballstemmer", "stemming", error) from error
        blocks = [remaining[at : at + BLOCK] for at in range(0, len(remaining), BLOCK)]
        stemmed = chain.from_iterable(workers.run("stem", blocks))
    stem_of = dict(zip(remaining, stemmed, strict=True))
    return [stem_of.get(word, "") for word in words]


def pieces_of(words: list[str], vocabulary: dict[str, int] | None) -> list[list[str]]:
    """Return the tokens of every word: its pieces in a vocabulary of WordPiece, or the word itself."""
    if vocabulary is None:
        return [[word] if word else [] for word in words]
    distinct = list(dict.fromkeys(words))
    encoded = _wordpiece(vocabulary).encode_batch(distinct, add_special_tokens=False)
    pieces = {word: encoding.tokens for word, encoding in zip(distinct, encoded, strict=True)}
    return [pieces[word] for word in words]


def _wordpiece(vocabulary: dict[str, int]) -> Any:
    try:
        from tokenizers import Tokenizer
        from tokenizers.models import WordPiece
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer
    except ImportError as error:
        raise missing("tokenizers", "a WordPiece vocabulary", error) from error
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


# A chunk of reviews as tokens: numbers of all tokens in order, and how many each review has.
Spelled = tuple[np.ndarray, np.ndarray]


def spell(chunks: Iterable[Chunk], numbers: Iterable[np.ndarray], table: csr_array) -> Iterator[Spelled]:
    """Yield the tokens of every chunk; ``numbers`` are its words in the table of distinct words."""
    for chunk, words in zip(chunks, numbers, strict=True):
        rows = table[words]
        ends = rows.indptr[np.cumsum([0, *chunk.sizes])]
        yield rows.data, np.diff(ends)


def spell_by(
    function: Callable[[str], Iterable[str]],
    chunks: Iterable[Chunk],
    numbers: Iterable[np.ndarray],
    stems: list[str],
    vocabulary: dict[str, int],
) -> Iterator[Spelled]:
    """Yield the tokens that a user's function finds in each review, given its stems with spaces between.

    ``vocabulary`` grows by the tokens that are new.
    """
    for chunk, words in zip(chunks, numbers, strict=True):
        tokens, sizes = [], []
        for part in np.split(words, np.cumsum(chunk.sizes)[:-1]):
            listed = _listed(function(" ".join(stems[word] for word in part if stems[word])))
            tokens += [vocabulary.setdefault(token, len(vocabulary)) for token in listed]
            sizes.append(len(listed))
        yield np.array(tokens, np.int64), np.array(sizes, np.int64)


def _listed(tokens: Any) -> list[str]:
    """Return the tokens of a user's function; a string would become its letters, a dictionary its keys."""
    if isinstance(tokens, Iterable) and not isinstance(tokens, (str, Mapping)):
        listed = list(tokens)
        if all(isinstance(token, str) for token in listed):
            return listed
    raise ValueError(
        f"tokenizer must give the tokens of a text as a list of strings, got {expect._short(tokens)}"
    )


def count(
    spelled: Iterable[Spelled], labels: np.ndarray, vocabulary: Iterable[str], *, least: int, most: int | None
) -> tuple[Corpus, np.ndarray, dict[str, Any]]:
    """Count tokens, leaving out those after the first ``most`` of a review and then the rare ones.

    Return the corpus, the position of each of its reviews among the counted ones, and fields of the report.

    The cut comes first, as a part of tokenizing: a model that takes this many tokens takes the first ones of
    the text, and a token is rare or not in what is left to learn from. ``vocabulary`` may grow while the
    tokens are read.
    """
    everything, cut, parts = 0, 0, []
    for tokens, lengths in spelled:
        everything += len(tokens)
        if most is not None:
            first = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths) < most
            tokens, lengths = tokens[first], np.minimum(lengths, most)
            cut += len(first) - len(tokens)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        shape = (len(lengths), int(tokens.max(initial=0)) + 1)
        parts.append(csr_array((np.ones(len(tokens), np.int64), tokens, offsets), shape=shape))
        parts[-1].sum_duplicates()
    words = list(vocabulary)
    for part in parts:
        part.resize(part.shape[0], len(words))
    matrix = vstack(parts, format="csr")
    total = matrix.sum(axis=0)
    if not total.any():
        raise ValueError(f"no token is left in {len(labels):,} reviews: their texts are blank, or stop words")
    common = total >= least
    if not common.any():
        raise ValueError(
            f"min_count: no token occurs at least {least} times among {int(total.sum()):,}, the most "
            f"frequent occurs {int(total.max(initial=0))} times; lower min_count or read more reviews"
        )
    matrix = matrix[:, common]
    remaining = np.flatnonzero(np.diff(matrix.indptr))
    names = [word for word, is_frequent in zip(words, common, strict=True) if is_frequent]
    purged, distinct = int(total[~common].sum()), int((total > 0).sum())
    report = {"tokens": everything, "cut": cut, "purged": purged, "distinct_tokens": distinct}
    return Corpus.from_counts(matrix[remaining], labels[remaining], names), remaining, report


LEAST = 50  # occurrences of a token that is kept
# Share of the work that is reading and splitting.
_READING = 0.7


@dataclass(frozen=True, eq=False)
class TextCorpus:
    r"""Reviews as a `Corpus`, with ``places`` (the index of each among all reviews read) and a ``report``.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("text,stars\nGood films!,5\nso so,3\nA bad film,1\n")
    ...     result = hm.embeddings.text_corpus(file, min_count=1)
    >>> result.corpus.vocabulary, result.places.tolist(), result.report.stopped
    (('good', 'film', 'bad'), [0, 2], 1)
    """

    corpus: Corpus
    places: np.ndarray  # (n,)
    report: TextReport
    recipe: WordRecipe = field(repr=False)

    def tokens(self, texts: Iterable[str]) -> list[list[str]]:
        r"""Convert new texts to tokens of the corpus: cleaned, stemmed, and without unknown words.

        A single text may be given too. `EmbeddingTraining.predict` takes the result.

        >>> import pathlib, tempfile
        >>> import hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("text,stars\nGood films!,5\nA bad film,1\n")
        ...     result = hm.embeddings.text_corpus(file, min_count=1)
        >>> result.tokens(["A really GOOD film.", "the end"])
        [['good', 'film'], []]
        """
        listed = [texts] if isinstance(texts, str) else list(expect.sequences("texts", texts))
        odd = next((item for item in listed if not isinstance(item, str)), None)
        if odd is not None:
            raise ValueError(f"texts must be a list of strings, got {odd!r:.40}")
        vocabulary = set(self.corpus.vocabulary or ())
        with TextWorkers(1) as pool:
            spelled = [self.recipe.spell(text, pool) for text in listed]
        return [[token for token in tokens if token in vocabulary] for tokens in spelled]


@dataclass(frozen=True)
class WordRecipe:
    """How words become tokens."""

    stopped: frozenset[str]
    stem: bool
    pieces: dict[str, int] | None
    function: Callable[[str], Iterable[str]] | None
    least: int
    most: int | None

    def key(self, source: str) -> str | None:
        """Return a digest of what the result depends on; None for a function, which has no digest."""
        if self.function is not None:
            return None
        pieces = None if self.pieces is None else list(self.pieces.items())
        settings = {**vars(self), "stopped": sorted(self.stopped), "pieces": pieces, "source": source}
        del settings["function"]
        return digest_of(settings)

    def spell(self, text: str, pool: TextWorkers) -> list[str]:
        """Return the tokens of one text."""
        words = [word for word in stems(plain(text).split(), self.stopped, self.stem, pool) if word]
        if self.function is not None:
            return list(self.function(" ".join(words)))
        return [piece for word in pieces_of(words, self.pieces) for piece in word]


@check_arguments
def text_corpus(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    text: str | None = None,
    label: str | None = None,
    label_map: Mapping[Any, int | None] | None = None,
    char_range: tuple[int, int] | None = None,
    sample: int | None = None,
    rng: int = 0,
    stopwords: str | PathLike[str] | None = None,
    stem: bool = True,
    tokenizer: Tokenizer = WORDS,
    min_count: int = LEAST,
    max_tokens: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> TextCorpus:
    r"""Turn labeled texts into a Corpus as in paper A; the result does not depend on ``workers``.

    HTML is stripped and letters lower-cased, punctuation removed, stop words left out (scikit-learn's, or
    those of the file ``stopwords``), words stemmed (Porter) unless ``stem`` is false. ``tokenizer`` is
    "words", the file of a WordPiece vocabulary, or a function from a text, the stems with spaces between
    them, to its tokens. Finished work is cached.

    Args:
        paths: file or files of labeled reviews, as `hardmax.data.read_reviews` takes them.
        text: name of the column of texts.
        label: name of the column of labels.
        label_map: meaning of each label: 1, -1, or None to skip the review.
        char_range: shortest and longest raw text to keep, in characters.
        sample: number of reviews to draw at random.
        rng: seed of that draw.
        stopwords: file of words to leave out; scikit-learn's list by default.
        stem: whether words are stemmed.
        tokenizer: how a text becomes tokens.
        min_count: drop tokens that occur less often in the whole corpus, and reviews left without tokens.
        max_tokens: truncate each review to this length, before rare tokens are dropped.
        workers: number of processes; the result does not depend on it.
        progress: called as ``progress(done, total)``.

    Returns:
        The corpus, the place of each review in the files, and a report of what was left out.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("review,sentiment\nLoved<br />truly,positive\nHated it. Hated!,negative\n")
    ...     result = hm.embeddings.text_corpus(file, min_count=1)
    >>> result.corpus.vocabulary, result.corpus.matrix.toarray().tolist()
    (('love', 'truli', 'hate'), [[1, 1, 0], [0, 0, 2]])
    """
    source = Source(
        _paths(paths),
        text,
        label,
        label_map,
        _lengths(char_range),
        None if sample is None else expect.whole("sample", sample, 1),
        expect.whole("rng", rng),
    )
    stopped, notes = stop_words(stopwords)
    recipe = WordRecipe(
        stopped,
        bool(stem),
        None if callable(tokenizer) or tokenizer == WORDS else read_vocabulary(tokenizer),
        tokenizer if callable(tokenizer) else None,
        expect.whole("min_count", min_count, 1),
        None if max_tokens is None else expect.whole("max_tokens", max_tokens, 1),
    )
    processes = None if workers is None else expect.whole("workers", workers, 1)
    key, report = source.key(), by_share(progress)
    cache = Cache(key)
    whole_key = recipe.key(key)
    result = _from_cache(cache, whole_key, recipe)
    if result is None:
        with TextWorkers(processes) as pool:
            result = _read_corpus(source, recipe, cache, pool, report)
        _to_cache(cache, whole_key, result)
    report(1.0)
    labels = result.corpus.labels
    if (labels == labels[0]).all():
        notes.append(f"all {len(labels):,} reviews of the corpus have the label {labels[0]:+d}")
    if recipe.least == LEAST and result.report.purged > result.report.kept:  # the default is to blame
        total = result.report.reviews
        notes.append(
            f"min_count={LEAST} leaves {result.report.vocabulary:,} of {result.report.distinct_tokens:,} "
            f"distinct tokens; most occur less often in {total:,} reviews; give a smaller one, such as "
            f"min_count={max(1, min(LEAST // 2, total // 100))}"
        )
        warnings.warn(notes[-1], stacklevel=2)
    notes += [cache.trouble] if cache.trouble is not None else []
    return replace(result, report=replace(result.report, notes=tuple(notes)))


def _paths(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> tuple[Path, ...]:
    listed = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    files = tuple(Path(path) for path in listed)
    if not files:
        raise ValueError("paths must name at least one file, got none")
    missing = next((path for path in files if not path.exists()), None)
    if missing is not None:
        raise FileNotFoundError(2, "No such file or directory", str(missing))
    return files


def _lengths(char_range: tuple[int, int] | None) -> tuple[int, int] | None:
    if char_range is None:
        return None
    try:
        least, most = (expect.whole("char_range", bound) for bound in char_range)
    except (TypeError, ValueError):
        raise ValueError(
            f"char_range must be two integers, such as (1000, 1500), got {char_range!r:.40}"
        ) from None
    if least > most:
        raise ValueError(f"char_range must be the shortest and the longest, in this order, got {char_range}")
    return least, most


def _read_corpus(
    source: Source, recipe: WordRecipe, cache: Cache, pool: TextWorkers, report: Callable[[float], None]
) -> TextCorpus:
    chunks, passage = gather(source, cache, pool, lambda share: report(_READING * share))
    if not chunks:
        raise ValueError(
            f"no review is left of {passage['read']:,}: {passage['unlabelled']:,} without a label, "
            f"{passage['short']:,} too short, {passage['long']:,} too long"
        )
    number: dict[str, int] = {}
    numbers = []  # the words of each chunk, as places among all distinct words
    for chunk in chunks:
        places = np.array([number.setdefault(word, len(number)) for word in chunk.words], np.int64)
        numbers.append(places[chunk.numbers])
    words = list(number)
    report(_READING)
    stemmed = stems(words, recipe.stopped, recipe.stem, pool)
    report(0.85)
    vocabulary: Iterable[str]
    if recipe.function is not None:
        vocabulary = dict[str, int]()  # grows while tokens are read
        spelled = spell_by(recipe.function, chunks, numbers, stemmed, vocabulary)
    else:
        vocabulary, table = token_table(pieces_of(stemmed, recipe.pieces))
        spelled = spell(chunks, numbers, table)
    labels = np.concatenate([chunk.labels for chunk in chunks])
    corpus, remaining, counts = count(spelled, labels, vocabulary, least=recipe.least, most=recipe.most)
    occurrences = np.bincount(np.concatenate(numbers), minlength=len(words))
    outcome = TextReport(
        **passage,
        **counts,
        emptied=len(labels) - corpus.n,
        reviews=corpus.n,
        words=int(occurrences.sum()),
        distinct_words=len(words),
        stopped=int(occurrences[[word in recipe.stopped for word in words]].sum()),
        kept=int(corpus.counts.sum()),
        vocabulary=corpus.S,
    )
    form: dict[str, str] = {}  # each token as it is written most often
    for at in np.argsort(-occurrences, kind="stable").tolist():
        form.setdefault(stemmed[at], words[at])
    written = tuple(form.get(token, token) for token in corpus.vocabulary or ())
    places = np.concatenate([chunk.places for chunk in chunks])[remaining]
    return TextCorpus(replace(corpus, written=written), places, outcome, recipe)


def _to_cache(cache: Cache, key: str | None, result: TextCorpus) -> None:
    if key is None:
        return
    corpus = result.corpus
    fields = attributes(corpus, "offsets", "labels", "vocabulary", "written") | {
        "tokens": corpus.tokens.astype(np.min_scalar_type(corpus.S)),
        "counts": corpus.counts.astype(np.min_scalar_type(corpus.counts.max(initial=0))),
        "places": result.places,
        "report": [json.dumps(asdict(result.report))],
    }
    cache.write(f"corpus-{key[:32]}", fields)


def _from_cache(cache: Cache, key: str | None, recipe: WordRecipe) -> TextCorpus | None:
    entry = None if key is None else cache.read(f"corpus-{key[:32]}")
    if entry is None:
        return None
    entry |= {"tokens": entry["tokens"].astype(np.intp), "counts": entry["counts"].astype(np.int64)}
    for name in ("tokens", "counts", "offsets", "labels", "places"):
        entry[name].setflags(write=False)
    words: dict[str, Any] = {name: tuple(entry[name]) for name in ("vocabulary", "written")}
    arrays = {name: entry[name] for name in ("tokens", "counts", "offsets", "labels")}
    report = json.loads(entry["report"][0]) | {"notes": ()}
    corpus = Corpus(**arrays, **words, S=len(words["vocabulary"]))
    return TextCorpus(corpus, entry["places"], TextReport(**report), recipe)


VOCABULARIES = ("bert-base-uncased-vocab.txt", "bert-base-uncased/vocab.txt", "vocab.txt")


@check_arguments
def imdb_corpus(folder: str | PathLike[str], **settings: Any) -> TextCorpus:
    r"""Read IMDB as in paper A: all 50,000 reviews of the file in ``folder``, tokens of bert-base-uncased.

    The WordPiece vocabulary bert-base-uncased-vocab.txt is looked for in the folder too; without it the
    tokens are stems, and the report notes that. ``settings`` are those of `text_corpus`: ``max_tokens=512``
    for the two-layer model.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "IMDB Dataset.csv")
    ...     _ = file.write_text("review,sentiment\nGreat!,positive\nDull,negative\n")
    ...     result = hm.embeddings.imdb_corpus(folder, min_count=1)
    >>> result.corpus.vocabulary, result.corpus.labels.tolist()
    (('great', 'dull'), [1, -1])
    """
    return _corpus(folder, "imdb", settings)


@check_arguments
def yelp_corpus(folder: str | PathLike[str], **settings: Any) -> TextCorpus:
    r"""Read Yelp as in paper A: reviews of 1000 to 1500 characters without 3 stars, 50,000 of them drawn.

    The rest is as in `imdb_corpus`; ``rng`` chooses another draw where there are more than 50,000.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "yelp.csv")
    ...     _ = file.write_text(f"stars,text\n5,{'good ' * 200}\n1,{'bad ' * 250}\n1,bad\n")
    ...     result = hm.embeddings.yelp_corpus(folder)
    >>> result.corpus.counts.tolist(), result.report.short
    ([200, 250], 1)
    """
    return _corpus(folder, "yelp", {"char_range": (1000, 1500), "sample": 50_000} | settings)


def _corpus(folder: str | PathLike[str], kind: str, settings: dict[str, Any]) -> TextCorpus:
    files = find_reviews(folder, kind)
    vocabulary = next((path for name in VOCABULARIES if (path := Path(folder, name)).is_file()), None)
    if vocabulary is not None:
        settings = {"tokenizer": vocabulary} | settings
    result = text_corpus(files, **settings)
    if "tokenizer" in settings:
        return result
    note = f"tokens are stems: the paper's vocabulary {VOCABULARIES[0]} is not in {Path(folder)}"
    return replace(result, report=replace(result.report, notes=(*result.report.notes, note)))
