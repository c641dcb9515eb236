"""Local processes: a pool of them, and the plain loop behind the same seam."""

from __future__ import annotations

import concurrent.futures as futures
import pickle
from collections.abc import Collection
from typing import Any

from hardmax._lib.compiling import Compiled
from hardmax._lib.parallel import cores
from hardmax._lib.pool import Pool, command, serve
from hardmax.trials.provenance import Function
from hardmax.trials.work import ONE_THREAD, Batch, Job, Report, run_batch, run_job

Handle = futures.Future[Report]


class Local:
    """Workers on this machine, one for each core by default."""

    def __init__(self, job: Job, workers: int | None) -> None:
        self.job = job
        self.pool = Pool(workers or cores(), command("hardmax.trials.backends.local"), ONE_THREAD)

    @property
    def capacity(self) -> int:
        """Twice the workers: the next batch is there when one is finished."""
        return 2 * self.pool.size

    def submit(self, batch: Batch) -> Handle:
        """Queue a batch for the next free worker."""
        return self.pool.submit((self.job, batch))

    def wait(self, handles: Collection[Handle], seconds: float | None = None) -> list[Handle]:
        """The finished ones, as soon as there is one."""
        return list(futures.wait(handles, seconds, futures.FIRST_COMPLETED).done)

    def report(self, handle: Handle) -> Report:
        """What the worker answered."""
        answer: Any = handle.result()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Kill the workers, whatever they are doing."""
        self.pool.close()


class Here:
    """The plain loop behind the same seam, for debugging and for notebooks."""

    capacity = 1

    def __init__(self, function: Function, batched: bool, seed: int) -> None:
        self.function = function
        self.batched = batched
        self.seed = seed

    def submit(self, batch: Batch) -> Handle:
        """Run the batch now."""
        handle: Handle = futures.Future()
        handle.set_result(run_batch(self.function, self.batched, self.seed, batch))
        return handle

    def wait(self, handles: Collection[Handle], seconds: float | None = None) -> list[Handle]:
        """All of them."""
        return list(handles)

    def report(self, handle: Handle) -> Report:
        """What became of the batch."""
        return handle.result()

    def close(self) -> None:
        """Nothing was started."""


def main() -> None:
    """Answer batches until standard input is closed."""
    Compiled.may_say = False  # the driver has spoken
    serve(_answer)


def _answer(message: bytes) -> bytes:
    job, batch = pickle.loads(message)
    try:
        answer: Any = run_job(job, batch)
    except Exception as error:  # not a trial's: those are outcomes
        answer = ValueError(f"a worker cannot load {job.name}: {error}")
    return pickle.dumps(answer)
