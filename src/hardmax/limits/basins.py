"""Where one basin of attraction ends: bisection between two starts of gradient flow (B-ERR-21)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.problem import Problem
from hardmax.train.flow import flow

# Flows are followed until p is this many times longer than where they began: beside the boundary, too, they
# have left it by then.
FAR = 10.0


def basin_boundary(problem: Problem, start: Any, other: Any, *, tolerance: float = 1e-6) -> np.ndarray:
    """The point between two starts at which the basin of the first one's selection ends.

    The boundary is itself made of trajectories: from it p goes to no locally optimal direction, which is why
    "gradient descent can only go to locally optimal directions" holds for almost every start at best.

    Args:
        problem: whose gradient flow is followed.
        start: a p(0) of the basin.
        other: a p(0) outside of it.
        tolerance: how near to the boundary the answer is.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.limits import basin_boundary
    >>> x, y = basin_boundary(hm.data.named("B-FIG-1b"), [20.0, 1.5], [20.0, 2.0], tolerance=1e-4)
    >>> bool(abs(y - (0.1 * x + np.log(90 / 111))) < 1e-4)
    True
    """
    near, far = problem.vector("start", start), problem.vector("other", other)
    expect.positive("tolerance", tolerance)
    norm = FAR * max(1.0, float(np.linalg.norm(near)), float(np.linalg.norm(far)))

    def end(p: np.ndarray) -> tuple[tuple[int, ...], ...]:
        return flow(problem, start=p, until_norm=norm).selection().sets

    home = end(near)
    if end(far) == home:
        raise ValueError(f"start and other must end at different selections, both end at {home}")
    while np.linalg.norm(far - near) > tolerance:
        middle = 0.5 * (near + far)
        if end(middle) == home:
            near = middle
        else:
            far = middle
    return 0.5 * (near + far)
