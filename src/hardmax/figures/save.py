"""A figure on disk: the picture as SVG and PNG, and the numbers behind it as NPZ and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._lib.files import whole, whole_text
from hardmax.figures.figure import Figure

if TYPE_CHECKING:
    from hardmax.figures.tables import Tables


def save(figure: Figure, folder: str | Path) -> list[Path]:
    """Write ID.npz, a file ID.TABLE.csv for each table, ID.svg and ID.png; the same figure, the same bytes.

    >>> import tempfile
    >>> import hardmax as hm
    >>> from hardmax.figures.save import save
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
    >>> from hardmax.figures.save import load_tables, save
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
