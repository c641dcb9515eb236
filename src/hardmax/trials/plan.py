"""A sweep written down in a TOML file, as `hardmax sweep` reads it (docs/how-to/sweeps.md)."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardmax._lib import expect
from hardmax._lib.reading import read_bytes
from hardmax.trials.grid import MOST, STORED, Grid
from hardmax.trials.provenance import load

LARGEST = 2**24  # bytes of a file
BUILT_IN = "hardmax.trials.experiments:built_in"
OPTIONS = {"workers": 1, "batch": 1, "retries": 0}  # of `hardmax.sweep`, with the least value of each
SWEEP = ("experiment", "function", "batched", "trials", "seed", "grid", "cells", "parameters")
KEYS = (*SWEEP, *OPTIONS, "data_files")


@dataclass(frozen=True)
class Plan:
    r"""A sweep as its file describes it, with the place of its results.

    ``varying`` are the names of the parameters that differ between cells; ``options`` go to `hardmax.sweep`
    as they are.

    >>> import pathlib, tempfile
    >>> from hardmax.trials.plan import read_plan
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.toml"
    >>> _ = file.write_text('experiment = "sphere"\ntrials = 10\ngrid.d = [2, 5]\nparameters.n = 3')
    >>> plan = read_plan(file)
    >>> plan.grid, plan.varying, plan.store.name
    ({'experiment': ['sphere'], 'n': [3], 'd': [2, 5]}, ('d',), 'mine.sqlite')
    """

    file: Path
    function: str
    batched: bool
    grid: dict[str, list[Any]] | list[dict[str, Any]]
    trials: int
    seed: int
    options: dict[str, Any]

    @property
    def store(self) -> Path:
        """The file of the results: next to this one, under its name."""
        return self.file.with_suffix(".sqlite")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the sweep reads: this one, that of its function, and its data."""
        module = self.function.rpartition(":")[0]
        scripts = [Path(module)] if module.endswith(".py") else []
        return (self.file, *scripts, *self.options["data_files"])

    @property
    def varying(self) -> tuple[str, ...]:
        """Parameters with more than one value."""
        if isinstance(self.grid, dict):
            return tuple(name for name, values in self.grid.items() if len(values) > 1)
        names = dict.fromkeys(name for cell in self.grid for name in cell)
        return tuple(name for name in names if len({repr(cell.get(name)) for cell in self.grid}) > 1)


def read_plan(file: str | os.PathLike[str], allow: Sequence[str] = ()) -> Plan:
    """Read and check a file; errors name the key.

    Its function must be defined in a Python file next to it, which is run: read only files that you trust. Of
    other files and of modules those may be run that ``allow`` names.

    >>> import pathlib, tempfile
    >>> from hardmax.trials.plan import read_plan
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.toml"
    >>> _ = file.write_text('experiment = "sphere"')
    >>> read_plan(file)
    Traceback (most recent call last):
    ValueError: mine.toml: trials must be an integer of at least 1, got None
    """
    path = Path(file)
    content = read_bytes(path, LARGEST)
    try:
        return _plan(path, tomllib.loads(content.decode("utf-8-sig")), allow)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path.name} is not a TOML file: {error}; see docs/how-to/sweeps.md") from None
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply; docs/how-to/sweeps.md shows a sweep") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _plan(path: Path, content: Mapping[str, Any], allow: Sequence[str]) -> Plan:
    for key in content:
        if key not in KEYS:
            raise ValueError(f"{key} is not a key of a sweep; the keys are {', '.join(KEYS)}")
    if ("experiment" in content) == ("function" in content):
        raise ValueError(
            "a sweep must set exactly one of experiment (a built-in one) and function ('file.py:name')"
        )
    fixed = _table("parameters", content)
    if "experiment" in content:
        function, batched = BUILT_IN, True
        if "batched" in content:
            raise ValueError("batched goes with function; leave it out for a built-in experiment")
        fixed = {"experiment": content["experiment"], **fixed}
    else:
        batched = content.get("batched", False)
        if not isinstance(batched, bool):
            raise ValueError(f"batched must be true or false, got {expect._short(batched)}")
        function = _function(path, content["function"], allow)
    grid = _grid(content, fixed)
    if function == BUILT_IN:
        grid = _checked(grid)
    else:
        Grid(grid)  # refuses what is not a grid
    options = {name: content[name] for name in OPTIONS if name in content}
    for name, value in options.items():
        expect.whole(name, value, OPTIONS[name])
    files = content.get("data_files", [])
    if not isinstance(files, list):
        raise ValueError(f"data_files must be a list of files, got {expect._short(files)}")
    options["data_files"] = [path.parent / _text("data_files", name) for name in files]
    trials = expect.whole("trials", content.get("trials"), 1)
    seed = expect.whole("seed", content.get("seed", 0))
    return Plan(path, function, batched, grid, trials, seed, options)


