"""One driver at a time writes to a store."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class StoreBusy(ValueError):
    """Another driver is writing to the store."""


class Lock:
    """An exclusive transaction on an empty SQLite file beside the store.

    SQLite locks files on every system, and the lock goes when its process is killed. The file itself stays:
    deleting it while another process opens it would give two processes a lock each. Readers of the store do
    not touch it.
    """

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".lock")
        self.connection: sqlite3.Connection | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free."""
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(
                f"{self.path} must be a file that a sweep locks, it is something else; remove it"
            )
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=0, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}") from error
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                return False
            raise OSError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            connection.close()
            raise ValueError(
                f"{self.path} must be an empty file that a sweep locks ({error}); remove it"
            ) from error
        self.connection = connection
        return True

    def release(self) -> None:
        """Let the next driver in."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
