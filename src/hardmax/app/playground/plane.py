"""The plane (paper B): the results of `hm.solve`, `hm.flow` and `hm.train` for tokens that a reader drags."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import hardmax as hm
from hardmax.app.playground import protocol
from hardmax.app.playground.protocol import number, one_of, problem_of, vector
from hardmax.app.results.solve import selection_fields
from hardmax.dynamics.stepping import points_from

if TYPE_CHECKING:
    from hardmax.dynamics.optim import Optimizer
    from hardmax.dynamics.run import Run

NORMS = ("l2", "l1", "l1.5", "l3", "linf")
LOG_TIME = 1e6  # at which flow ends: t = e^(1,000,000)
STEPS = 10_000
EVERY = 160  # first steps that are all recorded, for the eye
FRAMES = 64  # moments with attention and loss
SOLVE_SECONDS = 5.0
STARTS = 8
_NAMES = ("GD", "Normalized", "Sign", "Adam", "Momentum", "Signum", "RMSprop", "Coordinate", "Mirror")
RULES = ("flow", *map(str.lower, _NAMES))


def rule(name: str, rate: float, norm: str = "l2") -> Optimizer:
    """Return the optimizer by its name in the page; the norm is that of normalized descent."""
    extra: dict[str, dict[str, Any]] = {"normalized": {"norm": norm}, "mirror": {"power": 3.0}}
    optimizer: Optimizer = getattr(hm.optim, _NAMES[RULES.index(name) - 1])(rate, **extra.get(name, {}))
    return optimizer


def _attractors(problem: hm.Problem, norm: str) -> Any:
    return hm.attractors(problem, norm=norm, seconds=SOLVE_SECONDS)


def solve(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return every direction that attracts, as `hm.solve` reports it, with p_mm and bands to draw.

    It answers a drag, so what the page does not show (best tokens that no p selects) is not looked for.
    """
    problem = problem_of(message)
    norm = one_of(message, "norm", "l2", NORMS)
    search = _attractors(problem, norm)
    selections = [
        {
            **selection_fields(direction),
            "p": direction.max_margin.p,
            "bands": _bands(problem, direction),
            "certified": bool(direction.max_margin.is_certified),
            "margin": direction.max_margin.margin,
        }
        for direction in search
    ]
    return {"status": search.status, "norm_name": norm, "selections": selections}


def _bands(problem: hm.Problem, direction: Any) -> list[list[float]] | None:
    """Return per input, along the unit direction, the place of the selected token and its rivals' limit."""
    p = direction.max_margin.p
    length = 0.0 if p is None else float(np.linalg.norm(p))
    if not 0.0 < length < math.inf:
        return None
    along = problem.split(problem.keys[problem.tokens] @ (p / length))
    tops = [float(places[t]) for places, t in zip(along, direction.selection, strict=True)]
    return [[top, top - 1.0 / length] for top in tops]


# -- training -------------------------------------------------------------------------------------------


def train(message: Mapping[str, Any]) -> dict[str, Any]:
    """Train from some starts by some rules; return paths to draw, and frames with attention and loss."""
    problem = problem_of(message)
    rate = number(message, "rate", 0.1, 1e-4, 100.0)
    norm = one_of(message, "norm", "l2", NORMS)
    span = number(message, "span", 4.0, 1e-6, 1e6)
    starts = [vector(x, "each start") for x in protocol.listed(message.get("starts"), "starts", STARTS)]
    names = protocol.listed(message.get("rules"), "rules", len(RULES))
    directions = list(_attractors(problem, norm))
    runs = []
    for k, start in enumerate(starts):
        for name in names:
            one_of({"rule": name}, "rule", "", RULES)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run = trained(problem, name, rate, norm, start)
            report = _report(run, directions, span, name, rate, full=k == 0)
            runs.append({"rule": name, "start": k, "warnings": [str(w.message) for w in caught], **report})
    return {"runs": runs}


def trained(problem: hm.Problem, name: str, rate: float, norm: str, start: Any) -> Run:
    """Return one run; flow goes to t = e^(1,000,000), steps to 10,000."""
    if name == "flow":
        return hm.flow(problem, until_log_time=LOG_TIME, start=start)
    late = np.unique(np.geomspace(EVERY, STEPS, 140).round().astype(int)).tolist()
    return hm.train(problem, rule(name, rate, norm), steps=STEPS, start=start, record=[*range(EVERY), *late])


