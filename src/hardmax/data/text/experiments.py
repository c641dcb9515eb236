"""The two real datasets of paper A with its settings (A-DATA-4, A-DATA-5)."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from hardmax.data.reviews import find_reviews
from hardmax.data.text.making import TextCorpus, text_corpus

VOCABULARIES = ("bert-base-uncased-vocab.txt", "bert-base-uncased/vocab.txt", "vocab.txt")


def imdb_corpus(folder: str | PathLike[str], **settings: Any) -> TextCorpus:
    """IMDB as in paper A: all 50,000 reviews of the file in ``folder``, tokens of bert-base-uncased.

    The WordPiece vocabulary bert-base-uncased-vocab.txt is looked for in the folder too; without it the
    tokens are stems, and the report says so. ``settings`` are those of `text_corpus`: ``most=512`` for the
    two-layer model.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "IMDB Dataset.csv")
    ...     _ = file.write_text("review,sentiment\\nGreat!,positive\\nDull,negative\\n")
    ...     made = hm.embeddings.imdb_corpus(folder, least=1)
    >>> made.corpus.vocabulary, made.corpus.labels.tolist()
    (('great', 'dull'), [1, -1])
    """
    return _corpus(folder, "imdb", settings)


def yelp_corpus(folder: str | PathLike[str], **settings: Any) -> TextCorpus:
    """Yelp as in paper A: reviews of 1000 to 1500 characters, 3 stars left out, 50,000 of them drawn.

    The rest is as in `imdb_corpus`; ``rng`` chooses another draw where there are more than 50,000.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "yelp.csv")
    ...     _ = file.write_text(f"stars,text\\n5,{'good ' * 200}\\n1,{'bad ' * 250}\\n1,bad\\n")
    ...     made = hm.embeddings.yelp_corpus(folder)
    >>> made.corpus.counts.tolist(), made.report.short
    ([200, 250], 1)
    """
    return _corpus(folder, "yelp", {"characters": (1000, 1500), "sample": 50_000} | settings)


def _corpus(folder: str | PathLike[str], kind: str, settings: dict[str, Any]) -> TextCorpus:
    files = find_reviews(folder, kind)
    if "tokenizer" in settings:
        return text_corpus(files, **settings)
    vocabulary = next((path for name in VOCABULARIES if (path := Path(folder, name)).is_file()), None)
    if vocabulary is not None:
        return text_corpus(files, tokenizer=vocabulary, **settings)
    made = text_corpus(files, **settings)
    note = f"tokens are stems: the paper's vocabulary {VOCABULARIES[0]} is not in {Path(folder)}"
    return replace(made, report=replace(made.report, notes=(*made.report.notes, note)))
