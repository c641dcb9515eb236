"""The proof by a float pair (p, multipliers): the KKT residual, an interval for the margin, the tight rows.

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

Which rows are tight at the true p_mm: every slack of a float solution, enclosed by its own residuals.

Scale rows to length 1 and p to length 1. Let W be the equalities and the rows with a multiplier, s the least
singular value of W, and ``away`` = |p - sum_j l_j row_j|. The shortest vector p_W that makes W tight is
within

    off = away + |W p - h| / s

of p, and its multipliers within (away + off)/s of the given ones. If these stay positive, and every other
row is met by more than ``off``, then p_W is p_mm and W are exactly the tight rows.

Otherwise only nearness is known: with t = min a_j.p / h_j the point p/t is feasible, so |p/t - p_mm|^2 <=
|p/t|^2 - |p_mm|^2 and |p_mm| >= h.l / |sum_j l_j row_j|; a row with a larger slack is not tight, and none is
certain to be. Bounds allow for rounding, also that of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._lib.arrays import polar
from hardmax.margin.constraints import Bools, Floats, Ints

if TYPE_CHECKING:
    from hardmax.margin.solution import MaxMargin

EPS = float(np.finfo(np.float64).eps)


class Measured(NamedTuple):
    """KKT residual and margin interval, one number or one array per problem of a batch."""

    kkt: Any
    lower: Any
    upper: Any


def rounding(terms: Any) -> Any:
    """Relative error bound of an inner product with this many terms, the forming of the row included."""
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
        exact = np.logical_not(shifted)
        broken = np.any(~positive & exact & (safe < 0), axis=-1) | np.any(equal & exact, axis=-1)
        length = (norm_p + shift) * (1 + rounding(terms))
        lower = np.where(broken, 0.0, np.maximum(t, 0.0) / length)
        holds = np.all(shifted | (~equal & (safe >= h)), axis=-1)
        lower = np.where(np.any(equal & (h != 0), axis=-1), np.where(holds, 1 / length, 0.0), lower)
        used = rounding(np.count_nonzero(multipliers, axis=-1))
        gain = np.sum(h * multipliers, axis=-1) - used * np.sum(np.abs(h * multipliers), axis=-1)
        waste = used * np.sum(np.abs(multipliers) * row_norms, axis=-1)
        upper = np.where(gain > 0, (norm_u * (1 + rounding(terms)) + waste) / gain, np.inf)
    return Measured(kkt, lower, upper)


SMALL = 1e-290  # shorter vectors have lost digits
Sigma = Callable[
    [Ints, Ints], Floats
]  # members of the stack, their rows W -> least singular values, from below


class Tight(NamedTuple):
    """Rows that are tight for certain, and rows that may be; a rational solution has no doubtful ones."""

    certain: Bools
    possible: Bools

    @property
    def doubtful(self) -> Bools:
        """Rows that floats do not decide."""
        return self.possible & ~self.certain


def enclose(A: Floats, h: Floats, equal: Bools, weights: Floats, p: Floats, blur: float = 0.0) -> Tight:
    """Tight rows of a stack of solutions: rows A (B, m, d), bounds, multipliers (B, m) and p (B, d).

    ``blur`` bounds the error of the rows' inner products, where the rows were made from a Gram matrix.
    """
    d = A.shape[2]
    with np.errstate(all="ignore"):  # numbers beyond the floats decide nothing
        norms, units = polar(A)
        idle, norms = norms == 0, np.where(norms > 0, norms, 1.0)
        size, q = polar(p)
        w = weights * norms / size[:, None]
        g = h / norms / size[:, None]
        reach = np.einsum("bmd,bd->bm", units, q)
        total = np.abs(w).sum(axis=1)
        rest = q - np.einsum("bmd,bm->bd", units, w)
        away = np.sqrt(np.einsum("bd,bd->b", rest, rest)) + rounding(d + A.shape[1]) * (1 + total)
        error = 2 * rounding(d) * (1 + np.abs(g))
        error[(norms < SMALL) | (size < SMALL)[:, None]] = np.inf
        vague = blur / norms.min(axis=1, initial=np.inf) ** 2
        if blur:  # the vector that counts is sum_j l_j row_j of the true rows
            error = error + (away + vague * total)[:, None]

    def sigma(members: Ints, W: Ints) -> Floats:
        chosen = np.take_along_axis(units[members], W[..., None], axis=1)
        k = W.shape[1]
        if k > d or not np.isfinite(chosen).all():
            return np.zeros(len(members))
        least = np.linalg.svd(chosen, compute_uv=False)[:, -1] - 8 * k * rounding(d)
        squared: Floats = np.maximum(least, 0.0) ** 2 - 2 * k * vague[members]
        return np.sqrt(np.maximum(squared, 0.0))

    return _judge(reach, g, equal, w, away, error, idle, sigma)


def enclose_gram(G: Floats, h: Floats, equal: Bools, weights: Floats, blur: float) -> Tight:
    """Tight rows of one problem whose rows are known by their inner products G, each right up to ``blur``."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.maximum(np.diag(G), 0.0))
        idle, norms = norms == 0, np.where(norms > 0, norms, 1.0)
        size = np.sqrt(weights @ G @ weights)
        units = G / norms[:, None] / norms
        w, g = weights * norms / size, h / norms / size
        vague = rounding(len(h)) + blur / norms.min(initial=np.inf) ** 2
        total = np.abs(w).sum()
        away = vague * total**2
        reach, error = units @ w, vague * total + (rounding(4) + away) * np.abs(g)

    def sigma(members: Ints, W: Ints) -> Floats:
        chosen = units[np.ix_(W[0], W[0])]
        if not np.isfinite(chosen).all():
            return np.zeros(1)
        squared = np.linalg.eigvalsh(chosen)[0] - 8 * len(W[0]) * vague
        return np.sqrt(np.maximum(np.array([squared]), 0.0))

    stack = reach[None], g[None], equal[None], w[None], np.array([away]), error[None], idle[None]
    tight = _judge(*stack, sigma)
    return Tight(tight.certain[0], tight.possible[0])


