"""Components: tokens that stand above and below each other under a query (D-THM-11, one-hot tokens)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.orders import Orders, orders
from hardmax.nexttoken.samples import Samples
from hardmax.nexttoken.trie import Trie

Ints = NDArray[np.int64]


def components(data: Orders | Samples | Trie) -> dict[int, list[tuple[int, ...]]]:
    """Query to the strongly connected components of its order, as far as they hold two tokens or more.

    Inside a component every token is above every other one by a chain of samples, so no attention can put
    one of them first: training keeps their logits at finite distances. A realizable dataset has none.

    >>> from hardmax.nexttoken import Samples, components
    >>> components(Samples.from_sentences(["A B B", "C A B C", "B C"]))
    {1: [(0, 1)]}
    >>> components(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]))
    {}
    """
    found: dict[int, list[tuple[int, ...]]] = {}
    relations = data if isinstance(data, Orders) else orders(data)
    pairs, number = _cyclic(relations)
    order = np.argsort(number, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else ():
        query = int(pairs[some[0]] // relations.V)
        found.setdefault(query, []).append(tuple((pairs[some] % relations.V).tolist()))
    return {query: sorted(found[query]) for query in sorted(found)}


def cyclic_queries(relations: Orders) -> Ints:
    """The queries whose order has a cycle."""
    return np.unique(_cyclic(relations)[0] // relations.V)


def _cyclic(relations: Orders) -> tuple[Ints, Ints]:
    """Each (query, token) on a cycle as one number, ascending, and the number of its component."""
    none = np.empty(0, dtype=np.int64)
    confused = np.unique(relations.of_type("confused")[0])  # only confused tokens lie on cycles
    inside = np.isin(relations.query, confused)
    if not inside.any():
        return none, none
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    query, V = relations.query[inside], relations.V
    ends = np.concatenate([query * V + relations.above[inside], query * V + relations.below[inside]])
    nodes, number = np.unique(ends, return_inverse=True)
    above, below = np.split(number, 2)
    graph = coo_array((np.ones(len(above), dtype=np.int8), (above, below)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(graph.tocsr(), directed=True, connection="strong")
    # no token is above itself, so a cycle is a component of two tokens or more
    kept = np.bincount(component)[component] > 1
    return nodes[kept], component[kept].astype(np.int64)
