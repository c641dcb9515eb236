"""Training W through its factors, W = K Q' (D-DEF-2): what is minimised is another norm of W (D-THM-1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.factored.loop import descend_factors, factor_force
from hardmax.dynamics.gradient import pull_of, settle_at, unit
from hardmax.dynamics.loops import BY_RULE, DONE, NO_COMPETITOR, STATIONARY
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.rules.loop import RUNAWAY
from hardmax.dynamics.rules.running import compiled_layout
from hardmax.dynamics.run import Run
from hardmax.dynamics.schedule import EVENTS, Rule, need_optimizer, steps_to_record
from hardmax.dynamics.updates import nothing
from hardmax.margin.norms.solving import proved_by
from hardmax.problem import Problem
from hardmax.problem.coordinates import Scale
from hardmax.problem.keys import Products
from hardmax.problem.problem import slots_of

if TYPE_CHECKING:
    from hardmax.dynamics.laws.forecasting import Forecast
    from hardmax.margin.solution import MaxMargin

LARGEST = 1e120  # entries of a factor above it are a runaway: soon those of W would be no floats

# x = (K, Q) read row by row -> V and log with minus the gradient = V exp(log).
Force = Callable[[np.ndarray], tuple[np.ndarray, float]]


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


@dataclass(frozen=True, eq=False)
class _Block:
    """A part of x = (K, Q) that one rule moves."""

    part: slice
    rule: Rule


def train_factors(
    problem: Problem,
    step: Optimizer | tuple[Optimizer, Optimizer],
    steps: int,
    *,
    factors: Any,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: str = "auto",
) -> FactorRun:
    """Steps of K and Q: one rule for both together, or one for each, or a rule of matrices on each."""
    K, Q = _start(problem, factors, start)
    if coordinates not in ("auto", "primal"):
        raise ValueError(f'coordinates must be "auto" or "primal" where factors are, got {coordinates!r}')
    problem.need_decreasing_loss()
    kept, x = steps_to_record(record, steps), np.concatenate([K.ravel(), Q.ravel()])
    blocks = _blocks(problem, step, steps, K.shape, Q.shape)
    points, status, states = _run(problem, x, K.shape[1], blocks, kept)
    Ks, Qs = (
        part.reshape(len(kept), *of.shape)
        for part, of in zip(np.split(points, [K.size], axis=1), (K, Q), strict=True)
    )
    Ws = np.array([k @ q.T for k, q in zip(Ks, Qs, strict=True)]).reshape(len(kept), -1)
    seen = {"K": Ks, "Q": Qs, "balance": np.array([k.T @ k - q.T @ q for k, q in zip(Ks, Qs, strict=True)])}
    event = EVENTS[status]
    if status == DONE:
        told = (
            block.rule.step.event(state)
            for block, state in zip(blocks, states, strict=True)
            if block.rule.kind == BY_RULE
        )
        event = next((each for each in told if each is not None), None)
    return FactorRun(problem, "step", kept, Ws, event, None, _method(step), seen, optimizer=step)


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


def _blocks(problem: Problem, step: Any, steps: int, K: tuple[int, ...], Q: tuple[int, ...]) -> list[_Block]:
    """Which rule moves which part of (K, Q)."""
    pair = isinstance(step, tuple | list)
    if pair and len(step) != 2:
        raise ValueError(f"optimizer must be one, or one of K and one of Q, got {len(step)}")
    rules = [need_optimizer(each) for each in step] if pair else [need_optimizer(step)]
    if any(isinstance(each.lr, str) for each in rules):
        raise ValueError('lr must be a number where factors are trained, got "1/L_p", which is about W')
    if not pair and rules[0].of_matrix:
        rules, pair = 2 * rules, True
    size = math.prod(K)
    made = [Rule.of(each, steps, Scale(problem, 0)) for each in rules]
    if not pair:
        return [_Block(slice(None), made[0])]
    return [
        _Block(slice(0, size), replace(made[0], shape=K)),
        _Block(slice(size, None), replace(made[1], shape=Q)),
    ]


def _run(
    problem: Problem, x: np.ndarray, m: int, blocks: list[_Block], record: np.ndarray
) -> tuple[np.ndarray, int, list[np.ndarray]]:
    """(K, Q) at the steps to record, how it ended, and the states of the rules at the end."""
    points, states = np.empty((len(record), x.size)), [each.rule.begin(x[each.part]) for each in blocks]
    is_known = not problem.readout.moves and problem.loss.is_compiled
    if not is_known or not all(each.rule.is_compiled for each in blocks):
        force = _compiled_force(problem, m) if is_known else _plain_force(problem, m)
        return points, _plain(force, x, blocks, states, record, points), states
    *layout, log_total = _layout(problem)
    first, state = blocks[0].rule, states[0]
    split = x.size if len(blocks) == 1 else blocks[0].part.stop
    other, state_2 = (blocks[1].rule, states[1]) if len(blocks) == 2 else (first, np.empty((0, 0)))
    status, _ = descend_factors(
        *layout,
        log_total,
        x,
        m,
        split,
        record,
        points,
        *problem.kernel_slope,
        LARGEST,
        first.rates,
        first.kind,
        first.constants,
        first.update or nothing,
        state,
        first.unit,
        other.rates,
        other.kind,
        other.constants,
        other.update or nothing,
        state_2,
        other.unit,
    )
    return points, status, states


def _layout(problem: Problem) -> tuple[Any, ...]:
    """What the compiled loop takes of a problem, the log of its total last."""
    keys, slots = problem.table, slots_of(problem)
    assert isinstance(keys, Products)
    return keys.left, keys.right, keys.token, keys.query, slots.tokens, *compiled_layout(problem, slots)


def _compiled_force(problem: Problem, m: int) -> Force:
    *layout, log_total = _layout(problem)

    def force(x: np.ndarray) -> tuple[np.ndarray, float]:
        V = np.empty(x.size)
        return V, factor_force(*layout, x, m, *problem.kernel_slope, V) - log_total

    return force


def _plain_force(problem: Problem, m: int) -> Force:
    """The same by the gradient of W, for heads and losses that only Python can call."""
    slots, (wide, high) = slots_of(problem), problem.shape

    def force(x: np.ndarray) -> tuple[np.ndarray, float]:
        K, Q = x[: wide * m].reshape(wide, m), x[wide * m :].reshape(high, m)
        pull = pull_of(settle_at(problem, (K @ Q.T).ravel(), slots), slots.table, problem.total)
        G = pull.direction.reshape(wide, high)
        return np.concatenate([(G @ Q).ravel(), (G.T @ K).ravel()]), pull.log_norm

    return force


def _plain(
    force: Force,
    x: np.ndarray,
    blocks: list[_Block],
    states: list[np.ndarray],
    record: np.ndarray,
    points: np.ndarray,
) -> int:
    """The loop for rules that only Python can call, as those of matrices."""
    steps = len(blocks[0].rule.rates)
    for k in range(steps + 1):
        points[record >= k] = x
        if k == steps:
            break
        V, log_scale = force(x)
        if not V.any():
            return NO_COMPETITOR if log_scale == -math.inf else STATIONARY
        new = x.copy()
        for block, state in zip(blocks, states, strict=True):
            new[block.part] = block.rule.moved(x[block.part], unit(V[block.part], log_scale), state, k)
        if not (np.abs(new) <= LARGEST).all():
            return RUNAWAY
        x = new
    return DONE


def _method(step: Any) -> str:
    if not isinstance(step, tuple | list):
        return f"{step.name} of " + ("K and of Q" if step.of_matrix else "K and Q together")
    names = [each.name for each in step]
    return f"{names[0]} of K, {names[1]} of Q" if names[0] != names[1] else f"{names[0]} of K and of Q"
