"""The command line: parse, call, print. Each command has a file here; its work is done elsewhere."""

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from hardmax import __version__
from hardmax.cli.certify import certify
from hardmax.cli.doctor import doctor
from hardmax.cli.ntp import app as ntp
from hardmax.cli.output import BAD_INPUT, DONE, INTERRUPTED, Interrupted, NoColor, Quiet, complain
from hardmax.cli.reproduce import reproduce
from hardmax.cli.solve import solve
from hardmax.cli.sweep import sweep
from hardmax.cli.verify import verify

# Plain help: drawing boxes around it would double the time it takes to appear.
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(solve)
app.command()(certify)
app.command()(verify)
app.command()(reproduce)
app.command()(sweep)
app.command()(doctor)
app.add_typer(ntp, name="ntp")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hardmax {__version__}")
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
    ctx.obj = quiet  # read by hardmax.cli.output.command, so that --quiet may stand before the command


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a user's mistake ends in a sentence, not a traceback."""
    try:
        code = app(args=list(arguments) or ["--help"], prog_name="hardmax", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hardmax"
        return complain(f"{error.format_message()} Try '{command} --help'.", BAD_INPUT)
    except OSError as error:
        if error.filename is None:
            return complain(f"{error}; mend that and run the command again.", BAD_INPUT)
        return complain(f"{error.filename}: {error.strerror}; check the path and its permissions.", BAD_INPUT)
    except ValueError as error:
        return complain(str(error), BAD_INPUT)
    except Interrupted as stop:
        return complain(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer itself turns most interrupts into this code
        return complain("interrupted; give the same command again to start over.", INTERRUPTED)
    return int(code or DONE)
