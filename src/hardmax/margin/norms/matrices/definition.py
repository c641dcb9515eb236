"""The nuclear and the spectral norm of a matrix W: value, dual and steepest step, by singular values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Constraints, Floats
from hardmax.margin.measure import rounding
from hardmax.margin.norms.definition import along, lengths
from hardmax.margin.registry import Norm

ROUNDING = 1e-13  # singular values below this share of the largest are zero to a steepest step


@dataclass(frozen=True)
class Singular(Norm):
    """l1 of the singular values if ``nuclear``, else the largest of them."""

    nuclear: bool

    strictly_convex, of_matrix = False, True
    tolerance = 1e-8

    @property
    def name(self) -> str:
        """Nuclear or spectral."""
        return "nuclear" if self.nuclear else "spectral"

    @property
    def dual(self) -> Singular:
        """The other one."""
        return type(self)(not self.nuclear)

    @property
    def _r(self) -> float:
        return 1.0 if self.nuclear else math.inf

    def value(self, p: ArrayLike) -> float:
        """N(p) of a matrix, off by at most a relative `rounding`.

        >>> import hardmax as hm
        >>> hm.margin.norm("nuclear").value([[0.0, 3.0], [4.0, 0.0]])
        7.0
        """
        return float(lengths(np.linalg.svd(np.asarray(p, dtype=np.float64), compute_uv=False), self._r))

    def above_rows(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """Between l2 and these norms there is at most the root of the rank."""
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(norms * self.over_l2(shape) * (1 + rounding(rows.shape[1])))

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """The root of the largest rank."""
        return math.sqrt(min(shape))

    def step(self, g: ArrayLike) -> Floats:
        """The steepest step, of singular values that are not zero but for rounding."""
        slope = np.asarray(g, dtype=np.float64)
        largest = float(np.abs(slope).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(slope)
        U, values, Vt = np.linalg.svd(slope / largest, full_matrices=False)
        kept = np.where(values > ROUNDING * values[0], values, 0.0)
        return np.asarray((U * along(kept, self._r)) @ Vt)

    def refuse(self, constraints: Constraints, exact: bool = False) -> None:
        """Refuse vectors, too."""
        if len(constraints.shape) != 2 and constraints.token_gram is None and constraints.origin is None:
            raise ValueError(
                f"norm must be one of vectors for a p of shape {constraints.shape}, got {self.name!r}; "
                'choose "l1", "l2", "linf" or a power such as "l1.5"'
            )
        super().refuse(constraints, exact)
