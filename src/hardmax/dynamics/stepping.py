"""p of a problem step by step, by the force and in the coordinates that cost least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax.dynamics import driver, forces
from hardmax.dynamics.driver import Rule, StepTask, Trainer
from hardmax.dynamics.edges import EdgeSteps
from hardmax.dynamics.forces import Workspace, layout_of, log_weights, set_pull, total_of
from hardmax.dynamics.gradient import Settled, pull_of, risk_at, settle_at
from hardmax.dynamics.loop import BY_RULE, UNIT_ALONG
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.softmax import DEEP, LEAN, LOG_SCALE
from hardmax.problem import Problem
from hardmax.problem.coordinates import choose, differences, orthonormal_basis, scaled
from hardmax.problem.keys import Dense, Keys, Products
from hardmax.problem.problem import Slots, slots_of


def take(task: StepTask) -> tuple[np.ndarray, str | None]:
    """Take the steps by the fastest loop for this problem and rule; return recorded points and event."""
    problem, rule = task.problem, task.rule
    is_normalized = rule.kind == UNIT_ALONG and not rule.constants.any()
    if problem.readout.cross_entropy is not None and is_normalized and task.watch == driver.NOTHING:
        steps = EdgeSteps(problem)
        if steps.edges is not None:
            result = steps.take(task.p, rule, task.record)
            return result.points, result.event
    has_gram = isinstance(problem.table, Dense | Products)
    if rule.kind != BY_RULE and has_gram and can_compile(problem, rule):
        return _along(task)
    return by_rule(task)


def points_from(
    problem: Problem, step: Optimizer, steps: int, starts: Any, record: Sequence[int] = (), batch: Any = None
) -> np.ndarray:
    """Return what `train` gives from each start, (starts, points kept, d); the problem is prepared once.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.dynamics.stepping import points_from
    >>> points_from(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), 100, np.eye(2)).shape
    (2, 2, 2)
    """
    scale, few = scaled(problem), driver.need_batch(problem.n, batch)
    rule = Rule.of(step, steps, scale, by_update=few > 0)
    points = [np.array(scale.point(problem.vector("start", start), "start")) for start in starts]
    task = StepTask(scale.problem, rule, driver.steps_to_record(record, steps), batch=few)
    return scale.back(np.stack([take(task._replace(p=p))[0] for p in points]))


def _along(task: StepTask) -> tuple[np.ndarray, str | None]:
    """GD and Normalized in l2, in the coordinates that cost least."""
    problem, rule, p = task.problem, task.rule, task.p
    slots = slots_of(problem)
    spans = differences(slots)
    m, M = len(spans.plus), len(slots.tokens)
    chosen = choose(task.coordinates, m, M, problem.d, len(rule.rates))
    if chosen == "gram" and task.watch.checkpoint is None:  # it may have to begin again in others
        table, plus, minus = slots.table, spans.plus, spans.minus
        gram, logits = table.gram(plus, minus), table.along(plus, minus, p)
        layout = layout_of(
            problem,
            slots,
            keys=gram,
            values=gram.diagonal()[None],
            tokens=spans.row,
            labels=logits,
            normalized=rule.kind == UNIT_ALONG,
        )
        x = np.concatenate([np.zeros(m), logits, [0.0]])
        trainer = Trainer(
            forces.by_inner_products, layout, x, [rule], task.record, width=m, slots=M, n=problem.n
        )

        def loss() -> float:
            return risk_at(problem, p + table.combine(plus, minus, x[None, :m])[0], slots)

        task.watch.run(trainer, loss, problem)
        if trainer.status != forces.CANCELLED:
            return p + table.combine(plus, minus, trainer.points), trainer.event
    if chosen == "gram":
        chosen = "qr"  # near a stationary point inner products lose the direction; coordinates do not
    return by_rule(task._replace(coordinates=chosen))


def by_rule(task: StepTask) -> tuple[np.ndarray, str | None]:
    """Any rule on any problem, in the coordinates of p or of an orthonormal basis of the keys' span."""
    problem, rule, p, batch = task.problem, task.rule, task.p, task.batch
    slots, total, basis = slots_of(problem), total_of(problem, batch), None
    force: Any
    layout: Any
    is_table = isinstance(problem.table, Dense) or (
        isinstance(problem.table, Products) and not problem.table.is_large
    )
    if is_table and can_compile(problem, rule):
        if task.coordinates in ("gram", "qr"):  # moves are not multiples of V: a Gram matrix is useless
            basis = orthonormal_basis(slots)
        force = forces.by_coordinate if rule.kind == BY_RULE and rule.step.by_coordinate else forces.dense
        keys = None if basis is None else slots.keys @ basis
        layout = layout_of(problem, slots, keys=keys, batch=batch)
    else:
        force, layout = plain_force(problem, slots, rule, batch, total), slots
    start = p if basis is None else basis.T @ p
    x = p if basis is None else start.copy()
    trainer = Trainer(
        force,
        layout,
        x,
        [rule],
        task.record,
        slots=len(slots.tokens),
        n=problem.n,
        batch=batch,
        log_total=math.log(total),
        totals=task.totals,
    )

    def whole(y: np.ndarray) -> np.ndarray:
        return y if basis is None else p + basis @ (y - start)

    task.watch.run(trainer, lambda: risk_at(problem, whole(x), slots), problem)
    return trainer.points if basis is None else np.stack([*map(whole, trainer.points)]), trainer.event


def can_compile(problem: Problem, rule: Rule) -> bool:
    """Return whether readout, loss and rule can run compiled, whatever the keys are."""
    return not problem.readout.moves and problem.loss.is_compiled and rule.is_compiled


