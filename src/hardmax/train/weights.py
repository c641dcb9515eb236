"""Training the key-query weights W with a fixed prompt u, through its exact map to p (B-THM-L1).

The gradient by W is u times the gradient by q = W'u, the attention vector that the tokens see. So W moves
only along u: W(t) = W(0) + u (q(t) - q(0))' / |u|^2, and q follows descent on p with the tokens as keys and
the step times |u|^2; for normalised descent (Frobenius norm) times |u| (B-ERR-17).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import exponent, lengths
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.train.descent import Rate, descend_shifted, step_sizes
from hardmax.train.run import Run
from hardmax.train.scale import Scale, scaled


@dataclass(frozen=True, eq=False)
class WeightRun:
    """Snapshots of W, held as the trajectory of q = W'u.

    >>> import hardmax as hm
    >>> path = hm.descend_weights(hm.data.sphere(n=2, T=3, d=4, rng=0), u=[1, 0, 0, 0], steps=50, rate=0.1)
    >>> path.W().shape
    (4, 4)
    """

    q: Run
    u: np.ndarray
    start: np.ndarray

    def W(self, at: int = -1) -> np.ndarray:
        """The weights at a snapshot."""
        moved = self.q.points[at] - self.q.points[0]
        size = lengths(self.u)
        return self.start + np.outer(self.u / size, moved / size)


def descend_weights(
    problem: Problem,
    u: Any,
    steps: int = 1000,
    rate: Rate = 0.1,
    *,
    start: Any = None,
    normalized: bool = True,
    record: int | Sequence[int] | None = None,
) -> WeightRun:
    """Train W with the prompt u fixed; ``start`` is W(0), the problem's own W by default (B-DEF-1b).

    >>> import numpy as np, hardmax as hm
    >>> problem = hm.data.sphere(n=3, T=4, d=5, rng=1)
    >>> u = np.arange(1.0, 6.0)
    >>> trained = hm.descend_weights(problem, u, steps=100, rate=0.01, start=np.zeros((5, 5)))
    >>> p = hm.descend(problem, steps=100, rate=0.01 * np.linalg.norm(u))
    >>> bool(np.allclose(trained.W(), np.outer(u, p.p) / (u @ u), atol=1e-12))
    True
    """
    W = problem.key_map
    values = problem.head.values
    if W is None or values is None:
        raise ValueError("training W needs a problem made with from_tokens: keys W x of its values x")
    u = expect.finite_array("u", u, (len(W),))
    if not u.any():
        raise ValueError("u must not be zero: with it every attention logit is zero")
    W = W if start is None else expect.finite_array("start", start, W.shape)
    seen = replace(problem, table=Dense(values), W=None)
    # The step of q is the rate times |u| or its square, in a float and a power of two.
    power = exponent(u)
    size = float(np.linalg.norm(np.ldexp(u, -power))) ** (1 if normalized else 2)
    shift = power * (1 if normalized else 2)
    if isinstance(rate, str):  # "1/L_p" is about the problem with its own W
        scale = scaled(problem)
        rate, shift = step_sizes(rate, steps, scale, False), shift - 2 * scale.exponent
    else:
        rate = step_sizes(rate, steps, Scale(seen, 0), False)
    q = descend_shifted(seen, steps, rate * size, shift, normalized=normalized, start=W.T @ u, record=record)
    return WeightRun(q, u, W)
