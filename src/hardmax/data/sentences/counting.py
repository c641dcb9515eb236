"""A block of text to its sentences, compiled: bytes in, numbers of words out, three to an int64.

A sentence is a row of int64, 21 bits for each token: its number plus one, and zero behind the last. Rows so
packed sort as their tokens do, and are small: distinct sentences are all that is kept of a text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel
from hardmax._lib.sorting import sort

BITS = 21  # of a token; the largest vocabulary is below 2**21
PER_ROW = 3
MASK = 2**BITS - 1
SHIFTS = BITS * np.arange(PER_ROW)[::-1]  # of the tokens of a row, the first on top
FINE, LONG_WORD, MANY_WORDS = range(3)  # what a block may meet

_WORD, _SPACE, _ODD, _END, _LEAD = range(5)
_M31 = 2**31 - 1
_SEED = np.int64(0x2545F491)
_TOP = BITS * (PER_ROW - 1)  # where the first token of a row stands
_KEYED = 8  # bytes of a word that are its key
_NUMBER = 2**32 - 1  # of a sentence in a slot, plus one
_AT_ONCE = 512  # sentences that ask for their slots together
_FEW = 24  # sentences that are sorted by insertion
_REST = 2**_TOP - 1  # of a row, behind its first token


class Packed(NamedTuple):
    """Sentence s has rows[starts[s]:starts[s+1]]; counts[s] raw sentences equal it, firsts[s] the first."""

    rows: Any
    starts: Any
    counts: Any
    firsts: Any


def _kinds() -> NDArray[np.uint8]:
    """What a byte may begin: str.split's white space, where _LEAD is the first byte of some beyond ASCII."""
    kinds = np.full(256, _WORD, dtype=np.uint8)
    kinds[[0x09, 0x0B, 0x0C, 0x20]] = _SPACE
    kinds[0x1C:0x20] = _ODD
    kinds[[0x0A, 0x0D]] = _END  # every system's line ends; an empty line between \r and \n is not a sentence
    kinds[[0xC2, 0xE1, 0xE2, 0xE3]] = _LEAD
    return kinds


KINDS = _kinds()


@kernel()  # inlined, it would slow the loop over ordinary bytes by a quarter
def odd_space(data, i):  # type: ignore[no-untyped-def]
    """Return the length of the white space beyond ASCII that begins at byte i of valid UTF-8, or 0."""
    if data[i] == 0xC2:
        return 2 if data[i + 1] == 0x85 or data[i + 1] == 0xA0 else 0
    second, third = data[i + 1], data[i + 2]
    if data[i] == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if data[i] == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x80:
        return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    return 3 if second == 0x81 and third == 0x9F else 0


@kernel(inline="always")
def mixed(h, number):  # type: ignore[no-untyped-def]
    """Return 31 bits of a hash and a number: folded products of 31 bits, which do not overflow."""
    p = (h ^ (number & _M31)) * 0x5851F42D
    h = (p >> 31) ^ (p & _M31)
    p = (h ^ ((number >> 31) & _M31)) * 0x61C88647
    return (p >> 31) ^ (p & _M31) ^ ((number >> 62) & 3)


@kernel(cost=lambda data, *_: 20.0 * len(data))
def count_block(  # type: ignore[no-untyped-def]
    data, kinds, max_length, longest_word, slots, letters, word_at, rows, starts
):
    """Find the sentences of a block of whole lines in valid UTF-8, one after the other.

    Fills in the letters of its words and where each begins, and packed rows with the start of each sentence.
    A word has two slots, for its bytes as a number, and for its own number plus one with its length; they
    are zero at first, and room for twice as many words as may come. Returns what it met, and the numbers of
    words, of sentences, of those that were cut, of tokens they lost, and of unusual spaces.
    """
    V = n = cut = cut_tokens = odd = length = high = 0
    packed, shift = np.int64(0), _TOP
    i, size, last = 0, len(data), len(slots) // 2 - 1
    starts[0] = word_at[0] = 0
    while i <= size:
        kind = kinds[data[i]] if i < size else _END
        white = 1
        if kind == _LEAD:
            white = odd_space(data, i)
            kind = _ODD if white else _WORD
        if kind == _WORD:
            start, key = i, np.int64(0)
            while i < size:
                byte = data[i]
                kind = kinds[byte]
                if kind != _WORD and (kind != _LEAD or odd_space(data, i)):
                    break
                key = key << 8 | np.int64(byte)
                i += 1
            long = i - start
            if long > longest_word:
                characters = 0
                for k in range(start, i):
                    characters += (data[k] & 0xC0) != 0x80
                if characters > longest_word:
                    return LONG_WORD, V, n, cut, cut_tokens, odd
            length += 1
            if length > max_length:
                continue
            fits = np.int64(min(long, _KEYED + 1))  # up to here the key is the word
            if fits > _KEYED:  # other long words may have the same key
                key = np.int64(0x011C9DC5)
                for k in range(start, i):
                    key = ((key ^ np.int64(data[k])) * 16777619) & _M31
            slot = mixed(_SEED, key) & last
            entry, x = slots[2 * slot + 1], V
            while entry:
                if slots[2 * slot] == key and entry >> 32 == fits:
                    x = (entry & _M31) - 1
                    if fits <= _KEYED:
                        break
                    at, k = word_at[x], 0
                    if word_at[x + 1] - at == long:
                        while k < long and data[start + k] == letters[at + k]:
                            k += 1
                    if k == long:
                        break
                    x = V
                slot = (slot + 1) & last
                entry = slots[2 * slot + 1]
            if x == V:
                if len(word_at) - 1 == V:
                    return MANY_WORDS, V, n, cut, cut_tokens, odd
                slots[2 * slot], slots[2 * slot + 1] = key, fits << 32 | V + 1
                at = word_at[x]
                for k in range(long):
                    letters[at + k] = data[start + k]
                V += 1
                word_at[V] = at + long
            packed |= np.int64(x + 1) << shift
            if shift:
                shift -= BITS
            else:
                rows[high] = packed
                high, packed, shift = high + 1, np.int64(0), _TOP
            continue
        odd += kind == _ODD
        i += white
        if kind != _END or length == 0:
            continue
        if packed:
            rows[high] = packed
            high, packed, shift = high + 1, np.int64(0), _TOP
        n += 1
        starts[n] = high
        cut += length > max_length
        cut_tokens += max(length - max_length, 0)
        length = 0
    return FINE, V, n, cut, cut_tokens, odd


