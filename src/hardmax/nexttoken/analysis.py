"""Is a dataset realizable? If not, every kind of violation, with witnesses in the user's own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.samples import Samples
from hardmax.data.sentences.sentences import Sentences
from hardmax.data.sentences.trie import Trie
from hardmax.nexttoken.checking.witnesses import SHOWN, Cases, Violation, violations
from hardmax.nexttoken.relations import (
    Deciding,
    Gatherer,
    Orders,
    collocation,
    complete,
    components,
    deciding,
    never_first,
)

Ints = NDArray[np.int64]


SHORTEST = 2  # depth of the sample of a one-token sentence
Dataset = Samples | Trie | Sentences | Iterable[str | Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Collocation, orders and violations of a text, and what follows from them."""

    n: Ints
    orders: Orders
    violations: tuple[Violation, ...]
    repaired: Ints

    @property
    def text(self) -> Sentences | Distinct:
        """What was judged."""
        raise NotImplementedError

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
        return [self.text.vocabulary[x] for x in tokens]


@dataclass(frozen=True, eq=False)
class Analysis(Verdict):
    """What `analyze` found: the collocation ``n`` (-1 where missing), the orders under it, the violations.

    ``repaired`` lists the tokens whose n(x) is not in the data but was chosen on request. Where sentences
    were cut, all of it is about their beginnings.

    >>> from hardmax.nexttoken import analyze
    >>> analysis = analyze(["S V O P", "V O P", "O P P", "P S V"])
    >>> analysis.realizable, analysis.words(analysis.n)
    (True, ['V', 'O', 'P', 'S'])
    """

    trie: Trie

    @property
    def text(self) -> Sentences:
        """The sentences."""
        return self.trie.sentences


@check_arguments
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
    gatherer = Gatherer(trie.V)
    unreachable, heavier = CaseTally(), CaseTally()
    for block in deciding(trie, n):
        gatherer.add(block)
        # a one-token sentence defines n: if it fails to, that is reported as missing
        lost = block.node[(block.hits == 0) & (trie.depth[block.node] > SHORTEST)]
        unreachable.add(np.stack([lost, trie.token[lost]], axis=1))
        heavier.add(_heavier(block))
    orders = gatherer.orders()
    torn = _sentences_with_several_next(trie)
    found = violations(
        trie, n, orders, Cases(len(torn), torn[:SHOWN].tolist()), unreachable.cases, heavier.cases
    )
    return Analysis(n, orders, found, repaired, trie)


class CaseTally:
    """Counts cases and keeps the first few."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[Any] = []

    def add(self, cases: Ints) -> None:
        self._count += len(cases)
        self._first += cases[: SHOWN - len(self._first)].tolist()

    @property
    def cases(self) -> Cases:
        return Cases(self._count, self._first)


def as_trie(data: Any) -> Trie:
    """The trie behind any form of a dataset."""
    if isinstance(data, Trie):
        return data
    return data.trie if isinstance(data, Samples) else Trie.build(as_sentences(data))


def as_sentences(data: Any) -> Sentences:
    """The raw sentences of any form of a dataset."""
    if isinstance(data, Trie | Samples):
        return as_trie(data).sentences
    if isinstance(data, str):
        raise ValueError("data must be a list of sentences, got one string; use read_sentences for a file")
    return data if isinstance(data, Sentences) else Sentences.from_lists(data)


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
