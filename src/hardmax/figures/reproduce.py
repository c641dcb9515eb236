"""Make many figures: compute, save, keep a record of each, and write the report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hardmax._lib.files import refusal
from hardmax.figures.figure import Progress, Recipe, Scale, Setting, make, recipes_of
from hardmax.figures.record import ClaimRecord, Record, Run, read_records
from hardmax.figures.report import write_report
from hardmax.figures.save import save


@dataclass(frozen=True)
class Reproduction:
    """The figures that were made, and the page that shows them.

    >>> import tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = hm.reproduce(["B-FIG-1a"], out=folder)
    >>> done.holds, done.failed, done.report.name
    (True, [], 'index.html')
    """

    figures: tuple[Record, ...]
    report: Path

    @property
    def failed(self) -> list[ClaimRecord]:
        """The claims that do not hold, of all figures."""
        return [claim for record in self.figures for claim in record.failed]

    @property
    def holds(self) -> bool:
        """Whether every figure could be made and every claim holds."""
        return all(record.holds for record in self.figures)


def reproduce(
    ids: Iterable[str] | None = None,
    *,
    paper: str | None = None,
    scale: Scale = "quick",
    data: str | Path | None = None,
    out: str | Path = "results",
) -> Reproduction:
    """Make figures of the papers, all or those named, with their numbers and one page that shows them.

    The folder ``out`` gets pictures, numbers, a record per figure and index.html, which shows every figure
    that the folder holds. A figure that cannot be computed is recorded as such and the others are made.
    Long trainings leave their state in ``out``/checkpoints: one that was interrupted or killed goes on from
    there, and a finished one is not done again.

    >>> import tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = hm.reproduce(["B-FIG-1b"], out=folder)
    >>> [(record.id, record.holds) for record in done.figures]
    [('B-FIG-1b', True)]
    """
    job = Job(recipes_of(ids, paper), scale, None if data is None else Path(data), Path(out))
    try:
        for recipe in job.recipes:
            job.make(recipe)
    finally:
        report = job.report()
    return Reproduction(tuple(job.done), report)


class Job:
    """Figures to be made into a folder one by one; what is done stays done when the rest is interrupted."""

    def __init__(self, recipes: list[Recipe], scale: Scale, data: Path | None, out: Path) -> None:
        self.recipes, self.out = recipes, out
        self.setting = Setting(scale, data, checkpoints=out / "checkpoints")
        out.mkdir(parents=True, exist_ok=True)
        # a folder whose page cannot be made is refused before hours of work, not after
        read_records(out)
        names = [f"{recipe.id}.{ending}" for recipe in recipes for ending in ("json", "npz", "svg", "png")]
        for path in (out / name for name in ("index.html", *names)):
            reason = refusal(path)
            if reason is not None:
                raise ValueError(f"{path}: {reason}")
        self.done: list[Record] = []
        self.run = Run.now(self.command(recipes))

    @property
    def remaining(self) -> list[Recipe]:
        """The figures that have not been made yet."""
        return self.recipes[len(self.done) :]

    def make(self, recipe: Recipe, progress: Progress | None = None) -> Record:
        """Compute and save a figure and write its record; an error becomes part of the record."""
        start = time.perf_counter()
        setting = self.setting if progress is None else replace(self.setting, progress=progress)
        try:
            figure = make(recipe, setting)
            files = save(figure, self.out)
            record = Record.of(figure, files, time.perf_counter() - start, self.run)
        except Exception as error:  # one figure's bug must not cost the reader the others
            record = Record.broken(recipe, self.setting.scale, error, time.perf_counter() - start, self.run)
        record.write(self.out)
        self.done.append(record)
        return record

    def report(self) -> Path:
        """Write the page of all figures in the folder."""
        return write_report(self.out)

    def command(self, recipes: list[Recipe]) -> str:
        """The command line that makes those figures."""
        papers = {recipe.paper for recipe in recipes}
        which = [recipe.id for recipe in recipes]
        if recipes == recipes_of():
            which = []
        elif len(papers) == 1 and recipes == recipes_of(paper=recipes[0].paper):
            which = ["--paper", *papers]
        setting = self.setting
        data = [] if setting.data is None else ["--data", str(setting.data)]
        return shlex.join(
            ["hardmax", "reproduce", *which, "--scale", setting.scale, *data, "--out", str(self.out)]
        )
