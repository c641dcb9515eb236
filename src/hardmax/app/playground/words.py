"""Words (paper A): labeled texts become a corpus, training moves every word in the plane of E p and E v."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.app.playground.protocol import listed, number
from hardmax.data.text.words import plain

MOST_TEXTS = 5000
MOST_WORDS = 3000
LONGEST = 5000  # characters of a text
D, BATCH, SEED = 64, 64, 0


def texts_of(message: Mapping[str, Any]) -> tuple[list[list[str]], list[int]]:
    """Return the words of each text and the labels, +1 or -1; texts without a word are left out."""
    texts, labels = [], []
    for pair in listed(message.get("texts"), "texts", MOST_TEXTS):
        good = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[1] in (1, -1)
        if not good or len(pair[0]) > LONGEST:
            raise ValueError(
                f"each text must be [text of at most {LONGEST:,} characters, 1 or -1], got {pair!r:.60}"
            )
        words = plain(pair[0]).split()
        if words:
            texts.append(words)
            labels.append(int(pair[1]))
    if len(set(labels)) < 2:
        raise ValueError("texts must have both labels, + and -, among those with a word; add some")
    return texts, labels


def frequent_of(message: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """Return texts of the words that occur in at least ``least`` of them, and their labels."""
    texts, labels = texts_of(message)
    least = int(number(message, "least", 2, 1, 1000))
    spread = Counter(word for text in texts for word in set(text))
    frequent = {word for word, count in spread.most_common(MOST_WORDS) if count >= least}
    short = [" ".join(word for word in text if word in frequent) for text in texts]
    pairs = [(text, y) for text, y in zip(short, labels, strict=True) if text]
    if len({y for _, y in pairs}) < 2:
        raise ValueError(
            f"texts must share words: none occurs in {least} texts of both labels; add more texts"
        )
    return [text for text, _ in pairs], [y for _, y in pairs]


def train(message: Mapping[str, Any]) -> dict[str, Any]:
    """Train E, p and v by AdamW; return E p and E v of every word at some epochs."""
    corpus = hm.Corpus.from_sequences(*frequent_of(message))
    epochs = int(number(message, "epochs", 50, 1, 200))
    rate = number(message, "rate", 0.01, 1e-5, 1.0)
    trained = hm.embeddings.minibatch.train_embeddings(
        corpus, D, hm.optim.AdamW(rate), epochs=epochs, batch=BATCH, rng=SEED, workers=1
    )
    return {
        "words": corpus.vocabulary,
        "counts": corpus.total,
        "posterior": np.asarray(corpus.posterior_difference).round(6),
        "frames": [
            {"epochs": moment.epochs, "attention": moment.a.round(5), "value": moment.c.round(5)}
            for moment in trained.snapshots
        ],
        "texts": corpus.n,
        "loss": trained.loss,
        "r_v": trained.r_v,
        "r_p": trained.r_p,
        "event": trained.event,
        "top": [token.word for token in trained.top(8)],
    }
