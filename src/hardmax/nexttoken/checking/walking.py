"""One walk through sorted sentences that meets every node of their trie, which is never stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax.data.sentences.counting import BITS, MASK, PER_ROW
from hardmax.data.sentences.sorting import sort_rows

SHOWN = 3  # witnesses of each kind
SHORTEST = 2  # tokens of a sample: a one-token sentence and the next
DEPTH_BITS = 24
NOWHERE = 2**62  # a place is the number of a raw sentence and a length: its beginning, in reading order
_AT_ONCE = 256  # sentences that are copied together
_ROOM = 2**12  # relations at first, half of them used

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
def relate(keys, places, key, place):  # type: ignore[no-untyped-def]
    """Enter a relation with the first place that gives it; returns whether it is new."""
    p = ((key & 0x7FFFFFFF) ^ (key >> 31)) & 0x7FFFFFFF
    p = p * 0x5851F42D
    slot = ((p >> 31) ^ p) & (len(keys) - 1)
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    if keys[slot] == key:
        places[slot] = min(places[slot], place)
        return False
    keys[slot], places[slot] = key, place
    return True


@kernel()
def enlarged(keys, places):  # type: ignore[no-untyped-def]
    """The same relations in twice as many slots."""
    more, its = np.empty(2 * len(keys), dtype=np.int64), np.empty(2 * len(keys), dtype=np.int64)
    more[:] = -1
    for slot in range(len(keys)):
        if keys[slot] >= 0:
            relate(more, its, keys[slot], places[slot])
    return more, its


@kernel()
def relate_all(  # type: ignore[no-untyped-def]
    path, d, leading, y, limit, n, place, times, tally, heavy, keys, places, used
):
    """Enter what the sample says whose sentence is path[:d] and whose next token y is the n of ``limit`` of
    its tokens, all of them ``leading``. Returns the relations, their places and how many there are.

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
                used += relate(keys, places, (path[d - 1] * V + path[i]) * V + other, place)
                if 2 * used > len(keys):
                    keys, places = enlarged(keys, places)
    for j in range(d):
        times[path[j]] = 0
    return keys, places, used


@kernel()
def gather(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, order, low, high, held, at, sizes, times, first
):
    """Copy the sentences order[low:high], which lie far apart, behind one another: sentence k has the rows
    held[at[k]:at[k+1]]. Here no question to memory waits for the answer to another."""
    for k in range(high - low):
        s = np.int64(order[low + k])
        at[k + 1], sizes[k] = starts[s], starts[s + 1] - starts[s]
        times[k], first[k] = counts[s], firsts[s]
    used = 0
    for k in range(high - low):
        start = at[k + 1]
        for r in range(sizes[k]):
            held[used + r] = rows[start + r]
        used += sizes[k]
        at[k + 1] = used


def _steps(*given: Any) -> float:
    """At worst every sample is related to all that came before it in its sentence."""
    starts, order, offsets, first, last, longest = *given[1:2], *given[4:8], given[9]
    sentences = order[offsets[first] : offsets[last]].astype(np.intp)
    tokens = PER_ROW * float(np.sum(starts[sentences + 1] - starts[sentences]))
    return 20.0 * tokens * longest


@kernel(cost=_steps)
def walk(  # type: ignore[no-untyped-def]
    rows,
    starts,
    counts,
    firsts,
    order,
    offsets,
    first_token,
    last_token,
    n,
    longest,
    stop,
    tally,
    shares,
    torn,
    lost,
    heavy,
):
    """Sort and walk through the sentences that begin with tokens first_token, ..., last_token - 1.

    It ends early, with results that say nothing, when another thread sets ``stop``.

    Fills in the counts named above; the least and the greatest share of a sample among those of its sentence;
    the first places of torn beginnings, unreachable samples and samples that break Assumption 3. Returns the
    pairs that begin sentences, a column for each (x, y, count, part of the order), and the relations with
    their first places.
    """
    pairs = np.empty((5, offsets[last_token] - offsets[first_token]), dtype=np.int64)
    keys, places = np.empty(_ROOM, dtype=np.int64), np.empty(_ROOM, dtype=np.int64)
    keys[:] = -1
    samples = parents = unreachable = paired = used = np.int64(0)
    least, most, least_share, most_share = np.int64(NOWHERE), np.int64(0), 2.0, 0.0
    # the tokens of a sentence and of that before, and where those are that have an n
    line, path, leading = np.empty((3, longest + PER_ROW), dtype=np.int64)
    # of each node on the path that several sentences have: where in the order it begins, how many raw
    # sentences pass, the first; and of its children number, sum, first, least, most
    begin, mass, first = np.empty((3, longest), dtype=np.int64)
    kids, kids_mass, kids_first, kids_least, kids_most = np.empty((5, longest), dtype=np.int64)
    times = np.zeros(len(n), dtype=np.int64)
    # some sentences at a time: their rows, and how often and where first they occur
    held, at = np.empty(_AT_ONCE * (longest // PER_ROW + 1), dtype=np.int64), np.zeros(_AT_ONCE + 1, np.int64)
    sizes, masses, numbers = np.empty((3, _AT_ONCE), dtype=np.int64)
    for x in range(first_token, last_token):
        if stop[0]:
            break
        sort_rows(rows, starts, order, offsets[x], offsets[x + 1])
        depth = opened = leads = 0  # tokens on the path, those that two sentences had, and those with an n
        count = f = np.int64(0)
        for k in range(offsets[x], offsets[x + 1] + 1):
            ended = k == offsets[x + 1]
            if stop[0]:
                break
            m = (k - offsets[x]) % _AT_ONCE
            if not m:
                upto = min(k + _AT_ONCE, offsets[x + 1])
                gather(rows, starts, counts, firsts, order, k, upto, held, at, sizes, masses, numbers)
            length = shared = 0
            for r in range(0 if ended else at[m], 0 if ended else at[m + 1]):
                for shift in (2 * BITS, BITS, 0):
                    line[length] = ((held[r] >> shift) & MASK) - 1
                    length += line[length] >= 0
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
                    keys, places, used = relate_all(
                        path, d, leading[:leads], y, limit, n, place, times, tally, heavy, keys, places, used
                    )
                elif d >= SHORTEST:
                    unreachable += 1
                    note(lost, place)
            if ended:
                break
            opened, depth, count, f = shared, length, masses[m], numbers[m]
            for j in range(shared, length):
                path[j], leading[leads] = line[j], j
                leads += n[line[j]] >= 0
    tally[SAMPLES], tally[PARENTS], tally[UNREACHABLE] = samples, parents, unreachable
    tally[LEAST], tally[MOST], shares[0], shares[1] = least, most, least_share, most_share
    taken = keys >= 0
    return pairs[:, :paired].copy(), keys[taken], places[taken]


def walked(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, order, offsets, first_token, last_token, n, longest, stop
):
    """The same: tally, shares, torn, lost, heavy, pairs, relations and places."""
    tally, shares = np.zeros(7, dtype=np.int64), np.empty(2)
    torn, lost, heavy = np.full((3, SHOWN), NOWHERE, dtype=np.int64)
    found = walk(
        rows,
        starts,
        counts,
        firsts,
        order,
        offsets,
        first_token,
        last_token,
        n,
        longest,
        stop,
        tally,
        shares,
        torn,
        lost,
        heavy,
    )
    return tally, shares, torn, lost, heavy, *found
