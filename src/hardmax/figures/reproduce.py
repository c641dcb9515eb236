"""Make many figures: compute, save, keep a record of each, and write the report."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path

from hardmax._lib.files import refusal
from hardmax.figures.figure import Progress, Recipe, Scale, Setting, make, recipes_of
from hardmax.figures.record import Record, Run, read_records
from hardmax.figures.report import write_report
from hardmax.figures.save import save


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
