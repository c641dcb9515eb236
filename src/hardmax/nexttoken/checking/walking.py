"""One walk through sorted sentences that meets every node of their trie, which is never stored."""

from __future__ import annotations

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.data.sentences.counting import BITS, MASK, PER_ROW
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
def relate_all(  # type: ignore[no-untyped-def]
    path, d, leading, y, limit, n, place, times, tally, heavy, keys, places, used
):  # fmt: skip
    """Enter what the sample says whose sentence is path[:d] and whose next token y is the n of ``limit`` of
    its tokens, all of them ``leading``. Returns how many relations there are, -1 if there is no room.

    ``times`` are zero, for each token, and will be again.
    """
    V = len(n)
    for j in range(d):
        times[path[j]] += 1
    for j in range(d):
        other = path[j]
        count = times[other]
        times[other] = -abs(count)  # seen
        if count < 0 or n[other] == y:
            continue
        if count > limit:
            tally[HEAVIER] += 1
            note(heavy, place)
        for i in leading:
            if n[path[i]] == y:  # the same relation a second time changes nothing
                used = relate(keys, places, used, (path[d - 1] * V + path[i]) * V + other, place)
                if 2 * used > len(keys):
                    return -1
    for j in range(d):
        times[path[j]] = 0
    return used


@kernel()
def in_common(rows, start, stop, other, its_stop):  # type: ignore[no-untyped-def]
    """How many tokens at the beginning two different sentences share."""
    size = min(stop - start, its_stop - other)
    r = 0
    while r < size and rows[start + r] == rows[other + r]:
        r += 1
    if r == size:
        return PER_ROW * r
    differ, shared = rows[start + r] ^ rows[other + r], PER_ROW * r
    while not differ >> (BITS * (PER_ROW * (r + 1) - 1 - shared)):
        shared += 1
    return shared


@kernel()
def walk(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, order, offsets, first_token, last_token, n, longest, tally, shares, torn,
    lost, heavy, pairs, keys, places,
):  # fmt: skip
    """Sort and walk through the sentences that begin with tokens first_token, ..., last_token - 1.

    Fills in the counts named above; the least and the greatest share of a sample among those of its sentence;
    the first places of torn beginnings, unreachable samples and samples that break Assumption 3; the pairs
    that begin sentences, a column for each (x, y, count, part of the order); and the relations with their
    first places, in slots. Returns whether these had room, and the number of pairs.
    """
    samples = parents = unreachable = paired = used = np.int64(0)
    least, most, least_share, most_share = NOWHERE, np.int64(0), 2.0, 0.0
    path, leading = np.empty((2, longest + 1), dtype=np.int64)  # leading: where on the path a token has an n
    # of each node on the path that several sentences have: where in the order it begins, how many raw
    # sentences pass, the first; and of its children number, sum, first, least, most
    begin, mass, first = np.empty((3, longest), dtype=np.int64)
    kids, kids_mass, kids_first, kids_least, kids_most = np.empty((5, longest), dtype=np.int64)
    times = np.zeros(len(n), dtype=np.int64)
    for x in range(first_token, last_token):
        sort_rows(rows, starts, order, offsets[x], offsets[x + 1])
        depth = opened = leads = 0  # tokens on the path, those that two sentences had, and those with an n
        start = stop = count = f = np.int64(0)
        for k in range(offsets[x], offsets[x + 1] + 1):
            ended = k == offsets[x + 1]
            s = np.int64(0) if ended else np.int64(order[k])
            low, high = np.int64(starts[s]), np.int64(starts[s + 1])
            shared = 0 if ended or not depth else in_common(rows, start, stop, low, high)
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
                    note(torn, kids_first[d] << DEPTH_BITS | depth)
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
                limit = 0  # how often what decides occurs
                for j in range(leads):
                    limit += n[path[leading[j]]] == y
                if limit:
                    used = relate_all(
                        path, d, leading[:leads], y, limit, n, place, times, tally, heavy, keys, places, used
                    )
                    if used < 0:
                        return False, 0
                elif d >= SHORTEST:
                    unreachable += 1
                    note(lost, place)
            if ended:
                break
            opened, start, stop = shared, low, high
            count, f = np.int64(counts[s]), np.int64(firsts[s])
            depth = shared - shared % PER_ROW
            for r in range(low + shared // PER_ROW, high):
                for m in range(PER_ROW):
                    y = ((rows[r] >> (BITS * (PER_ROW - 1 - m))) & MASK) - 1
                    if y >= 0 and depth >= shared:
                        path[depth] = y
                        leading[leads] = depth
                        leads += n[y] >= 0
                    depth += y >= 0
    tally[SAMPLES], tally[PARENTS], tally[UNREACHABLE] = samples, parents, unreachable
    tally[LEAST], tally[MOST], shares[0], shares[1] = least, most, least_share, most_share
    return True, paired


def walked(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, order, offsets, first_token, last_token, n, longest
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
            rows, starts, counts, firsts, order, offsets, first_token, last_token, n, longest, tally, shares,
            torn, lost, heavy, pairs, keys, places,
        )  # fmt: skip
        if fits:
            held = keys >= 0
            return tally, shares, torn, lost, heavy, pairs[:, :paired].copy(), keys[held], places[held]
        room *= 4  # begin again
