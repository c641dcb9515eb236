"""The one signature of callbacks: ``progress(done, total)``."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]

PARTS = 1000  # into which work without a natural unit is divided


def by_share(progress: Progress | None) -> Callable[[float], None]:
    """Return a function of the share that is done, from 0 to 1, which calls ``progress``.

    >>> by_share(lambda done, total: print(done, "of", total))(0.25)
    250 of 1000
    """

    def report(share: float) -> None:
        if progress is not None:
            progress(round(PARTS * share), PARTS)

    return report
