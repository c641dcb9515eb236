"""Violations of realizability told in the user's own words, from whatever holds the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.relations import MISSING, Orders, cyclic_queries

SHOWN = 3  # witnesses of each kind
LISTED = 5  # next tokens of one sentence
Ints = NDArray[np.int64]


class Told(Protocol):
    """Who holds the sentences, and knows each beginning of one by a number."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Token x is the word ``vocabulary[x]``."""

    def words(self, node: int) -> list[str]:
        """A beginning in the user's own words."""

    def sample(self, node: int) -> dict[str, str]:
        """A beginning as a sentence and its next token."""

    def next_of(self, node: int) -> list[tuple[int, list[str]]]:
        """The next tokens of a beginning, as a reader meets them, each with the words of its raw sentence."""

    def begins(self, token: int) -> bool:
        """Whether a sentence of two tokens or more begins with it."""


class Witnesses:
    """One method for each kind of violation: from numbers to words that can be found in the file."""

    def __init__(self, text: Told, n: Ints) -> None:
        self.text, self.n = text, n
        self._word = text.vocabulary

    def nondeterministic(self, node: int) -> dict[str, Any]:
        choices = self.text.next_of(node)
        return {
            "sentence": " ".join(self.text.words(node)),
            "next": [self._word[x] for x, _ in choices[:LISTED]],
            "choices": len(choices),
            "raw": [" ".join(raw) for _, raw in choices[:LISTED]],
        }

    def missing_collocation(self, token: int) -> dict[str, Any]:
        reason = "the sentence of this token alone has several next tokens"
        if not self.text.begins(token):
            reason = "no sentence begins with it and goes on"
        return {"token": self._word[token], "reason": reason}

    def not_injective(self, image: int) -> dict[str, Any]:
        tokens = np.flatnonzero(self.n == image)[:LISTED]
        return {"tokens": [self._word[x] for x in tokens], "common_next": self._word[image]}

    def unreachable(self, node: int, token: int) -> dict[str, Any]:
        preimage = np.flatnonzero(self.n == token)
        return {**self.text.sample(node), "preimage": self._word[preimage[0]] if len(preimage) else None}

    def confused(self, orders: Orders, query: int, token: int) -> dict[str, Any]:
        here = orders.query == query
        over = np.flatnonzero(here & (orders.below == token))[0]
        under = np.flatnonzero(here & (orders.above == token))[0]
        return {
            "query": self._word[query],
            "token": self._word[token],
            "above": {"token": self._word[orders.above[over]], **self.text.sample(orders.witness[over])},
            "below": {"token": self._word[orders.below[under]], **self.text.sample(orders.witness[under])},
        }

    def cycle(self, orders: Orders, query: int) -> dict[str, Any]:
        here = np.flatnonzero(orders.query == query)
        edges = list(zip(orders.above[here].tolist(), orders.below[here].tolist(), strict=True))
        round_trip = _round_trip(edges)
        witness = dict(zip(edges, orders.witness[here].tolist(), strict=True))
        return {
            "query": self._word[query],
            "cycle": [self._word[x] for x in round_trip],
            "samples": [self.text.sample(witness[step]) for step in pairwise(round_trip)],
        }

    def assumption3(self, node: int, token: int, count: int, deciding: int) -> dict[str, Any]:
        return {
            **self.text.sample(node),
            "optimal_count": deciding,
            "token": self._word[token],
            "count": count,
        }


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
    raise ValueError("edges must have a cycle among them, got none")


@dataclass(frozen=True)
class Violation:
    """How often one kind of violation occurs, and the first few as facts in the user's own words.

    What `count` counts:

    - ``nondeterministic``: sentences with several next tokens;
    - ``missing_collocation``: tokens x without n(x), because no sentence begins with x, or because [x] has
      several next tokens;
    - ``not_injective``: tokens y that are n(x) of several x;
    - ``unreachable``: samples (X, y) of two tokens or more in X, none of which has n(x) = y;
    - ``confused``: pairs (query, token) of a token both above and below others;
    - ``cycle``: queries whose order has a cycle;
    - ``assumption3``: pairs (sample, token) of a token that does not decide the sample and yet occurs more
      often in it than those that do.

    >>> from hardmax.nexttoken import analyze
    >>> analyze(["A B A", "B C", "C A"]).violations
    (Violation(kind='unreachable', count=1, witnesses=({'sentence': 'A B', 'next': 'A', 'preimage': 'C'},)),)
    """

    kind: str
    count: int
    witnesses: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Cases:
    """How many there are of a kind of violation, and the facts of the first few."""

    count: int
    first: Sequence[Any]


def violations(
    text: Told, n: Ints, orders: Orders, torn: Cases, unreachable: Cases, heavier: Cases
) -> tuple[Violation, ...]:
    """All kinds that occur: three from beginnings and samples, the others from collocation and orders.

    Facts are a node of ``torn``, (node, next token) of ``unreachable`` and (node, token, its count, count of
    what decides) of ``heavier``.
    """
    tell = Witnesses(text, n)
    missing, (images, times) = np.flatnonzero(n == MISSING), np.unique(n[n != MISSING], return_counts=True)
    confused, cyclic = np.stack(orders.of_type("confused"), axis=1), cyclic_queries(orders)
    found = [
        ("nondeterministic", torn, tell.nondeterministic),
        ("missing_collocation", _cases(missing), tell.missing_collocation),
        ("not_injective", _cases(images[times > 1]), tell.not_injective),
        ("unreachable", unreachable, lambda facts: tell.unreachable(*facts)),
        ("confused", _cases(confused), lambda pair: tell.confused(orders, *pair)),
        ("cycle", _cases(cyclic), lambda query: tell.cycle(orders, query)),
        ("assumption3", heavier, lambda facts: tell.assumption3(*facts)),
    ]
    return tuple(
        Violation(kind, cases.count, tuple(witness(case) for case in cases.first[:SHOWN]))
        for kind, cases, witness in found
        if cases.count
    )


def _cases(found: Ints) -> Cases:
    return Cases(len(found), found[:SHOWN].tolist())
