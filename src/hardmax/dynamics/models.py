"""Models: what `hm.train` and `hm.flow` take. A model names its blocks and takes steps of them.

`Vector` is the model of p, which `hm.train` makes of a `Problem`. The others of this file come from
`problem.joint()`, `problem.matrix(prompt)` and `problem.factors(rank)`, those of papers A and C from
`corpus.model` and `samples.model`, and `decomposition.remainder` is in `dynamics.flow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import exponent, lengths
from hardmax.dynamics import driver, forces
from hardmax.dynamics.driver import Rule, RunWatch, StepTask, Trainer
from hardmax.dynamics.forces import Workspace, layout_of, set_pull, total_of
from hardmax.dynamics.gradient import pull_of, readout_pull, risk_at, settle_at, with_readout
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.optim.rules import by_name, need_optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import of_batch, pull_by_coordinate, still, take
from hardmax.margin.norms.solving import proved_by
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates, Scale, known, scaled, scaled_readout
from hardmax.problem.keys import Dense, Products
from hardmax.problem.problem import slots_of

if TYPE_CHECKING:
    from hardmax.dynamics.laws import Forecast
    from hardmax.margin.solution import MaxMargin

Optimizers = Optimizer | tuple[Optimizer, Optimizer] | Mapping[str, Optimizer]
Record = int | Sequence[int] | None
STEPS = 1000  # by default
LARGEST = 1e120  # entries of a factor above it are a runaway: soon those of W would not be floats


@dataclass(frozen=True, eq=False)
class Steps:
    """The options of a training by steps."""

    count: int
    record: np.ndarray  # the steps to keep
    watch: RunWatch
    start: Any = None
    batch: int | None = None
    coordinates: Coordinates = "auto"

    def result(self, kind: type[Run], problem: Problem, points: Any, event: str | None, **more: Any) -> Any:
        """Return the run of these steps; it has fewer points if a loss was low enough."""
        times = self.record[: len(points)]
        return kind(problem, "step", times, points, event, batch=self.batch, **more)


class Model:
    """The object that is trained: named ``blocks``, and how steps of an optimizer move them.

    >>> import hardmax as hm
    >>> model = hm.data.example("B-FIG-3a").joint()
    >>> model.blocks, model
    (('p', 'v'), Joint(Problem(n=3, T=2, d=2, loss='logistic')))
    """

    blocks: tuple[str, ...] = ()

    def _train(self, optimizer: Any, **options: Any) -> Any:
        """Train the blocks; ``options`` are those that the caller of `hm.train` gave."""
        raise NotImplementedError

    def _flow(self, **options: Any) -> Any:
        """Follow the gradient flow of the blocks."""
        raise TypeError(
            f"hm.flow has no gradient flow of {type(self).__name__}; train it with hm.train, or take the "
            "flow of a Problem or of decomposition.remainder"
        )

    def each(self, optimizer: Any) -> tuple[Optimizer, ...]:
        """Return an optimizer for each block, given once for all, in their order, or by their names."""
        if isinstance(optimizer, Mapping):
            return by_name(optimizer, self.blocks)
        if not isinstance(optimizer, tuple | list):
            optimizer = [optimizer] * len(self.blocks)
        if len(optimizer) != len(self.blocks):
            raise ValueError(
                f"optimizer must be one, or one for each of {self.blocks}, got {len(optimizer)} of them"
            )
        pairs = zip(self.blocks, optimizer, strict=True)
        return tuple(need_optimizer(rule, f"optimizer of {name}") for name, rule in pairs)


class SteppedModel(Model):
    """A model whose blocks move by the one loop: all of them take the same options of `hm.train`."""

    title: str = ""  # of the model, for error messages
    options: tuple[str, ...] = ("start", "record", "batch", "coordinates", "milestones", *RunWatch._fields)
    moves_together: bool = False  # whether one optimizer moves all blocks as one

    def _train(self, optimizer: Any, *, steps: int = STEPS, **options: Any) -> Any:
        """Read the options, take the steps, and return the run."""
        steps = expect.whole("steps", steps)
        driver.known_options(self.title, options, self.options)
        together = self.moves_together and not isinstance(optimizer, Mapping | tuple | list)
        optimizers = (need_optimizer(optimizer),) if together else self.each(optimizer)
        optimizers = driver.with_milestones(optimizers, steps, options.pop("milestones", ()))
        watch = RunWatch(**{name: options.pop(name) for name in RunWatch._fields if name in options})
        record = driver.steps_to_record(options.pop("record", None), steps)
        options["coordinates"] = known(options.get("coordinates", "auto"))
        return self._take(optimizers, Steps(steps, record, watch, **options))

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Any:
        """Take the steps of the blocks."""
        raise NotImplementedError

    def _need_primal(self, coordinates: Coordinates) -> None:
        if coordinates not in ("auto", "primal"):
            raise ValueError(f'coordinates must be "auto" or "primal" for {self.title}, got {coordinates!r}')


@dataclass(frozen=True, eq=False)
class OfProblem(SteppedModel):
    """A model with the inputs of a problem."""

    problem: Problem

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem!r})"


class Vector(OfProblem):
    """p of a problem."""

    blocks, title = ("p",), "p of a Problem"

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Run:
        return self.run(optimizers[0], steps)

    def run(self, step: Optimizer, steps: Steps, shift: int = 0) -> Run:
        """Take steps with rates times 2^shift, which as numbers may leave the range of float64."""
        problem = self.problem
        problem.need_decreasing_loss()
        if step.of_matrix and len(problem.shape) != 2:
            raise ValueError(
                f"optimizer must have a norm of vectors for a p of shape {problem.shape}, got "
                f"{type(step).__name__} in the {step.norm} norm; choose another norm, or make the problem "
                "with Problem.from_queries"
            )
        batch, scale = driver.need_batch(problem.n, steps.batch), scaled(problem)
        p = np.array(scale.point(problem.vector("start", steps.start), "start"))
        rule = Rule.of(step, steps.count, scale, shift=shift, by_update=batch > 0)
        if steps.coordinates in ("gram", "qr") and not step.in_span:
            raise ValueError(
                f'coordinates must be "auto" or "primal" for {type(step).__name__}, which leaves the span of '
                f"the keys, got {steps.coordinates!r}"
            )
        task = StepTask(scale.problem, rule, steps.record, p, steps.coordinates, batch, steps.watch)
        points, event = take(task)
        more = {"method": step.name, "optimizer": step}
        run: Run = steps.result(Run, problem, scale.back(points), event, **more)
        return run


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
        """Return W at a snapshot."""
        if "W" in self.observed:
            return np.asarray(self.observed["W"][at])
        moved = self.points[at] - self.points[0]
        size = lengths(self.prompt)
        return self.start + np.outer(self.prompt / size, moved / size)


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(OfProblem):
    """W, where the keys are W x of the values x, trained with the prompt u, in the Frobenius norm.

    The gradient by W is u times the gradient by q = W'u, the attention vector of the tokens. So W moves
    only along u: W(t) = W(0) + u (q(t) - q(0))' / |u|^2, and q follows descent on p with the tokens as keys
    and the step times |u|^2; for normalized descent times |u| (B-ERR-17). Other optimizers than these two in
    l2, without eps, depend on more than |u|, and train W itself.

    >>> import hardmax as hm
    >>> hm.data.sphere(n=2, T=3, d=4, rng=0).matrix(prompt=[1, 0, 0, 0]).blocks
    ('W',)
    """

    prompt: Any = None

    blocks, title = ("W",), "W"

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Any:
        """Train W from ``start``, or from the problem's own W."""
        problem, (step,) = self.problem, optimizers
        W, values = problem.key_map, problem.readout.values
        if W is None or values is None:
            raise ValueError(
                "training W needs a problem made with from_tokens: keys W x of its values x; where inputs "
                "have queries (from_queries) p is W already: train the problem"
            )
        if self.prompt is None:
            raise ValueError("prompt must be the vector u that W is trained with: the tokens see q = W'u")
        u = expect.finite_array("prompt", self.prompt, (len(W),))
        if not u.any():
            raise ValueError("prompt must not be zero: with it every attention logit is zero")
        W = W if steps.start is None else expect.finite_array("start", steps.start, W.shape)
        reduced = problem._with(table=Dense(values), W=None)
        if not isinstance(step, GD | Normalized) or step.norm != "l2" or step.damping:
            return _train_entries(reduced, step, u, W, steps)
        # The step of q is the rate times |u| or its square, in a float and a power of two.
        power, times = exponent(u), 1 if isinstance(step, Normalized) else 2
        size, shift = float(np.linalg.norm(np.ldexp(u, -power))) ** times, power * times
        scale = scaled(problem)
        if isinstance(step.lr, str):  # "1/L_p" is about the problem with its own W
            shift -= 2 * scale.exponent
        rates = driver.step_sizes(step, steps.count, replace(scale, exponent=0), False)
        along = replace(step, lr=rates * size, decay=0.0)
        q = Vector(reduced).run(along, replace(steps, start=W.T @ u), shift)
        more: dict[str, Any] = {"method": q.method, "optimizer": step, "prompt": u, "start": W}
        return steps.result(WeightRun, reduced, q.points, q.event, **more)


