"""Training p by steps (B-DEF-6), and W through its exact map to p (B-THM-L1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import exponent, lengths
from hardmax.dynamics.edges.steps import EdgeSteps
from hardmax.dynamics.loops import BY_RULE, CANCELLED, UNIT_ALONG, descend_gram, descend_primal
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.rules.running import (
    can_compile,
    compiled_layout,
    descend_compiled,
    descend_plain,
    runs_compiled,
)
from hardmax.dynamics.run import Run
from hardmax.dynamics.schedule import EVENTS, Rule, step_sizes, steps_to_record
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, choose, differences, known, orthonormal_basis, scaled
from hardmax.problem.keys import Dense, Products
from hardmax.problem.problem import slots_of

# From a scaled problem, p(0), the rule, the steps to keep, the coordinates asked for and the number of inputs
# of a step (0 for all of them): points and event.
Loop = Callable[[Problem, np.ndarray, Rule, np.ndarray, Coordinates, int], tuple[np.ndarray, str | None]]


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
) -> Run:
    """Steps of p, with rates times 2^shift, which as numbers may leave the range of float64."""
    problem.need_decreasing_loss()
    need_shape(problem, step)
    if batch is not None and expect.whole("batch", batch, 1) > problem.n:
        raise ValueError(f"batch must be at most {problem.n}, the number of inputs, got {batch}")
    scale = scaled(problem)
    p = np.array(scale.point(problem.vector("start", start), "start"))
    by_update = batch is not None and batch < problem.n
    rule = Rule.of(step, steps, scale, shift=shift, by_update=by_update)
    kept = steps_to_record(record, steps)
    if known(coordinates) in ("gram", "qr") and not step.in_span:
        raise ValueError(
            f'coordinates must be "auto" or "primal" for {type(step).__name__}, which leaves the span of the '
            f"keys, got {coordinates!r}"
        )
    loop = fast_path(scale.problem, rule)
    points, event = loop(scale.problem, p, rule, kept, coordinates, batch if by_update else 0)
    return Run(
        problem, "step", kept, scale.back(points), event, method=step.name, optimizer=step, batch=batch
    )


def points_from(
    problem: Problem, step: Optimizer, steps: int, starts: np.ndarray, record: Sequence[int] = ()
) -> np.ndarray:
    """(starts, points kept, d): what `train` gives from each start, the problem prepared once for all.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.dynamics.vector import points_from
    >>> points_from(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), 100, np.eye(2)).shape
    (2, 2, 2)
    """
    scale, kept = scaled(problem), steps_to_record(record, steps)
    rule = Rule.of(step, steps, scale)
    loop = fast_path(scale.problem, rule)
    begun = [np.array(scale.point(problem.vector("start", start), "start")) for start in starts]
    return scale.back(np.stack([loop(scale.problem, p, rule, kept, "auto", 0)[0] for p in begun]))


def need_shape(problem: Problem, step: Optimizer) -> None:
    """Refuse a rule of matrices where a vector is trained."""
    if step.of_matrix and len(problem.shape) != 2:
        raise ValueError(
            f"optimizer must have a norm of vectors for a p of shape {problem.shape}, got {type(step).__name__} "
            f"in the {step.norm} norm; choose another norm, or make the problem with Problem.from_queries"
        )


def fast_path(problem: Problem, rule: Rule) -> Loop:
    """The loop for this structure of problem and rule; the plain one can do everything."""
    if problem.readout.cross_entropy is not None and rule.kind == UNIT_ALONG and not rule.constants.any():
        steps = EdgeSteps(problem)
        if steps.edges is not None:
            return steps.loop
    has_gram = isinstance(problem.table, Dense | Products)
    return _along if rule.kind != BY_RULE and has_gram and can_compile(problem, rule) else _by_rule


def _along(
    problem: Problem, p: np.ndarray, rule: Rule, record: np.ndarray, wanted: Coordinates, batch: int
) -> tuple[np.ndarray, str | None]:
    """GD and Normalized in l2, in the coordinates that cost least."""
    slots = slots_of(problem)
    layout, slope = compiled_layout(problem, slots), problem.kernel_slope
    how = rule.rates, rule.kind == UNIT_ALONG, rule.constants[0]
    spans = differences(slots)
    chosen = choose(wanted, len(spans.plus), len(slots.tokens), problem.d, len(rule.rates))
    if chosen == "gram":
        c = np.empty((len(record), len(spans.plus)))
        gram, logits = spans.gram(slots.table), spans.along(slots.table, p)
        status, _ = descend_gram(gram, spans.row, *layout, logits, rule.rates, record, c, *how[1:], *slope)
        if status != CANCELLED:
            return p + spans.combine(slots.table, c), EVENTS[status]
        chosen = "qr"  # near a stationary point inner products lose the direction; coordinates do not
    if not runs_compiled(problem, rule):
        return descend_plain(problem, p, rule, record)
    if chosen == "primal":
        points = np.empty((len(record), problem.d))
        status, _ = descend_primal(slots.keys, slots.tokens, *layout, p, record, points, *slope, *how)
        return points, EVENTS[status]
    basis = orthonormal_basis(slots)
    keys, q = np.ascontiguousarray(slots.keys @ basis), basis.T @ p
    points = np.empty((len(record), len(q)))
    status, _ = descend_primal(keys, slots.tokens, *layout, q.copy(), record, points, *slope, *how)
    return np.stack([p + basis @ (point - q) for point in points]), EVENTS[status]


def _by_rule(
    problem: Problem, p: np.ndarray, rule: Rule, record: np.ndarray, wanted: Coordinates, batch: int
) -> tuple[np.ndarray, str | None]:
    """Any other rule, and every rule where something is known to Python only."""
    if not runs_compiled(problem, rule):
        return descend_plain(problem, p, rule, record, batch=batch)
    if wanted not in ("gram", "qr"):
        return descend_compiled(problem, p, rule, record, batch=batch)
    basis = orthonormal_basis(slots_of(problem))  # moves are no multiples of V: a Gram matrix is no use
    q = basis.T @ p
    points, event = descend_compiled(problem, q.copy(), rule, record, batch=batch, basis=basis)
    return np.stack([p + basis @ (point - q) for point in points]), event


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
) -> WeightRun:
    """Steps of W with the prompt u fixed, in the Frobenius norm (B-DEF-1b).

    The gradient by W is u times the gradient by q = W'u, the attention vector that the tokens see. So W moves
    only along u: W(t) = W(0) + u (q(t) - q(0))' / |u|^2, and q follows descent on p with the tokens as keys
    and the step times |u|^2; for normalised descent times |u| (B-ERR-17).
    """
    W, values = problem.key_map, problem.readout.values
    if W is None or values is None:
        raise ValueError(
            "training W needs a problem made with from_tokens: keys W x of its values x; where inputs have "
            "queries (from_queries) p is W already: train the problem"
        )
    if not isinstance(step, GD | Normalized) or step.norm != "l2":
        raise ValueError(
            f"optimizer must be GD or Normalized in l2 where W is trained, which map to steps of p, got "
            f"{type(step).__name__} in {step.norm}; train p instead"
        )
    if prompt is None:
        raise ValueError("prompt must be the vector u that W is trained with: the tokens see q = W'u")
    u = expect.finite_array("prompt", prompt, (len(W),))
    if not u.any():
        raise ValueError("prompt must not be zero: with it every attention logit is zero")
    W = W if start is None else expect.finite_array("start", start, W.shape)
    seen = problem._with(table=Dense(values), W=None)
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
    )
    return WeightRun(
        seen, q.clock, q.times, q.points, q.event, None, q.method, optimizer=step, prompt=u, start=W
    )
