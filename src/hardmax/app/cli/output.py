"""What every command shares: common options, what goes to which stream, progress, which files may be written.

Results go to standard output, everything else to standard error, so that a pipe only ever sees results.
"""

import contextlib
import errno
import functools
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._lib.compiling import Compiled
from hardmax._lib.files import is_standard_output, refusal
from hardmax._lib.terminal import brief, page, visible

if TYPE_CHECKING:
    import rich.progress

    from hardmax.app.results.answer import Answer


_as_json: ContextVar[bool] = ContextVar("as_json", default=False)  # of the command under way
PATIENCE = 2.0  # seconds of work before the bar appears


class ProgressBar:
    """Counts steps; draws a bar once the work has taken PATIENCE seconds, on a terminal only."""

    def __init__(self, what: str, total: int, *, allowed: bool = True) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.allowed = allowed and sys.stderr.isatty()
        self.bar: rich.progress.Progress | None = None
        self.start = time.monotonic()

    def __enter__(self) -> "ProgressBar":
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


def _disable_color(wanted: bool) -> None:
    # Every console asks this variable, typer's help and worker processes included: one switch for all.
    if wanted:
        os.environ["NO_COLOR"] = "1"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no messages; results and errors stay.")]
NoColor = Annotated[
    bool,
    typer.Option("--no-color", help="No colours (as with NO_COLOR).", callback=_disable_color, is_eager=True),
]


@dataclass
class Session:
    """One command line: what was said before the command, and whether it has given its result."""

    quiet: bool = False
    answered: bool = False


@dataclass(frozen=True)
class Output:
    """Where a command puts its result, its messages and its progress."""

    as_json: bool
    quiet: bool
    session: Session = field(default_factory=Session)

    def show(self, answer: "Answer") -> int:
        """Print the answer, as one JSON object or as a table, and return its exit code."""
        if self.as_json:
            line = json.dumps(answer.json(), allow_nan=False)
            self.session.answered = True
            _write(line + "\n")
        else:
            _write(page(answer.table(), styled=sys.stdout.isatty() or None))
        return answer.exit_code

    def say(self, message: str) -> None:
        """Tell the person at the terminal something that is not the result."""
        if not self.quiet:
            with contextlib.suppress(OSError):  # a message is no reason to lose the result
                print(visible(brief(message)), file=sys.stderr)

    def progress(self, what: str, total: int) -> ProgressBar:
        """Return a progress bar for `total` steps, to be entered with `with`."""
        return ProgressBar(what, total, allowed=not self.quiet)


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Turn a function of an Output (and its own options) that returns an exit code into a typer command."""

    @functools.wraps(function)
    def run(*, ctx: typer.Context, as_json: bool, quiet: bool, no_color: bool, **own: Any) -> int:
        # no_color has done its work in its callback, before the first line is printed
        session: Session = ctx.obj
        out = Output(as_json, quiet or session.quiet, session)
        Compiled.may_say = not out.quiet
        _as_json.set(as_json)
        try:
            return function(out, **own)
        except BrokenPipeError as error:  # not of standard output, and typer would end the process
            raise ConnectionError(f"a process or a connection was lost ({error.strerror})") from error

    # typer reads options off the signature: the function's own, without the Output, then the shared ones
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    parameters = [
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own),
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        _flag("as_json", Json),
        _flag("quiet", Quiet),
        _flag("no_color", NoColor),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def writable(option: str, path: Path, *needed: Path) -> None:
    """Refuse a file that cannot be written, or that the command itself needs, while nothing is lost by it."""
    reason = refusal(path)
    if reason is not None:
        raise ValueError(f"{option} {path}: {reason}")
    if _as_json.get() and is_standard_output(path):
        raise ValueError(f"{option} {path}: --json prints its object to standard output; name another file")
    spared(option, path, *needed)


def spared(option: str, path: Path, *needed: Path) -> None:
    """Refuse to write to a file that the command itself needs."""
    if any(_same(path, each) for each in needed):
        raise ValueError(f"{option} {path}: this file is needed; choose another name")


def _same(path: Path, other: Path) -> bool:
    """Whether two names, of files that may not be there yet, are one file."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)


def _write(text: str) -> None:
    """Put the result on standard output. A reader who has seen enough (`| head`) is no failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python tries once more when it ends
        if error.errno != errno.EPIPE:
            raise OSError(error.errno, error.strerror, "standard output") from None


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
