"""The one signature of callbacks: ``progress(done, total)``."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]

PARTS = 1000  # into which work without a natural unit is divided


def by_share(progress: Progress | None) -> Callable[[float], None]:
    """Return a function of the share that is done, from 0 to 1, which calls ``progress``."""

    def report(share: float) -> None:
        if progress is not None:
            progress(round(PARTS * share), PARTS)

    return report
