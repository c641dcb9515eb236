"""Attention as a parameter: any link from logits to attention, one or several of them, on a problem's inputs.

A link returns each input's prediction at some logits, and the derivative by every logit as a sign and a
logarithm, so that the direction of the gradient is right at any norm. `Softmax` is the link of every other
model; there the compiled forces take its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.driver import Rule, Trainer, need_batch
from hardmax.dynamics.forces import MOVES, STATIONARY, STEP, Workspace, log_weights, set_pull
from hardmax.dynamics.gradient import Gradient, unit
from hardmax.dynamics.loop import BY_RULE
from hardmax.dynamics.models import SteppedModel, Steps
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.softmax import DEEP, DEPTH, LOG_MASS, LOG_SCALE, U, settle
from hardmax.dynamics.stepping import sum_by_coordinate
from hardmax.problem import Problem


class Logits(NamedTuple):
    """Argument of a link: one entry per token of every input, the inputs one after the other."""

    logits: np.ndarray  # k.p of every token; for a relative link the gap to the largest of its input
    scores: np.ndarray  # contribution of a token to the prediction per unit of attention
    counts: np.ndarray  # how often it occurs
    offsets: np.ndarray  # (n + 1,) where the inputs begin
    tops: np.ndarray  # (n,) the token of the largest logit of each input

    def sum(self, x: np.ndarray) -> np.ndarray:
        """Return sums over the tokens of each input."""
        return np.asarray(np.add.reduceat(x, self.offsets[:-1]))


class Attended(NamedTuple):
    """Result of a link: predictions, and their derivatives by the logits as logarithms and signs.

    >>> import numpy as np, hardmax as hm
    >>> result = hm.dynamics.Attended(np.array([0.5]), np.log([0.25, 0.25]), np.array([1.0, -1.0]))
    >>> (result.signs * np.exp(result.logs)).tolist()   # d prediction / d logit
    [0.25, -0.25]
    """

    predictions: np.ndarray  # (n,)
    logs: np.ndarray  # log of the size of d prediction / d logit, -inf where it is zero
    signs: np.ndarray  # its sign


class Link:
    """How attention follows from logits; write `attend`.

    >>> import numpy as np, hardmax as hm
    >>> class Exponential(hm.dynamics.Link):
    ...     def attend(self, at):
    ...         terms = at.counts * at.scores * np.exp(at.logits)
    ...         logs = np.log(at.counts * np.abs(at.scores)) + at.logits
    ...         return hm.dynamics.Attended(at.sum(terms), logs, np.sign(at.scores))
    >>> model = hm.Problem([[[1.0], [0.5]]], [[1.0, 2.0]]).with_attention(Exponential())
    >>> model.gradient([0.0]).direction.tolist(), round(model.loss([0.0]), 6)
    ([1.0], 0.048587)
    """

    is_relative = False  # whether a number added to all logits of an input changes nothing

    def attend(self, at: Logits) -> Attended:
        """Return predictions and their derivatives by the logits."""
        raise NotImplementedError(f"{type(self).__name__} has no attend: write it, as hm.dynamics.Link shows")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Softmax(Link):
    """The attention of transformers, relative to the largest logit of each input.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> model = problem.with_attention(hm.dynamics.Softmax())
    >>> abs(model.loss([3.0, 1.0]) - hm.loss(problem, [3.0, 1.0])) < 1e-15
    True
    """

    is_relative = True

    def attend(self, at: Logits) -> Attended:
        """Return the weights of all tokens but the top ones, whose own are minus the sum of the others'."""
        weights, inputs = np.empty(len(at.logits)), np.zeros((DEEP + 1, len(at.tops)))
        settle(at.logits, at.tops, at.scores, at.counts, at.offsets, 0.0, weights, inputs)
        inputs[DEEP], inputs[LOG_SCALE] = inputs[DEPTH], inputs[DEPTH] - inputs[LOG_MASS]
        logs, signs = np.empty(len(at.logits)), np.empty(len(at.logits))
        log_weights(at.logits, at.tops, at.scores, at.counts, at.offsets, inputs, logs, signs)
        return Attended(inputs[U], logs, signs)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRun(Run):
    """A training of `with_attention`: ``heads`` holds every p at every snapshot, (S, heads, d).

    Points, norms and selections are those of the first head, losses those of the model.

    >>> import hardmax as hm
    >>> model = hm.data.example("B-FIG-8").with_attention([hm.dynamics.Softmax()] * 2)
    >>> run = hm.train(model, hm.optim.GD(lr=0.1), steps=10)
    >>> run.heads.shape, bool((run.heads[:, 0] == run.points).all())
    ((11, 2, 2), True)
    """

    model: AttentionModel | None = None

    @property
    def heads(self) -> np.ndarray:
        """Every p at every snapshot."""
        return self.observed["heads"]


