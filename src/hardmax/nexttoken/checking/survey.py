"""The same questions as `analyze`, asked of distinct sentences: texts of any size, no trie, all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel
from hardmax._lib.parallel import cores
from hardmax.data.sentences import sorting
from hardmax.data.sentences.counting import token_of
from hardmax.data.sentences.distinct import Distinct
from hardmax.nexttoken.analysis import Verdict
from hardmax.nexttoken.checking import walking
from hardmax.nexttoken.checking.walking import (
    DEPTH_BITS,
    HEAVIER,
    LEAST,
    MOST,
    NOWHERE,
    PARENTS,
    SAMPLES,
    SHOWN,
    TORN,
    UNREACHABLE,
)
from hardmax.nexttoken.checking.witnesses import Cases, violations
from hardmax.nexttoken.realizable import Child, grow, heaviest
from hardmax.nexttoken.relations import MISSING, Orders, complete

Ints = NDArray[np.int64]


class Total:
    """What the parts of a walk found, together; in which order they come changes nothing."""

    def __init__(self, V: int) -> None:
        self.V = V
        self.tally = np.zeros(7, dtype=np.int64)
        self.tally[LEAST] = NOWHERE
        self.shares = [2.0, 0.0]
        self.torn: list[int] = []
        self.lost: list[int] = []
        self.heavy: list[int] = []
        self._pairs: list[Ints] = []
        self._keys: list[Ints] = []
        self._places: list[Ints] = []

    def add(self, tally: Ints, shares: Any, *found: Ints) -> None:
        torn, lost, heavy, pairs, keys, places = found
        least, most = min(self.tally[LEAST], tally[LEAST]), max(self.tally[MOST], tally[MOST])
        self.tally += tally
        self.tally[LEAST], self.tally[MOST] = least, most
        self.shares = [min(self.shares[0], float(shares[0])), max(self.shares[1], float(shares[1]))]
        for mine, its in ((self.torn, torn), (self.lost, lost), (self.heavy, heavy)):
            mine[:] = sorted([*mine, *its[its < NOWHERE].tolist()])[:SHOWN]
        self._pairs.append(pairs)
        self._keys.append(keys)
        self._places.append(places)

    @cached_property
    def pairs(self) -> Ints:
        return np.concatenate(self._pairs, axis=1)

    def orders(self) -> Orders:
        keys, places = np.concatenate(self._keys), np.concatenate(self._places)
        order = np.lexsort((places, keys))
        keys, first = np.unique(keys[order], return_index=True)
        pair, below = np.divmod(keys, self.V)
        query, above = np.divmod(pair, self.V)
        return Orders(self.V, query, above, below, places[order][first])


SHARE = 2**16  # sentences that are walked through at a time: few, so that all cores end together
LARGEST_WALK = 200_000_000_000  # tokens of all prefixes: minutes
LOOK = 0.1  # seconds between two questions whether there was an interrupt
_LENGTH = 2**DEPTH_BITS - 1


@dataclass(frozen=True, eq=False)
class Sorted:
    """Distinct sentences by their tokens: those of first token x are ``order[offsets[x]:offsets[x+1]]``.

    A beginning is known by its place: the number of the first raw sentence that has it, and its length.
    Whoever looks through many of them is stopped by a KeyboardInterrupt if that was ``interrupted``.
    """

    text: Distinct
    order: NDArray[np.uint32]
    offsets: Ints
    interrupted: Callable[[], bool] = lambda: False

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Token x is the word ``vocabulary[x]``."""
        return self.text.vocabulary

    def path(self, place: int) -> list[int]:
        """The tokens of a beginning."""
        # a number of their own type: of another one, all of them would be copied first
        s = int(np.searchsorted(self.text.firsts, np.uint32(place >> DEPTH_BITS)))
        return self.text.tokens(s)[: place & _LENGTH]

    def words(self, place: int) -> list[str]:
        """A beginning in the user's own words."""
        return [self.vocabulary[x] for x in self.path(place)]

    def sample(self, place: int) -> dict[str, str]:
        """A beginning as a sentence and its next token."""
        *sentence, following = self.words(int(place))
        return {"sentence": " ".join(sentence), "next": following}

    def next_of(self, place: int) -> list[tuple[int, list[str]]]:
        """The next tokens of a beginning, as a reader meets them, each with the words of its raw sentence."""
        tokens = self.path(place)
        part = int(self.offsets[tokens[0]]), int(self.offsets[tokens[0] + 1]), 1
        for x in tokens[1:]:
            part = next(its for token, _, _, its in self.children(part) if token == x)
        firsts = sorted((first, token) for token, _, first, _ in self.children(part))
        return [(token, self.words(first << DEPTH_BITS | _LENGTH)) for first, token in firsts]

    def begins(self, token: int) -> bool:
        """Whether a sentence of two tokens or more begins with it."""
        here = self.order[self.offsets[token] : self.offsets[token + 1]]
        return bool((self.text.lengths[here] > 1).any())

    def children(self, part: tuple[int, int, int]) -> Iterable[Child[tuple[int, int, int]]]:
        """How order[low:high] goes on, if all of it has the same first ``depth`` tokens."""
        if self.interrupted():
            raise KeyboardInterrupt
        low, high, depth = part
        text = self.text
        found = sorting.branches(
            text.rows, text.starts, text.counts, text.firsts, text.lengths, self.order, low, high, depth
        )
        for token, count, first, start, stop in found.T.tolist():
            yield token, count, first, (start, stop, depth + 1)


