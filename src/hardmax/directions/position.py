"""General position of the keys (Lemma 10 and Theorem 7, read as in B-ERR-10)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import generator
from hardmax.margin.rationals import integers
from hardmax.problem import Problem

CLEAR = 1e-9  # a least singular value above this, relatively, is far beyond rounding
Row = tuple[int, int, int]  # input, selected token, other token


@dataclass(frozen=True)
class GeneralPosition:
    """Whether key differences are as independent as they can be, and on how many sets that was tested.

    ``exhaustive``: all sets were tested; otherwise ``holds`` means that a random sample showed
    nothing to the contrary. ``witness`` is a set of dependent rows, as (input, selected token, other token).
    """

    holds: bool
    exhaustive: bool
    checked: int
    witness: tuple[Row, ...] | None


@check_arguments
def general_position(
    problem: Problem, *, limit: int = 100_000, rng: int | np.random.Generator | None = None
) -> GeneralPosition:
    """Test that for any selection d rows k_selected - k_t are independent and d+1 never all tight.

    "Never all tight" means that no p meets the d+1 rows with equality to 1. If there are fewer than d rows,
    all of them must be independent. There are exponentially many sets: up to ``limit`` are tested one by
    one, above that a sample of as many, for which ``rng`` must be given. Where singular values leave a doubt
    the rank is taken in fractions, so the answer is exact for the floats given. Copies of a token are one.
    """
    firsts = problem.split(problem.groups == np.arange(len(problem.tokens)))
    names = [np.flatnonzero(first).tolist() for first in firsts]
    keys = [k[n] for k, n in zip(problem.split(problem.keys[problem.tokens]), names, strict=True)]
    counts = [len(k) for k in keys]
    rows = sum(counts) - len(counts)
    sizes = [min(problem.d, rows), *([problem.d + 1] if rows > problem.d else [])]
    total = sum(_count(counts, size) for size in sizes)
    if total > limit and rng is None:
        raise ValueError(
            f"too many sets to test all of them ({total:,}, limit {limit:,}); pass rng to sample"
        )
    checked = 0
    for size in sizes:
        if total <= limit:
            sets = _every(counts, size)
        else:
            assert rng is not None
            rng = generator(rng)
            sets = _sample(counts, size, limit // len(sizes), rng)
        while batch := list(itertools.islice(sets, 4096)):
            checked += len(batch)
            witness = _dependent(keys, batch, size > problem.d)
            if witness is not None:
                dependent = tuple((i, names[i][a], names[i][t]) for i, a, t in witness)
                return GeneralPosition(False, total <= limit, checked, dependent)
    return GeneralPosition(True, total <= limit, checked, None)


def _dependent(
    keys: list[np.ndarray], batch: list[tuple[Row, ...]], with_ones: bool
) -> tuple[Row, ...] | None:
    """The first dependent set of a batch: singular values clear nearly all, fractions decide the others."""
    if not batch[0]:
        return None
    M = np.array([[keys[i][a] - keys[i][t] for i, a, t in rows] for rows in batch])
    M /= max(np.abs(M).max(), np.finfo(float).tiny)
    if with_ones:  # 1 is in the range of M exactly if [M, 1] is singular
        M = np.concatenate([M, np.ones((*M.shape[:2], 1))], axis=2)
    lengths = np.linalg.norm(M, axis=2, keepdims=True)
    values = np.linalg.svd(M / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    doubtful = np.any(lengths == 0, axis=(1, 2)) | (values[:, -1] <= CLEAR * values[:, 0])
    for rows in (batch[b] for b in np.flatnonzero(doubtful)):  # the rank decides, in whole numbers
        entries, _ = integers([[keys[i][a], keys[i][t]] for i, a, t in rows])
        tokens = np.array(entries, dtype=object).reshape(len(rows), 2, -1)
        lines = (tokens[:, 0] - tokens[:, 1]).tolist()
        if fmpz_mat([line + [1] * with_ones for line in lines]).rank() < len(rows):
            return rows
    return None


def _count(sizes: list[int], total: int) -> int:
    """Sets of ``total`` rows: in each input no row, or a selected token and some of the others."""
    ways = [1] + [0] * total
    for T in sizes:
        here = [1, *(T * math.comb(T - 1, k) for k in range(1, T))]
        ways = [sum(ways[s - k] * here[k] for k in range(min(s, T - 1) + 1)) for s in range(total + 1)]
    return ways[total]


def _every(sizes: list[int], total: int, i: int = 0) -> Iterator[tuple[Row, ...]]:
    if i == len(sizes):
        if total == 0:
            yield ()
        return
    T = sizes[i]
    for k in range(min(total, T - 1) + 1):
        for selected in range(T if k else 1):
            others = [t for t in range(T) if t != selected]
            for chosen in itertools.combinations(others, k):
                rows = tuple((i, selected, t) for t in chosen)
                for rest in _every(sizes, total - k, i + 1):
                    yield rows + rest


def _sample(sizes: list[int], total: int, count: int, rng: np.random.Generator) -> Iterator[tuple[Row, ...]]:
    """Random selections and, of each, a random set of rows."""
    for _ in range(count):
        selected = [int(rng.integers(T)) for T in sizes]
        rows = [(i, a, t) for i, a in enumerate(selected) for t in range(sizes[i]) if t != a]
        yield tuple(rows[j] for j in sorted(rng.choice(len(rows), size=total, replace=False).tolist()))