def plain_force(problem: Problem, slots: Slots, rule: Rule, batch: int, total: float) -> driver.PlainForce:
    """Return the force on p for readouts, losses and keys that only Python can call."""
    one_by_one = rule.kind == BY_RULE and rule.step.by_coordinate

    def force(_: Any, p: np.ndarray, work: Workspace) -> int:
        settled, rounding = of_batch(settle_at(problem, p, slots), work, batch), False
        work.slots[forces.WEIGHTS], work.inputs[LOG_SCALE] = settled.weights, settled.log_scale
        if one_by_one:
            direction, exponents, rounding = pull_by_coordinate(settled, slots.table, total)
            set_pull(work, 0, direction, exponents, 1.0)
        else:
            pull = pull_of(settled, slots.table, total)
            set_pull(work, 0, pull.direction, pull.log_norm, 1.0)
        if work.vectors[forces.V].any():
            return forces.MOVES
        return forces.EXHAUSTED if rounding else still(settled)

    return force


def still(settled: Settled) -> int:
    """Return why nothing pulls at a settled point."""
    return forces.NO_COMPETITOR if np.isneginf(settled.log_scale).all() else forces.STATIONARY


def of_batch(settled: Settled, work: Workspace, batch: int) -> Settled:
    """Return the inputs of the present step alone: those of the others do not pull."""
    if not batch:
        return settled
    n = len(settled.tops)
    inside = (np.arange(n) - int(work.clock[forces.STEP]) * batch) % n < batch
    return replace(settled, log_slopes=np.where(inside, settled.log_slopes, -np.inf))


def pull_by_coordinate(settled: Settled, table: Keys, total: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """`forces.by_coordinate` for any keys: V, its exponents, and whether V is zero by cancellation alone.

    Products are summed with one exponent first, without being written out, as the compiled force does; only
    coordinates that are small in this sum are taken by logs.
    """
    direction, sizes, exponents = np.zeros((3, table.shape[1]))
    small = np.arange(table.shape[1])
    if isinstance(table, Products):
        direction, sizes, exponents[:] = _sum_products(settled, table)
        has_queries = np.tile(table.right.any(axis=0), table.unknown[0])
        small = np.flatnonzero((sizes < forces.SMALL) & has_queries)
    if small.size:
        logs, signs, rows = _log_terms(settled, table, small)
        direction[small], exponents[small], sizes[small] = _sum_logs(logs, signs, rows)
    direction, rounding = _drop_rounding(direction, sizes)
    return direction, exponents - math.log(total), rounding


def sum_by_coordinate(
    logs: np.ndarray, signs: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the sum of signs exp(logs) rows as V exp(exponents), and whether V is zero by cancellation."""
    direction, exponents, sizes = _sum_logs(logs, signs, rows)
    direction, rounding = _drop_rounding(direction, sizes)
    return direction, exponents, rounding


def _sum_products(settled: Settled, table: Products) -> tuple[np.ndarray, np.ndarray, float]:
    """Return minus the gradient over an exponential, the sums of its terms' sizes, and the exponent."""
    slots, common = settled.slots, float(settled.log_scale.max())
    if common == -math.inf:
        return np.zeros(table.shape[1]), np.zeros(table.shape[1]), 0.0
    tokens = table.left[table.token[slots.tokens]]
    tokens = tokens - settled.per_slot(tokens[settled.tops])
    queries = table.right[table.query[slots.tokens[slots.offsets[:-1]]]]
    pulls = (settled.per_slot(np.exp(settled.log_scale - common)) * settled.weights)[:, None] * tokens
    direction = settled.per_input(pulls).T @ queries
    sizes = settled.per_input(np.abs(pulls)).T @ np.abs(queries)
    return direction.ravel(), sizes.ravel(), common


def _log_terms(
    settled: Settled, table: Keys, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logs and signs of the weights of all slots that pull, and these columns of their keys."""
    slots, M = settled.slots, len(settled.gaps)
    logs, signs, inputs = np.empty(M), np.empty(M), np.empty((DEEP + 1, len(settled.tops)))
    inputs[DEEP], inputs[LEAN], inputs[LOG_SCALE] = settled.depth, settled.lean, settled.log_scale
    log_weights(settled.gaps, settled.tops, settled.scores, slots.counts, slots.offsets, inputs, logs, signs)
    pulling = np.flatnonzero(logs > -np.inf)
    plus, minus = slots.tokens[pulling], slots.tokens[settled.per_slot(settled.tops)[pulling]]
    if isinstance(table, Products):
        a, b = np.divmod(columns, table.unknown[1])
        tokens = table.left[table.token[plus]] - table.left[table.token[minus]]
        rows = tokens[:, a] * table.right[table.query[plus]][:, b]
    else:
        rows = table.differences(plus, minus)  # all columns are needed
    return logs[pulling], signs[pulling], rows


def _sum_logs(
    logs: np.ndarray, signs: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sum of signs exp(logs) rows as V exp(exponents), and the sums of its terms' sizes."""
    if not (logs > -np.inf).any():
        return np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = logs[:, None] + np.log(np.abs(rows))
        exponents = terms.max(axis=0)
        sizes = np.where(np.isfinite(terms), np.exp(terms - exponents), 0.0)
    return np.sum(np.sign(rows) * signs[:, None] * sizes, axis=0), exponents, sizes.sum(axis=0)


def _drop_rounding(direction: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return V with zeros where its terms cancel to rounding, and whether that is all of it."""
    cancelled = np.abs(direction) <= forces.ROUNDING * sizes
    return np.where(cancelled, 0.0, direction), bool(cancelled.all() and direction.any())