def _report(
    run: Run, directions: list[Any], span: float, name: str, rate: float, *, full: bool
) -> dict[str, Any]:
    with np.errstate(divide="ignore"):
        times = run.times if name == "flow" else np.log(rate * run.times)  # t = rate times steps
    selection = run.selection if run.p.any() else None
    tokens = selection.tokens if selection is not None and selection.is_unique else None
    # the listed direction whose tokens the run selects, else the nearest one
    distances = {
        k: run.cosine_distance(direction.max_margin)
        for k, direction in enumerate(directions)
        if selection is not None and direction.direction is not None
    }
    alike = [k for k in distances if tokens == directions[k].selection]
    nearest = alike[0] if alike else min(distances, key=distances.__getitem__, default=None)
    # up to the first point that has left the picture, and two more for the way out
    outside = np.flatnonzero(np.abs(run.points).max(axis=1) > 3.0 * span)
    report: dict[str, Any] = {
        "name": run.method,
        "event": run.event,
        "norm": run.p_norm,
        "log_time": float(times[-1]),
        "steps": None if name == "flow" else int(run.times[-1]),
        "selection": tokens,
        "nearest": nearest,
        "misalignment": None if nearest is None else distances[nearest],
        "path": run.points[: int(outside[0]) + 2 if outside.size else None].round(5),
    }
    return {**report, "frames": _frames(run, times, tokens)} if full else report


def _frames(run: Run, times: np.ndarray, tokens: tuple[int, ...] | None) -> dict[str, Any]:
    """Return at some moments time, p, attention, loss, and the excess of the loss over its limit."""
    if run.clock == "step":  # at equal ratios, not at equal distances
        moments = np.append(0, np.geomspace(1, max(run.times[-1], 1), FRAMES - 1))
        at = np.unique(np.searchsorted(run.times, moments.round()).clip(max=len(times) - 1))
    else:
        at = np.unique(np.linspace(0, len(times) - 1, min(FRAMES, len(times))).round().astype(int))
    excess = [run.excess(tokens, at=int(s)) for s in at] if tokens is not None else []
    return {
        "times": [float(times[s]) for s in at],
        "points": run.points[at],
        "losses": [hm.loss(run.problem, run.points[s]) for s in at],
        "log_excess": [e.log if e.sign > 0 else None for e in excess],
        "attention": [[weights.round(6) for weights in run.attention(at=int(s))] for s in at],
    }


# -- basins of attraction ---------------------------------------------------------------------------------

# A start is run for some steps and then judged: it ends in a direction if p has won every constraint of that
# selection (each selected token is ahead of each rival) and its last tenth of steps won them all again, so
# that training drives it further in. Otherwise it is undecided, and the next finer grid runs it longer.

FIELDS = tuple(name for name in RULES if name != "gd")  # whose steps vanish where the softmax is saturated
COARSE = 6  # cells along a side at level 0; each level doubles them
FINEST = 4
FIELD_STEPS = 240
LONGER = 4  # times as many from level 2 on
TRAVEL = 8.0  # spans that 240 steps of a start may go
UNDECIDED = -1

Grid = np.ndarray  # of places in the list of directions, one row for each y


def field(message: Mapping[str, Any]) -> dict[str, Any]:
    """Find the direction that each start of a grid ends in; starts between some that agree are not run.

    ``level`` is the fineness of the grid, and ``known`` may be the grid of the level before.
    """
    problem = problem_of(message)
    name = one_of(message, "rule", "flow", FIELDS)
    norm = one_of(message, "norm", "l2", NORMS)
    span = number(message, "span", 4.0, 1e-6, 1e6)
    level = int(number(message, "level", 1, 0, FINEST))
    directions = list(_attractors(problem, norm))
    # the limit of small steps is the same for flow and for normalized descent: one curve, another clock
    rate = TRAVEL * span / FIELD_STEPS
    step = rule("normalized", rate) if name == "flow" else rule(name, rate, norm)
    judge = Judge(problem, step, [direction.max_margin.constraints.rows() for direction in directions])
    previous = _known(message, level, len(directions))
    grid = judge.ends(_places(COARSE, span)) if previous is None else previous
    for k in range(1 if previous is None else level, level + 1):
        judge.steps = FIELD_STEPS if k < 2 else LONGER * FIELD_STEPS
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
    """Find where training from a start ends; ``ran`` is the number of starts that were run."""

    problem: hm.Problem
    step: Any
    rows: list[np.ndarray]  # of each direction's selection: selected key minus a rival's
    steps: int = FIELD_STEPS
    ran: int = 0

    def ends(self, starts: np.ndarray) -> np.ndarray:
        """Return the index of each start's direction in the list, or -1; (..., 2) for starts."""
        shape, starts = starts.shape[:-1], starts.reshape(-1, 2)
        self.ran += len(starts)
        late = self.steps - self.steps // 10
        points = points_from(self.problem, self.step, self.steps, starts, record=[late])
        end, move = points[:, -1], points[:, -1] - points[:, -2]
        ends = np.full(len(starts), UNDECIDED)
        for k, rows in enumerate(self.rows):
            won = [(x @ rows.T).min(axis=1, initial=np.inf) > 0.0 for x in (end, move)]
            ends[won[0] & won[1]] = k
        return ends.reshape(shape)


