"""IMDB at the paper's setting from several starts: does attention saturate, and what is the loss if not?

    python benchmarks/imdb_seeds.py DATA                          # seeds 0, 1, 2; DATA holds the reviews
    python benchmarks/imdb_seeds.py DATA --seeds 3 4 --keep DIR   # goes on where a run of DIR was stopped

One layer, d = 2048, 500 epochs, batches of 128, AdamW at 1e-2, tenfold less from epochs 100 and 200 on,
weight decay 1e-8 (A-TRAIN-1). Mass is the mean over the reviews of the largest share of the attention that
one token has, after each recorded epoch; a run is called saturated if it ends above 0.9. The paper's loss is
1e-1.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import report
from rich.table import Table

import hardmax as hm
from hardmax.embeddings.minibatch import EmbeddingTraining
from hardmax.embeddings.one_layer import evaluate, token_mass

SATURATED = 0.9


def mass(corpus: hm.Corpus, a: np.ndarray) -> float:
    """Mean over the sequences of the largest share of the attention."""
    return float(np.maximum.reduceat(token_mass(corpus, a), corpus.offsets[:-1]).mean())


def course(corpus: hm.Corpus, trained: EmbeddingTraining) -> list[dict[str, float]]:
    """What there is to see after each recorded epoch."""
    return [
        {
            "epochs": each.epochs,
            "loss": evaluate(corpus, each.a, each.c).loss,
            "r_v": each.r_v,
            "r_p": each.r_p,
            "sign_accuracy": each.sign_accuracy(),
            "mass": mass(corpus, each.a),
        }
        for each in trained.snapshots[1:]
    ]


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("data", metavar="DATA", help="folder with the reviews of IMDB")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--epochs", type=int, default=500)
    options.add_argument("--d", type=int, default=2048)
    options.add_argument("--keep", metavar="DIR", type=Path, help="save trainings here and go on from there")
    asked = options.parse_args()
    console = report.console(asked.json)
    corpus = hm.embeddings.imdb_corpus(asked.data).corpus
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Any] = {}
    for seed in asked.seeds:
        begin = time.perf_counter()
        trained = hm.embeddings.minibatch.train_embeddings(
            corpus,
            asked.d,
            hm.optim.AdamW(1e-2, weight_decay=1e-8),
            epochs=asked.epochs,
            rng=seed,
            checkpoint=None if asked.keep is None else asked.keep / f"imdb.{asked.d}.{seed}.npz",
            progress=lambda done, total: console.print(f"epoch {done} of {total}", end="\r"),
        )
        minutes, seen = (time.perf_counter() - begin) / 60, course(corpus, trained)
        table = Table(title=f"seed {seed}, {minutes:.1f} minutes")
        for name in seen[0]:
            table.add_column(name, justify="right")
        for row in seen:
            table.add_row(*(f"{value:.4g}" for value in row.values()))
        console.print(table)
        runs[str(seed)] = {"minutes": minutes, "course": seen, "saturated": seen[-1]["mass"] > SATURATED}
        report.write({"epochs": asked.epochs, "d": asked.d, "runs": runs}, asked.json)
    ends = {seed: run["course"][-1] for seed, run in runs.items()}
    saturated = [seed for seed, run in runs.items() if run["saturated"]]
    others = ", ".join(f"{ends[seed]['loss']:.3g}" for seed in runs if seed not in saturated)
    console.print(
        f"{len(saturated)} of {len(runs)} saturated (seeds {', '.join(saturated) or 'none'}); "
        f"losses of the others: {others or 'there are none'}"
    )


if __name__ == "__main__":
    main()
