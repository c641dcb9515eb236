"""`hardmax reproduce`: the papers' figures, with their numbers, their claims and a page that shows them."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax.app.cli.errors import Interrupted
from hardmax.app.cli.output import Output, command
from hardmax.app.results.reproduction import Reproduction

if TYPE_CHECKING:
    from hardmax.app.results.ledger import Ledger
    from hardmax.papers.figures.record import Record

STEPS = 100  # of the progress bar, for each figure


class PaperChoice(StrEnum):
    """The papers by their letters."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


class ScaleChoice(StrEnum):
    """How much is computed."""

    quick = "quick"
    day = "day"
    paper = "paper"


class Logits(StrEnum):
    """What stands before the logits of paper A's trainings on text."""

    printed = "printed"
    scaled = "scaled"


@command
def reproduce(
    out: Output,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Figures, as in B-FIG-9a; all if none.")
    ] = None,
    paper: Annotated[PaperChoice | None, typer.Option(help="Only the figures of this paper.")] = None,
    scale: Annotated[
        ScaleChoice, typer.Option(help="quick; the paper's own numbers; or day, less where those take days.")
    ] = ScaleChoice.quick,
    logits: Annotated[
        Logits, typer.Option(help="Paper A on text: as printed, or divided by sqrt(d).")
    ] = Logits.printed,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of real data, for the figures that use it.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where pictures, numbers and index.html go.")
    ] = Path("results"),
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Make nothing: list all the papers print, with our verdicts.")
    ] = False,
) -> int:
    """Make the papers' figures, test their claims and write a report.

    Example: hardmax reproduce B-FIG-9a --scale paper --out nine
    """
    if ledger:
        return out.show(_ledger(ids or [], paper))

    from hardmax.papers.figures.figure import recipes_of
    from hardmax.papers.figures.reproduce import FigureJob

    if data is not None and not data.is_dir():
        raise ValueError(f"--data: there is no folder {data}; give the folder that holds the datasets")
    recipes = recipes_of(ids or None, paper and paper.value)
    job = FigureJob(recipes, scale.value, data, folder, logits.value)
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


def _ledger(ids: list[str], paper: PaperChoice | None) -> "Ledger":
    """The ledger, or the rows of one paper."""
    from hardmax.app.results.ledger import Ledger, ledger

    if ids or paper is PaperChoice.D:
        raise ValueError("--ledger lists the rows of papers A, B and C, all or by --paper; leave IDs out")
    return Ledger(tuple(row for row in ledger().rows if paper is None or row.paper == paper.value))


def _line(record: "Record") -> str:
    if record.error is not None:
        return f"{record.id}: could not be made: {record.error}"
    from hardmax.papers.figures.record import summary

    return f"{record.id}: {summary(record.claims)} ({record.seconds:.1f} s)"
