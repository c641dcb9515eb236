"""The full model of paper A, with embeddings, by the trainer of mini-batches."""

from __future__ import annotations

from scipy.sparse import csr_matrix

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.minibatch import EmbeddingTraining, train_embeddings
from hardmax.text.inputs import Labels
from hardmax.text.training import Progress, Rows
from hardmax.train.steps import AdamW

EPOCHS, RATE = 20, 1e-3


def train_full(
    rows: Rows,
    labels: Labels,
    d: int,
    epochs: int | None,
    rate: float | None,
    seed: int,
    progress: Progress | None,
) -> EmbeddingTraining:
    """Train E, p and v on texts of two classes that hold a token; the others say nothing to this model."""
    if len(labels.classes) != 2:
        raise ValueError(
            f'solver="embeddings" must have labels of two classes, got {len(labels.classes)}; take "sgd"'
        )
    matrix = csr_matrix(rows.arrays, shape=(len(rows), rows.columns))
    held = matrix.getnnz(axis=1) > 0
    corpus = Corpus.from_counts(matrix[held], 2 * labels.codes[held] - 1)
    passes = EPOCHS if epochs is None else epochs
    tell = None if progress is None else lambda done, loss: progress(done, passes, loss, None)
    return train_embeddings(
        corpus,
        expect.whole("dimension", d, 1),
        AdamW(RATE if rate is None else rate),
        epochs=passes,
        rng=seed,
        progress=tell,
    )
