"""Normalised steps of a next-token problem: along its edges where that form is exact, else as any problem."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from hardmax.dynamics.edges.fluxes import Scratch, descend_edges, edges_of, fill_log_fluxes, gather
from hardmax.dynamics.gradient import Gradient, pull_of, settle_at
from hardmax.dynamics.loops import STATIONARY
from hardmax.dynamics.schedule import EVENTS, Rule
from hardmax.problem import Problem
from hardmax.problem.problem import Slots, slots_of
from hardmax.problem.readouts import Floats


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
    >>> steps.descend(p, steps.optim.Normalized(0.1), rate=1.0, steps=2), p.round(6).tolist()
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
        taken, plain = 0, 0
        while taken < steps:
            if self.edges is not None:
                taken += descend_edges(self.edges, p, self.margin, rate, steps - taken, self.room, self._G)
            if taken < steps:
                pull = self.plain(p)
                if pull.is_stationary:
                    break
                p += rate * pull.direction
                taken, plain = taken + 1, plain + 1
        return taken, plain

    def loop(
        self, problem: Problem, p: Floats, rule: Rule, record: np.ndarray, wanted: object, batch: int
    ) -> tuple[np.ndarray, str | None]:
        """Normalised steps as `train` asks for them: points and event."""
        points, done = np.empty((len(record), problem.d)), 0
        for k, until in enumerate(record.tolist()):
            while done < until:
                same = 1  # steps of one rate go in one call
                while done + same < until and rule.rates[done + same] == rule.rates[done]:
                    same += 1
                taken, _ = self.descend(p, float(rule.rates[done]), same)
                done += taken
                if taken < same:
                    points[k:] = p
                    return points, EVENTS[STATIONARY]
            points[k] = p
        return points, None
