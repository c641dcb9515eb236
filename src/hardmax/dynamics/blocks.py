"""Training of named arrays by a gradient in Python, as the models of papers A and C are trained.

`driver.Trainer` takes the steps, and `driver.RunWatch` ends and saves them. This file adds epochs, and
observations in place of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax._lib.compiled import dot
from hardmax.dynamics import driver
from hardmax.dynamics.driver import Rule, RunWatch, Trainer
from hardmax.dynamics.forces import EXPONENTS, MOVES, SAVED, STATIONARY, STEP, V, Workspace, spread
from hardmax.dynamics.loop import ALONG, BY_RULE, PAUSED
from hardmax.dynamics.optim import GD, Optimizer
from hardmax.dynamics.optim.rules import by_name, need_optimizer, settings
from hardmax.dynamics.updates import nothing

SQUARES = (1e-250, 1e250)  # the squared lengths at which `spread` does not rescale


class Pull(NamedTuple):
    """Minus the gradient by a block: ``vector`` times exp(``log_scale``)."""

    vector: np.ndarray
    log_scale: Any = 0.0  # one number, or one for each coordinate where the length is known
    length: float | None = None  # of the vector; computed by default


def epoch_order(n: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of the n inputs in an epoch, which depends on nothing else.

    >>> from hardmax.embeddings.minibatch import epoch_order
    >>> sorted(epoch_order(4, seed=0, epoch=7).tolist())
    [0, 1, 2, 3]
    """
    return np.random.default_rng([seed, epoch]).permutation(n)


