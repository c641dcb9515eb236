"""Record: what is kept of a figure that was made, as a JSON file beside its pictures.

The report is made of the records in a folder, so figures made at different times stand on one page, each
with the run that made it.
"""

from __future__ import annotations

import json
import platform
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardmax import __version__
from hardmax._lib.files import whole_text
from hardmax._lib.json import plain
from hardmax.figures.claims import Claim, shown
from hardmax.figures.figure import Figure, Recipe, Scale

SCHEMA = "hardmax.figure/1"
PACKAGES = ("numpy", "scipy", "numba", "matplotlib")
MEASURED = "measured"


@dataclass(frozen=True)
class Run:
    """The command that made a figure, when (UTC), on what system, and with which versions."""

    command: str
    started: str
    system: str
    versions: Mapping[str, str]

    @classmethod
    def now(cls, command: str) -> Run:
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

    @classmethod
    def of(cls, claim: Claim) -> ClaimRecord:
        """The record of a claim."""
        text, measured = shown(claim.measured), plain(claim.measured)
        status = MEASURED if shown(measured) == text else text
        return cls(claim.id, claim.text, claim.expected, measured, status, claim.holds, claim.paper)

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
    run: Run

    @classmethod
    def of(cls, figure: Figure, files: list[Path], seconds: float, run: Run) -> Record:
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
    def broken(cls, recipe: Recipe, scale: Scale, error: Exception, seconds: float, run: Run) -> Record:
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


def tally(records: Sequence[Record]) -> str:
    """How many claims hold, and how many figures could not be made, if any."""
    claims = [claim for record in records for claim in record.claims]
    held = sum(claim.holds for claim in claims)
    broken = sum(record.error is not None for record in records)
    text = f"{held:,} of {len(claims):,} claims hold"
    return text + (f", {count(broken, 'figure')} could not be made" if broken else "")


def count(number: int, what: str) -> str:
    """A number with its noun.

    >>> from hardmax.figures.record import count
    >>> count(1, "figure"), count(3, "figure")
    ('1 figure', '3 figures')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
