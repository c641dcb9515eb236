"""p of a problem step by step, by the force and in the coordinates that cost least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.driver import NOTHING, PlainForce, Rule, RunWatch, Trainer, steps_to_record
from hardmax.dynamics.edges import EdgeSteps
from hardmax.dynamics.forces import (
    CANCELLED,
    EXHAUSTED,
    EXPONENTS,
    MOVES,
    NO_COMPETITOR,
    ROUNDING,
    STATIONARY,
    STEP,
    WEIGHTS,
    V,
    Workspace,
    by_coordinate,
    by_inner_products,
    dense,
    layout_of,
    log_weights,
    total_of,
)
from hardmax.dynamics.gradient import Settled, pull_of, risk_of, settle_at
from hardmax.dynamics.loop import BY_RULE, UNIT_ALONG
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.softmax import DEEP, LEAN, LOG_SCALE
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, choose, differences, orthonormal_basis, scaled
from hardmax.problem.keys import Dense, Keys, Products
from hardmax.problem.problem import Slots, slots_of

# From a scaled problem, p(0), the rule, the steps to keep, the coordinates asked for and the number of inputs
# of a step (0 for all of them): points and event.
Loop = Callable[
    [Problem, np.ndarray, Rule, np.ndarray, Coordinates, int, RunWatch], tuple[np.ndarray, str | None]
]


def fast_path(problem: Problem, rule: Rule, watch: RunWatch = NOTHING) -> Loop:
    """The loop for this structure of problem and rule; the plain one can do everything."""
    along = rule.kind == UNIT_ALONG and not rule.constants.any()
    if problem.readout.cross_entropy is not None and along and watch == NOTHING:
        steps = EdgeSteps(problem)
        if steps.edges is not None:
            return steps.loop
    has_gram = isinstance(problem.table, Dense | Products)
    return _along if rule.kind != BY_RULE and has_gram and can_compile(problem, rule) else by_rule


def points_from(
    problem: Problem, step: Optimizer, steps: int, starts: Any, record: Sequence[int] = (), batch: Any = None
) -> np.ndarray:
    """(starts, points kept, d): what `train` gives from each start, the problem prepared once for all.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.dynamics.stepping import points_from
    >>> points_from(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), 100, np.eye(2)).shape
    (2, 2, 2)
    """
    scale, kept = scaled(problem), steps_to_record(record, steps)
    few = need_batch(problem, batch)
    rule = Rule.of(step, steps, scale, by_update=few > 0)
    loop = fast_path(scale.problem, rule)
    begun = [np.array(scale.point(problem.vector("start", start), "start")) for start in starts]
    return scale.back(np.stack([loop(scale.problem, p, rule, kept, "auto", few, NOTHING)[0] for p in begun]))


def _along(
    problem: Problem,
    p: np.ndarray,
    rule: Rule,
    record: np.ndarray,
    wanted: Coordinates,
    batch: int,
    watch: RunWatch = NOTHING,
) -> tuple[np.ndarray, str | None]:
    """GD and Normalized in l2, in the coordinates that cost least."""
    slots = slots_of(problem)
    spans = differences(slots)
    m, M = len(spans.plus), len(slots.tokens)

    def loss(point: np.ndarray) -> float:
        return risk_of(problem, settle_at(problem, point, slots))

    chosen = choose(wanted, m, M, problem.d, len(rule.rates))
    if chosen == "gram" and watch.checkpoint is None:  # it may have to begin again in other coordinates
        logits, normalized = spans.along(slots.table, p), rule.kind == UNIT_ALONG
        gram = spans.gram(slots.table)
        layout = layout_of(
            problem,
            slots,
            keys=gram,
            values=gram.diagonal()[None],
            tokens=spans.row,
            labels=logits,
            normalized=normalized,
        )
        x = np.concatenate([np.zeros(m), logits, [0.0]])
        found = Trainer(by_inner_products, layout, x, [rule], record, width=m, slots=M, n=problem.n)
        watch.run(found, lambda: loss(p + spans.combine(slots.table, x[None, :m])[0]), problem)
        if found.status != CANCELLED:
            return p + spans.combine(slots.table, found.points), found.event
    if chosen == "gram":
        chosen = "qr"  # near a stationary point inner products lose the direction; coordinates do not
    return by_rule(problem, p, rule, record, chosen, 0, watch)


def by_rule(
    problem: Problem,
    p: np.ndarray,
    rule: Rule,
    record: np.ndarray,
    wanted: Coordinates,
    batch: int,
    watch: RunWatch = NOTHING,
    totals: np.ndarray | None = None,
) -> tuple[np.ndarray, str | None]:
    """Any rule on any problem, in the coordinates of p or of an orthonormal basis of the keys' span.

    ``totals`` receives the multipliers of the slots if it is given.
    """
    slots = slots_of(problem)
    total = total_of(problem, batch)
    options: dict[str, Any] = {"slots": len(slots.tokens), "n": problem.n, "batch": batch, "totals": totals}
    options["log_total"] = math.log(total)

    def loss(point: np.ndarray) -> float:
        return risk_of(problem, settle_at(problem, point, slots))

    if not runs_compiled(problem, rule):
        plain = plain_force(problem, slots, rule, batch, total)
        found = Trainer(plain, slots, p, [rule], record, **options)
        watch.run(found, lambda: loss(p), problem)
        return found.points, found.event
    force = by_coordinate if rule.kind == BY_RULE and rule.step.by_coordinate else dense
    if wanted not in ("gram", "qr"):
        found = Trainer(force, layout_of(problem, slots, batch=batch), p, [rule], record, **options)
        watch.run(found, lambda: loss(p), problem)
        return found.points, found.event
    basis = orthonormal_basis(slots)  # moves are not multiples of V: a Gram matrix is useless
    q = basis.T @ p
    x, layout = q.copy(), layout_of(problem, slots, keys=slots.keys @ basis, batch=batch)
    found = Trainer(force, layout, x, [rule], record, **options)
    watch.run(found, lambda: loss(p + basis @ (x - q)), problem)
    return np.stack([p + basis @ (point - q) for point in found.points]), found.event


def runs_compiled(problem: Problem, rule: Rule) -> bool:
    """Whether the loop never goes back to Python: keys in a table, fixed scores, a compiled loss and rule."""
    table = problem.table
    written = isinstance(table, Products) and not table.is_large
    return (isinstance(table, Dense) or written) and can_compile(problem, rule)


def can_compile(problem: Problem, rule: Rule) -> bool:
    """The same, whatever the keys are."""
    return not problem.readout.moves and problem.loss.is_compiled and rule.is_compiled


def plain_force(problem: Problem, slots: Slots, rule: Rule, batch: int, total: float) -> PlainForce:
    """The force on p for heads, losses and keys that only Python can call."""
    one_by_one = rule.kind == BY_RULE and rule.step.by_coordinate

    def force(_: Any, p: np.ndarray, work: Workspace) -> int:
        settled = of_batch(settle_at(problem, p, slots), work, batch)
        work.slots[WEIGHTS], work.inputs[LOG_SCALE], rounding = settled.weights, settled.log_scale, False
        if one_by_one:
            work.vectors[V], work.vectors[EXPONENTS], rounding = pull_by_coordinate(
                settled, slots.table, total
            )
        else:
            pull = pull_of(settled, slots.table, total)
            work.vectors[V], work.vectors[EXPONENTS] = pull.direction, pull.log_norm
        work.lengths[0] = 1.0
        if work.vectors[V].any():
            return MOVES
        if rounding:
            return EXHAUSTED
        return NO_COMPETITOR if np.isneginf(settled.log_scale).all() else STATIONARY

    return force


def need_batch(problem: Problem, batch: Any) -> int:
    """Return the number of inputs of a step, 0 for all of them; refuse more than there are."""
    if batch is not None and expect.whole("batch", batch, 1) > problem.n:
        raise ValueError(f"batch must be at most {problem.n}, the number of inputs, got {batch}")
    return 0 if batch is None or batch == problem.n else int(batch)


def of_batch(settled: Settled, work: Workspace, batch: int) -> Settled:
    """Return the inputs of the present step alone: those of the others do not pull."""
    if not batch:
        return settled
    n = len(settled.tops)
    inside = (np.arange(n) - int(work.clock[STEP]) * batch) % n < batch
    return replace(settled, log_slopes=np.where(inside, settled.log_slopes, -np.inf))


def pull_by_coordinate(settled: Settled, table: Keys, total: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """`forces.by_coordinate` for any keys: V, its exponents, and whether V is zero by cancellation alone."""
    slots, M = settled.slots, len(settled.gaps)
    logs, signs, inputs = np.empty(M), np.empty(M), np.empty((DEEP + 1, len(settled.tops)))
    inputs[DEEP], inputs[LEAN], inputs[LOG_SCALE] = settled.depth, settled.lean, settled.log_scale
    log_weights(settled.gaps, settled.tops, settled.scores, slots.counts, slots.offsets, inputs, logs, signs)
    pulling = np.flatnonzero(logs > -np.inf)
    rows = table.differences(slots.tokens[pulling], slots.tokens[settled.per_slot(settled.tops)[pulling]])
    direction, exponents, rounding = sum_by_coordinate(logs[pulling], signs[pulling], rows)
    return direction, exponents - math.log(total), rounding


def sum_by_coordinate(
    logs: np.ndarray, signs: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The sum of signs exp(logs) rows as V exp(exponents), and whether V is zero by cancellation alone."""
    if not (logs > -np.inf).any():
        return np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), False
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = logs[:, None] + np.log(np.abs(rows))
        exponents = terms.max(axis=0)
        sizes = np.where(np.isfinite(terms), np.exp(terms - exponents), 0.0)
    direction = np.sum(np.sign(rows) * signs[:, None] * sizes, axis=0)
    cancelled = np.abs(direction) <= ROUNDING * sizes.sum(axis=0)
    rounding = bool(cancelled.all() and direction.any())
    return np.where(cancelled, 0.0, direction), exponents, rounding
