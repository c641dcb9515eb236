"""What every command shares: exit codes, common options, and what goes to which stream.

Results go to standard output, everything else to standard error, so that a pipe only ever sees results.
"""

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax import __version__
from hardmax._json import plain
from hardmax.cli.progress import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType

DONE = 0
NOT_AS_EXPECTED = 1
BAD_INPUT = 2
INCOMPLETE = 3
INTERRUPTED = 130


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


class Interrupted(Exception):
    """An interrupt whose partial results are kept; the message gives the command that goes on."""


@dataclass(frozen=True)
class Output:
    """Where a command puts its result, its messages and its progress."""

    schema: str
    as_json: bool
    quiet: bool

    def result(self, fields: Mapping[str, Any], text: Callable[[], "RenderableType"]) -> None:
        """Print the result: `fields` as one JSON object, or what `text` makes for a reader."""
        if self.as_json:
            everything = {"schema": self.schema, "version": __version__, **fields}
            print(json.dumps(plain(everything), allow_nan=False))
            return
        from rich.console import Console

        Console(highlight=False).print(text(), soft_wrap=True)

    def say(self, message: str) -> None:
        """Tell the person at the terminal something that is not the result."""
        if not self.quiet:
            print(message, file=sys.stderr)

    def progress(self, what: str, total: int) -> Progress:
        """Return a progress bar for `total` steps, to be entered with `with`."""
        return Progress(what, total, allowed=not self.quiet)


def command(schema: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Turn a function of an Output (and its own options) that returns an exit code into a typer command."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def run(*, ctx: typer.Context, as_json: bool, quiet: bool, no_color: bool, **own: Any) -> int:
            # no_color has done its work in its callback, before the first line is printed
            return function(Output(schema, as_json, quiet=quiet or bool(ctx.obj)), **own)

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


def complain(message: str, code: int) -> int:
    """Print what went wrong, on one line of standard error, and return the exit code."""
    print("hardmax:", " ".join(message.split()), file=sys.stderr)
    return code


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
