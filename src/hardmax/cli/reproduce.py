"""`hardmax reproduce`: the papers' figures, with their numbers, their claims and a page that shows them."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax.answers.reproduction import Reproduction
from hardmax.cli.errors import Interrupted
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from hardmax.figures.record import Record

STEPS = 100  # of the progress bar, for each figure


class Paper(StrEnum):
    """The papers by their letters."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


class Scale(StrEnum):
    """How much is computed."""

    quick = "quick"
    paper = "paper"


@command
def reproduce(
    out: Output,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Figures, as in B-FIG-9a; all if none.")
    ] = None,
    paper: Annotated[Paper | None, typer.Option(help="Only the figures of this paper.")] = None,
    scale: Annotated[Scale, typer.Option(help="quick, or the paper's own sizes.")] = Scale.quick,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of real data, for the figures that use it.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where pictures, numbers and index.html go.")
    ] = Path("results"),
) -> int:
    """Make the papers' figures, test their claims and write a report.

    Example: hardmax reproduce B-FIG-9a --scale paper --out nine
    """
    from hardmax.figures.figure import recipes_of
    from hardmax.figures.reproduce import Job

    if data is not None and not data.is_dir():
        raise ValueError(f"--data: there is no folder {data}; give the folder that holds the datasets")
    job = Job(recipes_of(ids or None, paper and paper.value), scale.value, data, folder)
    with out.progress("reproducing", STEPS * len(job.recipes)) as bar:
        try:
            for place, recipe in enumerate(job.recipes):
                name = f"{recipe.id} ({place + 1} of {len(job.recipes)})"

                def bar_to(share: float, what: str = "", /, name: str = name, place: int = place) -> None:
                    bar.rename(f"{name} {what}".rstrip())
                    bar.advance(int(STEPS * (place + share)) - bar.done)

                bar_to(0.0)
                out.say(_line(job.make(recipe, bar_to)))
                bar_to(1.0)
        except KeyboardInterrupt:
            out.say("stopping; what was made so far is kept")
    answer = Reproduction.of(job)
    code = out.show(answer)
    if answer.goes_on is not None:
        raise Interrupted(f"interrupted; to go on: {answer.goes_on}")
    return code


def _line(record: "Record") -> str:
    if record.error is not None:
        return f"{record.id}: could not be made: {record.error}"
    held = len(record.claims) - len(record.failed)
    return f"{record.id}: {held} of {len(record.claims)} claims hold ({record.seconds:.1f} s)"
