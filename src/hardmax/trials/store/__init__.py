"""The durable store of a sweep: one SQLite file, written by the driver only, one transaction for each batch.

A batch is in the store entirely or not at all, with its tally, whatever happens to the driver. A trial that
is done stays as it is, so tallies are only ever added. Rows are the truth: where tallies do not agree with
them or cannot be read, a driver makes the tallies anew, and a reader says that the store is damaged. Rows are
JSON text with Python's NaN and Infinity, so that every float comes back as it was.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from hardmax.trials.grid import Grid, Parameters, cell_key
from hardmax.trials.provenance import changes, now
from hardmax.trials.store import values as stored
from hardmax.trials.store.errors import sqlite_errors
from hardmax.trials.tally import Column, tally
from hardmax.trials.work import DONE, FAILED, Report, report

REFUSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class StoreBusy(ValueError):
    """Another driver is writing to the store."""


class Lock:
    """An exclusive transaction on an empty SQLite file beside the store.

    SQLite locks files on every system, and the lock goes when its process is killed. The file itself stays:
    deleting it while another process opens it would give two processes a lock each. Readers of the store do
    not touch it.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.path = store.with_name(store.name + ".lock")
        self.connection: sqlite3.Connection | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free."""
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(
                f"{self.path} must be a file that a sweep locks, it is something else; remove it"
            )
        for what in (self.path.parent, self.store, self.path):  # SQLite locks no file that it may only read
            if what.exists() and not os.access(what, os.W_OK):
                raise self._unwritable(what)
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=0, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise self._refused(error) from error
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                return False
            raise self._refused(error) from error
        except sqlite3.DatabaseError as error:
            connection.close()
            raise ValueError(
                f"{self.path} must be an empty file that a sweep locks ({error}); remove it"
            ) from error
        self.connection = connection
        return True

    def _refused(self, error: sqlite3.OperationalError) -> Exception:
        known = error.sqlite_errorcode & 0xFF in REFUSED  # the lowest byte is the kind of an error
        return self._unwritable(self.path) if known else OSError(f"{self.path}: {error}")

    def _unwritable(self, what: Path) -> ValueError:
        """What keeps a sweep from its store, and what to do: a finished one is looked at without writing."""
        words = f"store: {'the folder ' if what.is_dir() else ''}{what} cannot be written, and a sweep has to"
        if self.store.exists():
            return ValueError(
                f"{words}; copy the store to another folder and name the copy (--store FILE), or read it "
                "where it is with hm.Sweep.open"
            )
        return ValueError(f"{words}; choose another place for the store (--store FILE)")

    def release(self) -> None:
        """Let the next driver in."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


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


CHUNK = 10_000  # rows for a tally that is made of rows
ADD_TALLY = "INSERT INTO tallies VALUES (?, ?, ?, ?, ?)"


