"""What a worker does: run a batch of trials of one cell and report what became of each; the time it takes."""

from __future__ import annotations

import functools
import json
import pickle
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hardmax._lib.progress import Pace
from hardmax.trials.grid import RESERVED, Parameters, cell_key, scalar, seeds
from hardmax.trials.provenance import Function, load, source_hash

DONE, FAILED = "done", "failed"

# Set before a worker starts: libraries read these when they are loaded.
ONE_THREAD = dict.fromkeys(
    (
        "NUMBA_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)


class TrialOutcome(NamedTuple):
    """What became of one trial: the row it returned as JSON, or the error it raised."""

    trial: int
    seed: int
    status: str
    row: str | None
    error: str | None
    traceback: str | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials start, ..., stop - 1 of one cell."""

    cell: int
    parameters: Parameters
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def halves(self) -> tuple[Batch, Batch]:
        """Cut the batch in the middle."""
        middle = (self.start + self.stop) // 2
        first = Batch(self.cell, self.parameters, self.start, middle)
        return first, Batch(self.cell, self.parameters, middle, self.stop)


@dataclass(frozen=True)
class Job:
    """The function of a sweep and how to call it; the same for all its batches."""

    name: str
    source: str
    batched: bool
    seed: int


def run_job(job: Job, batch: Batch) -> list[TrialOutcome]:
    """Run a batch in a worker, on one thread."""
    return run_batch(_worker_function(job.name, job.source), job.batched, job.seed, batch)


def run_packed(job: Job, batch: Batch) -> bytes:
    """Run a batch on a cluster and pack its outcomes, which is faster than sending many small objects."""
    return pickle.dumps(run_job(job, batch))


def run_batch(function: Function, batched: bool, seed: int, batch: Batch) -> list[TrialOutcome]:
    """Run a batch: one call if the function takes several seeds, and one call for each trial otherwise.

    If the one call raises, or does not return one row for each seed, its trials are run one by one: then only
    the guilty trial fails, and no row depends on which others were in its batch.
    """
    own = seeds(seed, cell_key(batch.parameters), batch.start, batch.stop)
    if batched and len(batch) > 1:
        start = time.perf_counter()
        try:
            rows = function(dict(batch.parameters), list(own))
            whole = isinstance(rows, Sequence) and len(rows) == len(own)
        except KeyboardInterrupt:
            raise
        except BaseException:
            whole = False
        if whole:
            each = (time.perf_counter() - start) / len(own)
            judged = enumerate(zip(own, rows, strict=True), batch.start)
            return [_judge(trial, s, row, batch.parameters, each) for trial, (s, row) in judged]
    return [_run_alone(function, batched, batch, t, s) for t, s in enumerate(own, batch.start)]


def call(function: Function, batched: bool, parameters: Parameters, seed: int) -> Any:
    """Return one trial's row, as the function returns it."""
    if not batched:
        return function(dict(parameters), seed)
    rows = function(dict(parameters), [seed])
    if not isinstance(rows, Sequence) or len(rows) != 1:
        raise ValueError("a batched function must return a list with one row for each seed")
    return rows[0]


def checked(row: Any, parameters: Parameters) -> dict[str, Any]:
    """Return a row as plain scalars under names that are not taken."""
    if not isinstance(row, Mapping):
        raise ValueError(f"a trial must return a dict of scalars, got {type(row).__name__}")
    found = {}
    for name, value in row.items():
        if not isinstance(name, str) or name in RESERVED or name in parameters:
            raise ValueError(f"a trial must name its results by new texts, not {name!r}, which is taken")
        scalar("the name of a result", name)
        found[name] = scalar(f"result {name!r}", value)
    return found


def _run_alone(function: Function, batched: bool, batch: Batch, trial: int, seed: int) -> TrialOutcome:
    start = time.perf_counter()
    try:
        row = call(function, batched, batch.parameters, seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what leaves a program: it ends this trial only
        seconds = time.perf_counter() - start
        trace = _storable("".join(traceback.format_exception(error)))
        return TrialOutcome(trial, seed, FAILED, None, _storable(_sentence(error)), trace, seconds)
    return _judge(trial, seed, row, batch.parameters, time.perf_counter() - start)


def _judge(trial: int, seed: int, row: Any, parameters: Parameters, seconds: float) -> TrialOutcome:
    try:
        text = json.dumps(checked(row, parameters), separators=(",", ":"))
    except ValueError as error:
        return TrialOutcome(trial, seed, FAILED, None, _storable(str(error)), None, seconds)
    return TrialOutcome(trial, seed, DONE, text, None, None, seconds)


def _sentence(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # an exception's own __str__ may fail, which must not stop the sweep
        text = "its message cannot be shown"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _storable(text: str) -> str:
    """Return a text that UTF-8 can hold: file names in messages may contain other bytes."""
    return text.encode(errors="backslashreplace").decode()


@functools.cache
def _worker_function(name: str, source: str) -> Function:
    function = load(name)
    if source_hash(function) != source:
        raise ValueError(
            f"the worker's copy of {name} differs from the driver's; install the same version everywhere, "
            "restart the workers and run the sweep again"
        )
    _one_thread()
    return function


def _one_thread() -> None:
    """Keep what is loaded by now to one thread, also where the environment came too late."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(1)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)


GOAL = 0.5  # seconds of work in a batch: long against what a batch costs, short to lose
CAUTION = 10.0  # how much shorter in a cell that was not measured yet
GROWTH = 8  # against a first trial that was much slower, or faster, than the rest
LARGEST = 10_000  # trials of a batch whose rows are held in memory
AT_ONCE = 0.5  # seconds after which a first batch is taken to compile, or to be long
IDLE = 5.0  # seconds without compiling, for a worker that starts, after which a first batch is just long
WINDOW = 30.0  # seconds over which the rate is measured


class First:
    """The first batch runs alone while its worker compiles, so that the other workers find the kernels.

    A trial that takes long without compiling does not hold up the others.
    """

    def __init__(self, alone: bool) -> None:
        self.alone = alone
        self.compiles = False
        self.start = self.seen = time.monotonic()

    def is_alone(self) -> bool:
        """Return whether the other workers have to wait for the first batch."""
        now = time.monotonic()
        if self.alone and now - self.start >= AT_ONCE:  # importing numba to look costs half a second
            from hardmax._lib.caching import is_compiling

            if is_compiling():
                self.compiles, self.seen = True, now
            elif now - self.seen > IDLE:
                self.ends()
        return self.alone

    def ends(self) -> None:
        """Let all workers start."""
        self.alone = self.compiles = False


class Sizes:
    """Batch sizes from the time of the batches before; fixed if ``size`` is given."""

    def __init__(self, size: int | None) -> None:
        self.fixed = size
        self.cell = -1
        self.known = False
        self.seconds = 0.0
        self.last = 0

    def next(self, cell: int) -> int:
        """Return how many trials of this cell to put into its next batch."""
        if self.fixed is not None:
            return self.fixed
        if cell != self.cell:
            self.cell, self.known = cell, False
        goal = GOAL if self.known else GOAL / CAUTION
        fits = LARGEST if self.seconds * LARGEST < goal else int(goal / self.seconds)
        return max(1, min(fits, GROWTH * self.last))

    def measure(self, cell: int, trials: int, seconds: float) -> None:
        """Learn from a finished batch; a trial whose worker died has no time."""
        if seconds != seconds:
            return
        self.seconds = seconds / trials
        self.last = trials
        self.known = self.known or cell == self.cell


class TrialClock:
    """Counts finished trials and knows the rate of the last half minute."""

    def __init__(self, done: int, failed: int, total: int) -> None:
        self.done = done
        self.failed = failed
        self.total = total
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
