"""Small corpora and problems on which statements of the trained-embeddings paper hold or break."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.first_step import infinite_width
from hardmax.problem import Problem


def two_by_two() -> Corpus:
    """Two sequences of an important and one common token: the smallest corpus of Assumption 4."""
    return Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])


def slack_corpus() -> Corpus:
    """Four sequences on which two constraints of the important-only pattern are not tight (A-ERR-7)."""
    return Corpus.from_sequences([[0, 4, 5, 6], [1, 4, 5, 6], [2, 6, 6, 6], [3, 6, 6, 6]], [1, -1, 1, -1])


def three_tokens() -> Corpus:
    """Two sequences of an important and the same two other tokens."""
    return Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], [1, -1])


def mixed_corpus() -> Corpus:
    """A corpus without Assumption 4: tokens of every kind, repeated ones too."""
    return Corpus.from_sequences([[0, 1, 1], [2, 0, 3], [3, 3, 1], [2, 2, 0]], [1, -1, 1, -1])


def lone_tokens() -> Corpus:
    """Sequences of one token, between which nothing competes."""
    return Corpus.from_sequences([[0], [1]], [1, -1])


def identity_embeddings(c: Any) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings [e_s, c_s] and the head v that reads the last coordinate."""
    values = np.asarray(c, dtype=float)
    return np.column_stack([np.eye(len(values)), values]), np.append(np.zeros(len(values)), 1.0)


def generic_embeddings() -> list[list[float]]:
    """Five tokens in general position, as in the oracle A-ORC-5e."""
    return [
        [1, 0, 1 / 2, -1 / 3, 2], [-1 / 2, 1, 0, 1 / 4, 0], [0, -1 / 3, 1, 1 / 2, 1 / 5],
        [2 / 3, 1 / 2, -1, 1, 1], [1 / 4, 0, 1 / 3, -1, 3 / 2],
    ]  # fmt: skip


def generic_corpus() -> Corpus:
    """Four sequences over these five tokens."""
    return Corpus.from_sequences([[0, 1, 2], [1, 3, 4], [2, 3, 0], [4, 0, 1]], [1, -1, 1, -1])


def trained_problem(corpus: Corpus, first_rate: float) -> Problem:
    """Training of p after a first step at infinite width."""
    limit = infinite_width(corpus, first_rate)
    return corpus.problem(limit.E, limit.v)


def bad_basin() -> Problem:
    """Two sequences with a second direction that attracts, which selects an irrelevant token (A-ORC-6).

    >>> import hardmax as hm
    >>> from hardmax.theory.paper_a.examples import BAD, bad_basin
    >>> path = hm.flow(bad_basin(), start=20 * BAD / (BAD @ BAD) ** 0.5)
    >>> path.misalignment(BAD) < 1e-9
    True
    """
    E, v = identity_embeddings([8.0, -8.0, 0.5, -0.5])
    return three_tokens().problem(E, v)


BAD = np.array([0, 10, 57, -67, -18]) / 106  # its max-margin solution, with norm^2 77/106


def bad_start() -> np.ndarray:
    """A start in the basin of the wrong direction."""
    return 20 * BAD / np.linalg.norm(BAD)


def designated_problem(lead: float = 8.0, rng: int = 0) -> Problem:
    """A problem of the max-margin paper: random keys, one token per input far above the others."""
    keys = np.random.default_rng(rng).normal(size=(3, 3, 10))
    return Problem.from_scores(keys, [[lead, 0.0, -1.0]] * 3)


def kindred_embeddings() -> tuple[np.ndarray, np.ndarray]:
    """Important tokens that share most of their embedding, so that telling them apart is expensive."""
    E = np.array([[1.0, 0.1, 0.0, 0.0, 0.1], [1.0, 0.0, 0.1, 0.0, -0.1], [0.0, 0.0, 0.0, 1.0, 0.0]])
    return E, np.array([0.0, 0.0, 0.0, 0.0, 1.0])
