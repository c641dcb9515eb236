"""The max margin of rows known by their Gram matrix, measured, by solving for whole sets of rows at once.

Many rows of a head's problem are tight, so a method that adds them one by one is slow here. Block principal
pivoting (Judice and Pires) guesses all tight rows, solves for them, and exchanges every row that is wrong;
one Cholesky factor a round. What it returns is measured as any other solution is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from hardmax._lib.kernels import kernel
from hardmax.margin.measure import measure, rounding
from hardmax.margin.solve import EXACT_ROWS, proves, solve
from hardmax.torch.probing.inputs import Bools, Floats, Ints
from hardmax.torch.probing.rows import QueryRows

ROUNDS = 40
STEPS = 400
REFINED = 6
NARROW = 1e-6  # intervals this narrow need no second opinion
WRITTEN_OUT = 2 * 10**7  # numbers of rows that the exact solver writes out
DEPENDENT = 1e-10  # pivots of the Gram matrix below this share of the largest count as dependent rows


@dataclass(frozen=True, eq=False)
class Margin:
    """W_mm as weights of rows, scaled to margin 1, with an interval for the margin.

    ``status`` is "certified", "infeasible" (``farkas`` are weights of rows that cancel: no W of any rank) or
    "undecided".

    >>> import numpy as np
    >>> found = by_gram(np.array([[4.0, 0.0], [0.0, 4.0]]))
    >>> found.status, round(found.margin, 12)
    ('certified', 1.414213562373)
    """

    status: str
    weights: Floats
    interval: tuple[float, float]
    farkas: Floats | None = None

    @property
    def margin(self) -> float:
        """The middle of the interval: 0 if no W separates, nan if nothing is known."""
        low, high = self.interval
        return (low + high) / 2 if high < np.inf else np.nan

    @property
    def squared(self) -> float:
        """|W_mm|^2, which is the sum of its weights."""
        return float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class Span:
    """The span of rows, by the Cholesky factor of their Gram matrix (of independent ones among them).

    >>> import numpy as np
    >>> span = span_of(np.array([[1.0, 1.0], [1.0, 1.0]]))
    >>> span.rank, round(span.length(np.array([3.0, 3.0])), 12)
    (1, 3.0)
    """

    factor: Floats  # lower
    rows: Ints  # the independent rows, in the factor's order

    @property
    def rank(self) -> int:
        """Dimension of the span, up to a relative 1e-10 of the Gram matrix."""
        return len(self.rows)

    def length(self, along: Floats) -> float:
        """|Pi W| for a W with these inner products with the rows."""
        return float(np.linalg.norm(lapack.dtrtrs(self.factor, along[self.rows], lower=True)[0]))


def span_of(gram: Floats) -> Span:
    """Plain Cholesky where rows are independent, with pivots where they are not."""
    factor, info = lapack.dpotrf(gram.T, lower=True)  # what LAPACK reads is the transpose
    pivots = np.diag(factor)
    if info == 0 and pivots.min(initial=np.inf) ** 2 > DEPENDENT * np.diag(gram).max(initial=0.0):
        return Span(factor, np.arange(len(gram)))
    tolerance = DEPENDENT * float(np.diag(gram).max())
    factor, order, rank, _ = lapack.dpstrf(gram, lower=True, tol=tolerance)
    return Span(np.tril(factor[:rank, :rank]), order[:rank] - 1)


def by_gram(gram: Floats, span: Span | None = None) -> Margin:
    """The max margin by pivoting, from all rows on, and by steps that never go back where it runs in circles.

    Where rows depend on each other, a ridge of 1e-10 of the largest row picks one of many multipliers, and
    steps of refinement with the same factor take its effect away.
    """
    m = len(gram)
    span = span or span_of(gram)
    ridge = 0.0 if span.rank == m else DEPENDENT * float(np.diag(gram).max())
    system = _System(gram, ridge, None if ridge else span.factor)
    tight, fewest, patience = np.ones(m, dtype=bool), m + 1, 3
    for _ in range(ROUNDS):
        weights = system.solved(tight)
        wrong = np.where(tight, weights < 0.0, system.violated(weights))
        count = int(wrong.sum())
        if count == 0:
            return _measured(gram, system.refined(weights, tight))
        patience, fewest = (3, count) if count < fewest else (patience - 1, fewest)
        if patience == 0:
            break
        tight ^= wrong
    weights = system.descended(np.maximum(system.solved(tight), 0.0))
    return _measured(gram, system.refined(weights, weights > 0.0))


@dataclass(frozen=True, eq=False)
class _System:
    """(gram + ridge I) weights = 1 on some rows: the problem's optimality where all are tight."""

    gram: Floats
    ridge: float
    whole: Floats | None  # the factor for all rows, if it is known

    def factor(self, tight: Bools) -> tuple[Ints, Floats]:
        used = np.flatnonzero(tight)
        if self.whole is not None and len(used) == len(self.gram):
            return used, self.whole
        some = part(self.gram, used)
        some.ravel()[:: len(used) + 1] += self.ridge
        factor, info = lapack.dpotrf(some.T, lower=True, overwrite_a=True, clean=False)
        if info:
            raise np.linalg.LinAlgError("rows must be independent up to the ridge")
        return used, factor

    def solved(self, tight: Bools) -> Floats:
        weights = np.zeros(len(self.gram))
        if tight.any():
            used, factor = self.factor(tight)
            weights[used] = lapack.dpotrs(factor, np.ones(len(used)), lower=True)[0]
        return weights

    def violated(self, weights: Floats) -> Bools:
        return np.asarray(self.gram @ weights + self.ridge * weights < 1.0 - 1e-12)

    def descended(self, weights: Floats) -> Floats:
        """Lawson and Hanson's steps from weights >= 0: the dual objective falls with each, so they end."""
        single = False
        for _ in range(STEPS):
            tight = weights > 0.0
            aim = self.solved(tight)
            if (aim >= 0.0).all():
                weights = aim
                lacking = np.where(tight, 0.0, 1.0 - self.gram @ weights)
                if lacking.max(initial=0.0) <= 1e-12:
                    break
                most = lacking == lacking.max() if single else lacking > 0.5 * lacking.max()
                tight = tight | most
                aim = self.solved(tight)
                stuck = most & (aim <= 0.0)
                single = bool(stuck.any())
                if single and not (tight & (aim <= 0.0) & ~most).any():
                    continue
            falling = tight & (aim < 0.0)
            share = weights[falling] / (weights[falling] - aim[falling])
            step = float(share.min(initial=1.0))
            weights = np.maximum(weights + step * (aim - weights), 0.0)
            if step < 1.0:
                weights[np.flatnonzero(falling)[share <= step]] = 0.0
        return weights

    def refined(self, weights: Floats, tight: Bools) -> Floats:
        """What the ridge changed, undone."""
        if not self.ridge or not tight.any():
            return weights
        used, factor = self.factor(tight)
        better = weights.copy()
        for _ in range(REFINED):
            better[used] += lapack.dpotrs(factor, 1.0 - (self.gram @ better)[used], lower=True)[0]
        return np.maximum(better, 0.0)


