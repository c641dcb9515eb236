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
    records = []
    for path in sorted(folder.glob("*-FIG-*.json")):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            stored = parse_json(read_bytes(path, LARGEST).decode())
            if isinstance(stored, dict) and stored.pop("schema", None) == SCHEMA:
                records.append(_record(stored, path.stem))
        except (NotJson, UnicodeDecodeError, TypeError, KeyError, _Wrong) as error:
            reason = (
                f"its {error.args[0]} is not what a figure writes" if isinstance(error, _Wrong) else error
            )
            raise ValueError(f"{path} is not a valid record of a figure ({reason}); delete it") from None
    return records


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
    pattern = re.compile(rf"{re.escape(name)}\.[\w. -]+")
    _require("files", all(pattern.fullmatch(file) for file in stored["files"]))
    _require("size", len(stored["size"]) == 2 and all(0 < x < LARGEST_NUMBER for x in stored["size"]))
    _require("seconds", abs(stored["seconds"]) < LARGEST_NUMBER)
    claims = [{"stand_in": False, **claim} for claim in stored["claims"]]  # older records lack it
    for claim in claims:
        _check(claim, _CLAIM, "claims.")
        _require("claims.measured", _depth(claim["measured"]) <= DEEPEST)
    run = stored["run"]
    _check(run, _RUN, "run.")
    _require("run.versions", all(isinstance(number, str) for number in run["versions"].values()))
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
    depth, level = -1, [value]
    while level:
        depth += 1
        parents = [x.values() if isinstance(x, dict) else x for x in level if isinstance(x, dict | list)]
        level = [item for items in parents for item in items]
    return depth


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
    """A claim with its measured value as JSON can hold it.

    ``status`` is "measured", or the value in words where it is not a finite number.
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


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure that was made: its claims and the notes on it, or the reason why it could not be made.

    ``files`` are names in the record's folder. ``error`` is None, or a sentence; then there are no files and
    no claims, and ``trace`` names the place in the program, unless the error explains itself.
    """

    id: str
    title: str
    size: tuple[float, float]
    scale: Scale
    claims: tuple[ClaimRecord, ...] = ()
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...]
    seed: int | None = None
    seconds: float
    files: tuple[str, ...] = ()
    error: str | None = None
    trace: str | None = None
    run: FigureRun

    @classmethod
    def of(cls, recipe: Recipe, result: tuple[Figure, list[Path]] | Exception, **about: Any) -> Record:
        """Return the record of a figure with its written files, or of the error that prevented it."""
        about |= {"id": recipe.id, "title": recipe.title, "size": recipe.size, "errata": recipe.errata}
        if not isinstance(result, Exception):
            figure, files = result
            claims = tuple(map(ClaimRecord.of, figure.claims))
            names = tuple(path.name for path in files)
            return cls(claims=claims, notes=figure.notes, seed=figure.seed, files=names, **about)
        sentence = " ".join(str(result).split())
        # a ValueError or a missing file states the remedy; anything else is a bug, which needs its trace
        if isinstance(result, ValueError | OSError):
            return cls(error=sentence, **about)
        trace = "".join(traceback.format_exception(result))
        return cls(error=f"{type(result).__name__}: {sentence}", trace=trace, **about)

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
    real, stand_ins = (Counts.of(claims, stand_in=stand_in) for stand_in in (False, True))
    if not stand_ins.claims:
        return f"{real} claims hold"
    if not real.claims:
        return f"{stand_ins} claims hold, all on stand-ins"
    return f"{real} claims hold on the papers' own data, {stand_ins} on stand-ins"


def tally(records: Sequence[Record]) -> str:
    """Write how many claims hold, and how many figures could not be made, if any."""
    broken = sum(record.error is not None for record in records)
    text = summary([claim for record in records for claim in record.claims])
    return text + (f", {count(broken, 'figure')} could not be made" if broken else "")


def count(number: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
