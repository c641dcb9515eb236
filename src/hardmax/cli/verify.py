"""`hardmax verify`: does every statement hold where it should, and fail where it should? And on own data?"""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.answers.verified import Verifying
from hardmax.cli.errors import Interrupted
from hardmax.cli.interrupts import none_lost
from hardmax.cli.output import Output, command


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
) -> int:
    """Check the papers' statements, where they hold and where not.

    Example: hardmax verify B-THM-3 C-THM-ASY, or hardmax verify B-THM-2 --on problem.json
    """
    job = Verifying(ids or None, on)
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
