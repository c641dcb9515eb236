"""Many small problems in one call: those of one layout go side by side through the lanes of one loop.

Lanes do not see each other, so a run is the same to the bit whatever the other problems are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Differences, Scale, choose, differences, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.layout import Slots, slots_of
from hardmax.train.loops import CANCELLED, UNIT_ALONG
from hardmax.train.rules.running import can_compile, compiled_layout
from hardmax.train.run import Run
from hardmax.train.schedule import EVENTS, Rule, steps_to_record
from hardmax.train.steps import GD, Normalized, Step

LARGEST = 128  # rows of a Gram matrix: of larger ones four do not fit in a processor's second cache


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
    step: Step,
    steps: int,
    *,
    start: Any,
    record: int | Sequence[int] | None,
    coordinates: Coordinates,
) -> dict[int, Run]:
    """The runs that lanes can take, by the problem's place: of small problems by GD or Normalized in l2."""
    if not isinstance(step, GD | Normalized) or step.norm != "l2" or isinstance(step.rate, str):
        return {}
    kept = steps_to_record(record, steps)
    groups: dict[Any, Group] = {}
    rules: dict[int, Rule] = {}
    for place, problem in enumerate(problems):
        problem.need_decreasing_loss()
        scale = scaled(problem)
        slope, in_log = scale.problem.kernel_slope
        if scale.exponent not in rules:
            rules[scale.exponent] = Rule.of(step, steps, scale)
        rule = rules[scale.exponent]
        if in_log or type(scale.problem.table) is not Dense or not can_compile(scale.problem, rule):
            continue
        slots = slots_of(scale.problem)
        key = scale.exponent, slope, problem.d, slots.tokens.tobytes(), slots.offsets.tobytes()
        if key not in groups:
            groups[key] = Group(differences(slots), rule, [])
        m = len(groups[key].spans.plus)
        if m > LARGEST or choose(coordinates, m, len(slots.tokens), problem.d, steps) != "gram":
            continue
        p = scale.point(problem.vector("start", start), "start")
        groups[key].lanes.append(Lane(place, problem, scale, slots, p))
    return {place: run for group in groups.values() for place, run in _runs(group, kept).items()}


def _runs(group: Group, record: np.ndarray) -> dict[int, Run]:
    """Of one group, as many at a time as there are lanes."""
    from hardmax.train.lanes.vectors import LANES

    runs: dict[int, Run] = {}
    for first in range(0, len(group.lanes), LANES):
        few = group.lanes[first : first + LANES]
        points, status = _descend(group, [*few, *few[-1:] * (LANES - len(few))], record)
        for lane, its_points, its_status in zip(few, points, status.tolist(), strict=False):
            if its_status != CANCELLED:  # then inner products do not do: `vector.train_p` has more ways
                runs[lane.place] = Run(
                    lane.problem, "step", record, lane.scale.back(its_points), EVENTS[its_status],
                    method=group.rule.step.name, step=group.rule.step,
                )  # fmt: skip
    return runs


def _descend(group: Group, lanes: list[Lane], record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (lanes, S, d) and how each lane ended."""
    from hardmax.train.lanes.gram import BLOCK, descend_lanes

    spans, rule, count = group.spans, group.rule, len(lanes)
    tables, starts = np.stack([each.slots.keys for each in lanes]), np.stack([each.start for each in lanes])
    rows = tables[:, spans.plus] - tables[:, spans.minus]
    m = rows.shape[1]
    gram = np.zeros((-(-m // BLOCK) * BLOCK, m, count))
    gram[:m] = (rows @ rows.transpose(0, 2, 1)).transpose(1, 2, 0)
    logits = np.ascontiguousarray((rows @ starts[:, :, None])[:, :, 0].T)
    layouts = zip(*(compiled_layout(each.scale.problem, each.slots) for each in lanes), strict=True)
    offsets, counts, scores, log_weights, log_total = layouts
    c, status = np.empty((len(record), m, count)), np.empty(count, np.intp)
    descend_lanes(
        gram, spans.row, offsets[0], np.stack(counts, -1), np.stack(scores, -1), np.stack(log_weights, -1),
        np.array(log_total), logits, rule.rates, record, c, rule.kind == UNIT_ALONG, rule.constants[0],
        lanes[0].scale.problem.kernel_slope[0], status,
    )  # fmt: skip
    points = np.empty((count, len(record), rows.shape[2]))
    for s in range(len(record)):  # one by one: each the same to the bit whatever the others are
        moved = np.ascontiguousarray(c[s].T)
        points[:, s] = starts + (moved[:, None, :] @ rows)[:, 0]
    return points, status
