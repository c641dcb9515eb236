"""C-THM-ASY: the part of W_kq orthogonal to W_kq* late in stage 2, and its consequences.

Late in training a sentence pulls along its tight relations e = (o, x; q) only, with the weight
omega_e e^(-(A[o,q] - A[x,q])), omega_e = sum pi c_x/c_o over the sentences with query q and token x. Write
A = c W_kq* + R with R orthogonal to W_kq*. Normalized gradient descent is then gradient descent on the convex

    F(R) = log sum_e omega_e exp(-(R[o,q] - R[x,q])),    with the step eta |W_kq*|,

whose minimum on the span of the tight relations is R_perp. It gets there for a step below
eta_c = 2 / (|W_kq*| lambda_max), lambda_max the largest curvature of F there, and swings above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.dynamics.edges import edges_of
from hardmax.limits.late import ZERO, late_risk
from hardmax.limits.searching import minimize
from hardmax.nexttoken.pairs import Floats
from hardmax.nexttoken.star import KqStar
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True, eq=False)
class Late:
    """R_perp (one value per pair), the weights omega of the relations, and eta_c.

    With slack relations (C-CEX-P2) the part outside the span of the tight ones is frozen by the transient:
    `frozen` returns it at a late point.
    """

    star: KqStar
    omega: Floats
    R: Floats
    eta_c: float
    span: Floats | None  # (P, r) of the tight relations across W_kq*; None for stars, which freeze nothing

    @property
    def norm_squared(self) -> float:
        """|R_perp|^2."""
        return float(self.R @ self.R)

    def frozen(self, a: Floats) -> Floats:
        """The part of a late point orthogonal to W_kq* that no longer moves."""
        rest = self.beside(a)
        return np.zeros(len(rest)) if self.span is None else rest - self.span @ (self.span.T @ rest)

    def beside(self, a: Floats) -> Floats:
        """A - <A, W*> W*/|W*|^2 of the pairs' values, which tends to R_perp."""
        wide = self.star.wide
        a = np.asarray(a, dtype=np.longdouble)
        return (a - (a @ wide) / (wide @ wide) * wide).astype(np.float64)

    def predicted_misalignment(self, length: float, a: Floats | None = None) -> float:
        """Predicted 1 - cos at the arc length eta t: |R_perp|^2 / (2 (eta t)^2).

        `a` is a late point that brings what is frozen, where relations are slack.
        """
        R = self.R if a is None else self.R + self.frozen(a)
        return float(R @ R) / (2.0 * expect.positive("length", length) ** 2)

    def log_excess(self, W_ov: OutputValue, log_off_mass: float) -> float:
        """Predicted log(L - L*) from the log of sum pi m_-, the mass off the optimal tokens."""
        if W_ov.margin is None:
            raise ValueError("W_ov must be a multiple of W_ov* for the law of the excess loss")
        D, V = W_ov.margin, W_ov.V
        return math.log(D * V) - D - math.log1p((V - 1) * math.exp(-D)) + log_off_mass

    def excess_rate(self, rate: float) -> float:
        """Late slope of log(L - L*) per step: -eta/|W_kq*|."""
        return -expect.positive("rate", rate) / self.star.norm


@check_arguments
def late_of(star: KqStar) -> Late | None:
    """Return the late phase; None with two optimal tokens in one sentence, or if W_kq* is none or 0."""
    # the relations do not depend on the margin
    edges = edges_of(star.pairs.samples.problem(OutputValue.aligned(star.pairs.collocation, 1.0)))
    if edges is None or star.values is None or not len(edges.top):
        return None
    weights = np.exp(star.pairs.log_weight)
    per_entry = np.repeat(weights, np.diff(edges.offsets)) * edges.ratio
    # Relations and edges are the same list: both go by query, then by token above, then by token below.
    omega = np.bincount(edges.edge, per_entry, minlength=len(edges.top)).astype(np.float64)
    if star.is_star:
        return _star(star, omega)
    return _general(star, omega)


def _star(star: KqStar, omega: Floats) -> Late:
    assert star.values is not None
    P = star.pairs.P
    m = np.bincount(star.above, minlength=P)[star.above]
    rho = np.log(omega * (m + 1.0))
    R = np.bincount(star.above, rho / (m + 1.0), minlength=P).astype(np.float64)
    R[star.below] = R[star.above] - rho
    R -= (R @ star.values) / (star.values @ star.values) * star.values
    eta_c = 2.0 * star.norm  # F bends by 1/|W*|^2 in the plane of the queries' columns of W*
    if len(np.unique(star.above)) == 1:
        eta_c = math.inf if len(omega) == 1 else 2.0 * len(omega) / star.norm
    return Late(star, omega, R, eta_c, None)


def _general(star: KqStar, omega: Floats) -> Late | None:
    assert star.values is not None
    tight = star.support
    D = np.zeros((len(tight), star.pairs.P))
    D[np.arange(len(tight)), star.above[tight]] = 1.0
    D[np.arange(len(tight)), star.below[tight]] = -1.0
    unit = star.values / star.norm
    across = D - np.outer(D @ unit, unit)
    _, sizes, vectors = np.linalg.svd(across, full_matrices=False)
    span = vectors[sizes > ZERO * sizes.max(initial=1.0)].T
    expand = late_risk(np.log(omega[tight]), across, span)
    minimum = minimize(expand, np.zeros(span.shape[1]), within=1e3)
    if minimum.slope > 1e-7:
        return None  # a tight relation with multiplier zero: the residual grows without bound, ever slower
    bend = np.linalg.eigvalsh(expand(minimum.p).hessian)
    eta_c = 2.0 / (star.norm * float(bend[-1])) if len(bend) else math.inf
    return Late(star, omega, span @ minimum.p, eta_c, span)
