"""Joint training of the attention vector p and the head v, each by its own rule (B-DEF-1c, B-DEF-6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax.dynamics.driver import NOTHING, PlainForce, Rule, RunWatch, Trainer, steps_to_record
from hardmax.dynamics.forces import (
    EXPONENTS,
    MOVES,
    NO_COMPETITOR,
    STATIONARY,
    STEP,
    V,
    Workspace,
    layout_of,
    pair,
)
from hardmax.dynamics.gradient import pull_of, readout_pull, risk_of, settle_at, with_readout
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import need_batch, of_batch
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, scaled, scaled_readout
from hardmax.problem.keys import Products
from hardmax.problem.problem import slots_of


def train_both(
    problem: Problem,
    step_p: Optimizer,
    step_v: Optimizer,
    steps: int,
    *,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
    batch: int | None = None,
    watch: RunWatch = NOTHING,
) -> Run:
    """Steps of p and v together; v starts at the problem's head, and each has its own rule."""
    p = problem.vector("start", start)
    with_readout(problem, p)  # refuses other heads
    if coordinates not in ("auto", "primal"):
        raise ValueError(f'coordinates must be "auto" or "primal" where v is trained, got {coordinates!r}')
    problem.need_decreasing_loss()
    for step, is_matrix in ((step_p, len(problem.shape) == 2), (step_v, False)):
        if step.of_matrix and not is_matrix:
            raise ValueError(
                f"optimizer must have a norm of vectors where v is trained, got {step.norm}; choose another"
            )
    kept = steps_to_record(record, steps)
    scale, (by_head, head) = scaled(problem), scaled_readout(problem)
    seen, p = scale.problem._with(readout=head), np.array(scale.point(p, "start"))
    few = need_batch(problem, batch)
    rules = [
        Rule.of(step_p, steps, scale, by_update=few > 0),
        Rule.of(step_v, steps, replace(scale, exponent=by_head.exponent), by_update=few > 0),
    ]
    slots = slots_of(seen)
    total = float(few) if few and problem.weights is None else problem.total
    large = isinstance(problem.table, Products) and problem.table.is_large
    layout: Any
    force: Any
    if problem.loss.is_compiled and not large:
        values, zeros = slots.merge(head.values[seen.tokens]), np.zeros(len(slots.tokens))
        layout = layout_of(seen, slots, values=values, labels=head.labels, scores=zeros, batch=few)
        force = pair
    else:
        layout, force = slots, _plain_force(seen, few, total)
    x = np.concatenate([p, head.v])
    found = Trainer(
        force,
        layout,
        x,
        rules,
        kept,
        sizes=[seen.d, len(head.v)],
        slots=len(slots.tokens),
        n=problem.n,
        batch=few,
        log_total=math.log(total),
    )
    d = seen.d
    watch.run(found, kept, lambda: risk_of(now := with_readout(seen, x[d:]), settle_at(now, x[:d], slots)))
    kept = kept[: len(found.points)]
    points, heads = scale.back(found.points[:, : seen.d]), by_head.back(found.points[:, seen.d :])
    name = step_p.name if step_p.name == step_v.name else f"{step_p.name} of p, {step_v.name} of v"
    return Run(
        problem,
        "step",
        kept,
        points,
        found.event,
        heads,
        f"joint {name}",
        optimizer=(step_p, step_v),
        batch=batch,
    )


def _plain_force(problem: Problem, batch: int, total: float) -> PlainForce:
    """`forces.pair` for losses and rules that only Python can call."""
    d, slots = problem.d, slots_of(problem)

    def force(_: Any, x: np.ndarray, work: Workspace) -> int:
        now = with_readout(problem, x[d:])
        settled = of_batch(settle_at(now, x[:d], slots), int(work.clock[STEP]), batch)
        pulls = pull_of(settled, slots.table, total), readout_pull(now, settled, total)
        for b, (part, pull) in enumerate(zip((slice(0, d), slice(d, None)), pulls, strict=True)):
            work.vectors[V, part], work.vectors[EXPONENTS, part] = pull.direction, pull.log_norm
            work.lengths[b] = 0.0 if pull.is_stationary else 1.0
        if work.lengths.any():
            return MOVES
        return NO_COMPETITOR if np.isneginf(settled.log_scale).all() else STATIONARY

    return force
