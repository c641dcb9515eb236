"""Reviews to a Corpus (A-DATA-6): reviews per second against a plain loop, and growth.

    python benchmarks/bench_text.py            # tables
    python benchmarks/bench_text.py --json F   # the same numbers as JSON in F ("-" for standard output)

The plain loop is what a reader of the paper would write: for each review regular expressions, a set of stop
words, the stemmer on every word, and `encode` of the tokenizer on the whole text. It runs on some reviews and
is taken per review; reading the file is no part of it. hardmax runs once on everything, reading included,
with an empty cache and then with a full one. CPU time of all processes counts for the ratio, the clock is
given beside it. IMDB is used if it lies in HARDMAX_DATA or ../shared/data, else text of made-up words.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
import string
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import report
import snowballstemmer
from rich.console import Console
from rich.table import Table
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from tokenizers import BertWordPieceTokenizer

import hardmax as hm

LOOPED = 400
SIZES = (3_125, 6_250, 12_500, 25_000, 50_000)
_TAG = re.compile("<[^>]+>")
_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")


def data_of(folder: Path) -> tuple[Path, Path, str]:
    """The file of reviews, the vocabulary, and what they are."""
    vocabulary = report.REAL / "bert-base-uncased-vocab.txt"
    try:
        (found,) = hm.data.find_reviews(report.REAL, "imdb")
        if vocabulary.is_file():
            return found, vocabulary, "IMDB"
    except ValueError:
        pass
    rng = np.random.default_rng(0)
    letters = np.array(list(string.ascii_lowercase))
    words = ["".join(rng.choice(letters, size=k)) for k in rng.integers(2, 10, size=150_000)]
    share = 1 / np.arange(10, len(words) + 10)
    ends = np.cumsum(share / share.sum())
    rows = (
        (" ".join(words[k] for k in np.searchsorted(ends, rng.random(230))), 1 - 2 * (row % 2))
        for row in range(SIZES[-1])
    )
    vocabulary = folder / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary.write_text("\n".join(dict.fromkeys([*pieces, *words[:10_000]])))
    return write(folder / "made.csv", rows), vocabulary, "made-up words"


def write(path: Path, rows: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(itertools.chain([("text", "label")], rows))
    return path


def plain_loop(texts: list[str], vocabulary: Path) -> float:
    """CPU seconds per review."""
    stem = snowballstemmer.stemmer("porter").stemWord
    tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    start = time.process_time()
    total: Counter[str] = Counter()
    for text in texts:
        clean = _PUNCTUATION.sub("", _TAG.sub(" ", text).lower())
        stems = " ".join(stem(word) for word in clean.split() if word not in ENGLISH_STOP_WORDS)
        total.update(tokenizer.encode(stems, add_special_tokens=False).tokens)
    return (time.process_time() - start) / len(texts)


def timed(
    file: Path, vocabulary: Path, workers: int | None = None
) -> tuple[hm.embeddings.TextCorpus, float, float]:
    """The corpus, CPU seconds of this process and its workers, and seconds by the clock."""
    clock, spent = time.perf_counter(), sum(os.times()[:4])
    made = hm.embeddings.text_corpus(file, tokenizer=vocabulary, workers=workers)
    return made, sum(os.times()[:4]) - spent, time.perf_counter() - clock


def measure(folder: Path) -> dict[str, Any]:
    file, vocabulary, name = data_of(folder)
    reviews = [(review.text, review.label) for review in hm.data.read_reviews(file)]
    step = len(reviews) // LOOPED
    loop = plain_loop([text for text, _ in reviews[::step]], vocabulary)
    made, cold, cold_clock = timed(file, vocabulary)
    _, warm, warm_clock = timed(file, vocabulary)
    n = len(reviews)
    os.environ["HARDMAX_CACHE"] = str(folder / "growth")  # the largest part may be the whole
    growth = []
    for size in SIZES:
        part = write(folder / f"{size}.csv", reviews[:: n // size][:size])
        growth.append((size, timed(part, vocabulary, workers=1)[1]))
    sizes, times = zip(*growth, strict=True)
    return {
        "data": name,
        "reviews": n,
        "tokens": made.report.kept,
        "vocabulary": made.corpus.S,
        "loop_per_second": 1 / loop,
        "cold_per_second": n / cold,
        "warm_per_second": n / warm,
        "cold_seconds": cold,
        "cold_clock": cold_clock,
        "warm_seconds": warm,
        "warm_clock": warm_clock,
        "cold_ratio": loop * n / cold,
        "warm_ratio": loop * n / warm,
        "sizes": sizes,
        "size_seconds": times,
        "exponent": float(np.polyfit(np.log(sizes), np.log(times), 1)[0]),
    }


def show(console: Console, result: dict[str, Any]) -> None:
    table = Table(
        title=f"{result['reviews']:,} reviews ({result['data']}) to {result['tokens']:,} tokens, "
        f"{result['vocabulary']:,} distinct"
    )
    for name in ("", "reviews per CPU second", "ratio", "CPU time", "clock"):
        table.add_column(name, justify="right")
    table.add_row("plain loop", f"{result['loop_per_second']:,.0f}", "1", "", "")
    for name, what in (("cold", "hardmax"), ("warm", "hardmax, cached")):
        table.add_row(
            what,
            f"{result[f'{name}_per_second']:,.0f}",
            f"{result[f'{name}_ratio']:.1f}",
            f"{result[f'{name}_seconds']:.1f} s",
            f"{result[f'{name}_clock']:.1f} s",
        )
    console.print(table)
    spent = ", ".join(
        f"{n:,}: {t:.2f} s" for n, t in zip(result["sizes"], result["size_seconds"], strict=True)
    )
    console.print(f"CPU time grows as reviews^{result['exponent']:.2f} ({spent})")


def main() -> None:
    options = report.parser(__doc__).parse_args()
    console = report.console(options.json)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARDMAX_CACHE"] = str(Path(folder) / "cache")
        result = measure(Path(folder))
    show(console, result)
    report.write(result, options.json)


if __name__ == "__main__":
    main()
