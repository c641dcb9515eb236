"""Violations told in the user's own words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.orders import Orders
from hardmax.nexttoken.trie import Trie

SHOWN = 3  # witnesses of each kind
LISTED = 5  # next tokens of one sentence

Ints = NDArray[np.int64]


class Witnesses:
    """One method for each kind of violation: from numbers to words that can be found in the file."""

    def __init__(self, trie: Trie, n: Ints) -> None:
        self.trie, self.n = trie, n
        self._word = trie.sentences.vocabulary

    def nondeterministic(self, node: int) -> dict[str, Any]:
        children = np.flatnonzero(self.trie.parent == node)
        children = children[np.argsort(self.trie.first[children], kind="stable")]
        shown = children[:LISTED]
        return {
            "sentence": self._text(node),
            "next": [self._word[x] for x in self.trie.token[shown]],
            "choices": len(children),
            "raw": [" ".join(self.trie.sentences.words(int(i))) for i in self.trie.first[shown]],
        }

    def missing_collocation(self, token: int) -> dict[str, Any]:
        begins = np.flatnonzero((self.trie.depth == 2) & (self.trie.token[self.trie.parent] == token))
        reason = "the sentence of this token alone has several next tokens"
        if not len(begins):
            reason = "no sentence begins with it and goes on"
        return {"token": self._word[token], "reason": reason}

    def not_injective(self, image: int) -> dict[str, Any]:
        tokens = np.flatnonzero(self.n == image)[:LISTED]
        return {"tokens": [self._word[x] for x in tokens], "common_next": self._word[image]}

    def unreachable(self, node: int) -> dict[str, Any]:
        preimage = np.flatnonzero(self.n == self.trie.token[node])
        return {**self._sample(node), "preimage": self._word[preimage[0]] if len(preimage) else None}

    def confused(self, orders: Orders, query: int, token: int) -> dict[str, Any]:
        here = orders.query == query
        over = np.flatnonzero(here & (orders.below == token))[0]
        under = np.flatnonzero(here & (orders.above == token))[0]
        return {
            "query": self._word[query],
            "token": self._word[token],
            "above": {"token": self._word[orders.above[over]], **self._sample(orders.witness[over])},
            "below": {"token": self._word[orders.below[under]], **self._sample(orders.witness[under])},
        }

    def cycle(self, orders: Orders, query: int) -> dict[str, Any]:
        here = np.flatnonzero(orders.query == query)
        edges = list(zip(orders.above[here].tolist(), orders.below[here].tolist(), strict=True))
        round_trip = _round_trip(edges)
        witness = dict(zip(edges, orders.witness[here].tolist(), strict=True))
        return {
            "query": self._word[query],
            "cycle": [self._word[x] for x in round_trip],
            "samples": [self._sample(witness[step]) for step in pairwise(round_trip)],
        }

    def assumption3(self, node: int, token: int, count: int, deciding: int) -> dict[str, Any]:
        return {
            **self._sample(node),
            "optimal_count": deciding,
            "token": self._word[token],
            "count": count,
        }

    def _sample(self, node: int) -> dict[str, str]:
        return {"sentence": self._text(self.trie.parent[node]), "next": self._word[self.trie.token[node]]}

    def _text(self, node: int) -> str:
        return " ".join(self.trie.words(int(node)))


def _round_trip(edges: list[tuple[int, int]]) -> list[int]:
    """The shortest cycle through the first token that lies on one."""
    below: dict[int, list[int]] = {}
    for o, x in edges:
        below.setdefault(o, []).append(x)
    for start in below:
        came, queue = {start: start}, [start]
        for node in queue:
            if start in below.get(node, ()):
                back = [start, node]
                while back[-1] != start:
                    back.append(came[back[-1]])
                return back[::-1]
            fresh = [x for x in below.get(node, ()) if x not in came]
            came.update(dict.fromkeys(fresh, node))
            queue += fresh
    raise ValueError("edges: expected a cycle among them, got none")