class Store:
    """A connection to a store; ``path`` is None for one in memory."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection, lock: Lock | None = None) -> None:
        self.path = path
        self.connection = connection
        self.lock = lock

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
        lock = Lock(where)
        if not lock.acquire():
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
            lock.release()
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
            if store.meta["schema"] == FIRST:
                store.connection.execute(TALLIES.replace("TABLE", "TEMP TABLE"))
                store._tally_rows()
            else:
                store._compare_tallies()
            store.connection.execute("PRAGMA query_only = ON")
        return store

    def close(self) -> None:
        """Close the connection and let the next driver in."""
        self.connection.close()
        if self.lock is not None:
            self.lock.release()

    def __del__(self) -> None:
        self.connection.close()

    def _prepare(self) -> None:
        if not self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with self.transaction():
                for statement in (*TABLES, TALLIES):
                    self.connection.execute(statement)
                self._set("schema", SCHEMA)
        self._check_schema()

    def _check_schema(self) -> None:
        listed = self._query("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        check_tables(self.path, listed, lambda: self.meta.get("schema"))

    def _compare_tallies(self) -> None:
        """Refuse tallies of other trials than are done; in one query, since a driver may be writing."""
        for cell, lost in self._query(DISAGREEMENT):
            if lost:
                raise stored.DamagedStore(f"cell {cell!a:.40} is missing")
            raise stored.WrongTally(f"cell {cell!a:.40} has tallies that do not agree with its rows")

    def _mend_tallies(self) -> None:
        """Bring a store of the first format, which has no tallies, to this one; make wrong tallies anew."""
        if self.meta["schema"] == FIRST:
            self.connection.execute(TALLIES)
            self._tally_rows()
            self._set("schema", SCHEMA)
        elif self._query(DISAGREEMENT) or not self._tallies_read():
            self.connection.execute("DELETE FROM tallies")
            self._tally_rows()
            self._compare_tallies()

    def _tallies_read(self) -> bool:
        """Whether each tally can be read: one that counts the right trials may be nonsense all the same."""
        try:
            return all(True for _ in self.tallies())
        except ValueError:
            return False

    def _tally_rows(self) -> None:
        """Fill the empty table of tallies from all rows."""
        rows = self.select("cell, trial, row", "status = ?", DONE)
        for cell, group in groupby(rows, itemgetter(0)):
            while chunk := list(islice(group, CHUNK)):
                _, trials, results = zip(*chunk, strict=True)
                self.connection.execute(ADD_TALLY, (cell, *(tally(trials, results) or ())))

    @property
    def meta(self) -> dict[str, Any]:
        """What the sweep is: its function, root seed, number of trials for each cell."""
        with sqlite_errors(self.path):
            return stored.meta(self.connection.execute("SELECT key, value FROM meta"))

    def _query(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with sqlite_errors(self.path):
            return self.connection.execute(question, values).fetchall()

    def _set(self, key: str, value: Any) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        with sqlite_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # a full disk has ended it already
                    self.connection.execute("ROLLBACK")
                raise

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
            found = changes(stored.provenance(last[0][0])["code"], record["code"]) if last else []
            if found and not allow_changes:
                raise ValueError(
                    f"{self.path} was made by other code: {'; '.join(found)}. Use another store so that old "
                    "and new rows do not mix, or pass allow_changes=True; the store keeps which is which"
                )
            self._mend_tallies()  # in this transaction: a store that is refused stays as it is
            made = self.connection.execute(
                "INSERT INTO sessions (started, provenance) VALUES (?, ?)",
                (record["started"], json.dumps(record)),
            )
            assert made.lastrowid is not None
            return made.lastrowid

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
        """Note that a session came to its end by itself."""
        self._query("UPDATE sessions SET ended = ? WHERE session = ?", (now(), session))

    def record(self, session: int, cell: int, said: Report, attempts: int) -> None:
        """Write what became of a batch, in one transaction; what is done already is not counted again."""
        if self.path is not None and not self.path.exists():  # SQLite would go on writing to nowhere
            raise OSError(f"{self.path} was deleted or moved while the sweep was writing to it")
        first, last = said.outcomes[0].trial, said.outcomes[-1].trial
        with self.transaction():
            there = self.select("trial, status", "cell = ? AND trial BETWEEN ? AND ?", cell, first, last)
            done = {trial for trial, status in there if status == DONE}
            if done:  # a batch that comes twice: its report was taken when something stopped the sweep
                said = report([outcome for outcome in said.outcomes if outcome.trial not in done])
            self.connection.executemany(
                "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((cell, *outcome, attempts, session) for outcome in said.outcomes),
            )
            if said.tally is not None:
                self.connection.execute(ADD_TALLY, (cell, *said.tally))

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return int(self._query("SELECT count(*) FROM cells")[0][0])

    def cells(self) -> Iterator[tuple[int, Parameters]]:
        """The cells with their numbers."""
        with sqlite_errors(self.path):
            found = self.connection.execute("SELECT cell, parameters FROM cells ORDER BY cell")
            for number, (cell, parameters) in enumerate(found):
                if cell != number:
                    raise stored.DamagedStore(f"cell {number} is missing")
                yield cell, stored.scalars("parameters", parameters)

    def parameters(self, cell: int) -> Parameters:
        """Parameters of one cell."""
        known = 0 <= cell <= stored.MOST
        found = self._query("SELECT parameters FROM cells WHERE cell = ?", (cell,)) if known else []
        if not found:
            raise ValueError(f"cell must be 0 to {self.cell_count - 1}, got {cell}")
        with sqlite_errors(self.path):
            return stored.scalars("parameters", found[0][0])

    def counts(self) -> tuple[int, int]:
        """How many trials are done, how many failed."""
        [(done,)] = self._query("SELECT coalesce(sum(done), 0) FROM tallies")
        [(failed,)] = self._query("SELECT count(*) FROM trials WHERE status = 'failed'")
        with sqlite_errors(self.path):
            return stored.COLUMNS["done"](done), failed

    def failures(self) -> dict[int, int]:
        """How many trials of each cell failed, where some did."""
        return dict(self._query("SELECT cell, count(*) FROM trials WHERE status = 'failed' GROUP BY cell"))

    def tallies(self) -> Iterator[tuple[int, int, list[Column]]]:
        """Of each batch, in the order of cells: the cell, how many trials are done, and their columns."""
        with sqlite_errors(self.path):
            for cell, done, *rest in self.connection.execute(
                "SELECT cell, done, columns, numbers FROM tallies ORDER BY cell, first"
            ):
                yield stored.COLUMNS["cell"](cell), stored.COLUMNS["done"](done), stored.columns(*rest)

    def gaps(self, cell: int, trials: int, again: bool) -> list[tuple[int, int]]:
        """Ranges of trials of a cell that are still to run; with the failed ones if they shall run again."""
        settled = (DONE, DONE if again else FAILED)
        found, start = [], 0
        for (trial,) in self.select("trial", "cell = ? AND status IN (?, ?)", cell, *settled):
            if trial > start:
                found.append((start, trial))
            start = trial + 1
        return [*found, (start, trials)] if start < trials else found

    def select(self, columns: str, where: str = "1", *values: Any) -> Iterator[tuple[Any, ...]]:
        """Columns of the trials in the order of cells and trials, each as `stored.COLUMNS` reads it."""
        readers = [stored.COLUMNS[name] for name in columns.split(", ")]
        with sqlite_errors(self.path):
            for found in self.connection.execute(
                f"SELECT {columns} FROM trials WHERE {where} ORDER BY cell, trial", values
            ):
                yield tuple(read(value) for read, value in zip(readers, found, strict=True))

    def sessions(self) -> list[dict[str, Any]]:
        """Provenance of every session, with when it ended; None if it was cut short."""
        with sqlite_errors(self.path):
            found = self.connection.execute("SELECT provenance, ended FROM sessions ORDER BY session")
            return [stored.provenance(record) | {"ended": ended} for record, ended in found]


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite keeps an index beside a store that it reads; where it cannot, and nobody writes, it needs none
    log = path.with_name(path.name + "-wal")
    frozen = path.exists() and not log.exists() and not os.access(path.parent, os.W_OK)
    name = path.as_uri() + ("?immutable=1" if frozen else "")
    with sqlite_errors(path):
        made = sqlite3.connect(name, uri=True, isolation_level=None, timeout=60, check_same_thread=False)
        made.execute("PRAGMA trusted_schema = OFF")
        made.execute("PRAGMA cell_size_check = ON")
        return made


def _driver(path: Path) -> str:
    """Who is writing to a store, as far as the store says."""
    try:
        reader = Store.read(path)
        last = reader.sessions()[-1:]
        reader.close()
    except (ValueError, OSError):
        last = []
    if not last or not {"process", "host", "started"} <= last[0].keys():
        return "another process"
    return f"process {last[0]['process']} on {last[0]['host']}, since {last[0]['started']}"
