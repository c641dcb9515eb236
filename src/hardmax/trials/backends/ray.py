"""ray: a node on this machine, or the cluster at an address."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Collection
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before ray is imported
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what ray warns to become its default

import ray

from hardmax._parallel import cores
from hardmax.trials.backends import WorkerDied
from hardmax.trials.backends.local import search_path
from hardmax.trials.work import ONE_THREAD, Batch, Job, Outcome, run_packed

OBJECT_STORE = 100 * 2**20  # bytes; outcomes are small


class Ray:
    """A driver of a ray cluster; hardmax has to be installed on its nodes."""

    def __init__(self, job: Job, workers: int | None, address: str | None) -> None:
        self.job = job
        self.workers = workers
        self.started = not ray.is_initialized()
        environment = dict(ONE_THREAD)
        if self.started:
            here: dict[str, Any] = {}
            if address is None:
                environment["PYTHONPATH"] = search_path()
                here = {"num_cpus": workers or cores(), "object_store_memory": OBJECT_STORE}
            try:
                ray.init(
                    address=address or "local",
                    include_dashboard=None if address else False,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    **here,
                )
            except (ConnectionError, ValueError) as error:
                raise ValueError(
                    f"cannot join the ray cluster at address {address} ({error}); is it running? If it asks "
                    "for a token, as new versions of ray do, export RAY_AUTH_MODE=token first"
                ) from error
        # Retries are the sweep's: it halves a batch that kills its worker.
        options = {"num_cpus": 1, "max_retries": 0, "runtime_env": {"env_vars": environment}}
        self.remote = ray.remote(**options)(run_packed)

    @property
    def capacity(self) -> int:
        """Twice the processors that there are now: the next batch is there when one is finished."""
        return 2 * (self.workers or max(1, int(ray.cluster_resources().get("CPU", 1))))

    def submit(self, batch: Batch) -> Any:
        """Hand a batch to ray."""
        return self.remote.remote(self.job, batch)

    def wait(self, handles: Collection[Any], seconds: float | None = None) -> list[Any]:
        """The finished ones, as soon as there is one."""
        return ray.wait(list(handles), num_returns=1, timeout=seconds)[0]

    def outcomes(self, handle: Any) -> list[Outcome]:
        """What the worker answered."""
        try:
            return pickle.loads(ray.get(handle))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise WorkerDied(f"ray: {type(error).__name__}") from error

    def close(self) -> None:
        """Disconnect; a node that was started here is stopped."""
        if self.started:
            ray.shutdown()
