"""Many small problems in one call: those of one layout go side by side through the lanes of one loop.

Lanes do not see each other, so a run is the same to the bit whatever the other problems are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib.compiled import entry_point
from hardmax.dynamics.driver import Rule, steps_to_record
from hardmax.dynamics.forces import CANCELLED, fixed
from hardmax.dynamics.lanes.loops import (
    LaneLayout,
    LanePlan,
    LaneTables,
    descend_along,
    descend_by_rule,
    filled_up,
    layout_of_lanes,
    room_for,
)
from hardmax.dynamics.lanes.vectors import LANES
from hardmax.dynamics.loop import BY_RULE, DONE, EVENTS, UNIT_ALONG
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import can_compile
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Differences, Scale, choose, differences, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.problem import Slots, slots_of

LARGEST = 128  # rows of a Gram matrix: of larger ones four do not fit in a processor's second cache
NOT_HERE = "not here"  # lanes cannot do it to the digits that it needs: `models.Vector` has more ways


@dataclass(frozen=True, eq=False)
class Lane:
    """One of the problems."""

    place: int  # in the call
    problem: Problem
    scale: Scale
    slots: Slots
    start: np.ndarray


@dataclass(frozen=True, eq=False)
class Group:
    """Problems that one loop can take: of one layout, one loss and one rule."""

    spans: Differences
    rule: Rule
    lanes: list[Lane]


def train_side_by_side(
    problems: Sequence[Problem],
    step: Optimizer,
    steps: int,
    *,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
) -> dict[int, Run]:
    """Return the runs of small problems by a compiled rule, which lanes can take, by the problem's place."""
    if step.of_matrix or isinstance(step.lr, str):
        return {}
    kept = steps_to_record(record, steps)
    groups: dict[Any, Group] = {}
    rules: dict[Any, Rule] = {}
    for place, problem in enumerate(problems):
        problem.need_decreasing_loss()
        scale = scaled(problem)
        slope, in_log = scale.problem.kernel_slope
        if in_log or type(scale.problem.table) is not Dense:
            continue
        units = scale.exponent, scale.problem.table.exponent, problem.d
        if units not in rules:
            rules[units] = Rule.of(step, steps, scale)
        rule = rules[units]
        if not can_compile(scale.problem, rule):
            continue
        slots = slots_of(scale.problem)
        key = *units, slope, slots.tokens.tobytes(), slots.offsets.tobytes()
        if key not in groups:
            groups[key] = Group(differences(slots), rule, [])
        if _fits(groups[key], slots, problem.d, steps, coordinates):
            p = scale.point(problem.vector("start", start), "start")
            groups[key].lanes.append(Lane(place, problem, scale, slots, p))
    return {place: run for group in groups.values() for place, run in _runs(group, kept).items()}


def _fits(group: Group, slots: Slots, d: int, steps: int, coordinates: Coordinates) -> bool:
    """Whether lanes have a loop for this rule in these coordinates, and four problems fit."""
    if group.rule.kind == BY_RULE:
        return coordinates in ("auto", "primal") and slots.keys.size <= LARGEST**2
    m = len(group.spans.plus)
    return m <= LARGEST and choose(coordinates, m, len(slots.tokens), d, steps) == "gram"


def _runs(group: Group, record: np.ndarray) -> dict[int, Run]:
    """Return the runs of a group, trained as many at a time as there are lanes."""
    descend = _by_rule if group.rule.kind == BY_RULE else _along
    runs: dict[int, Run] = {}
    for first in range(0, len(group.lanes), LANES):
        few = group.lanes[first : first + LANES]
        points, events = descend(group, [*few, *few[-1:] * (LANES - len(few))], len(few), record)
        for lane, its_points, event in zip(few, points, events, strict=False):
            if event != NOT_HERE:
                runs[lane.place] = Run(
                    lane.problem,
                    "step",
                    record,
                    lane.scale.back(its_points),
                    event,
                    method=group.rule.step.name,
                    optimizer=group.rule.step,
                )
    return runs


