"""The work of a worker: run a batch of trials of one cell and report the outcome of each."""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from hardmax._lib.compiling import Compiled
from hardmax._lib.pool import serve
from hardmax.trials.grid import RESERVED, Parameters, cell_key, scalar, seeds
from hardmax.trials.provenance import Function, load, source_hash

DONE, FAILED = "done", "failed"

# Set before a worker starts: libraries read these when they are loaded.
THREADED = ("NUMBA_NUM", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM")
ONE_THREAD = {f"{name}_THREADS": "1" for name in THREADED}


class TrialOutcome(NamedTuple):
    """The outcome of one trial: the row it returned as JSON, or the error it raised."""

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


@dataclass(frozen=True)
class Job:
    """The function of a sweep and how to call it; the same for all its batches."""

    name: str
    source: str
    batched: bool
    seed: int


def run_packed(job: Job, batch: Batch) -> bytes:
    """Run a batch in a worker, on one thread, and pack its outcomes: many small objects are slow to send."""
    function = _worker_function(job.name, job.source)
    return pickle.dumps(run_batch(function, job.batched, job.seed, batch))


def run_batch(function: Function, batched: bool, seed: int, batch: Batch) -> list[TrialOutcome]:
    """Run a batch: one call if the function takes several seeds, and one call for each trial otherwise.

    If the one call raises, or does not return one row for each seed, its trials are run one by one: then only
    the guilty trial fails, and no row depends on which others were in its batch.
    """
    numbers = seeds(seed, cell_key(batch.parameters), batch.start, batch.stop)
    if batched and len(batch) > 1:
        start = time.perf_counter()
        try:
            rows = function(dict(batch.parameters), list(numbers))
            is_whole = isinstance(rows, Sequence) and len(rows) == len(numbers)
        except KeyboardInterrupt:
            raise
        except BaseException:
            is_whole = False
        if is_whole:
            seconds = (time.perf_counter() - start) / len(numbers)
            trials = enumerate(zip(numbers, rows, strict=True), batch.start)
            return [_outcome(trial, number, row, batch, seconds) for trial, (number, row) in trials]
    return [_run_alone(function, batched, batch, t, number) for t, number in enumerate(numbers, batch.start)]


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
    result = {}
    for name, value in row.items():
        if not isinstance(name, str) or name in RESERVED or name in parameters:
            raise ValueError(f"a trial must name its results by new texts, not {name!r}, which is taken")
        scalar("the name of a result", name)
        result[name] = scalar(f"result {name!r}", value)
    return result


def _run_alone(function: Function, batched: bool, batch: Batch, trial: int, seed: int) -> TrialOutcome:
    start = time.perf_counter()
    try:
        row = call(function, batched, batch.parameters, seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what leaves a program: it ends this trial only
        seconds = time.perf_counter() - start
        try:
            text = str(error)
        except Exception:  # an exception's own __str__ may fail, which must not stop the sweep
            text = "its message cannot be shown"
        sentence = _storable(type(error).__name__ + (f": {text}" if text else ""))
        trace = _storable("".join(traceback.format_exception(error)))
        return TrialOutcome(trial, seed, FAILED, None, sentence, trace, seconds)
    return _outcome(trial, seed, row, batch, time.perf_counter() - start)


def _outcome(trial: int, seed: int, row: Any, batch: Batch, seconds: float) -> TrialOutcome:
    """Return the outcome of a trial that returned a row, which may be none that a store can hold."""
    try:
        text = json.dumps(checked(row, batch.parameters), separators=(",", ":"))
    except ValueError as error:
        return TrialOutcome(trial, seed, FAILED, None, _storable(str(error)), None, seconds)
    return TrialOutcome(trial, seed, DONE, text, None, None, seconds)


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
    import threadpoolctl

    threadpoolctl.threadpool_limits(1)  # what is loaded by now, also where the environment came too late
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)
    return function


@contextmanager
def kept_environment(names: Iterable[str], **values: str) -> Iterator[None]:
    """Set variables of the environment inside the block; these and the named ones are restored after it."""
    before = {name: os.environ.get(name) for name in {*names, *values}}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def main() -> None:
    """Answer batches of the local backend until standard input is closed."""
    Compiled.may_say = False  # the driver has spoken

    def answer(message: bytes) -> bytes:
        job, batch = pickle.loads(message)
        try:
            return run_packed(job, batch)
        except Exception as error:  # not a trial's: those are outcomes
            return pickle.dumps(ValueError(f"a worker cannot load {job.name}: {error}"))

    serve(answer)
