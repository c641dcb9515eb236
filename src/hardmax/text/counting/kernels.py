"""Compiled loops from bytes to counted n-grams: tokens with 64-bit hashes, numbers for keys, rows of counts.

An n-gram is the pair of the two (n-1)-grams that it begins and ends with, so one loop numbers words, by their
hashes, and n-grams of every length, by the numbers of their parts. Arithmetic on hashes overflows on purpose.
"""

from __future__ import annotations

import string

import numpy as np

from hardmax._lib.kernels import kernel
from hardmax._lib.sorting import sort

# The kinds of bytes: a gap, part of a word (bytes of other alphabets too), or a separate token.
GAP, WORD, ALONE = 0, 1, 2
APOSTROPHE, LESS, MORE, SLASH = 39, 60, 62, 47
LONGEST_TAG = 80  # bytes; a longer one is not a tag of HTML, but a text with a < in it

_START, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_32, _29, _LOW = np.uint64(32), np.uint64(29), np.uint64(0xFFFFFFFF)
SHARDS = 64  # of the keys, so that the table of one shard fits into a cache
_SHIFT = np.uint64(58)  # the upper six bits of a mixed key are its shard


# Letters, digits and bytes beyond ASCII are words.
KINDS = np.zeros(256, np.uint8)
KINDS[[*range(128, 256), *(string.ascii_letters + string.digits + "_").encode()]] = WORD
KINDS[list(b"!?")] = ALONE
LOWER = np.array([*bytes(range(256)).lower()], np.uint8)  # the lower case of each byte


@kernel(inline="always")
def mixed(key):  # type: ignore[no-untyped-def]
    """Mix a key, so that its upper and lower bits depend on all bits."""
    key = (key ^ (key >> _32)) * _MIX
    key = (key ^ (key >> _29)) * _SECOND
    return key ^ (key >> _32)


@kernel()
def split(text, ends, kinds, lower, hashes, starts, stops, counts):  # type: ignore[no-untyped-def]
    """Find hash, start and stop of the tokens of documents that end at ``ends``, and count the tokens.

    A word may hold apostrophes, which do not begin or end it. Tags of HTML are gaps.
    """
    count = at = 0
    for d in range(ends.size):
        before, end = count, ends[d]
        while at < end:
            kind = kinds[text[at]]
            if kind == GAP:
                if (
                    text[at] == LESS
                    and at + 1 < end
                    and (text[at + 1] == SLASH or kinds[text[at + 1]] == WORD)
                ):
                    close = at + 1
                    while close < min(end, at + LONGEST_TAG) and text[close] != MORE and text[close] != LESS:
                        close += 1
                    if close < min(end, at + LONGEST_TAG) and text[close] == MORE:
                        at = close
                at += 1
                continue
            starts[count] = at
            code = _START
            if kind == ALONE:
                code = (code ^ np.uint64(text[at])) * _PRIME
                at += 1
            else:
                while at < end:
                    byte = text[at]
                    if kinds[byte] != WORD:
                        inner = byte == APOSTROPHE and at + 1 < end and kinds[text[at + 1]] == WORD
                        if not inner:
                            break
                    code = (code ^ np.uint64(lower[byte])) * _PRIME
                    at += 1
            stops[count] = at
            hashes[count] = mixed(code)
            count += 1
        counts[d] = count - before
    return count


@kernel()
def whole_hashes(text, ends, hashes):  # type: ignore[no-untyped-def]
    """Compute the hash that `split` gives to a token, of each stretch of bytes."""
    at = 0
    for k in range(ends.size):
        code = _START
        while at < ends[k]:
            code = (code ^ np.uint64(text[at])) * _PRIME
            at += 1
        hashes[k] = mixed(code)


