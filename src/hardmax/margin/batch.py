"""Thousands of small hard-margin problems in one call, on all cores, each with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from hardmax._lib import expect
from hardmax._lib.parallel import cores
from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.kernel import combine_each
from hardmax.margin.measure import Measured, measure
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.solution import MaxMargin


def measured_each(A: Floats, h: Floats, equal: Bools, norms: Floats, p: Floats, weights: Floats) -> Measured:
    """`measure` of each of a stack of problems in l2, (B, m, d), at its p and multipliers."""
    Mp, sizes = np.zeros(h.shape), np.ones((len(A), 3))
    combine_each(A, p, weights, Mp, sizes)
    return measure(Mp, h, equal, weights, norms, sizes[:, 0], sizes[:, 1], sizes[:, 2], A.shape[2])


def solve_batch(
    problems: Sequence[Constraints] | ArrayLike,
    h: ArrayLike = 1.0,
    workers: int | None = None,
    norm: Norm | str | float = "l2",
) -> list[MaxMargin]:
    """Solve many problems: a list of `Constraints`, or rows stacked as (B, m, d) with bounds ``h``.

    A serial kernel takes each problem by itself, so the results do not depend, to the bit, on the batch or on
    the number of workers. Problems that it cannot certify go to the norm's `solve`, with exact arithmetic
    behind it, and so do all problems in norms other than l1, l2 and linf.
    """
    threads = cores() if workers is None else expect.whole("workers", workers, 1)
    if isinstance(problems, Sequence) and all(isinstance(c, Constraints) for c in problems):
        return _solve_list(cast(Sequence[Constraints], problems), threads, norm_of(norm))
    stacked = np.ascontiguousarray(problems, dtype=np.float64)
    if stacked.ndim != 3 or not np.isfinite(stacked).all():
        raise ValueError(f"problems must be finite rows of shape (B, m, d), got shape {stacked.shape}")
    B, m, _ = stacked.shape
    try:
        bounds = np.ascontiguousarray(np.broadcast_to(np.asarray(h, dtype=np.float64), (B, m)))
    except ValueError:
        raise ValueError(f"h must be bounds that broadcast to {(B, m)}, got shape {np.shape(h)}") from None
    if not np.isfinite(bounds).all() or bounds.min(initial=0.0) < 0:
        raise ValueError(f"h must be finite bounds >= 0, got a minimum of {bounds.min()}")
    every, none, equal = np.arange(m), np.full(m, -1), np.zeros((B, m), dtype=bool)
    rows = [Constraints(stacked[b], every, none, bounds[b], equal[b]) for b in range(B)]
    return norm_of(norm).solve_many(rows, stacked, bounds, equal, threads)


def _solve_list(problems: Sequence[Constraints], workers: int, ball: Norm) -> list[MaxMargin]:
    """Group by shape; problems known by a Gram matrix only are solved one by one."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, c in enumerate(problems):
        groups.setdefault((c.count, *c.shape), []).append(i)
    answers: dict[int, MaxMargin] = {}
    for shape, members in groups.items():
        chosen = [problems[i] for i in members]
        if len(shape) == 1 or shape[0] == 0:
            solutions = [ball.solve(c) for c in chosen]
        else:
            rows = np.stack([c.rows() for c in chosen])
            bounds, equal = np.stack([c.h for c in chosen]), np.stack([c.equal for c in chosen])
            solutions = ball.solve_many(chosen, rows, bounds, equal, workers)
        answers.update(zip(members, solutions, strict=True))
    return [answers[i] for i in range(len(problems))]
