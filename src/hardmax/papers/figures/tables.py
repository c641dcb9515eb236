"""Tables: named columns of equal length, as in a CSV file; pictures are drawn from them alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Table = Mapping[str, np.ndarray]
Tables = Mapping[str, Table]


def part(table: Table, column: str, value: Any) -> dict[str, np.ndarray]:
    """Return the rows of a table that have a value in a column.

    >>> import numpy as np
    >>> from hardmax.papers.figures.tables import part
    >>> part({"run": np.array([0, 0, 1]), "step": np.array([5, 6, 7])}, "run", 0)["step"].tolist()
    [5, 6]
    """
    rows = np.asarray(table[column]) == value
    return {name: np.asarray(values)[rows] for name, values in table.items()}


def stacked(parts: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Stack tables with the same columns; a single value in one of them fills its column.

    >>> from hardmax.papers.figures.tables import stacked
    >>> stacked([{"run": "a", "step": [5, 6]}, {"run": "b", "step": [7]}])["run"].tolist()
    ['a', 'a', 'b']
    """
    columns: dict[str, list[np.ndarray]] = {}
    for table in parts:
        size = next((len(values) for values in table.values() if np.ndim(values)), 1)
        for name, values in table.items():
            columns.setdefault(name, []).append(np.broadcast_to(values, size))
    return {name: np.concatenate(column) for name, column in columns.items()}
