"""Rows as edges of a graph, from the token that must win to the one it must beat.

Around a cycle the rows add up to zero, so none of them can be won: a row inside a strongly connected
component is bound, whatever the keys are. Between components a potential decides, if the tokens are
independent; if they are not, other sums may vanish too, and only a linear program tells (D-ERR-6).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from hardmax.margin.constraints import Bools, Constraints, Ints


def ends(constraints: Constraints) -> tuple[Ints, Ints, int]:
    """The two ends of every row, as numbers of distinct tokens, and how many there are."""
    plus, minus = constraints.plus, constraints.minus
    if constraints.token_gram is not None:
        name = np.arange(len(constraints.token_gram))
    elif constraints.table is not None:
        name = np.unique(constraints.table, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        name = np.arange(int(np.prod(constraints.shape)))
    zero = name.max(initial=-1) + 1  # the vector that -1 stands for
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
    for edge in inside.tolist():
        out.setdefault(int(above[edge]), []).append(edge)
        back.setdefault(int(below[edge]), []).append(edge)
    roots: dict[int, int] = {}
    for edge in inside.tolist():
        roots.setdefault(int(component[above[edge]]), int(above[edge]))
    from_root = _tree(roots.values(), out, below)
    to_root = _tree(roots.values(), back, above)
    for edge in inside.tolist():
        if y[edge]:
            continue
        y[edge] += 1
        node = int(above[edge])
        while node in from_root:
            y[from_root[node]] += 1
            node = int(above[from_root[node]])
        node = int(below[edge])
        while node in to_root:
            y[to_root[node]] += 1
            node = int(below[to_root[node]])
    return y


def _tree(roots: object, edges: dict[int, list[int]], far: Ints) -> dict[int, int]:
    """For every node that is not a root, the edge by which a search in breadth meets it first."""
    met: dict[int, int] = {}
    start = set(roots)  # type: ignore[call-overload]
    queue = deque(start)
    while queue:
        for edge in edges.get(queue.popleft(), ()):
            node = int(far[edge])
            if node not in met and node not in start:
                met[node] = edge
                queue.append(node)
    return met


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