@dataclass(frozen=True)
class StepOptions:
    """How many steps to take on which inputs, what to record, when to stop and where to save.

    `read` makes it from the options of `hm.train`. With ``steps`` and ``batch`` the inputs come in turn; with
    ``epochs`` they are shuffled in each epoch, milestones are counted in epochs, and each epoch is recorded.
    """

    steps: int
    n: int
    batch: int  # 0 for all inputs
    record: np.ndarray
    milestones: tuple[int, ...]
    watch: RunWatch
    seed: int | None = None  # of the shuffles

    @classmethod
    def read(
        cls,
        n: int,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        rng: Any = None,
        record: int | Sequence[int] | None = None,
        milestones: Sequence[int] = (),
        **watch: Any,
    ) -> StepOptions:
        """Check the options of a training on n inputs; ``watch`` are those of `RunWatch`."""
        if (epochs is None) == (steps is None):
            raise ValueError("steps or epochs must be given, and not both")
        few, unit, seed = driver.need_batch(n, batch), 1, None
        if epochs is not None:
            if rng is None:
                raise TypeError("rng must be given where epochs are shuffled; pass rng=0, or steps=")
            unit, seed = -(-n // (few or n)), int(expect.generator(rng).integers(2**63))
            steps = unit * expect.whole("epochs", epochs)
        steps = expect.whole("steps", steps)
        if watch.get("until_loss") is not None:
            expect.nonnegative("until_loss", watch["until_loss"])
        return cls(
            steps,
            n,
            few,
            driver.steps_to_record(unit if record is None and epochs is not None else record, steps),
            tuple(unit * milestone for milestone in driver.read_milestones(milestones)),
            RunWatch(**watch),
            seed,
        )

    def inputs(self, step: int) -> np.ndarray | None:
        """Return the inputs of a step; None for all of them."""
        if not self.batch:
            return None
        if self.seed is None:
            return (step * self.batch + np.arange(self.batch)) % self.n
        epoch, part = divmod(step, -(-self.n // self.batch))
        return epoch_order(self.n, self.seed, epoch)[part * self.batch : (part + 1) * self.batch]

    @property
    def identity(self) -> dict[str, Any]:
        """Entries that all checkpoints of this training share."""
        return {"batch": self.batch, "milestones": list(self.milestones), "seed": self.seed}


class BlockTrainer(Trainer):
    """Arrays by name that steps move, and observations on the way.

    Args:
        start: the arrays by name, which are copied. Without any, ``pulls`` takes the step itself, and
            changes arrays of ``held``.
        optimizer: one for each block by name, or one that moves all blocks as one vector.
        options: how many steps, on which inputs.
        evaluate: returns the model at the blocks as they are, for some inputs, or for all of them (None).
        pulls: returns a `Pull` for each block, from an evaluation and the number of the step.
        held: more arrays that change in place, which a checkpoint must keep.
    """

    observes = True

    def __init__(
        self,
        start: Mapping[str, np.ndarray],
        optimizer: Optimizer | Mapping[str, Optimizer],
        options: StepOptions,
        evaluate: Callable[[np.ndarray | None], Any],
        pulls: Callable[[Any, int], Mapping[str, Pull]],
        held: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.options, self._evaluate, self._pulls, self._held = options, evaluate, pulls, held or {}
        shapes = {name: np.shape(array) for name, array in start.items()}
        sizes = [math.prod(shape) for shape in shapes.values()]
        x = np.concatenate([np.empty(0), *map(np.ravel, start.values())])
        parts = np.split(x, np.cumsum(sizes))
        self.blocks = {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=False)}
        self.optimizers = self._by_block(optimizer)
        self._groups = [(name,) for name in shapes] if len(self.optimizers) > 1 else [tuple(shapes)]
        if start:
            rules = [self._rule(*pair) for pair in zip(self.optimizers, self._groups, strict=True)]
        else:
            rules = [Rule(GD(1.0), ALONG, np.ones(options.steps), np.zeros(1), nothing)]
        super().__init__(
            self._force,
            None,
            x,
            rules,
            options.record,
            sizes=sizes if len(rules) > 1 else None,
            width=0,
            slots=0,
            n=options.n if options.batch else 1,
            batch=options.batch,
        )
        self._last: tuple[int, Any] = (-1, None)  # the step that was evaluated last, on all inputs
        self._observe: Callable[[], Mapping[str, Any]] = dict
        self._rows: list[dict[str, np.ndarray]] = []  # the observations at each of the times
        self.times: list[int] = []
        self.observed: dict[str, np.ndarray] = {}

    def _by_block(self, optimizer: Any) -> tuple[Optimizer, ...]:
        names = tuple(self.blocks)
        if isinstance(optimizer, Mapping):
            return by_name(optimizer, names)
        if names and need_optimizer(optimizer).of_matrix:  # all blocks as one vector are not a matrix
            return (optimizer,) * len(names)
        return (optimizer,)

    def _rule(self, step: Optimizer, group: tuple[str, ...]) -> Rule:
        shape = self.blocks[group[0]].shape
        if step.of_matrix and len(shape) != 2:
            others = f"give a dict with an optimizer for each of {', '.join(self.blocks)}"
            raise ValueError(
                f"optimizer of {group[0]} must have a norm of vectors, got {type(step).__name__}; "
                f"{others if len(self.blocks) > 1 else 'choose another'}"
            )
        return unscaled_rule(step, self.options, shape)

    def _force(self, _: Any, __: np.ndarray, work: Workspace) -> int:
        step = int(work.clock[STEP])
        inputs = self.options.inputs(step)
        pulls = self._pulls(self.point if inputs is None else self._evaluate(inputs), step)
        if not self.blocks:
            work.lengths[0] = 0.0
            return MOVES
        for b, (group, rule) in enumerate(zip(self._groups, self.rules, strict=True)):
            pull, block = _together([pulls[name] for name in group]), slice(*work.bounds[b : b + 2])
            direction, exponents = work.vectors[V, block], work.vectors[EXPONENTS, block]
            direction[:] = pull.vector.ravel()
            if pull.length is not None:
                exponents[:], work.lengths[b] = pull.log_scale, pull.length
                continue
            square = dot(direction, direction)
            if rule.kind == BY_RULE or not SQUARES[0] < square < SQUARES[1]:
                work.lengths[b] = spread(direction, exponents, pull.log_scale)
            else:  # all that the loop reads where one factor moves a block, and E is large
                exponents[0], work.lengths[b] = pull.log_scale, math.sqrt(square)
        return MOVES if work.lengths.any() else STATIONARY

    @property
    def point(self) -> Any:
        """The evaluation of all inputs where the blocks are now."""
        if self._last[0] != self.taken:
            self._last = self.taken, self._evaluate(None)
        return self._last[1]

    @property
    def name(self) -> str:
        """The names of the optimizers."""
        return ", ".join(sorted({optimizer.name for optimizer in self.optimizers}))

    def take_step(self) -> bool:
        """Take one step, or pass it over if nothing pulls; returns False where the blocks overflowed."""
        before = self.taken
        self._last = (-1, None)
        self.advance(before + 1)
        if self.taken == before and self.status == STATIONARY:
            self._work.clock[STEP] += 1
        return self.taken > before

    def run(
        self, observe: Callable[[], Mapping[str, Any]], identity: Callable[[], Mapping[str, Any]]
    ) -> BlockTrainer:
        """Take all steps from the checkpoint on, if there is one.

        ``observe`` returns the observations at a recorded step, with the loss as "losses"; ``identity``
        identifies the training of a checkpoint.
        """
        self._observe = observe
        self.options.watch.run(self, lambda: float(self._rows[-1]["losses"]), identity)
        if self.status != PAUSED:  # nothing moves after an early end
            later = self.record[self.record > self.times[-1]].tolist()
            self.times += later
            self._rows += self._rows[-1:] * len(later)
        self.observed = {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}
        return self

    def observe(self, step: int) -> None:
        """Record the observations at a step, unless the checkpoint has them."""
        if not self.times or self.times[-1] < step:
            self.times.append(step)
            self._rows.append({name: np.array(value) for name, value in self._observe().items()})

    def identity(self, model: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return an identity that all checkpoints of this training share."""
        optimizers = [{**settings(step), "lr": np.asarray(step.lr).tolist()} for step in self.optimizers]
        return {**model(), **self.options.identity, "optimizers": optimizers}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the next step depends on."""
        return {**super().state, **self._held}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go back to where `state` was read."""
        super().restore(state)
        self._work.clock[SAVED] = np.searchsorted(self.record, self.taken)
        for name, array in self._held.items():
            array[...] = state[name]
        self._last = (-1, None)

    def contents(self) -> dict[str, np.ndarray]:
        """Return the contents of a checkpoint: the state, and the observations so far."""
        first = self._rows[0] if self._rows else self._observe()
        observed = {
            f"seen_{name}": np.array([row[name] for row in self._rows]).reshape(
                len(self._rows), *np.shape(value)
            )
            for name, value in first.items()
        }
        return {**self.state, **observed, "times": np.array(self.times, np.int64)}

    def resume(self, contents: Mapping[str, np.ndarray]) -> None:
        """Go back to where `contents` was called."""
        self.restore(contents)
        self.times = contents["times"].tolist()
        observed = {name: contents[f"seen_{name}"] for name in self._observe()}
        self._rows = [{name: column[k] for name, column in observed.items()} for k in range(len(self.times))]


def unscaled_rule(step: Optimizer, options: StepOptions, shape: tuple[int, ...]) -> Rule:
    """Return the rule of a block, with lower rates after the milestones."""
    rule = Rule.unscaled(step, options.steps, shape)
    return replace(rule, rates=driver.lower_rates(rule.rates, options.milestones))


def _together(pulls: Sequence[Pull]) -> Pull:
    """Return one pull on several blocks, one after another."""
    if len(pulls) == 1:
        return pulls[0]
    top = max(pull.log_scale for pull in pulls)
    if math.isinf(top):
        return Pull(np.concatenate([np.zeros(pull.vector.size) for pull in pulls]))
    return Pull(np.concatenate([math.exp(pull.log_scale - top) * pull.vector.ravel() for pull in pulls]), top)
