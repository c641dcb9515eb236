"""What SQLite and the values of a store complain of, as sentences for a user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardmax.trials.store.values import DamagedStore, WrongTally


@contextmanager
def sqlite_errors(path: Path | None) -> Iterator[None]:
    """SQLite's errors as a user's: a file that is no store, a disk that is full, values of another hand."""
    try:
        yield
    except sqlite3.OperationalError as error:
        said, cut, _ = str(error).partition(" with text")  # which SQLite would quote in full
        if cut:
            kind = WrongTally if "column 'columns'" in said else DamagedStore  # which only tallies have
            raise ValueError(f"{path} is damaged: {said}; {kind.remedy}") from None
        raise OSError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        raise ValueError(f"{path} is not a store of a sweep ({error}); choose another file") from error
    except DamagedStore as error:
        raise ValueError(f"{path} is damaged: {error}; {error.remedy}") from None
