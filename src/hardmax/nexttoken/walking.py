"""One walk through sorted sentences that visits every node of their trie, which is never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel
from hardmax._lib.parallel import cores
from hardmax.data.sentences import counting
from hardmax.data.sentences.counting import BITS, MASK, PER_ROW, mixed, sort_rows
from hardmax.data.sentences.distinct import Distinct

Ints = NDArray[np.int64]
SHOWN = 3  # witnesses of each kind
SHORTEST = 2  # tokens of a sample: a one-token sentence and the next
DEPTH_BITS = 24
NOWHERE = 2**62  # a place is the number of a raw sentence and a length: its beginning, in reading order
SHARE = 2**16  # sentences that are walked through at a time: few, so that all cores end together
LARGEST_WALK = 200_000_000_000  # tokens of all prefixes: minutes
LOOK = 0.1  # seconds between two questions whether there was an interrupt
_LENGTH = 2**DEPTH_BITS - 1
_AT_ONCE = 256  # sentences that are copied together
_ROOM = 2**12  # relations at first, half of them used
_SEED = np.int64(0)

# the counts: samples, sentences with several next tokens, samples that no token leads to, tokens that
# outnumber those that decide, beginnings that go on, sentences that go on after two different tokens
SAMPLES, TORN, UNREACHABLE, HEAVIER, PARENTS, MIXED, LEAST, MOST = range(8)


class WalkFindings(NamedTuple):
    """The counts named above, and the first places of the three kinds of violation that a walk can see."""

    tally: Any
    torn: Any
    lost: Any
    heavy: Any


class Relations(NamedTuple):
    """A hash table: relations with the first place that gives each; ``used`` is one number."""

    keys: Any
    places: Any
    used: Any


class Copies(NamedTuple):
    """Some sentences one after another, and how often and where first each occurs."""

    rows: Any
    at: Any
    sizes: Any
    counts: Any
    firsts: Any


@kernel(inline="always")
def note(places, place):  # type: ignore[no-untyped-def]
    """Keep the first few places, in order."""
    if place >= places[-1]:
        return
    for other in places:
        if other == place:
            return
    k = len(places) - 1
    while k > 0 and places[k - 1] > place:
        places[k] = places[k - 1]
        k -= 1
    places[k] = place


@kernel(inline="always")
def relate(relations, key, place):  # type: ignore[no-untyped-def]
    """Enter a relation with the first place that gives it."""
    keys, places, used = relations
    slot = mixed(_SEED, key) & (len(keys) - 1)
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    if keys[slot] == key:
        places[slot] = min(places[slot], place)
    else:
        keys[slot], places[slot] = key, place
        used[0] += 1


@kernel(inline="always")
def empty_relations(size):  # type: ignore[no-untyped-def]
    """Return a table with this many slots, a power of two."""
    keys = np.empty(size, dtype=np.int64)
    keys[:] = -1
    return Relations(keys, np.empty(size, dtype=np.int64), np.zeros(1, dtype=np.int64))


@kernel(inline="always")
def relate_all(sentence, leading, y, limit, n, place, times, findings, relations):  # type: ignore[no-untyped-def]
    """Enter the relations of a sample whose next token y is the n of ``limit`` of its ``leading`` tokens.

    ``times`` are zero, for each token, and will be again. Returns the relations, which may have moved.
    """
    V, query = len(n), sentence[-1]
    for x in sentence:
        times[x] += 1
    for other in sentence:
        count = times[other]
        times[other] = -abs(count)  # seen
        if count < 0 or n[other] == y:
            continue
        if count > limit:
            findings.tally[HEAVIER] += 1
            note(findings.heavy, place)
        for i in leading:
            if n[sentence[i]] == y:  # the same relation a second time changes nothing
                relate(relations, (query * V + sentence[i]) * V + other, place)
                if 2 * relations.used[0] > len(relations.keys):
                    larger = empty_relations(2 * len(relations.keys))
                    for slot in range(len(relations.keys)):
                        if relations.keys[slot] >= 0:
                            relate(larger, relations.keys[slot], relations.places[slot])
                    relations = larger
    for x in sentence:
        times[x] = 0
    return relations


@kernel()
def copy_sentences(text, order, low, high, copies):  # type: ignore[no-untyped-def]
    """Copy the sentences order[low:high], which are far apart, one after another.

    Sentence k has the rows at[k], ..., at[k+1] - 1. No load waits for the result of another one here.
    """
    rows, at, sizes, counts, firsts = copies
    for k in range(high - low):
        s = np.int64(order[low + k])
        at[k + 1], sizes[k] = text.starts[s], text.starts[s + 1] - text.starts[s]
        counts[k], firsts[k] = text.counts[s], text.firsts[s]
    used = 0
    for k in range(high - low):
        start = at[k + 1]
        for r in range(sizes[k]):
            rows[used + r] = text.rows[start + r]
        used += sizes[k]
        at[k + 1] = used


def _steps(*arguments: Any) -> float:
    """At worst every sample is related to all that came before it in its sentence."""
    text, order, offsets, first, last, _, longest, _ = arguments
    sentences = order[offsets[first] : offsets[last]].astype(np.intp)
    tokens = PER_ROW * float(np.sum(text.starts[sentences + 1] - text.starts[sentences]))
    return 20.0 * tokens * longest


@kernel(cost=_steps)
def walk(text, order, offsets, first_token, last_token, n, longest, stop):  # type: ignore[no-untyped-def]
    """Sort and walk through the sentences that begin with tokens first_token, ..., last_token - 1.

    It ends early, with results that mean nothing, when another thread sets ``stop``.

    Returns the counts named above; the first places of each kind of `WalkFindings`; the least and greatest
    share of a sample among those of its sentence; the pairs that begin sentences, a column for each (x, y,
    count, part of the order); and the relations with their first places.
    """
    tally = np.zeros(8, dtype=np.int64)
    firsts = np.empty((3, SHOWN), dtype=np.int64)
    firsts[:] = NOWHERE
    findings = WalkFindings(tally, firsts[0], firsts[1], firsts[2])
    pairs = np.empty((5, offsets[last_token] - offsets[first_token]), dtype=np.int64)
    relations = empty_relations(_ROOM)
    samples = parents = unreachable = paired = np.int64(0)
    least, most, least_share, most_share = np.int64(NOWHERE), np.int64(0), 2.0, 0.0
    # the tokens of a sentence and of that before, and where those are that have an n
    line, path, leading = np.empty((3, longest + PER_ROW), dtype=np.int64)
    # of each node on the path that several sentences have: where in the order it begins, how many raw
    # sentences pass, the first; and of its children number, sum, first, least, most
    begin, mass, first = np.empty((3, longest), dtype=np.int64)
    kids, kids_mass, kids_first, kids_least, kids_most = np.empty((5, longest), dtype=np.int64)
    times = np.zeros(len(n), dtype=np.int64)
    # some sentences at a time: their rows, and how often and where first they occur
    packed, at = (
        np.empty(_AT_ONCE * (longest // PER_ROW + 1), dtype=np.int64),
        np.zeros(_AT_ONCE + 1, np.int64),
    )
    sizes, masses, numbers = np.empty((3, _AT_ONCE), dtype=np.int64)
    copies = Copies(packed, at, sizes, masses, numbers)
    for x in range(first_token, last_token):
        if stop[0]:
            break
        sort_rows(text.rows, text.starts, order, offsets[x], offsets[x + 1])
        depth = opened = leads = 0  # tokens on the path, those that two sentences had, and those with an n
        count = f = np.int64(0)
        for k in range(offsets[x], offsets[x + 1] + 1):
            ended = k == offsets[x + 1]
            if stop[0]:
                break
            m = (k - offsets[x]) % _AT_ONCE
            if not m:
                upto = min(k + _AT_ONCE, offsets[x + 1])
                copy_sentences(text, order, k, upto, copies)
            length = shared = 0
            for r in range(0 if ended else at[m], 0 if ended else at[m + 1]):
                for shift in (2 * BITS, BITS, 0):
                    line[length] = ((packed[r] >> shift) & MASK) - 1
                    length += line[length] >= 0
            for j in range(1, length - 1):
                if line[j] != line[0]:
                    tally[MIXED] += 1
                    break
            while shared < min(depth, length) and path[shared] == line[shared]:
                shared += 1
            for d in range(opened, shared):
                begin[d], mass[d], first[d], kids[d], kids_mass[d] = k - 1, 0, NOWHERE, 0, 0
                kids_first[d], kids_least[d], kids_most[d] = NOWHERE, NOWHERE, 0
            if depth and shared == depth:  # the sentence before this one is its beginning
                mass[depth - 1], first[depth - 1] = count, f
            opened, whole = max(opened, shared), depth
            while depth > shared:  # all of this node has been seen
                d = depth - 1
                y = path[d]
                leads -= leads > 0 and leading[leads - 1] == d
                single = depth > opened  # only the sentence before this one has it
                if not single:
                    count, f = mass[d], first[d]
                branches = depth < whole if single else kids[d]
                if branches:
                    parents += 1
                    most_share = max(most_share, 1.0 if branches == 1 else kids_most[d] / kids_mass[d])
                    least_share = min(least_share, 1.0 if branches == 1 else kids_least[d] / kids_mass[d])
                if branches > 1:
                    tally[TORN] += 1
                    note(findings.torn, kids_first[d] << DEPTH_BITS | depth)
                depth -= 1
                if not d:
                    break
                if d <= opened:
                    mass[d - 1] += count
                    first[d - 1] = min(first[d - 1], f)
                    kids[d - 1] += 1
                    kids_mass[d - 1] += count
                    kids_first[d - 1] = min(kids_first[d - 1], f)
                    kids_least[d - 1] = min(kids_least[d - 1], count)
                    kids_most[d - 1] = max(kids_most[d - 1], count)
                place = f << DEPTH_BITS | d + 1
                samples += 1
                least, most = min(least, count), max(most, count)
                if d + 1 == SHORTEST:
                    pairs[0, paired], pairs[1, paired], pairs[2, paired] = path[0], y, count
                    pairs[3, paired], pairs[4, paired] = k - 1 if single else begin[d], k
                    paired += 1
                limit = 0  # how often the tokens that decide occur
                for j in range(leads):
                    limit += n[path[leading[j]]] == y
                if limit:
                    relations = relate_all(
                        path[:d], leading[:leads], y, limit, n, place, times, findings, relations
                    )
                elif d >= SHORTEST:
                    unreachable += 1
                    note(findings.lost, place)
            if ended:
                break
            opened, depth, count, f = shared, length, masses[m], numbers[m]
            for j in range(shared, length):
                path[j], leading[leads] = line[j], j
                leads += n[line[j]] >= 0
    tally[SAMPLES], tally[PARENTS], tally[UNREACHABLE] = samples, parents, unreachable
    tally[LEAST], tally[MOST] = least, most
    used = relations.keys >= 0
    shares = least_share, most_share
    return tally, firsts, shares, pairs[:, :paired].copy(), relations.keys[used], relations.places[used]


@dataclass(frozen=True, eq=False)
class SortedText:
    """Distinct sentences by their tokens: those of first token x are ``order[offsets[x]:offsets[x+1]]``.

    A beginning is known by its place: the number of the first raw sentence that has it, and its length.
    Whoever looks through many of them is stopped by a KeyboardInterrupt if that was ``interrupted``.
    """

    text: Distinct
    order: NDArray[np.uint32]
    offsets: Ints
    interrupted: Callable[[], bool] = lambda: False

    def path(self, place: int) -> list[int]:
        """The tokens of a beginning."""
        # a number of their own type: of another one, all of them would be copied first
        s = int(np.searchsorted(self.text.firsts, np.uint32(place >> DEPTH_BITS)))
        return self.text.tokens(s)[: place & _LENGTH]

    def words(self, place: int) -> list[str]:
        """A beginning in the user's own words."""
        return [self.text.vocabulary[x] for x in self.path(place)]

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

    def children(self, part: tuple[int, int, int]) -> Iterable[tuple[int, int, int, tuple[int, int, int]]]:
        """Yield the continuations of order[low:high], whose sentences share the first ``depth`` tokens.

        For each next token: the token, how many raw sentences have it, the first of them, and its part.
        """
        if self.interrupted():
            raise KeyboardInterrupt
        low, high, depth = part
        columns = counting.branches(self.text.packed, self.text.lengths, self.order, low, high, depth)
        for token, count, first, start, stop in columns.T.tolist():
            yield token, count, first, (start, stop, depth + 1)


