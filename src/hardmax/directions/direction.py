"""What one direction selects, by which margin, and against whom (B-DEF-16); cones around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib.arrays import misalignment
from hardmax.problem import Problem
from hardmax.problem.selection import Selection, selected_tokens, slot_gaps

# A direction that someone computed is off by its own rounding, which nothing here can know: margins this near
# to the least, relatively, count as least. A proof wants p_mm itself, see `hardmax.directions.neighbors`.
RESOLVED = 1e-9


@dataclass(frozen=True)
class Direction:
    """Definition 3 for a direction q: margins are in units of |q|, so give a unit q to compare with 1/|p_mm|.

    ``Gamma`` is the least margin of a selected token over another, ``neighbors`` are the (i, t) that attain
    it, ``delta`` is how much larger the next margin is (inf if there is none). If an input does not select
    one token, ``unique`` is False, Gamma is 0 and the neighbours are the tied tokens.

    >>> import hardmax as hm
    >>> hm.directions.directional_margin(hm.data.named("B-FIG-1b"), [0.6, 0.8]).selected.tokens
    (0,)
    """

    selected: Selection
    Gamma: float
    neighbors: tuple[tuple[int, int], ...]
    neighbor_optimal: bool
    unique: bool
    delta: float


def directional_margin(problem: Problem, q: Any, tolerance: float = RESOLVED) -> Direction:
    """Selected tokens, margin and neighbours of a direction q that is not zero.

    Margins within ``tolerance`` of the least, relative to it, count as least: q is taken to be a computed
    direction, right up to rounding. Copies of a token are one token.

    >>> import hardmax as hm
    >>> found = hm.directions.directional_margin(hm.data.named("B-FIG-1b"), [0.6, 0.8])
    >>> round(found.Gamma, 12), found.neighbors, found.neighbor_optimal, round(found.delta, 12)
    (0.14, ((0, 1),), True, 0.6)
    """
    q = problem.vector("q", q)
    if not q.any():
        raise ValueError("q is zero and has no direction")
    selected = selected_tokens(problem, q, tolerance)
    if not selected.is_unique:
        tied = tuple((i, t) for i, near in enumerate(selected.sets) if len(near) > 1 for t in near)
        return Direction(selected, 0.0, tied, False, False, np.nan)
    chosen = problem.offsets[:-1] + np.array(selected.tokens)
    keys = problem.keys[problem.tokens]
    margins = (np.repeat(keys[chosen], problem.sizes, axis=0) - keys) @ q
    copies = problem.groups != np.arange(len(keys))
    margins[chosen] = margins[copies] = np.inf
    Gamma = float(margins.min())
    if Gamma == np.inf:  # every input has one token: nothing competes
        return Direction(selected, Gamma, (), True, True, np.inf)
    least = margins <= Gamma * (1 + tolerance)
    above = slot_gaps(problem, selected.tokens)[least]
    inputs = np.repeat(np.arange(problem.n), problem.sizes)
    pairs = [(int(inputs[l]), int(l - problem.offsets[inputs[l]])) for l in np.flatnonzero(least)]
    delta = float(margins[~least].min(initial=np.inf)) - Gamma
    return Direction(selected, Gamma, tuple(pairs), bool((above > 0).all()), True, delta)


def in_cone(p: Any, q: Any, mu: float, R: float = 0.0) -> bool:
    """Whether p lies in the cone C_(mu,R)(q): cos(p, q) >= 1 - mu and |p| >= R.

    ``q`` is a vector of any length or a MaxMargin.

    >>> import hardmax as hm
    >>> hm.directions.in_cone([10.0, 0.1], [1.0, 0.0], mu=1e-3, R=5.0)
    True
    """
    return misalignment(p, q) <= mu and float(np.linalg.norm(p)) >= R
