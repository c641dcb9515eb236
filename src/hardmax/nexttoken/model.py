"""The merged model in token-index space: forward pass, losses, gradients of both matrices (C-DEF-GRAD).

A[x, q] = x' W_kq q and B[v, x] = (W_ov x)_v are V x V tables. Here they are dense and B is any table; the
training of stage 2 itself uses `direction`, which needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax

from hardmax._lib import expect
from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.pairs import Floats, pairs_of
from hardmax.nexttoken.stages import StageTwo, gradient_ov
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True, eq=False)
class TableModel:
    """Tables A and B on the samples of a dataset."""

    samples: Samples
    A: Floats
    B: Floats

    @classmethod
    def of(cls, samples: Samples, A: Any, B: Any) -> TableModel:
        """The tables of a model, checked; samples are kept as they are, merged or not."""
        shape = (samples.V, samples.V)
        return cls(samples, expect.finite_array("A", A, shape), expect.finite_array("B", B, shape))

    @cached_property
    def attention(self) -> Any:
        """Masses m_n(x), a sparse array (samples, V)."""
        data = self.samples
        row = np.repeat(np.arange(data.n), np.diff(data.offsets))
        logit = self.A[data.tokens, data.query[row]] + np.log(data.counts)
        gap = logit - np.maximum.reduceat(logit, data.offsets[:-1])[row]
        mass = np.exp(gap)
        mass /= np.add.reduceat(mass, data.offsets[:-1])[row]
        return csr_array((mass, data.tokens, data.offsets), shape=(data.n, data.V))

    @cached_property
    def logits(self) -> Floats:
        """The output before its softmax, one row per sample: sum_x m(x) B[:, x]."""
        return np.asarray(self.attention @ self.B.T)

    @property
    def outputs(self) -> Floats:
        """Probabilities of the next token, one row per sample."""
        return np.exp(self.logits - logsumexp(self.logits, axis=1, keepdims=True))

    @cached_property
    def _wrong(self) -> tuple[Floats, Floats, Floats]:
        """Logits with the target at -inf, their log-sum-exp, and the target's logit."""
        every = np.arange(self.samples.n)
        z = self.logits.copy()
        z_y = z[every, self.samples.target].copy()
        z[every, self.samples.target] = -np.inf
        return z, logsumexp(z, axis=1), z_y

    @property
    def losses(self) -> Floats:
        """Cross-entropy of every sample."""
        _, wrong, z_y = self._wrong
        return np.logaddexp(0.0, wrong - z_y)

    @property
    def loss(self) -> float:
        """The loss (1)."""
        return float(self.samples.weight @ self.losses)

    @property
    def stage_1_loss(self) -> float:
        """L_0, the sum over single tokens."""
        return OutputValue.of_table(pairs_of(self.samples).collocation, self.B).stage_1_loss

    @property
    def gradient_stage_1(self) -> Floats:
        """(5): the gradient of L_0 by B."""
        unit, log_norm = gradient_ov(pairs_of(self.samples).collocation, self.B)
        return unit * np.exp(log_norm)

    @cached_property
    def gradient_ov(self) -> Floats:
        """The gradient of the full loss (1) by B: sum pi (T - p) m'."""
        z, wrong, z_y = self._wrong
        # T - p = (1 - T)(softmax of the wrong ones - e_y): no entry is a difference of near equals
        miss = wrong - np.logaddexp(z_y, wrong)
        off = np.exp(z - wrong[:, None])
        off[np.arange(self.samples.n), self.samples.target] = -1.0
        off *= (self.samples.weight * np.exp(miss))[:, None]
        return np.asarray(self.attention.T @ off).T

    @cached_property
    def gradient_kq(self) -> Floats:
        """(6): the gradient of (1) by A, from the signed log-domain form; zero where no sentence pulls."""
        pairs = pairs_of(self.samples)
        if not pairs.n or not self.B.any():
            return np.zeros_like(self.A)
        stage = StageTwo(pairs, OutputValue.of_table(pairs.collocation, self.B))
        return pairs.table(stage.gradient(pairs.values(self.A)))


def literal_gradient(samples: Samples, E: Any, W_ov: Any, W_kq: Any) -> Floats:
    """(6) in embedding space, sentence by sentence: sum pi X (diag(a) - a a') X' W_ov' (T - p) x_L'."""
    G = np.zeros_like(W_kq)
    for i in range(samples.n):
        inside = slice(samples.offsets[i], samples.offsets[i + 1])
        X = E[:, np.repeat(samples.tokens[inside], samples.counts[inside])]
        x_L = E[:, samples.query[i]]
        a = softmax(X.T @ W_kq @ x_L)
        T = softmax(W_ov @ X @ a)
        T[samples.target[i]] -= 1.0
        score = X.T @ W_ov.T @ T
        G += samples.weight[i] * np.outer(X @ (a * (score - a @ score)), x_L)
    return G


def naive_descent(samples: Samples, B: Any, rate: float, steps: int) -> Floats:
    """Stage 2 from zero by (6) in token-index space: the V x V table A after ``steps`` normalized steps."""
    N, V = samples.n, samples.V
    row = np.repeat(np.arange(N), np.diff(samples.offsets))
    count = np.zeros((N, V))
    count[row, samples.tokens] = samples.counts
    A = np.zeros((V, V))
    for _ in range(steps):
        logit = A[:, samples.query].T
        mass = count * np.exp(logit - np.where(count > 0, logit, -np.inf).max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        off = softmax(mass @ B.T, axis=-1)
        off[np.arange(N), samples.target] -= 1.0
        score = off @ B
        pull = samples.weight[:, None] * mass * (score - (mass * score).sum(axis=1, keepdims=True))
        G = np.zeros((V, V))
        np.add.at(G.T, samples.query, pull)
        A -= rate * G / np.linalg.norm(G)
    return A
