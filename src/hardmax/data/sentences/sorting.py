"""Distinct sentences in the order of their tokens: neighbours then share their beginnings, as in a trie."""

from __future__ import annotations

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax._lib.sorting import sort
from hardmax.data.sentences.counting import BITS, MASK, PER_ROW, token_of

_FEW = 24  # sorted by insertion
_REST = 2 ** (2 * BITS) - 1  # of a row, behind its first token


@kernel(cost=lambda rows, starts, V: 12.0 * len(starts) + 3.0 * V)
def by_first_token(rows, starts, V):  # type: ignore[no-untyped-def]
    """All sentences, those with one first token together, by its number; and where each token's begin."""
    top = BITS * (PER_ROW - 1)
    offsets = np.zeros(V + 1, dtype=np.int64)
    for s in range(len(starts) - 1):
        offsets[rows[np.int64(starts[s])] >> top] += 1
    for x in range(V):
        offsets[x + 1] += offsets[x]
    order, free = np.empty(len(starts) - 1, dtype=np.uint32), offsets[:-1].copy()
    for s in range(len(starts) - 1):
        x = (rows[np.int64(starts[s])] >> top) - 1
        order[free[x]] = s
        free[x] += 1
    return order, offsets


@kernel()
def sort_with(keys, order, start, size):  # type: ignore[no-untyped-def]
    """Sort the first keys and, with them, order[start:start + size]: a heap, the largest key first."""
    for built in range(2 * size - 1):  # first the heap grows, then it gives away its largest
        grows = built < size
        if grows:
            k = built
            while k > 0 and keys[(k - 1) // 2] < keys[k]:
                above = (k - 1) // 2
                keys[k], keys[above] = keys[above], keys[k]
                order[start + k], order[start + above] = order[start + above], order[start + k]
                k = above
        else:
            last = 2 * size - 1 - built
            keys[0], keys[last] = keys[last], keys[0]
            order[start], order[start + last] = order[start + last], order[start]
            k = 0
            while 2 * k + 1 < last:
                below = 2 * k + 1
                if below + 1 < last and keys[below + 1] > keys[below]:
                    below += 1
                if keys[below] <= keys[k]:
                    break
                keys[k], keys[below] = keys[below], keys[k]
                order[start + k], order[start + below] = order[start + below], order[start + k]
                k = below


@kernel()
def sort_rows(rows, starts, order, low, high):  # type: ignore[no-untyped-def]
    """Sort order[low:high] by the tokens of its sentences, which are distinct and begin with the same one."""
    keys = np.empty(high - low, dtype=np.int64)
    room = 64
    todo = np.empty((room, 3), dtype=np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2] = low, high, 0
    waiting = 1
    while waiting:
        waiting -= 1
        start, stop, level = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
        size = stop - start
        for k in range(size):
            s = np.int64(order[start + k])
            at = np.int64(starts[s]) + level
            keys[k] = rows[at] if at < np.int64(starts[s + 1]) else 0
        if size > _FEW and level == 0 and size <= MASK:
            # all have the same first token: its place is free for the number of each, and numbers sort faster
            for k in range(size):
                keys[k] = (keys[k] & _REST) << BITS | k
            sort(keys[:size])
            those = order[start:stop].copy()
            for k in range(size):
                order[start + k] = those[keys[k] & MASK]
                keys[k] >>= BITS
        elif size > _FEW:
            sort_with(keys, order, start, size)
        else:
            for k in range(1, size):
                key, s, j = keys[k], order[start + k], k
                while j > 0 and keys[j - 1] > key:
                    keys[j], order[start + j] = keys[j - 1], order[start + j - 1]
                    j -= 1
                keys[j], order[start + j] = key, s
        begin = 0
        for k in range(1, size + 1):
            if k < size and keys[k] == keys[begin]:
                continue
            if k - begin > 1:  # equal so far, so they go on
                if waiting == room:
                    more = np.empty((2 * room, 3), dtype=np.int64)
                    for row in range(room):
                        more[row, 0], more[row, 1], more[row, 2] = todo[row, 0], todo[row, 1], todo[row, 2]
                    todo, room = more, 2 * room
                todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = start + begin, start + k, level + 1
                waiting += 1
            begin = k


@kernel(cost=lambda *given: 20.0 * (given[7] - given[6]))  # high - low
def branches(rows, starts, counts, firsts, lengths, order, low, high, depth):  # type: ignore[no-untyped-def]
    """The next tokens of a beginning of ``depth`` tokens, which order[low:high] share, one column for each:
    the token, how many raw sentences go on with it, the first of them, and its own part of the order."""
    found = np.empty((5, high - low), dtype=np.int64)
    m = 0
    for k in range(low, high):
        s = np.int64(order[k])
        if lengths[s] <= depth:
            continue
        x = token_of(rows, np.int64(starts[s]), depth)
        if m == 0 or found[0, m - 1] != x:
            found[0, m], found[1, m], found[2, m], found[3, m] = x, 0, np.int64(firsts[s]), k
            m += 1
        found[1, m - 1] += np.int64(counts[s])
        found[2, m - 1] = min(found[2, m - 1], np.int64(firsts[s]))
        found[4, m - 1] = k + 1
    return found[:, :m].copy()


@kernel(cost=lambda rows, starts, V: 8.0 * len(starts))
def second_tokens(rows, starts, V):  # type: ignore[no-untyped-def]
    """For each token what follows it at the beginning of a sentence: -1 if nothing does, -2 if several do."""
    n = np.empty(V, dtype=np.int64)
    n[:] = -1
    for s in range(len(starts) - 1):
        row = rows[np.int64(starts[s])]
        x, y = (row >> (2 * BITS)) - 1, ((row >> BITS) & MASK) - 1
        if y >= 0 and n[x] != y:
            n[x] = y if n[x] == -1 else -2
    return n
