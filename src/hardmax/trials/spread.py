"""Batches on a backend: submit, wait, and try again those whose worker died."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hardmax._lib.pool import WorkerDied
from hardmax.trials.backends import Backend, Handle, check_place, open_backend
from hardmax.trials.grid import cell_key, seeds
from hardmax.trials.provenance import load, source_hash
from hardmax.trials.work import DONE, FAILED, Batch, First, Job, TrialOutcome

RETRIES = 2  # of a cell of `spread` whose worker died
BEAT = 1.0  # seconds to wait for a batch before looking at the backend again
LOST = "the worker died while it ran this trial"


class _Flight(NamedTuple):
    """A batch under way: how often its worker died, and how often while it held this trial alone."""

    batch: Batch
    deaths: int = 0
    alone: int = 0


@dataclass(eq=False)
class Flights:
    """The batches under way on a backend.

    A batch whose worker died is halved, which finds the guilty trial with the fewest further deaths and is a
    retry of the others; a trial alone is tried again ``retries`` times and then recorded as failed.

    Args:
        pool: where they run.
        take: the next batch, or None if there is none now.
        seed: root of all seeds.
        retries: how often to try a trial again.
        first: what keeps the other workers waiting while the first compiles.
    """

    pool: Backend
    take: Callable[[], Batch | None]
    seed: int
    retries: int
    first: First = field(default_factory=lambda: First(alone=False))
    _again: deque[_Flight] = field(default_factory=deque)
    _under_way: dict[Handle, _Flight] = field(default_factory=dict)

    def fill(self) -> bool:
        """Submit as many batches as the backend takes; return whether any is under way."""
        while len(self._under_way) < (1 if self.first.is_alone() else self.pool.capacity):
            if self._again:
                flight = self._again.popleft()
            elif (batch := self.take()) is not None:
                flight = _Flight(batch)
            else:
                break
            self._under_way[self.pool.submit(flight.batch)] = flight
        return bool(self._under_way)

    def settle(self, seconds: float) -> Iterator[tuple[Batch, list[TrialOutcome], int]]:
        """Wait some seconds for a batch to end; yield those that have, with outcomes and number of attempts.

        A batch whose outcomes are not taken to the end is settled again by the next call.
        """
        for handle in wait(self._under_way, seconds, FIRST_COMPLETED).done:
            flight = self._under_way[handle]
            outcomes: list[TrialOutcome] | None
            try:
                outcomes = self.pool.report(handle)
            except WorkerDied as death:
                outcomes = self._again_or_lost(flight, str(death))
            if outcomes is not None:
                yield flight.batch, outcomes, flight.deaths + 1
            del self._under_way[handle]
            self.first.ends()

    def _again_or_lost(self, flight: _Flight, how: str) -> list[TrialOutcome] | None:
        """Queue a batch whose worker died again; the outcome of its only trial if that was tried enough."""
        batch, deaths, alone = flight
        if len(batch) > 1:
            self._again.extendleft(_Flight(half, deaths + 1) for half in batch.halves())
        elif alone < self.retries:
            self._again.appendleft(_Flight(batch, deaths + 1, alone + 1))
        else:
            (seed,) = seeds(self.seed, cell_key(batch.parameters), batch.start, batch.stop)
            return [TrialOutcome(batch.start, seed, FAILED, None, LOST, how, float("nan"))]
        return None


def spread(
    name: str,
    cells: Iterable[Mapping[str, Any]],
    *,
    backend: str,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any] | None]]:
    """Yield each cell with the row that "module:function" returns for it, in order, without a store.

    The row is None if the function raised, or if its worker died in each of RETRIES more attempts. No more
    cells are under way than workers can take, in addition to those that wait for their turn.

    Args:
        name: the function of parameters and a seed, which it may ignore.
        cells: what it is called with.
        backend: as for `sweep`.
        address: address of the cluster to join.
        workers: number of processes; default: one per core.
    """
    check_place(backend, address)
    pool = open_backend(backend, Job(name, source_hash(load(name)), False, 0), workers, address)
    waiting: deque[Batch] = deque()
    ready: dict[int, dict[str, Any] | None] = {}
    rest = enumerate(cells)

    def take() -> Batch | None:
        if len(waiting) >= 2 * pool.capacity or (cell := next(rest, None)) is None:
            return None
        waiting.append(Batch(cell[0], dict(cell[1]), 0, 1))
        return waiting[-1]

    flights = Flights(pool, take, 0, RETRIES)
    try:
        while flights.fill() or waiting:
            while waiting and waiting[0].cell in ready:
                batch = waiting.popleft()
                yield batch.parameters, ready.pop(batch.cell)
            for batch, (outcome,), _ in flights.settle(BEAT):
                ready[batch.cell] = json.loads(outcome.row or "") if outcome.status == DONE else None
    finally:
        pool.close()
