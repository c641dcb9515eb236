"""Gradient descent and normalised gradient descent on p (B-DEF-6), one problem or thousands in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, overload

import numpy as np

from hardmax import _inputs
from hardmax._parallel import cores
from hardmax.dynamics.coordinates import Coordinates, choose, differences, orthonormal_basis
from hardmax.dynamics.gradient import Gradient, pull_of, settle_at
from hardmax.dynamics.loops import (
    CANCELLED, DONE, NO_COMPETITOR, STATIONARY, descend_gram, descend_primal, step_factor,
)  # fmt: skip
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.slots import Slots, slots_of
from hardmax.dynamics.trajectory import Trajectory
from hardmax.heads import NonlinearHead
from hardmax.problem import Problem

EVENTS = {DONE: None, STATIONARY: "stationary point", NO_COMPETITOR: "no competing token"}

Rate = float | str | Sequence[float] | np.ndarray


@overload
def descend(problem: Problem, steps: int = ..., rate: Rate = ..., **options: Any) -> Trajectory: ...
@overload
def descend(problem: Sequence[Problem], steps: int = ..., rate: Rate = ..., **options: Any) -> list[Trajectory]: ...
def descend(
    problem: Problem | Sequence[Problem],
    steps: int = 1000,
    rate: Rate = 0.1,
    *,
    normalized: bool = True,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    epsilon: float = 0.0,
    coordinates: Coordinates = "auto",
    workers: int | None = None,
) -> Trajectory | list[Trajectory]:
    """Train p by normalised gradient descent, or by plain gradient descent if not ``normalized``.

    ``rate`` is a step size, one step size per step, or "1/L_p". ``start`` is p(0), the origin by default.
    ``record`` names the steps to keep: a list, every k-th, or by default about 200 for one problem and the
    two ends for a batch. ``epsilon`` is added to the gradient's norm as some public notebooks do; it stalls
    the path (B-ERR-11) and is zero unless asked for. A batch runs on ``workers`` threads (all cores by
    default); each result is the same to the bit as when its problem is run alone.

    >>> import hardmax as hm
    >>> path = hm.descend(hm.data.named("B-FIG-8"), steps=1000, rate=0.1, start=[2.0, 0.0])
    >>> path.selection().tokens   # input 1 keeps its worse token: a locally optimal direction
    (0, 1)
    """
    steps = _inputs.whole("steps", steps)
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon must be a number >= 0, got {epsilon!r}")
    many = not isinstance(problem, Problem)
    kept = steps_to_record(record, steps, many)
    options = (normalized, start, kept, float(epsilon), coordinates)

    def one(single: Problem) -> Trajectory:
        return _descend_one(single, step_sizes(rate, steps, single), *options)

    return run_batch(one, problem, workers) if not isinstance(problem, Problem) else one(problem)


def run_batch(
    one: Callable[[Problem], Trajectory], problems: Sequence[Problem], workers: int | None
) -> list[Trajectory]:
    """Every problem through the same function, on threads: the compiled loops release the interpreter."""
    problems = list(problems)
    for i, p in enumerate(problems):
        if not isinstance(p, Problem):
            raise ValueError(f"problem[{i}] must be a hardmax.Problem, got {type(p).__name__}")
    count = cores() if workers is None else _inputs.whole("workers", workers, 1)
    if count == 1 or len(problems) < 2:
        return [one(p) for p in problems]
    size = max(1, min(64, len(problems) // count))
    chunks = [problems[i : i + size] for i in range(0, len(problems), size)]
    with ThreadPoolExecutor(count) as pool:
        return [t for part in pool.map(lambda chunk: [one(p) for p in chunk], chunks) for t in part]


def step_sizes(rate: Rate, steps: int, problem: Problem) -> np.ndarray:
    """One positive step size per step."""
    if isinstance(rate, str):
        if rate != "1/L_p":
            raise ValueError(f'rate must be a positive number, a list of them or "1/L_p", got {rate!r}')
        return np.full(steps, 1.0 / smoothness(problem).L_p)
    if np.ndim(rate) == 0:
        return np.full(steps, _inputs.positive("rate", rate))
    rates = _inputs.finite_array("rate", rate, (steps,))
    if (rates <= 0).any():
        raise ValueError(f"rate must be positive at every step, got {rates[rates <= 0][0]:g}")
    return rates


def steps_to_record(record: int | Sequence[int] | None, steps: int, many: bool) -> np.ndarray:
    """The steps to keep, sorted, first and last always among them."""
    if record is None:
        wanted = np.linspace(0, steps, 2 if many else min(steps, 200) + 1).round()
    elif isinstance(record, (int, np.integer)):
        wanted = np.arange(0, steps, _inputs.whole("record", record, 1))
    else:
        wanted = np.asarray(record)
        if wanted.size and (wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() > steps):
            raise ValueError(f"record must be step numbers from 0 to {steps}, got {record!r}")
    return np.union1d(wanted, [0, steps]).astype(np.intp)


def _descend_one(
    problem: Problem,
    rates: np.ndarray,
    normalized: bool,
    start: Any,
    record: np.ndarray,
    epsilon: float,
    wanted: Coordinates,
) -> Trajectory:
    p = np.array(problem.vector("start", start))
    slots = slots_of(problem)
    if isinstance(problem.head, NonlinearHead) or not problem.loss.is_compiled:
        points, status = _plain(problem, slots, p, rates, normalized, record, epsilon)
    else:
        points, status = _compiled(problem, slots, p, rates, normalized, record, epsilon, wanted)
    method = "normalised gradient descent" if normalized else "gradient descent"
    return Trajectory(problem, "step", record, points, EVENTS[status], method=method)


def _compiled(
    problem: Problem,
    slots: Slots,
    p: np.ndarray,
    rates: np.ndarray,
    normalized: bool,
    record: np.ndarray,
    epsilon: float,
    wanted: Coordinates,
) -> tuple[np.ndarray, int]:
    scores, slope = slots.merge(problem.scores), problem.loss.log_slope
    tail = (rates, record)
    spans = differences(slots)
    chosen = choose(wanted, len(spans.plus), len(slots.tokens), problem.d, len(rates))
    if chosen == "gram":
        rows = spans.rows(slots.keys)
        coefficients = np.empty((len(record), len(rows)))
        status, _ = descend_gram(
            spans.gram(problem), spans.row, slots.offsets, slots.counts, scores, rows @ p,
            *tail, coefficients, normalized, epsilon, slope,
        )  # fmt: skip
        if status != CANCELLED:
            return p + coefficients @ rows, status
        chosen = "qr"  # near a stationary point inner products lose the direction; coordinates do not
    if chosen == "primal":
        points = np.empty((len(record), problem.d))
        status, _ = descend_primal(
            slots.keys, slots.tokens, slots.offsets, slots.counts, scores, p,
            *tail, points, normalized, epsilon, slope,
        )  # fmt: skip
        return points, status
    basis = orthonormal_basis(slots)
    q = basis.T @ p
    points = np.empty((len(record), basis.shape[1]))
    status, _ = descend_primal(
        np.ascontiguousarray(slots.keys @ basis), slots.tokens, slots.offsets, slots.counts, scores, q.copy(),
        *tail, points, normalized, epsilon, slope,
    )  # fmt: skip
    return p + (points - q) @ basis.T, status


def _plain(
    problem: Problem,
    slots: Slots,
    p: np.ndarray,
    rates: np.ndarray,
    normalized: bool,
    record: np.ndarray,
    epsilon: float,
) -> tuple[np.ndarray, int]:
    """The same steps for heads and losses that only Python can call."""
    points = np.empty((len(record), problem.d))
    saved = 0
    for k in range(len(rates) + 1):
        if k == record[saved]:
            points[saved] = p
            saved += 1
        if k == len(rates):
            break
        settled = settle_at(problem, p, slots)
        pull: Gradient = pull_of(settled, slots.keys, problem.n)
        if pull.is_stationary:
            points[saved:] = p
            return points, NO_COMPETITOR if np.isneginf(settled.log_scale).all() else STATIONARY
        p = p + step_factor(rates[k], 1.0, pull.log_norm, normalized, epsilon) * pull.direction
    return points, DONE
