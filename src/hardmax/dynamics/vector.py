"""Training p by steps (B-DEF-6), and W through its exact map to p (B-THM-L1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import exponent, lengths
from hardmax.dynamics.driver import NOTHING, Rule, RunWatch, Trainer, step_sizes, steps_to_record
from hardmax.dynamics.forces import EXPONENTS, MOVES, NO_COMPETITOR, STATIONARY, V, Workspace, spread
from hardmax.dynamics.gradient import pull_of, risk_of, settle_at
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import fast_path, need_batch, pull_by_coordinate
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, known, scaled
from hardmax.problem.keys import Dense
from hardmax.problem.problem import slots_of


def train_p(
    problem: Problem,
    step: Optimizer,
    steps: int,
    *,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
    shift: int = 0,
    batch: Any = None,
    watch: RunWatch = NOTHING,
) -> Run:
    """Steps of p, with rates times 2^shift, which as numbers may leave the range of float64."""
    problem.need_decreasing_loss()
    need_shape(problem, step)
    few = need_batch(problem, batch)
    scale = scaled(problem)
    p = np.array(scale.point(problem.vector("start", start), "start"))
    rule = Rule.of(step, steps, scale, shift=shift, by_update=few > 0)
    kept = steps_to_record(record, steps)
    if known(coordinates) in ("gram", "qr") and not step.in_span:
        raise ValueError(
            f'coordinates must be "auto" or "primal" for {type(step).__name__}, which leaves the span of the '
            f"keys, got {coordinates!r}"
        )
    loop = fast_path(scale.problem, rule, watch)
    points, event = loop(scale.problem, p, rule, kept, coordinates, few, watch)
    kept = kept[: len(points)]  # fewer if a loss was low enough
    return Run(
        problem, "step", kept, scale.back(points), event, method=step.name, optimizer=step, batch=batch
    )


def need_shape(problem: Problem, step: Optimizer) -> None:
    """Refuse a rule of matrices where a vector is trained."""
    if step.of_matrix and len(problem.shape) != 2:
        raise ValueError(
            f"optimizer must have a norm of vectors for a p of shape {problem.shape}, got "
            f"{type(step).__name__} in the {step.norm} norm; choose another norm, or make the problem with "
            "Problem.from_queries"
        )


@dataclass(frozen=True, eq=False, repr=False)
class WeightRun(Run):
    """A training of W with the prompt u, held as the run of q = W'u: points and norms are those of q.

    >>> import hardmax as hm
    >>> problem = hm.data.sphere(n=2, T=3, d=4, rng=0)
    >>> hm.train(problem.matrix(prompt=[1, 0, 0, 0]), hm.optim.Normalized(0.1), steps=50).W.shape
    (4, 4)
    """

    prompt: np.ndarray = field(kw_only=True)  # (d,)
    start: np.ndarray = field(kw_only=True)  # (d, d)

    def W_at(self, at: int) -> np.ndarray:
        """W at a snapshot."""
        if "W" in self.observed:
            return np.asarray(self.observed["W"][at])
        moved = self.points[at] - self.points[0]
        size = lengths(self.prompt)
        return self.start + np.outer(self.prompt / size, moved / size)


def train_W(
    problem: Problem,
    step: Optimizer,
    steps: int,
    *,
    prompt: Any,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
    watch: RunWatch = NOTHING,
) -> WeightRun:
    """Steps of W with the prompt u fixed, in the Frobenius norm (B-DEF-1b).

    The gradient by W is u times the gradient by q = W'u, the attention vector that the tokens see. So W moves
    only along u: W(t) = W(0) + u (q(t) - q(0))' / |u|^2, and q follows descent on p with the tokens as keys
    and the step times |u|^2; for normalised descent times |u| (B-ERR-17). Other optimizers than these two in
    l2, without eps, do not see |u| alone, and train W itself.
    """
    W, values = problem.key_map, problem.readout.values
    if W is None or values is None:
        raise ValueError(
            "training W needs a problem made with from_tokens: keys W x of its values x; where inputs have "
            "queries (from_queries) p is W already: train the problem"
        )
    if prompt is None:
        raise ValueError("prompt must be the vector u that W is trained with: the tokens see q = W'u")
    u = expect.finite_array("prompt", prompt, (len(W),))
    if not u.any():
        raise ValueError("prompt must not be zero: with it every attention logit is zero")
    W = W if start is None else expect.finite_array("start", start, W.shape)
    seen = problem._with(table=Dense(values), W=None)
    if not isinstance(step, GD | Normalized) or step.norm != "l2" or step.damping:
        return _train_W_itself(seen, step, u, W, steps_to_record(record, steps), watch)
    # The step of q is the rate times |u| or its square, in a float and a power of two.
    power, times = exponent(u), 1 if isinstance(step, Normalized) else 2
    size, shift = float(np.linalg.norm(np.ldexp(u, -power))) ** times, power * times
    scale = scaled(problem)
    if isinstance(step.lr, str):  # "1/L_p" is about the problem with its own W
        shift -= 2 * scale.exponent
    rates = step_sizes(step, steps, replace(scale, exponent=0), False)
    q = train_p(
        seen,
        replace(step, lr=rates * size, decay=0.0),
        steps,
        start=W.T @ u,
        record=record,
        shift=shift,
        coordinates=coordinates,
        watch=watch,
    )
    return WeightRun(
        seen, q.clock, q.times, q.points, q.event, None, q.method, optimizer=step, prompt=u, start=W
    )


def _train_W_itself(
    seen: Problem, step: Optimizer, u: np.ndarray, W: np.ndarray, kept: np.ndarray, watch: RunWatch
) -> WeightRun:
    """Steps of all entries of W, whose gradient is u times that by q = W'u."""
    if scaled(seen).exponent:
        raise ValueError(
            f"values must be of moderate size where W is trained by {type(step).__name__}; divide them by "
            "their size, or choose GD or Normalized"
        )
    seen.need_decreasing_loss()
    slots, rule, x = slots_of(seen), Rule.unscaled(step, int(kept[-1]), W.shape), W.ravel().copy()

    def force(_: Any, at: np.ndarray, work: Workspace) -> int:
        settled = settle_at(seen, at.reshape(W.shape).T @ u, slots)
        if step.by_coordinate:
            pull, exponents, _rounding = pull_by_coordinate(settled, slots.table, seen.total)
            work.vectors[V] = np.outer(u, pull).ravel()
            work.vectors[EXPONENTS] = np.broadcast_to(exponents, W.shape).ravel()
            work.lengths[0] = float(pull.any())
        else:
            found = pull_of(settled, slots.table, seen.total)
            pull = found.direction
            work.vectors[V] = np.outer(u, pull).ravel()
            work.lengths[0] = spread(work.vectors[V], work.vectors[EXPONENTS], found.log_norm)
        if pull.any():
            return MOVES
        return NO_COMPETITOR if np.isneginf(settled.log_scale).all() else STATIONARY

    trainer = Trainer(force, slots, x, [rule], kept, slots=0, n=seen.n)
    watch.run(trainer, kept, lambda: risk_of(seen, settle_at(seen, x.reshape(W.shape).T @ u, slots)))
    Ws = trainer.points.reshape(-1, *W.shape)
    return WeightRun(
        seen,
        "step",
        kept[: len(Ws)],
        np.stack([each.T @ u for each in Ws]),
        trainer.event,
        None,
        step.name,
        {"W": Ws},
        optimizer=step,
        prompt=u,
        start=W,
    )
