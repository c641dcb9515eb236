"""The tally of a batch: what its rows add to a summary, column by column, so that rows are not read again.

Counts of true, false and of each text can be added; mean, standard error and quantiles of numbers cannot be
had exactly from sums, so the numbers themselves are kept, packed. A worker makes the tally of its batch, and
it goes into the store with the rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# What a result can be, by the word for it in a tally; an integer beyond 64 bits has the kind object.
KINDS: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "None": type(None),
    "wide": object,
}
WORDS = {kind: word for word, kind in KINDS.items()}
NUMBERS = "<f8"


class Tally(NamedTuple):
    """Trials of one cell that are done: the first, how many, their columns as JSON, their numbers as float64.

    A column is a list: name, the first trial that has it, its place in that row, its kinds, how many are
    true, how many true or false, how many it has of the numbers, and how often it is which text. The numbers,
    little-endian, are those of the first column, then those of the second, each in the order of trials.
    """

    first: int
    done: int
    columns: str
    numbers: bytes


@dataclass(frozen=True, eq=False)
class Column:
    """One result of the trials of a tally: see there."""

    name: str
    first: int
    place: int
    kinds: frozenset[type]
    true: int
    flags: int
    numbers: np.ndarray
    texts: Mapping[str, int]


class Names:
    """Names of results with their kinds, in the order in which rows first have them, whenever these came."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[type]] = {}
        self.places: dict[str, tuple[int, int, int]] = {}

    def see(self, cell: int, column: Column) -> None:
        """Take note of a column of a cell."""
        place = cell, column.first, column.place
        self.places[column.name] = min(place, self.places.get(column.name, place))
        self.kinds.setdefault(column.name, set()).update(column.kinds)

    def in_order(self) -> dict[str, set[type]]:
        """The kinds of each, as the names follow one another."""
        return {name: self.kinds[name] for name in sorted(self.places, key=self.places.__getitem__)}


def kind_of(value: Any) -> type:
    """The kind of a scalar."""
    return object if type(value) is int and not -(2**63) <= value < 2**63 else type(value)


def tally(trials: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> Tally | None:
    """The tally of rows of one cell, in the order of their trials; None if there are none."""
    if not trials:
        return None
    found: dict[str, tuple[int, int, list[Any]]] = {}
    for trial, row in zip(trials, rows, strict=True):
        for place, (name, value) in enumerate(row.items()):
            if name in found:
                found[name][2].append(value)
            else:
                found[name] = trial, place, [value]
    columns, numbers = [], []
    for name, (first, place, values) in found.items():
        kinds = sorted({WORDS[kind] for kind in set(map(kind_of, values))})
        flags = [value for value in values if value is True or value is False]
        floats = np.array([value for value in values if type(value) in (int, float)], dtype=NUMBERS)
        texts = Counter(value for value in values if type(value) is str)
        columns.append([name, first, place, kinds, sum(flags), len(flags), len(floats), texts])
        numbers.append(floats.tobytes())
    return Tally(trials[0], len(trials), json.dumps(columns, separators=(",", ":")), b"".join(numbers))
