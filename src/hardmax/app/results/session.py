"""The session that a function of `hardmax.app.results` reports to: silent in Python, a terminal in a command.

A function writes its result, messages and progress to the current session. In a command results go to
standard output and everything else to standard error, so that a pipe only ever sees results.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._lib.files import is_standard_output, refusal
from hardmax._lib.notebook import PICTURES
from hardmax._lib.terminal import brief, page, visible
from hardmax.app.cli.errors import noted

if TYPE_CHECKING:
    import rich.progress

    from hardmax._lib.result import Result

Report = Callable[[int, int], object]

PATIENCE = 2.0  # seconds of work before a bar appears


class Progress:
    """Counts steps and hands ``(done, total)`` to a function, if there is one.

    Where a bar is ``allowed`` it appears on a terminal once the work has taken PATIENCE seconds.
    """

    def __init__(self, what: str, total: int, report: Report | None = None, *, allowed: bool = True) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.report = report
        self.allowed = allowed and sys.stderr.isatty()
        self.bar: rich.progress.Progress | None = None
        self.start = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar, if one is drawn."""
        if self.bar is not None:
            self.bar.stop()

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` more steps as done."""
        self.to(self.done + steps, self.total)

    def to(self, done: int, total: int | None = None) -> None:
        """Set the number of steps that are done, and of all steps."""
        self.done = done
        self.total = self.total if total is None else total
        if self.report is not None:
            self.report(self.done, self.total)
        if self.bar is None and self.allowed and time.monotonic() - self.start > PATIENCE:
            self.bar = self._draw()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done, total=self.total)

    def share(self, share: float) -> None:
        """Set the share of steps that are done, from 0 to 1."""
        self.to(int(self.total * share))

    def rename(self, what: str) -> None:
        """Name the current work."""
        self.what = what
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], description=what)

    def _draw(self) -> rich.progress.Progress:
        from rich.console import Console
        from rich.progress import Progress as Bar

        bar = Bar(console=Console(stderr=True), transient=True)
        bar.add_task(self.what, total=self.total)
        bar.start()
        return bar


class Session:
    """The result, the messages and the progress of one command, or of functions that Python calls.

    Without a command nothing is printed, and interrupts pass through. ``spoken`` turns names of Python
    parameters into options, in every message.
    """

    def __init__(self, *, quiet: bool = False, is_command: bool = True) -> None:
        self.is_command = is_command
        self.quiet = quiet
        self.as_json = False
        self.spoken: Callable[[str], str] = str
        self.shown: Result | None = None

    def show(self, result: Result) -> None:
        """Print a result now, before files are written that may fail: one JSON object, or a table."""
        if not self.is_command:
            return
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

    def progress(self, what: str, total: int, report: Report | None = None) -> Progress:
        """Return the counter of ``total`` steps, to be entered with ``with``."""
        return Progress(what, total, report, allowed=not self.quiet)

    def keep(self, message: str) -> None:
        """Continue with a partial result; call it while a KeyboardInterrupt is handled, which may go on."""
        if not self.is_command:
            raise
        self.say(message)

    def noted(self) -> AbstractContextManager[Callable[[], bool]]:
        """Yield a function that returns whether an interrupt of the command was noted."""
        return noted() if self.is_command else nullcontext(lambda: False)

    @contextmanager
    def stdout_free(self) -> Iterator[None]:
        """Send what the user's code or a worker of a command prints to standard error."""
        if not self.is_command:
            yield
            return
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


SILENT = Session(quiet=True, is_command=False)
current: ContextVar[Session] = ContextVar("session", default=SILENT)


def session() -> Session:
    """Return the session of the command that is running, or the silent one."""
    return current.get()


def writable(name: str, path: str | PathLike[str] | None, *needed: Any, picture: bool = False) -> None:
    """Refuse an output file that cannot be written, or that is an input, before any work is done.

    ``name`` is the parameter that holds the path, which may be None. ``needed`` are inputs; those that are
    not paths cannot be overwritten.
    """
    if path is None:
        return
    if picture and Path(path).suffix not in PICTURES:
        raise ValueError(f"{name} must end in {', '.join(PICTURES)}, got {path}")
    reason = refusal(Path(path))
    if reason is None and session().as_json and is_standard_output(Path(path)):
        reason = "--json prints its object to standard output; name another file"
    if reason is not None:
        raise ValueError(f"`{name}` {path}: {reason}")
    spared(name, path, *needed)


def spared(name: str, path: str | PathLike[str], *needed: Any) -> None:
    """Refuse to write to a file that the function itself needs."""
    if any(_same(path, file) for file in needed if isinstance(file, str | PathLike)):
        raise ValueError(f"`{name}` {path}: this file is needed; choose another name")


def _same(path: str | PathLike[str], other: str | PathLike[str]) -> bool:
    """Return whether two names, of files that may not exist yet, are one file."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_range(low: float, high: float, **numbers: float | None) -> None:
    """Refuse numbers outside of a range, by the names of their parameters."""
    for name, number in numbers.items():
        if number is not None and not low <= number <= high:
            raise ValueError(f"{name} must be from {low:,} to {high:,}, got {number:,}")
