"""Max-margin problems in the nuclear and the spectral norm of a matrix, and what certifies them (D-ALG-1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.margin.constraints import Constraints, Floats
from hardmax.margin.measure import Tight
from hardmax.margin.norms.matrices.definition import Singular
from hardmax.margin.norms.matrices.interior import Rows, by_interior
from hardmax.margin.norms.solving import enclose_by, solve_by
from hardmax.margin.solution import MaxMargin, texts
from hardmax.margin.solve import Scaled

MOST_SIDE = 100  # rows or columns of a matrix whose solution is saved


class OfMatrix(Singular):
    """The nuclear or the spectral norm.

    >>> OfMatrix(True).solve(Constraints.pairs([[1.0]], [0], [-1], right=[[2.0]], right_of=[0])).margin
    2.0
    """

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """By an interior-point method, whatever the rows are."""

        def optimum(scaled: Scaled, _: Any) -> tuple[Floats, Floats] | None:
            d, e = constraints.shape
            found = by_interior(Rows(scaled.A, (d, e), scaled.h, scaled.equal, scaled.factors), self)
            return None if found is None else found[:2]

        return solve_by(self, constraints, optimum, exact)

    def enclose(self, best: MaxMargin) -> Tight:
        """By solving with and without the rows."""
        return enclose_by(best)

    def certificate(self, best: MaxMargin) -> dict[str, Any]:
        """The shape, and factors K and Q whose product is near p or near what the multipliers combine.

        They prove a bound of its nuclear norm, |KQ'| <= (|K|^2 + |Q|^2)/2, which is sharp for these.
        """
        c = best.constraints
        if max(c.shape) > MOST_SIDE:
            raise ValueError(
                f"max_margin must be of a matrix of at most {MOST_SIDE} rows and columns to be saved in the "
                f"norm {self.name}, got {c.shape[0]} x {c.shape[1]}; its margin_interval is what it proves"
            )
        if best.p is None or best.multipliers is None or not best.p.any():
            return {"shape": [*c.shape], "factors": None}
        matrix = best.p if self.nuclear else best.multipliers @ c.rows()
        U, values, Vt = np.linalg.svd(np.reshape(matrix, c.shape), full_matrices=False)
        roots = np.sqrt(values)
        factors = {"left": [texts(row) for row in U * roots], "right": [texts(row) for row in Vt.T * roots]}
        return {"shape": [*c.shape], "factors": factors}
