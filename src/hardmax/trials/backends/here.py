"""No workers: batches run in the driver, one after the other. Any function will do, a lambda too."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

from hardmax.trials.provenance import Function
from hardmax.trials.work import Batch, Outcome, run_batch

Handle = Future[list[Outcome]]


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

    def wait(self, handles: Collection[Handle], seconds: float | None = None) -> list[Handle]:
        """All of them."""
        return list(handles)

    def outcomes(self, handle: Handle) -> list[Outcome]:
        """What became of the batch."""
        return handle.result()

    def close(self) -> None:
        """Nothing was started."""
