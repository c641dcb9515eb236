"""What is checked: a certificate, the statements of the papers, the installation."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hardmax.app.cli.errors import Interrupted, none_lost
from hardmax.app.cli.output import Output, command
from hardmax.app.cli.own import run_file
from hardmax.app.results import certified
from hardmax.app.results.verified import Verifying


@command
def certify(
    out: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, as hardmax solve writes it.")],
    norm: Annotated[
        Path | None, typer.Option(metavar="FILE.py", help="Of a norm of yours: the file that registers it.")
    ] = None,
) -> int:
    """Check a certificate in exact arithmetic, by separate code.

    Example: hardmax certify proofs/selection-0.json
    """
    if norm is not None:
        run_file(norm)
    return out.show(certified.certify(file))


@command
def verify(
    out: Output,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Statements, as in B-THM-3; all if none.")
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Own data: a problem, texts with labels, or sentences, by the ID."),
    ] = None,
    reading: Annotated[
        str, typer.Option(metavar="corrected|paper", help="With --on: as corrected, or as printed.")
    ] = "corrected",
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="With --on: what a statement is told, as selection=[0,1]."),
    ] = None,
) -> int:
    """Check the papers' statements, where they hold and where not.

    Example: hardmax verify B-THM-3 C-THM-ASY, or hardmax verify B-THM-2 --on problem.json
    """
    job = Verifying(ids or None, on, reading, options_of(given or ()))
    with out.progress("verifying", len(job.instances)) as progress:
        try:
            for each in job.instances:
                with none_lost():
                    found = job.run(each)
                if each.expected not in (None, found.check.verdict):
                    out.say(f"{each.id} on {each.name}: {found.check.verdict}, expected {each.expected}")
                progress.advance()
        except KeyboardInterrupt:
            if not job.done:
                raise
            out.say("stopping; what was checked so far follows")
    answer = job.answer()
    code = out.show(answer)
    if answer.remaining:
        raise Interrupted(f"interrupted; to go on: {answer.command}")
    return code


@command
def doctor(out: Output) -> int:
    """Examine the installation, and compile what is not yet compiled.

    Example: hardmax doctor --json
    """
    from hardmax.app.results import diagnosis

    return out.show(diagnosis.examine())


def options_of(given: Sequence[str]) -> dict[str, Any]:
    """``selection=[0,1]`` as what a statement's function takes; lists alone may lack their brackets."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            try:
                found[name.strip()] = json.loads(f"[{value}]")
            except ValueError:
                equals = ""
        if not equals or not name.strip().isidentifier():
            raise ValueError(f"--given must be NAME=VALUE, as selection=[0,1] or rho=0.5, got {each!r}")
    return found