def _train_entries(problem: Problem, step: Optimizer, u: np.ndarray, W: np.ndarray, steps: Steps) -> Any:
    """Steps of all entries of W, whose gradient is u times that by q = W'u."""
    if scaled(problem).exponent:
        raise ValueError(
            f"values must be of moderate size where W is trained by {type(step).__name__}; divide them by "
            "their size, or choose GD or Normalized"
        )
    problem.need_decreasing_loss()
    slots, rule, x = slots_of(problem), Rule.unscaled(step, steps.count, W.shape), W.ravel().copy()
    batch = driver.need_batch(problem.n, steps.batch)
    total = total_of(problem, batch)

    def force(_: Any, at: np.ndarray, work: Workspace) -> int:
        settled = of_batch(settle_at(problem, at.reshape(W.shape).T @ u, slots), work, batch)
        if step.by_coordinate:
            pull, exponents, _rounding = pull_by_coordinate(settled, slots.table, total)
            exponents = np.broadcast_to(exponents, W.shape).ravel()
            set_pull(work, 0, np.outer(u, pull), exponents, float(pull.any()))
        else:
            along = pull_of(settled, slots.table, total)
            pull = along.direction
            set_pull(work, 0, np.outer(u, pull), along.log_norm)
        return forces.MOVES if pull.any() else still(settled)

    trainer = Trainer(force, slots, x, [rule], steps.record, slots=0, n=problem.n, batch=batch)
    steps.watch.run(trainer, lambda: risk_at(problem, x.reshape(W.shape).T @ u, slots), problem)
    Ws = trainer.points.reshape(-1, *W.shape)
    points = np.stack([matrix.T @ u for matrix in Ws])
    more: dict[str, Any] = {"method": step.name, "optimizer": step, "prompt": u, "start": W}
    return steps.result(WeightRun, problem, points, trainer.event, observed={"W": Ws}, **more)


