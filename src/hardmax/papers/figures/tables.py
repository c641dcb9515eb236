"""Tables: named columns of equal length, which is what a CSV file holds and all a picture is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Table = Mapping[str, np.ndarray]
Tables = Mapping[str, Table]


def part(table: Table, column: str, value: Any) -> dict[str, np.ndarray]:
    """The rows of a table that hold a value in a column.

    >>> import numpy as np
    >>> from hardmax.papers.figures.tables import part
    >>> part({"run": np.array([0, 0, 1]), "step": np.array([5, 6, 7])}, "run", 0)["step"].tolist()
    [5, 6]
    """
    rows = np.asarray(table[column]) == value
    return {name: np.asarray(values)[rows] for name, values in table.items()}
