"""Full-batch gradient descent on the vectors of the one-layer model: (E, p), (E, p, v) or p alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer
from hardmax.train.run import Run
from hardmax.train.schedule import take_steps
from hardmax.train.steps import GD


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingDescent(Run):
    """Training of E, p and v by steps; E is too large to keep on the way, so ``points`` is None.

    The risk, |p|, the logits a and the values c were observed at ``times``. ``beta`` is set where E is fixed:
    p = p(0) + E' beta, with sum(beta) = 0 (A-RED-4).

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = hm.embeddings.descend_embeddings(corpus, np.eye(3), [0, 0, 0], [1, -1, 0], steps=50, rate=0.5)
    >>> bool((np.diff(run.losses) < 0).all()), run.a[-1].round(3).tolist(), run.selection().tokens
    (True, [1.02, 1.02, -2.039], (0, 0))
    """

    E: np.ndarray = field(kw_only=True)  # (S, d)
    v: np.ndarray = field(kw_only=True)  # (d,)
    beta: np.ndarray | None = field(kw_only=True)  # (S,)

    @property
    def a(self) -> np.ndarray:
        """E p at every recorded step, (R, S)."""
        return self.observed["a"]

    @property
    def c(self) -> np.ndarray:
        """E v at every recorded step, (R, S)."""
        return self.observed["c"]


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
    beta = np.zeros(corpus.S)

    def see(_: None) -> tuple[one_layer.Evaluation, dict[str, Any]]:
        a, c = E @ p, E @ v
        point = one_layer.evaluate(corpus, a, c)
        return point, {"losses": point.loss, "norms": np.linalg.norm(p), "a": a, "c": c}

    def advance(_: None, point: one_layer.Evaluation) -> None:
        nonlocal E, p, v, beta  # changed in place
        by_p, by_v = E.T @ point.A, E.T @ point.C
        if "E" in names:
            E -= np.column_stack([point.A, point.C]) @ (rate * np.vstack([p, v]))
        if "p" in names:
            p -= rate * by_p
            beta -= rate * point.A
        if "v" in names:
            v -= rate * by_v

    _, kept, seen = take_steps(steps, record, None, see, advance)
    return EmbeddingDescent(
        partial(corpus.problem, E, v),
        "step",
        kept,
        None,
        method=GD.title,
        observed=seen,
        end=p,
        E=E,
        v=v,
        beta=None if "E" in names else beta,
    )
