"""The formulas as printed, in plain float64: what the log-domain forms are checked against, and what fails.

Nothing in the library computes with these. g - sum m g cancels once the mass off the right token is below the
rounding of 1, at a gap of about 36, so the direction is then noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.nexttoken.pairs import Floats
from hardmax.nexttoken.samples import Samples


def literal_gradient(samples: Samples, E: Any, W_ov: Any, W_kq: Any) -> Floats:
    """(6) in embedding space, sentence by sentence: sum pi X (diag(a) - a a') X' W_ov' (T - p) x_L'.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.naive import literal_gradient
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> literal_gradient(samples, np.eye(2), np.array([[-1.0, 1.0], [1.0, -1.0]]), np.zeros((2, 2))).round(6)
    array([[ 0.      , -0.166667],
           [ 0.      ,  0.166667]])
    """
    G = np.zeros_like(W_kq)
    for i in range(samples.n):
        inside = slice(samples.offsets[i], samples.offsets[i + 1])
        X = E[:, np.repeat(samples.tokens[inside], samples.counts[inside])]
        x_L = E[:, samples.query[i]]
        a = _softmax(X.T @ W_kq @ x_L)
        T = _softmax(W_ov @ X @ a)
        T[samples.target[i]] -= 1.0
        score = X.T @ W_ov.T @ T
        G += samples.weight[i] * np.outer(X @ (a * (score - a @ score)), x_L)
    return G


def naive_descent(samples: Samples, B: Any, rate: float, steps: int) -> Floats:
    """Stage 2 from zero by (6) in token-index space: the V x V table A after ``steps`` normalised steps.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.naive import naive_descent
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> naive_descent(samples, np.array([[-1.0, 1.0], [1.0, -1.0]]), 1.0, 2).round(6)
    array([[ 0.      ,  1.414214],
           [ 0.      , -1.414214]])
    """
    N, V = samples.n, samples.V
    row = np.repeat(np.arange(N), np.diff(samples.offsets))
    count = np.zeros((N, V))
    count[row, samples.tokens] = samples.counts
    A = np.zeros((V, V))
    for _ in range(steps):
        logit = A[:, samples.query].T
        mass = count * np.exp(logit - np.where(count > 0, logit, -np.inf).max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        off = _softmax(mass @ B.T)
        off[np.arange(N), samples.target] -= 1.0
        score = off @ B
        pull = samples.weight[:, None] * mass * (score - (mass * score).sum(axis=1, keepdims=True))
        G = np.zeros((V, V))
        np.add.at(G.T, samples.query, pull)
        A -= rate * G / np.linalg.norm(G)
    return A


def _softmax(z: Floats) -> Floats:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
