"""Records of figures read back. A folder may hold what others put there, so every value is looked at."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardmax._lib.reading import NotJson, parse_json, read_bytes
from hardmax.figures.record import SCHEMA, ClaimRecord, Record, Run

LARGEST = 2**24  # bytes of a record
DEEPEST = 20  # lists within lists of what was measured


def read_records(folder: Path) -> list[Record]:
    """The records in a folder, by name; other files are left alone.

    >>> import tempfile, pathlib
    >>> from hardmax.figures.reading import read_records
    >>> read_records(pathlib.Path(tempfile.mkdtemp()))
    []
    """
    found = []
    for path in sorted(folder.glob("*-FIG-*.json")):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            stored = parse_json(read_bytes(path, LARGEST).decode())
            if isinstance(stored, dict) and stored.pop("schema", None) == SCHEMA:
                found.append(_record(stored, path.stem))
        except (NotJson, UnicodeDecodeError, TypeError, KeyError, _Wrong) as error:
            what = f"its {error.args[0]} is not what a figure writes" if isinstance(error, _Wrong) else error
            raise ValueError(f"{path} is not the record of a figure any more; delete it ({what})") from None
    return found


class _Wrong(Exception):
    """The name of a value that no figure wrote."""


def _record(stored: dict[str, Any], name: str) -> Record:
    _require("id", stored["id"] == name and re.fullmatch(r"[A-Z]-FIG-[\w-]+", name) is not None)
    for key in ("title", "scale"):
        _text(key, stored[key])
    for key in ("error", "trace"):
        _text(key, stored[key], optional=True)
    for key in ("notes", "errata", "files"):
        stored[key] = tuple(_list(key, stored[key], _text))
    for file in stored["files"]:  # names in this folder, and of this figure
        _require("files", re.fullmatch(rf"{re.escape(name)}\.[\w. -]+", file) is not None)
    size = stored["size"] = tuple(_list("size", stored["size"], _number))
    _require("size", len(size) == 2 and min(size) > 0)
    _require("seed", stored["seed"] is None or type(stored["seed"]) is int)
    _number("seconds", stored["seconds"])
    stored["claims"] = tuple(_list("claims", stored["claims"], _claim))
    stored["run"] = _run(stored["run"])
    return Record(**stored)


def _claim(name: str, stored: Any) -> ClaimRecord:
    _require(name, isinstance(stored, dict))
    for key in ("id", "text", "expected", "status"):
        _text(f"{name}.{key}", stored[key])
    _text(f"{name}.paper", stored["paper"], optional=True)
    _require(f"{name}.holds", isinstance(stored["holds"], bool))
    _require(f"{name}.measured", _depth(stored["measured"]) <= DEEPEST)
    return ClaimRecord(**stored)


def _run(stored: Any) -> Run:
    _require("run", isinstance(stored, dict))
    for key in ("command", "started", "system"):
        _text(f"run.{key}", stored[key])
    _require("run.versions", isinstance(stored["versions"], dict))
    for version in stored["versions"].values():
        _text("run.versions", version)
    return Run(**stored)


def _require(name: str, holds: bool) -> None:
    if not holds:
        raise _Wrong(name)


def _text(name: str, value: Any, optional: bool = False) -> str:
    _require(name, isinstance(value, str) or (optional and value is None))
    return str(value)


def _number(name: str, value: Any) -> float:
    _require(name, type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value))
    return float(value)


def _list(name: str, value: Any, read: Callable[[str, Any], Any]) -> list[Any]:
    _require(name, isinstance(value, list))
    return [read(name, each) for each in value]


def _depth(value: Any) -> int:
    """How deep lists and objects are nested, without going as deep oneself."""
    deepest, left = 0, [(value, 0)]
    while left:
        each, depth = left.pop()
        deepest = max(deepest, depth)
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        left += [(item, depth + 1) for item in inside]
    return deepest
