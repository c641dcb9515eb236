"""The largest realizable part of a corpus that a greedy search finds, sample by sample."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.distinct import Distinct
from hardmax.data.sentences.sentences import Sentences
from hardmax.nexttoken.analysis import Analysis, Dataset, analyze


class Legality:
    """The samples so far, as far as they matter: who has been above and who below, under each query.

    `back` is the inverse of an injective collocation. With `balanced`, Assumption 3 is part of the law.
    """

    def __init__(self, back: Mapping[int, int], *, balanced: bool = False) -> None:
        self._back, self._balanced = back, balanced
        self._above: defaultdict[int, set[int]] = defaultdict(set)
        self._below: defaultdict[int, set[int]] = defaultdict(set)

    def join(self, counts: Mapping[int, int], query: int, target: int) -> bool:
        """Take in the sample whose sentence has these token counts, if it breaks nothing."""
        decides = self._back.get(target, -1)
        if decides not in counts:
            return False
        if self._balanced and max(counts.values()) > counts[decides]:
            return False
        others = counts.keys() - {decides}
        if decides in self._below[query] or others & self._above[query]:
            return False
        if others:
            self._above[query].add(decides)
            self._below[query] |= others
        return True


Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RealizablePart:
    """A realizable part of a corpus: the longest legal beginnings of its sentences.

    ``whole`` raw sentences are kept whole and ``cut`` only in their beginnings; ``samples`` of ``of_samples``
    are kept, counted as often as they occur. ``vocabulary`` is the number of tokens that are kept.
    """

    whole: int
    cut: int
    samples: int
    of_samples: int
    vocabulary: int
    teaches_attention: bool
    _chains: dict[int, list[int]] = field(repr=False)
    _analysis: Analysis = field(repr=False)

    @cached_property
    def sentences(self) -> Sentences | None:
        """The beginnings, None if there are none or if the raw sentences are not held."""
        raw = self._analysis.sentences
        if raw is None or not self.samples:
            return None
        lengths = np.diff(raw.offsets)
        sizes = _agreeing(raw, lengths, self._chains)
        sizes[sizes < 2] = 0
        place = np.arange(len(raw.tokens)) - np.repeat(raw.offsets[:-1], lengths)
        used, tokens = np.unique(raw.tokens[place < np.repeat(sizes, lengths)], return_inverse=True)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        words = tuple(raw.vocabulary[x] for x in used)
        return Sentences(tokens.astype(np.int64), offsets.astype(np.int64), words, raw.max_length)

    def beginnings(self, raw: Iterable[list[str]]) -> Iterable[list[str]]:
        """Yield the beginnings of raw sentences that belong to the part."""
        word = self._analysis.text.vocabulary
        chains = {word[start]: [word[token] for token in chain] for start, chain in self._chains.items()}
        for words in raw:
            chain = chains.get(words[0], ())
            size = 0
            while size < min(len(chain), len(words)) and chain[size] == words[size]:
                size += 1
            if size > 1:
                yield words[:size]


@check_arguments
def realizable_part(data: Dataset | Analysis, *, repair: bool = False) -> RealizablePart:
    """Keep of each raw sentence the longest beginning such that all of them together are realizable.

    First the collocation: of all ways to choose for some tokens a next token seen in the data, so that they
    form cycles, one that agrees with the first two tokens of the most raw sentences (exact, by a minimum
    weight matching). Then the continuations, the most frequent first, each taken if the whole stays legal and
    keeps Assumption 3. The result satisfies `analyze` without a violation; another choice may keep more.

    With `repair`, tokens need not form cycles: the last one of a chain may lack a next token, and `analyze`
    needs `repair` too.
    """
    analysis = data if isinstance(data, Analysis) else analyze(data, repair=repair)
    text, (x, y, count, low, high) = analysis.text, analysis.walk.pairs()
    chosen = heaviest(x, y, count, analysis.repair)
    parts = [(*part, 2) for part in np.stack([low, high], axis=1)[chosen].tolist()]
    pairs = zip(x[chosen].tolist(), y[chosen].tolist(), parts, strict=True)
    chains = grow(list(pairs), analysis.walk.text.children)
    sizes = _agreeing(text, text.lengths, chains)
    counts, inside = text.counts.astype(np.int64), sizes > 1
    return RealizablePart(
        whole=int(counts[inside & (sizes == text.lengths)].sum()),
        cut=int(counts[inside & (sizes < text.lengths)].sum()),
        samples=int((sizes - 1)[inside] @ counts[inside]),
        of_samples=analysis.of_samples,
        vocabulary=len({token for chain in chains.values() for token in chain}),
        teaches_attention=any(len({*chain[:-1]}) > 1 for chain in chains.values()),
        _chains=chains,
        _analysis=analysis,
    )


def heaviest(x: Ints, y: Ints, count: Ints, repair: bool) -> Ints:
    """Of the pairs x -> y that begin sentences those of the collocation that agrees with the most.

    They form disjoint cycles, or with ``repair`` paths and cycles, with the greatest total count: a full
    matching of rows x and columns y, where a token may also be matched without a gain.
    """
    inside = np.arange(len(x))
    if repair:
        sources, row = np.unique(x, return_inverse=True)
        images, column = np.unique(y, return_inverse=True)
        # every source may also be matched with a separate column
        idle_row = np.arange(len(sources))
        idle_column = len(images) + idle_row
        shape = len(sources), len(images) + len(sources)
    else:
        size = int(max(x.max(initial=0), y.max(initial=0))) + 1
        graph = coo_array((np.ones(len(x)), (x, y)), shape=(size, size)).tocsr()
        _, component = connected_components(graph, directed=True, connection="strong")
        inside = np.flatnonzero(component[x] == component[y])  # an edge lies on a cycle iff it stays inside
        tokens, ends = np.unique(np.stack([x[inside], y[inside]]), return_inverse=True)
        row, column = ends.reshape(2, -1)
        # a token on none of the chosen cycles is matched with itself
        idle_row = idle_column = np.setdiff1d(np.arange(len(tokens)), row[row == column])
        shape = len(tokens), len(tokens)
    if not shape[0]:
        return np.empty(0, dtype=np.int64)
    gain = count[inside]
    worst = gain.max(initial=0) + 1.0  # a cost of zero would mean no edge
    cost = np.concatenate([worst - gain, np.full(len(idle_row), worst)])
    places = np.concatenate([row, idle_row]), np.concatenate([column, idle_column])
    matched_rows, matched_columns = min_weight_full_bipartite_matching(
        coo_array((cost, places), shape=shape).tocsr()
    )
    partner = np.empty(shape[0], dtype=np.int64)
    partner[matched_rows] = matched_columns
    return inside[partner[row] == column]


Node = tuple[int, int, int]  # a part of the sorted sentences, as `SortedText.children` takes it


def grow(
    chosen: list[tuple[int, int, Node]], children: Callable[[Node], Iterable[tuple[int, int, int, Node]]]
) -> dict[int, list[int]]:
    """From each chosen (x, n(x), node) one chain, by its first token; frequent continuations first.

    ``children`` yields token, number of raw sentences, the first of them, and node.
    """
    law = Legality({y: x for x, y, _ in chosen}, balanced=True)
    chains: dict[int, list[int]] = {}
    heap: list[tuple[int, int, int, int, int, int, Node]] = []
    number = count()

    def take(start: int, token: int, node: Node) -> None:
        chains[start].append(token)
        length = len(chains[start])
        for child, times, first, its in children(node):
            heapq.heappush(heap, (-times, first, next(number), start, length, child, its))

    for start, second, node in chosen:
        law.join({start: 1}, start, second)
        chains[start] = [start]
        take(start, second, node)
    while heap:
        _, _, _, start, length, token, node = heapq.heappop(heap)
        chain = chains[start]
        # if a sibling was taken before, this sentence already continues with that token
        if len(chain) == length and law.join({x: chain.count(x) for x in chain}, chain[-1], token):
            take(start, token, node)
    return chains


def _agreeing(text: Sentences | Distinct, lengths: NDArray[Any], chains: dict[int, list[int]]) -> Ints:
    """How far each sentence agrees with the chain of its first token; 0 if there is none."""
    longest = max(map(len, chains.values()), default=0)
    table = np.full((len(chains), longest + 1), -1, dtype=np.int64)
    number = np.full(len(text.vocabulary), -1, dtype=np.int64)
    for i, (start, chain) in enumerate(chains.items()):
        table[i, : len(chain)] = chain
        number[start] = i
    sizes = np.zeros(len(lengths), dtype=np.int64)
    row = number[text.column(0, np.arange(len(lengths)))]
    agreeing = np.flatnonzero(row >= 0)
    for k in range(longest):
        agreeing = agreeing[lengths[agreeing] > k]
        agreeing = agreeing[text.column(k, agreeing) == table[row[agreeing], k]]
        sizes[agreeing] += 1
    return sizes
