"""The commands, and the call of one of them.

`commands.json` lists them: the function of each one, and the facts that its signature lacks, as `Command`
describes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from hardmax._lib.terminal import BAD_INPUT, DONE, INTERRUPTED
from hardmax.app.cli.errors import complain, explain
from hardmax.app.cli.options import (
    HELP,
    Command,
    NoColor,
    Quiet,
    Version,
    group_page,
    typer_command,
    with_help,
)
from hardmax.app.results.session import Session

_TABLE = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
SECTIONS: dict[str, list[str]] = _TABLE["sections"]
GROUPS: dict[str, str] = _TABLE["groups"]
COMMANDS = {name: Command(**entry) for name, entry in _TABLE["commands"].items()}


TITLE = "Compute where training drives attention, with proofs."


def set_globally(
    ctx: typer.Context, quiet: Quiet = False, no_color: NoColor = False, show_version: Version = False
) -> None:
    """Store the options that precede a command."""
    ctx.obj.quiet = ctx.obj.quiet or quiet


def typer_app(word: str = "") -> typer.Typer:
    """Make the command line with the commands that begin with a word, or with all commands.

    Describing all of them takes a tenth of the time of a short answer. Help is plain, because drawing boxes
    around it would double the time it takes to appear.
    """
    pages = {
        section: {name: GROUPS.get(name) or COMMANDS[name] for name in names}
        for section, names in SECTIONS.items()
    }
    groups = {"": _typer(TITLE, pages, context_settings=HELP)}
    for full, command in COMMANDS.items():
        group, _, name = full.rpartition(" ")
        if word not in ("", group or name):
            continue
        if group not in groups:
            inner = {c.removeprefix(f"{group} "): COMMANDS[c] for c in COMMANDS if c.startswith(f"{group} ")}
            groups[group] = _typer(
                GROUPS[group], {"Commands": inner}, add_completion=False, help=GROUPS[group]
            )
            groups[""].add_typer(groups[group], name=group, context_settings=HELP)
        run, page = typer_command(name, command)
        groups[group].command(name, cls=page, context_settings=HELP)(run)
    return groups[""]


def _typer(title: str, sections: Mapping[str, Mapping[str, str | Command]], **options: Any) -> typer.Typer:
    page = with_help(TyperGroup, lambda path: group_page(path, title, sections))
    app = typer.Typer(cls=page, pretty_exceptions_enable=False, rich_markup_mode=None, **options)
    app.callback()(set_globally)
    return app


def call(arguments: Sequence[str]) -> int:
    """Call the command that the arguments name and return its exit code; a mistake ends in a sentence."""
    session = Session()
    try:
        code = _call(arguments, session)
        message = AGAIN  # typer itself turns most interrupts into this code
        if code != INTERRUPTED:
            return code
    except BrokenPipeError as error:  # not of standard output
        failure = ConnectionError(f"a process or a connection was lost ({error.strerror})")
        code, message = BAD_INPUT, explain(failure)
    except OSError as error:
        code, message = BAD_INPUT, explain(error)
    except (ValueError, ImportError) as error:  # a TypeError is a mistake of the program
        code, message = BAD_INPUT, session.spoken(str(error))
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        code, message = BAD_INPUT, f"not enough memory{detail}; pass less data at a time"
    except KeyboardInterrupt as stop:
        code, message = INTERRUPTED, session.spoken(str(stop)) or AGAIN
    as_json = "--json" in arguments and session.shown is None
    return complain(message, code, as_json=as_json, names=arguments)


AGAIN = "interrupted; give the same command again to start over"


def _call(arguments: Sequence[str], session: Session) -> int:
    words = list(arguments) or ["--help"]
    if words[0] == "help":
        words = [*words[1:], "--help"]
    names = {name.split()[0] for name in COMMANDS}
    word = next((word for word in words if not word.startswith("-")), "")
    app = typer_app(word if word in names else "")
    try:
        work = app(args=words, prog_name="hardmax", standalone_mode=False, obj=session)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hardmax"
        message = error.format_message()
        message = message if message.endswith(("?", ".")) else f"{message}."
        raise ValueError(f"{message} Try '{command} --help'.") from None
    except SystemExit:  # typer's answer to a reader of the help who has closed the pipe
        return DONE
    try:
        return work() if callable(work) else int(work or DONE)
    except SystemExit as stop:
        raise ValueError(f"your function ended the process ({stop!r}); let it return") from None