def enclose_many(solutions: Sequence[MaxMargin]) -> None:
    """Compute the enclosures of many solutions in stacks of one shape, where they are kept."""
    groups: dict[tuple[int, ...], list[MaxMargin]] = {}
    for best in solutions:
        c = best.constraints
        if best.arithmetic == "float" and best.p is not None and c.origin is None and c.count:
            groups.setdefault((c.count, best.p.size), []).append(best)
    for members in groups.values():
        columns: list[list[Any]] = [[] for _ in range(5)]
        for best in members:
            c = best.constraints
            values = c.rows(), c.h, c.equal, best.multipliers, np.ravel(np.asarray(best.p))
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        rows, h, equal, weights, p = map(np.stack, columns)
        tight = enclose(rows, h, equal, weights, p)
        for best, certain, possible in zip(members, tight.certain, tight.possible, strict=True):
            best.__dict__["enclosure"] = Tight(certain, possible)  # where cached_property looks


def _judge(
    reach: Floats, g: Floats, equal: Bools, w: Floats, away: Floats, error: Floats, idle: Bools, sigma: Sigma
) -> Tight:
    """The two arguments above, on a stack; ``idle`` marks rows of length zero, which hold for every p."""
    with np.errstate(all="ignore"):
        slack = np.where(idle, 0.0, reach - g)
        working = (equal | (w != 0)) & ~idle
        proved = np.zeros(len(slack), dtype=bool)
        counts = working.sum(axis=1)
        for k in sorted(set(counts.tolist()) - {0}):  # np.unique would import masked arrays
            members = np.flatnonzero(counts == k)
            W = np.nonzero(working[members])[1].reshape(-1, k)
            least = sigma(members, W)
            missing = np.abs(slack[members]) + error[members]
            missing = np.sqrt((np.take_along_axis(missing, W, axis=1) ** 2).sum(axis=1))
            off = away[members] + missing / least
            weight = np.where(equal[members] | ~working[members], np.inf, w[members]).min(axis=1)
            room = np.where(working[members] | idle[members], np.inf, slack[members] - error[members])
            proved[members] = (
                (least > 0) & (weight > (away[members] + off) / least) & (room.min(axis=1) > off)
            )
        positive = g > 0
        t = np.min(np.where(positive, (reach - error) / g, np.inf), axis=1, initial=np.inf)
        longest, shortest = (1 + away) / t, (g * w).sum(axis=1) * (1 - 4 * EPS * w.shape[1]) / (1 + away)
        distance = np.sqrt(np.maximum(longest**2 - shortest**2, 0.0) + 16 * EPS)
        near = distance + np.abs(1 / t - 1) * (1 + away) + away
        homogeneous = np.any(equal | (~positive & ~idle & (slack < error)), axis=1)
        near = np.where(homogeneous | ~(t > 0), np.inf, near)
        loose = slack - error > near[:, None]
    certain = np.where(proved[:, None], working, equal) | idle
    possible = np.where(proved[:, None], working, ~loose) | idle
    return Tight(certain, possible)
