"""The table of commands, and how one of them is called."""

from collections.abc import Sequence
from typing import Annotated

import typer

from hardmax import __version__
from hardmax._lib.terminal import BAD_INPUT, DONE, INTERRUPTED
from hardmax.app.cli.audit import audit
from hardmax.app.cli.checks import certify, doctor, verify
from hardmax.app.cli.errors import Interrupted, complain, explain
from hardmax.app.cli.hunt import hunt
from hardmax.app.cli.ntp import app as ntp
from hardmax.app.cli.output import NoColor, Quiet, Session
from hardmax.app.cli.play import play
from hardmax.app.cli.probe import probe
from hardmax.app.cli.reproduce import reproduce
from hardmax.app.cli.solve import solve
from hardmax.app.cli.sweep import sweep
from hardmax.app.cli.text import app as text

# Plain help: drawing boxes around it would double the time it takes to appear.
app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(solve)
app.command()(certify)
app.command()(verify)
app.command()(reproduce)
app.command()(sweep)
app.command()(play)
app.command()(probe)
app.command()(audit)
app.command()(hunt)
app.command()(doctor)
app.add_typer(ntp, name="ntp")
app.add_typer(text, name="text")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hardmax {__version__}", flush=True)
        raise typer.Exit


@app.callback()
def hardmax(
    ctx: typer.Context,
    quiet: Quiet = False,
    no_color: NoColor = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Where gradient training drives attention: directions, margins and proofs."""
    ctx.obj.quiet = quiet


def call(arguments: Sequence[str]) -> int:
    """Call the command that is named and return its exit code; a mistake ends in a sentence."""
    session = Session()
    try:
        code = _call(arguments, session)
    except OSError as error:
        return _complain(explain(error), BAD_INPUT, arguments, session)
    except ValueError as error:
        return _complain(str(error), BAD_INPUT, arguments, session)
    except MemoryError as error:
        what = f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
        return _complain(f"{what}; give less at a time", BAD_INPUT, arguments, session)
    except Interrupted as stop:
        return _complain(str(stop), INTERRUPTED, arguments, session)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer itself turns most interrupts into this code
        message = "interrupted; give the same command again to start over"
        return _complain(message, INTERRUPTED, arguments, session)
    return code


def _call(arguments: Sequence[str], session: Session) -> int:
    given = list(arguments) or ["--help"]
    try:
        return int(app(args=given, prog_name="hardmax", standalone_mode=False, obj=session) or DONE)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hardmax"
        message = error.format_message()
        message = message if message.endswith(("?", ".")) else f"{message}."
        raise ValueError(f"{message} Try '{command} --help'.") from None
    except SystemExit:  # typer's answer to a reader of the help who has seen enough
        return DONE


def _complain(message: str, code: int, arguments: Sequence[str], session: Session) -> int:
    as_json = "--json" in arguments and not session.answered
    return complain(message, code, as_json=as_json, names=arguments)
