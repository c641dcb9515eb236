"""dask.distributed: a cluster on this machine, or the one whose scheduler is at an address."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager

import dask
import distributed

from hardmax._lib.parallel import cores
from hardmax._lib.pool import WorkerDied
from hardmax.trials.work import ONE_THREAD, Batch, Job, TrialOutcome, kept_environment, run_packed

# Retries are the sweep's: it halves a batch that kills its worker. With one batch for each thread and none in
# advance, a death is blamed on the batch that ran.
SETTINGS = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
# A process that multiprocessing spawns begins in the current folder, where a file may have a module's name.
SAFE = "PYTHONSAFEPATH"
PATIENCE = 10  # seconds to wait for a scheduler


class Dask:
    """A client of a dask cluster; hardmax has to be installed on its workers."""

    def __init__(self, job: Job, workers: int | None, address: str | None) -> None:
        self.job, self.workers = job, workers
        self.stack = ExitStack()
        try:
            cluster = None if address is not None else self.stack.enter_context(_cluster(workers))
        except RuntimeError as error:
            raise ValueError(
                f"dask cannot start workers here ({error}); if this is a script, start the sweep under "
                'if __name__ == "__main__":'
            ) from error
        try:
            self.client = distributed.Client(cluster or address, timeout=PATIENCE, set_as_default=False)
        except OSError as error:
            raise ValueError(
                f"address: no dask scheduler answers at {address} ({error}); start one with `dask scheduler`"
            ) from error
        self.executor = self.client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        """One batch per thread of the current workers."""
        return self.workers or max(1, sum(self.client.nthreads().values()))

    def submit(self, batch: Batch) -> Future[bytes]:
        """Hand a batch to the scheduler."""
        return self.executor.submit(run_packed, self.job, batch)

    def report(self, handle: Future[bytes]) -> list[TrialOutcome]:
        """Return the outcomes that the worker sent."""
        try:
            return pickle.loads(handle.result())
        except distributed.KilledWorker as error:
            raise WorkerDied(f"dask: {error.last_worker.address}") from error
        except (CancelledError, TypeError) as error:  # dask's executor raises TypeError for a lost future
            raise OSError(f"the dask cluster is gone ({error}); what is finished is in the store") from error

    def close(self) -> None:
        """Drop what is submitted; a cluster that was started here is stopped."""
        self.client.close(timeout=5)
        self.stack.close()


@contextmanager
def _cluster(workers: int | None) -> Iterator[distributed.LocalCluster]:
    """Start a cluster on this machine; dask sets variables of this process when it starts a worker."""
    names = {SAFE, "PYTHONHASHSEED", "__DASK_PARENT_PID"}
    names.update(dask.config.get("distributed.nanny.pre-spawn-environ", {}))
    again = {f"distributed.nanny.pre-spawn-environ.{SAFE}": "1"}  # where a dead worker is replaced
    with kept_environment(names):
        with dask.config.set(SETTINGS | again), kept_environment(names, **{SAFE: "1"}):
            cluster = distributed.LocalCluster(
                n_workers=workers or cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port: dask opens one even without a dashboard
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                env=ONE_THREAD | {SAFE: ""},  # what a function starts in a worker is as everywhere
            )
        yield cluster
        cluster.close(timeout=5)
