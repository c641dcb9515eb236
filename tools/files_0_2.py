"""Write one file of every format that hardmax 0.2 writes into a folder: `python tools/files_0_2.py FOLDER`.

It ran once, with 0.2, and made tests/files-0.2; tests/test_files_0_2.py reads them with every later version.
"""

import contextlib
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.app.playground.links import encoded, state_of

KEYS = [[[1.0, 0.5], [0.0, 0.0], [-0.5, 2.0]], [[0.25, 1.0], [1.0, -1.0], [0.0, 0.0]]]
SCORES = [[1.0, 0.0, 0.5], [2.0, 0.0, 1.0]]
QUERIES = [[1.0, 0.5], [-0.5, 1.0]]
TEXTS, LABELS = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5


def write(folder: Path) -> None:
    problem = hm.Problem.from_scores(KEYS, SCORES, loss="exponential")
    for name in ("problem.json", "problem.npz"):
        problem.save(folder / name)
    tokens = hm.Problem.from_tokens(KEYS, [1, -1], [0.5, 1.0])
    tokens.save(folder / "problem-readout.npz")
    queries = hm.Problem.from_queries(KEYS, QUERIES, SCORES)
    queries.save(folder / "problem-queries.npz")
    hm.descend(problem, hm.steps.Adam(0.1), steps=50, start=[0.1, 0.2]).save(folder / "run.npz")
    hm.descend(tokens, steps=20, wrt=("p", "v")).save(folder / "run-joint.npz")
    hm.flow(problem, until_norm=100.0).save(folder / "run-flow.npz")
    for norm in ("l1", "l1.5", "l2", "linf"):
        hm.max_margin(problem, [0, 0], norm=norm).save(folder / f"certificate-{norm}.json")
    for norm in ("nuclear", "spectral"):
        hm.max_margin(queries, [0, 0], norm=norm).save(folder / f"certificate-{norm}.json")
    hm.max_margin(problem, [0, 0], exact=True).save(folder / "certificate-exact.json")
    hm.max_margin(hm.Constraints.dense([[1.0], [-1.0]])).save(folder / "certificate-infeasible.json")
    options = {"ngram_range": (1, 1)}
    hm.text.AttentionClassifier(**options).fit(TEXTS, LABELS).save(folder / "text-model.npz")
    checkpoint = folder / "text-checkpoint.npz"
    hm.text.AttentionClassifier(**options, epochs=3, checkpoint=checkpoint, n_jobs=1).fit(TEXTS, LABELS)
    hm.nexttoken.train_file(
        ["S V O P", "V O P", "O P P", "P S V"], folder / "next-token-model.npz", steps=300
    )
    corpus = hm.Corpus.from_sequences(["good film", "bad film"] * 4, [1, -1] * 4)
    start = tuple(np.random.default_rng(0).normal(size=shape) for shape in ((3, 4), 4, 4))
    hm.embeddings.train_embeddings(
        corpus,
        4,
        hm.steps.AdamW(0.1),
        epochs=2,
        batch=4,
        rng=0,
        start=start,
        checkpoint=folder / "embeddings.npz",
    )
    grid = {"experiment": ["sphere"], "d": [2, 10], "n": [2], "T": [3]}
    built_in = "hardmax.trials.experiments:built_in"
    hm.sweep(built_in, grid, 4, store=folder / "sweep-store.db", workers=0, batched=True)
    (folder / "sweep-store.db.lock").unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "sweep-store.db")) as store:  # no path of this machine
        home = str(Path(hm.__file__).parents[1])
        for table, column in (("meta", "value"), ("sessions", "provenance")):
            store.execute(f"UPDATE {table} SET {column} = replace({column}, ?, 'src')", [home])
        store.commit()
        store.execute("VACUUM")
    (folder / "reviews.csv").write_text(
        "review,sentiment\nLoved<br />truly,positive\nHated it. Hated!,negative\n"
    )
    os.environ["HARDMAX_CACHE"] = str(folder / "text-cache")
    hm.embeddings.text_corpus(folder / "reviews.csv", least=1, workers=1)
    hm.reproduce(["B-FIG-1a"], out=folder / "figures")
    for path in (folder / "figures").iterdir():  # the record; pictures and the page can be made from it
        if path.suffix not in (".json", ".npz"):
            path.unlink()
    (folder / "playground-link.txt").write_text(encoded(state_of(problem)) + "\n")
    (folder / "playground-sentences.txt").write_text(encoded(state_of(["a b b", "b a"])) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    write(target)