def _places(cells: int, span: float) -> np.ndarray:
    """Return the starts of a grid, (cells + 1, cells + 1, 2)."""
    at = span * np.linspace(-1.0, 1.0, cells + 1)
    return np.stack(np.meshgrid(at, at), axis=-1)


def _refined(grid: Grid, judge: Judge, span: float, *, again: bool) -> Grid:
    """Return the grid with twice as many cells; undecided starts are run ``again`` or copied like others."""
    n = len(grid) - 1

    def around(k: int) -> slice:
        # an old line is itself; a new one lies between two, and theirs count too: a border may pass close by
        return slice(max(0, k // 2 - k % 2), min(n, k // 2 + 2 * (k % 2)) + 1)

    fine = np.empty((2 * n + 1, 2 * n + 1), dtype=np.int64)
    open_places = []
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
    grid = message.get("known")
    n = COARSE * 2 ** (level - 1)
    if grid is None or level == 0:
        return None
    fits = isinstance(grid, list) and len(grid) == n + 1
    fits = fits and all(isinstance(row, list) and len(row) == n + 1 for row in grid)
    if not fits or any(type(x) is not int or not UNDECIDED <= x < kinds for row in grid for x in row):
        raise ValueError(f"known must be the {n + 1} x {n + 1} grid of level {level - 1}; leave it out")
    return np.array(grid)


# -- the gradient, exact and as usual -------------------------------------------------------------------

NEEDLES = 15


def gradients(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the direction of minus the gradient on a grid: exact, and by the usual backward in float32."""
    problem = problem_of(message)
    span = number(message, "span", 4.0, 1e-6, 1e6)
    at = np.linspace(-0.9 * span, 0.9 * span, NEEDLES)
    needles = []
    for y, x in itertools.product(at.tolist(), repeat=2):
        gradient = hm.gradient(problem, [x, y])
        exact = None if gradient.is_stationary else gradient.direction
        usual = -usual_gradient(problem, np.array([x, y]), np.float32).astype(float)
        needle = usual / np.linalg.norm(usual) if usual.any() else None
        off = None if exact is None or needle is None else hm.cosine_distance(usual, exact)
        needles.append({"at": [x, y], "exact": exact, "usual": needle, "off": off})
    return {"needles": needles, "precision": "float32"}


def usual_gradient(problem: hm.Problem, p: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the gradient as a framework's backward computes it in a precision, cancellation included.

    It is here to be compared with `hm.gradient`, whose direction is right at any norm.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.app.playground.plane import usual_gradient
    >>> problem = hm.data.example("B-FIG-8")
    >>> near, far = np.array([1.0, 1.0]), np.array([200.0, 600.0])
    >>> exact = hm.gradient(problem, near)
    >>> bool(hm.cosine_distance(-usual_gradient(problem, near, np.float64), exact.direction) < 1e-15)
    True
    >>> usual_gradient(problem, far, np.float32).tolist()
    [0.0, 0.0]
    """
    total = np.zeros(problem.d, dtype)
    keys = problem.split(problem.keys[problem.tokens].astype(dtype))
    for K, gamma in zip(keys, problem.split(problem.scores.astype(dtype)), strict=True):
        logits = K @ p.astype(dtype)
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        u = weights @ gamma
        slope = dtype(-math.exp(problem.loss.log_slope(float(u))))
        total += slope * (K.T @ (weights * (gamma - u)))
    return total / dtype(problem.n)