def _layout(lanes: list[Lane]) -> LaneLayout:
    """Return what the loops take of four problems."""
    made = [(each.scale.problem, each.slots) for each in lanes]
    rows = (
        (slots.counts, slots.merge(problem.scores), problem.log_weights, math.log(problem.total))
        for problem, slots in made
    )
    arrays = (np.stack(each, -1) for each in zip(*rows, strict=True))
    return layout_of_lanes(lanes[0].slots.offsets, arrays, lanes[0].scale.problem.kernel_slope[0])


def _filled_up(table: np.ndarray) -> np.ndarray:
    """Return a table with rows of zeros up to what the loops take."""
    full = np.zeros((filled_up(len(table)), *table.shape[1:]))
    full[: len(table)] = table
    return full


def _by_rule(
    group: Group, lanes: list[Lane], count: int, record: np.ndarray
) -> tuple[np.ndarray, list[str | None]]:
    """Return points (lanes, S, d) and what happened in each lane, by the update of a rule."""
    rule, p, tokens = group.rule, np.stack([each.start for each in lanes]), lanes[0].slots.tokens
    d, layout = p.shape[1], _layout(lanes)
    points, states = np.empty((len(record), *p.shape)), np.stack([rule.begin(each.start) for each in lanes])
    room = room_for(len(tokens), len(layout.offsets) - 1, count)
    keys = _filled_up(np.stack([each.slots.keys for each in lanes], -1))
    clock = np.zeros((2, LANES), np.intp)
    clock[0] = (rule.rates == rule.rates[:1]).all()  # a cycle needs the same rate at every step
    tables = LaneTables(
        fixed(keys),
        fixed(tokens, np.intp),
        np.zeros((len(room.gaps), d, LANES)),
        np.empty((len(keys), LANES)),
        np.empty((3, d, LANES)),
        np.empty((3, d)),
        np.full((LANES, d + states[0].size), np.nan),
        clock,
    )
    plan = LanePlan(
        fixed(rule.rates),
        fixed(record, np.intp),
        fixed(rule.constants),
        float(rule.unit),
        float(rule.limit),
        rule.step.by_coordinate,
    )
    descend = entry_point(descend_by_rule.compiled)
    descend(layout, room, plan, tables, rule.update, p, states, points, count)
    ended = zip(room.status.tolist(), states, strict=True)
    events = [
        NOT_HERE if how == CANCELLED else rule.event(state) if how == DONE else EVENTS[how]
        for how, state in ended
    ]
    return points.transpose(1, 0, 2), events


def _along(
    group: Group, lanes: list[Lane], count: int, record: np.ndarray
) -> tuple[np.ndarray, list[str | None]]:
    """Return points and what happened in each lane, by GD or Normalized in l2."""
    spans, rule, layout = group.spans, group.rule, _layout(lanes)
    tables, starts = np.stack([each.slots.keys for each in lanes]), np.stack([each.start for each in lanes])
    rows = tables[:, spans.plus] - tables[:, spans.minus]
    m = rows.shape[1]
    gram = _filled_up((rows @ rows.transpose(0, 2, 1)).transpose(1, 2, 0))
    logits = np.ascontiguousarray((rows @ starts[:, :, None])[:, :, 0].T)
    c, vectors = np.empty((len(record), m, LANES)), np.empty((5, filled_up(m + 1), LANES))
    room = room_for(len(spans.row), len(layout.offsets) - 1, LANES)
    plan = LanePlan(
        fixed(rule.rates), fixed(record, np.intp), fixed(rule.constants), 1.0, 1.0, rule.kind == UNIT_ALONG
    )
    entry_point(descend_along.compiled)(layout, room, plan, gram, spans.row, logits, vectors, c)
    points = np.empty((LANES, len(record), rows.shape[2]))
    for s in range(len(record)):  # one by one: each the same to the bit whatever the others are
        moved = np.ascontiguousarray(c[s].T)
        points[:, s] = starts + (moved[:, None, :] @ rows)[:, 0]
    return points, [NOT_HERE if how == CANCELLED else EVENTS[how] for how in room.status.tolist()]
