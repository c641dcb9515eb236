"""The one signature of callbacks, ``progress(done, total)``, and what a sweep reports in addition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[[int, int], object]

PARTS = 1000  # into which work without a natural unit is divided


def by_share(progress: Progress | None) -> Callable[[float], None]:
    """Return a function of the share that is done, from 0 to 1, which calls ``progress``."""

    def report(share: float) -> None:
        if progress is not None:
            progress(round(PARTS * share), PARTS)

    return report


class Pace(NamedTuple):
    """How far a sweep is: counts of trials, finished trials per second, and the seconds that remain.

    ``remaining`` is infinite until a trial is finished. While ``compiling`` only one worker is at work: it
    compiles the kernels that the others then find.
    """

    done: int
    failed: int
    total: int
    rate: float
    remaining: float
    compiling: bool = False


class Watcher(ABC):
    """A callback of `sweep` that receives the `Pace` instead of two counts."""

    @abstractmethod
    def see(self, pace: Pace) -> None:
        """Take note of a finished batch, or of a second in which none ended; an exception stops the sweep."""

    def __call__(self, done: int, total: int) -> None:
        """Watch something that has only counts."""
        self.see(Pace(done, 0, total, 0.0, float("inf")))
