"""A progress bar on standard error that stays away when the work is short or nobody is watching."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

PATIENCE = 2.0  # seconds of work before the bar appears


class Progress:
    """Counts steps; draws a bar once the work has taken PATIENCE seconds, on a terminal only."""

    def __init__(self, what: str, total: int, *, allowed: bool = True) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.allowed = allowed and sys.stderr.isatty()
        self.bar: rich.progress.Progress | None = None
        self.start = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more steps as done."""
        self.done += steps
        if self.bar is None and self.allowed and time.monotonic() - self.start > PATIENCE:
            self.bar = self._draw()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done)

    def rename(self, what: str) -> None:
        """Say what is being worked on now."""
        self.what = what
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=what)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _draw(self) -> "rich.progress.Progress":
        from rich.console import Console
        from rich.progress import Progress as Bar

        bar = Bar(console=Console(stderr=True), transient=True)
        bar.add_task(self.what, total=self.total)
        bar.start()
        return bar
