"""Basins of attraction: in which direction a start of training ends, coarse at once, then finer.

A start is run for some steps and then judged: it ends in a direction if p has won every row of that selection
(each selected token is ahead of each rival) and its last tenth of steps won them all again, so that training
drives it further in. Where that is not so it is undecided, and the next finer grid runs it longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.app.playground.plane import NORMS, RULES, SOLVE_SECONDS, rule
from hardmax.app.playground.protocol import number, one_of, problem_of
from hardmax.dynamics.stepping import points_from

FIELDS = tuple(name for name in RULES if name != "gd")  # whose steps vanish where the softmax is saturated
COARSE = 6  # cells along a side at level 0; each level doubles them
FINEST = 4
STEPS = 240
LONGER = 4  # times as many from level 2 on
TRAVEL = 8.0  # spans that 240 steps of a start may go
UNDECIDED = -1

Grid = np.ndarray  # of places in the list of directions, one row for each y


def field(message: Mapping[str, Any]) -> dict[str, Any]:
    """Find the direction that each start of a grid ends in; starts between some that agree are not run.

    ``level`` says how fine the grid is, and ``known`` may hold the grid of the level before.
    """
    problem = problem_of(message)
    name = one_of(message, "rule", "flow", FIELDS)
    norm = one_of(message, "norm", "l2", NORMS)
    span = number(message, "span", 4.0, 1e-6, 1e6)
    level = int(number(message, "level", 1, 0, FINEST))
    directions = list(hm.attractors(problem, norm=norm, seconds=SOLVE_SECONDS))
    # the limit of small steps is the same for flow and for normalized descent: one curve, another clock
    rate = TRAVEL * span / STEPS
    step = rule("normalized", rate) if name == "flow" else rule(name, rate, norm)
    judge = Judge(problem, step, [each.max_margin.constraints.rows() for each in directions])
    known = _known(message, level, len(directions))
    grid, first = (_whole(judge, span), 1) if known is None else (known, level)
    for k in range(first, level + 1):
        judge.steps = STEPS if k < 2 else LONGER * STEPS
        grid = _refined(grid, judge, span, again=k == 2)
    return {
        "cells": len(grid) - 1,
        "level": level,
        "grid": grid,
        "undecided": int((grid == UNDECIDED).sum()),
        "ran": judge.ran,
        "of": grid.size,
        "rate": step.lr,
        "steps": judge.steps,
    }


@dataclass
class Judge:
    """Runs starts and says where they end; it counts them."""

    problem: hm.Problem
    step: Any
    rows: list[np.ndarray]  # of each direction's selection: selected key minus a rival's
    steps: int = STEPS
    ran: int = 0

    def ends(self, starts: np.ndarray) -> np.ndarray:
        """Return the index of each start's direction in the list, or -1."""
        self.ran += len(starts)
        late = self.steps - self.steps // 10
        points = points_from(self.problem, self.step, self.steps, starts, record=[late])
        end, move = points[:, -1], points[:, -1] - points[:, -2]
        found = np.full(len(starts), UNDECIDED)
        for k, rows in enumerate(self.rows):
            won = [(x @ rows.T).min(axis=1, initial=np.inf) > 0.0 for x in (end, move)]
            found[won[0] & won[1]] = k
        return found


def _places(cells: int, span: float) -> np.ndarray:
    """Return the starts of a grid, (cells + 1, cells + 1, 2)."""
    at = span * np.linspace(-1.0, 1.0, cells + 1)
    return np.stack(np.meshgrid(at, at), axis=-1)


def _whole(judge: Judge, span: float) -> Grid:
    """Return the coarsest grid, for which every start is run."""
    return judge.ends(_places(COARSE, span).reshape(-1, 2)).reshape(COARSE + 1, COARSE + 1)


def _refined(grid: Grid, judge: Judge, span: float, *, again: bool) -> Grid:
    """Return the grid with twice as many cells; undecided starts are run ``again`` or copied like others."""
    n = len(grid) - 1

    def around(k: int) -> slice:
        # an old line is itself; a new one lies between two, and theirs count too: a border may pass close by
        return slice(max(0, k // 2 - k % 2), min(n, k // 2 + 2 * (k % 2)) + 1)

    fine, open_places = np.empty((2 * n + 1, 2 * n + 1), dtype=np.int64), []
    for j in range(2 * n + 1):
        for i in range(2 * n + 1):
            near = grid[around(j), around(i)]
            fine[j, i] = near[0, 0]
            if (near != near[0, 0]).any() or (again and near[0, 0] == UNDECIDED):
                open_places.append((j, i))
    if open_places:
        at = tuple(np.transpose(open_places))
        fine[at] = judge.ends(_places(2 * n, span)[at])
    return fine


def _known(message: Mapping[str, Any], level: int, kinds: int) -> Grid | None:
    """Return the grid of the previous level, if the message contains a valid one."""
    known = message.get("known")
    n = COARSE * 2 ** (level - 1)
    if known is None or level == 0:
        return None
    fits = isinstance(known, list) and len(known) == n + 1
    fits = fits and all(isinstance(row, list) and len(row) == n + 1 for row in known)
    if not fits or any(type(x) is not int or not UNDECIDED <= x < kinds for row in known for x in row):
        raise ValueError(f"known must be the {n + 1} x {n + 1} grid of level {level - 1}; leave it out")
    return np.array(known)