@dataclass(frozen=True, eq=False)
class AttentionModel(SteppedModel):
    """One p for each link, on the inputs of a problem with fixed scores; the predictions of heads add up.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> model = problem.with_attention(hm.dynamics.Softmax())
    >>> run = hm.train(model, hm.optim.Normalized(0.1), steps=100)
    >>> bool(abs(run.p - hm.train(problem, hm.optim.Normalized(0.1), steps=100).p).max() < 1e-12)
    True
    """

    problem: Problem
    links: tuple[Link, ...]

    title, moves_together = "a problem with attention", True

    def __post_init__(self) -> None:
        if not self.links or not all(isinstance(link, Link) for link in self.links):
            raise TypeError(f"links must be hardmax.dynamics.Link objects, got {self.links!r:.60}")
        if self.problem.readout.moves or self.problem.readout.in_log is not None:
            raise ValueError(
                "with_attention needs a problem with fixed scores and a loss of the prediction; make it with "
                "Problem(keys, scores), from_values or from_tokens"
            )

    def __repr__(self) -> str:
        return f"AttentionModel({self.problem!r}, {', '.join(map(repr, self.links))})"

    @property
    def blocks(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the blocks: p, or p0, p1, ... of several heads."""
        return ("p",) if len(self.links) == 1 else tuple(f"p{h}" for h in range(len(self.links)))

    def loss(self, p: Any) -> float:
        """Return the average loss at p, of all heads one after the other."""
        u = sum(head.predictions for head, _ in self._attended(self._point(p)))
        return self.problem.average(self.problem.loss.value(np.asarray(u)))

    def gradient(self, p: Any) -> Gradient:
        """Return minus the gradient by p, of all heads one after the other: direction and log of its norm."""
        direction, exponents, _ = self._pull(self._point(p))
        top = float(exponents[direction != 0.0].max(initial=-math.inf))
        return unit(_at(direction, exponents, top), top)

    def _point(self, p: Any) -> np.ndarray:
        return expect.finite_array("p", p, (len(self.links) * self.problem.d,))

    @cached_property
    def _counts(self) -> np.ndarray:
        counts = self.problem.counts
        return np.ones(len(self.problem.tokens)) if counts is None else np.asarray(counts, dtype=np.float64)

    def _attended(self, x: np.ndarray) -> list[tuple[Attended, np.ndarray]]:
        """Return the result of every link, and the rows that its derivatives multiply."""
        problem, heads = self.problem, []
        per_slot = np.repeat(np.arange(problem.n), np.diff(problem.offsets))
        for link, p in zip(self.links, x.reshape(len(self.links), problem.d), strict=True):
            gaps, tops = problem.table.gaps(problem.tokens, problem.offsets, np.ascontiguousarray(p))
            rows = problem.keys[problem.tokens]
            logits = gaps if link.is_relative else rows @ p
            rows = rows - rows[tops][per_slot] if link.is_relative else rows
            at = Logits(logits, np.asarray(problem.scores), self._counts, problem.offsets, tops)
            heads.append((link.attend(at), rows))
        return heads

    def _pull(self, x: np.ndarray, inside: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, float]:
        """Minus the gradient as V exp(exponents), and the loss; ``inside`` names the inputs of a batch."""
        problem, heads = self.problem, self._attended(x)
        u = np.asarray(sum(head.predictions for head, _ in heads))
        factor = problem.loss.log_slopes(u) + problem.log_weights
        total = problem.total
        if inside is not None:
            factor = np.where(inside, factor, -np.inf)
            total = float(inside.sum()) if problem.weights is None else total
        per_slot = np.repeat(factor - math.log(total), np.diff(problem.offsets))
        parts = [sum_by_coordinate(head.logs + per_slot, head.signs, rows) for head, rows in heads]
        direction, exponents = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        return direction, exponents, problem.average(problem.loss.value(u))

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Any:
        """Train all heads: by one optimizer together, or by one for each."""
        self._need_primal(steps.coordinates)
        problem, heads, d = self.problem, len(self.links), self.problem.d
        problem.need_decreasing_loss()
        x = np.zeros(heads * d) if steps.start is None else np.array(self._point(np.ravel(steps.start)))
        rules = [Rule.unscaled(optimizer, steps.count, (d,)) for optimizer in optimizers]
        n, batch = problem.n, need_batch(problem.n, steps.batch)

        def force(_: Any, at: np.ndarray, work: Workspace) -> int:
            inside = (np.arange(n) - work.clock[STEP] * batch) % n < batch if batch else None
            direction, exponents, _loss = self._pull(at, inside)
            for b, rule in enumerate(rules):
                block = slice(work.bounds[b], work.bounds[b + 1])
                part, powers = direction[block], exponents[block]
                if rule.kind == BY_RULE and rule.step.by_coordinate:
                    set_pull(work, b, part, powers, float(part.any()))
                else:
                    top = float(powers[part != 0.0].max(initial=-math.inf))
                    set_pull(work, b, _at(part, powers, top), top)
            return MOVES if work.lengths.any() else STATIONARY

        sizes = [d] * heads if len(rules) == heads else None
        trainer = Trainer(force, None, x, rules, steps.record, sizes=sizes, slots=0, n=n, batch=batch)
        steps.watch.run(trainer, lambda: self.loss(x), problem)
        points = trainer.points.reshape(-1, heads, d)
        losses = np.array([self.loss(point.ravel()) for point in points])
        names = sorted({optimizer.name for optimizer in optimizers})
        method = f"{', '.join(names)} through {', '.join(map(repr, self.links))}"
        more: dict[str, Any] = {"optimizer": optimizers[0] if len(optimizers) == 1 else None, "model": self}
        more |= {"method": method, "observed": {"losses": losses, "heads": points}}
        return steps.result(AttentionRun, problem, points[:, 0], trainer.event, **more)


def _at(direction: np.ndarray, exponents: np.ndarray, top: float) -> np.ndarray:
    """Return direction * exp(exponents - top), zero where the direction is."""
    with np.errstate(invalid="ignore"):
        return np.where(direction != 0.0, direction * np.exp(np.minimum(exponents - top, 0.0)), 0.0)
