"""Which rows a p can win and which are bound to zero, with a proof of both (D-THM-11).

Among the p that lose no row, C = {p : Dp >= 0}, a row is separable if some p wins it, and bound if all tie
it. Both have certificates in fractions: a p with d_j.p >= 1 on the separable rows and = 0 on the bound ones,
and a circulation, y >= 1 on the bound rows with sum_j y_j d_j = 0. Cycles of the graph of rows are known
beforehand, a linear program in floats guesses the rest, and where that is wrong exact contradictions fix it:
rows that cannot all be won cancel with positive weights, so each of them is bound.

The rows are edges of a graph, from the token that must win to the one it must beat. Around a cycle they add
up to zero, so a row inside a strongly connected component is bound, whatever the keys are. Between components
a potential decides, if the tokens are independent; if they are not, other sums may vanish too, and only a
linear program decides (D-ERR-6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat  # type: ignore[import-untyped, unused-ignore]

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
    bound, y = _certain(constraints)
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
    p, level = np.zeros(int(np.prod(constraints.shape)), dtype=np.int64), potential(above, below, component)
    p[constraints.plus], p[constraints.minus] = level[above], level[below]
    forest = Classes()
    edges = np.flatnonzero(bound & (above != below)).tolist()
    basis = np.array([e for e in edges if forest.merge(int(above[e]), int(below[e]))], dtype=np.int64)
    best = solve(posed(constraints, bound, basis), exact=constraints.count <= EXACT_ROWS)
    return Partition(constraints, bound, basis, y, best, tuple(Fraction(int(x)) for x in p), True)


def _certain(constraints: Constraints) -> tuple[Bools, list[Fraction]]:
    """Bound rows with weights by which they cancel, exactly: those of the linear program, if it is right."""
    inside, weights = inside_components(constraints)
    y = [Fraction(w) for w in weights]
    scaled = scale(replace(constraints, h=np.ones(constraints.count)))
    guess = _guess(scaled.A, inside | scaled.zero)
    if guess is None or np.array_equal(guess, inside):
        return inside, y
    proof = _cancelling(constraints.subset(np.flatnonzero(guess)), scaled.A[guess], scaled.a[guess])
    if proof is None:
        return inside, y
    weight_of = dict(zip(np.flatnonzero(guess).tolist(), proof, strict=True))
    return guess, [weight_of.get(j, Fraction(0)) for j in range(constraints.count)]


def _guess(A: Floats, bound: Bools) -> Bools | None:
    """Rows that no p wins by 1 at the optimum of: maximize sum t, Ap >= t, 0 <= t <= 1."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    m, d = A.shape
    if not m:
        return bound
    if d > m:
        A, d = np.transpose(np.linalg.qr(A.T, mode="r")), m
    most = np.where(bound, 0.0, 1.0)
    low, high = np.append(np.full(d, -np.inf), np.zeros(m)), np.append(np.full(d, np.inf), most)
    goal, rows = np.append(np.zeros(d), -np.ones(m)), hstack([csr_array(-A), eye_array(m)])
    result = linprog(goal, rows, np.zeros(m), bounds=np.column_stack([low, high]), method="highs")
    return result.x[d:] < 0.5 if result.status == 0 else None


def _cancelling(rows: Constraints, A: Floats, a: Ints) -> list[Fraction] | None:
    """Positive weights by which all the rows cancel, exactly: a vertex of A'z = 0, z >= 1, in fractions.

    Rows are A times 2^a; weights of rows that hardly differ in size come out as whole numbers where they can.
    """
    from scipy.optimize import linprog

    zero = np.zeros(A.shape[1])
    result = linprog(np.ones(len(A)), A_eq=A.T, b_eq=zero, bounds=(1.0, None), method="highs")
    if result.status != 0:
        return None
    whole, gram, _ = integer_rows(rows)
    y = [Fraction(2) ** -int(k) for k in a]
    # The largest, as far as they are independent, follow exactly from the others, which may be rounded.
    order = np.argsort(-result.x, kind="stable").tolist()
    free = [order[k] for k in independent_columns(_block(gram, order, order))]
    for j in set(order) - set(free):
        y[j] *= Fraction(float(result.x[j])).limit_denominator(1000)
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
    weight_of = dict(zip([*np.flatnonzero(~bound).tolist(), *basis.tolist()], farkas, strict=True))
    extra = [weight_of.get(j, Fraction(0)) for j in range(constraints.count)]
    times = max((1 - e / w for e, w in zip(extra, y, strict=True) if w), default=Fraction(0))
    y = [e + max(times, Fraction(0)) * w for e, w in zip(extra, y, strict=True)]
    return np.array([w > 0 for w in y]), y