@kernel(cost=lambda text, *_: 40.0 * (len(text.counts) + text.starts[len(text.counts)]))
def join_rows(text, number, before, max_length, everything, distinct, slots):  # type: ignore[no-untyped-def]
    """Add sentences, renumbered and cut, to the distinct ones of ``everything``; return how many it has then.

    ``everything`` has room for all of them. A slot holds the hash of a sentence and its number plus one.
    Some sentences at a time ask for their slots, which lie far apart, and then use them: memory answers many
    questions in the time of one.
    """
    rows, starts, counts, firsts = text
    all_rows, all_starts, all_counts, all_firsts = everything
    most, last = (max_length + PER_ROW - 1) // PER_ROW, len(slots) - 1
    hashes, entry = np.empty(_AT_ONCE, dtype=np.int64), np.empty(_AT_ONCE, dtype=np.int64)
    at = np.empty(_AT_ONCE + 1, dtype=np.int64)
    for begin in range(0, len(counts), _AT_ONCE):
        some = min(_AT_ONCE, len(counts) - begin)
        at[0] = all_starts[distinct]
        for k in range(some):
            start, h = np.int64(starts[begin + k]), _SEED
            size = min(np.int64(starts[begin + k + 1]) - start, most)
            for r in range(size):
                packed = np.int64(0)
                for j in range(min(PER_ROW, max_length - r * PER_ROW)):
                    shift = BITS * (PER_ROW - 1 - j)
                    x = (rows[start + r] >> shift) & MASK
                    if x:
                        packed |= (number[x - 1] + 1) << shift
                all_rows[at[k] + r] = packed
                h = mixed(h, packed)
            hashes[k], at[k + 1] = h, at[k] + size
        for k in range(some):
            entry[k] = slots[hashes[k] & last]
        for k in range(some):  # what is in a slot is likely the same sentence
            t = (entry[k] & _NUMBER) - 1
            entry[k] = np.int64(all_starts[t]) if entry[k] >> 32 == hashes[k] else 0
        for k in range(some):
            entry[k] = all_rows[entry[k]]
        for k in range(some):
            h, t = hashes[k], np.int64(-1)
            slot = h & last
            while slots[slot]:
                if slots[slot] >> 32 == h:
                    t = (slots[slot] & _NUMBER) - 1
                    low, size, r = np.int64(all_starts[t]), at[k + 1] - at[k], 0
                    if np.int64(all_starts[t + 1]) - low == size:
                        while r < size and all_rows[low + r] == all_rows[at[k] + r]:
                            r += 1
                    if r == size:
                        break
                    t = np.int64(-1)
                slot = (slot + 1) & last
            if t >= 0:
                all_counts[t] += counts[begin + k]
                continue
            slots[slot] = h << 32 | distinct + 1
            all_counts[distinct], all_firsts[distinct] = counts[begin + k], before + firsts[begin + k]
            low = np.int64(all_starts[distinct])
            for r in range(at[k + 1] - at[k]):
                all_rows[low + r] = all_rows[at[k] + r]
            distinct += 1
            all_starts[distinct] = low + at[k + 1] - at[k]
    return distinct


@kernel()
def enter_slots(old, slots):  # type: ignore[no-untyped-def]
    """Fill a larger table of slots, which is empty, from a smaller one."""
    for entry in old:
        if entry:
            slot = (entry >> 32) & (len(slots) - 1)
            while slots[slot]:
                slot = (slot + 1) & (len(slots) - 1)
            slots[slot] = entry


@kernel(cost=lambda rows, starts, V: 12.0 * len(starts) + 3.0 * V)
def by_first_token(rows, starts, V):  # type: ignore[no-untyped-def]
    """Order sentences by their first token; return the order and where the sentences of each token begin."""
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


@kernel(inline="always")
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


@kernel(cost=lambda text, lengths, order, low, high, depth: 20.0 * (high - low))
def branches(text, lengths, order, low, high, depth):  # type: ignore[no-untyped-def]
    """Find the next tokens of a beginning of ``depth`` tokens, which order[low:high] share.

    A column has the token, how many raw sentences continue with it, the first of them, and its part of the
    order.
    """
    columns = np.empty((5, high - low), dtype=np.int64)
    rows, starts, counts, firsts = text
    shift = BITS * (PER_ROW - 1 - depth % PER_ROW)
    m = 0
    for k in range(low, high):
        s = np.int64(order[k])
        if lengths[s] <= depth:
            continue
        x = ((rows[np.int64(starts[s]) + depth // PER_ROW] >> shift) & MASK) - 1
        if m == 0 or columns[0, m - 1] != x:
            columns[0, m], columns[1, m], columns[2, m], columns[3, m] = x, 0, np.int64(firsts[s]), k
            m += 1
        columns[1, m - 1] += np.int64(counts[s])
        columns[2, m - 1] = min(columns[2, m - 1], np.int64(firsts[s]))
        columns[4, m - 1] = k + 1
    return columns[:, :m].copy()
