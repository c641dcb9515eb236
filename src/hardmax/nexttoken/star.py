"""W_kq*, the direction that stage 2 goes to, as one value per pair, and C-THM-ASY: the rest late in stage 2.

Late in training a sentence pulls along its tight relations e = (o, x; q) only, with the weight
omega_e e^(-(A[o,q] - A[x,q])), omega_e = sum pi c_x/c_o over the sentences with query q and token x. Write
A = c W_kq* + R with R orthogonal to W_kq*. Normalized gradient descent is then gradient descent on the convex

    F(R) = log sum_e omega_e exp(-(R[o,q] - R[x,q])),    with the step eta |W_kq*|,

whose minimum on the span of the tight relations is R_perp. It gets there for a step below
eta_c = 2 / (|W_kq*| lambda_max), lambda_max the largest curvature of F there, and swings above.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import half_square, length
from hardmax.dynamics.edges import edges_of
from hardmax.limits.late import ZERO, late_risk
from hardmax.limits.searching import minimize
from hardmax.margin.closed_forms import kq_column, kq_multipliers, proved, star_column
from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import Exact
from hardmax.margin.measure import measure
from hardmax.margin.solution import MaxMargin, from_exact
from hardmax.margin.solve import proves, solve
from hardmax.nexttoken.relations import Orders, orders
from hardmax.nexttoken.stages import Floats, Ints, Pairs
from hardmax.problem.readouts import OutputValue
from hardmax.problem.selection import Selection

Part = tuple[slice, MaxMargin]  # the relations of a query with confused tokens, and their solution


@dataclass(frozen=True, eq=False)
class KqStar:
    """W_kq* of a dataset: shortest A with A[o,q] - A[x,q] >= 1 for all relations o >_q x.

    ``above`` and ``below`` are the pairs of each relation, ``values`` one number per pair, ``exact`` the same
    as fractions where they are known in closed form (None for a query with confused tokens). ``status`` is
    that of a `MaxMargin`: "infeasible" if the orders contradict each other, "undecided" if a query is too
    large for a proof; then ``values`` is None, and ``reason`` names the query. ``solution`` is the whole as a
    `MaxMargin`, with the certificate.
    """

    pairs: Pairs
    above: Ints
    below: Ints
    values: Floats | None
    exact: tuple[Fraction, ...] | None
    status: Literal["certified", "infeasible", "undecided"]
    reason: str
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, pairs: Pairs, relations: Orders | None = None) -> KqStar:
        """From the pairs of a dataset; its orders are extracted again if they are not given."""
        relations = orders(pairs.samples, pairs.collocation) if relations is None else relations
        keys, V = pairs.query * pairs.samples.V + pairs.token, relations.V
        above = np.searchsorted(keys, relations.query * V + relations.above)
        below = np.searchsorted(keys, relations.query * V + relations.below)
        values: dict[int, Any] = {}  # by pair
        parts: list[Part] = []
        for rows in _queries(relations.query):
            column: dict[int, Any] | None = _closed_form(above[rows].tolist(), below[rows].tolist())
            if column is None:
                inside, ends = np.unique(np.concatenate([above[rows], below[rows]]), return_inverse=True)
                tops, lows = np.split(ends, 2)
                best = solve(Constraints.between_entries((len(inside),), tops, lows))
                parts.append((rows, best))
                if best.status == "infeasible":
                    break
                certified = best.need().tolist() if best.is_certified else [math.nan] * len(inside)
                column = dict(zip(inside.tolist(), certified, strict=True))
            values |= column
        # The last part may contradict itself; else the first that was not decided is reported.
        failed = [part for part in parts if part[1].status == "infeasible"]
        failed += [part for part in parts if not part[1].is_certified]
        if failed:
            where, best = failed[0]
            word = pairs.samples.vocabulary[relations.query[where.start]]
            why = f"{best.constraints.count} relations are too many to decide whether there is one"
            if best.status == "infeasible":
                why = "the orders contradict each other"
            why = f"no W_kq*: under the query {word!r} {why}"
            return cls(pairs, above, below, None, None, best.status, why, (failed[0],))
        whole = [values.get(k, Fraction(0)) for k in range(pairs.P)]
        exact = None if parts else tuple(whole)
        floats = np.array([float(w) for w in whole])
        return cls(pairs, above, below, floats, exact, "certified", "exists", tuple(parts))

    @cached_property
    def solution(self) -> MaxMargin:
        """W_kq* as a `MaxMargin` in the pairs' values, with multipliers, interval and certificate.

        Rows are labeled (query, above, below). ``selection`` has, for every sentence of the pairs, the
        tokens that lead to its next token: several where the collocation is not injective, all of them where
        none does, without a constraint. It grows with pairs and relations only.
        """
        pairs = self.pairs
        token, query = pairs.token.tolist(), pairs.query.tolist()
        ends = list(zip(self.above.tolist(), self.below.tolist(), strict=True))
        labels = [(query[a], token[a], token[b]) for a, b in ends]
        rows = Constraints.between_entries((pairs.P,), self.above, self.below, labels=labels)
        solution = self._refuted(rows) if self.values is None else self._certified(rows, ends)
        return replace(solution, selection=self.selection)

    @property
    def selection(self) -> Selection:
        """The tokens that lead to the next token, for every sentence of the pairs."""
        pairs, sets = self.pairs, []
        tokens, right = pairs.token[pairs.pair].tolist(), pairs.is_optimal.tolist()
        for low, high in pairwise(pairs.offsets.tolist()):
            inside = [e for e in range(low, high) if right[e]] or range(low, high)
            sets.append(tuple(sorted(tokens[e] for e in inside)))
        return Selection(tuple(sets))

    def _refuted(self, rows: Constraints) -> MaxMargin:
        """Return the answer of the one query that has no solution, or none that is known."""
        ((where, part),) = self.parts
        if part.exact is not None:
            full = [Fraction(0)] * rows.count
            full[where] = part.exact.multipliers
            return from_exact(rows, Exact(False, tuple(full)))
        weights = np.zeros(rows.count)
        if part.multipliers is not None:
            weights[where] = part.multipliers
        interval = (0.0, part.margin_interval[1])
        return MaxMargin(rows, "undecided", "float", np.zeros(self.pairs.P), weights, interval, math.inf)

    def _certified(self, rows: Constraints, ends: list[tuple[int, int]]) -> MaxMargin:
        solved = {where.start: best for where, best in self.parts}
        weights: list[Any] = []
        for where in _queries(self.pairs.query[self.above]):
            best = solved.get(where.start)
            weights += (
                kq_multipliers(ends[where]) if best is None else cast(Floats, best.multipliers).tolist()
            )
        if self.exact is not None:
            return proved(rows, self.exact, weights)
        p, multipliers = cast(Floats, self.values), np.array([float(w) for w in weights])
        u = np.bincount(self.above, multipliers, self.pairs.P)
        u -= np.bincount(self.below, multipliers, self.pairs.P)
        norms, sizes = np.full(rows.count, math.sqrt(2.0)), (length(p), length(u), length(p - u))
        measures = measure(rows.project(p), rows.h, rows.equal, multipliers, norms, *sizes, len(p))
        status = "certified" if proves(measures) else "undecided"
        interval = float(measures.lower), float(measures.upper)
        return MaxMargin(rows, cast(Any, status), "float", p, multipliers, interval, float(measures.kkt))

    @cached_property
    def norm_squared(self) -> Fraction | float:
        """|W_kq*|^2, exact where the values are; nan if there is none."""
        if self.exact is not None:
            # Queries repeat few column shapes; a sum of equal fractions is one product.
            return sum((w * w * k for w, k in Counter(self.exact).items()), Fraction(0))
        return math.nan if self.values is None else float(self.values @ self.values)

    @property
    def norm(self) -> float:
        """|W_kq*|."""
        return math.sqrt(self.norm_squared)

    @cached_property
    def is_star(self) -> bool:
        """Every query has one optimal token, which is above all its others (C-THM-STRUCT)."""
        tops = np.unique(self.above)
        return len(np.unique(self.pairs.query[tops])) == len(tops)

    @cached_property
    def support(self) -> Ints:
        """The relations that are tight."""
        if self.values is None:
            raise ValueError(self.reason)
        return np.flatnonzero(self.values[self.above] - self.values[self.below] <= 1.0 + 1e-9)

    @cached_property
    def wide(self) -> Any:
        """The values in extended precision where the machine has it: at |A| = 1e10 the digits matter."""
        if self.values is None:
            raise ValueError(self.reason)
        if self.exact is None:
            return self.values.astype(np.longdouble)
        above = np.array([w.numerator for w in self.exact], dtype=np.longdouble)
        return above / np.array([w.denominator for w in self.exact], dtype=np.longdouble)

    def cosine_distance(self, other: Any) -> float:
        """1 - cos between pairs' values and W_kq*; nan if either is zero or missing."""
        a = np.asarray(other, dtype=np.longdouble)
        size = np.sqrt(a @ a)
        if self.values is None or not size > 0.0 or not self.norm > 0.0:
            return math.nan
        return half_square(a / size, self.wide / np.sqrt(self.wide @ self.wide))


def _queries(query: Ints) -> list[slice]:
    """Return the range of the relations of each query; they are sorted by query."""
    starts = np.flatnonzero(np.diff(query, prepend=-1)).tolist()
    return [slice(a, b) for a, b in pairwise([*starts, len(query)])]


def _closed_form(above: list[int], below: list[int]) -> dict[int, Fraction] | None:
    """Return one query's values by pair; None if it has confused tokens."""
    if not set(above).isdisjoint(below):
        return None
    if len(set(above)) == 1:
        return star_column(above[0], below)
    return kq_column(zip(above, below, strict=True))


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
