"""Record: the JSON file of a figure next to its pictures, written and read back.

The report is made of the records in a folder, so figures made at different times are on one page, each
with the run that made it.
"""

from __future__ import annotations

import json
import platform
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
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
LARGEST_NUMBER = 1e300
DEEPEST = 20  # lists within lists of what was measured

Kinds = Mapping[str, tuple[type, ...] | list[tuple[type, ...]]]


def read_records(folder: Path) -> list[Record]:
    """Read the records in a folder, by name; other files are left alone."""
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
            raise ValueError(f"{path} is not a valid record of a figure ({what}); delete it") from None
    return found


class _Wrong(Exception):
    """The name of a value that no figure wrote."""


_TEXT, _MAYBE_TEXT, _NUMBER = (str,), (str, type(None)), (int, float)
# The types of the fields of a record, of its claims and of its run; a list in brackets has elements of these.
_RECORD: Kinds = {
    **dict.fromkeys(("id", "title", "scale"), _TEXT),
    **dict.fromkeys(("error", "trace"), _MAYBE_TEXT),
    **{name: [_TEXT] for name in ("notes", "errata", "files")},
    "size": [_NUMBER],
    "seed": (int, type(None)),
    "seconds": _NUMBER,
    "claims": [(dict,)],
    "run": (dict,),
}
_CLAIM: Kinds = {
    **dict.fromkeys(("id", "text", "expected", "status"), _TEXT),
    **dict.fromkeys(("holds", "stand_in"), (bool,)),
    "paper": _MAYBE_TEXT,
}
_RUN: Kinds = {**dict.fromkeys(("command", "started", "system"), _TEXT), "versions": (dict,)}


def _record(stored: dict[str, Any], name: str) -> Record:
    _check(stored, _RECORD)
    _require("id", stored["id"] == name and re.fullmatch(r"[A-Z]-FIG-[\w-]+", name) is not None)
    # files are names in this folder, and of this figure
    own = re.compile(rf"{re.escape(name)}\.[\w. -]+")
    _require("files", all(own.fullmatch(file) for file in stored["files"]))
    _require("size", len(stored["size"]) == 2 and all(0 < x < LARGEST_NUMBER for x in stored["size"]))
    _require("seconds", abs(stored["seconds"]) < LARGEST_NUMBER)
    claims = [{"stand_in": False, **claim} for claim in stored["claims"]]  # older records do not say
    for claim in claims:
        _check(claim, _CLAIM, "claims.")
        _require("claims.measured", _depth(claim["measured"]) <= DEEPEST)
    run = stored["run"]
    _check(run, _RUN, "run.")
    _require("run.versions", all(isinstance(each, str) for each in run["versions"].values()))
    fields = {key: tuple(stored[key]) for key in ("notes", "errata", "files", "size")}
    records = tuple(ClaimRecord(**claim) for claim in claims)
    return Record(**{**stored, **fields, "claims": records, "run": FigureRun(**run)})


def _check(stored: dict[str, Any], kinds: Kinds, inside: str = "") -> None:
    for name, kind in kinds.items():
        values, types = (stored[name], kind[0]) if isinstance(kind, list) else ([stored[name]], kind)
        _require(inside + name, isinstance(values, list) and all(type(value) in types for value in values))


def _require(name: str, holds: bool) -> None:
    if not holds:
        raise _Wrong(name)


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested, without recursion."""
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
        """Return a run that starts now."""
        versions = {"hardmax": __version__, "Python": platform.python_version()}
        versions |= {name: version(name) for name in PACKAGES}
        system = f"{platform.system()} {platform.machine()}"
        return cls(command, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", system, versions)


@dataclass(frozen=True)
class ClaimRecord:
    """A claim with what was measured as JSON can hold it.

    ``status`` is "measured", or says what was found where that is not a finite number.
    """

    id: str
    text: str
    expected: str
    measured: Any
    status: str
    holds: bool
    paper: str | None
    stand_in: bool

    @classmethod
    def of(cls, claim: Claim) -> ClaimRecord:
        """Return the record of a claim."""
        text, measured = shown(claim.measured), plain(claim.measured)
        status = MEASURED if shown(measured) == text else text
        marks = (claim.holds, claim.paper, claim.stand_in)
        return cls(claim.id, claim.text, claim.expected, measured, status, *marks)

    @property
    def found(self) -> str:
        """The measured value for a reader, with more digits if the claim fails, to show by how much."""
        if self.status != MEASURED:
            return self.status
        return shown(self.measured, digits=6 if self.holds else 10)


@dataclass(frozen=True)
class Record:
    """One figure that was made: its claims and the notes on it, or why it could not be made.

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
        """Return the record of a figure whose files have been written."""
        made = {
            "claims": tuple(map(ClaimRecord.of, figure.claims)),
            "notes": figure.notes,
            "seed": figure.seed,
            "files": tuple(path.name for path in files),
        }
        return cls._of(figure.recipe, figure.scale, seconds, run, **made)

    @classmethod
    def broken(cls, recipe: Recipe, scale: Scale, error: Exception, seconds: float, run: FigureRun) -> Record:
        """Return the record of a figure that could not be made."""
        # a ValueError or a missing file says itself what to do; anything else is a bug, which needs its trace
        own = isinstance(error, ValueError | OSError)
        sentence = " ".join(str(error).split())
        if own:
            return cls._of(recipe, scale, seconds, run, error=sentence)
        trace = "".join(traceback.format_exception(error))
        return cls._of(recipe, scale, seconds, run, error=f"{type(error).__name__}: {sentence}", trace=trace)

    @classmethod
    def _of(cls, recipe: Recipe, scale: Scale, seconds: float, run: FigureRun, **made: Any) -> Record:
        nothing = {"claims": (), "notes": (), "seed": None, "files": (), "error": None, "trace": None}
        about = {"id": recipe.id, "title": recipe.title, "size": recipe.size, "errata": recipe.errata}
        return cls(**{**about, "scale": scale, "seconds": seconds, "run": run, **nothing, **made})

    @property
    def failed(self) -> list[ClaimRecord]:
        """The claims that do not hold."""
        return [claim for claim in self.claims if not claim.holds]

    @property
    def holds(self) -> bool:
        """Whether the figure was made and every claim holds."""
        return self.error is None and not self.failed

    def write(self, folder: Path) -> Path:
        """Write ID.json atomically."""
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
        """Count the claims on stand-in data, or all others."""
        holds = [claim.holds for claim in claims if claim.stand_in == stand_in]
        return cls(sum(holds), len(holds))

    def __str__(self) -> str:
        return f"{self.held:,} of {self.claims:,}"


def summary(claims: Sequence[ClaimRecord]) -> str:
    """Write how many claims hold; those on stand-in data are counted separately.

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
    """Write how many claims hold, and how many figures could not be made, if any."""
    broken = sum(record.error is not None for record in records)
    text = summary([claim for record in records for claim in record.claims])
    return text + (f", {count(broken, 'figure')} could not be made" if broken else "")


def count(number: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