class Walk:
    """The result of a walk through all sentences; the order in which its parts are added does not matter."""

    def __init__(self, text: SortedText) -> None:
        self.text = text
        self.tally = np.zeros(8, dtype=np.int64)
        self.tally[LEAST] = NOWHERE
        self.shares = (2.0, 0.0)
        self.torn: list[int] = []
        self.lost: list[int] = []
        self.heavy: list[int] = []
        self._parts: list[tuple[Ints, Ints, Ints]] = []

    def add(
        self, tally: Ints, firsts: Ints, shares: tuple[float, float], pairs: Ints, keys: Ints, places: Ints
    ) -> None:
        """Add the results of `walk`."""
        least, most = min(self.tally[LEAST], tally[LEAST]), max(self.tally[MOST], tally[MOST])
        self.tally += tally
        self.tally[LEAST], self.tally[MOST] = least, most
        self.shares = min(self.shares[0], shares[0]), max(self.shares[1], shares[1])
        for mine, its in zip((self.torn, self.lost, self.heavy), firsts, strict=True):
            mine[:] = sorted([*mine, *its[its < NOWHERE].tolist()])[:SHOWN]
        self._parts.append((pairs, keys, places))

    def pairs(self) -> Ints:
        """The pairs that begin sentences: x, y, count, and the part of the order."""
        return np.concatenate([pairs for pairs, _, _ in self._parts], axis=1)

    def relations(self) -> tuple[Ints, Ints]:
        """Each relation (query V + above) V + below once, ascending, with the first place that gives it."""
        keys = np.concatenate([keys for _, keys, _ in self._parts])
        places = np.concatenate([places for _, _, places in self._parts])
        order = np.lexsort((places, keys))
        keys, first = np.unique(keys[order], return_index=True)
        return keys, places[order][first]