@kernel()
def pair_keys(numbers, documents, keys, present, sizes):  # type: ignore[no-untyped-def]
    """Compute the key of each two neighbors in a document that both have a number; -1 means none.

    ``sizes`` counts the keys of each shard.
    """
    for i in range(numbers.size - 1):
        if numbers[i] >= 0 and numbers[i + 1] >= 0 and documents[i] == documents[i + 1]:
            keys[i] = (np.uint64(numbers[i]) << _32) | np.uint64(numbers[i + 1])
            present[i] = True
            sizes[np.int64(mixed(keys[i]) >> _SHIFT)] += 1


@kernel()
def shard(keys, documents, present, places, positions, shard_keys, shard_documents):  # type: ignore[no-untyped-def]
    """Collect the positions with a key shard by shard, in order inside each; shards begin at ``places``.

    Keys and documents are copied, so that a shard is read from front to back.
    """
    for i in range(keys.size):
        if present[i]:
            s = np.int64(mixed(keys[i]) >> _SHIFT)
            at = places[s]
            positions[at], shard_keys[at], shard_documents[at] = i, keys[i], documents[i]
            places[s] = at + 1


@kernel()
def fill(keys, size, table):  # type: ignore[no-untyped-def]
    """Enter the first of some distinct keys into a table of zeros, twice as large and a power of two."""
    mask = np.int64(table.size - 1)
    for k in range(size):
        slot = np.int64(mixed(keys[k]) & _LOW) & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = k + 1


@kernel()
def number(keys, documents, numbers, first, frequency):  # type: ignore[no-untyped-def]
    """Number distinct keys, into ``numbers``; of each where it is first, and how many documents hold it.

    The table grows with the keys that are found, so that it stays in a cache as long as it can.
    """
    count = 0
    table = np.empty(1024, np.int32)
    table[:] = 0
    mask = np.int64(table.size - 1)
    last = np.empty(keys.size, np.int32)
    distinct = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        key = keys[i]
        slot = np.int64(mixed(key) & _LOW) & mask
        while table[slot] != 0 and distinct[table[slot] - 1] != key:
            slot = (slot + 1) & mask
        k = table[slot] - 1
        if k < 0:
            k = count
            distinct[k] = key
            first[k], last[k], frequency[k] = i, -1, 0
            count += 1
            table[slot] = count
            if 2 * count > table.size:
                table = np.empty(4 * table.size, np.int32)
                table[:] = 0
                fill(distinct, count, table)
                mask = np.int64(table.size - 1)
        if last[k] != documents[i]:
            last[k] = documents[i]
            frequency[k] += 1
        numbers[i] = k
    return count


@kernel()
def look_up(keys, present, distinct, table, numbers):  # type: ignore[no-untyped-def]
    """Look up the number of each present key among the distinct ones of the table; -1 for others."""
    mask = np.int64(table.size - 1)
    for i in range(keys.size):
        numbers[i] = -1
        if present[i]:
            slot = np.int64(mixed(keys[i]) & _LOW) & mask
            while table[slot] != 0:
                if distinct[table[slot] - 1] == keys[i]:
                    numbers[i] = table[slot] - 1
                    break
                slot = (slot + 1) & mask


@kernel()
def rows(numbers, offsets, indices, counts, lengths):  # type: ignore[no-untyped-def]
    """Fill in the distinct columns of each document in order, with counts; return how many in all.

    ``numbers`` (levels, positions) holds columns, -1 for none, those of a level above all of the one before.
    """
    count, longest = 0, 0
    for d in range(offsets.size - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    columns = np.empty(longest, np.int64)
    for d in range(offsets.size - 1):
        before = count
        for level in range(numbers.shape[0]):
            m = 0
            for i in range(offsets[d], offsets[d + 1]):
                columns[m] = numbers[level, i]
                m += numbers[level, i] >= 0
            sort(columns[:m])
            last = -1
            for q in range(m):
                if columns[q] == last:
                    counts[count - 1] += 1
                else:
                    last = columns[q]
                    indices[count], counts[count] = last, 1
                    count += 1
        lengths[d] = count - before
    return count
