"""Layout: inputs as lists of slots, what they weigh, and vectors that stand beside their keys."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem.keys import Keys


class Layout:
    """The part of a `Problem` that needs no head."""

    table: Keys
    tokens: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray | None
    weights: np.ndarray | None

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.offsets) - 1

    @property
    def d(self) -> int:
        """Dimension of the keys."""
        return self.table.shape[1]

    @property
    def keys(self) -> np.ndarray:
        """The token table, (N, d)."""
        return self.table.dense()

    @property
    def gram(self) -> np.ndarray | None:
        """(N, N) inner products, where the keys are known by these only."""
        return self.table.inner

    @property
    def sizes(self) -> np.ndarray:
        """Tokens per input, T_i."""
        return np.diff(self.offsets)

    @property
    def total(self) -> float:
        """What a sum over the inputs is divided by: n for the mean, 1 where the inputs have weights."""
        return float(self.n) if self.weights is None else 1.0

    @cached_property
    def log_weights(self) -> np.ndarray:
        """log of every input's weight beside `total`."""
        return np.zeros(self.n) if self.weights is None else np.log(self.weights)

    def average(self, x: np.ndarray) -> float:
        """The mean over the inputs, or their sum with the weights."""
        return float(x.mean() if self.weights is None else self.weights @ x)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """A flat per-slot array as one array per input."""
        return np.split(flat, self.offsets[1:-1])

    def vector(self, name: str, p: Any) -> np.ndarray:
        """p as a float64 vector of the keys' dimension; None is the origin.

        A matrix with d entries is read row by row, as keys outer(x, z).ravel() of a query z per input are.
        """
        if p is None:
            return np.zeros(self.d)
        p = expect.detached(p)
        if isinstance(p, list | tuple) and p and isinstance(p[0], list | tuple | np.ndarray):
            p = expect.finite_array(name, p, (None, None))
        if np.ndim(p) == 2 and np.size(p) == self.d:
            p = np.asarray(p).reshape(-1)
        try:
            return expect.finite_array(name, p, (self.d,))
        except ValueError as error:
            if self.gram is None:
                raise
            raise ValueError(f"{error}; where keys are known by inner products, make it of tokens with "
                             "problem.combination(coefficients)") from None  # fmt: skip

    def combination(self, coefficients: Any) -> np.ndarray:
        """sum_j c_j k_j over the rows of the token table, as a p: a start for keys known by inner products.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_gram([[2.0, 1.0], [1.0, 2.0]], [[0, 1]], [[1.0, 0.0]])
        >>> p = problem.combination([3.0, 0.0])   # three times token 0
        >>> (problem.keys @ p).round(12).tolist(), round(float(p @ p), 9)
        ([6.0, 3.0], 18.0)
        """
        keys = self.keys
        return expect.finite_array("coefficients", coefficients, (len(keys),)) @ keys
