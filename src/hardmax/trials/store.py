"""The durable store of a sweep: one SQLite file, written by the driver only, one transaction for each batch.

A batch is in the store entirely or not at all, whatever happens to the driver. Rows are JSON text with
Python's NaN and Infinity, so that every float comes back as it was; summaries are made from the rows. Every
value that is read from a store is checked first.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from hardmax._lib.reading import NotJson, parse_json
from hardmax.trials.grid import Grid, Parameters, cell_key, scalar
from hardmax.trials.provenance import changes, now
from hardmax.trials.work import DONE, FAILED, TrialOutcome

REFUSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
MOST = 2**63 - 1  # what SQLite holds as a number
CHUNK = 10_000  # rows that are parsed together
FLOAT = int(sys.float_info.max)
DIGITS = 309  # of an integer that a float does not hold, at least
REMEDY = "use a copy of it, or another store"
SCHEMA = "hardmax.sweep/1"
WITH_TALLIES = "hardmax.sweep/2"  # of version 0.2: the same with a table of batch summaries
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
TALLIES = """CREATE TABLE tallies (
    cell INTEGER NOT NULL REFERENCES cells, first INTEGER NOT NULL, done INTEGER NOT NULL,
    columns TEXT NOT NULL, numbers BLOB NOT NULL, PRIMARY KEY (cell, first)
)"""


class DamagedStore(Exception):
    """The error of a value that no sweep wrote."""


@contextmanager
def sqlite_errors(path: Path | None) -> Iterator[None]:
    """Turn errors of SQLite and damaged values into sentences about the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        message, quoted, _ = str(error).partition(" with text")  # which SQLite would quote in full
        if quoted:
            raise ValueError(f"{path} is damaged: {message}; {REMEDY}") from None
        raise OSError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        raise ValueError(f"{path} is not a store of a sweep ({error}); choose another file") from error
    except DamagedStore as error:
        raise ValueError(f"{path} is damaged: {error}; {REMEDY}") from None


