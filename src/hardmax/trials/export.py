"""Tables of a sweep for other programs: CSV and Parquet, written row by row and put in place at once."""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hardmax._lib.extras import install
from hardmax._lib.files import whole, whole_text
from hardmax.trials.tally import Names, kind_of

if TYPE_CHECKING:
    from hardmax.trials.results import Sweep

CHUNK = 50_000  # rows of a Parquet row group


def columns(sweep: Sweep) -> dict[str, set[type]]:
    """Names of all columns, in the order in which they first occur, with the kinds of what is in them.

    An integer beyond 64 bits has the kind object.
    """
    found: dict[str, set[type]] = {name: set() for name in sweep.parameters}
    found |= {"trial": {int}, "seed": {int}, "status": {str}}
    results, any_failed = Names(), False
    for part in sweep.parts():
        any_failed = any_failed or part.failed > 0
        for name, value in part.parameters.items():
            found[name].add(kind_of(value))
        for column in part.columns:
            results.see(part.cell, column)
    for name, kinds in results.in_order().items():
        found.setdefault(name, set()).update(kinds)
    return found | ({"error": {str}} if any_failed else {})


def write_csv(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """One line for each trial; floats with all their digits, true and false, None as nothing."""
    names = list(columns(sweep))
    with whole_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in _rows(sweep):
            writer.writerow([_text(row.get(name)) for name in names])


def write_parquet(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Typed columns; one whose results have different kinds is written as JSON texts."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"Parquet needs pyarrow ({error}): {install('export')}") from error
    kinds = columns(sweep)
    types = {name: _arrow_type(pa, kind) for name, kind in kinds.items()}
    mixed = {name for name, made in types.items() if made is None}
    schema = pa.schema([(name, made or pa.string()) for name, made in types.items()])
    rows = _rows(sweep)
    with whole(path) as file, pq.ParquetWriter(file, schema) as writer:
        while chunk := list(itertools.islice(rows, CHUNK)):
            for row in chunk:
                row.update({name: json.dumps(row[name]) for name in mixed & row.keys()})
            writer.write_table(pa.Table.from_pylist(chunk, schema=schema))


def _rows(sweep: Sweep) -> Iterator[dict[str, Any]]:
    """Rows with the error of those that failed."""
    errors = {(each.cell, each.trial): each.error for each in sweep.failures()}
    numbers = (cell for (cell,) in sweep.store.select("cell"))
    for cell, row in zip(numbers, sweep.rows(), strict=True):
        error = errors.get((cell, row["trial"]))
        yield row if error is None else row | {"error": error}


def _arrow_type(pa: Any, kinds: set[type]) -> Any:
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    if kinds <= {int, float} and kinds:
        return pa.float64()
    return pa.string() if kinds <= {str} else None


def _text(value: Any) -> Any:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value