def _block(gram: Any, rows: list[int], columns: list[int]) -> Any:
    return fmpz_mat(len(rows), len(columns), [gram[i, j] for i in rows for j in columns])


def _column(values: list[Fraction]) -> Any:
    return fmpq_mat(len(values), 1, [fmpq(v.numerator, v.denominator) for v in values])


def ends(constraints: Constraints) -> tuple[Ints, Ints, int]:
    """The two ends of every row, as numbers of distinct tokens, and how many there are."""
    plus, minus = constraints.plus, constraints.minus
    if constraints.token_gram is not None:
        name = np.arange(len(constraints.token_gram))
    elif constraints.table is not None:
        name = np.unique(constraints.table, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        name = np.arange(int(np.prod(constraints.shape)))
    zero = name.max(initial=-1) + 1  # the zero vector, minus = -1
    pair = np.stack([name[plus], np.where(minus < 0, zero, name[minus])])
    if constraints.right is not None and constraints.right_of is not None:
        other = np.unique(constraints.right, axis=0, return_inverse=True)[1].reshape(-1)
        pair = pair + (zero + 1) * other[constraints.right_of]
    nodes, number = np.unique(pair, return_inverse=True)
    above, below = number.reshape(2, -1)
    return above, below, len(nodes)


def strong_components(above: Ints, below: Ints, count: int) -> Ints:
    """The number of the strongly connected component of every node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(above)), (above, below)), shape=(count, count))
    number = connected_components(graph.tocsr(), directed=True, connection="strong")[1]
    return np.asarray(number, dtype=np.int64)


def circulation(above: Ints, below: Ints, component: Ints) -> list[int]:
    """Whole numbers on the edges, positive exactly inside components, which balance at every node.

    A sum of cycles through one root of each component: from the root to an edge and back.
    """
    inside = np.flatnonzero((component[above] == component[below]) & (above != below))
    y = [int(edge) for edge in (above == below)]  # a loop balances itself
    out: dict[int, list[int]] = {}
    back: dict[int, list[int]] = {}
    roots: dict[int, int] = {}
    for edge in inside.tolist():
        roots.setdefault(int(component[above[edge]]), int(above[edge]))
        out.setdefault(int(above[edge]), []).append(edge)
        back.setdefault(int(below[edge]), []).append(edge)
    from_root = _tree(roots.values(), out, below)
    to_root = _tree(roots.values(), back, above)
    for edge in inside.tolist():
        if y[edge]:
            continue
        y[edge] += 1
        for side, tree in ((above, from_root), (below, to_root)):
            node = int(side[edge])
            while node in tree:
                y[tree[node]] += 1
                node = int(side[tree[node]])
    return y


def _tree(roots: Iterable[int], edges: dict[int, list[int]], far: Ints) -> dict[int, int]:
    """For every node that is not a root, the edge by which a search in breadth meets it first."""
    first: dict[int, int] = {}
    start = set(roots)
    queue = deque(start)
    while queue:
        for edge in edges.get(queue.popleft(), ()):
            node = int(far[edge])
            if node not in first and node not in start:
                first[node] = edge
                queue.append(node)
    return first


def potential(above: Ints, below: Ints, component: Ints) -> Ints:
    """A whole number for every node, equal inside components, that falls by 1 or more along other edges."""
    level = np.zeros(int(component.max(initial=-1)) + 1, dtype=np.int64)
    between = component[above] != component[below]
    pairs = np.unique(np.stack([component[above[between]], component[below[between]]]), axis=1)
    waiting = np.bincount(pairs[0], minlength=len(level))
    over: dict[int, list[int]] = {}
    for high, low in pairs.T.tolist():
        over.setdefault(low, []).append(high)
    queue = deque(np.flatnonzero(waiting == 0).tolist())
    while queue:
        low = queue.popleft()
        for high in over.get(low, ()):
            level[high] = max(level[high], level[low] + 1)
            waiting[high] -= 1
            if waiting[high] == 0:
                queue.append(high)
    return np.asarray(level[component])


def inside_components(constraints: Constraints) -> tuple[Bools, list[int]]:
    """Rows that are bound by cycles alone, and whole numbers with which they cancel."""
    above, below, count = ends(constraints)
    component = strong_components(above, below, count)
    return component[above] == component[below], circulation(above, below, component)
