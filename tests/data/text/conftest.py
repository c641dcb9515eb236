"""A cache of its own for every test, a small WordPiece vocabulary, and the pipeline as a plain loop."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import snowballstemmer
from tokenizers import BertWordPieceTokenizer

import hardmax as hm
from hardmax.data.text.words import plain

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] film good bad great act ##or ##ing ##s ##ed a b c e i o s ##a ##b ##c ##e ##o"
)
STOP = {"the", "a", "is", "it"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES.split()) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def stopwords(tmp_path: Path) -> Path:
    path = tmp_path / "stop.txt"
    path.write_text("\n".join(sorted(STOP)))
    return path


def write_reviews(path: Path, reviews: Iterable[tuple[str, int]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *reviews])
    return path


def plain_loop(
    reviews: Iterable[tuple[str, int]],
    stopped: Iterable[str],
    tokenizer: BertWordPieceTokenizer | Callable[[str], list[str]],
    least: int,
    most: int | None = None,
) -> tuple[list[dict[str, int]], list[int]]:
    """What a reader of A-DATA-6 would write: each whole review through every step."""
    stem = snowballstemmer.stemmer("porter").stemWord
    listed = []
    for text, y in reviews:
        words = " ".join(stem(word) for word in plain(text).split() if word not in stopped)
        if isinstance(tokenizer, BertWordPieceTokenizer):
            tokens = tokenizer.encode(words, add_special_tokens=False).tokens
        else:
            tokens = tokenizer(words)
        listed.append((tokens[:most], y))
    total = Counter(token for tokens, _ in listed for token in tokens)
    bags = [(Counter(t for t in tokens if total[t] >= least), y) for tokens, y in listed]
    kept = [(dict(bag), y) for bag, y in bags if bag]
    return [bag for bag, _ in kept], [y for _, y in kept]


def bags_of(corpus: hm.Corpus) -> tuple[list[dict[str, int]], list[int]]:
    ends = corpus.offsets.tolist()
    bags = [
        {corpus.vocabulary[t]: int(m) for t, m in zip(corpus.tokens[i:j], corpus.counts[i:j], strict=True)}
        for i, j in pairwise(ends)
    ]
    return bags, corpus.labels.tolist()


def assert_same(one: hm.embeddings.TextCorpus, other: hm.embeddings.TextCorpus) -> None:
    for name in ("tokens", "counts", "offsets", "labels"):
        first, second = getattr(one.corpus, name), getattr(other.corpus, name)
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(one.places, other.places)
    assert one.corpus.vocabulary == other.corpus.vocabulary
    assert one.corpus.S == other.corpus.S
    assert one.report == other.report


def synthetic(n: int, seed: int) -> list[tuple[str, int]]:
    """Reviews of made-up words whose frequencies fall like those of a language."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("abceio"), size=rng.integers(1, 7))) for _ in range(400)]
    words += ["films", "good", "Bad!", "acted", "<br />", "the", "It's", "Schön"]
    share = 1 / np.arange(1, len(words) + 1)
    rng.shuffle(words)
    return [
        (" ".join(rng.choice(words, size=rng.integers(5, 40), p=share / share.sum())), 1 - 2 * (k % 2))
        for k in range(n)
    ]