@dataclass(frozen=True)
class KeptPart:
    """The realizable part of a text: as `RealizablePart` counts it, with its sentences by first word.

    >>> from hardmax.nexttoken import Sentences
    >>> from hardmax.nexttoken.checking.survey import Distinct, survey
    >>> part = survey(Distinct.of(Sentences.from_lists(["a b b", "a b c", "b a", "c c"]))).part()
    >>> part.samples, part.of_samples, list(part.beginnings(iter([["a", "b", "c"], ["d"]])))
    (5, 6, [['a', 'b']])
    """

    whole: int
    cut: int
    samples: int
    of_samples: int
    vocabulary: int
    teaches_attention: bool
    chains: dict[str, list[str]] = field(repr=False)

    def beginnings(self, raw: Iterable[list[str]]) -> Iterable[list[str]]:
        """Of raw sentences what is kept of them."""
        for words in raw:
            chain = self.chains.get(words[0], ())
            size = 0
            while size < min(len(chain), len(words)) and chain[size] == words[size]:
                size += 1
            if size > 1:
                yield words[:size]


@dataclass(frozen=True, eq=False)
class Survey(Verdict):
    """What `survey` found: a verdict, and sizes and frequencies of the trie that was never made.

    ``samples`` are distinct; ``least`` and ``most`` raw sentences pass through one of them; ``shares`` are
    the least and the greatest part that one has among those of its sentence, of which there are ``parents``.
    """

    sorted: Sorted
    samples: int
    least: int
    most: int
    parents: int
    shares: tuple[float, float]
    pairs: Ints
    repair: bool

    @property
    def text(self) -> Distinct:
        """The sentences."""
        return self.sorted.text

    @cached_property
    def never_first(self) -> int:
        """How many tokens begin no sentence of two tokens or more."""
        return self.text.V - len(np.unique(self.pairs[0]))

    @cached_property
    def of_samples(self) -> int:
        """Samples of all raw sentences."""
        return int(_totals(self.text.lengths, self.text.counts)[0])

    def frequencies(self, *, uniform: bool = False) -> tuple[float, float] | None:
        """The least and the greatest frequency of a sample, as `Trie.frequencies` has them."""
        if not self.samples:
            return None
        if uniform:
            return self.shares[0] / self.parents, self.shares[1] / self.parents
        total = float(self.of_samples)
        return self.least / total, self.most / total

    @property
    def teaches_attention(self) -> bool:
        """Whether a sentence goes on after two different tokens."""
        return bool(_teaches(self.text.rows, self.text.starts, self.text.lengths))

    def part(self) -> KeptPart:
        """The realizable part that `realizable_part` finds."""
        text, (x, y, count, low, high) = self.text, self.pairs
        chosen = heaviest(x, y, count, self.repair)
        parts = [(*part, 2) for part in np.stack([low, high], axis=1)[chosen].tolist()]
        pairs = zip(x[chosen].tolist(), y[chosen].tolist(), parts, strict=True)
        chains = grow(list(pairs), self.sorted.children)
        table = np.full((len(chains), max(map(len, chains.values()), default=0)), MISSING, dtype=np.int64)
        number = np.full(text.V, MISSING, dtype=np.int64)
        for i, (start, chain) in enumerate(chains.items()):
            table[i, : len(chain)], number[start] = chain, i
        whole, cut, samples = _kept(text.rows, text.starts, text.lengths, text.counts, number, table)
        word = self.text.vocabulary
        return KeptPart(
            whole,
            cut,
            samples,
            self.of_samples,
            vocabulary=len({token for chain in chains.values() for token in chain}),
            teaches_attention=any(len({*chain[:-1]}) > 1 for chain in chains.values()),
            chains={word[start]: [word[token] for token in chain] for start, chain in chains.items()},
        )


