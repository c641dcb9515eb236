"""Problems made to order: random ones (B-FIG-9's protocol), and the data of paper B's figures by id."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardmax._lib.expect import generator, whole
from hardmax.problem import Problem

_TRIANGLE = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]

# One draw of three inputs: the best token near (1, 0), three near (-1, 1), three near (-0.5, -0.5).
_CLUSTERS = [
    [
        [0.774832, -0.230472],
        [-1.0867758, 1.1697421],
        [-1.0632025, 0.5769562],
        [-1.252667, 1.0699966],
        [-0.4760317, -0.2524684],
        [-0.5494556, -0.7705308],
        [-0.3866699, -0.3412983],
    ],
    [
        [0.6889809, -0.0682721],
        [-0.8499621, 0.8829005],
        [-0.9633044, 1.2778733],
        [-0.8107404, 0.8312646],
        [-0.4936815, -0.5985354],
        [-0.4120608, -0.4775178],
        [-0.4117687, -0.5204619],
    ],
    [
        [0.9420664, 0.0105015],
        [-0.5395589, 0.7062212],
        [-1.1138496, 1.1839943],
        [-0.7420251, 0.7043651],
        [-0.594624, -0.234945],
        [-0.6099488, -0.5959669],
        [-0.7133961, -0.2770121],
    ],
]


def named(name: str, loss: str = "logistic") -> Problem:
    """The data of a figure: B-FIG-1a, B-FIG-1b, B-FIG-1c, B-FIG-3a, B-FIG-3b or B-FIG-8.

    >>> import hardmax as hm
    >>> hm.data.named("B-FIG-8").keys.tolist()
    [[1.0, 0.0], [0.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]
    """
    scored = {
        "B-FIG-1a": (_TRIANGLE, [[1.0, 0.9, 0.9]]),
        "B-FIG-1b": (_TRIANGLE, [[1.0, 0.9, 0.0]]),
        "B-FIG-1c": (_CLUSTERS, [[1.0] + [0.5] * 6] * 3),
        "B-FIG-8": ([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]]),
    }
    if name in scored:
        return Problem.from_scores(*scored[name], loss=loss)
    third = {"B-FIG-3a": [0.5, 1.0], "B-FIG-3b": [0.5, 1.5]}
    if name in third:
        inputs = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], third[name]]]
        return Problem.from_tokens(inputs, [1, -1, 1], head=[-1.0, 0.0], loss=loss)
    raise ValueError(f"name must be one of {', '.join([*scored, *third])}, got {name!r}")


def sphere(
    n: int = 4, T: int = 6, d: int = 10, *, rng: int | np.random.Generator, loss: str = "logistic"
) -> Problem:
    """Tokens and head uniform on the unit sphere, labels +-1 with equal chance, keys = tokens (B-FIG-9).

    >>> import hardmax as hm
    >>> hm.data.sphere(n=4, T=6, d=10, rng=0).keys.shape
    (24, 10)
    """
    rng = generator(rng)
    X, v, Y = _sphere_draw(rng, whole("n", n, 1), whole("T", T, 1), whole("d", d, 1))
    return Problem.from_tokens(X, Y, v, loss=loss)


def gaussian(
    n: int = 4, T: int = 6, d: int = 10, *, rng: int | np.random.Generator, loss: str = "logistic"
) -> Problem:
    """Independent standard normal keys and scores.

    >>> import hardmax as hm
    >>> hm.data.gaussian(n=2, T=3, d=5, rng=1).n
    2
    """
    rng = generator(rng)
    shape = (whole("n", n, 1), whole("T", T, 1), whole("d", d, 1))
    return Problem.from_scores(rng.normal(size=shape), rng.normal(size=shape[:2]), loss)


def fig9_oracle(d: int, trials: int = 1000) -> Iterator[Problem]:
    """The random stream behind the expected numbers of B-FIG-9: one sequential generator per d.

    >>> import hardmax as hm
    >>> [round(float(p.scores[0]), 6) for p in hm.data.fig9_oracle(d=2, trials=2)]
    [-0.884893, -0.643423]
    """
    rng = np.random.default_rng([1, d])
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
