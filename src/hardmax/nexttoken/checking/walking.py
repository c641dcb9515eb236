"""One walk through sorted sentences that meets every node of their trie, which is never stored."""

from __future__ import annotations

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.data.sentences.counting import token_of
from hardmax.data.sentences.sorting import sort_rows

SHOWN = 3  # witnesses of each kind
SHORTEST = 2  # tokens of a sample: a one-token sentence and the next
DEPTH_BITS = 24
NOWHERE = 2**62  # a place is the number of a raw sentence and a length: its beginning, in reading order

# what is counted
SAMPLES, TORN, UNREACHABLE, HEAVIER, PARENTS, LEAST, MOST = range(7)


@kernel()
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


@kernel()
def relate(keys, places, used, key, place):  # type: ignore[no-untyped-def]
    """Enter a relation with the first place that gives it; returns how many there are."""
    p = ((key & 0x7FFFFFFF) ^ (key >> 31)) & 0x7FFFFFFF
    p = p * 0x5851F42D
    slot = ((p >> 31) ^ p) & (len(keys) - 1)
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    if keys[slot] == key:
        places[slot] = min(places[slot], place)
        return used
    keys[slot], places[slot] = key, place
    return used + 1


@kernel()
def walk(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, lengths, order, offsets, first_token, last_token, n, longest, tally, shares,
    torn, lost, heavy, pairs, keys, places,
):  # fmt: skip
    """Sort and walk through the sentences that begin with tokens first_token, ..., last_token - 1.

    Fills in the counts named above; the least and the greatest share of a sample among those of its sentence;
    the first places of torn beginnings, unreachable samples and samples that break Assumption 3; the pairs
    that begin sentences, a column for each (x, y, count, part of the order); and the relations with their
    first places, in slots. Returns whether these had room, and the number of pairs.
    """
    V = len(n)
    paired = used = 0
    path, begin, leads, deciding = np.empty((4, longest), dtype=np.int64)
    # of each node on the path: how many sentences, the first; and of its children number, sum, least, most
    mass, first = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    kids, kids_mass, kids_first = np.empty((3, longest), dtype=np.int64)
    kids_least, kids_most = np.empty((2, longest), dtype=np.int64)
    times, since = np.zeros(V, dtype=np.int64), np.empty(V, dtype=np.int64)
    for x in range(first_token, last_token):
        sort_rows(rows, starts, order, offsets[x], offsets[x + 1])
        depth = np.int64(0)
        for k in range(offsets[x], offsets[x + 1] + 1):
            ended = k == offsets[x + 1]
            s = np.int64(0) if ended else np.int64(order[k])
            start, length, shared = np.int64(starts[s]), np.int64(0 if ended else lengths[s]), 0
            while shared < min(depth, length) and path[shared] == token_of(rows, start, shared):
                shared += 1
            while depth > shared:  # all of this node has been seen
                d = depth - 1
                y, count, f = path[d], mass[d], first[d]
                times[y] -= 1
                if kids[d]:
                    tally[PARENTS] += 1
                    shares[0] = min(shares[0], kids_least[d] / kids_mass[d])
                    shares[1] = max(shares[1], kids_most[d] / kids_mass[d])
                    if kids[d] > 1:
                        tally[TORN] += 1
                        note(torn, kids_first[d] << DEPTH_BITS | depth)
                if d:
                    mass[d - 1] += count
                    first[d - 1] = min(first[d - 1], f)
                    kids[d - 1] += 1
                    kids_mass[d - 1] += count
                    kids_first[d - 1] = min(kids_first[d - 1], f)
                    kids_least[d - 1] = min(kids_least[d - 1], count)
                    kids_most[d - 1] = max(kids_most[d - 1], count)
                    place = f << DEPTH_BITS | depth
                    tally[SAMPLES] += 1
                    tally[LEAST], tally[MOST] = min(tally[LEAST], count), max(tally[MOST], count)
                    if depth == SHORTEST:
                        pairs[0, paired], pairs[1, paired], pairs[2, paired] = path[0], y, count
                        pairs[3, paired], pairs[4, paired] = begin[d], k
                        paired += 1
                    limit = hits = 0  # how often what decides occurs, and how many tokens that are
                    for j in range(d):
                        if leads[j] == y:
                            limit += 1
                            if since[path[j]] == j:
                                deciding[hits] = path[j]
                                hits += 1
                    if limit == 0 and depth > SHORTEST:
                        tally[UNREACHABLE] += 1
                        note(lost, place)
                    for j in range(d if limit else 0):
                        other = path[j]
                        if since[other] != j or leads[j] == y:
                            continue
                        if times[other] > limit:
                            tally[HEAVIER] += 1
                            note(heavy, place)
                        for i in range(hits):
                            key = (path[d - 1] * V + deciding[i]) * V + other
                            used = relate(keys, places, used, key, place)
                            if 2 * used > len(keys):
                                return False, 0
                depth -= 1
            for j in range(shared, length):
                y = token_of(rows, start, j)
                path[j], begin[j], leads[j] = y, k, n[y]
                if not times[y]:
                    since[y] = j
                times[y] += 1
                mass[j], first[j], kids[j], kids_mass[j] = 0, NOWHERE, 0, 0
                kids_first[j], kids_least[j], kids_most[j] = NOWHERE, NOWHERE, 0
            depth = length
            if not ended:
                mass[depth - 1] += np.int64(counts[s])
                first[depth - 1] = min(first[depth - 1], np.int64(firsts[s]))
    return True, paired


def walked(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, lengths, order, offsets, first_token, last_token, n, longest
):  # fmt: skip
    """The same with room for all it finds: tally, shares, torn, lost, heavy, pairs, relations and places."""
    size, room = int(offsets[last_token] - offsets[first_token]), 2**16
    while True:
        tally, shares = np.zeros(7, dtype=np.int64), np.array([2.0, 0.0])
        tally[LEAST] = NOWHERE
        torn, lost, heavy = np.full((3, SHOWN), NOWHERE, dtype=np.int64)
        pairs = np.empty((5, size), dtype=np.int64)
        keys, places = np.full(room, -1, dtype=np.int64), np.empty(room, dtype=np.int64)
        fits, paired = walk(
            rows, starts, counts, firsts, lengths, order, offsets, first_token, last_token, n, longest, tally,
            shares, torn, lost, heavy, pairs, keys, places,
        )  # fmt: skip
        if fits:
            held = keys >= 0
            return tally, shares, torn, lost, heavy, pairs[:, :paired].copy(), keys[held], places[held]
        room *= 4  # begin again
