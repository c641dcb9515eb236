"""A rule on a problem, step by step: by the compiled loop, or by a plain one that can do everything."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax.dynamics.gradient import Settled, pull_of, settle_at
from hardmax.dynamics.loops import BY_RULE, DONE, NO_COMPETITOR, STATIONARY
from hardmax.dynamics.optim.steepest import norm_step
from hardmax.dynamics.rules.by_coordinate import pull_by_coordinate
from hardmax.dynamics.rules.loop import CYCLE, EXHAUSTED, RUNAWAY, descend_by_rule
from hardmax.dynamics.schedule import EVENTS, Rule
from hardmax.dynamics.updates import steepest_step
from hardmax.margin.norms import norm
from hardmax.problem import Problem
from hardmax.problem.keys import Dense, Products
from hardmax.problem.problem import Slots, slots_of


def runs_compiled(problem: Problem, rule: Rule) -> bool:
    """Whether a loop never goes back to Python: keys in a table, fixed scores, a compiled loss and rule."""
    table = problem.table
    written = isinstance(table, Products) and not table.is_large
    return (isinstance(table, Dense) or written) and can_compile(problem, rule)


def can_compile(problem: Problem, rule: Rule) -> bool:
    """The same, whatever the keys are."""
    return not problem.readout.moves and problem.loss.is_compiled and rule.is_compiled


def compiled_layout(problem: Problem, slots: Slots) -> tuple[Any, ...]:
    """What every compiled loop takes of a problem: offsets, counts, scores, weights of inputs, total."""
    scores = slots.merge(problem.scores)
    return slots.offsets, slots.counts, scores, problem.log_weights, math.log(problem.total)


def descend_compiled(
    problem: Problem,
    p: np.ndarray,
    rule: Rule,
    record: np.ndarray,
    *,
    batch: int = 0,
    basis: np.ndarray | None = None,
    totals: np.ndarray | None = None,
) -> tuple[np.ndarray, str | None]:
    """Points and event of a rule with a compiled update; in coordinates of a ``basis`` if one is given.

    ``batch`` is the number of inputs of a step, 0 for all of them. ``totals`` receives the multipliers of the
    slots if it is given.
    """
    slots = slots_of(problem)
    keys = slots.keys if basis is None else np.ascontiguousarray(slots.keys @ basis)
    *layout, log_total = compiled_layout(problem, slots)
    if batch and problem.weights is None:
        log_total = math.log(batch)
    state, points = rule.begin(p), np.empty((len(record), len(p)))
    status, _ = descend_by_rule(
        keys,
        slots.tokens,
        *layout,
        log_total,
        p,
        record,
        points,
        *problem.kernel_slope,
        rule.rates,
        rule.constants,
        rule.update,
        state,
        rule.unit,
        rule.limit,
        batch or problem.n,
        *((2.0, False, np.empty(0)) if totals is None else (*_dual(rule), totals)),
        rule.step.by_coordinate,
        totals is not None,
    )
    return points, event_of(status, rule, state)


def descend_plain(
    problem: Problem,
    p: np.ndarray,
    rule: Rule,
    record: np.ndarray,
    *,
    batch: int = 0,
    totals: np.ndarray | None = None,
) -> tuple[np.ndarray, str | None]:
    """The same for heads, losses and rules that only Python can call."""
    points, slots, state = np.empty((len(record), problem.d)), slots_of(problem), rule.begin(p)
    total = float(batch) if batch and problem.weights is None else problem.total
    seen = _Cycle(rule, problem.n, batch or problem.n)
    by_coordinate = rule.kind == BY_RULE and rule.step.by_coordinate
    still, empty = 0, True
    for k in range(len(rule.rates) + 1):
        points[record >= k] = p
        if k == len(rule.rates):
            break
        seen.look(p, state, k)
        settled = _of_batch(settle_at(problem, p, slots), k, batch)
        rounding = False
        if by_coordinate:
            V, exponents, rounding = pull_by_coordinate(settled, slots.table, total)
        else:
            pull = pull_of(settled, slots.table, total)
            V, exponents = pull.direction, np.full(len(p), pull.log_norm)
        if not V.any():
            still, empty = still + (batch or problem.n), empty and bool(np.isneginf(settled.log_scale).all())
            if still < problem.n:
                continue
            status = NO_COMPETITOR if empty else STATIONARY
            return points, EVENTS[EXHAUSTED if rounding else status]
        still, empty = 0, True
        if totals is not None:
            totals += rule.rates[k] * _shares(settled, V, exponents, rule)
        if rule.kind != BY_RULE:
            p = rule.moved(p, pull, state, k)
            continue
        new = p + rule.move(V, exponents, state, k)
        if not (np.abs(new) <= rule.limit).all():
            return points, EVENTS[RUNAWAY]
        p = new
    return points, event_of(CYCLE if seen.found else DONE, rule, state)


def _of_batch(settled: Settled, k: int, batch: int) -> Settled:
    """The inputs of step k alone: those of the others do not pull."""
    if not batch:
        return settled
    n = len(settled.tops)
    inside = (np.arange(n) - k * batch) % n < batch
    return replace(settled, log_slopes=np.where(inside, settled.log_slopes, -np.inf))


def _shares(settled: Settled, V: np.ndarray, exponents: np.ndarray, rule: Rule) -> np.ndarray:
    """Weights of the slots, over the dual norm of their sum where the rule is normalised (D-THM-3)."""
    power, normalized = _dual(rule)
    size = 0.0
    if normalized:
        in_power = norm(rule.step.norm).power is not None or rule.step.of_matrix
        size = (
            steepest_step(V, exponents, power, np.empty(len(V)))
            if in_power
            else norm_step(rule.step.norm, V, exponents)[1]
        )
    shares: np.ndarray = settled.per_slot(np.exp(settled.log_scale - size)) * settled.weights
    return shares


def _dual(rule: Rule) -> tuple[float, bool]:
    """In which power multipliers are normalised, if they are; those of matrices, which have no law, in l2."""
    return norm(rule.step.norm).power or 2.0, rule.step.normalized


def event_of(status: int, rule: Rule, state: np.ndarray) -> str | None:
    """What a loop that ended with this status and state says of the run."""
    return rule.step.event(state) if status == DONE and rule.kind == BY_RULE else EVENTS[status]


class _Cycle:
    """Whether a point comes back with its state, to the bit (Brent), at one rate; see `descend_by_rule`."""

    def __init__(self, rule: Rule, n: int, batch: int) -> None:
        self.looking = rule.kind == BY_RULE and bool((rule.rates == rule.rates[:1]).all())
        self.n, self.batch, self.marked, self.found = n, batch, 0, False
        self.mark: tuple[np.ndarray, np.ndarray] | None = None

    def look(self, p: np.ndarray, state: np.ndarray, k: int) -> None:
        """At the point before step k."""
        if not self.looking:
            return
        mark, whole = self.mark, (k - self.marked) * self.batch % self.n == 0
        if mark is not None and whole and (p == mark[0]).all() and (state == mark[1]).all():
            self.looking, self.found = False, k > self.marked + 1
        elif k >= 2 * self.marked:
            self.mark, self.marked = (p.copy(), state.copy()), k