class Joint(OfProblem):
    """p and the readout's v, each with its own steps; the ratio of the rates matters (B-NEW-1, B-DEF-1c).

    >>> import hardmax as hm
    >>> model = hm.data.example("B-FIG-3a").joint()
    >>> steps = {"p": hm.optim.Normalized(lr=0.1), "v": hm.optim.Normalized(lr=0.2)}
    >>> hm.train(model, steps, steps=100).v_points[-1].round(2).tolist()
    [0.22, 19.86]
    """

    blocks, title = ("p", "v"), "p and v"

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Any:
        """Train p from ``start`` and v from the problem's readout."""
        problem, (by_p, by_v) = self.problem, optimizers
        p = problem.vector("start", steps.start)
        with_readout(problem, p)  # refuses other readouts
        self._need_primal(steps.coordinates)
        problem.need_decreasing_loss()
        for step, is_matrix in ((by_p, len(problem.shape) == 2), (by_v, False)):
            if step.of_matrix and not is_matrix:
                raise ValueError(
                    f"optimizer must have a norm of vectors where v is trained, got {step.norm}; choose "
                    "another"
                )
        scale, (readout_scale, readout) = scaled(problem), scaled_readout(problem)
        inner, d = scale.problem._with(readout=readout), problem.d
        x = np.concatenate([scale.point(p, "start"), readout.v])
        batch = driver.need_batch(problem.n, steps.batch)
        units = scale, replace(scale, exponent=readout_scale.exponent)
        rules = [
            Rule.of(step, steps.count, unit, by_update=batch > 0)
            for step, unit in zip(optimizers, units, strict=True)
        ]
        slots = slots_of(inner)
        is_large = isinstance(problem.table, Products) and problem.table.is_large
        layout: Any = slots
        force: Any = _plain_pair(inner, batch)
        if problem.loss.is_compiled and not is_large:
            values, zeros = slots.merge(readout.values[inner.tokens]), np.zeros(len(slots.tokens))
            layout = layout_of(inner, slots, values=values, labels=readout.labels, scores=zeros, batch=batch)
            force = forces.pair
        more: dict[str, Any] = {"slots": len(slots.tokens), "n": problem.n, "batch": batch}
        trainer = Trainer(force, layout, x, rules, steps.record, sizes=[d, len(readout.v)], **more)

        steps.watch.run(trainer, lambda: risk_at(with_readout(inner, x[d:]), x[:d], slots), inner)
        points, readouts = scale.back(trainer.points[:, :d]), readout_scale.back(trainer.points[:, d:])
        name = by_p.name if by_p.name == by_v.name else f"{by_p.name} of p, {by_v.name} of v"
        more = {"method": f"joint {name}", "optimizer": (by_p, by_v), "v_points": readouts}
        return steps.result(Run, problem, points, trainer.event, **more)


