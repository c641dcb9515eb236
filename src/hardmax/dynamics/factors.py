"""Trainer W through its factors, W = K Q' (D-DEF-2): what is minimised is another norm of W (D-THM-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.driver import NOTHING, PlainForce, Rule, RunWatch, Trainer, steps_to_record
from hardmax.dynamics.forces import (
    EXPONENTS,
    MOVES,
    NO_COMPETITOR,
    STATIONARY,
    STEP,
    V,
    Workspace,
    layout_of,
    spread,
)
from hardmax.dynamics.forces import factors as factors_force
from hardmax.dynamics.gradient import pull_of, risk_of, settle_at
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.optim.base import need_optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import need_batch, of_batch
from hardmax.margin.norms.solving import proved_by
from hardmax.problem import Problem
from hardmax.problem.coordinates import Scale
from hardmax.problem.keys import Products
from hardmax.problem.problem import slots_of

if TYPE_CHECKING:
    from hardmax.dynamics.laws import Forecast
    from hardmax.margin.solution import MaxMargin

LARGEST = 1e120  # entries of a factor above it are a runaway: soon those of W would be no floats


@dataclass(frozen=True, eq=False, repr=False)
class FactorRun(Run):
    """A training of K and Q with W = K Q': points are those of W, `K` and `Q` the factors at the end.

    ``observed`` holds the factors at every snapshot, "K" (S, d_x, m) and "Q" (S, d_z, m), and "balance",
    the matrices K'K - Q'Q, which the flow of both together keeps (D-THM-2).

    >>> import numpy as np, hardmax as hm
    >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]])
    >>> start = np.array([[0.1], [0.0]]), np.array([[0.1], [0.2]])
    >>> run = hm.train(problem.factors(rank=1), hm.optim.Normalized(0.1), start=start, steps=500)
    >>> (run.W / run.p_norm).round(2).tolist(), bool((run.W == run.K @ run.Q.T).all()), run.norm
    ([[0.5, 0.5], [-0.5, -0.5]], True, 'nuclear')
    """

    @property
    def K(self) -> np.ndarray:
        """The factor of the tokens at the end, (d_x, m)."""
        return np.asarray(self.observed["K"][-1])

    @property
    def Q(self) -> np.ndarray:
        """The factor of the queries at the end, (d_z, m)."""
        return np.asarray(self.observed["Q"][-1])

    @property
    def balance(self) -> np.ndarray:
        """K'K - Q'Q at every snapshot, (S, m, m)."""
        return self.observed["balance"]

    @property
    def norm(self) -> str | None:
        """The norm of W that steps of this geometry make least (D-THM-1); None where none is known.

        Euclidean steps of K and Q, together or each by itself, are about the nuclear norm of W; steps of the
        spectral norm on each, as Spectral's and Muon's, about the spectral norm.
        """
        rules = self.optimizer if isinstance(self.optimizer, tuple | list) else (self.optimizer,)
        norms = {None if each is None else each.norm for each in rules}
        return {"l2": "nuclear", "spectral": "spectral"}.get(str(norms.pop())) if len(norms) == 1 else None

    def margin_bounds(self) -> MaxMargin:
        """What the end proves of the nuclear margin, with the multipliers that fit it best (D-THM-2)."""
        from hardmax.margin.norms.factored import factored_point

        found = factored_point(self.problem, self.K, self.Q)
        proof = proved_by(found.constraints, "nuclear", found.W.ravel(), found.multipliers)
        return replace(proof, selection=self.selection.tokens)

    def forecast(self) -> Forecast:
        """There is none: thresholds are known for steps of W."""
        raise ValueError("forecast must be of a training of W, got one of its factors; leave factors out")


def train_factors(
    problem: Problem,
    step: Optimizer | tuple[Optimizer, Optimizer],
    steps: int,
    *,
    factors: Any,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: str = "auto",
    batch: int | None = None,
    watch: RunWatch = NOTHING,
) -> FactorRun:
    """Steps of K and Q: one rule for both together, or one for each, or a rule of matrices on each."""
    K, Q = _start(problem, factors, start)
    if coordinates not in ("auto", "primal"):
        raise ValueError(f'coordinates must be "auto" or "primal" where factors are, got {coordinates!r}')
    problem.need_decreasing_loss()
    kept, x = steps_to_record(record, steps), np.concatenate([K.ravel(), Q.ravel()])
    few = need_batch(problem, batch)
    rules = _rules(problem, step, steps, K.shape, Q.shape, by_update=few > 0)
    slots, keys = slots_of(problem), problem.table
    assert isinstance(keys, Products)
    layout: Any
    force: Any
    if not problem.readout.moves and problem.loss.is_compiled:
        rows, queries = keys.token[slots.tokens], keys.query[slots.tokens[slots.offsets[:-1]]]
        layout = layout_of(
            problem,
            slots,
            keys=keys.left,
            values=keys.right,
            tokens=rows,
            queries=queries,
            rank=K.shape[1],
            batch=few,
        )
        force = factors_force
    else:
        layout, force = slots, _plain_force(problem, K.shape[1], few)
    sizes = [K.size, Q.size] if len(rules) == 2 else None
    size = {"slots": len(slots.tokens), "n": problem.n, "room": problem.n * K.shape[1] + len(K), "batch": few}
    found = Trainer(force, layout, x, rules, kept, sizes=sizes, **size)

    def loss() -> float:
        k, q = x[: K.size].reshape(K.shape), x[K.size :].reshape(Q.shape)
        return risk_of(problem, settle_at(problem, (k @ q.T).ravel(), slots))

    watch.run(found, kept, loss)
    kept = kept[: len(found.points)]
    Ks, Qs = (
        part.reshape(len(kept), *of.shape)
        for part, of in zip(np.split(found.points, [K.size], axis=1), (K, Q), strict=True)
    )
    Ws = np.array([k @ q.T for k, q in zip(Ks, Qs, strict=True)]).reshape(len(kept), -1)
    seen = {"K": Ks, "Q": Qs, "balance": np.array([k.T @ k - q.T @ q for k, q in zip(Ks, Qs, strict=True)])}
    return FactorRun(
        problem, "step", kept, Ws, found.event, None, _method(step), seen, optimizer=step, batch=batch
    )


def _start(problem: Problem, factors: Any, start: Any) -> tuple[np.ndarray, np.ndarray]:
    """K(0) and Q(0), or a sentence that says what is missing."""
    if not isinstance(problem.table, Products):
        raise ValueError(
            "factors must be those of a matrix W, got a problem without queries, whose p is a vector; make "
            "it with Problem.from_queries"
        )
    if isinstance(factors, bool) or not isinstance(factors, int | np.integer) or factors < 1:
        raise ValueError(
            f"rank must be the number of columns of K and Q, at least 1, got {factors!r}; W = K Q' has at "
            "most that rank"
        )
    wide, high = problem.shape
    if not isinstance(start, tuple | list) or len(start) != 2:
        raise ValueError(
            f"start must be a pair (K, Q) of shapes ({wide}, {factors}) and ({high}, {factors}), got "
            f"{type(start).__name__}; small random numbers will do, such as 0.01 * rng.normal(size=...)"
        )
    K = expect.finite_array("start[0]", start[0], (wide, int(factors)))
    Q = expect.finite_array("start[1]", start[1], (high, int(factors)))
    if not (K.any() or Q.any()):
        raise ValueError(
            "start must not be zero: K = Q = 0 is a stationary point, which no step leaves; begin with small "
            "random numbers"
        )
    return K, Q


def _rules(
    problem: Problem, step: Any, steps: int, K: tuple[int, ...], Q: tuple[int, ...], by_update: bool
) -> list[Rule]:
    """One rule of (K, Q) together, or one of each."""
    pair = isinstance(step, tuple | list)
    if pair and len(step) != 2:
        raise ValueError(f"optimizer must be one, or one of K and one of Q, got {len(step)}")
    rules = [need_optimizer(each) for each in step] if pair else [need_optimizer(step)]
    if any(isinstance(each.lr, str) for each in rules):
        raise ValueError('lr must be a number where factors are trained, got "1/L_p", which is about W')
    if not pair and rules[0].of_matrix:
        rules, pair = 2 * rules, True
    made = [
        replace(Rule.of(each, steps, Scale(problem, 0), by_update=by_update), limit=LARGEST) for each in rules
    ]
    return [replace(each, shape=shape) for each, shape in zip(made, (K, Q), strict=False)]


def _plain_force(problem: Problem, m: int, batch: int) -> PlainForce:
    """`forces.factors` by the gradient of W, for heads and losses that only Python can call."""
    slots, (wide, high) = slots_of(problem), problem.shape

    def force(_: Any, x: np.ndarray, work: Workspace) -> int:
        K, Q = x[: wide * m].reshape(wide, m), x[wide * m :].reshape(high, m)
        settled = of_batch(settle_at(problem, (K @ Q.T).ravel(), slots), int(work.clock[STEP]), batch)
        total = float(batch) if batch and problem.weights is None else problem.total
        pull = pull_of(settled, slots.table, total)
        if pull.is_stationary:
            return NO_COMPETITOR
        G = pull.direction.reshape(wide, high)
        work.vectors[V] = np.concatenate([(G @ Q).ravel(), (G.T @ K).ravel()])
        for b in range(len(work.lengths)):
            block = slice(work.bounds[b], work.bounds[b + 1])
            work.lengths[b] = spread(work.vectors[V, block], work.vectors[EXPONENTS, block], pull.log_norm)
        return MOVES if work.lengths.any() else STATIONARY

    return force


def _method(step: Any) -> str:
    if not isinstance(step, tuple | list):
        return f"{step.name} of " + ("K and of Q" if step.of_matrix else "K and Q together")
    names = [each.name for each in step]
    return f"{names[0]} of K, {names[1]} of Q" if names[0] != names[1] else f"{names[0]} of K and of Q"
