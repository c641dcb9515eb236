"""Normalised steps of a next-token problem: along its edges where that form is exact, else as any problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax.dynamics.blocks import Rule, Trainer
from hardmax.dynamics.edges.fluxes import (
    Scratch,
    along_edges,
    edge_loop,
    edges_of,
    fill_log_fluxes,
    gather,
    layout_of_edges,
)
from hardmax.dynamics.forces import EXPONENTS, LEFT_FORM, MOVES, STATIONARY, V, Workspace
from hardmax.dynamics.gradient import Gradient, pull_of, settle_at
from hardmax.dynamics.loop import PAUSED
from hardmax.dynamics.optim import Normalized
from hardmax.problem import Problem
from hardmax.problem.coordinates import Scale
from hardmax.problem.problem import Slots, slots_of
from hardmax.problem.readouts import Floats

WINDOW = 2**20  # steps whose rates are held at a time, so that memory does not grow with the steps


class EdgeSteps:
    """The gradient of a next-token problem at any p, and normalised steps from it.

    Where the edge form does not apply, to the problem or at a point, the gradient is that of any problem.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.relations import collocation
    >>> from hardmax.nexttoken.stages import stage_1
    >>> from hardmax.dynamics.edges.steps import EdgeSteps
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> steps = EdgeSteps(samples.problem(stage_1(collocation(samples), 10, 0.1)))
    >>> p = np.zeros(2)
    >>> steps.descend(p, rate=1.0, steps=2), p.round(6).tolist()
    ((2, 0), [1.414214, -1.414214])
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.edges = problem, edges_of(problem)
        head = problem.readout.cross_entropy
        self.margin = 0.0 if head is None or head.W_ov.margin is None else head.W_ov.margin
        self._G = np.empty(problem.d)

    @cached_property
    def room(self) -> Scratch:
        """Scratch of the kernels."""
        assert self.edges is not None
        return Scratch.of(self.edges)

    @cached_property
    def _slots(self) -> Slots:
        return slots_of(self.problem)

    def along_edges(self, p: Floats) -> Gradient | None:
        """Minus the gradient from the edges' fluxes; None where that form is not exact."""
        if self.edges is None or not fill_log_fluxes(self.edges, p, self.margin, self.room):
            return None
        log_scale, length = gather(self.edges, self.room.log_flux, self._G)
        if not length > 0.0:
            return Gradient(np.zeros_like(self._G), -math.inf)
        return Gradient(self._G / -length, log_scale + math.log(self.margin) - self.margin + math.log(length))

    def plain(self, p: Floats) -> Gradient:
        """Minus the gradient as for any problem."""
        return pull_of(settle_at(self.problem, p, self._slots), self.problem.table, self.problem.total)

    def descend(self, p: Floats, rate: float, steps: int) -> tuple[int, int]:
        """Take normalised steps in place: how many, fewer only at a zero gradient, and how many were plain.

        The form depends on the point alone, so a run in pieces gives the same bits as one in one go.
        """
        found = self.train(p, rate, np.array([0, steps]))
        return found.taken, found.plain

    def train(
        self,
        p: Floats,
        rate: float,
        record: np.ndarray,
        *,
        piece: int = 0,
        told: Callable[[int], bool] | None = None,
    ) -> StepsTaken:
        """Take normalised steps of one rate in place, and keep the points that ``record`` names.

        ``told`` is called with the number of steps since the last call, 0 at first, about every ``piece``
        steps; the run ends if it says True.
        """
        done, plain, stopped, points = 0, 0, False, np.empty((len(record), len(p)))

        def asked(taken: int) -> bool:
            nonlocal stopped
            stopped = told is not None and (taken > 0 or done == 0) and told(taken)
            return stopped

        while True:
            ahead = min(WINDOW, int(record[-1]) - done)
            rule = Rule.of(Normalized(rate), ahead, Scale(self.problem, 0))
            here = (record > done - (done == 0)) & (record <= done + ahead)
            kept = np.union1d(record[here] - done, ahead)
            found = self._taken(p, rule, kept, piece, asked if told else None)
            points[here] = found.points[: here.sum()]
            done, plain = done + found.taken, plain + found.plain
            if stopped or found.taken < ahead or done == record[-1]:
                points[record > done] = p
                return StepsTaken(points, found.event, done, plain)

    def loop(
        self,
        problem: Problem,
        p: Floats,
        rule: Rule,
        record: np.ndarray,
        wanted: object,
        batch: int,
        watch: object,
    ) -> tuple[np.ndarray, str | None]:
        """Normalised steps as `train` asks for them: points and event."""
        found = self._taken(p, rule, record)
        return found.points, found.event

    def _taken(
        self,
        p: Floats,
        rule: Rule,
        record: np.ndarray,
        piece: int = 0,
        told: Callable[[int], bool] | None = None,
    ) -> StepsTaken:
        """Along the edges as long as their form is exact, then as any problem until it is again."""
        done, plain, along, points = 0, 0, self.edges is not None, np.empty((len(record), len(p)))
        ends = told is not None and told(0)
        while True:
            ahead = record[record >= done] - done
            kept = ahead if ahead[0] == 0 else np.append(0, ahead)
            some = self._trainer(p, replace(rule, rates=rule.rates[done:]), kept, along)
            while not ends and some.status == PAUSED:
                before = some.taken
                some.run(before + piece if told else -1)
                ends = told is not None and told(some.taken - before)
            points[len(record) - len(ahead) :] = some.rows[len(kept) - len(ahead) :]
            done, plain = done + some.taken, plain + (0 if along else some.taken)
            if ends or some.status != LEFT_FORM:
                return StepsTaken(points, some.event, done, plain)
            along = not along

    def _trainer(self, p: Floats, rule: Rule, record: np.ndarray, along: bool) -> Trainer:
        if along:
            assert self.edges is not None
            layout = layout_of_edges(self.edges, self.margin)
            return Trainer(along_edges, layout, p, [rule], record, slots=0, n=1, loop=edge_loop)
        return Trainer(self._plain_force, None, p, [rule], record, slots=0, n=1)

    def _plain_force(self, _: Any, p: Floats, work: Workspace) -> int:
        """`forces.dense` for any problem, where the edge form is not exact."""
        exact = self.along_edges(p)
        if exact is not None and not exact.is_stationary:
            return LEFT_FORM
        pull = self.plain(p)
        work.vectors[V], work.vectors[EXPONENTS], work.lengths[0] = pull.direction, pull.log_norm, 1.0
        return STATIONARY if pull.is_stationary else MOVES


class StepsTaken(NamedTuple):
    """Points at the steps kept, what happened, how many steps were taken, and how many of them plain."""

    points: np.ndarray
    event: str | None
    taken: int
    plain: int