def _object(what: str, text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        raise DamagedStore(f"{what} is {type(text).__name__} instead of text")
    try:
        value = parse_json(text)
    except NotJson as error:
        raise DamagedStore(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DamagedStore(f"{what} is a {type(value).__name__} instead of an object")
    return value


def _scalars(what: str, text: Any) -> Parameters:
    """Parse a JSON object of scalars: the parameters of a cell, or the row of a trial."""
    values = _object(what, text)
    for name, value in values.items():
        try:
            scalar(name, value)
        except ValueError as error:
            raise DamagedStore(f"{what}: {error}") from None
    return values


def _provenance(text: Any) -> dict[str, Any]:
    record = _object("provenance", text)
    if not isinstance(record.get("code"), dict):
        raise DamagedStore("provenance lacks the code")
    return record


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= MOST


# What a sweep writes about itself, and what it may be.
META: dict[str, Callable[[Any], bool]] = {
    "function": lambda value: isinstance(value, str),
    "load": lambda value: value is None or isinstance(value, str),
    "seed": lambda value: type(value) is int and value >= 0,
    "batched": lambda value: isinstance(value, bool),
    "trials": lambda value: _is_count(value, 1),
}


def read_value(column: str, value: Any) -> Any:
    """Return a value of a column of the trials; a DamagedStore if no sweep wrote it."""
    if column == "row":
        return {} if value is None else _scalars("a row", value)
    if column in ("error", "traceback"):
        if value is None or isinstance(value, str):
            return value
        raise DamagedStore(f"{column} of a trial is {type(value).__name__} instead of text")
    if not (value in (DONE, FAILED) if column == "status" else _is_count(value)):
        raise DamagedStore(f"{column} of a trial is {value!a:.40}")
    return value


SCALARS = {bool, int, float, str, type(None)}


def read_rows(texts: Sequence[Any]) -> list[Parameters]:
    """Return the rows in these texts, parsed together, which takes half the time.

    A text cannot complete its neighbor unnoticed: no string spans a line break, what spans a closed bracket
    is not a scalar, and otherwise there are as many objects as texts.
    """
    try:
        joined = ",\n".join(texts)
        if "\\ud" not in joined.lower() and all(text[:1] == "{" and text[-1:] == "}" for text in texts):
            rows: list[Parameters] = json.loads(f"[{joined}]")
            values = list(chain.from_iterable(map(dict.values, rows)))
            large = max(map(len, texts)) >= DIGITS and any(type(x) is int and abs(x) > FLOAT for x in values)
            if len(rows) == len(texts) and set(map(type, values)) <= SCALARS and not large:
                return rows
    except (TypeError, ValueError, RecursionError):
        pass
    return [read_value("row", text) for text in texts]  # one by one, to name what is wrong


class StoreBusy(ValueError):
    """Another driver is writing to the store."""


def take_lock(store: Path) -> sqlite3.Connection | None:
    """Begin an exclusive transaction on an empty SQLite file next to the store; None if another driver has.

    SQLite locks files on every system, and the lock goes when its process is killed. The file itself stays:
    deleting it while another process opens it would give two processes a lock each. Readers of the store do
    not touch it.
    """
    path = store.with_name(store.name + ".lock")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} must be a file that a sweep locks, it is something else; remove it")
    for place in (path.parent, store, path):  # SQLite locks no file that it may only read
        if place.exists() and not os.access(place, os.W_OK):
            raise _unwritable(place, store)
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        connection.execute("BEGIN EXCLUSIVE")
        return connection
    except sqlite3.DatabaseError as error:
        if connection is not None:
            connection.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise ValueError(f"{path} must be an empty file, for a lock ({error}); remove it") from error
        if "locked" in str(error):
            return None
        if error.sqlite_errorcode & 0xFF in REFUSED:  # the lowest byte is the kind of an error
            raise _unwritable(path, store) from error
        raise OSError(f"{path}: {error}") from error


def _unwritable(place: Path, store: Path) -> ValueError:
    """Return the error of a store that cannot be written; reading a finished one is possible."""
    remedy = "choose another place for the store"
    if store.exists():
        remedy = (
            "copy the store to another folder and use the copy, or read it where it is with hm.Sweep.open"
        )
    folder = "the folder " if place.is_dir() else ""
    return ValueError(f"store: {folder}{place} cannot be written, and a sweep has to; {remedy}")


class Store:
    """A connection to a store; ``path`` is None for one in memory."""

    def __init__(
        self, path: Path | None, connection: sqlite3.Connection, lock: sqlite3.Connection | None = None
    ) -> None:
        self.path, self.connection, self.lock = path, connection, lock
        weakref.finalize(self, connection.close)  # in a cycle, `__del__` might come after the connection's

    @classmethod
    def drive(cls, path: str | os.PathLike[str] | None) -> Store:
        """Open a store to write to it, and make it if there is none; only one driver at a time may."""
        if path is None:
            store = cls(None, sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
            store._prepare()
            return store
        where = Path(os.path.realpath(path))
        if not where.parent.is_dir():
            raise ValueError(f"store: there is no folder {where.parent}; make it or choose another place")
        if not where.is_file() and (where.exists() or Path(path).is_symlink()):
            raise ValueError(
                f"store: {path} is not a file, or a link that leads nowhere; choose another place"
            )
        lock = take_lock(where)
        if lock is None:
            raise StoreBusy(
                f"{path} is in use by {_driver(where)}; wait for it, stop it, or use another store"
            )
        try:
            store = cls(where, _connect(where), lock)
            with sqlite_errors(where):
                store._prepare()
                store.connection.execute("PRAGMA journal_mode = WAL")  # so that readers never wait
                store.connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
        except BaseException:
            lock.close()
            raise
        return store

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Store:
        """Open an existing store to read it; a driver may be writing."""
        where = Path(os.path.realpath(path))
        if not where.is_file():
            raise ValueError(f"{path}: no such store; `hardmax.sweep` makes one")
        store = cls(where, _connect(where))
        with sqlite_errors(where):
            store._check_schema()
            store.connection.execute("PRAGMA query_only = ON")
        return store

    def close(self) -> None:
        """Close the connection and let the next driver in."""
        self.connection.close()
        if self.lock is not None:
            self.lock.close()

    def _prepare(self) -> None:
        if not self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with self.transaction():
                for statement in TABLES:
                    self.connection.execute(statement)
                self._set("schema", SCHEMA)
        self._check_schema()

    def _check_schema(self) -> None:
        """Refuse tables, views and triggers that a sweep does not make: they could run other SQL."""
        listed = self._query("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        tables = {name for kind, name, _ in listed if kind == "table"}
        schema = self.meta.get("schema") if {"meta", "cells", "trials", "sessions"} <= tables else None
        if not isinstance(schema, str):
            raise ValueError(f"{self.path} is not a store of a sweep; choose another file")
        if schema not in (SCHEMA, WITH_TALLIES):
            raise ValueError(
                f"{self.path} has the format {schema:.40}, this version reads {SCHEMA} and {WITH_TALLIES}"
            )
        expected = {*TABLES, TALLIES} if schema == WITH_TALLIES else {*TABLES}
        if {" ".join(sql.split()) for _, _, sql in listed} != {" ".join(sql.split()) for sql in expected}:
            raise ValueError(f"{self.path} has other tables than a sweep makes; use another store")
        for end in ("min", "max"):
            [(cell,)] = self._query(f"SELECT {end}(cell) FROM trials")
            if cell is not None and not (_is_count(cell) and cell < self.cell_count):
                raise DamagedStore(f"cell {cell!a:.40} is missing")

    @property
    def meta(self) -> dict[str, Any]:
        """Function, root seed and trials for each cell; the format alone if the sweep did not begin."""
        with sqlite_errors(self.path):
            values: dict[str, Any] = {}
            for key, text in self.connection.execute("SELECT key, value FROM meta"):
                try:
                    value = values[key] = parse_json(text)
                except (NotJson, TypeError) as error:
                    raise DamagedStore(f"{key} is not JSON: {error}") from None
                if key in META and not META[key](value):
                    kind = type(value).__name__
                    raise DamagedStore(f"{key} is {kind} and not what a sweep writes there")
            absent = META.keys() - values.keys()
            if len(values) > 1 and absent:
                raise DamagedStore(f"it does not say its {min(absent)}")
            return values

    def _query(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with sqlite_errors(self.path):
            return self.connection.execute(question, values).fetchall()

    def _set(self, key: str, value: Any) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside the block, or nothing."""
        with sqlite_errors(self.path), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def begin(
        self, plan: dict[str, Any], grid: Grid, trials: int, record: dict[str, Any], allow_changes: bool
    ) -> int:
        """Start a session of this plan, or refuse if the store holds another experiment.

        A store may be extended by cells and by trials. It does not shrink, and it does not mix rows of
        different code, libraries or data unless told to.
        """
        with self.transaction():
            old = self.meta
            for key, value in plan.items():
                if key in old and key != "load" and old[key] != value:
                    raise ValueError(
                        f"{self.path} was made with {key} {old[key]!r}, not {value!r}; use that, "
                        "or another store"
                    )
                self._set(key, value)
            if trials < old.get("trials", 0):
                raise ValueError(
                    f"{self.path} holds {old['trials']} trials for each cell, more than the {trials} asked "
                    "for; ask for at least as many, or use another store"
                )
            self._set("trials", trials)
            self._add_cells(grid)
            last = self._query(
                "SELECT provenance FROM sessions WHERE EXISTS (SELECT 1 FROM trials) "
                "ORDER BY session DESC LIMIT 1"
            )
            differences = changes(_provenance(last[0][0])["code"], record["code"]) if last else []
            if differences and not allow_changes:
                raise ValueError(
                    f"{self.path} was made by other code: {'; '.join(differences)}. Use another store so "
                    "that old and new rows do not mix, or pass allow_changes=True; each row records its "
                    "code"
                )
            if old["schema"] == WITH_TALLIES:  # in this transaction: a store that is refused stays as it is
                self.connection.execute("DROP TABLE tallies")
                self._set("schema", SCHEMA)
            session = self.connection.execute(
                "INSERT INTO sessions (started, provenance) VALUES (?, ?)",
                (record["started"], json.dumps(record)),
            ).lastrowid
            assert session is not None
            return session

    def _add_cells(self, grid: Grid) -> None:
        before = self.cell_count
        self.connection.executemany(
            "INSERT OR IGNORE INTO cells VALUES ((SELECT coalesce(max(cell) + 1, 0) FROM cells), ?, ?)",
            ((cell_key(parameters), json.dumps(parameters)) for parameters in grid),
        )
        after = self.cell_count
        if before and after > len(grid):
            raise ValueError(
                f"{self.path} holds {after - len(grid)} cells that are not in the grid; keep the old cells "
                "and add new ones, or use another store"
            )

    def end(self, session: int) -> None:
        """Record that a session completed."""
        self._query("UPDATE sessions SET ended = ? WHERE session = ?", (now(), session))

    def record(self, session: int, cell: int, outcomes: Sequence[TrialOutcome], attempts: int) -> None:
        """Write what became of a batch, in one transaction; trials that are done stay as they are."""
        if self.path is not None and not self.path.exists():  # SQLite would go on writing to nowhere
            raise OSError(f"{self.path} was deleted or moved while the sweep was writing to it")
        first, last = outcomes[0].trial, outcomes[-1].trial
        with self.transaction():
            stored = self.select("trial, status", "cell = ? AND trial BETWEEN ? AND ?", cell, first, last)
            done = {trial for trial, status in stored if status == DONE}
            self.connection.executemany(
                "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((cell, *outcome, attempts, session) for outcome in outcomes if outcome.trial not in done),
            )

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return int(self._query("SELECT count(*) FROM cells")[0][0])

    def cells(self) -> Iterator[tuple[int, Parameters]]:
        """Yield the cells with their numbers."""
        with sqlite_errors(self.path):
            rows = self.connection.execute("SELECT cell, parameters FROM cells ORDER BY cell")
            for number, (cell, parameters) in enumerate(rows):
                if cell != number:
                    raise DamagedStore(f"cell {number} is missing")
                yield cell, _scalars("parameters", parameters)

    def parameters(self, cell: int) -> Parameters:
        """Return the parameters of one cell."""
        rows = []
        if 0 <= cell <= MOST:
            rows = self._query("SELECT parameters FROM cells WHERE cell = ?", (cell,))
        if not rows:
            raise ValueError(f"cell must be 0 to {self.cell_count - 1}, got {cell}")
        with sqlite_errors(self.path):
            return _scalars("parameters", rows[0][0])

    def counts(self) -> list[tuple[int, int, int]]:
        """Return, for each cell with trials in order, how many are done and how many failed."""
        with sqlite_errors(self.path):
            rows = self._query(
                "SELECT cell, sum(status = 'done'), sum(status = 'failed'), count(*) "
                "FROM trials GROUP BY cell"
            )
            for cell, done, failed, total in rows:
                if read_value("cell", cell) >= 0 and done + failed != total:
                    raise DamagedStore(f"cell {cell} has trials that are neither done nor failed")
            return [row[:3] for row in rows]

    def gaps(self, cell: int, trials: int, again: bool) -> list[tuple[int, int]]:
        """Return ranges of trials of a cell that are still to run, with the failed ones if ``again``."""
        settled = (DONE, DONE if again else FAILED)
        gaps, start = [], 0
        for (trial,) in self.select("trial", "cell = ? AND status IN (?, ?)", cell, *settled):
            if trial > start:
                gaps.append((start, trial))
            start = trial + 1
        return [*gaps, (start, trials)] if start < trials else gaps

    def select(self, columns: str, where: str = "1", *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield columns of the trials in the order of cells and trials, each as `read_value` returns it."""
        names = columns.split(", ")
        with sqlite_errors(self.path):
            for row in self.connection.execute(
                f"SELECT {columns} FROM trials WHERE {where} ORDER BY cell, trial", values
            ):
                yield tuple(map(read_value, names, row))

    def chunks(self) -> Iterator[tuple[int, list[Parameters]]]:
        """Yield rows of completed trials in the order of cells and trials, some of one cell at a time."""
        with sqlite_errors(self.path):
            trials = self.connection.execute(
                "SELECT cell, row FROM trials WHERE status = 'done' ORDER BY cell, trial"
            )
            for cell, group in groupby(trials, itemgetter(0)):
                while texts := [text for _, text in islice(group, CHUNK)]:
                    yield read_value("cell", cell), read_rows(texts)

    def sessions(self) -> list[dict[str, Any]]:
        """Return the provenance of every session, with when it ended; None if it was cut short."""
        with sqlite_errors(self.path):
            rows = self.connection.execute("SELECT provenance, ended FROM sessions ORDER BY session")
            return [_provenance(record) | {"ended": ended} for record, ended in rows]


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite keeps an index next to a store that it reads; where it cannot, and nobody writes, it needs none
    log = path.with_name(path.name + "-wal")
    frozen = path.exists() and not log.exists() and not os.access(path.parent, os.W_OK)
    name = path.as_uri() + ("?immutable=1" if frozen else "")
    with sqlite_errors(path):
        connection = sqlite3.connect(
            name, uri=True, isolation_level=None, timeout=60, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def _driver(path: Path) -> str:
    """Name the process that is writing to a store, as far as the store records it."""
    try:
        reader = Store.read(path)
        session = reader.sessions()[-1]
        reader.close()
        return f"process {session['process']} on {session['host']}, since {session['started']}"
    except (ValueError, OSError, LookupError):
        return "another process"
