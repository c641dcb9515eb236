"""What a trial measures: normalised gradient descent on one problem, then where it went (B-FIG-9).

A row does not depend, to the bit, on the other problems it was computed with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hardmax.dynamics.descent import descend, descend_batch
from hardmax.dynamics.trajectory import misalignment
from hardmax.margin.attention import max_margin_batch
from hardmax.margin.maxmargin import MaxMargin
from hardmax.margin.serial import serial_blas
from hardmax.paths.late import late_residual
from hardmax.problem import Problem
from hardmax.trials.experiments_blocks import Block, blocks

SATURATED = 1e-5  # the largest mean attention off the selected tokens that counts as saturated

MEASURE = (
    "saturated", "defect", "selection", "norm", "certified", "locally_optimal", "globally_optimal",
    "score_gap", "misalignment", "margin",
)  # fmt: skip
COLUMNS = (*MEASURE, "eta_ratio")  # eta_ratio takes longer than all the rest: only if asked for


def outcomes(
    problems: Sequence[Problem],
    *,
    step: float = 1.0,
    steps: int = 1000,
    starts: Sequence[Any] | None = None,
    measure: Sequence[str] = MEASURE,
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """Train p on every problem by normalised gradient descent and say where it went, one row per problem.

    ``saturated``: the mean attention off the selected tokens, ``defect``, is at most 1e-5. ``selection``: the
    tokens as text, "0 3 1"; tokens that tie as "0=2 3 1". ``certified``: their max-margin direction p_mm is
    proved optimal. ``locally_optimal``, ``globally_optimal``: saturated, and each selected token scores above
    its neighbours, or best of its input. ``score_gap``: the least lead over a neighbour, inf if there is
    none. ``misalignment``: 1 - cos of p to p_mm; ``margin``: 1/|p_mm|; ``norm``: |p|. ``eta_ratio``: the step
    over eta_c, above which p swings (B-NEW-3), for locally optimal selections. What is undefined is nan.

    ``starts`` holds p(0) of every problem, the origin by default. ``workers`` is the number of threads.

    >>> import hardmax as hm
    >>> from hardmax.trials.experiments import outcomes
    >>> rows = outcomes(list(hm.data.fig9_oracle(d=10, trials=20)))
    >>> rows[0]["selection"], rows[0]["saturated"], sum(row["globally_optimal"] for row in rows)
    ('5 1 4 2', True, 5)
    """
    check_columns(measure)
    problems = list(problems)
    rows: list[dict[str, Any]] = [{} for _ in problems]
    with serial_blas():  # sums must not depend on how many threads a process has
        if starts is None:
            paths = descend_batch(problems, steps, step, workers=workers)
        else:
            pairs = zip(problems, starts, strict=True)
            paths = [descend(problem, steps, step, start=start, record=()) for problem, start in pairs]
        for block in blocks(paths):
            columns = _columns(block, measure, step, workers)
            for at, i in enumerate(block.members):
                rows[i] = {name: columns[name][at] for name in measure}
    return rows


def check_columns(measure: Sequence[str]) -> None:
    """Refuse what cannot be measured."""
    unknown = [name for name in measure if name not in COLUMNS]
    if unknown or not measure:
        raise ValueError(f"measure must be some of {', '.join(COLUMNS)}, got {', '.join(unknown) or 'none'}")


def _columns(block: Block, measure: Sequence[str], step: float, workers: int | None) -> dict[str, list[Any]]:
    """The columns of a block, at least those asked for."""
    defects = block.defects
    saturated = defects <= SATURATED
    selections = block.selections
    columns: dict[str, list[Any]] = {
        "saturated": saturated.tolist(),
        "defect": defects.tolist(),
        "selection": [" ".join("=".join(map(str, tied)) for tied in chosen) for chosen in selections],
        "norm": [path.norm for path in block.paths],
    }
    if set(measure) <= columns.keys():
        return columns
    best = _directions(block, selections, workers)
    gaps = block.score_gaps(best)
    locally = saturated & (gaps > 0.0)
    columns |= {
        "certified": [each is not None and each.is_certified for each in best],
        "locally_optimal": locally.tolist(),
        "globally_optimal": (locally & block.are_best).tolist(),
        "score_gap": gaps.tolist(),
        "margin": [math.nan if each is None else each.margin for each in best],
        "misalignment": [
            math.nan if each is None or each.direction is None or not p.any() else misalignment(p, each)
            for p, each in zip(block.points, best, strict=True)
        ],
    }
    if "eta_ratio" in measure:
        columns["eta_ratio"] = [
            step / late_residual(path.problem, each).eta_c if good and each and each.norm else math.nan
            for path, each, good in zip(block.paths, best, columns["locally_optimal"], strict=True)
        ]
    return columns


def _directions(
    block: Block, selections: Sequence[tuple[tuple[int, ...], ...]], workers: int | None
) -> list[MaxMargin | None]:
    """p_mm of every selection; None where tokens tie or nothing is known of it."""
    unique = [at for at, sets in enumerate(selections) if all(len(tied) == 1 for tied in sets)]
    found = max_margin_batch(
        [block.paths[at].problem for at in unique], [[t for (t,) in selections[at]] for at in unique], workers
    )
    best: list[MaxMargin | None] = [None] * len(selections)
    for at, each in zip(unique, found, strict=True):
        best[at] = each if each.p is not None else None
    return best
