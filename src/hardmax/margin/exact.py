"""The last word: a dual active-set method in rational numbers.

Floats are rational numbers, so a hard-margin problem with float data has one exact answer: the minimum-norm
p, or a Farkas vector. The method is Goldfarb and Idnani's, on the exact Gram matrix of the rows, started from
the support that a float solver found; if that support is right, one rational solve proves it.

It ends: an active set W with multipliers >= 0 is the exact solution for the rows of W alone. Each round
adds one violated row j, dropping blocking rows on the way, and ends with a step of positive length along
the part of row j outside span W, so |p| strictly grows and no W comes twice. Ties in the ratio test go to
the lowest row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax.margin.constraints import Constraints
from hardmax.margin.rationals import fraction, independent_columns, integer_factors, integer_rows, integers


@dataclass(frozen=True)
class Exact:
    """A rational answer: the optimum (p, multipliers) or, if it is not ``feasible``, a Farkas vector.

    ``multipliers`` has one number per row. At the optimum ``p = sum_j multipliers_j row_j`` (a matrix is read
    row by row); for an infeasible problem that sum is zero while ``sum_j multipliers_j h_j > 0``. In Gram
    form the multipliers are the solution, and p is None.
    """

    feasible: bool
    multipliers: tuple[Fraction, ...]
    slack: tuple[Fraction, ...] = ()
    norm_squared: Fraction = Fraction(0)
    p: tuple[Fraction, ...] | None = None

    @property
    def tight(self) -> tuple[bool, ...]:
        """Rows met with equality, exactly."""
        return tuple(s == 0 for s in self.slack)


def decide(constraints: Constraints, start: Iterable[int] = ()) -> Exact:
    """Solve the problem in rational arithmetic; never undecided.

    ``start`` are rows believed to carry positive multipliers; they only save time.
    """
    factors: list[Any] = [None, None]  # of outer products, or the rows alone; none in Gram form
    if constraints.right is None:
        factors[0], gram, power = integer_rows(constraints)
    else:
        *factors, gram, power = integer_factors(constraints)
    bounds, h_power = integers(constraints.h)
    solver = _ActiveSet(gram, bounds, constraints.equal.tolist())
    weights = solver.run(sorted(set(start)))
    # With integer rows A = 2^-k rows and bounds H = 2^-l h: p = 2^(l-k) P and lambda = 2^(l-2k) Lambda.
    two = Fraction(2)
    if solver.infeasible:
        return Exact(False, tuple(fraction(w) for w in weights))
    scale = two ** (h_power - 2 * power)
    multipliers = tuple(fraction(w) * scale for w in weights)
    slack = tuple(Fraction(int(s), int(solver.denominator)) * two**h_power for s in solver.slack)
    norm_squared = sum(
        (m * Fraction(h) for m, h in zip(multipliers, constraints.h.tolist(), strict=True)), Fraction(0)
    )
    p = None if factors[0] is None else _combined(factors, multipliers, two**power)
    return Exact(True, multipliers, slack, norm_squared, p)


def _combined(factors: list[Any], multipliers: Sequence[Fraction], scale: Fraction) -> tuple[Fraction, ...]:
    """Return scale sum_j l_j a_j b_j' of the factors a and b, read row by row; b_j is 1 where b is None."""
    a, b = factors
    common = math.lcm(*(weight.denominator for weight in multipliers))
    rows = zip(multipliers, [[1]] * len(multipliers) if b is None else b.tolist(), strict=True)
    weighted = fmpz_mat([[int(weight * common) * x for x in row] for weight, row in rows])
    return tuple(scale * Fraction(int(x), common) for x in (a.transpose() * weighted).entries())


def zero(constraints: Constraints) -> Exact:
    """The answer p = 0, for a problem in which all bounds are 0."""
    nothing = (Fraction(0),) * constraints.count
    p = (Fraction(0),) * math.prod(constraints.shape) if constraints.shape else None
    return Exact(True, nothing, nothing, p=p)


def refute(constraints: Constraints, farkas: Iterable[int]) -> Exact | None:
    """Prove infeasibility by the one linear dependency among the given rows, if it is a Farkas vector."""
    chosen = np.asarray(sorted(set(farkas)), dtype=np.int64)
    subset = constraints.subset(chosen)
    gram = integer_rows(subset)[1] if subset.right is None else integer_factors(subset)[2]
    solver = _ActiveSet(gram, integers(subset.h)[0], subset.equal.tolist())
    weights = solver.contradiction(list(range(len(chosen))))
    if weights is None:
        return None
    by_row = {row: fraction(weight) for row, weight in zip(chosen.tolist(), weights, strict=True)}
    full = tuple(by_row.get(j, Fraction(0)) for j in range(constraints.count))
    return Exact(False, full)


def active_set(gram: Any, bounds: Sequence[int], equal: Sequence[bool]) -> list[Any]:
    """Weights of integer rows that combine to the shortest vector that meets them, or to a contradiction."""
    return _ActiveSet(gram, bounds, equal).run([])