def _plain_pair(problem: Problem, batch: int) -> driver.PlainForce:
    """`forces.pair` for losses and rules that only Python can call."""
    d, slots, total = problem.d, slots_of(problem), total_of(problem, batch)

    def force(_: Any, x: np.ndarray, work: Workspace) -> int:
        now = with_readout(problem, x[d:])
        settled = of_batch(settle_at(now, x[:d], slots), work, batch)
        pulls = pull_of(settled, slots.table, total), readout_pull(now, settled, total)
        for b, pull in enumerate(pulls):
            set_pull(work, b, pull.direction, pull.log_norm, 0.0 if pull.is_stationary else 1.0)
        return forces.MOVES if work.lengths.any() else still(settled)

    return force


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
        norms = {None if rule is None else rule.norm for rule in rules}
        return {"l2": "nuclear", "spectral": "spectral"}.get(str(norms.pop())) if len(norms) == 1 else None

    def margin_bounds(self) -> MaxMargin:
        """Return the bounds of the nuclear margin that the end proves, with the best multipliers."""
        from hardmax.margin.norms.factored import factored_point

        end = factored_point(self.problem, self.K, self.Q)
        proof = proved_by(end.constraints, "nuclear", end.W.ravel(), end.multipliers)
        return replace(proof, selection=self.selection.tokens)

    def forecast(self) -> Forecast:
        """Raise: thresholds are known for steps of W."""
        raise ValueError("forecast must be of a training of W, got one of its factors; leave factors out")