def built_in_cells(
    experiment: str, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the grid of a built-in experiment as a sweep takes it, checked."""
    from hardmax.trials.experiments import EXPERIMENTS

    if experiment not in EXPERIMENTS:
        raise ValueError(
            "function must be 'module:name', 'file.py:name' or a built-in experiment, got "
            f"{expect._short(experiment)}; the experiments are {', '.join(EXPERIMENTS)}"
        )
    if isinstance(grid, Mapping):
        return _checked({"experiment": experiment, **grid})
    return _checked([{"experiment": experiment, **cell} for cell in grid])


def _checked(grid: Any) -> Any:
    """Return the grid of a built-in experiment with the names of parameters in stores, after checking it."""
    from hardmax.trials.experiments import check_parameters

    def stored(table: dict[str, Any]) -> dict[str, Any]:
        for name, old in STORED.items():
            if name in table and old in table:
                raise ValueError(f"{name} and {old} are one parameter; leave {old} out")
        return {STORED.get(name, name): value for name, value in table.items()}

    grid = [stored(cell) for cell in grid] if isinstance(grid, list) else stored(grid)
    for cell in Grid(grid):
        check_parameters(cell)
    return grid


def _grid(content: Mapping[str, Any], fixed: dict[str, Any]) -> dict[str, list[Any]] | list[dict[str, Any]]:
    """Return the grid: the parameters that all cells share, then those that differ."""
    if "cells" not in content:
        axes = {name: _axis(name, values) for name, values in _table("grid", content).items()}
        return {**{name: [value] for name, value in fixed.items() if name not in axes}, **axes}
    if "grid" in content:
        raise ValueError("a sweep must have grid (all combinations) or cells (a list of tables), got both")
    cells = content["cells"]
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("cells must be a list of tables, one [[cells]] each")
    return [fixed | {name: _worded(name, value) for name, value in cell.items()} for cell in cells]


def _axis(name: str, values: Any) -> list[Any]:
    """Return the values of one name: a list, one value, or all whole numbers { from = a, to = b }."""
    if not isinstance(values, dict):
        return [_worded(name, value) for value in values] if isinstance(values, list) else [values]
    if set(values) != {"from", "to"}:
        raise ValueError(
            f"grid.{name} must be a list of values or {{ from = a, to = b }}, got {expect._short(values)}"
        )
    first, last = (expect.whole(f"grid.{name}.{end}", values[end]) for end in ("from", "to"))
    return list(range(first, min(last, first + MOST) + 1))  # more than a grid may have: it refuses them


def _table(key: str, content: Mapping[str, Any]) -> dict[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        raise ValueError(f"{key} must be a table, [{key}], got {expect._short(table)}")
    return table if key == "grid" else {name: _worded(name, value) for name, value in table.items()}


def _worded(name: str, value: Any) -> Any:
    """Return a built-in parameter that is a list as one text: cells hold scalars."""
    if name in ("measure", "start", "betas") and isinstance(value, list):
        return " ".join(map(str, value))
    return value


def _function(path: Path, function: Any, allow: Sequence[str]) -> str:
    """Return a user's function as workers find it: in a file next to the TOML file, or as allowed."""
    where, _, name = _text("function", function).rpartition(":")
    here = Path(os.path.realpath(path.parent))
    if where.endswith(".py"):
        file = Path(os.path.realpath(path.parent / where))
        allowed = str(file) in map(os.path.realpath, allow)
        if not allowed and not file.is_relative_to(here):
            raise ValueError(
                f"function: {where} is not next to this file; put it there, or pass its path in "
                "`allow` to run it"
            )
        function = f"{file}:{name}"
    else:
        allowed = where in allow
        if where and not allowed:
            raise ValueError(
                f"function: a file alone may not choose a module to run; if you trust {where!r}, pass "
                f"it in `allow`, or put the function into a file next to this one, 'file.py:name'"
            )
    try:
        loaded = load(function)
    except ValueError as error:
        raise ValueError(f"function: {error}") from None
    module = sys.modules.get(getattr(loaded, "__module__", None) or "")
    origin = getattr(module, "__file__", None)  # where the function is defined, and not only imported
    if not allowed and not (origin and Path(os.path.realpath(origin)).is_relative_to(here)):
        raise ValueError(
            f"function: {name} is only imported in {where}; define a separate function there that calls it"
        )
    return str(function)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {expect._short(value)}")
    return value
