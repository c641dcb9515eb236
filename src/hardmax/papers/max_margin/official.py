"""What plain arithmetic makes of normalized gradient descent, to compare with the exact path (B-ERR-11).

Public notebooks train p by the usual softmax backward, s_t (g_t - sum s g), and divide the gradient by its
norm plus an epsilon, in float32 or float64. Both spoil the path once the softmax saturates: the difference
cancels, and the epsilon stops p where the gradient falls below it. These kernels do the same arithmetic on
purpose, in the precision of their arrays. They are here for comparison only; nothing else may use them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import float32, float64, int64, types

from hardmax._lib.compiled import VECTORIZED, njit
from hardmax._lib.parallel import cores
from hardmax.problem import Problem

_CHUNK = 16
_NUMBERS = (float32, float64)


@dataclass(frozen=True)
class Arithmetic:
    """A number format and the epsilon that is added to the gradient's norm."""

    precision: str
    epsilon: float

    @property
    def name(self) -> str:
        """The arithmetic as a legend names it."""
        return f"{self.precision}, {f'ε = {self.epsilon:.2g}' if self.epsilon else 'no ε'}"


OFFICIAL = (
    Arithmetic("float32", 1e-9),
    Arithmetic("float64", 1e-9),
    Arithmetic("float64", 2.2e-16),
    Arithmetic("float64", 0.0),
)


def _given(number: types.Type, dimensions: int) -> types.Type:
    return types.Array(number, dimensions, "C", readonly=True)


@njit(
    [types.void(_given(x, 2), x[::1], x[::1]) for x in _NUMBERS], cache=True, nogil=True, fastmath=VECTORIZED
)
def _forward(keys, p, logits):  # type: ignore[no-untyped-def]
    """Compute logits = keys p."""
    for t in range(keys.shape[0]):
        total = p.dtype.type(0)
        for j in range(p.size):
            total += keys[t, j] * p[j]
        logits[t] = total


@njit(inline="always", error_model="numpy")
def _backward(logits, scores, inputs, weights):  # type: ignore[no-untyped-def]
    """Gradient of one input's logistic loss by its logits: s_t (g_t - sum s g), g = l'(u) gamma / inputs.

    Compiled as written, for a fused multiply-add would change what is left of the difference.
    """
    one, zero = logits.dtype.type(1), logits.dtype.type(0)
    top = logits[0]
    for t in range(logits.size):
        if logits[t] > top or logits[t] != logits[t]:
            top = logits[t]
    mass = zero
    for t in range(logits.size):
        weights[t] = math.exp(logits[t] - top)
        mass += weights[t]
    u = zero
    for t in range(logits.size):
        weights[t] /= mass
        u += weights[t] * scores[t]
    slope = -one / (one + math.exp(u)) / inputs
    mean = zero
    for t in range(logits.size):
        mean += weights[t] * (slope * scores[t])
    for t in range(logits.size):
        weights[t] *= slope * scores[t] - mean


@njit(inline="always")
def _add(keys, weights, gradient):  # type: ignore[no-untyped-def]
    """Add keys' weights to the gradient."""
    for t in range(keys.shape[0]):
        for j in range(gradient.size):
            gradient[j] += weights[t] * keys[t, j]


@njit(
    [types.void(_given(x, 4), _given(x, 3), x[:, ::1], int64, x, x) for x in _NUMBERS],
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _descend_each(keys, scores, p, steps, rate, epsilon):  # type: ignore[no-untyped-def]
    """Steps every row of p in place; keys (B, n, T, d), scores (B, n, T)."""
    B, n, T, d = keys.shape
    inputs, zero = p.dtype.type(n), p.dtype.type(0)
    logits, weights, gradient = np.empty(T, p.dtype), np.empty(T, p.dtype), np.empty(d, p.dtype)
    for b in range(B):
        for _ in range(steps):
            gradient[:] = zero
            for i in range(n):
                _forward(keys[b, i], p[b], logits)
                _backward(logits, scores[b, i], inputs, weights)
                _add(keys[b, i], weights, gradient)
            square = zero
            for j in range(d):
                square += gradient[j] * gradient[j]
            length = math.sqrt(square) + epsilon
            if length == zero:  # 0/0, and nothing moves any more
                break
            for j in range(d):
                p[b, j] -= rate * (gradient[j] / length)


def official_end(
    problems: Sequence[Problem], arithmetic: Arithmetic, *, rate: float = 1.0, steps: int = 1000
) -> np.ndarray:
    """Return p after normalized gradient descent from zero in plain arithmetic, a row per problem.

    The loss is the logistic one. Where the computed gradient is exactly zero p stays.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.papers.max_margin.official import Arithmetic, official_end
    >>> problems = list(hm.data.fig9_oracle(d=10, trials=2))
    >>> np.linalg.norm(official_end(problems, Arithmetic("float64", 1e-9)), axis=1).round().tolist()
    [77.0, 99.0]
    >>> exact = hm.train(problems, hm.optim.Normalized(1.0), steps=1000)
    >>> [round(path.p_norm) for path in exact]   # without it
    [679, 627]
    """
    n = problems[0].n
    number = np.dtype(arithmetic.precision).type
    keys = np.stack([problem.keys[problem.tokens].reshape(n, -1, problem.d) for problem in problems]).astype(
        number
    )
    scores = np.stack([problem.scores.reshape(n, -1) for problem in problems]).astype(number)
    p = np.zeros((len(problems), problems[0].d), number)

    def work(start: int) -> None:
        of = slice(start, start + _CHUNK)
        _descend_each(keys[of], scores[of], p[of], steps, number(rate), number(arithmetic.epsilon))

    with ThreadPoolExecutor(cores()) as pool:  # the kernel releases the interpreter
        list(pool.map(work, range(0, len(problems), _CHUNK)))
    return p.astype(float)