@dataclass(frozen=True, eq=False, repr=False)
class Factors(OfProblem):
    """K and Q with ``rank`` columns each, where the inputs with queries take W = K Q'.

    One optimizer moves both together; a pair, or one by name, moves each by itself (docs/how-to/queries.md).

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]])
    >>> problem.factors(rank=1).blocks
    ('K', 'Q')
    """

    rank: Any = None

    blocks, title, moves_together = ("K", "Q"), "K and Q", True

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Any:
        """Train K and Q from ``start``, a pair that has no default."""
        problem, (K, Q) = self.problem, self._start(steps.start)
        self._need_primal(steps.coordinates)
        problem.need_decreasing_loss()
        x, batch = np.concatenate([K.ravel(), Q.ravel()]), driver.need_batch(problem.n, steps.batch)
        rules = self._rules(optimizers, steps.count, (K.shape, Q.shape), batch > 0)
        slots, keys, m = slots_of(problem), problem.table, K.shape[1]
        assert isinstance(keys, Products)
        layout: Any = slots
        force: Any = _plain_factors(problem, m, batch)
        if not problem.readout.moves and problem.loss.is_compiled:
            rows, queries = keys.token[slots.tokens], keys.query[slots.tokens[slots.offsets[:-1]]]
            parts: dict[str, Any] = {"keys": keys.left, "values": keys.right, "tokens": rows}
            layout = layout_of(problem, slots, **parts, queries=queries, rank=m, batch=batch)
            force = forces.factors
        sizes = [K.size, Q.size] if len(rules) == 2 else None
        more: dict[str, Any] = {"slots": len(slots.tokens), "n": problem.n, "batch": batch}
        trainer = Trainer(
            force, layout, x, rules, steps.record, sizes=sizes, room=problem.n * m + len(K), **more
        )

        def loss() -> float:
            k, q = x[: K.size].reshape(K.shape), x[K.size :].reshape(Q.shape)
            return risk_at(problem, (k @ q.T).ravel(), slots)

        steps.watch.run(trainer, loss, problem)
        Ks = trainer.points[:, : K.size].reshape(-1, *K.shape)
        Qs = trainer.points[:, K.size :].reshape(-1, *Q.shape)
        Ws = np.array([k @ q.T for k, q in zip(Ks, Qs, strict=True)]).reshape(len(Ks), -1)
        balance = np.array([k.T @ k - q.T @ q for k, q in zip(Ks, Qs, strict=True)])
        by = optimizers if len(optimizers) == 2 else optimizers[0]
        first, last = optimizers[0].name, optimizers[-1].name
        if first != last:
            method = f"{first} of K, {last} of Q"
        else:
            is_separate = len(optimizers) == 2 or optimizers[0].of_matrix
            method = f"{first} of K and of Q" if is_separate else f"{first} of K and Q together"
        more = {"observed": {"K": Ks, "Q": Qs, "balance": balance}, "optimizer": by, "method": method}
        return steps.result(FactorRun, problem, Ws, trainer.event, **more)

    def _start(self, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return K(0) and Q(0), or raise an error that names the missing argument."""
        if not isinstance(self.problem.table, Products):
            raise ValueError(
                "factors must be those of a matrix W, got a problem without queries, whose p is a vector; "
                "make it with Problem.from_queries"
            )
        rank = self.rank
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
            raise ValueError(
                f"rank must be the number of columns of K and Q, at least 1, got {rank!r}; W = K Q' has at "
                "most that rank"
            )
        wide, high = self.problem.shape
        if not isinstance(start, tuple | list) or len(start) != 2:
            raise ValueError(
                f"start must be a pair (K, Q) of shapes ({wide}, {rank}) and ({high}, {rank}), got "
                f"{type(start).__name__}; small random numbers will do, such as 0.01 * rng.normal(size=...)"
            )
        K = expect.finite_array("start[0]", start[0], (wide, int(rank)))
        Q = expect.finite_array("start[1]", start[1], (high, int(rank)))
        if not (K.any() or Q.any()):
            raise ValueError(
                "start must not be zero: K = Q = 0 is a stationary point, which no step leaves; begin with "
                "small random numbers"
            )
        return K, Q

    def _rules(
        self, optimizers: Sequence[Optimizer], steps: int, shapes: Sequence[tuple[int, ...]], by_update: bool
    ) -> list[Rule]:
        """One rule of (K, Q) together, or one of each."""
        if any(isinstance(optimizer.lr, str) for optimizer in optimizers):
            raise ValueError('lr must be a number where factors are trained, got "1/L_p", which is about W')
        if len(optimizers) == 1 and optimizers[0].of_matrix:
            optimizers = [*optimizers, *optimizers]
        unit = Scale(self.problem, 0)
        rules = [Rule.of(optimizer, steps, unit, by_update=by_update) for optimizer in optimizers]
        return [replace(rule, limit=LARGEST, shape=shape) for rule, shape in zip(rules, shapes, strict=False)]


def _plain_factors(problem: Problem, m: int, batch: int) -> driver.PlainForce:
    """`forces.factors` by the gradient of W, for readouts and losses that only Python can call."""
    slots, (wide, high), total = slots_of(problem), problem.shape, total_of(problem, batch)

    def force(_: Any, x: np.ndarray, work: Workspace) -> int:
        K, Q = x[: wide * m].reshape(wide, m), x[wide * m :].reshape(high, m)
        settled = of_batch(settle_at(problem, (K @ Q.T).ravel(), slots), work, batch)
        pull = pull_of(settled, slots.table, total)
        if pull.is_stationary:
            return forces.NO_COMPETITOR
        G = pull.direction.reshape(wide, high)
        direction = np.concatenate([(G @ Q).ravel(), (G.T @ K).ravel()])
        for b, part in enumerate(np.split(direction, work.bounds[1:-1])):
            set_pull(work, b, part, pull.log_norm)
        return forces.MOVES if work.lengths.any() else forces.STATIONARY

    return force
