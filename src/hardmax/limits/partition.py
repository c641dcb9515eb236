"""Which rows a p can win and which are bound to zero, with a proof of both (D-THM-11).

Among the p that lose no row, C = {p : Dp >= 0}, a row is separable if some p wins it, and bound if all tie
it. Both have certificates in fractions: a p with d_j.p >= 1 on the separable rows and = 0 on the bound ones,
and a circulation, y >= 1 on the bound rows with sum_j y_j d_j = 0. Cycles of the graph of rows are known
beforehand, a linear program in floats guesses the rest, and where that is wrong exact contradictions fix it:
rows that cannot all be won cancel with positive weights, so each of them is bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax.limits.cycles import circulation, ends, inside_components, potential, strong_components
from hardmax.margin.closed_forms import Classes
from hardmax.margin.constraints import Bools, Constraints, Floats, Ints
from hardmax.margin.rationals import independent_columns, integer_rows
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import EXACT_ROWS, scale, solve

MOST_ROWS = 2_000  # of dense rows that are written out as integers


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows that are ``bound``, with the weights by which they cancel, and the p that wins the others.

    ``circulation`` has a number for every row, zero on the separable ones. ``best`` is the shortest p that
    wins the separable rows by 1 and ties the bound ones; ``witness`` one in fractions, where it is known.
    """

    constraints: Constraints
    bound: Bools
    basis: Ints  # bound rows that are independent and span all of them
    circulation: tuple[Fraction, ...]
    best: MaxMargin
    witness: tuple[Fraction, ...] | None
    certified: bool


def partition(constraints: Constraints) -> Partition:
    """Separable and bound rows of inequalities ``row_j . p >= 0``, certified or undecided."""
    if constraints.entries is not None:
        return _of_graph(constraints)
    if constraints.count > MOST_ROWS:
        raise ValueError(
            f"problem must have at most {MOST_ROWS} tokens besides the selected ones to be decomposed, got "
            f"{constraints.count}; leave out inputs or tokens"
        )
    if not constraints.count:
        none = np.zeros(0, dtype=bool)
        return Partition(constraints, none, np.zeros(0, dtype=np.int64), (), solve(constraints), None, True)
    bound, y = _known(constraints)
    for _ in range(constraints.count + 1):
        basis = independent(constraints, np.flatnonzero(bound))
        best = solve(posed(constraints, bound, basis), exact=constraints.count <= EXACT_ROWS)
        if best.status != "infeasible" or best.exact is None:
            break
        bound, y = _mended(constraints, bound, basis, y, best.exact.multipliers)
    least = min((w for w in y if w), default=Fraction(1))
    exact = best.exact.p if best.exact is not None else None
    return Partition(
        constraints, bound, basis, tuple(w / least for w in y), best, exact, best.is_feasible is True
    )


def posed(constraints: Constraints, bound: Bools, basis: Ints) -> Constraints:
    """The separable rows, to be won by 1, and below them independent bound ones, to be tied."""
    rows = np.concatenate([np.flatnonzero(~bound), basis])
    equal = np.arange(len(rows)) >= len(rows) - len(basis)
    return replace(constraints.subset(rows), h=np.where(equal, 0.0, 1.0), equal=equal)


def independent(constraints: Constraints, rows: Ints) -> Ints:
    """Rows of these that are independent and span the others."""
    if not len(rows):
        return rows
    whole, gram, _ = integer_rows(constraints.subset(rows))
    return rows[independent_columns(gram if whole is None else whole.transpose())]


def _of_graph(constraints: Constraints) -> Partition:
    """Rows between entries of p: components and a potential decide, at any size."""
    above, below, count = ends(constraints)
    component = strong_components(above, below, count)
    bound = component[above] == component[below]
    y = tuple(Fraction(w) for w in circulation(above, below, component))
    p = np.zeros(int(np.prod(constraints.shape)), dtype=np.int64)
    p[constraints.plus], p[constraints.minus] = (
        potential(above, below, component)[end] for end in (above, below)
    )
    basis = _forest(above, below, np.flatnonzero(bound & (above != below)))
    best = solve(posed(constraints, bound, basis), exact=constraints.count <= EXACT_ROWS)
    return Partition(constraints, bound, basis, y, best, tuple(Fraction(int(x)) for x in p), True)