def survey(
    text: Distinct,
    *,
    repair: bool = False,
    workers: int | None = None,
    tell: Callable[[int], object] = lambda count: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Survey:
    """Check distinct sentences against the assumptions of paper C; `analyze` says the same of a trie.

    Args:
        text: the sentences.
        repair: give tokens that begin no sentence a next token.
        workers: threads, one for each core by default.
        tell: hears how many distinct sentences are done each time.
        interrupted: asked now and then; if so, a KeyboardInterrupt says what is known. It is not raised by
            the signal itself, which numba may answer with a crash while it hands over arrays.

    >>> from hardmax.nexttoken import Sentences
    >>> from hardmax.nexttoken.checking.survey import Distinct, survey
    >>> found = survey(Distinct.of(Sentences.from_lists(["A B", "B C", "A B"])))
    >>> [(v.kind, v.count) for v in found.violations], found.samples
    ([('missing_collocation', 1)], 2)
    """
    _, size = _totals(text.lengths, text.counts)
    if size > LARGEST_WALK:
        raise ValueError(
            f"sentences: their prefixes hold up to {size:,} tokens, more than {LARGEST_WALK:,}; "
            f"choose a max_length (--max-length) below {text.longest}"
        )
    seconds = sorting.second_tokens(text.rows, text.starts, text.V)
    n, repaired = np.maximum(seconds, MISSING), np.empty(0, dtype=np.int64)
    if repair:
        repaired = np.flatnonzero(seconds == -1)
        n[repaired] = complete(n)[repaired]
    order, offsets = sorting.by_first_token(text.rows, text.starts, text.V)
    held = Sorted(text, order, offsets, interrupted)
    total, stop = Total(text.V), np.zeros(1, dtype=np.int64)
    cuts = np.unique(np.searchsorted(held.offsets, np.arange(0, len(text.counts), SHARE), side="right") - 1)
    spans = list(zip(cuts, [*cuts[1:], text.V], strict=True))
    with ThreadPoolExecutor(workers or cores(), thread_name_prefix="hardmax-walk") as threads:
        waiting = [
            threads.submit(
                walking.walked,
                text.rows,
                text.starts,
                text.counts,
                text.firsts,
                held.order,
                held.offsets,
                int(low),
                int(high),
                n,
                text.longest,
                stop,
            )
            for low, high in spans
        ]
        try:
            for (low, high), each in zip(spans, waiting, strict=True):
                ended = False
                while not ended:
                    ended = bool(wait([each], LOOK).done)
                    if interrupted():
                        raise KeyboardInterrupt("not realizable" if total.tally[TORN] else "")
                total.add(*each.result())
                tell(int(held.offsets[high] - held.offsets[low]))
        except BaseException:
            stop[0] = 1
            threads.shutdown(cancel_futures=True)
            raise
    orders = total.orders()
    heavy: list[Any] = [fact for place in total.heavy for fact in _heavier(held, n, place)]
    lost = [(place, held.path(place)[-1]) for place in total.lost]
    found = violations(
        held,
        n,
        orders,
        Cases(int(total.tally[TORN]), total.torn),
        Cases(int(total.tally[UNREACHABLE]), lost),
        Cases(int(total.tally[HEAVIER]), heavy[:SHOWN]),
    )
    samples, parents, least, most = total.tally[[SAMPLES, PARENTS, LEAST, MOST]].tolist()
    shares = total.shares[0], total.shares[1]
    return Survey(
        n, orders, found, repaired, held, samples, least, most, parents, shares, total.pairs, repair
    )


def _heavier(held: Sorted, n: Ints, place: int) -> list[tuple[int, int, int, int]]:
    """(place, token, its count, count of what decides) of a sample that breaks Assumption 3."""
    *sentence, following = held.path(place)
    limit = sum(n[x] == following for x in sentence)
    times = {x: sentence.count(x) for x in sentence}
    return [(place, x, count, int(limit)) for x, count in times.items() if count > limit]


@kernel(cost=lambda lengths, counts: 8.0 * len(lengths))
def _totals(lengths, counts):  # type: ignore[no-untyped-def]
    """Samples of all raw sentences, and tokens of all prefixes of distinct ones."""
    samples = tokens = np.int64(0)
    for s in range(len(lengths)):
        length = np.int64(lengths[s])
        samples += (length - 1) * np.int64(counts[s])
        tokens += length * (length + 1) // 2
    return samples, tokens


@kernel(cost=lambda *given: 15.0 * len(given[2]) * given[5].shape[1])  # sentences times the longest chain
def _kept(rows, starts, lengths, counts, number, table):  # type: ignore[no-untyped-def]
    """How many raw sentences agree with the chain of their first token to their end, how many only for two
    tokens or more, and in how many samples."""
    whole = cut = samples = np.int64(0)
    for s in range(len(lengths)):
        start, length, count = np.int64(starts[s]), np.int64(lengths[s]), np.int64(counts[s])
        row, k = number[token_of(rows, start, 0)], 0
        while row >= 0 and k < min(length, table.shape[1]) and token_of(rows, start, k) == table[row, k]:
            k += 1
        if k > 1:
            whole += count if k == length else 0
            cut += count if k < length else 0
            samples += (k - 1) * count
    return whole, cut, samples


@kernel(cost=lambda rows, starts, lengths: 30.0 * len(rows))
def _teaches(rows, starts, lengths):  # type: ignore[no-untyped-def]
    """Whether a sentence goes on after two different tokens."""
    for s in range(len(lengths)):
        start = np.int64(starts[s])
        for k in range(1, lengths[s] - 1):
            if token_of(rows, start, k) != token_of(rows, start, 0):
                return True
    return False
