"""`reproduce`: the papers' figures, their claims, and the page that shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, columns, ending, grid
from hardmax.app.results.session import session

if TYPE_CHECKING:
    from hardmax.papers.figures.reproduce import ClaimRecord, Counts, FigureJob, Record

STEPS = 100  # of the progress, for each figure
CLAIM = ("id", "text", "expected", "measured", "holds")
HEAD = ("", "claim", "expected", "measured")
NO_DATA = "--data DIR"  # in the note of a figure that real data would change
STAND_IN = re.compile(r"\.? Drawn (?:is a|is the|are) surrogate")  # after the reason for it, in such a note
ELSEWHERE = "; or name another folder by --data DIR"
LONGEST = 80  # characters of a value on the terminal if the claim holds; the page shows all of them


@dataclass(frozen=True, eq=False, repr=False)
class ReproduceResult(Result):
    """The finished figures, the page that shows them, and the command that makes the remaining ones, if any.

    >>> import tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = hm.reproduce(["B-FIG-1a"], out=folder)
    >>> done.holds, done.failed, done.report.name
    (True, [], 'index.html')
    """

    schema: ClassVar[str] = "hardmax.reproduce/1"

    figures: tuple[Record, ...]
    report: Path
    resume_command: str | None = None
    data: Path | None = None  # the folder of real data, if one was given

    @classmethod
    def of(cls, job: FigureJob) -> ReproduceResult:
        """Return the result of a job so far, and write its page."""
        again = job.command(job.remaining) if job.remaining else None
        return cls(tuple(job.done), job.report(), again, job.setting.data)

    @property
    def failed(self) -> list[ClaimRecord]:
        """The claims that do not hold, of all figures."""
        return [claim for record in self.figures for claim in record.failed]

    @property
    def holds(self) -> bool:
        """Whether every figure could be made and every claim holds."""
        return all(record.holds for record in self.figures)

    def counts(self, *, stand_in: bool) -> Counts:
        """Count the claims that hold on data that stand in for the papers' own, or on all other data."""
        from hardmax.papers.figures.reproduce import Counts

        claims = (claim for record in self.figures for claim in record.claims)
        return Counts.of(claims, stand_in=stand_in)

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the command that makes the remaining figures."""
        return self.resume_command and f"interrupted; to go on: {self.resume_command}"

    @property
    def headline(self) -> str:
        """The number of claims that hold, and of figures."""
        from hardmax.papers.figures.reproduce import tally

        return tally(self.figures)

    def records(self) -> list[dict[str, Any]]:
        """Return a row per claim."""
        return [
            {"figure": record.id, **attributes(claim, *CLAIM)}
            for record in self.figures
            for claim in record.claims
        ]

    @property
    def exit_code(self) -> int:
        """0 if all claims hold, 1 if not, 130 if figures remain."""
        return ending(interrupted=self.resume_command is not None, wrong=not self.holds)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            "figures": [
                {
                    **attributes(record, "id", "title"),
                    "status": "made" if record.error is None else record.error,
                    "seed": record.seed,
                    "files": [str(self.report.parent / name) for name in record.files],
                    "seconds": record.seconds,
                    "claims": [asdict(claim) for claim in record.claims],
                }
                for record in self.figures
            ],
            "report": str(self.report),
            "counts": {
                "own_data": self.counts(stand_in=False)._asdict(),
                "stand_ins": self.counts(stand_in=True)._asdict(),
            },
        }

    def table(self) -> Page:
        """Return what `hardmax reproduce` prints."""
        records = self.figures
        rows = {record.id: [_row(claim) for claim in record.claims] for record in records}
        # one set of widths for all figures, so that columns are aligned down the page
        room = columns()
        cells = zip(HEAD, *chain(*rows.values()), strict=True)
        _, claim, *values = (max(map(len, column)) for column in cells)
        values = [min(width, room // 4) for width in values]
        widths = [2, min(claim, max(room - 2 - sum(values) - 2 * len(values) - 2, 20)), *values]
        table = partial(grid, HEAD, widths=widths, wrapped=HEAD, head=False)
        parts: list[Page] = [table([HEAD], ["bold"])]
        for record in records:
            parts += ["", (f"{record.id} {record.title}", "bold")]
            if record.error is not None:
                parts.append((f"NO  could not be made: {record.error}", "bold red"))
            parts.append(table(rows[record.id], ["" if claim.holds else "red" for claim in record.claims]))
        return [*parts, "", *_more(records, self.data), f"{self.headline}; report: {self.report}"]


@check_arguments
def reproduce(
    ids: str | Iterable[str] | None = None,
    *,
    paper: Literal["A", "B", "C", "D"] | None = None,
    scale: Literal["quick", "day", "paper"] = "quick",
    logits: Literal["printed", "scaled"] = "printed",
    data: str | Path | None = None,
    out: str | Path = "results",
    progress: Callable[[int, int], object] | None = None,
) -> ReproduceResult:
    """Make the papers' figures, test their claims and write a report.

    A figure that cannot be computed is recorded as such and the others are made. Long trainings keep their
    state in ``out``/checkpoints: an interrupted one resumes from there, and a finished one is not repeated.

    Args:
        ids: Figures such as B-FIG-9a; by default all.
        paper: Only the figures of this paper.
        scale: Sizes of the experiments: quick, the paper's own, or day where the paper's take days.
        logits: Logits of paper A's trainings on text: as printed, or divided by sqrt(d).
        data: Folder of real data, for the figures that use it.
        out: Folder that receives pictures, numbers, a record per figure and index.html.
        progress: Called with the number of steps done and of all steps.

    >>> import tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = hm.reproduce(["B-FIG-1b"], out=folder)
    >>> [(record.id, record.holds) for record in result.figures]
    [('B-FIG-1b', True)]
    """
    from hardmax.papers.figures.figure import recipes_of
    from hardmax.papers.figures.reproduce import FigureJob

    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"data: no such directory: {folder}")
    job = FigureJob(recipes_of(ids, paper), scale, folder, Path(out), logits)
    count = len(job.recipes)
    with session().progress("reproducing", STEPS * count, progress) as bar:
        try:
            for place, recipe in enumerate(job.recipes):
                name = f"{recipe.id} ({place + 1} of {count})"

                def report(share: float, what: str = "", /, name: str = name, place: int = place) -> None:
                    bar.rename(f"{name} {what}".rstrip())
                    bar.to(int(STEPS * (place + share)))

                report(0.0)
                session().say(_line(job.make(recipe, report)))
                report(1.0)
        except KeyboardInterrupt:
            job.report()
            session().keep("stopping; the finished figures are kept")
    return ReproduceResult.of(job)


def _line(record: Record) -> str:
    if record.error is not None:
        return f"{record.id}: could not be made: {record.error}"
    from hardmax.papers.figures.reproduce import summary

    return f"{record.id}: {summary(record.claims)} ({record.seconds:.1f} s)"


def _more(records: Sequence[Record], data: Path | None) -> list[str]:
    """Explain how to get figures of the papers' sizes, and of real data."""
    lines = []
    if any(record.scale == "quick" for record in records):
        lines.append("quick sizes; the papers' own take hours: hardmax reproduce --scale paper")
    if data is not None:
        return [*lines, *_stand_ins(records, data)]
    ids = [record.id for record in records if any(NO_DATA in note for note in record.notes)]
    if ids:
        lines += [
            "synthetic data instead of reviews and images; with those (docs/how-to/reproduce-figures.md):",
            f"hardmax reproduce {' '.join(ids)} --data DIR",
        ]
    return lines


