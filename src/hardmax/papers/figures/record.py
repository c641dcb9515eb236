"""Record: what is kept of a figure that was made, as a JSON file beside its pictures, and read back.

The report is made of the records in a folder, so figures made at different times stand on one page, each
with the run that made it.
"""

from __future__ import annotations

import json
import math
import platform
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from hardmax import __version__
from hardmax._lib.files import whole_text
from hardmax._lib.json import plain
from hardmax._lib.reading import NotJson, parse_json, read_bytes
from hardmax.papers.figures.claims import Claim, shown
from hardmax.papers.figures.figure import Figure, Recipe, Scale

LARGEST = 2**24  # bytes of a record
DEEPEST = 20  # lists within lists of what was measured


def read_records(folder: Path) -> list[Record]:
    """The records in a folder, by name; other files are left alone.

    >>> import tempfile, pathlib
    >>> from hardmax.papers.figures.record import read_records
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
    _require(f"{name}.stand_in", isinstance(stored.get("stand_in", False), bool))
    _require(f"{name}.measured", _depth(stored["measured"]) <= DEEPEST)
    return ClaimRecord(**stored)


def _run(stored: Any) -> FigureRun:
    _require("run", isinstance(stored, dict))
    for key in ("command", "started", "system"):
        _text(f"run.{key}", stored[key])
    _require("run.versions", isinstance(stored["versions"], dict))
    for each in stored["versions"].values():
        _text("run.versions", each)
    return FigureRun(**stored)


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


SCHEMA = "hardmax.figure/1"
PACKAGES = ("numpy", "scipy", "numba", "matplotlib")
MEASURED = "measured"


@dataclass(frozen=True)
class FigureRun:
    """The command that made a figure, when (UTC), on what system, and with which versions."""

    command: str
    started: str
    system: str
    versions: Mapping[str, str]

    @classmethod
    def now(cls, command: str) -> FigureRun:
        """A run that starts now."""
        versions = {"hardmax": __version__, "Python": platform.python_version()}
        versions |= {name: version(name) for name in PACKAGES}
        system = f"{platform.system()} {platform.machine()}"
        return cls(command, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", system, versions)


@dataclass(frozen=True)
class ClaimRecord:
    """A claim with what was measured as JSON can hold it.

    ``status`` is "measured", or says what was found where that is no finite number.
    """

    id: str
    text: str
    expected: str
    measured: Any
    status: str
    holds: bool
    paper: str | None
    stand_in: bool = False  # older records do not say

    @classmethod
    def of(cls, claim: Claim) -> ClaimRecord:
        """The record of a claim."""
        text, measured = shown(claim.measured), plain(claim.measured)
        status = MEASURED if shown(measured) == text else text
        marks = (claim.holds, claim.paper, claim.stand_in)
        return cls(claim.id, claim.text, claim.expected, measured, status, *marks)

    @property
    def found(self) -> str:
        """What was measured, for a reader; more digits where the claim fails, to show by how much."""
        if self.status != MEASURED:
            return self.status
        return shown(self.measured, digits=6 if self.holds else 10)


@dataclass(frozen=True)
class Record:
    """One figure that was made: its claims and what is to be said beside it, or why it could not be made.

    ``files`` are names in the record's folder. ``error`` is None, or a sentence; then there are no files and
    no claims, and ``trace`` says where in the program it happened, unless the error explains itself.
    """

    id: str
    title: str
    size: tuple[float, float]
    scale: Scale
    claims: tuple[ClaimRecord, ...]
    notes: tuple[str, ...]
    errata: tuple[str, ...]
    seed: int | None
    seconds: float
    files: tuple[str, ...]
    error: str | None
    trace: str | None
    run: FigureRun

    @classmethod
    def of(cls, figure: Figure, files: list[Path], seconds: float, run: FigureRun) -> Record:
        """The record of a figure whose files have been written."""
        return cls(
            figure.id,
            figure.title,
            figure.recipe.size,
            figure.scale,
            tuple(map(ClaimRecord.of, figure.claims)),
            figure.notes,
            figure.recipe.errata,
            figure.seed,
            seconds,
            tuple(path.name for path in files),
            None,
            None,
            run,
        )

    @classmethod
    def broken(cls, recipe: Recipe, scale: Scale, error: Exception, seconds: float, run: FigureRun) -> Record:
        """The record of a figure that could not be made."""
        # a ValueError or a missing file says itself what to do; anything else is a bug, which needs its trace
        own = isinstance(error, ValueError | OSError)
        sentence = " ".join(str(error).split())
        return cls(
            recipe.id,
            recipe.title,
            recipe.size,
            scale,
            (),
            (),
            recipe.errata,
            None,
            seconds,
            (),
            sentence if own else f"{type(error).__name__}: {sentence}",
            None if own else "".join(traceback.format_exception(error)),
            run,
        )

    @property
    def failed(self) -> list[ClaimRecord]:
        """The claims that do not hold."""
        return [claim for claim in self.claims if not claim.holds]

    @property
    def holds(self) -> bool:
        """Whether the figure was made and every claim holds."""
        return self.error is None and not self.failed

    def write(self, folder: Path) -> Path:
        """Write ID.json, whole or not at all."""
        path = folder / f"{self.id}.json"
        content = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False)
        with whole_text(path) as file:
            file.write(content + "\n")
        return path


class Counts(NamedTuple):
    """How many of some claims hold."""

    held: int
    claims: int

    @classmethod
    def of(cls, claims: Iterable[ClaimRecord], *, stand_in: bool) -> Counts:
        """Those on data that stand in for the paper's, or all others."""
        holds = [claim.holds for claim in claims if claim.stand_in == stand_in]
        return cls(sum(holds), len(holds))

    def __str__(self) -> str:
        return f"{self.held:,} of {self.claims:,}"


def summary(claims: Sequence[ClaimRecord]) -> str:
    """How many claims hold, those on stand-in data counted apart.

    >>> from hardmax.papers.figures.claims import at_least, on_stand_in
    >>> from hardmax.papers.figures.record import ClaimRecord, summary
    >>> claims = (at_least("a", "", 1.0, 0.5), *on_stand_in([at_least("b", "", 1.0, 2.0)]))
    >>> summary([ClaimRecord.of(claim) for claim in claims])
    "1 of 1 claims hold on the papers' own data, 0 of 1 on stand-ins"
    """
    own, stand_ins = (Counts.of(claims, stand_in=there) for there in (False, True))
    if not stand_ins.claims:
        return f"{own} claims hold"
    if not own.claims:
        return f"{stand_ins} claims hold, all on stand-ins"
    return f"{own} claims hold on the papers' own data, {stand_ins} on stand-ins"


def tally(records: Sequence[Record]) -> str:
    """How many claims hold, and how many figures could not be made, if any."""
    broken = sum(record.error is not None for record in records)
    text = summary([claim for record in records for claim in record.claims])
    return text + (f", {count(broken, 'figure')} could not be made" if broken else "")


def count(number: int, what: str) -> str:
    """A number with its noun.

    >>> from hardmax.papers.figures.record import count
    >>> count(1, "figure"), count(3, "figure")
    ('1 figure', '3 figures')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
