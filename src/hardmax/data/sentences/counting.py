"""A block of text to its distinct sentences, compiled: bytes in, numbers of words out, three to an int64.

A sentence is a row of int64, 21 bits for each token: its number plus one, and zero behind the last. Rows so
packed sort as their tokens do, and are small: distinct sentences are all that is kept of a text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.kernels import kernel

BITS = 21  # of a token; the largest vocabulary is below 2**21
PER_ROW = 3
MASK = 2**BITS - 1
FINE, LONG_WORD, MANY_WORDS, MANY_SENTENCES = range(4)  # what a block may meet

_WORD, _SPACE, _ODD, _END, _LEAD = range(5)
_M31 = 2**31 - 1


def _kinds() -> NDArray[np.uint8]:
    """What a byte may begin: str.split's white space, where _LEAD is the first byte of some beyond ASCII."""
    kinds = np.full(256, _WORD, dtype=np.uint8)
    kinds[[0x09, 0x0B, 0x0C, 0x20]] = _SPACE
    kinds[0x1C:0x20] = _ODD
    kinds[[0x0A, 0x0D]] = _END  # every system's line ends; an empty line between \r and \n is no sentence
    kinds[[0xC2, 0xE1, 0xE2, 0xE3]] = _LEAD
    return kinds


KINDS = _kinds()


@kernel()
def odd_space(data, i):  # type: ignore[no-untyped-def]
    """The length of the white space beyond ASCII that begins at byte i of valid UTF-8, 0 if there is none."""
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


@kernel()
def row_hash(rows, low, high):  # type: ignore[no-untyped-def]
    """31 bits of a packed sentence: products of 31 bits, folded, which overflow nowhere."""
    h = 0x2545F491
    for r in range(low, high):
        p = (h ^ (rows[r] & _M31)) * 0x5851F42D
        h = (p >> 31) ^ (p & _M31)
        p = (h ^ (rows[r] >> 31)) * 0x61C88647
        h = (p >> 31) ^ (p & _M31)
    return h


@kernel()
def same_rows(rows, low, high, others, start, stop):  # type: ignore[no-untyped-def]
    """Whether two packed sentences are equal."""
    if high - low != stop - start:
        return False
    k = 0
    while k < high - low and rows[low + k] == others[start + k]:
        k += 1
    return k == high - low


@kernel()
def characters(data, low, high):  # type: ignore[no-untyped-def]
    """How many characters these bytes are."""
    count = 0
    for i in range(low, high):
        count += (data[i] & 0xC0) != 0x80
    return count


@kernel()
def count_block(  # type: ignore[no-untyped-def]
    data, kinds, max_length, longest_word, word_slots, slots, letters, word_at, rows, starts, counts,
    firsts,
):  # fmt: skip
    """The distinct sentences of a block of whole lines in valid UTF-8, in order of first appearance.

    Fills in the letters of its words and where each begins; packed rows with the start of each sentence, its
    count and the number of the first that is like it. Slots, for a hash and a number plus one, are zero, and
    twice as many as there is room. Returns what it met, and the numbers of words, of distinct sentences and
    of all, of those that were cut, of tokens they lost, and of unusual spaces.
    """
    line = np.empty(max_length, dtype=np.int64)
    V = distinct = n = cut = cut_tokens = odd = length = low = 0
    i, size = 0, len(data)
    starts[0] = word_at[0] = 0
    while i <= size:
        kind = kinds[data[i]] if i < size else _END
        white = 1
        if kind == _LEAD:
            white = odd_space(data, i)
            kind = _ODD if white else _WORD
        if kind == _WORD:
            start, h = i, 0x011C9DC5
            while i < size:
                byte = data[i]
                kind = kinds[byte]
                if kind != _WORD and (kind != _LEAD or odd_space(data, i)):
                    break
                h = ((h ^ byte) * 16777619) & _M31
                i += 1
            long = i - start
            if long > longest_word and characters(data, start, i) > longest_word:
                return LONG_WORD, V, distinct, n, cut, cut_tokens, odd
            if length < max_length:
                slot = h & (len(word_slots) - 1)
                held = word_slots[slot]
                x = V
                while held:
                    if held >> 32 == h:
                        x = (held & _M31) - 1
                        at, k = word_at[x], 0
                        while k < long and letters[at + k] == data[start + k]:
                            k += 1
                        if k == long and word_at[x + 1] - at == long:
                            break
                        x = V
                    slot = (slot + 1) & (len(word_slots) - 1)
                    held = word_slots[slot]
                if x == V:
                    if len(word_at) - 1 == V:
                        return MANY_WORDS, V, distinct, n, cut, cut_tokens, odd
                    word_slots[slot] = h << 32 | V + 1
                    at = word_at[x]
                    for k in range(long):
                        letters[at + k] = data[start + k]
                    V += 1
                    word_at[V] = at + long
                line[length] = x
            length += 1
            continue
        odd += kind == _ODD
        i += white
        if kind != _END or length == 0:
            continue
        kept = min(length, max_length)
        cut += length > kept
        cut_tokens += length - kept
        length = 0
        high, packed, room = low, np.int64(0), PER_ROW
        for k in range(kept):
            room -= 1
            packed |= (line[k] + 1) << (BITS * room)
            if room == 0 or k == kept - 1:
                rows[high] = packed
                high, packed, room = high + 1, np.int64(0), PER_ROW
        h = row_hash(rows, low, high)
        slot = h & (len(slots) - 1)
        held, s = slots[slot], distinct
        while held:
            if held >> 32 == h:
                s = (held & _M31) - 1
                if same_rows(rows, low, high, rows, starts[s], starts[s + 1]):
                    break
                s = distinct
            slot = (slot + 1) & (len(slots) - 1)
            held = slots[slot]
        if s < distinct:
            counts[s] += 1
        else:
            if distinct == len(counts):
                return MANY_SENTENCES, V, distinct, n, cut, cut_tokens, odd
            counts[distinct], firsts[distinct] = 1, n
            slots[slot] = h << 32 | distinct + 1
            distinct += 1
            starts[distinct] = high
            low = high
        n += 1
    return FINE, V, distinct, n, cut, cut_tokens, odd


