"""Sorting inside kernels: numba compiles its own in two seconds, for each type and in each process."""

from __future__ import annotations

import numpy as np

from hardmax._lib.kernels import kernel

_FEW = 16  # sorted by insertion


@kernel(inline="always")
def _split(x, low, high):  # type: ignore[no-untyped-def]
    """Reorder x[low:high + 1] into a part of small and a part of large numbers; return the end of the first.

    The pivot is the median of the first, the middle and the last number. Neither part is empty.
    """
    first, middle, last = x[low], x[(low + high) // 2], x[high]
    pivot = max(min(first, middle), min(max(first, middle), last))
    i, j = low, high
    while True:
        while x[i] < pivot:
            i += 1
        while x[j] > pivot:
            j -= 1
        if i >= j:
            return j if j < high else high - 1
        x[i], x[j] = x[j], x[i]
        i += 1
        j -= 1


@kernel()
def sort(x):  # type: ignore[no-untyped-def]
    """Sort numbers in place, in ascending order."""
    waiting, parts = np.empty((64, 2), np.int64), 1
    waiting[0, 0], waiting[0, 1] = 0, x.size - 1
    while parts > 0:
        parts -= 1
        low, high = waiting[parts, 0], waiting[parts, 1]
        while high - low >= _FEW:
            end = _split(x, low, high)
            if end - low < high - end:  # the longer part waits, so at most 64 do
                waiting[parts, 0], waiting[parts, 1] = end + 1, high
                high = end
            else:
                waiting[parts, 0], waiting[parts, 1] = low, end
                low = end + 1
            parts += 1
        for k in range(low + 1, high + 1):
            value, j = x[k], k
            while j > low and x[j - 1] > value:
                x[j] = x[j - 1]
                j -= 1
            x[j] = value


@kernel()
def select(x, k):  # type: ignore[no-untyped-def]
    """Return the number that would be at place k if x were sorted; x is reordered."""
    low, high = 0, x.size - 1
    while low < high:
        end = _split(x, low, high)
        if k <= end:
            high = end
        else:
            low = end + 1
    return x[k]
