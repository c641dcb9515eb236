"""Random problems made to order, B-FIG-9's protocol among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import generator, whole
from hardmax.problem import Problem


@check_arguments
def sphere(
    n: int = 4, T: int = 6, d: int = 10, *, rng: int | np.random.Generator, loss: str = "logistic"
) -> Problem:
    """Draw a problem with tokens and readout uniform on the unit sphere, and labels +-1 with equal chance.

    >>> import hardmax as hm
    >>> hm.data.sphere(n=4, T=6, d=10, rng=0).keys.shape
    (24, 10)
    """
    rng = generator(rng)
    X, v, Y = _sphere_draw(rng, whole("n", n, 1), whole("T", T, 1), whole("d", d, 1))
    return Problem.from_tokens(X, Y, v, loss=loss)


@check_arguments
def gaussian(
    n: int = 4, T: int = 6, d: int = 10, *, rng: int | np.random.Generator, loss: str = "logistic"
) -> Problem:
    """Draw a problem with independent standard normal keys and scores.

    >>> import hardmax as hm
    >>> hm.data.gaussian(n=2, T=3, d=5, rng=1).n
    2
    """
    rng = generator(rng)
    shape = (whole("n", n, 1), whole("T", T, 1), whole("d", d, 1))
    return Problem(rng.normal(size=shape), rng.normal(size=shape[:2]), loss)


@check_arguments
def fig9_oracle(d: int, trials: int = 1000) -> Iterator[Problem]:
    """Yield the random problems of figure 9 of the max-margin paper, from one generator per d.

    >>> import hardmax as hm
    >>> [round(float(p.scores[0]), 6) for p in hm.data.fig9_oracle(d=2, trials=2)]
    [-0.884893, -0.643423]
    """
    rng = np.random.default_rng([1, whole("d", d, 1)])
    for _ in range(trials):
        X, v, Y = _sphere_draw(rng, 4, 6, d)
        rng.normal(size=d)  # draws the protocol makes and does not use
        if d > 24:
            rng.normal(size=24)
        yield Problem.from_tokens(X, Y, v)


def _sphere_draw(
    rng: np.random.Generator, n: int, T: int, d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, T, d))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    v = rng.normal(size=d)
    v /= np.linalg.norm(v)
    return X, v, rng.choice([-1.0, 1.0], size=n)
