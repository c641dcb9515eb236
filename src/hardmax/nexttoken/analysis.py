"""Is a dataset realizable? If not, every kind of violation, with witnesses in the user's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.samples import Samples, Trie, as_sentences
from hardmax.data.sentences.sentences import Sentences
from hardmax.nexttoken import walking
from hardmax.nexttoken.relations import MISSING, Orders, complete, components, cyclic_queries

Ints = NDArray[np.int64]
Dataset = Samples | Trie | Sentences | Iterable[str | Sequence[Any]]
LISTED = 5  # next tokens of one sentence


@dataclass(frozen=True)
class Violation:
    """How often one kind of violation occurs, and the first few as facts in the user's own words.

    Meaning of `count`:

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
    """The result of `analyze`: the collocation ``n`` (-1 where missing), the orders under it, the violations.

    ``repaired`` lists the tokens whose n(x) is not in the data but was chosen on request. Where sentences
    were cut, all of it is about their beginnings. ``sentences`` are the raw ones, None if only the distinct
    ones were held, in ``text``.

    >>> from hardmax.nexttoken import analyze
    >>> analysis = analyze(["S V O P", "V O P", "O P P", "P S V"])
    >>> analysis.realizable, analysis.words(analysis.n)
    (True, ['V', 'O', 'P', 'S'])
    """

    n: Ints
    orders: Orders
    violations: tuple[Violation, ...]
    repaired: Ints
    repair: bool
    walk: walking.Walk = field(repr=False)
    sentences: Sentences | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Analysis(realizable={self.realizable}, samples={self.samples}, V={self.text.V})"

    @property
    def text(self) -> Distinct:
        """The distinct sentences."""
        return self.walk.text.text

    @cached_property
    def trie(self) -> Trie:
        """All prefixes of the raw sentences."""
        if self.sentences is None:
            raise ValueError("the raw sentences must be held for their trie; use `analyze` on sentences")
        return Trie.build(self.sentences)

    @property
    def realizable(self) -> bool | None:
        """No violation of any kind: C-ASM-1, C-ASM-1R and C-ASM-3 hold.

        None if there is none in the beginnings that were read, and what was cut off may hold one. A violation
        in the beginnings of sentences is one of the sentences.
        """
        if self.violations:
            return False
        return None if self.text.cut else True

    @property
    def legal(self) -> bool:
        """No violation except possibly of Assumption 3 in what was read: as C-THM-STRUCT requires."""
        return all(violation.kind == "assumption3" for violation in self.violations)

    @property
    def assumptions(self) -> dict[str, bool]:
        """Which hold: C-ASM-1 (collocation, no confusion), C-ASM-1R (determinism, reachability), C-ASM-3."""
        kinds = {violation.kind for violation in self.violations}
        return {
            "C-ASM-1": not kinds & {"missing_collocation", "not_injective", "confused", "cycle"},
            "C-ASM-1R": not kinds & {"nondeterministic", "unreachable"},
            "C-ASM-3": "assumption3" not in kinds,
        }

    @property
    def components(self) -> dict[int, list[tuple[int, ...]]]:
        """Query to the tokens that are above and below each other under it; see `components`."""
        return components(self.orders)

    def words(self, tokens: Iterable[int]) -> list[str]:
        """Tokens in the user's own words."""
        return [self.text.vocabulary[x] for x in tokens]

    @property
    def samples(self) -> int:
        """The number of distinct samples."""
        return int(self.walk.tally[walking.SAMPLES])

    @cached_property
    def never_first(self) -> int:
        """The number of tokens that begin no sentence of two tokens or more."""
        return self.text.V - len(np.unique(self.walk.pairs()[0]))

    @cached_property
    def of_samples(self) -> int:
        """The number of samples of all raw sentences."""
        return int((self.text.lengths - 1) @ self.text.counts.astype(np.int64))

    def frequencies(self, *, uniform: bool = False) -> tuple[float, float] | None:
        """The least and the greatest frequency of a sample, as `Trie.frequencies` has them."""
        if not self.samples:
            return None
        if uniform:
            parents = int(self.walk.tally[walking.PARENTS])
            return self.walk.shares[0] / parents, self.walk.shares[1] / parents
        least, most = self.walk.tally[[walking.LEAST, walking.MOST]].tolist()
        total = float(self.of_samples)
        return least / total, most / total

    @property
    def teaches_attention(self) -> bool:
        """Whether a sentence continues after two different tokens."""
        return bool(self.walk.tally[walking.MIXED])


