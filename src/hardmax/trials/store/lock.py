"""One driver at a time writes to a store."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

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
