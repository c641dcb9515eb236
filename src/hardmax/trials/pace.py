"""How long trials take: the size of the next batch, the rate, and the time that remains."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

GOAL = 0.5  # seconds of work in a batch: long against what a batch costs, short to lose
CAUTION = 10.0  # how much shorter in a cell that was not measured yet
GROWTH = 8  # against a first trial that was much slower, or faster, than the rest
LARGEST = 10_000  # trials of a batch whose rows are held in memory
WINDOW = 30.0  # seconds over which the rate is measured


class Progress(NamedTuple):
    """How far a sweep is: counts of trials, finished trials per second, and the seconds that remain."""

    done: int
    failed: int
    total: int
    rate: float
    remaining: float


class Sizes:
    """Batch sizes from the time of the batches before; fixed if ``size`` is given."""

    def __init__(self, size: int | None) -> None:
        self.fixed = size
        self.cell = -1
        self.known = False
        self.seconds = 0.0
        self.last = 0

    def next(self, cell: int) -> int:
        """How many trials of this cell to put into its next batch."""
        if self.fixed is not None:
            return self.fixed
        if cell != self.cell:
            self.cell, self.known = cell, False
        goal = GOAL if self.known else GOAL / CAUTION
        fits = LARGEST if self.seconds * LARGEST < goal else int(goal / self.seconds)
        return max(1, min(fits, GROWTH * self.last))

    def measure(self, cell: int, trials: int, seconds: float) -> None:
        """Learn from a finished batch."""
        self.seconds = seconds / trials
        self.last = trials
        self.known = self.known or cell == self.cell


class Clock:
    """Counts finished trials and knows the rate of the last half minute."""

    def __init__(self, done: int, failed: int, total: int) -> None:
        self.done = done
        self.failed = failed
        self.total = total
        self.past: deque[tuple[float, int]] = deque([(time.monotonic(), done + failed)])

    def count(self, done: int, failed: int) -> Progress:
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
        return Progress(self.done, self.failed, self.total, rate, remaining)
