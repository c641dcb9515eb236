"""Is a dataset realizable? If not, every kind of violation, with witnesses in the user's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.data.sentences.samples import Samples
from hardmax.data.sentences.sentences import Sentences
from hardmax.data.sentences.trie import Trie
from hardmax.nexttoken.orders import (
    MISSING,
    Deciding,
    Gatherer,
    Orders,
    collocation,
    complete,
    components,
    cyclic_queries,
    deciding,
    never_first,
)

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
    raise ValueError("edges must have a cycle among them, got none")


SHORTEST = 2  # depth of the sample of a one-token sentence
Dataset = Samples | Trie | Sentences | Iterable[str | Sequence[Any]]


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


@dataclass(frozen=True, eq=False)
class Analysis:
    """What `analyze` found: the collocation ``n`` (-1 where missing), the orders under it, the violations.

    ``repaired`` lists the tokens whose n(x) is not in the data but was chosen on request. Where sentences
    were cut, all of it is about their beginnings.

    >>> from hardmax.nexttoken import analyze
    >>> analysis = analyze(["S V O P", "V O P", "O P P", "P S V"])
    >>> analysis.realizable, analysis.words(analysis.n)
    (True, ['V', 'O', 'P', 'S'])
    """

    trie: Trie
    n: Ints
    orders: Orders
    violations: tuple[Violation, ...]
    repaired: Ints

    @property
    def realizable(self) -> bool | None:
        """No violation of any kind: C-ASM-1, C-ASM-1R and C-ASM-3 hold.

        None if there is none in the beginnings that were read, and what was cut off may hold one. A violation
        in the beginnings of sentences is one of the sentences.
        """
        if self.violations:
            return False
        return None if self.trie.sentences.cut else True

    @property
    def legal(self) -> bool:
        """No violation except possibly of Assumption 3 in what was read: what C-THM-STRUCT asks for."""
        return all(each.kind == "assumption3" for each in self.violations)

    @property
    def assumptions(self) -> dict[str, bool]:
        """Which hold: C-ASM-1 (collocation, no confusion), C-ASM-1R (determinism, reachability), C-ASM-3."""
        kinds = {each.kind for each in self.violations}
        return {
            "C-ASM-1": not kinds & {"missing_collocation", "not_injective", "confused", "cycle"},
            "C-ASM-1R": not kinds & {"nondeterministic", "unreachable"},
            "C-ASM-3": "assumption3" not in kinds,
        }

    @property
    def components(self) -> dict[int, list[tuple[int, ...]]]:
        """Query to the tokens that stand above and below each other under it; see `components`."""
        return components(self.orders)

    def words(self, tokens: Iterable[int]) -> list[str]:
        """Tokens in the user's own words."""
        return [self.trie.sentences.vocabulary[x] for x in tokens]


def analyze(data: Dataset, *, repair: bool = False) -> Analysis:
    """Check a dataset against the assumptions of paper C; sentences are given as to `Sentences.from_lists`.

    Sentences are checked to their end, unless they were cut when they were read.

    With `repair`, a token that begins no sentence gets a next token that no other token has; it is listed
    in ``repaired`` and no longer counts as missing.

    >>> from hardmax.nexttoken import analyze
    >>> [(v.kind, v.count) for v in analyze(["A B", "B C"]).violations]
    [('missing_collocation', 1)]
    >>> mended = analyze(["A B", "B C"], repair=True)
    >>> mended.realizable, mended.words(mended.repaired), mended.words(mended.n)
    (True, ['C'], ['B', 'C', 'A'])
    """
    trie = as_trie(data)
    n, repaired = collocation(trie), np.empty(0, dtype=np.int64)
    if repair:
        repaired = never_first(trie)
        n[repaired] = complete(n)[repaired]
    witnesses = Witnesses(trie, n)
    gatherer = Gatherer(trie.V)
    unreachable, heavier = Tally(), Tally()
    for block in deciding(trie, n):
        gatherer.add(block)
        # a one-token sentence defines n: if it fails to, that is reported as missing
        unreachable.add(block.node[(block.hits == 0) & (trie.depth[block.node] > SHORTEST)])
        heavier.add(_heavier(block))
    orders = gatherer.orders()
    confused = np.stack(orders.of_type("confused"), axis=1)
    torn = _sentences_with_several_next(trie)
    images, times = np.unique(n[n != MISSING], return_counts=True)
    found: list[tuple[str, Any, Callable[[Any], dict[str, Any]]]] = [
        ("nondeterministic", torn, witnesses.nondeterministic),
        ("missing_collocation", np.flatnonzero(n == MISSING), witnesses.missing_collocation),
        ("not_injective", images[times > 1], witnesses.not_injective),
        ("unreachable", unreachable, witnesses.unreachable),
        ("confused", confused, lambda pair: witnesses.confused(orders, *pair)),
        ("cycle", cyclic_queries(orders), lambda query: witnesses.cycle(orders, query)),
        ("assumption3", heavier, lambda facts: witnesses.assumption3(*facts)),
    ]
    violations = tuple(
        Violation(kind, len(cases), tuple(tell(case) for case in list(cases[:SHOWN])))
        for kind, cases, tell in found
        if len(cases)
    )
    return Analysis(trie, n, orders, violations, repaired)


class Tally:
    """Counts cases and keeps the first few."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[Any] = []

    def add(self, cases: Ints) -> None:
        self._count += len(cases)
        self._first += cases[: SHOWN - len(self._first)].tolist()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, some: slice) -> list[Any]:
        return self._first[some]


def as_trie(data: Any) -> Trie:
    """The trie behind any form of a dataset."""
    if isinstance(data, Trie):
        return data
    if isinstance(data, Samples):
        return data.trie
    if isinstance(data, str):
        raise ValueError("data must be a list of sentences, got one string; use read_sentences for a file")
    return Trie.build(data if isinstance(data, Sentences) else Sentences.from_lists(data))


def _sentences_with_several_next(trie: Trie) -> Ints:
    """Prefixes with two children or more, in the order in which a reader meets the second one."""
    parents, first, children = np.unique(trie.parent[trie.samples], return_index=True, return_counts=True)
    several = children > 1
    return parents[several][np.argsort(first[several])]


def _heavier(block: Deciding) -> Ints:
    """C-ASM-3: (node, token, its count, count of the deciding tokens) where the token is more frequent."""
    deciding_count = np.bincount(block.row, block.counts * block.hit, len(block.node)).astype(np.int64)
    limit = deciding_count[block.row]
    bad = (block.counts > limit) & (limit > 0)
    return np.stack([block.node[block.row[bad]], block.tokens[bad], block.counts[bad], limit[bad]], axis=1)
