"""Models: what `hm.train` and `hm.flow` take where it is not p of a `Problem`.

A model names its blocks and says how they are trained; `problem.joint()`, `problem.matrix(prompt)`,
`problem.factors(rank)` and `decomposition.remainder` make the models of this file, `corpus.model` and
`samples.model` those of papers A and C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from hardmax.dynamics.driver import NOTHING, RunWatch
from hardmax.dynamics.factors import FactorRun, train_factors
from hardmax.dynamics.joint import train_both
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.optim.base import need_optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.vector import WeightRun, train_p, train_W
from hardmax.problem import Problem

Optimizers = Optimizer | tuple[Optimizer, Optimizer] | Mapping[str, Optimizer]
Record = int | Sequence[int] | None
STEPS = 1000  # unless the caller says how many
WATCHED = RunWatch._fields  # options of every model here


def known_options(model: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse options of other models."""
    for name in given:
        if name not in known:
            raise TypeError(f"{name} is not an option for {model}; the options are {', '.join(known)}")


def watched(options: Mapping[str, Any]) -> dict[str, Any]:
    """Put what a run is watched for into one option."""
    rest = {name: x for name, x in options.items() if name not in WATCHED}
    watch = RunWatch(**{name: options[name] for name in WATCHED if name in options})
    return rest if watch == NOTHING else {**rest, "watch": watch}