class _ActiveSet:
    """Goldfarb-Idnani over the integers: Gram matrix G, bounds H, multipliers as rationals."""

    def __init__(self, gram: Any, bounds: Sequence[int], equal: Sequence[bool]) -> None:
        self.gram, self.bounds, self.equal = gram, [fmpz(b) for b in bounds], equal
        self.m = len(bounds)
        self.infeasible = False
        self.slack: list[Any] = []
        self.denominator: Any = fmpz(1)

    def block(self, rows: Sequence[int], columns: Sequence[int]) -> Any:
        gram = self.gram
        return fmpz_mat(len(rows), len(columns), [gram[i, j] for i in rows for j in columns])

    def independent(self, rows: Sequence[int]) -> list[int]:
        """A maximal independent subset, earlier rows first."""
        if not rows:
            return []
        return [rows[k] for k in independent_columns(self.block(rows, rows))]

    def express(self, working: list[int], row: int) -> tuple[list[Any], Any]:
        """Coefficients r of ``row`` over the working rows, and the squared length of the rest."""
        column = self.block(working, [row])
        r = self.block(working, working).solve(column).entries() if working else []
        rest = self.gram[row, row] - sum((c * g for c, g in zip(r, column.entries(), strict=True)), fmpq(0))
        if rest < 0:
            raise ValueError(
                "gram must be a positive semidefinite matrix, got a row of negative squared length"
            )
        return r, fmpq(rest)

    def contradiction(self, rows: list[int]) -> list[Any] | None:
        """A Farkas vector on the given rows, if their one dependency is one."""
        basis = self.independent(rows)
        for j in (j for j in rows if j not in basis):
            r, rest = self.express(basis, j)
            gain = self.bounds[j] - sum((c * self.bounds[i] for i, c in zip(basis, r, strict=True)), fmpq(0))
            for sign in (1, -1) if self.equal[j] else (1,):
                signed = all(self.equal[i] or sign * c <= 0 for i, c in zip(basis, r, strict=True))
                if rest == 0 and signed and sign * gain > 0:
                    self.infeasible = True
                    return self.spread([*basis, j], [*(-sign * c for c in r), fmpq(sign)])
        return None

    def spread(self, rows: Sequence[int], weights: Sequence[Any]) -> list[Any]:
        full = [fmpq(0)] * self.m
        for row, weight in zip(rows, weights, strict=True):
            full[row] = fmpq(weight)
        return full

    def multipliers(self, working: list[int]) -> tuple[list[Any], Any]:
        """Numerators and the denominator of the multipliers that make the working rows tight."""
        if not working:
            return [], fmpz(1)
        right = fmpz_mat(len(working), 1, [self.bounds[j] for j in working])
        numerators, denominator = self.block(working, working).solve(right).numer_denom()
        return numerators.entries(), denominator

    def run(self, start: list[int]) -> list[Any]:
        ties = [j for j in range(self.m) if self.equal[j]]
        tied = self.independent(ties)
        working = self.independent([*tied, *(j for j in start if not self.equal[j])])
        numerators, denominator = self.multipliers(working)
        while negative := [
            (n, j) for j, n in zip(working, numerators, strict=True) if n < 0 and not self.equal[j]
        ]:
            working.remove(min(negative)[1])
            numerators, denominator = self.multipliers(working)
        while True:
            self.measure(working, numerators, denominator)
            row = self.most_violated()
            weights = [fmpq(n, denominator) for n in numerators]
            if row is None:
                return self.spread(working, weights)
            proof = self.add(working, weights, row)
            if proof is not None:
                return proof
            numerators, denominator = self.multipliers(working)

    def measure(self, working: list[int], numerators: list[Any], denominator: Any) -> None:
        """Slacks of all rows, as integers over one denominator."""
        self.denominator = denominator
        self.slack = [-b * denominator for b in self.bounds]
        if working:
            columns = self.block(range(self.m), working) * fmpz_mat(len(working), 1, numerators)
            self.slack = [s + c for s, c in zip(self.slack, columns.entries(), strict=True)]

    def most_violated(self) -> int | None:
        """The row farthest on the wrong side (in units of its length); None at the optimum."""
        wrong = [j for j in range(self.m) if self.slack[j] < 0 or (self.equal[j] and self.slack[j] != 0)]
        if not wrong:
            return None
        unit = int(max(abs(self.slack[j]) for j in wrong))
        size = max(1, *(int(self.gram[j, j]) for j in wrong))

        def depth(j: int) -> float:
            length = int(self.gram[j, j]) / size
            return (int(self.slack[j]) / unit) ** 2 / length if length else float("inf")

        return max(wrong, key=depth)

    def add(self, working: list[int], weights: list[Any], row: int) -> list[Any] | None:
        """Make ``row`` active, dropping rows that block; returns a Farkas vector if it cannot be."""
        sign = -1 if self.slack[row] > 0 else 1  # only an equality row is ever wrong on the upper side
        missing = fmpq(abs(self.slack[row]), self.denominator)
        while True:
            r, rest = self.express(working, row)
            steps = [
                (w / (sign * c), j)
                for j, w, c in zip(working, weights, r, strict=True)
                if not self.equal[j] and sign * c > 0
            ]
            blocking = min(steps) if steps else None
            if rest == 0 and blocking is None:
                self.infeasible = True
                return self.spread([*working, row], [*(-sign * c for c in r), fmpq(sign)])
            full = missing / rest if rest else None
            if blocking is None or (full is not None and full <= blocking[0]):
                working.append(row)
                return None
            step, drop = blocking
            missing -= step * rest
            weights[:] = [w - step * sign * c for w, c in zip(weights, r, strict=True)]
            del weights[working.index(drop)]
            working.remove(drop)
