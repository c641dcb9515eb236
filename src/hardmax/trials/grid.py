"""The cells of a sweep and the seeds of its trials.

A trial is identified by the root seed, the parameters of its cell and its number within the cell. Its seed is
a hash of these three and of nothing else, so the trial is the same on any machine, in any order, in any
batch, and in any larger grid that contains the cell.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any

from hardmax._lib import expect

Scalar = bool | int | float | str | None
Parameters = dict[str, Scalar]

# Columns that every table of trials has besides parameters and results.
RESERVED = ("cell", "trial", "seed", "status", "error")
# Parameters of the built-in experiments, and their names in stores: those of 0.2, which decide the seeds.
STORED = {"optimizer": "rule", "lr": "rate", "eps": "epsilon"}
MOST = 10_000_000  # cells: each is a row of the store


def scalar(name: str, value: Any) -> Scalar:
    """Return ``value`` as a plain Python scalar; scalars of numpy are converted."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(name, str.__str__(value))  # the text itself, also of a member of an enumeration
    if isinstance(value, int):
        if abs(value) > sys.float_info.max:
            raise ValueError(
                f"{name} must be a number that a float can hold, got one of {value.bit_length()} bits"
            )
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise ValueError(f"{name} must be a bool, a number, a text or None, got {expect._short(value)}")


def cell_key(parameters: Mapping[str, Scalar]) -> str:
    """Return a cell as canonical JSON: sorted names, no spaces, shortest digits, whole numbers without point.

    Numbers that are equal give the same key, so 2, 2.0 and numpy's 2 are one parameter; True is not 1.

    >>> from hardmax.trials.grid import cell_key
    >>> cell_key({"eta": 1.0, "d": 5, "head": None})
    '{"d":5,"eta":1,"head":null}'
    """
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in parameters.items()
    }
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def seeds(root: int, key: str, start: int, stop: int) -> list[int]:
    """Return the seeds of the trials start, ..., stop - 1 of the cell with this key.

    A seed is the first 63 bits of blake2b, at a digest of 8 bytes, of the text ``[root,key,trial]``.

    >>> from hardmax.trials.grid import cell_key, seeds
    >>> seeds(0, cell_key({"d": 5}), 0, 2)
    [5761873955562447576, 8782678029382582850]
    """
    stem = blake2b(f"[{root},{key},".encode(), digest_size=8)
    numbers = []
    for trial in range(start, stop):
        state = stem.copy()
        state.update(f"{trial}]".encode())
        numbers.append(int.from_bytes(state.digest(), "big") >> 1)
    return numbers


class Grid:
    """The cells: the product of lists of values, or an explicit list of cells. Iterates without storing them.

    A single value is a list of one. The last name of a product varies fastest.

    >>> from hardmax.trials.grid import Grid
    >>> list(Grid({"d": [2, 5], "head": "linear"}))
    [{'d': 2, 'head': 'linear'}, {'d': 5, 'head': 'linear'}]
    """

    def __init__(self, grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        self.cells: list[Parameters] | None = None
        self.axes: dict[str, list[Scalar]] = {}
        if isinstance(grid, Mapping):
            self.axes = {_name(name): _values(name, values) for name, values in grid.items()}
        elif isinstance(grid, Sequence) and all(isinstance(cell, Mapping) for cell in grid):
            self.cells = [{_name(n): _parameter(n, v) for n, v in cell.items()} for cell in grid]
        else:
            raise ValueError(
                "grid must be a mapping from names to lists of values, or a list of mappings (one for each "
                f"cell), got {expect._short(grid)}"
            )
        if not len(self):
            raise ValueError("grid must have at least one cell, got none: some list of values is empty")
        if len(self) > MOST:
            raise ValueError(f"grid must have at most {MOST:,} cells; make it coarser")
        for name, values in self.axes.items():
            if len({cell_key({name: value}) for value in values}) < len(values):
                raise ValueError(f"grid[{name!r}] holds a value twice; equal parameters are one cell")
        if len({cell_key(cell) for cell in self.cells or ()}) < len(self.cells or ()):
            raise ValueError("grid holds a cell twice; equal parameters are one cell")

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values())) if self.cells is None else len(self.cells)

    def __iter__(self) -> Iterator[Parameters]:
        if self.cells is not None:
            return iter(self.cells)
        return (dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values()))


def _text(name: str, value: str) -> str:
    """Return a text that goes into a file; a ValueError if UTF-8 cannot hold it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be a text that UTF-8 can hold, got {value!r}") from None
    return value


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"grid: the name of a parameter must be a text, got {expect._short(name)}")
    _text("grid: the name of a parameter", name)
    if name in RESERVED:
        raise ValueError(f"grid: {name!r} is a column of every sweep; give the parameter another name")
    return name


def _parameter(name: str, value: Any) -> Scalar:
    parameter = scalar(f"grid[{name!r}]", value)
    if parameter != parameter:
        raise ValueError(f"grid[{name!r}] must not be nan, which does not equal itself; use None instead")
    return parameter


def _values(name: str, values: Any) -> list[Scalar]:
    if isinstance(values, str) or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0:
        return [_parameter(name, values)]
    return [_parameter(name, value) for value in values]