class Model:
    """What is trained: named ``blocks``, and how steps of an optimizer move them.

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
            if sorted(optimizer) != sorted(self.blocks):
                raise ValueError(f"optimizer must have the blocks {self.blocks}, got {tuple(optimizer)}")
            optimizer = [optimizer[name] for name in self.blocks]
        elif not isinstance(optimizer, tuple | list):
            optimizer = [optimizer] * len(self.blocks)
        if len(optimizer) != len(self.blocks):
            raise ValueError(
                f"optimizer must be one, or one for each of {self.blocks}, got {len(optimizer)} of them"
            )
        return tuple(
            need_optimizer(each, f"optimizer of {name}")
            for name, each in zip(self.blocks, optimizer, strict=True)
        )


@dataclass(frozen=True, eq=False)
class OfProblem(Model):
    """A model with the inputs of a problem."""

    problem: Problem

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem!r})"


class Joint(OfProblem):
    """p and the readout's v, each with its own steps; the ratio of the rates matters (B-NEW-1).

    >>> import hardmax as hm
    >>> model = hm.data.example("B-FIG-3a").joint()
    >>> steps = {"p": hm.optim.Normalized(lr=0.1), "v": hm.optim.Normalized(lr=0.2)}
    >>> hm.train(model, steps, steps=100).v_points[-1].round(2).tolist()
    [0.22, 19.86]
    """

    blocks = ("p", "v")

    def _train(
        self,
        optimizer: Optimizers,
        *,
        steps: int = STEPS,
        start: Any = None,
        record: Record = None,
        **options: Any,
    ) -> Run:
        """Train p and v; p starts at ``start``, v at the problem's readout."""
        known_options("p and v", options, ("coordinates", "batch", *WATCHED))
        p, v = self.each(optimizer)
        return train_both(self.problem, p, v, steps, start=start, record=record, **watched(options))


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(OfProblem):
    """W, where the keys are W x of the values x, trained with the prompt u.

    >>> import hardmax as hm
    >>> hm.data.sphere(n=2, T=3, d=4, rng=0).matrix(prompt=[1, 0, 0, 0]).blocks
    ('W',)
    """

    prompt: Any = None

    blocks = ("W",)

    def _train(
        self,
        optimizer: Optimizers,
        *,
        steps: int = STEPS,
        start: Any = None,
        record: Record = None,
        **options: Any,
    ) -> WeightRun:
        """Train W from ``start``, the problem's own W by default."""
        known_options("W", options, ("coordinates", *WATCHED))
        (step,) = self.each(optimizer)
        return train_W(
            self.problem, step, steps, prompt=self.prompt, start=start, record=record, **watched(options)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Factors(OfProblem):
    """K and Q with ``rank`` columns each, where W = K Q' is what the inputs with queries see.

    One optimizer moves both together; a pair, or one by name, moves each by itself (docs/how-to/queries.md).

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]])
    >>> problem.factors(rank=1).blocks
    ('K', 'Q')
    """

    rank: Any = None

    blocks = ("K", "Q")

    def _train(
        self,
        optimizer: Optimizers,
        *,
        steps: int = STEPS,
        start: Any = None,
        record: Record = None,
        **options: Any,
    ) -> FactorRun:
        """Train K and Q from ``start``, a pair that has no default."""
        known_options("K and Q", options, ("coordinates", "batch", *WATCHED))
        by: Any = self.each(optimizer) if isinstance(optimizer, Mapping | tuple | list) else optimizer
        return train_factors(
            self.problem, by, steps, factors=self.rank, start=start, record=record, **watched(options)
        )


class Decomposed(Protocol):
    """What training needs of a decomposition; see `hm.decompose`."""

    @property
    def problem(self) -> Problem:
        """What was decomposed."""

    @property
    def late(self) -> Problem:
        """What is left to train."""

    @property
    def p_fin(self) -> np.ndarray | None:
        """The finite part."""

    def parts(self, p: Any) -> tuple[np.ndarray, np.ndarray]:
        """The part of p among the bound rows, and the rest."""


@dataclass(frozen=True, eq=False)
class Remainder(Model):
    """p = p_fin + r, where r moves by the separable rows alone (D-ALG-2).

    On data that do not separate, the pulls of bound rows cancel to rounding near p_fin, while those of
    separable rows weigh e^-margin: beyond margins of about 36 the gradient of the whole problem is noise. The
    problem that `hm.decompose` calls ``late`` has no bound rows, so nothing cancels in it at any norm.

    >>> import hardmax as hm
    >>> parts = hm.decompose(hm.data.example("cycle"))
    >>> hm.train(parts.remainder, hm.optim.Normalized(lr=0.1), steps=100).method
    'normalised gradient descent beside p_fin'
    """

    decomposition: Decomposed

    blocks = ("p",)

    @property
    def problem(self) -> Problem:
        """What was decomposed."""
        return self.decomposition.problem

    def _train(
        self,
        optimizer: Optimizers,
        *,
        steps: int = STEPS,
        start: Any = None,
        record: Record = None,
        **options: Any,
    ) -> Run:
        """Train r by an optimizer that does not leave its space."""
        known_options("a remainder", options, ("coordinates", *WATCHED))
        (step,) = self.each(optimizer)
        if not step.in_span:
            raise ValueError(
                f"optimizer must stay in the span of the keys, got {type(step).__name__}, which would move "
                "the finite part too; choose GD or Normalized, or train the problem"
            )
        begin = self._beside(start)
        return self._lifted(
            train_p(self.decomposition.late, step, steps, start=begin, record=record, **watched(options))
        )

    def _flow(self, *, start: Any = None, **options: Any) -> Run:
        """Follow the flow of r; ends and lengths are those of r."""
        from hardmax.dynamics.flow import flow

        return self._lifted(flow(self.decomposition.late, start=self._beside(start), **options))

    def _beside(self, start: Any) -> np.ndarray | None:
        """Where r begins: what a start has besides its bound part, which is p_fin from now on."""
        return None if start is None else self.decomposition.parts(start)[1]

    def _lifted(self, run: Run) -> Run:
        """The run of r as one of p = p_fin + r on the whole problem."""
        p_fin = self.decomposition.p_fin
        assert p_fin is not None, "a problem has a late one only with its p_fin"
        points = np.asarray(run.points) + p_fin
        return replace(run, source=self.problem, points=points, method=f"{run.method} beside p_fin")
