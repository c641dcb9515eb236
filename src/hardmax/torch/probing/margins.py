"""The max margin of a head's rows by their Gram matrix: many are tight, so that pivoting finds it soon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.margin.engines import Span, pivoted, seen_by
from hardmax.margin.measure import measure
from hardmax.margin.solve import EXACT_ROWS, proves, solve
from hardmax.torch.probing.inputs import Floats
from hardmax.torch.probing.rows import QueryRows

NARROW = 1e-6  # intervals this narrow need no second opinion
WRITTEN_OUT = 2 * 10**7  # numbers of rows that the exact solver writes out


@dataclass(frozen=True, eq=False)
class Margin:
    """W_mm as weights of rows, scaled to margin 1, with an interval for the margin.

    ``status`` is "certified", "infeasible" (``farkas`` are weights of rows that cancel: no W of any rank) or
    "undecided".
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


def by_gram(gram: Floats, span: Span | None = None) -> Margin:
    """The max margin of rows by their Gram matrix."""
    weights = pivoted(gram, span)
    assert weights is not None, "its steps always end"
    return _measured(gram, weights)


def _measured(gram: Floats, weights: Floats) -> Margin:
    """What weights prove about the margin, rounding of the Gram matrix allowed for."""
    if not weights.any():
        return Margin("undecided", weights, (0.0, np.inf))
    along, norm, lengths, terms = seen_by(gram, weights, np.sqrt(np.diag(gram)))
    none, ones = np.zeros(len(gram), dtype=bool), np.ones(len(gram))
    found = measure(along, ones, none, weights, lengths, norm, norm, 0.0, terms)
    ends = float(found.lower), float(found.upper)
    return Margin("certified" if proves(found) else "undecided", weights, ends)


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
