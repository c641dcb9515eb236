"""`hm.sweep`: a function of (parameters, seed) over a grid times many trials."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.pool import WorkerDied
from hardmax._lib.progress import Progress
from hardmax.trials.backends import Backend, check_place, open_backend
from hardmax.trials.backends.local import Here
from hardmax.trials.grid import Grid, cell_key, seeds
from hardmax.trials.plan import BUILT_IN, built_in_cells
from hardmax.trials.provenance import Function, identity, named, provenance, refuse_while_loading, source_hash
from hardmax.trials.results import Sweep
from hardmax.trials.store import Store
from hardmax.trials.work import (
    FAILED,
    Batch,
    First,
    Job,
    Pace,
    Report,
    Sizes,
    TrialClock,
    TrialOutcome,
    report,
)

MOST = 10**15  # trials of a cell
WORKERS = 10_000
BATCH = 1_000_000  # trials, whose rows are held in memory
BEAT = 1.0  # seconds after which progress is reported although no batch has ended
LOST = "the worker died while it ran this trial"


@check_arguments
def sweep(
    function: Function | str,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    trials: int,
    *,
    store: str | os.PathLike[str] | None = None,
    rng: int = 0,
    batched: bool = False,
    backend: str = "local",
    address: str | None = None,
    workers: int | None = None,
    batch: int | None = None,
    retries: int = 2,
    progress: Progress | None = None,
    data_files: Iterable[str | os.PathLike[str]] = (),
    retry_failed: bool = False,
    allow_changes: bool = False,
) -> Sweep:
    """Run ``function(parameters, seed)`` for each cell of ``grid``, ``trials`` times, and keep the rows.

    A built-in experiment is given by its name: "sphere" and "gaussian" train on random problems, "optimizers"
    compares optimizers on them, and the id of a figure, such as "B-FIG-8", trains from random starts.

    Your own function returns a dict of scalars (bool, int, float, str or None). With ``batched`` it is called
    as ``function(parameters, seeds)`` for several trials of one cell and returns a list of such dicts; a row
    must not depend on which seeds come with its own. Workers find the function by its name, so it has to
    stand in a file; "module:name" and "path/to/file.py:name" will do too. A lambda, or a function of a
    notebook, runs in this process with ``workers=0``.

    A trial's seed follows from the root ``rng``, the cell's parameters and the trial's number alone (see
    `hardmax.trials.grid`). Every worker uses one thread. A trial that raises is recorded as failed.

    Args:
        function: a function, "module:name", "path/to/file.py:name", or the name of a built-in experiment.
        grid: names to lists of values (all combinations), or a list of cells.
        trials: number of trials per cell.
        store: a file that keeps the results; if it exists, only what is missing is run, and more cells and
            more trials extend it. Without one the results are kept in memory.
        rng: root of all seeds, which the store keeps.
        batched: the function takes several trials of a cell at once.
        backend: "local", "dask" or "ray"; these two start a cluster on this machine, or join another.
        address: of the cluster to join.
        workers: processes, one for each core by default.
        batch: trials in a batch; by default as many as take about half a second. Results do not depend on it.
        retries: how often a trial whose worker died is tried again.
        progress: called as ``progress(done, total)`` after each batch, and every second while none ends;
            ``done`` includes failed trials. An exception that it raises stops the sweep.
        data_files: what the function reads, so that a change of it is noticed.
        retry_failed: run failed trials of the store again.
        allow_changes: go on although code, libraries or data files changed.

    >>> import random
    >>> import hardmax as hm
    >>> def toss(parameters, seed):
    ...     return {"heads": random.Random(seed).random() < parameters["bias"]}
    >>> result = hm.sweep(toss, {"bias": [0.1, 0.5]}, trials=200, workers=0)
    >>> [str(cell.of["heads"]) for cell in result.summary()]
    ['12 of 200 (3.1% to 10.2%)', '105 of 200 (45.3% to 59.6%)']
    """
    watch = None if progress is None else lambda pace: progress(pace.done + pace.failed, pace.total)
    return watched_sweep(
        function,
        grid,
        trials,
        store=store,
        rng=rng,
        batched=batched,
        backend=backend,
        address=address,
        workers=workers,
        batch=batch,
        retries=retries,
        watch=watch,
        data_files=data_files,
        retry_failed=retry_failed,
        allow_changes=allow_changes,
    )


def watched_sweep(
    function: Function | str,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    trials: int,
    *,
    store: str | os.PathLike[str] | None = None,
    rng: int = 0,
    batched: bool = False,
    backend: str = "local",
    address: str | None = None,
    workers: int | None = None,
    batch: int | None = None,
    retries: int = 2,
    watch: Callable[[Pace], object] | None = None,
    data_files: Iterable[str | os.PathLike[str]] = (),
    retry_failed: bool = False,
    allow_changes: bool = False,
) -> Sweep:
    """Run a sweep as `sweep` does; ``watch`` also receives the rate and the seconds that remain."""
    refuse_while_loading()
    trials = _at_most(MOST, "trials", expect.whole("trials", trials, 1))
    seed = expect.whole("rng", rng)
    retries = expect.whole("retries", retries)
    workers = None if workers is None else _at_most(WORKERS, "workers", expect.whole("workers", workers))
    sizes = Sizes(None if batch is None else _at_most(BATCH, "batch", expect.whole("batch", batch, 1)))
    if isinstance(function, str) and ":" not in function:
        function, grid, batched = BUILT_IN, built_in_cells(function, grid), True
    cells = Grid(grid)
    made, name = named(function)
    _check_place(name, backend, workers, address)
    record = provenance(made, data_files)
    opened = Store.drive(store)
    try:
        plan = {"function": identity(made, name), "load": name, "seed": seed, "batched": bool(batched)}
        session = opened.begin(plan, cells, trials, record, allow_changes)
        done, failed = opened.counts()
        failed = 0 if retry_failed else failed
        total = trials * opened.cell_count
        if done + failed < total:
            if workers == 0 or name is None:
                pool: Backend = Here(made, bool(batched), seed)
            else:
                job = Job(name, source_hash(made), bool(batched), seed)
                pool = open_backend(backend, job, workers, address)
            clock = TrialClock(done, failed, total)
            try:
                first = First(alone=address is None and not isinstance(pool, Here))
                drive = _Drive(opened, session, pool, sizes, clock, watch, seed, retries, first)
                drive.run(_missing(opened, trials, sizes, retry_failed))
            finally:
                pool.close()
        opened.end(session)
    except BaseException:
        opened.close()
        raise
    if opened.path is None:
        return Sweep(opened, made)
    opened.close()
    return replace(Sweep.open(opened.path), function=made)


def _at_most(most: int, name: str, value: int) -> int:
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {expect._short(value)}")
    return value


def _check_place(name: str | None, backend: str, workers: int | None, address: str | None) -> None:
    """Refuse what cannot run there before a store is touched."""
    check_place(backend, address)
    if backend != "local" and workers == 0:
        raise ValueError(f"workers=0 means this process; the backend {backend} needs at least one worker")
    if name is None and workers != 0:
        raise ValueError(
            "function must be defined by name in a file, so that workers find it: not a lambda, not inside "
            "another function, not at a prompt. Move it to a file, or run it in this process with workers=0"
        )


def _missing(store: Store, trials: int, sizes: Sizes, again: bool) -> Iterator[Batch]:
    """Batches of what is still to run, cell by cell; each is cut when it is asked for."""
    for cell in range(store.cell_count):
        for start, stop in store.gaps(cell, trials, again):
            while start < stop:
                end = min(stop, start + sizes.next(cell))
                yield Batch(cell, store.parameters(cell), start, end)
                start = end


@dataclass(frozen=True, eq=False)
class _Flight:
    """A batch on its way: how often its worker died, and how often while it held this trial alone."""

    batch: Batch
    deaths: int = 0
    alone: int = 0


@dataclass(frozen=True, eq=False)
class _Drive:
    """The loop of the driver: submit, wait, record."""

    store: Store
    session: int
    pool: Backend
    sizes: Sizes
    clock: TrialClock
    watch: Callable[[Pace], object] | None
    seed: int
    retries: int
    first: First

    def run(self, missing: Iterator[Batch]) -> None:
        """Run all batches; if something stops this, record those that are finished and pass it on."""
        again: deque[_Flight] = deque()
        flights: dict[Any, _Flight] = {}
        try:
            while True:
                while len(flights) < (1 if self.first.is_alone() else self.pool.capacity):
                    flight = again.popleft() if again else _fly(next(missing, None))
                    if flight is None:
                        break
                    flights[self.pool.submit(flight.batch)] = flight
                if not flights:
                    return
                finished = self.pool.wait(flights, BEAT)
                for handle in finished:
                    self._settle(handle, flights[handle], again)
                    del flights[handle]
                    self.first.ends()
                if not finished:
                    self._count(0, 0)  # whoever watches may stop a sweep whose trials never end
        except BaseException:  # an interrupt, an error of a worker's machine, or what the callback raised
            silent = replace(self, watch=None)
            with suppress(Exception):
                for handle in self.pool.wait(flights, 0.0) if flights else ():
                    silent._settle(handle, flights[handle], again)
            raise

    def _settle(self, handle: Any, flight: _Flight, again: deque[_Flight]) -> None:
        batch = flight.batch
        try:
            said = self.pool.report(handle)
        except WorkerDied as death:
            if len(batch) > 1:
                # Halving finds the guilty trial with the fewest further deaths, and is a retry of the others.
                again.extendleft(_Flight(half, flight.deaths + 1) for half in batch.halves())
            elif flight.alone < self.retries:
                again.appendleft(_Flight(batch, flight.deaths + 1, flight.alone + 1))
            else:
                self._record(flight, report([self._lost(batch, str(death))]))
            return
        self.sizes.measure(batch.cell, len(batch), sum(outcome.seconds for outcome in said.outcomes))
        self._record(flight, said)

    def _record(self, flight: _Flight, said: Report) -> None:
        self.store.record(self.session, flight.batch.cell, said, flight.deaths + 1)
        failed = sum(outcome.status == FAILED for outcome in said.outcomes)
        self._count(len(said.outcomes) - failed, failed)

    def _count(self, done: int, failed: int) -> None:
        pace = self.clock.count(done, failed)._replace(compiling=self.first.compiles)
        if self.watch is not None:
            self.watch(pace)

    def _lost(self, batch: Batch, how: str) -> TrialOutcome:
        (seed,) = seeds(self.seed, cell_key(batch.parameters), batch.start, batch.stop)
        return TrialOutcome(batch.start, seed, FAILED, None, LOST, how, float("nan"))


def _fly(batch: Batch | None) -> _Flight | None:
    return None if batch is None else _Flight(batch)
