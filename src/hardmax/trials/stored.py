"""A store on disk: one driver at a time, and every value that is read from it is looked at first."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hardmax._lib.reading import NotJson, parse_json
from hardmax.trials.grid import Parameters, scalar
from hardmax.trials.work import DONE, FAILED


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


MOST = 2**63 - 1  # what SQLite holds as a number


class Damaged(Exception):
    """A value that no sweep wrote, in words."""


def table(what: str, text: Any) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(text, str):
        raise Damaged(f"{what} is {type(text).__name__} instead of text")
    try:
        found = parse_json(text)
    except NotJson as error:
        raise Damaged(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Damaged(f"{what} is a {type(found).__name__} instead of an object")
    return found


def scalars(what: str, text: Any) -> Parameters:
    """A JSON object of scalars: the parameters of a cell, or what a trial returned."""
    found = table(what, text)
    for name, value in found.items():
        try:
            scalar(name, value)
        except ValueError as error:
            raise Damaged(f"{what}: {error}") from None
    return found


def provenance(text: Any) -> dict[str, Any]:
    """Where a session's rows come from."""
    found = table("provenance", text)
    if not isinstance(found.get("code"), dict):
        raise Damaged("provenance says nothing about the code")
    return found


def meta(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """What a sweep is: all that `META` names, or nothing but the format if it did not begin."""
    found: dict[str, Any] = {}
    for key, text in pairs:
        try:
            found[key] = parse_json(text)
        except (NotJson, TypeError) as error:
            raise Damaged(f"{key} is no JSON: {error}") from None
        if key in META and not META[key](found[key]):
            raise Damaged(f"{key} is {type(found[key]).__name__} and not what a sweep writes there")
    absent = META.keys() - found.keys()
    if len(found) > 1 and absent:
        raise Damaged(f"it does not say its {min(absent)}")
    return found


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= MOST


META: dict[str, Callable[[Any], bool]] = {
    "function": lambda value: isinstance(value, str),
    "load": lambda value: value is None or isinstance(value, str),
    "seed": lambda value: type(value) is int and value >= 0,
    "batched": lambda value: isinstance(value, bool),
    "trials": lambda value: _is_count(value, 1),
}


def _number(name: str) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not _is_count(value):
            raise Damaged(f"{name} of a trial is {value!a:.40}")
        return int(value)

    return read


def _words(name: str) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise Damaged(f"{name} of a trial is {type(value).__name__} instead of text")
        return value

    return read


def _status(value: Any) -> str:
    if value not in (DONE, FAILED):
        raise Damaged(f"status of a trial is {value!a:.40}")
    return str(value)


# How each column of the trials is read.
COLUMNS: dict[str, Callable[[Any], Any]] = {
    **{name: _number(name) for name in ("cell", "trial", "seed", "attempts")},
    **{name: _words(name) for name in ("error", "traceback")},
    "status": _status,
    "row": lambda value: {} if value is None else scalars("a row", value),
}
