"""`hm.sweep`: a function of (parameters, seed) over a grid times many trials, and batches on a backend."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.parallel import cores
from hardmax._lib.pool import Pool, WorkerDied, command
from hardmax._lib.progress import Pace, Progress, Watcher
from hardmax.trials.grid import Grid, cell_key, seeds
from hardmax.trials.plan import BUILT_IN, built_in_cells
from hardmax.trials.provenance import (
    Function,
    identity,
    load,
    named,
    provenance,
    refuse_while_loading,
    source_hash,
)
from hardmax.trials.results import Sweep
from hardmax.trials.store import Store
from hardmax.trials.work import DONE, FAILED, ONE_THREAD, Batch, Job, TrialOutcome, run_batch

MOST = 10**15  # trials of a cell
WORKERS = 10_000
BATCH = 1_000_000  # trials, whose rows are held in memory
RETRIES = 2  # of a cell of `spread` whose worker died
WINDOW = 30.0  # seconds over which the rate is measured
BEAT = 1.0  # seconds to wait for a batch before looking at the backend again
LOST = "the worker died while it ran this trial"


BACKENDS = ("local", "dask", "ray")
Handle = Future[Any]


class Backend(Protocol):
    """The seam between a sweep and what runs its batches; retries and results belong to the sweep."""

    @property
    def capacity(self) -> int:
        """Number of batches to keep submitted, so that no worker waits."""

    def submit(self, batch: Batch) -> Handle:
        """Start a batch."""

    def report(self, handle: Handle) -> list[TrialOutcome]:
        """Return the outcomes of a finished batch; raise WorkerDied if its worker ended before that."""

    def close(self) -> None:
        """Stop at once what this backend started."""


class Local:
    """Workers on this machine, one for each core by default."""

    def __init__(self, job: Job, workers: int | None) -> None:
        self.job = job
        self.pool = Pool(workers or cores(), command("hardmax.trials.work"), ONE_THREAD)
        self.capacity = 2 * self.pool.size  # the next batch is there when one is finished
        self.close = self.pool.close

    def submit(self, batch: Batch) -> Handle:
        """Queue a batch for the next free worker."""
        return self.pool.submit((self.job, batch))

    def report(self, handle: Handle) -> list[TrialOutcome]:
        """Return the outcomes that the worker sent."""
        answer = handle.result()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Here:
    """The plain loop behind the same seam, for debugging and for notebooks."""

    capacity = 1

    def __init__(self, function: Function, batched: bool, seed: int) -> None:
        self.setting = function, batched, seed

    def submit(self, batch: Batch) -> Handle:
        """Run the batch now."""
        handle: Handle = Future()
        handle.set_result(run_batch(*self.setting, batch))
        return handle

    def report(self, handle: Handle) -> list[TrialOutcome]:
        """Return the outcomes of the batch."""
        return handle.result()

    def close(self) -> None:
        """Do nothing: nothing was started."""


def check_backend(backend: str, address: str | None) -> None:
    """Refuse an unknown backend, or an address for the local one."""
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if backend == "local" and address is not None:
        raise ValueError("address is for the backends dask and ray: choose one of them or leave it out")


def open_backend(name: str, job: Job, workers: int | None, address: str | None) -> Backend:
    """Start one of the BACKENDS, or join the cluster at ``address``."""
    if name == "local":
        return Local(job, workers)
    try:
        if name == "dask":
            from hardmax.trials.backends.dask import Dask

            return Dask(job, workers, address)
        from hardmax.trials.backends.ray import Ray

        return Ray(job, workers, address)
    except ImportError as error:
        raise ImportError(
            f"backend {name!r} needs a package that is missing ({error}): {install('cluster')}"
        ) from error


GOAL = 0.5  # seconds of work in a batch: long against what a batch costs, short to lose
CAUTION = 10.0  # how much shorter in a cell that was not measured yet
GROWTH = 8  # against a first trial that was much slower, or faster, than the rest
LARGEST = 10_000  # trials of a batch whose rows are held in memory
AT_ONCE = 0.5  # seconds after which a first batch is taken to compile, or to be long
IDLE = 5.0  # seconds without compiling, for a worker that starts, after which a first batch is just long


class First:
    """The first batch runs alone while its worker compiles, so that the other workers find the kernels.

    A trial that takes long without compiling does not hold up the others.
    """

    def __init__(self, alone: bool) -> None:
        self.alone, self.compiles = alone, False
        self.start = self.latest = time.monotonic()  # when a worker was last compiling

    def is_alone(self) -> bool:
        """Return whether the other workers have to wait for the first batch."""
        now = time.monotonic()
        if self.alone and now - self.start >= AT_ONCE:  # importing numba to look costs half a second
            from hardmax._lib.caching import is_compiling

            if is_compiling():
                self.compiles, self.latest = True, now
            elif now - self.latest > IDLE:
                self.ends()
        return self.alone

    def ends(self) -> None:
        """Let all workers start."""
        self.alone = self.compiles = False


class Sizes:
    """Batch sizes from the time of the batches before; fixed if ``size`` is given."""

    def __init__(self, size: int | None) -> None:
        self.fixed, self.cell, self.measured = size, -1, False
        self.seconds, self.last = 0.0, 0  # of a trial of the last batch, and its trials

    def next(self, cell: int) -> int:
        """Return how many trials of this cell to put into its next batch."""
        if self.fixed is not None:
            return self.fixed
        if cell != self.cell:
            self.cell, self.measured = cell, False
        goal = GOAL if self.measured else GOAL / CAUTION
        size = LARGEST if self.seconds * LARGEST < goal else int(goal / self.seconds)
        return max(1, min(size, GROWTH * self.last))

    def measure(self, cell: int, trials: int, seconds: float) -> None:
        """Learn from a finished batch; a trial whose worker died has no time."""
        if seconds == seconds:
            self.seconds, self.last = seconds / trials, trials
            self.measured = self.measured or cell == self.cell


class TrialClock:
    """Counts finished trials and computes the rate of the last half minute."""

    def __init__(self, done: int, failed: int, total: int) -> None:
        self.done, self.failed, self.total = done, failed, total
        self.past: deque[tuple[float, int]] = deque([(time.monotonic(), done + failed)])

    def count(self, done: int, failed: int) -> Pace:
        """Count trials that were just finished."""
        self.done += done
        self.failed += failed
        now, settled = time.monotonic(), self.done + self.failed
        self.past.append((now, settled))
        while len(self.past) > 2 and now - self.past[1][0] > WINDOW:
            self.past.popleft()
        since, before = self.past[0]
        rate = (settled - before) / max(now - since, 1e-9)
        remaining = (self.total - settled) / rate if rate > 0 else float("inf")
        return Pace(self.done, self.failed, self.total, rate, remaining)


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
        pool: the backend on which they run.
        take: returns the next batch, or None if there is none now.
        seed: root of all seeds.
        retries: how often a trial is tried again.
        first: keeps the other workers waiting while the first one compiles.
    """

    pool: Backend
    take: Callable[[], Batch | None]
    seed: int
    retries: int
    first: First = field(default_factory=lambda: First(alone=False))
    _retries: deque[_Flight] = field(default_factory=deque)
    _under_way: dict[Handle, _Flight] = field(default_factory=dict)

    def fill(self) -> bool:
        """Submit as many batches as the backend takes; return whether any is under way."""
        while len(self._under_way) < (1 if self.first.is_alone() else self.pool.capacity):
            if self._retries:
                flight = self._retries.popleft()
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
            try:
                outcomes = self.pool.report(handle)
            except WorkerDied as death:
                outcomes = self._retry_or_lose(flight, str(death))
            if outcomes:
                yield flight.batch, outcomes, flight.deaths + 1
            del self._under_way[handle]
            self.first.ends()

    def _retry_or_lose(self, flight: _Flight, death: str) -> list[TrialOutcome]:
        """Queue a batch whose worker died again; return the outcome of a trial that was tried enough."""
        batch, deaths, alone = flight
        if len(batch) > 1:
            middle = (batch.start + batch.stop) // 2
            halves = replace(batch, stop=middle), replace(batch, start=middle)
            self._retries.extendleft(_Flight(half, deaths + 1) for half in halves)
            return []
        if alone < self.retries:
            self._retries.appendleft(_Flight(batch, deaths + 1, alone + 1))
            return []
        (seed,) = seeds(self.seed, cell_key(batch.parameters), batch.start, batch.stop)
        return [TrialOutcome(batch.start, seed, FAILED, None, LOST, death, float("nan"))]


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
    be defined in a file; "module:name" and "path/to/file.py:name" will do too. A lambda, or a function of a
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
        address: address of the cluster to join.
        workers: number of processes; default: one per core.
        batch: trials in a batch; by default as many as take about half a second. Results do not depend on it.
        retries: how often a trial whose worker died is tried again.
        progress: called as ``progress(done, total)`` after each batch, and every second while none ends;
            ``done`` includes failed trials. An exception that it raises stops the sweep.
        data_files: files that the function reads; the sweep refuses to resume if they change.
        retry_failed: run failed trials of the store again.
        allow_changes: continue although code, libraries or data files changed.

    >>> import random
    >>> import hardmax as hm
    >>> def toss(parameters, seed):
    ...     return {"heads": random.Random(seed).random() < parameters["bias"]}
    >>> result = hm.sweep(toss, {"bias": [0.1, 0.5]}, trials=200, workers=0)
    >>> [str(cell.of["heads"]) for cell in result.summary()]
    ['12 of 200 (3.1% to 10.2%)', '105 of 200 (45.3% to 59.6%)']
    """
    refuse_while_loading()
    trials = _at_most(MOST, "trials", expect.whole("trials", trials, 1))
    seed = expect.whole("rng", rng)
    retries = expect.whole("retries", retries)
    workers = None if workers is None else _at_most(WORKERS, "workers", expect.whole("workers", workers))
    sizes = Sizes(None if batch is None else _at_most(BATCH, "batch", expect.whole("batch", batch, 1)))
    if isinstance(function, str) and ":" not in function:
        function, grid, batched = BUILT_IN, built_in_cells(function, grid), True
    cells = Grid(grid)
    trial, name = named(function)
    check_backend(backend, address)  # before a store is touched
    if backend != "local" and workers == 0:
        raise ValueError(f"workers=0 means this process; the backend {backend} needs at least one worker")
    if name is None and workers != 0:
        raise ValueError(
            "function must be defined by name in a file, so that workers find it: not a lambda, not inside "
            "another function, not at a prompt. Move it to a file, or run it in this process with workers=0"
        )
    record = provenance(trial, data_files)
    opened = Store.drive(store)
    try:
        plan = {"function": identity(trial, name), "load": name, "seed": seed, "batched": bool(batched)}
        session = opened.begin(plan, cells, trials, record, allow_changes)
        done, failed = (sum(row[at] for row in opened.counts()) for at in (1, 2))
        failed = 0 if retry_failed else failed
        total = trials * opened.cell_count
        if done + failed < total:
            if workers == 0 or name is None:
                pool: Backend = Here(trial, bool(batched), seed)
            else:
                job = Job(name, source_hash(trial), bool(batched), seed)
                pool = open_backend(backend, job, workers, address)
            missing = _missing(opened, trials, sizes, retry_failed)
            first = First(alone=address is None and not isinstance(pool, Here))
            flights = Flights(pool, lambda: next(missing, None), seed, retries, first)
            try:
                _drive(flights, opened, session, sizes, TrialClock(done, failed, total), progress)
            finally:
                pool.close()
        opened.end(session)
    except BaseException:
        opened.close()
        raise
    if opened.path is None:
        return Sweep(opened, trial)
    opened.close()
    return replace(Sweep.open(opened.path), function=trial)


def _at_most(most: int, name: str, value: int) -> int:
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {expect._short(value)}")
    return value


def _missing(store: Store, trials: int, sizes: Sizes, again: bool) -> Iterator[Batch]:
    """Yield batches of the missing trials, cell by cell; the size of each is chosen when it is needed."""
    for cell in range(store.cell_count):
        for start, stop in store.gaps(cell, trials, again):
            while start < stop:
                end = min(stop, start + sizes.next(cell))
                yield Batch(cell, store.parameters(cell), start, end)
                start = end


def _drive(
    flights: Flights, store: Store, session: int, sizes: Sizes, clock: TrialClock, progress: Progress | None
) -> None:
    """Run all batches; if something stops this, record those that are finished and pass it on."""

    def show(done: int, failed: int) -> None:
        pace = clock.count(done, failed)
        pace = pace._replace(compiling=flights.first.compiles)
        if isinstance(progress, Watcher):
            progress.see(pace)
        elif progress is not None:
            progress(pace.done + pace.failed, pace.total)

    try:
        while flights.fill():
            waits = True
            for batch, outcomes, attempts in flights.settle(BEAT):
                waits = False
                sizes.measure(batch.cell, len(batch), sum(outcome.seconds for outcome in outcomes))
                store.record(session, batch.cell, outcomes, attempts)
                failed = sum(outcome.status == FAILED for outcome in outcomes)
                show(len(outcomes) - failed, failed)
            if waits:
                show(0, 0)  # whoever watches may stop a sweep whose trials never end
    except BaseException:  # an interrupt, an error of a worker's machine, or what the callback raised
        with suppress(Exception):
            for batch, outcomes, attempts in flights.settle(0.0):
                store.record(session, batch.cell, outcomes, attempts)
        raise


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
        cells: the parameters of each call.
        backend: as for `sweep`.
        address: address of the cluster to join.
        workers: number of processes; default: one per core.
    """
    check_backend(backend, address)
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
