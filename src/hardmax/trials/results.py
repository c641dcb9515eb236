"""The results of a sweep: rows, counts, failures, summaries and phase diagrams, read from its store."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.files import whole, whole_text
from hardmax._lib.json import attributes
from hardmax._lib.notebook import Pictured, picture
from hardmax._lib.result import Shown
from hardmax._lib.style import style
from hardmax.trials.grid import Parameters, cell_key, seeds
from hardmax.trials.provenance import Function, identity, named
from hardmax.trials.store import Store
from hardmax.trials.summary import CellSummary, Collected, Proportion, kind_of, summary_lines, summary_of
from hardmax.trials.work import DONE, FAILED, call, checked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHUNK = 50_000  # rows of a Parquet row group
UNKNOWN = "FILE.py:NAME"  # in the command of a trial if the function is not at hand


@dataclass(frozen=True)
class Failure:
    """A trial that failed: its place, its error, and the command that runs it alone."""

    cell: int
    trial: int
    parameters: Parameters
    seed: int
    error: str
    traceback: str | None
    attempts: int
    command: str


@dataclass(frozen=True, eq=False)
class Sweep(Shown):
    """The results of `hardmax.sweep`, finished or not; `Sweep.open` reads a store without running anything.

    Rows come in the order of cells and trials, whatever the order in which they were run.

    >>> import hardmax as hm
    >>> result = hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 3, workers=0)
    >>> result
    Sweep(done=6, failed=0, remaining=0)
    >>> next(result.rows())
    {'d': 2, 'trial': 0, 'seed': 8321822199535528429, 'status': 'done', 'odd': True}
    """

    store: Store
    function: Function | None = None  # of the process that ran the sweep; a store is data and names none

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Sweep:
        """Read a store; a driver may be writing to it."""
        store = Store.read(path)
        if "trials" not in store.meta:
            raise ValueError(f"{path} holds no sweep yet: it is starting, or was stopped before it began")
        sweep = cls(store)
        if sweep.remaining < 0:
            raise ValueError(
                f"{path} is damaged: it holds more trials than it says; use a copy, or another store"
            )
        return sweep

    def __repr__(self) -> str:
        return f"Sweep(done={self.done}, failed={self.failed}, remaining={self.remaining})"

    def table(self) -> str:
        """Return what `hardmax sweep` prints.

        >>> import hardmax as hm
        >>> print(hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 3, workers=0))
        d  trials              odd
        2       3  2 of 3 (9-99%)
        5       3  1 of 3 (1-91%)
        6 done, 0 failed, 0 remaining
        """
        lines = summary_lines(summary_of(self.store), failures_of(self), self.parameters)
        counts = f"{self.done} done, {self.failed} failed, {self.remaining} remaining"
        return "\n".join([*lines, counts])

    @property
    def done(self) -> int:
        """Trials that returned a row."""
        return sum(done for _, done, _ in self.store.counts())

    @property
    def failed(self) -> int:
        """Trials that raised, or whose worker died again and again."""
        return sum(failed for _, _, failed in self.store.counts())

    @property
    def total(self) -> int:
        """All trials of all cells."""
        return int(self.store.meta["trials"]) * self.store.cell_count

    @property
    def remaining(self) -> int:
        """Trials that were not run yet."""
        return self.total - sum(done + failed for _, done, failed in self.store.counts())

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, in the order of the grid."""
        return list({name: None for _, cell in self.store.cells() for name in cell})

    def cells(self) -> list[Parameters]:
        """Return the parameters of every cell; its place in the list is its number."""
        return [parameters for _, parameters in self.store.cells()]

    def sessions(self) -> list[dict[str, Any]]:
        """Return versions, code, data, command and machine of every session."""
        return self.store.sessions()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict per trial that was run: parameters, trial, seed, status, results."""
        for row in self._rows_with_errors():
            del row["error"]
            yield row

    def failures(self) -> Iterator[Failure]:
        """Yield the trials that failed."""
        columns = "trial, seed, error, traceback, attempts"
        for cell, *rest in self.store.select(f"cell, {columns}", "status = ?", FAILED):
            trial, seed, error, trace, attempts = rest
            parameters = self.store.parameters(cell)
            command = self._command(cell, trial, parameters, seed)
            yield Failure(cell, trial, parameters, seed, error, trace, attempts, command)

    def column(self, name: str) -> np.ndarray:
        """Return a parameter, a result, "trial" or "seed" of all completed trials, in the order of `rows`.

        Results that a trial left out are nan among numbers and None among others.
        """
        values, exists = [], False
        for row in self.rows():
            if row["status"] == DONE:
                values.append(row.get(name))
                exists = exists or name in row
        if values and not exists:
            raise ValueError(f"column must name a parameter, a result, 'trial' or 'seed', got {name!r}")
        kinds = {type(value) for value in values}
        if kinds in ({bool}, {int}):
            return np.array(values)
        if float in kinds and kinds <= {float, int, type(None)}:
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.array(values, dtype=object)

    def summary(self, by: Sequence[str] | None = None, of: Sequence[str] | None = None) -> list[CellSummary]:
        """Summarize the results named in ``of`` (all) for each combination of the parameters in ``by`` (all).

        >>> import hardmax as hm
        >>> grid = {"a": [1, 3], "b": [1, 2]}
        >>> result = hm.sweep(lambda p, seed: {"x": p["a"] * p["b"]}, grid, 5, workers=0)
        >>> [(cell.parameters, cell.of["x"].mean) for cell in result.summary(by=["a"])]
        [({'a': 1}, 1.5), ({'a': 3}, 4.5)]
        """
        by = [by] if isinstance(by, str) else by
        unknown = [name for name in by or () if name not in self.parameters]
        if unknown:
            raise ValueError(f"by must name parameters ({', '.join(self.parameters)}), got {unknown[0]!r}")
        of = [of] if isinstance(of, str) else of
        collected = Collected(self.store, by)
        missing = [name for name in of or () if name not in collected.kinds]
        if collected.kinds and missing:
            raise ValueError(f"of must name results ({', '.join(collected.kinds)}), got {missing[0]!r}")
        return collected.summaries(collected.kinds if of is None else of)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as CSV: nan and inf as such, None and what is missing as nothing."""
        names = list(self._columns())
        with whole_text(path) as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in self._rows_with_errors():
                writer.writerow([_cell_text(row.get(name)) for name in names])

    def to_frame(self) -> Any:
        """Return all rows as a pandas DataFrame, in the order of `rows`."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(f"to_frame needs pandas ({error}): pip install pandas; or use to_csv") from None
        return pandas.DataFrame.from_records(list(self.rows()))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as Parquet (needs the extra `export`).

        Columns are typed; one whose results have different kinds is written as JSON texts.
        """
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError(f"Parquet needs pyarrow ({error}): {install('export')}") from error
        types = {name: _arrow_type(pa, kinds) for name, kinds in self._columns().items()}
        mixed = {name for name, kind in types.items() if kind is None}
        schema = pa.schema([(name, kind or pa.string()) for name, kind in types.items()])
        rows = self._rows_with_errors()
        with whole(path) as file, pq.ParquetWriter(file, schema) as writer:
            while chunk := list(itertools.islice(rows, CHUNK)):
                for row in chunk:
                    row.update({name: json.dumps(row[name]) for name in mixed & row.keys()})
                writer.write_table(pa.Table.from_pylist(chunk, schema=schema))

    def _columns(self) -> dict[str, set[type]]:
        """Return the names of all columns, in order of first occurrence, with the kinds of their values."""
        kinds: dict[str, set[type]] = {}
        for parameters in self.cells():
            for name, value in parameters.items():
                kinds.setdefault(name, set()).add(kind_of(value))
        kinds |= {"trial": {int}, "seed": {int}, "status": {str}}
        for name, types in Collected(self.store).kinds.items():
            kinds.setdefault(name, set()).update(types)
        return kinds | ({"error": {str}} if self.failed else {})

    def _rows_with_errors(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `rows` with the error of those that failed, or None."""
        number, parameters = -1, {}
        for cell, trial, seed, status, row, error in self.store.select(
            "cell, trial, seed, status, row, error"
        ):
            if cell != number:
                number, parameters = cell, self.store.parameters(cell)
            yield {**parameters, "trial": trial, "seed": seed, "status": status, **row, "error": error}

    def _command(self, cell: int, trial: int, parameters: Parameters, seed: int) -> str:
        if self.store.path is None:
            argument = [seed] if self.store.meta["batched"] else seed
            return f"{self.store.meta['function'].rpartition(':')[2]}({parameters!r}, {argument})"
        name = None if self.function is None else named(self.function)[1]
        words = json.dumps([str(self.store.path), cell, trial, name or UNKNOWN])[1:-1]
        return f"python -c {shlex.quote(f'import hardmax as hm; print(hm.trials.run_one({words}))')}"


def failures_of(sweep: Sweep, command: str | None = None) -> list[dict[str, Any]]:
    """Return the failed trials, each with the command that runs it alone."""
    return [
        {
            **attributes(row, "cell", "trial", "seed", "parameters", "error"),
            "command": row.command if command is None else f"{command} --trial {row.cell}:{row.trial}",
        }
        for row in sweep.failures()
    ]


@check_arguments
def run_one(
    sweep: Sweep | str | os.PathLike[str], cell: int, trial: int, function: Function | str | None = None
) -> dict[str, Any]:
    """Run one trial of a sweep, or of a store, in this process; its exception, if any, is raised here.

    Nothing is recorded. A store is data that others may have made: no function is ever loaded because a store
    names it.

    Args:
        sweep: or the file of a store.
        cell: the number of the cell, as `Sweep.failures` gives it.
        trial: its number in the cell.
        function: the one that the sweep was made with, as `sweep` takes it; what this process itself ran need
            not be named.

    >>> import hardmax as hm
    >>> result = hm.sweep("operator:truediv", {"d": 2}, 1, workers=0)
    >>> [failure] = result.failures()
    >>> failure.error
    "TypeError: unsupported operand type(s) for /: 'dict' and 'int'"
    >>> hm.trials.run_one(result, failure.cell, failure.trial)
    Traceback (most recent call last):
    TypeError: unsupported operand type(s) for /: 'dict' and 'int'
    """
    opened = sweep if isinstance(sweep, Sweep) else Sweep.open(sweep)
    store = opened.store
    meta, trial_function = store.meta, function_of(opened, function)
    parameters = store.parameters(cell)
    if not 0 <= trial < meta["trials"]:
        raise ValueError(f"trial must be 0 to {meta['trials'] - 1}, got {trial}")
    (seed,) = seeds(meta["seed"], cell_key(parameters), trial, trial + 1)
    return checked(call(trial_function, meta["batched"], parameters, seed), parameters)


def function_of(sweep: Sweep, function: Function | str | None = None) -> Function:
    """Return the function that a caller names; a ValueError if the sweep was made with another."""
    if function is None and sweep.function is not None:
        return sweep.function
    stored = sweep.store.meta["function"]
    if function is None:
        raise ValueError(
            "function must be given, as in run_one(..., function='file.py:name'): the store says that it was "
            f"{stored!a:.60}, but a store is data, and names no code to run"
        )
    loaded, name = named(function)
    if identity(loaded, name) != stored:
        raise ValueError(
            f"function must be that of the sweep, {stored!a:.60}, got {identity(loaded, name)!r}"
        )
    return loaded


def _arrow_type(pa: Any, kinds: set[type]) -> Any:
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    if kinds <= {int, float} and kinds:
        return pa.float64()
    return pa.string() if kinds <= {str} else None


def _cell_text(value: Any) -> Any:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


PANEL, AROUND = (1.75, 1.25), (1.5, 0.75)  # inches of a panel, and of the space around all panels


@dataclass(frozen=True, eq=False)
class PhaseDisplay(Pictured):
    """The share of trials in which a result is true: a field for each (x, y), a panel for each ``across``.

    Every result has its row of panels. Fields have one size, whatever lies between the values that were run.

    >>> import hardmax as hm
    >>> def trial(at, seed):
    ...     return {"small": seed % 8 < at["a"] * at["b"]}
    >>> result = hm.sweep(trial, {"a": [1, 2], "b": [1, 4]}, trials=50, workers=0)
    >>> phases = hm.trials.PhaseDisplay.of(result, ["small"], x="a", y="b")
    >>> phases.shares[0, 0, 1, 1], len(phases.plot().axes)   # the panel and its scale
    (np.float64(1.0), 2)
    """

    results: tuple[str, ...]
    x: str
    y: str
    across: str | None
    values: dict[str, list[Any]]
    shares: np.ndarray  # (results, across, y, x), nan where nothing was run

    @classmethod
    def of(
        cls, sweep: Sweep, results: Sequence[str], x: str, y: str, across: str | None = None
    ) -> PhaseDisplay:
        """Count results of a sweep; trials that differ in other parameters only are counted together."""
        names = [name for name in (across, y, x) if name is not None]
        cells = sweep.summary(by=names, of=results)
        values = {name: _ordered(cell.parameters.get(name) for cell in cells) for name in names}
        shares = np.full((len(results), *map(len, values.values())), np.nan)
        for cell in cells:
            field = tuple(column.index(cell.parameters.get(name)) for name, column in values.items())
            for at, name in enumerate(results):
                share = cell.of.get(name)
                if share is not None and not isinstance(share, Proportion):
                    raise ValueError(f"results must be true or false in every trial, {name!r} is not")
                shares[(at, *field)] = np.nan if share is None else share.share
        return cls(tuple(results), x, y, across, values, shares.reshape(len(results), -1, *shares.shape[-2:]))

    def plot(self) -> Figure:
        """Draw the matplotlib figure; its first axes are the panels, row by row."""
        rows, columns = self.shares.shape[:2]
        ticks = self.values[self.x], self.values[self.y]
        edges = [np.arange(len(values) + 1) - 0.5 for values in ticks]
        with style():
            figure = picture((PANEL[0] * columns + AROUND[0], PANEL[1] * rows + AROUND[1]))
            panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
            for at, name in enumerate(self.results):
                for panel, shares in zip(panels[at], self.shares[at], strict=True):
                    field = panel.pcolormesh(*edges, shares, cmap="cividis", vmin=0, vmax=1)
                    field.set(edgecolor="white", linewidth=0.3)
                    for axis, values in zip((panel.xaxis, panel.yaxis), ticks, strict=True):
                        axis.set_ticks(range(len(values)), labels=[str(value) for value in values])
                        axis.set_tick_params(length=0)
                    panel.spines[:].set_visible(False)
                scale = figure.colorbar(field, ax=panels[at], pad=0.02, aspect=12, ticks=[0, 0.5, 1])
                scale.set_label(f"P({name.replace('_', ' ')})")
                scale.outline.set_visible(False)
            if self.across is not None:
                for panel, value in zip(panels[0], self.values[self.across], strict=True):
                    panel.set_title(f"{_symbol(self.across)} = {value}")
            for panel in panels[-1]:
                panel.set_xlabel(_symbol(self.x))
            for panel in panels[:, 0]:
                panel.set_ylabel(_symbol(self.y), rotation=0 if len(self.y) == 1 else 90)
        return figure


def _ordered(values: Iterable[Any]) -> list[Any]:
    """Sort numbers by size; leave others in their order."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, (int, float)) for value in distinct) else distinct


def _symbol(name: str) -> str:
    """Return letters as in formulas, words as they are."""
    return f"${name}$" if len(name) == 1 else name.replace("_", " ")
