"""The session that a function of `hardmax.app.results` reports to: silent in Python, a terminal in a command.

A function writes its result, messages and progress to the current session. The session of the command line
(`hardmax.app.cli.output`) prints them, keeps partial results after an interrupt, and checks output files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hardmax._lib.files import refusal
from hardmax._lib.notebook import PICTURES

if TYPE_CHECKING:
    from hardmax._lib.result import Result

Report = Callable[[int, int], object]


class Progress:
    """Counts steps and hands ``(done, total)`` to a function, if there is one."""

    allowed = False  # whether a bar may be drawn

    def __init__(self, what: str, total: int, report: Report | None = None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.report = report

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar, if one is drawn."""

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` more steps as done."""
        self.to(self.done + steps, self.total)

    def to(self, done: int, total: int | None = None) -> None:
        """Set the number of steps that are done, and of all steps."""
        self.done = done
        self.total = self.total if total is None else total
        if self.report is not None:
            self.report(self.done, self.total)

    def share(self, share: float) -> None:
        """Set the share of steps that are done, from 0 to 1."""
        self.to(int(self.total * share))

    def rename(self, what: str) -> None:
        """Name the current work."""
        self.what = what


class Session:
    """The session of a Python program: it prints nothing, and interrupts pass through."""

    def show(self, result: Result) -> None:
        """Print a result now, before files are written that may fail."""

    def say(self, message: str) -> None:
        """Print a message that is not part of the result."""

    def progress(self, what: str, total: int, report: Report | None = None) -> Progress:
        """Return the counter of ``total`` steps, to be entered with ``with``."""
        return Progress(what, total, report)

    def keep(self, message: str) -> None:
        """Continue with a partial result; call it while a KeyboardInterrupt is handled, which may go on."""
        raise

    def check_output(self, path: str | PathLike[str]) -> str | None:
        """Return why a file must not be written, if the session has a reason."""
        return None

    def noted(self) -> AbstractContextManager[Callable[[], bool]]:
        """Yield a function that returns whether the session has noted an interrupt."""
        return nullcontext(lambda: False)

    def none_lost(self) -> AbstractContextManager[None]:
        """Raise interrupts that compiled code has turned into another error."""
        return nullcontext()

    def stdout_free(self) -> AbstractContextManager[None]:
        """Keep standard output for the result while code of the user runs."""
        return nullcontext()


current: ContextVar[Session] = ContextVar("session", default=Session())  # noqa: B039 - it has no state


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
    reason = refusal(Path(path)) or session().check_output(path)
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
