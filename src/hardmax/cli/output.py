"""What every command shares: common options, and what goes to which stream.

Results go to standard output, everything else to standard error, so that a pipe only ever sees results.
"""

import contextlib
import errno
import functools
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax import __version__
from hardmax._lib.compiling import Compiled
from hardmax._lib.json import plain
from hardmax.cli.errors import visible
from hardmax.cli.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

COMMAND = "hardmax "  # in a line that a reader may copy
NARROWEST = 60  # columns; a narrower terminal breaks the lines, where a table would leave columns out


def columns() -> int:
    """How wide a page for a reader may be: the terminal, or 80 columns where there is none."""
    from rich.console import Console

    return max(Console().width, NARROWEST)


def fitted(text: "Text", width: int) -> "Text":
    """Lines that are too wide go on below, indented; one with a command stays whole, to be copied.

    >>> from rich.text import Text
    >>> print(fitted(Text("  what is too wide goes on below"), 20).plain)
      what is too wide
        goes on below
    """
    from rich.text import Text

    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width or COMMAND in line.plain:
            lines.append(line)
            continue
        inset = len(line.plain) - len(line.plain.lstrip()) + 2
        breaks, column = [], 0
        for word in re.finditer(r"\s*\S+\s*?", line.plain):  # a word is never cut, as rich would
            if column + len(word.group()) > width:
                breaks.append(word.end() - len(word.group().lstrip()))
                column = inset - (len(word.group()) - len(word.group().lstrip()))
            column += len(word.group())
        first, *rest = line.divide(breaks)
        lines += [first, *(Text(" " * inset) + more for more in rest)]
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


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

    schema: str
    as_json: bool
    quiet: bool
    session: Session = field(default_factory=Session)

    def result(self, fields: Mapping[str, Any], text: Callable[[], "RenderableType"]) -> None:
        """Print the result: `fields` as one JSON object, or what `text` makes for a reader."""
        if self.as_json:
            everything = {"schema": self.schema, "version": __version__, **fields}
            line = json.dumps(plain(everything), allow_nan=False)
            self.session.answered = True
            _write(line + "\n")
            return
        from rich.console import Console
        from rich.text import Text

        page = io.StringIO()  # rich itself ends the process where a pipe is closed
        console = Console(file=page, force_terminal=sys.stdout.isatty() or None, highlight=False)
        console.width = columns()
        shown = text()
        shown = fitted(shown, console.width) if isinstance(shown, Text) else shown
        console.print(_Visible(shown), soft_wrap=True)
        _write(page.getvalue())

    def say(self, message: str) -> None:
        """Tell the person at the terminal something that is not the result."""
        if not self.quiet:
            with contextlib.suppress(OSError):  # a message is no reason to lose the result
                print(visible(message), file=sys.stderr)

    def progress(self, what: str, total: int) -> Progress:
        """Return a progress bar for `total` steps, to be entered with `with`."""
        return Progress(what, total, allowed=not self.quiet)


@dataclass(frozen=True)
class _Visible:
    """What rich draws, with the control characters of its texts spelled out, not those of its styles."""

    shown: "RenderableType"

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        from rich.segment import Segment

        for segment in console.render(self.shown, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def command(schema: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Turn a function of an Output (and its own options) that returns an exit code into a typer command."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def run(*, ctx: typer.Context, as_json: bool, quiet: bool, no_color: bool, **own: Any) -> int:
            # no_color has done its work in its callback, before the first line is printed
            session: Session = ctx.obj
            out = Output(schema, as_json, quiet or session.quiet, session)
            Compiled.may_say = not out.quiet
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

    return decorate


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
