"""Every value that is read from a store is looked at first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hardmax._lib.reading import NotJson, parse_json
from hardmax.trials.grid import Parameters, scalar
from hardmax.trials.tally import KINDS, NUMBERS, Column
from hardmax.trials.work import DONE, FAILED

MOST = 2**63 - 1  # what SQLite holds as a number


class DamagedStore(Exception):
    """A value that no sweep wrote, in words; ``remedy`` is what a reader can do about it."""

    remedy = "use a copy of it, or another store"


class WrongTally(DamagedStore):
    """A tally that is not that of its rows, which are the truth."""

    remedy = "run the sweep again (hardmax sweep FILE.toml, or hm.sweep): it makes tallies anew from the rows"


def table(what: str, text: Any) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(text, str):
        raise DamagedStore(f"{what} is {type(text).__name__} instead of text")
    try:
        found = parse_json(text)
    except NotJson as error:
        raise DamagedStore(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DamagedStore(f"{what} is a {type(found).__name__} instead of an object")
    return found


def scalars(what: str, text: Any) -> Parameters:
    """A JSON object of scalars: the parameters of a cell, or what a trial returned."""
    found = table(what, text)
    for name, value in found.items():
        try:
            scalar(name, value)
        except ValueError as error:
            raise DamagedStore(f"{what}: {error}") from None
    return found


def provenance(text: Any) -> dict[str, Any]:
    """Where a session's rows come from."""
    found = table("provenance", text)
    if not isinstance(found.get("code"), dict):
        raise DamagedStore("provenance says nothing about the code")
    return found


def meta(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """What a sweep is: all that `META` names, or nothing but the format if it did not begin."""
    found: dict[str, Any] = {}
    for key, text in pairs:
        try:
            found[key] = parse_json(text)
        except (NotJson, TypeError) as error:
            raise DamagedStore(f"{key} is no JSON: {error}") from None
        if key in META and not META[key](found[key]):
            raise DamagedStore(f"{key} is {type(found[key]).__name__} and not what a sweep writes there")
    absent = META.keys() - found.keys()
    if len(found) > 1 and absent:
        raise DamagedStore(f"it does not say its {min(absent)}")
    return found


def columns(text: Any, packed: Any) -> list[Column]:
    """The columns of a tally."""
    if not isinstance(text, str) or not isinstance(packed, bytes) or len(packed) % 8:
        raise WrongTally("a tally is no text with packed numbers")
    try:
        listed = parse_json(text)
    except NotJson as error:
        raise WrongTally(f"a tally is no JSON: {error}") from None
    if not isinstance(listed, list):
        raise WrongTally(f"a tally is a {type(listed).__name__} instead of a list")
    numbers, found, used = np.frombuffer(packed, dtype=NUMBERS), [], 0
    for each in listed:
        if not _is_column(each):
            raise WrongTally("a tally has a column that no sweep writes")
        name, first, place, kinds, true, flags, count, texts = each
        own = numbers[used : used + count].copy()  # so that the others can go
        used += count
        kept = frozenset(KINDS[kind] for kind in kinds)
        found.append(Column(name, first, place, kept, true, flags, own, texts))
    if used != len(numbers):
        raise WrongTally(f"a tally has {len(numbers)} numbers and says {used:.3g}")
    return found


def _is_column(each: Any) -> bool:
    if not isinstance(each, list) or len(each) != 8:
        return False
    name, first, place, kinds, true, flags, count, texts = each
    return (
        isinstance(name, str)
        and all(map(_is_count, (first, place, true, flags, count)))
        and isinstance(kinds, list)
        and all(isinstance(kind, str) and kind in KINDS for kind in kinds)
        and true <= flags
        and isinstance(texts, dict)
        and all(_is_count(often, 1) for often in texts.values())
    )


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= MOST


META: dict[str, Callable[[Any], bool]] = {
    "function": lambda value: isinstance(value, str),
    "load": lambda value: value is None or isinstance(value, str),
    "seed": lambda value: type(value) is int and value >= 0,
    "batched": lambda value: isinstance(value, bool),
    "trials": lambda value: _is_count(value, 1),
}


def _number(name: str, of: str = "trial", wrong: type[DamagedStore] = DamagedStore) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not _is_count(value):
            raise wrong(f"{name} of a {of} is {value!a:.40}")
        return int(value)

    return read


def _words(name: str) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise DamagedStore(f"{name} of a trial is {type(value).__name__} instead of text")
        return value

    return read


def _status(value: Any) -> str:
    if value not in (DONE, FAILED):
        raise DamagedStore(f"status of a trial is {value!a:.40}")
    return str(value)


# How each column of the trials is read; ``done`` is one of the tallies.
COLUMNS: dict[str, Callable[[Any], Any]] = {
    **{name: _number(name) for name in ("cell", "trial", "seed", "attempts")},
    "done": _number("done", "tally", WrongTally),
    **{name: _words(name) for name in ("error", "traceback")},
    "status": _status,
    "row": lambda value: {} if value is None else scalars("a row", value),
}