def _forest(above: Ints, below: Ints, edges: Ints) -> Ints:
    """Edges of these that make a spanning forest."""
    forest = Classes()
    chosen = [edge for edge in edges.tolist() if forest.merge(int(above[edge]), int(below[edge]))]
    return np.array(chosen, dtype=np.int64)


def _known(constraints: Constraints) -> tuple[Bools, list[Fraction]]:
    """Bound rows with weights by which they cancel, exactly: what the linear program says, if it is true."""
    inside, weights = inside_components(constraints)
    y = [Fraction(w) for w in weights]
    scaled = scale(replace(constraints, h=np.ones(constraints.count)))
    guess = _guess(scaled.A, inside | scaled.zero)
    if guess is None or np.array_equal(guess, inside):
        return inside, y
    proof = _cancelling(constraints.subset(np.flatnonzero(guess)), scaled.A[guess], scaled.a[guess])
    if proof is None:
        return inside, y
    y = [Fraction(0)] * constraints.count
    for j, weight in zip(np.flatnonzero(guess).tolist(), proof, strict=True):
        y[j] = weight
    return guess, y


def _guess(A: Floats, known: Bools) -> Bools | None:
    """Rows that no p wins by 1 at the optimum of: maximize sum t, Ap >= t, 0 <= t <= 1."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    m, d = A.shape
    if not m:
        return known
    if d > m:
        A, d = np.transpose(np.linalg.qr(A.T, mode="r")), m
    most = np.where(known, 0.0, 1.0)
    bounds = np.column_stack(
        [np.append(np.full(d, -np.inf), np.zeros(m)), np.append(np.full(d, np.inf), most)]
    )
    found = linprog(
        np.append(np.zeros(d), -np.ones(m)),
        hstack([csr_array(-A), eye_array(m)]),
        np.zeros(m),
        bounds=bounds,
        method="highs",
    )
    return found.x[d:] < 0.5 if found.status == 0 else None


def _cancelling(rows: Constraints, A: Floats, a: Ints) -> list[Fraction] | None:
    """Positive weights by which all the rows cancel, exactly: a vertex of A'z = 0, z >= 1, in fractions.

    Rows are A times 2^a; weights of rows that hardly differ in size come out as whole numbers where they can.
    """
    from scipy.optimize import linprog

    found = linprog(np.ones(len(A)), A_eq=A.T, b_eq=np.zeros(A.shape[1]), bounds=(1.0, None), method="highs")
    if found.status != 0:
        return None
    whole, gram, _ = integer_rows(rows)
    y = [Fraction(2) ** -int(k) for k in a]
    # The largest, as far as they are independent, follow exactly from the others, which may be rounded.
    order = np.argsort(-found.x, kind="stable").tolist()
    free = [order[k] for k in independent_columns(_block(gram, order, order))]
    for j in set(order) - set(free):
        y[j] *= Fraction(float(found.x[j])).limit_denominator(1000)
    fixed = [j for j in order if j not in set(free)]
    right = _block(gram, free, fixed) * _column([y[j] for j in fixed])
    solved = fmpq_mat(_block(gram, free, free)).solve(right)
    for k, j in enumerate(free):
        y[j] = -Fraction(int(solved[k, 0].p), int(solved[k, 0].q))
    product = (gram if whole is None else whole.transpose()) * _column(y)
    if min(y) <= 0 or any(x != 0 for x in product.entries()):
        return None
    return y


def _mended(
    constraints: Constraints, bound: Bools, basis: Ints, y: list[Fraction], farkas: tuple[Fraction, ...]
) -> tuple[Bools, list[Fraction]]:
    """More bound rows: those that a contradiction weighs, and weights for all of them.

    The contradiction has weights >= 0 on rows that should be won and any on bound ones; a multiple of the
    circulation makes these positive.
    """
    extra = [Fraction(0)] * constraints.count
    for j, weight in zip([*np.flatnonzero(~bound).tolist(), *basis.tolist()], farkas, strict=True):
        extra[j] = weight
    times = max((1 - e / w for e, w in zip(extra, y, strict=True) if w), default=Fraction(0))
    y = [e + max(times, Fraction(0)) * w for e, w in zip(extra, y, strict=True)]
    return np.array([w > 0 for w in y]), y


def _block(gram: Any, rows: list[int], columns: list[int]) -> Any:
    return fmpz_mat(len(rows), len(columns), [gram[i, j] for i in rows for j in columns])


def _column(values: list[Fraction]) -> Any:
    return fmpq_mat(len(values), 1, [fmpq(v.numerator, v.denominator) for v in values])