@kernel()
def part(gram: Floats, used: Ints) -> Floats:
    """Rows and columns of some; numpy's own way takes as long as the Cholesky factor."""
    out = np.empty((used.size, used.size))
    for i in range(used.size):
        row = gram[used[i]]
        for j in range(used.size):
            out[i, j] = row[used[j]]
    return out


def _nothing(m: int) -> Margin:
    return Margin("undecided", np.zeros(m), (0.0, np.inf))


def _measured(gram: Floats, weights: Floats) -> Margin:
    """What weights prove about the margin, rounding of the Gram matrix allowed for."""
    along = gram @ weights
    lengths = np.sqrt(np.diag(gram))
    reach, terms = float(weights @ lengths), len(gram) + 8
    norm = max(float(weights @ along), 0.0) ** 0.5
    if not norm:
        return _nothing(len(gram))
    none, ones = np.zeros(len(gram), dtype=bool), np.ones(len(gram))
    blurred = lengths * max(reach / norm, 1.0)
    found = measure(along, ones, none, weights, blurred, norm, norm, 0.0, terms)
    slop = rounding(terms) * (reach / norm) ** 2  # of the squared norm, by rounding of the Gram matrix
    low, high = float(found.lower) / (1 + slop), float(found.upper) * (1 + slop)
    good = bool(proves(found._replace(lower=low, upper=high)))
    return Margin("certified" if good else "undecided", weights, (low, high))


def margin_of(rows: QueryRows, gram: Floats, span: Span | None = None) -> Margin:
    """The max margin of rows: by pivoting, else by the exact solver on the rows that matter, if it can."""
    found = by_gram(gram, span)
    low, high = found.interval
    matter = np.flatnonzero(found.weights > 1e-9 * found.weights.max(initial=0.0))
    if not len(matter) and rows.count <= EXACT_ROWS:
        matter = np.arange(rows.count)
    size = len(matter) * rows.inputs.x.shape[2] * rows.inputs.z.shape[2]
    narrow = low >= (1 - NARROW) * high > 0
    if narrow or rows.inputs.angles is not None or not 0 < len(matter) <= EXACT_ROWS or size > WRITTEN_OUT:
        return found
    best = solve(rows.constraints().subset(matter))
    weights = np.zeros(rows.count)
    if best.status == "infeasible":
        assert best.farkas is not None
        weights[matter] = best.farkas
        return Margin("infeasible", np.zeros(rows.count), (0.0, 0.0), weights)
    if best.multipliers is None or not best.is_certified:
        return found
    weights[matter] = best.multipliers
    better = _measured(gram, weights)
    return better if better.interval[0] / better.interval[1] > (low / high if high > 0 else 0.0) else found
