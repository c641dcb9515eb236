"""Make many figures: compute, save, keep a record of each, and write the report.

A figure on disk is the picture as SVG and PNG, and the numbers behind it as NPZ and CSV.
"""

from __future__ import annotations

import csv
import shlex
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._lib.files import refusal, whole, whole_text
from hardmax.figures.figure import Figure, Progress, Recipe, Scale, Setting, make, recipes_of
from hardmax.figures.record import Record, Run, read_records
from hardmax.figures.report import write_report

if TYPE_CHECKING:
    from hardmax.figures.tables import Tables


def save(figure: Figure, folder: str | Path) -> list[Path]:
    """Write ID.npz, a file ID.TABLE.csv for each table, ID.svg and ID.png; the same figure, the same bytes.

    >>> import tempfile
    >>> import hardmax as hm
    >>> from hardmax.figures.reproduce import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = [path.name for path in save(hm.figure("B-FIG-1a"), folder)]
    >>> names[-2:]
    ['B-FIG-1a.svg', 'B-FIG-1a.png']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # numbers first: a picture that cannot be drawn leaves them behind
    return [_save_npz(figure, folder), *_save_csv(figure, folder), *_save_pictures(figure, folder)]


def load_tables(path: str | Path) -> Tables:
    """The tables of a saved ID.npz, as the figure's ``draw`` takes them.

    >>> import tempfile
    >>> import hardmax as hm
    >>> from hardmax.figures.reproduce import load_tables, save
    >>> found = hm.figure("B-FIG-1a")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tables = load_tables(save(found, folder)[0])
    >>> list(tables) == list(found.tables)
    True
    """
    tables: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path, allow_pickle=False) as stored:
        for name in stored.files:
            table, column = name.split("/")
            tables.setdefault(table, {})[column] = stored[name]
    return tables


def _save_npz(figure: Figure, folder: Path) -> Path:
    path = folder / f"{figure.id}.npz"
    columns = {
        f"{name}/{column}": np.asarray(values)
        for name, table in figure.tables.items()
        for column, values in table.items()
    }
    with whole(path) as file:
        np.savez_compressed(file, **columns)  # type: ignore[arg-type]
    return path


def _save_csv(figure: Figure, folder: Path) -> Iterable[Path]:
    for name, table in figure.tables.items():
        path = folder / f"{figure.id}.{name}.csv"
        with whole_text(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            # the csv module writes a Python float with all its digits
            writer.writerows(zip(*(np.asarray(column).tolist() for column in table.values()), strict=True))
        yield path


def _save_pictures(figure: Figure, folder: Path) -> Iterable[Path]:
    import matplotlib

    from hardmax.figures.style import style

    canvas = figure.plot()
    with style():
        # names inside the SVG are drawn at random and the date is stamped unless told otherwise
        matplotlib.rcParams["svg.hashsalt"] = figure.id
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            path = folder / f"{figure.id}.{ending}"
            with whole(path) as file:
                canvas.savefig(file, format=ending, metadata=metadata)
            yield path


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
