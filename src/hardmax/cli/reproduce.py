"""`hardmax reproduce`: the papers' figures, with their numbers, their claims and a page that shows them."""

import itertools
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, NOT_AS_EXPECTED, Interrupted
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from hardmax.figures.record import ClaimRecord, Record

STEPS = 100  # of the progress bar, for each figure
HEAD = ("", "claim", "expected", "measured")
NO_DATA = "--data DIR"  # in the note of a figure that real data would change
LONGEST = 80  # characters of a value on the terminal if the claim holds; the page shows all of them


class Paper(StrEnum):
    """The papers by their letters."""

    A = "A"
    B = "B"
    C = "C"


class Scale(StrEnum):
    """How much is computed."""

    quick = "quick"
    paper = "paper"


@command("hardmax.reproduce/1")
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
    report = job.report()
    fields = {"figures": [_fields(each, folder) for each in job.done], "report": str(report)}
    out.result(fields, lambda: _text(job.done, str(report)))
    if job.remaining:
        raise Interrupted(f"interrupted; to go on: {job.command(job.remaining)}")
    return DONE if all(each.holds for each in job.done) else NOT_AS_EXPECTED


def _line(record: "Record") -> str:
    if record.error is not None:
        return f"{record.id}: could not be made: {record.error}"
    held = len(record.claims) - len(record.failed)
    return f"{record.id}: {held} of {len(record.claims)} claims hold ({record.seconds:.1f} s)"


def _fields(record: "Record", folder: Path) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "id": record.id,
        "title": record.title,
        "status": "made" if record.error is None else record.error,
        "seed": record.seed,
        "files": [str(folder / name) for name in record.files],
        "seconds": record.seconds,
        "claims": [asdict(claim) for claim in record.claims],
    }


def _text(records: Sequence["Record"], report: str) -> "RenderableType":
    from rich.console import Console, Group
    from rich.markup import escape

    from hardmax.figures.record import tally

    rows = {record.id: [_row(claim) for claim in record.claims] for record in records}
    # one set of widths for all figures, so that columns stand under each other down the page
    columns = list(zip(HEAD, *itertools.chain(*rows.values()), strict=True))
    room = Console().width
    _, claim, *values = (max(map(len, column)) for column in columns)
    values = [min(width, room // 4) for width in values]
    widths = [2, min(claim, max(room - 2 - sum(values) - 2 * len(values) - 2, 20)), *values]
    parts: list[RenderableType] = [_table([HEAD], ["bold"], widths)]
    for record in records:
        parts += ["", *_title(record, room)]
        if record.error is not None:
            parts.append(f"[bold red]NO[/]  could not be made: {escape(record.error)}")
        styles = ["" if claim.holds else "red" for claim in record.claims]
        parts.append(_table(rows[record.id], styles, widths))
    return Group(*parts, "", *_more(records), f"{tally(records)}; report: {escape(report)}")


def _title(record: "Record", room: int) -> list[str]:
    from rich.markup import escape

    first, *rest = textwrap.wrap(f"{record.id} {record.title}", room, subsequent_indent="    ")
    return [f"[bold]{record.id}[/]{escape(first.removeprefix(record.id))}", *map(escape, rest)]


def _more(records: Sequence["Record"]) -> list[str]:
    """How to get what these figures leave out: the papers' sizes, and reviews instead of stand-ins."""
    lines = []
    if any(record.scale == "quick" for record in records):
        lines.append("quick sizes; the papers' own take hours: hardmax reproduce --scale paper")
    made_up = [record.id for record in records if any(NO_DATA in note for note in record.notes)]
    if made_up:
        lines += [
            "synthetic data instead of reviews; for those, in a folder as docs/text.md says:",
            f"hardmax reproduce {' '.join(made_up)} --data DIR",
        ]
    return lines


def _row(claim: "ClaimRecord") -> list[str]:
    paper = "" if claim.paper is None else f" (paper: {claim.paper})"
    if not claim.holds:  # in full, and with its name
        return ["NO", f"{claim.text}{paper}: {claim.id}", claim.expected, claim.found]
    return ["ok", claim.text + paper, _short(claim.expected), _short(claim.found)]


def _table(rows: Sequence[Sequence[str]], styles: Sequence[str], widths: Sequence[int]) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*map(escape, row), style=style)
    return table


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
