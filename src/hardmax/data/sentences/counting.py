"""A block of text to its sentences, compiled: bytes in, numbers of words out, three to an int64.

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
FINE, LONG_WORD, MANY_WORDS = range(3)  # what a block may meet

_WORD, _SPACE, _ODD, _END, _LEAD = range(5)
_M31 = 2**31 - 1
_SEED = np.int64(0x2545F491)
_TOP = BITS * (PER_ROW - 1)  # where the first token of a row stands
_KEYED = 8  # bytes of a word that are its key
_NUMBER = 2**32 - 1  # of a sentence in a slot, plus one
_AT_ONCE = 512  # sentences that ask for their slots together


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
def mixed(h, number):  # type: ignore[no-untyped-def]
    """31 bits of a hash and a number: products of 31 bits, folded, which overflow nowhere."""
    p = (h ^ (number & _M31)) * 0x5851F42D
    h = (p >> 31) ^ (p & _M31)
    p = (h ^ ((number >> 31) & _M31)) * 0x61C88647
    return (p >> 31) ^ (p & _M31) ^ ((number >> 62) & 3)


@kernel()
def renumbered(packed, number, room):  # type: ignore[no-untyped-def]
    """A row with other numbers for its tokens, and no more of them than there is room."""
    made = np.int64(0)
    for k in range(min(PER_ROW, room)):
        x = (packed >> (BITS * (PER_ROW - 1 - k))) & MASK
        if x:
            made |= (number[x - 1] + 1) << (BITS * (PER_ROW - 1 - k))
    return made


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
def long_key(data, low, high):  # type: ignore[no-untyped-def]
    """A number for a word that does not fit eight bytes; others may have the same one."""
    h = np.int64(0x011C9DC5)
    for i in range(low, high):
        h = ((h ^ np.int64(data[i])) * 16777619) & _M31
    return h


@kernel()
def same_letters(data, low, high, letters, start, stop):  # type: ignore[no-untyped-def]
    """Whether two words are equal."""
    k = 0
    while k < high - low and k < stop - start and data[low + k] == letters[start + k]:
        k += 1
    return k == high - low and k == stop - start


@kernel(cost=lambda data, *_: 20.0 * len(data))
def count_block(  # type: ignore[no-untyped-def]
    data, kinds, max_length, longest_word, slots, letters, word_at, rows, starts
):
    """The sentences of a block of whole lines in valid UTF-8, one after the other.

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
            if long > longest_word and characters(data, start, i) > longest_word:
                return LONG_WORD, V, n, cut, cut_tokens, odd
            length += 1
            if length > max_length:
                continue
            fits = np.int64(min(long, _KEYED + 1))  # up to here the key is the word
            if fits > _KEYED:
                key = long_key(data, start, i)
            slot = mixed(_SEED, key) & last
            held, x = slots[2 * slot + 1], V
            while held:
                if slots[2 * slot] == key and held >> 32 == fits:
                    x = (held & _M31) - 1
                    if fits <= _KEYED or same_letters(data, start, i, letters, word_at[x], word_at[x + 1]):
                        break
                    x = V
                slot = (slot + 1) & last
                held = slots[2 * slot + 1]
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


@kernel(cost=lambda rows, starts, counts, *_: 40.0 * (len(counts) + starts[len(counts)]))
def join_rows(  # type: ignore[no-untyped-def]
    rows,
    starts,
    counts,
    firsts,
    number,
    before,
    max_length,
    all_rows,
    all_starts,
    all_counts,
    all_firsts,
    distinct,
    slots,
):
    """Add sentences to distinct ones, renumbered and at most so long; returns how many there are then.

    ``all_rows`` and the others have room for every one of them. A slot holds the hash of a sentence and its
    number plus one. Some sentences at a time ask for their slots, which lie far apart, and then use them:
    memory answers many questions in the time of one.
    """
    most, last = (max_length + PER_ROW - 1) // PER_ROW, len(slots) - 1
    hashes, held = np.empty(_AT_ONCE, dtype=np.int64), np.empty(_AT_ONCE, dtype=np.int64)
    at = np.empty(_AT_ONCE + 1, dtype=np.int64)
    for begin in range(0, len(counts), _AT_ONCE):
        some = min(_AT_ONCE, len(counts) - begin)
        at[0] = all_starts[distinct]
        for k in range(some):
            start, h = np.int64(starts[begin + k]), _SEED
            size = min(np.int64(starts[begin + k + 1]) - start, most)
            for r in range(size):
                made = renumbered(rows[start + r], number, max_length - r * PER_ROW)
                all_rows[at[k] + r] = made
                h = mixed(h, made)
            hashes[k], at[k + 1] = h, at[k] + size
        for k in range(some):
            held[k] = slots[hashes[k] & last]
        for k in range(some):  # what is in a slot is likely the same sentence
            t = (held[k] & _NUMBER) - 1
            held[k] = np.int64(all_starts[t]) if held[k] >> 32 == hashes[k] else 0
        for k in range(some):
            held[k] = all_rows[held[k]]
        for k in range(some):
            h, t = hashes[k], np.int64(-1)
            slot = h & last
            while slots[slot]:
                if slots[slot] >> 32 == h:
                    t = (slots[slot] & _NUMBER) - 1
                    low, high = np.int64(all_starts[t]), np.int64(all_starts[t + 1])
                    if same_rows(all_rows, at[k], at[k + 1], all_rows, low, high):
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
    for held in old:
        if held:
            slot = (held >> 32) & (len(slots) - 1)
            while slots[slot]:
                slot = (slot + 1) & (len(slots) - 1)
            slots[slot] = held


@kernel(cost=lambda rows, starts: 8.0 * len(starts))
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


@kernel(cost=lambda *_: 5.0)
def token_of(rows, start, k):  # type: ignore[no-untyped-def]
    """Token k of the sentence that starts at this row."""
    return ((rows[start + k // PER_ROW] >> (BITS * (PER_ROW - 1 - k % PER_ROW))) & MASK) - 1