@kernel()
def join_rows(  # type: ignore[no-untyped-def]
    rows, starts, counts, firsts, number, before, max_length, all_rows, all_starts, all_counts, all_firsts,
    distinct, slots,
):  # fmt: skip
    """Add sentences to distinct ones, renumbered and at most so long; returns how many there are then.

    ``all_rows`` and the others have room for every one of them, and slots are twice as many at least.
    """
    most = (max_length + PER_ROW - 1) // PER_ROW
    for s in range(len(counts)):
        start, low = np.int64(starts[s]), np.int64(all_starts[distinct])
        high = low + min(np.int64(starts[s + 1]) - start, most)
        for r in range(high - low):
            packed, made = rows[start + r], np.int64(0)
            for k in range(PER_ROW):
                x = (packed >> (BITS * (PER_ROW - 1 - k))) & MASK
                if x and r * PER_ROW + k < max_length:
                    made |= (number[x - 1] + 1) << (BITS * (PER_ROW - 1 - k))
            all_rows[low + r] = made
        slot = row_hash(all_rows, low, high) & (len(slots) - 1)
        t = np.int64(slots[slot]) - 1
        while t >= 0 and not same_rows(
            all_rows, low, high, all_rows, np.int64(all_starts[t]), np.int64(all_starts[t + 1])
        ):
            slot = (slot + 1) & (len(slots) - 1)
            t = np.int64(slots[slot]) - 1
        if t >= 0:
            all_counts[t] += counts[s]
        else:
            slots[slot] = distinct + 1
            all_counts[distinct], all_firsts[distinct] = counts[s], before + firsts[s]
            distinct += 1
            all_starts[distinct] = high
    return distinct


@kernel()
def enter_rows(rows, starts, distinct, slots):  # type: ignore[no-untyped-def]
    """Fill a new table of slots, which is empty."""
    for s in range(distinct):
        slot = row_hash(rows, np.int64(starts[s]), np.int64(starts[s + 1])) & (len(slots) - 1)
        while slots[slot]:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = s + 1


@kernel()
def lengths_of(rows, starts):  # type: ignore[no-untyped-def]
    """How many tokens each sentence has."""
    lengths = np.empty(len(starts) - 1, dtype=np.int32)
    for s in range(len(lengths)):
        low, high = np.int64(starts[s]), np.int64(starts[s + 1])
        last, tokens = rows[high - 1], PER_ROW * (high - low)
        while not last & MASK:
            last >>= BITS
            tokens -= 1
        lengths[s] = tokens
    return lengths


@kernel()
def token_of(rows, start, k):  # type: ignore[no-untyped-def]
    """Token k of the sentence that starts at this row."""
    return ((rows[start + k // PER_ROW] >> (BITS * (PER_ROW - 1 - k % PER_ROW))) & MASK) - 1