def _stand_ins(records: Sequence[Record], data: Path) -> list[str]:
    """Explain why data are synthetic although a folder was given: missing files, or something else."""
    lacks = f"the folder {data} holds none of these files, so synthetic data were used instead in"
    entries: dict[str, list[tuple[str, str]]] = {}  # head -> figures with their reasons
    for record in records:
        for note in record.notes:
            reason, *stands_in = STAND_IN.split(note, maxsplit=1)
            if stands_in:
                head = lacks if NO_DATA in reason else "synthetic data were used instead in"
                entries.setdefault(head, []).append((record.id, reason.removesuffix(ELSEWHERE)))
    lines = []
    for head, pairs in entries.items():
        ids, reasons = (dict.fromkeys(column) for column in zip(*pairs, strict=True))
        lines += [f"{head} {' '.join(ids)}:", *(f"  {reason}" for reason in reasons)]
    return lines


def _row(claim: ClaimRecord) -> list[str]:
    paper = "" if claim.paper is None else f" (paper: {claim.paper})"
    values = [claim.expected, claim.found]
    if not claim.holds:  # in full, and with its name
        return ["NO", f"{claim.text}{paper}: {claim.id}", *values]
    short = [text if len(text) <= LONGEST else text[: LONGEST - 3] + "..." for text in values]
    return ["ok", claim.text + paper, *short]
