"""Where batches run. A backend submits and reports; retries and results are the sweep's business."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from typing import Any, Protocol

from hardmax._lib.compiling import Compiled
from hardmax._lib.extras import install
from hardmax._lib.parallel import cores
from hardmax._lib.pool import Pool, command, serve
from hardmax.trials.provenance import Function
from hardmax.trials.work import ONE_THREAD, Batch, Job, TrialOutcome, run_batch, run_job

BACKENDS = ("local", "dask", "ray")
Handle = Future[Any]


class Backend(Protocol):
    """The seam between a sweep and what runs its batches."""

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
        self.pool = Pool(workers or cores(), command(__name__), ONE_THREAD)
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
        self.function = function
        self.batched = batched
        self.seed = seed

    def submit(self, batch: Batch) -> Handle:
        """Run the batch now."""
        handle: Handle = Future()
        handle.set_result(run_batch(self.function, self.batched, self.seed, batch))
        return handle

    def report(self, handle: Handle) -> list[TrialOutcome]:
        """Return the outcomes of the batch."""
        return handle.result()

    def close(self) -> None:
        """Do nothing: nothing was started."""


def check_place(backend: str, address: str | None) -> None:
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


def main() -> None:
    """Answer batches of the local backend until standard input is closed."""
    Compiled.may_say = False  # the driver has spoken
    serve(_answer)


def _answer(message: bytes) -> bytes:
    job, batch = pickle.loads(message)
    try:
        answer: Any = run_job(job, batch)
    except Exception as error:  # not a trial's: those are outcomes
        answer = ValueError(f"a worker cannot load {job.name}: {error}")
    return pickle.dumps(answer)
