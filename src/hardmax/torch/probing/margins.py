"""The max margin of rows known by their Gram matrix, measured, by solving for whole sets of rows at once.

Most rows of a head's problem are tight, so a method that adds rows one by one is slow here. Block principal
pivoting (Judice and Pires) guesses all tight rows, solves for them, and exchanges every row that is wrong; one
Cholesky factor a round. What it returns is measured as any other solution is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from hardmax._lib.kernels import kernel
from hardmax.margin.measure import measure, rounding
from hardmax.margin.solve import proves, solve
from hardmax.torch.probing.inputs import Floats, Ints
from hardmax.torch.probing.rows import Rows

ROUNDS = 60
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
        """The middle of the interval: 0 if no W separates."""
        return 0.0 if self.status == "infeasible" else sum(self.interval) / 2

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
    if info == 0 and pivots.min() ** 2 > DEPENDENT * np.diag(gram).max():
        return Span(factor, np.arange(len(gram)))
    tolerance = DEPENDENT * float(np.diag(gram).max())
    factor, order, rank, _ = lapack.dpstrf(gram, lower=True, tol=tolerance)
    return Span(np.tril(factor[:rank, :rank]), order[:rank] - 1)


def by_gram(gram: Floats, span: Span | None = None) -> Margin:
    """The max margin by pivoting, from all rows on; undecided where the rows are too dependent for it."""
    m = len(gram)
    span = span or span_of(gram)
    if span.rank < m:
        return _nothing(m)
    tight, weights, slack = np.ones(m, dtype=bool), np.zeros(m), np.zeros(m)
    patience, fewest = 3, m + 1
    factor = span.factor
    for _ in range(ROUNDS):
        used = np.flatnonzero(tight)
        if len(used) < m:
            factor, info = lapack.dpotrf(part(gram, used), lower=True, overwrite_a=True, clean=False)
            if info:
                return _nothing(m)
        weights[:] = 0.0
        weights[used] = lapack.dpotrs(factor, np.ones(len(used)), lower=True)[0]
        slack = gram[:, used] @ weights[used] - 1.0 if 4 * len(used) < m else gram @ weights - 1.0
        wrong = np.where(tight, weights < 0.0, slack < -1e-12)
        count = int(wrong.sum())
        if count == 0:
            return _measured(gram, weights, slack + 1.0)
        if count < fewest:
            patience, fewest = 3, count
        elif patience > 0:
            patience -= 1
        else:  # one row at a time ends for certain
            wrong[: np.flatnonzero(wrong)[-1]] = False
        tight ^= wrong
    return _nothing(m)


@kernel()
def part(gram: Floats, used: Ints) -> Floats:
    """Rows and columns of some, in the order LAPACK reads without copying: a symmetric matrix is its transpose."""
    out = np.empty((used.size, used.size))
    for i in range(used.size):
        row = gram[used[i]]
        for j in range(used.size):
            out[i, j] = row[used[j]]
    return out.T


def _nothing(m: int) -> Margin:
    return Margin("undecided", np.zeros(m), (0.0, np.inf))


def _measured(gram: Floats, weights: Floats, along: Floats) -> Margin:
    lengths = np.sqrt(np.diag(gram))
    reach, terms = float(weights @ lengths), len(gram) + 8
    norm = float(np.sqrt(max(weights @ along, 0.0)))
    if not norm:
        return _nothing(len(gram))
    none, ones = np.zeros(len(gram), dtype=bool), np.ones(len(gram))
    blurred = lengths * max(reach / norm, 1.0)
    found = measure(along, ones, none, weights, blurred, norm, norm, 0.0, terms)
    slop = rounding(terms) * (reach / norm) ** 2  # of the squared norm, by rounding of the Gram matrix
    low, high = float(found.lower) / (1 + slop), float(found.upper) * (1 + slop)
    good = bool(proves(found._replace(lower=low, upper=high)))
    return Margin("certified" if good else "undecided", weights, (low, high))


def margin_of(rows: Rows, gram: Floats, span: Span | None = None) -> Margin:
    """The certified max margin of rows: by pivoting, else by the solver with exact arithmetic behind it."""
    found = by_gram(gram, span)
    if found.status == "certified" or rows.inputs.angles is not None:
        return found
    best = solve(rows.constraints())
    if best.status == "infeasible":
        return Margin("infeasible", np.zeros(rows.count), (0.0, 0.0), best.farkas)
    if best.multipliers is None or (best.status == "undecided" and best.margin_interval[0] <= found.interval[0]):
        return found
    return Margin(best.status, best.multipliers, best.margin_interval)
