"""The one-layer model in ball arithmetic, to evaluate a float that contradicts a claim again."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.near_identity import StructuredState
from hardmax.papers.checking.proof import balls, largest


def masses(corpus: Corpus, a: np.ndarray) -> list[tuple[list[int], np.ndarray, int]]:
    """For every sequence its distinct tokens, their softmax masses, and the label."""
    found = []
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens = corpus.tokens[slots].tolist()
        weights = corpus.counts[slots].astype(int) * np.exp(a[tokens] - largest(a[tokens]))
        found.append((tokens, weights / weights.sum(), int(corpus.labels[k])))
    return found


def derivatives(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dL/da and dL/dc of all tokens."""
    by_a, by_c = balls(np.zeros(corpus.S)), balls(np.zeros(corpus.S))
    for tokens, Q, y in masses(corpus, a):
        f = Q @ c[tokens]
        share = Q * (-y / (1 + (y * f).exp()) / corpus.n)
        by_a[tokens] += share * (c[tokens] - f)
        by_c[tokens] += share
    return by_a, by_c


def loss(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> Any:
    """The mean of log(1 + exp(-y f))."""
    terms = [(1 + (-y * (Q @ c[tokens])).exp()).log() for tokens, Q, y in masses(corpus, a)]
    return sum(terms, arb(0)) / corpus.n


def first_step(corpus: Corpus, start: StructuredState, first_rate: float) -> dict[str, np.ndarray]:
    """Return E1 and p1 after a step from a start, and their errors beyond E0 + (eta0/2) alpha v and p0."""
    noise, step, v = balls(start.noise), arb(float(first_rate)), balls(start.v)
    E0 = np.column_stack([balls(np.eye(start.S, start.S + 1)) + noise[:-1], balls(start.c)])
    p0 = np.append(noise[-1] + balls(np.eye(start.S + 1)[-1]), balls([start.rho]))
    A, C = derivatives(corpus, E0 @ p0, E0 @ v)
    alpha = balls(np.zeros(corpus.S))
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        share = arb(int(corpus.labels[k])) / (int(corpus.lengths[k]) * corpus.n)
        alpha[corpus.tokens[slots]] += np.array([share * int(m) for m in corpus.counts[slots]])
    moved_E, moved_p = -step * (np.outer(A, p0) + np.outer(C, v)), -step * (E0.T @ A)
    return {
        "E": E0 + moved_E,
        "p": p0 + moved_p,
        "err_p": moved_p,
        "err_E": moved_E - np.outer(alpha, v) * (step / 2),
    }
