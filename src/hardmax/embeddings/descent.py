"""Full-batch gradient descent on the vectors of the one-layer model: (E, p), (E, p, v) or p alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer
from hardmax.train.schedule import steps_to_record


@dataclass(frozen=True, eq=False)
class EmbeddingDescent:
    """Where training ended, and the loss, logits a and values c at the recorded ``steps``.

    ``beta`` is set where E is fixed: p = p(0) + E' beta, with sum(beta) = 0 (A-RED-4).

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = hm.embeddings.descend_embeddings(corpus, np.eye(3), [0, 0, 0], [1, -1, 0], steps=50, rate=0.5)
    >>> bool((np.diff(run.losses) < 0).all()), run.a[-1].round(3).tolist()
    (True, [1.02, 1.02, -2.039])
    """

    E: np.ndarray  # (S, d)
    p: np.ndarray  # (d,)
    v: np.ndarray  # (d,)
    steps: np.ndarray  # (R,)
    losses: np.ndarray  # (R,)
    a: np.ndarray  # (R, S)
    c: np.ndarray  # (R, S)
    beta: np.ndarray | None  # (S,)

    @property
    def loss(self) -> float:
        """The loss at the end."""
        return float(self.losses[-1])


def descend_embeddings(
    corpus: Corpus,
    E: Any,
    p: Any,
    v: Any,
    *,
    steps: int,
    rate: float,
    train: Iterable[str] = ("E", "p"),
    record: int | Sequence[int] | None = None,
) -> EmbeddingDescent:
    """Train what ``train`` names by plain gradient descent, all at once; the rest stays as given.

    A step costs two products with E and, if E is trained, an update of rank two. ``record`` is as in
    `hardmax.descend`.

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> E, p, v = hm.embeddings.initial_vectors(3, 8, rng=0)
    >>> run = hm.embeddings.descend_embeddings(corpus, E, p, v, steps=20, rate=0.1, train=["p"])
    >>> bool(np.allclose(run.p, p + E.T @ run.beta)), bool(abs(run.beta.sum()) < 1e-15)
    (True, True)
    """
    names = frozenset(train)
    if not names or not names <= {"E", "p", "v"}:
        raise ValueError(f'train must name some of "E", "p", "v", got {sorted(names)}')
    E, p, v = (np.array(x) for x in one_layer.read_vectors(corpus, E, p, v))
    steps, rate = expect.whole("steps", steps), expect.positive("rate", rate)
    kept = steps_to_record(record, steps)
    losses, scalars = np.empty(len(kept)), np.empty((2, len(kept), corpus.S))
    beta = np.zeros(corpus.S)
    at = 0
    for step in range(steps + 1):
        a, c = E @ p, E @ v
        point = one_layer.evaluate(corpus, a, c)
        if step == kept[at]:
            losses[at], scalars[0, at], scalars[1, at] = point.loss, a, c
            at += 1
        if step == steps:
            break
        by_p, by_v = E.T @ point.A, E.T @ point.C
        if "E" in names:
            E -= np.column_stack([point.A, point.C]) @ (rate * np.vstack([p, v]))
        if "p" in names:
            p -= rate * by_p
            beta -= rate * point.A
        if "v" in names:
            v -= rate * by_v
    return EmbeddingDescent(E, p, v, kept, losses, scalars[0], scalars[1], None if "E" in names else beta)
