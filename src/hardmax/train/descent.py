"""Gradient descent and normalised gradient descent on p (B-DEF-6), one problem or thousands in one call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.parallel import cores
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.slots import Slots, slots_of
from hardmax.train.coordinates import Coordinates, choose, differences, orthonormal_basis
from hardmax.train.gradient import pull_of, settle_at
from hardmax.train.loops import (
    CANCELLED,
    DONE,
    NO_COMPETITOR,
    STATIONARY,
    descend_gram,
    descend_primal,
    step_factor,
)  # fmt: skip
from hardmax.train.measures import smoothness
from hardmax.train.run import Run
from hardmax.train.scale import Scale, scaled

EVENTS = {DONE: None, STATIONARY: "stationary point", NO_COMPETITOR: "no competing token"}

Rate = float | str | Sequence[float] | np.ndarray


def descend(
    problem: Problem,
    steps: int = 1000,
    rate: Rate = 0.1,
    *,
    normalized: bool = True,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    epsilon: float = 0.0,
    coordinates: Coordinates = "auto",
) -> Run:
    """Train p by normalised gradient descent, or by plain gradient descent if not ``normalized``.

    ``rate`` is a step size, one step size per step, or "1/L_p". ``start`` is p(0), the origin by default.
    ``record`` names the steps to keep: a list, every k-th, or by default about 200 of them; the two ends are
    always kept. ``epsilon`` is added to the gradient's norm as some public notebooks do; it stalls the path
    (B-ERR-11) and is zero unless asked for.

    >>> import hardmax as hm
    >>> path = hm.descend(hm.data.named("B-FIG-8"), steps=1000, rate=0.1, start=[2.0, 0.0])
    >>> path.selection().tokens   # input 1 keeps its worse token: a locally optimal direction
    (0, 1)
    """
    return descend_shifted(
        problem, steps, rate, 0, normalized=normalized, start=start, record=record, epsilon=epsilon,
        coordinates=coordinates,
    )  # fmt: skip


def descend_shifted(
    problem: Problem,
    steps: int,
    rate: Rate,
    shift: int,
    *,
    normalized: bool,
    start: Any,
    record: int | Sequence[int] | None,
    epsilon: Any = 0.0,
    coordinates: Coordinates = "auto",
) -> Run:
    """`descend` with step sizes times 2^shift, which as numbers may leave the range of float64."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a hardmax.Problem, got {type(problem).__name__}; "
                         "for many problems call descend_batch")  # fmt: skip
    steps = expect.whole("steps", steps)
    problem.need_decreasing_loss()
    scale = scaled(problem)
    p = np.array(scale.point(problem.vector("start", start), "start"))
    schedule = _Schedule(
        step_sizes(rate, steps, scale, normalized, shift),
        steps_to_record(record, steps),
        normalized,
        damping(epsilon, scale),
    )
    run = _compiled if _can_compile(problem) else _plain
    points, status = run(scale.problem, slots_of(scale.problem), p, schedule, coordinates)
    method = "normalised gradient descent" if normalized else "gradient descent"
    return Run(problem, "step", schedule.record, scale.back(points), EVENTS[status], method=method)


