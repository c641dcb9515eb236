"""The hunt itself: units in the order of their numbers on any backend, until one refutes or the budget ends.

A unit is a trial of a sweep, so that seeds, workers, retries and the store are those of sweeps. What counts
are the first N units whole: which these are does not depend on the number of workers or on who was first.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardmax._lib import expect
from hardmax.hunting.claims import Claim
from hardmax.hunting.search import explore, row_of
from hardmax.hunting.space import ranges_text
from hardmax.trials.store import Store
from hardmax.trials.sweep import sweep
from hardmax.trials.work import DONE

UNITS, TRIES = 10**6, 100  # of one hunt, at most and by default
UNIT = "hardmax.hunting.search:unit"


@dataclass(frozen=True)
class Units:
    """The rows of the first units, without a gap, and whether a refutation is among them."""

    rows: tuple[dict[str, Any], ...]

    @property
    def refuted(self) -> int | None:
        """The number of the first unit that refutes."""
        return next((k for k, row in enumerate(self.rows) if row["word"] == "refuted"), None)

    @property
    def judged(self) -> int:
        """Candidates that were looked at."""
        return sum(row["judged"] for row in self.rows)

    @property
    def words(self) -> dict[str, int]:
        """How often each word was said."""
        total: dict[str, int] = {}
        for row in self.rows:
            for word, count in json.loads(row["words"]).items():
                total[word] = total.get(word, 0) + count
        return total

    @property
    def error(self) -> str | None:
        """What the claim's function raised first, if it did."""
        return next((row["raised"] for row in self.rows if row["raised"]), None)

    def best(self) -> dict[str, Any] | None:
        """The row of the first refutation, or of the least value."""
        if self.refuted is not None:
            return self.rows[self.refuted]
        whole = (row for row in self.rows if row["candidate"] is not None)
        return min(whole, key=lambda row: float(row["value"]), default=None)


LOST: dict[str, Any] = {"word": "refused", "value": math.inf, "judged": 0, "words": "{}", "candidate": None}


@dataclass(frozen=True)
class Budget:
    """How much a hunt may spend and where it runs, as `hm.hunt` takes it; refused where it makes no sense."""

    tries: int | None = None
    seconds: float | None = None
    seed: int = 0
    store: str | os.PathLike[str] | None = None
    backend: str = "local"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.tries is not None and expect.whole("tries", self.tries, 1) > UNITS:
            raise ValueError(f"tries must be at most {UNITS:,}, got {self.tries:,}; hunt with another seed")
        if self.seconds is not None:
            expect.positive("seconds", self.seconds)
        expect.whole("seed", self.seed)

    @property
    def units(self) -> int:
        """Units at most: 100 if nothing else ends the hunt."""
        if self.tries is not None:
            return self.tries
        return TRIES if self.seconds is None else UNITS


class Drive:
    """Runs units and knows when there are enough."""

    def __init__(
        self, claim: Claim, budget: Budget, named: bool, tell: Callable[[int], object] = lambda count: None
    ) -> None:
        self.claim, self.tries, self.tell = claim, budget.units, tell
        self.end = None if budget.seconds is None else time.monotonic() + budget.seconds
        self.folder = None if budget.store is not None else Path(tempfile.mkdtemp(prefix="hardmax-hunt-"))
        self.path = Path(budget.store or "") if self.folder is None else self.folder / "hunt.sqlite"
        self.reader: Store | None = None
        self.rows: list[dict[str, Any]] = []
        self.later: dict[int, dict[str, Any]] = {}
        self.seen = 0
        cell = {"claim": claim.target, "reading": claim.reading, "space": ranges_text(claim.space.ranges)}
        where = claim.target.rpartition(":")[0]
        self.options: dict[str, Any] = {
            "function": UNIT if named else (lambda parameters, seed: row_of(explore(claim, seed))),
            "grid": [cell],
            "trials": UNITS,
            "store": self.path,
            "seed": budget.seed,
            "batch": 1,
            "backend": budget.backend,
            "address": budget.address,
            "workers": budget.workers if named else 0,
            "data_files": [where] if where.endswith(".py") else [],
            "progress": self._see,
        }

    def run(self) -> None:
        """Run until there is enough; an interrupt passes through, and `units` still tells what is done."""
        self._read()
        if self._is_enough():
            return
        with suppress(_Enough):
            sweep(**self.options)

    def units(self) -> Units:
        """The first units without a gap, up to a refutation and to the number of tries."""
        self._read()
        found = Units(tuple(self.rows[: self.tries]))
        return found if found.refuted is None else Units(found.rows[: found.refuted + 1])

    def close(self) -> None:
        """Let go of the store; one that nobody named goes away."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _see(self, progress: Any) -> None:
        self._read()
        self.tell(len(self.rows))
        if self._is_enough():
            raise _Enough

    def _is_enough(self) -> bool:
        if len(self.rows) >= self.tries or any(row["word"] == "refuted" for row in self.rows):
            return True
        waits = any(row["word"] == "refuted" for row in self.later.values())  # units before it are under way
        return self.end is not None and time.monotonic() >= self.end and not waits and bool(self.rows)

    def _read(self) -> None:
        """Take note of the rows that came since, and move those that follow without a gap to the front."""
        if self.reader is None:
            if not self.path.exists():
                return
            try:
                self.reader = Store.read(self.path)
            except ValueError:
                return  # the driver is only making it
        first = len(self.rows)
        columns = "trial, status, row, error"
        for trial, status, row, error in self.reader.select(columns, "cell = 0 AND trial >= ?", first):
            if trial not in self.later:
                self.later[trial] = row if status == DONE else dict(LOST, raised=error)
        while len(self.rows) in self.later:
            self.rows.append(self.later.pop(len(self.rows)))


class _Enough(Exception):
    """A refutation is found, the tries are done, or the time is over."""
