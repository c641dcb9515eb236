"""The session of the command line: what goes to which stream, progress, which files may be written.

Results go to standard output, everything else to standard error, so that a pipe only ever sees results.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from hardmax._lib.files import is_standard_output
from hardmax._lib.terminal import brief, page, visible
from hardmax.app.cli.errors import none_lost, noted
from hardmax.app.results import session

if TYPE_CHECKING:
    import rich.progress

    from hardmax._lib.result import Result

PATIENCE = 2.0  # seconds of work before the bar appears


class ProgressBar(session.Progress):
    """Draws a bar once the work has taken PATIENCE seconds, on a terminal only."""

    def __init__(
        self, what: str, total: int, report: session.Report | None = None, *, allowed: bool = True
    ) -> None:
        super().__init__(what, total, report)
        self.allowed = allowed and sys.stderr.isatty()
        self.bar: rich.progress.Progress | None = None
        self.start = time.monotonic()

    def to(self, done: int, total: int | None = None) -> None:
        """Set the number of steps that are done, and of all steps."""
        super().to(done, total)
        if self.bar is None and self.allowed and time.monotonic() - self.start > PATIENCE:
            self.bar = self._draw()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done, total=self.total)

    def rename(self, what: str) -> None:
        """Name the current work."""
        super().rename(what)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=what)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _draw(self) -> rich.progress.Progress:
        from rich.console import Console
        from rich.progress import Progress as Bar

        bar = Bar(console=Console(stderr=True), transient=True)
        bar.add_task(self.what, total=self.total)
        bar.start()
        return bar


class Output(session.Session):
    """The session of one command: its result, its messages and its progress.

    ``spoken`` turns names of Python parameters into options, in every message.
    """

    def __init__(
        self, as_json: bool = False, quiet: bool = False, spoken: Callable[[str], str] = lambda text: text
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.spoken = spoken
        self.shown: Result | None = None

    def show(self, result: Result) -> None:
        """Print a result, as one JSON object or as a table."""
        if self.as_json:
            text = json.dumps(result.json(), allow_nan=False) + "\n"
        else:
            text = page(result.table(), styled=sys.stdout.isatty() or None)
        self.shown = result
        _write(text)

    def say(self, message: str) -> None:
        """Print a message for the person at the terminal."""
        if message and not self.quiet:
            with contextlib.suppress(OSError):  # a message is not a reason to lose the result
                print(visible(brief(self.spoken(message))), file=sys.stderr)

    def progress(self, what: str, total: int, report: session.Report | None = None) -> ProgressBar:
        """Return a progress bar for ``total`` steps, to be entered with ``with``."""
        return ProgressBar(what, total, report, allowed=not self.quiet)

    def keep(self, message: str) -> None:
        """Continue with the results so far after an interrupt."""
        self.say(message)

    def check_output(self, path: str | os.PathLike[str]) -> str | None:
        """Return why a file must not be written: standard output is for the JSON alone."""
        reason = "--json prints its object to standard output; name another file"
        return reason if self.as_json and is_standard_output(Path(path)) else None

    noted = staticmethod(noted)
    none_lost = staticmethod(none_lost)

    @contextmanager
    def stdout_free(self) -> Iterator[None]:
        """Send the prints of the user's code, or of a worker, to standard error."""
        sys.stdout.flush()
        stdout = os.dup(1)
        os.dup2(2, 1)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)


def _write(text: str) -> None:
    """Write the result to standard output. A reader who closes the pipe (`| head`) is not a failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python tries once more when it ends
        if error.errno != errno.EPIPE:
            raise OSError(error.errno, error.strerror, "standard output") from None