def descend_batch(
    problems: Sequence[Problem],
    steps: int = 1000,
    rate: Rate = 0.1,
    *,
    record: int | Sequence[int] | None = (),
    workers: int | None = None,
    **options: Any,
) -> list[Run]:
    """`descend` on many problems in one call, on ``workers`` threads (all cores by default).

    Each result is the same to the bit as when its problem is run alone. Only the two ends of each path are
    kept unless ``record`` says more.

    >>> import hardmax as hm
    >>> problems = list(hm.data.fig9_oracle(d=10, trials=50))
    >>> paths = hm.descend_batch(problems, steps=100, rate=1.0)
    >>> len(paths), bool((paths[7].p == hm.descend(problems[7], steps=100, rate=1.0).p).all())
    (50, True)
    """

    def run(chunk: Sequence[Problem]) -> list[Run]:
        return [descend(problem, steps, rate, record=record, **options) for problem in chunk]

    problems = list(problems)
    count = cores() if workers is None else expect.whole("workers", workers, 1)
    if count == 1 or len(problems) < 2:
        return run(problems)
    size = max(1, min(64, len(problems) // count))
    chunks = [problems[i : i + size] for i in range(0, len(problems), size)]
    with ThreadPoolExecutor(count) as pool:  # the compiled loops release the interpreter
        return [path for part in pool.map(run, chunks) for path in part]


def _can_compile(problem: Problem) -> bool:
    """Whether the compiled loops can run it: stored keys, fixed scores and a compiled loss."""
    return isinstance(problem.table, Dense) and not problem.head.moves and problem.loss.is_compiled


@dataclass(frozen=True, eq=False)
class _Schedule:
    """How to step and what to keep."""

    rates: np.ndarray
    record: np.ndarray
    normalized: bool
    epsilon: float


def damping(epsilon: Any, scale: Scale, name: str = "epsilon") -> float:
    """The epsilon of a damped normalisation, checked, beside gradients of the scaled problem."""
    epsilon = expect.nonnegative(name, epsilon)
    return float(scale.shift(np.array(epsilon), -scale.exponent, name))


def step_sizes(
    rate: Rate, steps: int, scale: Scale, normalized: bool, shift: int = 0, name: str = "rate"
) -> np.ndarray:
    """One positive step size per step, times 2^shift and as the scaled problem takes it."""
    if isinstance(rate, str):
        if rate != "1/L_p":
            raise ValueError(f'{name} must be a positive number, a list of them or "1/L_p", got {rate!r}')
        # Plain descent divides by the square of the units already.
        rates, shift = np.full(steps, 1.0 / smoothness(scale.problem).L_p), shift - 2 * scale.exponent
    elif np.ndim(rate) == 0:
        rates = np.full(steps, expect.positive(name, rate))
    else:
        rates = expect.finite_array(name, rate, (steps,))
        if (rates <= 0).any():
            raise ValueError(f"{name} must be positive at every step, got {rates[rates <= 0][0]:g}")
    return scale.rates(rates, normalized, shift, name)


def steps_to_record(record: int | Sequence[int] | None, steps: int) -> np.ndarray:
    """The steps to keep, sorted, first and last always among them."""
    if record is None:
        wanted = np.linspace(0, steps, min(steps, 200) + 1).round().astype(np.intp)
    elif isinstance(record, (int, np.integer)):
        wanted = np.arange(0, steps, expect.whole("record", record, 1))
    else:
        wanted = np.asarray(record, dtype=None if len(record) else np.intp)
        if wanted.size and (wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() > steps):
            raise ValueError(f"record must be step numbers from 0 to {steps}, got {record!r}")
    return np.union1d(wanted, [0, steps]).astype(np.intp)


def _compiled(
    problem: Problem, slots: Slots, p: np.ndarray, plan: _Schedule, wanted: Coordinates
) -> tuple[np.ndarray, int]:
    scores = slots.merge(problem.scores)
    layout = (slots.offsets, slots.counts, scores, problem.log_weights, math.log(problem.total))
    tail = (plan.normalized, plan.epsilon, problem.loss.log_slope)
    spans = differences(slots)
    chosen = choose(wanted, len(spans.plus), len(slots.tokens), problem.d, len(plan.rates))
    if chosen == "gram":
        rows = spans.rows(slots.table)
        c = np.empty((len(plan.record), len(rows)))
        gram = spans.gram(problem.table)
        status, _ = descend_gram(gram, spans.row, *layout, rows @ p, plan.rates, plan.record, c, *tail)
        if status != CANCELLED:
            return np.stack(
                [p + row @ rows for row in c]
            ), status  # one by one: the same to the bit for any record
        chosen = "qr"  # near a stationary point inner products lose the direction; coordinates do not
    if chosen == "primal":
        points = np.empty((len(plan.record), problem.d))
        status, _ = descend_primal(
            slots.keys, slots.tokens, *layout, p, plan.rates, plan.record, points, *tail
        )
        return points, status
    basis = orthonormal_basis(slots)
    keys, q = np.ascontiguousarray(slots.keys @ basis), basis.T @ p
    points = np.empty((len(plan.record), len(q)))
    status, _ = descend_primal(keys, slots.tokens, *layout, q.copy(), plan.rates, plan.record, points, *tail)
    return np.stack([p + basis @ (point - q) for point in points]), status


def _plain(
    problem: Problem, slots: Slots, p: np.ndarray, plan: _Schedule, wanted: Coordinates
) -> tuple[np.ndarray, int]:
    """The same steps for heads and losses that only Python can call."""
    points = np.empty((len(plan.record), problem.d))
    for k in range(len(plan.rates) + 1):
        points[plan.record >= k] = p
        if k == len(plan.rates):
            break
        settled = settle_at(problem, p, slots)
        pull = pull_of(settled, slots.table, problem.total)
        if pull.is_stationary:
            return points, NO_COMPETITOR if np.isneginf(settled.log_scale).all() else STATIONARY
        p = p + step_factor(plan.rates[k], 1.0, pull.log_norm, plan.normalized, plan.epsilon) * pull.direction
    return points, DONE
