"""Problems as CSV: a row for each token, with its input, its score and the coordinates of its key."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from hardmax._reading import LARGEST_JSON, read_bytes
from hardmax.problem import Problem

_PAGE = "docs/files.md shows such a table"
_OWN = ("input", "score", "token")


def read_table(path: Path) -> Problem:
    """The problem in a table with the columns input, score and the coordinates of the keys."""
    try:
        text = read_bytes(path, LARGEST_JSON).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a table in UTF-8 ({error.reason}); {_PAGE}") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        return _problem(path, names, [(rows.line_num, row) for row in rows if any(map(str.strip, row))])
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: {error}; {_PAGE}") from None


def _problem(path: Path, names: list[str], rows: list[tuple[int, list[str]]]) -> Problem:
    coordinates = [at for at, name in enumerate(names) if name not in _OWN]
    if not {"input", "score"} <= set(names) or len(set(names)) < len(names) or not coordinates:
        raise ValueError(
            f"{path}: the first line must name the columns input, score and one for each coordinate, "
            f"got {', '.join(names) or 'nothing'}; {_PAGE}"
        )
    keys: dict[str, list[list[float]]] = {}
    scores: dict[str, list[float]] = {}
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(f"{path}, line {line}: expected {len(names)} fields, got {len(row)}; {_PAGE}")
        name = row[names.index("input")].strip()
        try:
            key = [float(row[at]) for at in coordinates]
            score = float(row[names.index("score")])
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: expected numbers ({error}); {_PAGE}") from None
        keys.setdefault(name, []).append(key)
        scores.setdefault(name, []).append(score)
    if not keys:
        raise ValueError(f"{path} holds no token: the first line is followed by none; {_PAGE}")
    return Problem.from_scores(list(keys.values()), list(scores.values()))