def walk_through(
    text: Distinct,
    n: Ints,
    *,
    workers: int | None = None,
    tell: Callable[[int], object] = lambda count: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Walk:
    """Walk through distinct sentences on all cores; n is the collocation.

    Args:
        text: The sentences.
        n: The collocation, -1 where it is missing.
        workers: Number of threads, one for each core by default.
        tell: Called with the number of distinct sentences that were done.
        interrupted: Polled now and then; if it returns True, a KeyboardInterrupt has what is known. It is
            not raised by the signal itself, which numba may answer with a crash while it hands over arrays.
    """
    lengths = text.lengths.astype(np.int64)
    size = int((lengths * (lengths + 1) // 2).sum())
    if size > LARGEST_WALK:
        raise ValueError(
            f"sentences: their prefixes hold up to {size:,} tokens, more than {LARGEST_WALK:,}; "
            f"choose a `max_length` below {text.longest}"
        )
    order, offsets = counting.by_first_token(text.rows, text.starts, text.V)
    result, stop = Walk(SortedText(text, order, offsets, interrupted)), np.zeros(1, dtype=np.int64)
    cuts = np.unique(np.searchsorted(offsets, np.arange(0, len(text.counts), SHARE), side="right") - 1)
    spans = [(int(low), int(high)) for low, high in zip(cuts, [*cuts[1:], text.V], strict=True)]
    with ThreadPoolExecutor(workers or cores(), thread_name_prefix="hardmax-walk") as threads:
        waiting = [
            threads.submit(walk, text.packed, order, offsets, low, high, n, text.longest, stop)
            for low, high in spans
        ]
        try:
            for (low, high), part in zip(spans, waiting, strict=True):
                ended = False
                while not ended:
                    ended = bool(wait([part], LOOK).done)
                    if interrupted():
                        raise KeyboardInterrupt("not realizable" if result.tally[TORN] else "")
                result.add(*part.result())
                tell(int(offsets[high] - offsets[low]))
        except BaseException:
            stop[0] = 1
            threads.shutdown(cancel_futures=True)
            raise
    return result
