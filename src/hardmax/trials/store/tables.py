"""The tables of a store, and whether a file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SCHEMA = "hardmax.sweep/2"
FIRST = "hardmax.sweep/1"  # the same without tallies
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE cells (cell INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, parameters TEXT NOT NULL)",
    """CREATE TABLE sessions (
        session INTEGER PRIMARY KEY, started TEXT NOT NULL, ended TEXT, provenance TEXT NOT NULL
    )""",
    """CREATE TABLE trials (
        cell INTEGER NOT NULL REFERENCES cells, trial INTEGER NOT NULL, seed INTEGER NOT NULL,
        status TEXT NOT NULL, row TEXT, error TEXT, traceback TEXT, seconds REAL, attempts INTEGER NOT NULL,
        session INTEGER NOT NULL REFERENCES sessions, PRIMARY KEY (cell, trial)
    ) WITHOUT ROWID""",
    "CREATE INDEX failures ON trials (cell, trial) WHERE status = 'failed'",
)
# One line for each batch, see `hardmax.trials.tally`. A trial is done once, so the first names the batch.
TALLIES = """CREATE TABLE tallies (
    cell INTEGER NOT NULL REFERENCES cells, first INTEGER NOT NULL, done INTEGER NOT NULL,
    columns TEXT NOT NULL, numbers BLOB NOT NULL, PRIMARY KEY (cell, first)
)"""
# A cell whose tallies count other trials than are done, or that does not exist; and whether it has rows and
# does not exist, which no new tallies mend, so such a cell comes first.
DISAGREEMENT = """SELECT cell, max(rows) AND cell NOT IN (SELECT cell FROM cells) AS lost FROM (
    SELECT cell, count(*) AS done, 1 AS rows FROM trials WHERE status = 'done' GROUP BY cell
    UNION ALL SELECT cell, -total(done), 0 FROM tallies GROUP BY cell
) GROUP BY cell HAVING total(done) <> 0 OR cell NOT IN (SELECT cell FROM cells)
ORDER BY lost DESC, cell LIMIT 1"""


def check_tables(path: Path | None, listed: Iterable[tuple[Any, ...]], schema: Callable[[], Any]) -> None:
    """Take no table for granted: a view or a trigger of somebody else's would do what it likes."""
    listed = list(listed)
    tables = {name for kind, name, _ in listed if kind == "table"}
    found = schema() if {"meta", "cells", "trials", "sessions"} <= tables else None
    if not isinstance(found, str):
        raise ValueError(f"{path} is not a store of a sweep; choose another file")
    if found not in (SCHEMA, FIRST):
        raise ValueError(f"{path} has the format {found:.40}, this version reads {FIRST} and {SCHEMA}")
    expected = {_words(statement) for statement in (*TABLES, *([TALLIES] if found == SCHEMA else []))}
    if {_words(sql) for _, _, sql in listed} != expected:
        raise ValueError(f"{path} has other tables than a sweep makes; use another store")


def _words(statement: str) -> str:
    return " ".join(statement.split())
