"""Where batches run. A backend submits, waits and tells; retries and results are the sweep's business."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from hardmax._lib.extras import install
from hardmax.trials.backends.local import Local
from hardmax.trials.work import Batch, Job, Report

BACKENDS = ("local", "dask", "ray")


class Backend(Protocol):
    """The seam between a sweep and what runs its batches."""

    @property
    def capacity(self) -> int:
        """How many batches to keep submitted, so that no worker waits."""

    def submit(self, batch: Batch) -> Any:
        """Hand over a batch; the handle returned stands for its report."""

    def wait(self, handles: Collection[Any], seconds: float | None = None) -> list[Any]:
        """The handles that are finished, as soon as there is one, or none after so many seconds."""

    def report(self, handle: Any) -> Report:
        """What became of a finished batch; WorkerDied if its worker did not live to tell."""

    def close(self) -> None:
        """Stop at once what this backend started."""


def check_place(backend: str, address: str | None) -> None:
    """Refuse a backend that there is not, or that has no address."""
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
        raise ValueError(
            f"backend {name!r} needs a package that is missing ({error}): {install('cluster')}"
        ) from error
