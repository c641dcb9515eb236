"""Small problems on which statements hold or break: the counterexamples of docs/errata.md and a few draws."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hardmax.data.generators import fig9_oracle
from hardmax.problem import Problem


def opposed(second: float = 2.0, reach: float = 1.0) -> Problem:
    """Two inputs that pull p in opposite ways, so that no p separates their best tokens (B-ERR-01).

    ``second`` is the best score of the second one, ``reach`` how far from zero its key is.

    >>> import hardmax as hm
    >>> from hardmax.theory.paper_b.examples import opposed
    >>> path = hm.flow(opposed())
    >>> path.event, path.p.round(5).tolist()
    ('stationary point', [-0.69209])
    """
    return Problem.from_scores([[[1.0], [0.0]], [[-reach], [0.0]]], [[1.0, 0.0], [second, 0.0]])


def high_scorer_behind() -> Problem:
    """A token with score 10 just behind the neighbour of one direction (B-ERR-09)."""
    return Problem.from_scores([[[0, 0], [-0.5, -0.3339746], [-0.501, -0.9322425]]], [[0.0, -0.1, 10.0]])


def three_at_once() -> Problem:
    """Three neighbours of one direction in the plane: keys not in general position."""
    return Problem.from_scores([[[0.0, 0.0], [-1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]], [[1.0, 0.0, 0.0, 0.0]])


def random_tokens(labels: list[int], W: str = "full", rng: int = 0) -> Problem:
    """Gaussian tokens in three dimensions with a random head; W full, singular or the identity."""
    draw = np.random.default_rng(rng)
    X, v, M = draw.normal(size=(len(labels), 5, 3)), draw.normal(size=3), draw.normal(size=(3, 3))
    if W == "singular":
        M[:, 0] = 0.0
    return Problem.from_tokens(X, labels, v, W=np.eye(3) if W == "identity" else M)


def bent_head(rng: int = 0) -> Problem:
    """The same tokens with the nonlinear head tanh(v.z)."""
    draw = np.random.default_rng(rng)
    X, v = draw.normal(size=(4, 5, 3)), draw.normal(size=3)
    return Problem.from_psi(
        X, X, [1, -1, 1, -1],
        lambda z: np.tanh(z @ v), lambda z: (1 - np.tanh(z @ v) ** 2)[:, None] * v,
    )  # fmt: skip


def equal_losers(n: int = 2, T: int = 4, d: int = 8, best: float = 1.0, rng: int = 0) -> Problem:
    """Gaussian keys, one best token and equal others (Assumption B); separable when d is large."""
    keys = np.random.default_rng(rng).normal(size=(n, T, d))
    return Problem.from_scores(keys, [[best] + [best - 1.0] * (T - 1)] * n)


def two_winners(best: float = 1.0, rng: int = 0) -> Problem:
    """Two inputs with two equally good tokens each."""
    keys = np.random.default_rng(rng).normal(size=(2, 4, 2))
    return Problem.from_scores(keys, [[best, best, best - 1.0, best - 1.0]] * 2)


def tied_winners() -> Problem:
    """Two equally good tokens and a worse one: flow selects one whose neighbour scores as much (B-ERR-21).

    >>> import hardmax as hm
    >>> from hardmax.theory.paper_b.examples import tied_winners
    >>> path = hm.flow(tied_winners(), start=[1.0, 0.0], until_norm=1e6)
    >>> path.misalignment([1.0, 0.0]) < 1e-10, list(hm.locally_optimal(tied_winners()))
    (True, [])
    """
    return Problem.from_scores([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], [[1.0, 1.0, 0.0]])


def mirrored() -> Problem:
    """Two equally good tokens on either side of a worse one: ATT-SVM' has the two minimisers 1 and -1."""
    return Problem.from_scores([[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])


def squeezed() -> Problem:
    """B-FIG-3 with a third input that the relaxed direction only just selects."""
    tokens = [[[0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], [-0.2, 2.0]]]
    return Problem.from_tokens(tokens, labels=[1, -1, 1], head=[0.0, 1.0])


def switching() -> Problem:
    """Joint training that selects another token of its third input when v grows faster (B-NEW-1b)."""
    tokens = [[[0, 0], [1, 1]], [[0, 0], [2, -1]], [[1.6, 1.2], [0.6, 2.4]]]
    return Problem.from_tokens(tokens, labels=[1, -1, 1], head=[0.0, 1.0])


def separatrix_start(x: float = 40.0) -> list[float]:
    """A start on the boundary between the two basins of B-FIG-1b, to e^-x (B-ERR-21).

    >>> from hardmax.theory.paper_b.examples import separatrix_start
    >>> [round(each, 5) for each in separatrix_start()]
    [40.0, 3.79028]
    """
    return [x, 0.1 * x + math.log(90 / 111)]


def fig9_trial(d: int, trial: int) -> Problem:
    """One trial of the random stream of B-FIG-9."""
    return next(itertools.islice(fig9_oracle(d, trial + 1), trial, None))
