"""Heads: what turns the attention weights of an input into a signed prediction.

For a linear head the data enter only through the token scores; a nonlinear one has scores that move with
the attention (B-DEF-4). ``values`` is a table with one row per token of the problem's key table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardmax.problem.losses import Loss

__all__ = ["LinearHead", "NonlinearHead", "Scores"]


@dataclass(frozen=True, eq=False)
class Scores:
    """Fixed token scores gamma_it, one per slot, and a loss (B-DEF-1a).

    >>> import hardmax as hm
    >>> hm.Problem.from_scores([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]]).head.scores
    array([1., 0.])
    """

    scores: np.ndarray
    loss: Loss


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Values x, labels Y and a head v: the score of a token is Y v.x (B-DEF-1). ``v`` may be trained.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_tokens([[[2.0, 0.0], [0.0, 1.0]]], labels=[-1], head=[1.0, 0.0])
    >>> problem.scores + 0.0
    array([-2.,  0.])
    """

    values: np.ndarray  # (N, e)
    labels: np.ndarray  # (n,)
    v: np.ndarray  # (e,)
    loss: Loss

    def scores(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """gamma_it = Y_i v.x_it of every slot; equal values score equally, to the last bit.

        (BLAS sums the last rows of a table in another order than the first.)
        """
        return np.repeat(self.labels, np.diff(offsets)) * np.einsum("ij,j->i", self.values, self.v)[tokens]


@dataclass(frozen=True, eq=False)
class NonlinearHead:
    """Values, labels and any differentiable psi: the prediction is Y psi(z), z the attended value (B-DEF-1d).

    ``psi`` maps (n, e) to (n,), ``psi_gradient`` maps (n, e) to (n, e).

    >>> import numpy as np, hardmax as hm
    >>> tokens = [[[1.0, 0.0], [0.0, 1.0]]]
    >>> problem = hm.Problem.from_psi(tokens, tokens, [1], psi=lambda z: np.tanh(z[:, 0]),
    ...     psi_gradient=lambda z: np.stack([np.cosh(z[:, 0]) ** -2, 0 * z[:, 1]], axis=1))
    >>> hm.gradient(problem, [0.0, 0.0]).direction.round(4)
    array([ 0.7071, -0.7071])
    """

    values: np.ndarray
    labels: np.ndarray
    psi: Callable[[np.ndarray], np.ndarray]
    psi_gradient: Callable[[np.ndarray], np.ndarray]
    loss: Loss


Head = Scores | LinearHead | NonlinearHead
