"""What a float pair (p, multipliers) proves: the KKT residual and a rigorous interval for the margin.

Let rows a_j have bounds h_j >= 0 (inequality) or be equalities a_j.p = h_j, and let N be the minimum norm,
the margin being 1/N.

* Lower end. If p meets the homogeneous rows (h = 0) and t = min over h_j > 0 of a_j.p / h_j is positive,
  p/t is feasible, so N <= |p|/t and **t/|p| <= margin**. With h = 1 this is min(Mp)/|p|. If an equality has
  h_j != 0 there is nothing to scale: p itself must be feasible, and 1/|p| <= margin.
* Upper end. For multipliers l (>= 0 on inequalities, of any sign on equalities) and u = sum_j l_j a_j, every
  feasible p has h.l <= u.p <= |u||p|, so **margin <= |u|/(h.l)**. With h = 1 this is |M'l|/sum(l).

Rounding is allowed for: a computed a_j.p is off by at most (d + 8) eps |a_j||p|. A float p meets an
equality only up to rounding; with `shift` the caller states the length of a correction, proved to exist,
that makes such rows hold exactly, and the lower end pays for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hardmax.margin.constraints import Bools, Floats

EPS = float(np.finfo(np.float64).eps)


class Measured(NamedTuple):
    """KKT residual and margin interval, one number or one array per problem of a batch.

    >>> Measured(kkt=0.0, lower=1.0, upper=1.0).upper
    1.0
    """

    kkt: Any
    lower: Any
    upper: Any


def rounding(terms: Any) -> Any:
    """Relative error bound of an inner product with this many terms, the forming of the row included.

    >>> rounding(8) == 16 * EPS
    True
    """
    return (terms + 8) * EPS


def measure(
    Mp: Floats,
    h: Floats,
    equal: Bools,
    multipliers: Floats,
    row_norms: Floats,
    norm_p: Any,
    norm_u: Any,
    gap: Any,
    terms: int,
    shift: Any = 0.0,
    shifted: Bools | bool = False,
) -> Measured:
    """Residuals of ``p`` (through ``Mp`` and norms) and of the multipliers; rows along the last axis.

    ``norm_u = |sum_j multipliers_j row_j|``, ``gap = |p - u|``; ``shifted`` marks the rows that the
    correction of length ``shift`` makes hold exactly.

    >>> one = np.ones(1)
    >>> float(measure(one, one, np.zeros(1, bool), one, one, 1.0, 1.0, 0.0, terms=1).kkt)
    0.0
    """
    size = np.asarray(norm_p)[..., None]
    positive = ~equal & (h > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.where(positive, h, row_norms * size)
        wrong = np.where(equal, np.abs(Mp - h), h - Mp)
        primal = np.max(np.where(wrong > 0, wrong / scale, 0.0), axis=-1, initial=0.0)
        stationarity = gap / norm_p
        complementarity = np.max(np.abs(multipliers * (Mp - h)), axis=-1, initial=0.0) / norm_p**2
        kkt = np.maximum(np.maximum(primal, stationarity), complementarity)
        error = row_norms * (rounding(terms) * size + np.asarray(shift)[..., None])
        safe = Mp - error
        t = np.min(np.where(positive, safe / h, np.inf), axis=-1, initial=np.inf)
        broken = np.any(~positive & ~shifted & (safe < 0), axis=-1) | np.any(
            equal & ~np.asarray(shifted), axis=-1
        )
        length = (norm_p + shift) * (1 + rounding(terms))
        lower = np.where(broken, 0.0, np.maximum(t, 0.0) / length)
        met = np.all(shifted | (~equal & (safe >= h)), axis=-1)
        lower = np.where(np.any(equal & (h != 0), axis=-1), np.where(met, 1 / length, 0.0), lower)
        used = rounding(np.count_nonzero(multipliers, axis=-1))
        gain = np.sum(h * multipliers, axis=-1) - used * np.sum(np.abs(h * multipliers), axis=-1)
        waste = used * np.sum(np.abs(multipliers) * row_norms, axis=-1)
        upper = np.where(gain > 0, (norm_u * (1 + rounding(terms)) + waste) / gain, np.inf)
    return Measured(kkt, lower, upper)
