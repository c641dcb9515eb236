"""Choices that paper A leaves open: one layer on Yelp at the printed rate and width, one change at a time.

    python benchmarks/paper_a_choices.py DATA [--seeds 3] [--epochs 60]

Prints a row of docs/research/reviews.md for each choice. Mass is the mean over the reviews of the largest
share of attention that one token has. A training takes about 7 CPU seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import report
from scipy import sparse

import hardmax as hm
from hardmax.embeddings.minibatch import EmbeddingTraining, train_embeddings

D, PADDED = 2048, 256


def large(corpus: hm.Corpus, seed: int, of_E: bool = True, of_p: bool = True) -> dict[str, Any]:
    """Entries N(0, 1) in place of N(0, 1/d)."""
    E, p, v = hm.embeddings.initial_vectors(corpus.S, D, rng=seed)
    return {"start": (E * D**0.5 if of_E else E, p * D**0.5 if of_p else p, v)}


def from_zero(corpus: hm.Corpus, seed: int) -> dict[str, Any]:
    """p starts at zero."""
    E, p, v = hm.embeddings.initial_vectors(corpus.S, D, rng=seed)
    return {"start": (E, 0 * p, v)}


def padded(corpus: hm.Corpus) -> hm.Corpus:
    """Every review filled up to 256 tokens with one more token, which is trained like the others."""
    missing = np.maximum(PADDED - np.asarray(corpus.matrix.sum(axis=1)).ravel(), 0)
    counts = sparse.hstack([corpus.matrix, sparse.csr_array(missing[:, None])]).tocsr()
    return hm.Corpus.from_counts(counts.astype(int), corpus.labels)


CHOICES: dict[str, Any] = {
    "as printed": lambda corpus, seed: {},
    "E and p start as N(0, 1)": large,
    "only E starts as N(0, 1)": lambda corpus, seed: large(corpus, seed, of_p=False),
    "only p starts as N(0, 1)": lambda corpus, seed: large(corpus, seed, of_E=False),
    "p starts at 0": from_zero,
    "padded to 256 tokens": lambda corpus, seed: {"padded": True},
    "Adam's epsilon 1e-6": lambda corpus, seed: {"eps": 1e-6},
    "logits over sqrt(d)": lambda corpus, seed: {"scale": "1/sqrt(d)"},
    "logits over sqrt(d), E and p start as N(0, 1)": lambda corpus, seed: {
        **large(corpus, seed),
        "scale": "1/sqrt(d)",
    },
}


def trained(corpus: hm.Corpus, choice: str, seed: int, epochs: int) -> EmbeddingTraining:
    """One training; the rate falls tenfold at three quarters and at seven eighths of it."""
    options = CHOICES[choice](corpus, seed)
    rule = hm.optim.AdamW(1e-2, weight_decay=1e-8, eps=options.pop("eps", 1e-8))
    if options.pop("padded", False):
        corpus = padded(corpus)
    milestones = (epochs * 3 // 4, epochs * 7 // 8)
    return train_embeddings(corpus, D, rule, epochs=epochs, milestones=milestones, rng=seed, **options)


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=60)
    asked = options.parse_args()
    corpus = hm.embeddings.yelp_corpus(asked.data).corpus
    print("| choice | mass | loss | r_v | r_p |\n|---|---|---|---|---|")
    for choice in CHOICES:
        found = [trained(corpus, choice, seed, asked.epochs) for seed in range(asked.seeds)]
        cells = (
            ", ".join(f"{each.mass:.2f}" for each in found),
            ", ".join(f"{each.loss:.2g}" for each in found),
            ", ".join(f"{each.r_v:.2f}" for each in found),
            ", ".join(f"{each.r_p:.2f}" for each in found),
        )
        print(f"| {choice} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
