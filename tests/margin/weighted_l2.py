"""A norm of one's own in one file outside the package: N(p)^2 = sum_k w_k p_k^2, with any weights w > 0.

`solve` stretches the axes and asks for the l2 solution; what it finds is measured in the norm itself. `Exact`
is for `hm.certify` and shares nothing with the solver.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import hardmax as hm


@dataclass(frozen=True)
class WeightedL2(hm.margin.Norm):
    name: str
    weights: tuple[float, ...]

    inner_product = True

    @property
    def _roots(self):
        return np.sqrt(np.array(self.weights))

    @property
    def dual(self):
        return WeightedL2(f"dual of {self.name}", tuple(1 / w for w in self.weights))

    def value(self, p):
        return float(np.linalg.norm(self._roots * np.ravel(p)))

    def step(self, g):
        size = self.dual.value(g)
        return np.ravel(g) / self.weights / size if size else np.zeros(len(self.weights))

    def speed(self, F, parts=None):
        return F / self.weights, np.diag(1 / np.array(self.weights))

    @property
    def mirror(self):
        return Quadratic(np.array(self.weights))

    def solve(self, constraints, exact=False):
        return hm.margin.solve_by(self, constraints, self._stretched, exact)

    def _stretched(self, problem, start):
        every = np.arange(len(problem.h))
        rows = problem.A / self._roots
        best = hm.max_margin(hm.Constraints.pairs(rows, every, every * 0 - 1, problem.h, problem.equal))
        return best.p / self._roots, best.multipliers

    def enclose(self, best):
        return hm.margin.enclose_by(best)


@dataclass(frozen=True)
class Quadratic(hm.margin.MirrorMap):
    """The mirror map of N(p)^2/2."""

    weights: np.ndarray

    degree = 2.0

    def dual(self, p):
        return self.weights * p

    def image(self, xi):
        return xi / self.weights

    def log_rate(self, p):
        return -np.log(self.weights)


class Exact(hm.margin.Ball):
    def __init__(self, name, weights):
        self.name, self.weights = name, [Fraction(w) for w in weights]

    @property
    def dual(self):
        return Exact(self.name, [1 / w for w in self.weights])

    def at_most(self, x, bound, inner):
        return sum(w * v * v for w, v in zip(self.weights, x, strict=True)) <= bound**2


SKEWED = (1.0, 4.0, 0.3)
hm.margin.register(WeightedL2("skewed", SKEWED), Exact("skewed", SKEWED))
