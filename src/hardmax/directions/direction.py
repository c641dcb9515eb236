"""Selected tokens, margin and neighbors of one direction; the cone around p_mm (B-THM-L7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, exponent
from hardmax.directions.neighbors import Chosen, attracts, row_gaps, solution, tight_rows
from hardmax.problem import Problem
from hardmax.problem.losses import LossFunction
from hardmax.problem.selection import Selection, selected_tokens, slot_gaps

__all__ = ["Direction", "LocalConstants", "directional_margin", "in_cone", "local_constants"]

# A direction that someone computed is off by its own rounding, which nothing here can know: margins this near
# to the least, relatively, count as least. A proof wants p_mm itself, see `hardmax.directions.neighbors`.
RESOLVED = 1e-9


@dataclass(frozen=True)
class Direction:
    """Definition 3 for a direction q: margins are in units of |q|, so give a unit q to compare with 1/|p_mm|.

    ``Gamma`` is the least margin of a selected token over another, ``neighbors`` are the (i, t) that attain
    it, ``delta`` is how much larger the next margin is (inf if there is none). If an input does not select
    one token, ``unique`` is False, Gamma is 0 and the neighbors are the tied tokens.

    >>> import hardmax as hm
    >>> hm.directions.directional_margin(hm.data.example("B-FIG-1b"), [0.6, 0.8]).selected.tokens
    (0,)
    """

    selected: Selection
    Gamma: float
    neighbors: tuple[tuple[int, int], ...]
    neighbor_optimal: bool
    unique: bool
    delta: float


@check_arguments
def directional_margin(problem: Problem, q: Any, tolerance: float = RESOLVED) -> Direction:
    """Return selected tokens, margin and neighbors of a direction q that is not zero.

    Margins within ``tolerance`` of the least, relative to it, count as least: q is taken to be a computed
    direction, right up to rounding. Copies of a token are one token.

    >>> import hardmax as hm
    >>> result = hm.directions.directional_margin(hm.data.example("B-FIG-1b"), [0.6, 0.8])
    >>> round(result.Gamma, 12), result.neighbors, result.neighbor_optimal, round(result.delta, 12)
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
    power = exponent(q)  # its length must not make products leave the floats
    margins = (np.repeat(keys[chosen], problem.sizes, axis=0) - keys) @ np.ldexp(q, -power)
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
    with np.errstate(over="ignore", under="ignore"):
        Gamma, delta = float(np.ldexp(Gamma, power)), float(np.ldexp(delta, power))
    return Direction(selected, Gamma, tuple(pairs), bool((above > 0).all()), True, delta)


@check_arguments
def in_cone(p: Any, q: Any, mu: float, R: float = 0.0) -> bool:
    """Whether p lies in the cone C_(mu,R)(q): cos(p, q) >= 1 - mu and |p| >= R.

    ``q`` is a vector of any length or a MaxMargin.
    """
    p = expect.finite_array("p", p, (None,))
    if not p.size:
        raise ValueError("p must have at least one number, got none")
    q = expect.finite_array("q", getattr(q, "direction", q), p.shape)
    return cosine_distance(p, q) <= mu and float(np.linalg.norm(p)) >= R


@dataclass(frozen=True)
class LocalConstants:
    """Cone and bounds of Lemma 7, with delta over all non-neighbors (B-ERR-08).

    In the cone cos(p, p_mm) >= 1 - mu with |p| >= R_bar there is no stationary point, and for q in the cone
    with |q| = |p_mm|: c avg <= -<grad L(p), q> <= C avg, avg the mean softmax mass off the selected tokens.
    """

    Theta: float  # margin 1/|p_mm|
    A: float  # largest |k_it| over Theta
    Gamma: float  # largest range of an input's scores
    gap_least: float  # least score gap to a neighbor
    gap_most: float  # largest score gap to a neighbor
    delta: float  # half the least slack of a token that is not a neighbor; inf if there is none
    mu: float
    R_bar: float
    c: float
    C: float
    A_bar: float  # largest distance of two keys of an input

    @property
    def half_angle(self) -> float:
        """Half the opening of the cone, in degrees."""
        return math.degrees(math.acos(1 - self.mu))

    @property
    def cosine(self) -> float:
        """Lower bound on -cos(q, grad L) in the cone: c Theta / (A_bar C)."""
        return self.c * self.Theta / (self.A_bar * self.C)


@check_arguments
def local_constants(problem: Problem, chosen: Chosen) -> LocalConstants:
    """The constants for a locally optimal selection with a neighbor; its solution, or its tokens.

    |l'| is taken over [-B, B] with B the largest |score|, which holds every prediction.
    """
    best = solution(problem, chosen).only_l2()
    if not attracts(problem, best).verdict:
        raise ValueError("max_margin must belong to a locally optimal selection: Lemma 7 speaks of no other")
    slack = best.decided.slack
    assert slack is not None
    near = np.zeros(len(slack), dtype=bool)
    near[tight_rows(best)] = True
    if not near.any():
        raise ValueError("the selection of max_margin has no competing token; choose another one")
    gaps = row_gaps(problem, best)[near]
    keys = problem.split(problem.keys[problem.tokens])
    spread = max(float(np.linalg.norm(k[:, None] - k[None], axis=-1).max()) for k in keys)
    Theta = best.margin
    A = float(np.linalg.norm(problem.keys[problem.tokens], axis=1).max()) / Theta
    delta = 0.5 * float(slack[~near].min(initial=np.inf))
    least, most = float(gaps.min()), float(gaps.max())
    slope_least, slope_most = slope_range(problem.loss, float(np.abs(problem.scores).max()))
    T, Gamma = (
        int(problem.sizes.max()),
        max(float(np.ptp(scores)) for scores in problem.split(problem.scores)),
    )
    return LocalConstants(
        Theta=Theta,
        A=A,
        Gamma=Gamma,
        gap_least=least,
        gap_most=most,
        delta=delta,
        mu=(min(0.5, delta) / A) ** 2 / 8,
        R_bar=max(2.0, 1 / delta) / Theta * math.log(64 * T * Gamma * A / least),
        c=slope_least * least / 8,
        C=2 * slope_most * most,
        A_bar=spread,
    )


def slope_range(loss: LossFunction, B: float, lowest: float | None = None) -> tuple[float, float]:
    """Least and largest |l'| on [-B, B] (or [lowest, B]), over a grid with both ends: exact if monotone."""
    logs = loss.log_slopes(np.linspace(-B if lowest is None else lowest, B, 1001))
    return math.exp(logs.min()), math.exp(logs.max())