@check_arguments
def analyze(data: Dataset, *, repair: bool = False) -> Analysis:
    """Check a dataset against the assumptions of paper C; sentences are given as to `Sentences.from_lists`.

    Sentences are checked to their end, unless they were cut when they were read.

    With `repair`, a token that begins no sentence gets a next token that no other token has; it is listed
    in ``repaired`` and no longer counts as missing.

    >>> from hardmax.nexttoken import analyze
    >>> [(v.kind, v.count) for v in analyze(["A B", "B C"]).violations]
    [('missing_collocation', 1)]
    >>> fixed = analyze(["A B", "B C"], repair=True)
    >>> fixed.realizable, fixed.words(fixed.repaired), fixed.words(fixed.n)
    (True, ['C'], ['B', 'C', 'A'])
    """
    sentences = as_sentences(data)
    return survey(Distinct.of(sentences), repair=repair, sentences=sentences)


def survey(
    text: Distinct, *, repair: bool = False, sentences: Sentences | None = None, **options: Any
) -> Analysis:
    """Check distinct sentences of a text of any size, with the options of `walk_through`."""
    # the token that follows each at the beginning of sentences
    longer = np.flatnonzero(text.lengths > 1)
    x, y = text.column(0, longer), text.column(1, longer)
    n = np.full(text.V, MISSING)
    n[x] = y
    repaired = np.flatnonzero(n == MISSING) if repair else np.empty(0, dtype=np.int64)
    n[x[n[x] != y]] = MISSING  # several tokens follow it
    n[repaired] = complete(n)[repaired]
    walk = walking.walk_through(text, n, **options)
    orders = Orders.of(walk, text.V)
    return Analysis(n, orders, _violations(walk, n, orders), repaired, repair, walk, sentences)


def _violations(walk: walking.Walk, n: Ints, orders: Orders) -> tuple[Violation, ...]:
    """Collect all kinds that occur: three from the walk, the others from collocation and orders."""
    tell, tally, shown = _Witnesses(walk.text, n), walk.tally, walking.SHOWN
    missing, (images, times) = np.flatnonzero(n == MISSING), np.unique(n[n != MISSING], return_counts=True)
    shared = images[times > 1]
    confused, cyclic = np.stack(orders.of_type("confused"), axis=1), cyclic_queries(orders)
    heavier = []  # place, token, its count, count of the tokens that decide
    for place in walk.heavy:
        *sentence, following = walk.text.path(place)
        deciding = int(sum(n[x] == following for x in sentence))
        heavier += [(place, x, k, deciding) for x, k in Counter(sentence).items() if k > deciding]
    kinds: list[tuple[str, int, Iterable[Any], Callable[[Any], dict[str, Any]]]] = [
        ("nondeterministic", tally[walking.TORN], walk.torn, tell.nondeterministic),
        ("missing_collocation", len(missing), missing[:shown].tolist(), tell.missing_collocation),
        ("not_injective", len(shared), shared[:shown].tolist(), tell.not_injective),
        ("unreachable", tally[walking.UNREACHABLE], walk.lost, tell.unreachable),
        ("confused", len(confused), confused[:shown].tolist(), lambda pair: tell.confused(orders, *pair)),
        ("cycle", len(cyclic), cyclic[:shown].tolist(), lambda query: tell.cycle(orders, query)),
        ("assumption3", tally[walking.HEAVIER], heavier[:shown], lambda case: tell.assumption3(*case)),
    ]
    return tuple(
        Violation(kind, int(count), tuple(map(witness, cases)))
        for kind, count, cases, witness in kinds
        if count
    )


class _Witnesses:
    """Witnesses in words that can be found in the file, by a method for each kind of violation."""

    def __init__(self, text: walking.SortedText, n: Ints) -> None:
        self.text, self.n = text, n
        self._word = text.text.vocabulary

    def nondeterministic(self, place: int) -> dict[str, Any]:
        choices = self.text.next_of(place)
        return {
            "sentence": " ".join(self.text.words(place)),
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

    def unreachable(self, place: int) -> dict[str, Any]:
        preimage = np.flatnonzero(self.n == self.text.path(place)[-1])
        return {**self.text.sample(place), "preimage": self._word[preimage[0]] if len(preimage) else None}

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

    def assumption3(self, place: int, token: int, count: int, deciding: int) -> dict[str, Any]:
        return {
            **self.text.sample(place),
            "optimal_count": deciding,
            "token": self._word[token],
            "count": count,
        }


def _round_trip(edges: list[tuple[int, int]]) -> list[int]:
    """Return the shortest cycle through the first token that is on one."""
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
