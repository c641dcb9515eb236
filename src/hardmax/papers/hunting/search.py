"""A hunt: units of search in the order of their numbers on any backend, until one refutes or the budget ends.

A unit draws random candidates, then takes moves and continuous steps from the best of them. It has a number
of judgements to spend, not seconds, and its own seed: its result depends on nothing else. It ends at the
first refutation. A unit is a trial of a sweep, so that seeds, workers, retries and the store are those of
sweeps. The first N units count, whole: which these are does not depend on the number of workers or on their
speed.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.parallel import serial_blas
from hardmax._lib.progress import Progress
from hardmax.directions.position import general_position
from hardmax.papers.checking.check import Hypothesis, Outcome
from hardmax.papers.checking.common import distinct_scores, separable_best, strict_best
from hardmax.papers.hunting.candidates import Candidate, ranges_text
from hardmax.papers.hunting.claims import HuntedClaim, Judgement, claim_of
from hardmax.problem import Problem
from hardmax.trials.store import Store
from hardmax.trials.sweep import sweep
from hardmax.trials.work import DONE

DRAWS, MOVES, STEPS = 10, 30, 40  # judgements of each stage


@dataclass
class BestCandidate:
    """The best candidate so far, and how many were judged."""

    claim: HuntedClaim
    best: Candidate | None = None
    judged: Judgement | None = None
    count: int = 0
    words: Counter[str] = field(default_factory=Counter)
    error: str | None = None

    def look(self, candidate: Candidate) -> Judgement:
        """Judge one more, and keep it if it is the best; a refutation ends the unit."""
        judged = self.claim.judge(candidate)
        self.count += 1
        self.words[judged.word] += 1
        if judged.word == "refused" and self.error is None:
            self.error = str(judged.measured["error"])
        if self.judged is None or judged.word == "refuted" or judged.value < self.judged.value:
            self.best, self.judged = candidate, judged
        if judged.word == "refuted":
            raise _Refuted
        return judged


def explore(claim: HuntedClaim, seed: int) -> BestCandidate:
    """Search in one unit of work."""
    rng, ledger = np.random.default_rng(seed), BestCandidate(claim)
    with serial_blas(), suppress(_Refuted):
        for _ in range(DRAWS):
            ledger.look(claim.space.draw(rng))
        _climb(ledger, rng, MOVES)
        _slide(ledger, rng, STEPS)
        _climb(ledger, rng, MOVES // 2)
    return ledger


class _Refuted(Exception):
    """Ends a unit: nothing is better than a refutation."""


def _climb(ledger: BestCandidate, rng: np.random.Generator, moves: int) -> None:
    """Take discrete moves, up to three at once, also as good ones, so that plateaus are crossed."""
    assert ledger.best is not None
    assert ledger.judged is not None
    here, height = ledger.best, ledger.judged.value
    for _ in range(moves):
        there = here
        for _ in range(int(rng.integers(1, 4))):
            there = there.moved(rng, ledger.claim.space.ranges)
        value = ledger.look(there).value
        if value <= height:
            here, height = there, value


def _slide(ledger: BestCandidate, rng: np.random.Generator, steps: int) -> None:
    """Take continuous steps: CMA-ES where it is installed, Gaussian steps of an adapted size otherwise."""
    assert ledger.best is not None
    assert ledger.judged is not None
    start = ledger.best
    x = start.vector()
    if not x.size:
        _climb(ledger, rng, steps)
        return
    if (cma := strategy()) is None or x.size < 2:  # CMA-ES needs two dimensions
        height, size = ledger.judged.value, 0.3  # the step grows with a success and shrinks with a failure
        for _ in range(steps):
            there = x + size * rng.normal(size=x.size)
            value = ledger.look(start.at(there)).value
            if value < height:
                x, height, size = there, value, 1.5 * size
            else:
                size *= 0.9
        return
    search = cma.CMAEvolutionStrategy(
        x, 0.3, {"seed": int(rng.integers(1, 2**31)), "verbose": -9, "verb_log": 0, "verb_disp": 0}
    )
    spent = 0
    while spent < steps and not search.stop():
        points = search.ask()
        search.tell(points, [ledger.look(start.at(np.asarray(point))).value for point in points])
        spent += len(points)


@lru_cache(maxsize=1)
def strategy() -> Any:
    """The package cma, or None."""
    try:
        import cma
    except ImportError:
        return None
    return cma


_claim = lru_cache(maxsize=8)(claim_of)


def unit(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """Run a unit as a trial of a sweep, which returns scalars, with the candidate as JSON."""
    claim = _claim(parameters["claim"], parameters["reading"], parameters["space"], parameters.get("loss"))
    return row_of(explore(claim, seed))


def row_of(ledger: BestCandidate) -> dict[str, Any]:
    """Return a unit as the row of a sweep."""
    assert ledger.best is not None
    assert ledger.judged is not None
    return {
        "word": ledger.judged.word,
        "value": ledger.judged.value,
        "judged": ledger.count,
        "words": json.dumps(ledger.words),
        "raised": ledger.error,
        "candidate": json.dumps(ledger.best.to_dict()),
    }


JUDGEMENTS = 600  # at most, in shrinking
LOOKS = 3  # in other orders of inputs, tokens and coordinates
FEWEST = 2  # digits that must agree: fewer are rounding
RESOLVED = 1e-9  # a slack nearer to 0 may be rounding alone
ORDERS = 8  # looks at each kind of order, where a custom function may depend on it
NAMES = {"coordinates": "order and signs of the coordinates"}


def shrink(claim: HuntedClaim, candidate: Candidate, judged: Judgement) -> tuple[Candidate, Judgement]:
    """Reduce a candidate to fewest inputs, tokens and dimensions, then simple numbers, while it fails alike.

    Greedy: the first simpler candidate that fails as well is taken, and all is tried again from there.
    """
    count = 0
    with serial_blas():
        while count < JUDGEMENTS:
            for there in candidate.shrunk(claim.space.ranges):
                if there.cost >= candidate.cost or not np.isfinite(there.vector()).all():
                    continue
                judgement = claim.judge(there)
                count += 1
                if judgement.word in (judged.word, "refuted"):
                    candidate, judged = there, judgement
                    break
                if count >= JUDGEMENTS:
                    break
            else:
                break
    return candidate, judged


@dataclass(frozen=True)
class Second:
    """The result of a second look: the final word, and for a suspicion the number of digits that agree."""

    word: str
    digits: int | None = None
    note: str | None = None


def look_again(claim: HuntedClaim, candidate: Candidate, judged: Judgement) -> Second:
    """Judge the same data in other orders of inputs, tokens and coordinates: answers must not depend on it.

    A hypothesis that holds in one order and not in another is doubtful. A refutation rests on its proof,
    which is in fractions or balls; a suspicion must have the same sign each time, and its digits are those
    that agree. A custom function that treats tokens by their position is suspected all the same, with a note.
    """
    rng = np.random.default_rng(0)
    with serial_blas():
        others = [claim.judge(candidate.shuffled(rng)) for _ in range(LOOKS)]
    word: str = judged.word
    if any(other.word in ("not applicable", "doubtful", "refused") for other in others):
        word = "doubtful"
    if word in ("doubtful", "refuted"):
        return replace(_by_position(claim, candidate, judged) or Second(word), word=word)
    assert judged.slack is not None
    # with ten times as many steps, if the claim is a limit and its training has a length
    steps = signature(claim.stated.test).parameters.get("steps")
    if steps is not None and claim.stated.kind == "limit":
        longer = {**candidate.options, "steps": 10 * candidate.options.get("steps", steps.default)}
        later = claim.judge(candidate.told(longer))
        others.append(later)
        if later.slack is not None and later.slack > 0.5 * judged.slack:
            return Second("nothing", 0)  # it was only not late enough
    if not all(other.slack is not None and other.slack < 0 for other in others):
        return _by_position(claim, candidate, judged) or Second("nothing", 0)
    if not math.isfinite(judged.slack):
        return Second("suspected", 0)
    digits = _digits(judged, others[:LOOKS])
    word = "suspected" if digits >= FEWEST else "nothing"
    return _by_position(claim, candidate, judged) or Second(word, digits)


def _digits(judged: Judgement, others: Iterable[Judgement]) -> int:
    """Count the digits of the slack that agree; 0 where one is not a finite number."""
    fewest = 15
    for other in others:
        if judged.slack == other.slack is not None:
            continue
        if judged.slack is None or other.slack is None or not math.isfinite(judged.slack - other.slack):
            return 0
        off = abs(other.slack - judged.slack) / max(abs(judged.slack), math.ulp(0.0))
        fewest = max(0, min(fewest, int(-math.log10(off + 1e-300))))
    return fewest


def _by_position(claim: HuntedClaim, candidate: Candidate, judged: Judgement) -> Second | None:
    """Return the orders that a custom function depends on, with the agreeing digits; None for noise."""
    if not claim.is_custom or judged.slack is None or not judged.slack < -RESOLVED:
        return None
    rng = np.random.default_rng(0)
    depends, digits = [], _digits(judged, [claim.judge(candidate)])
    with serial_blas():
        for order in candidate.orders:
            others = [claim.judge(candidate.shuffled(rng, only=order)) for _ in range(ORDERS)]
            agree = _digits(judged, others)
            if agree < FEWEST or any(other.unmet for other in others):
                depends.append(NAMES.get(order, f"order of the {order}"))
            else:
                digits = min(digits, agree)
    if not depends or digits < FEWEST:
        return None
    where = " and on the ".join(depends)
    note = f"the claim depends on the {where}; in another order the same data may satisfy it"
    return Second("suspected", digits, note)


def settle(
    claim: HuntedClaim, candidate: Candidate, shrinking: bool = True
) -> tuple[str | None, Candidate, Judgement, str | None]:
    """Shrink a candidate that fails and look again: its verdict (None: nothing), the data, and a note.

    Without ``shrinking`` the data are judged as they are, and a suspicion stays one.
    """
    judged = claim.judge(candidate)
    if not judged.fails:
        return "hypothesis doubtful" if judged.word == "doubtful" else None, candidate, judged, None
    small, judgement = shrink(claim, candidate, judged) if shrinking else (candidate, judged)
    second = look_again(claim, small, judgement)
    if second.word == "doubtful" and shrinking:  # shrunk to an edge: the first one may be good
        small, judgement, second = candidate, judged, look_again(claim, candidate, judged)
    if second.word == "doubtful":
        return "hypothesis doubtful", small, judgement, second.note
    if second.word == "nothing" and shrinking:
        return None, small, judgement, None
    if judgement.word == "refuted":
        return "refuted (proved)", small, judgement, second.note
    measured = judgement.measured
    radius = measured.get("norm", measured.get("|p| of the flow"))
    reach = f", |p| = {radius:.3g}" if isinstance(radius, float) and shrinking else ""
    digits = second.digits if second.word == "suspected" else 0
    return f"suspected ({digits} digits{reach})", small, judgement, second.note


SUGGESTING_UNITS = 10  # of a hunt under one more condition, at most
APPLICABLE = 20  # instances that must have been judged under it for a word about it

CONDITIONS: dict[str, Callable[[Problem], bool | None]] = {
    "one input": lambda problem: problem.n == 1,
    "one best token per input": lambda problem: strict_best(problem).holds,
    "distinct scores": lambda problem: distinct_scores(problem).holds,
    "positive scores": lambda problem: bool((problem.scores > 0).all()),
    "best tokens separable": lambda problem: separable_best(problem)[0].holds,
    "keys in general position": lambda problem: general_position(problem, rng=0).holds,
}


def suggestions(claim: HuntedClaim, example: Candidate, word: str, tries: int, seed: int) -> tuple[str, ...]:
    """Return a line for each condition that the counterexample breaks and that prevents another one.

    Such a hunt has three times the units that the first one took, ten at most; an empty one is a hint. Of a
    refutation only another one counts, of a suspicion another suspicion too.
    """
    subject = example.subject()
    if not isinstance(subject, Problem) or subject.readout.moves:
        return ()
    lines = []
    for name, holds in CONDITIONS.items():
        if holds(subject) is not False:
            continue
        narrowed, count, applicable = _under(claim, name, holds), 0, 0
        for unit in range(min(3 * tries, SUGGESTING_UNITS)):
            ledger = explore(narrowed, seed + unit)
            count += ledger.count
            applicable += sum(ledger.words.get(word, 0) for word in ("holds", "refuted", "suspected"))
            if ledger.words.get("refuted") or ledger.words.get(word):
                break
        else:
            if applicable >= APPLICABLE:
                lines.append(f"with {name}: nothing found in {count} instances, {applicable} of them judged")
    return tuple(lines)


def _under(claim: HuntedClaim, name: str, holds: Callable[[Problem], bool | None]) -> HuntedClaim:
    """Return the claim with one more hypothesis."""
    test = claim.stated.test

    def narrowed(subject: Problem, **options: Any) -> Outcome:
        hypothesis = Hypothesis(name, holds(subject))
        return test(subject, **options) if hypothesis.holds else Outcome((hypothesis,))

    return replace(claim, stated=replace(claim.stated, test=narrowed))


UNITS, TRIES = 10**6, 100  # of one hunt, at most and by default
HOPELESS = 3  # units in which every call raises, after which a hunt stops
UNIT = "hardmax.papers.hunting.search:unit"


@dataclass(frozen=True)
class Units:
    """The rows of the first units, without a gap, and whether a refutation is among them."""

    rows: tuple[dict[str, Any], ...]

    @property
    def refuted(self) -> int | None:
        """The number of the first unit that refutes."""
        return next((k for k, row in enumerate(self.rows) if row["word"] == "refuted"), None)

    @property
    def hopeless(self) -> bool:
        """Whether every call raised in as many first units as decide that: the others would raise too."""
        first = self.rows[:HOPELESS]
        return len(first) == HOPELESS and all(set(json.loads(r["words"])) <= {"refused"} for r in first)

    @property
    def judged(self) -> int:
        """Candidates that were looked at."""
        return sum(row["judged"] for row in self.rows)

    @property
    def words(self) -> dict[str, int]:
        """Number of judgements by word."""
        return dict(sum((Counter(json.loads(row["words"])) for row in self.rows), Counter[str]()))

    @property
    def error(self) -> str | None:
        """The first exception that the claim's function raised, if any."""
        return next((row["raised"] for row in self.rows if row["raised"]), None)

    def best(self) -> dict[str, Any] | None:
        """The row of the first refutation, or of the least value."""
        if self.refuted is not None:
            return self.rows[self.refuted]
        whole = (row for row in self.rows if row["candidate"] is not None)
        return min(whole, key=lambda row: float(row["value"]), default=None)


NO_ROW: dict[str, Any] = {"word": "refused", "value": math.inf, "judged": 0, "words": "{}", "candidate": None}


class Drive:
    """A hunt in steps: it runs units and stops when there are enough; options are those of `hm.hunt`.

    ``named`` says that the claim has a name by which worker processes find it. 100 units are done if neither
    ``tries`` nor ``seconds`` ends the hunt earlier.
    """

    def __init__(
        self,
        claim: HuntedClaim,
        *,
        named: bool = True,
        tries: int | None = None,
        seconds: float | None = None,
        rng: int = 0,
        store: str | os.PathLike[str] | None = None,
        backend: str = "local",
        address: str | None = None,
        workers: int | None = None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        if tries is not None and expect.whole("tries", tries, 1) > UNITS:
            raise ValueError(f"tries must be at most {UNITS:,}, got {tries:,}; hunt with another rng")
        if seconds is not None:
            expect.positive("seconds", seconds)
        self.claim, self.progress, self.begun = claim, progress, time.monotonic()
        self.seed = expect.whole("rng", rng)
        self.tries = tries or (TRIES if seconds is None else UNITS)
        self.end = None if seconds is None else self.begun + seconds
        self.folder = None if store is not None else Path(tempfile.mkdtemp(prefix="hardmax-hunt-"))
        self.path = Path(store or "") if self.folder is None else self.folder / "hunt.sqlite"
        self.reader: Store | None = None
        self.rows: list[dict[str, Any]] = []
        self.later: dict[int, dict[str, Any]] = {}
        cell = {"claim": claim.target, "reading": claim.reading, "space": ranges_text(claim.space.ranges)}
        if claim.space.loss is not None:
            cell["loss"] = claim.space.loss
        where = claim.target.rpartition(":")[0]
        self.options: dict[str, Any] = {
            "function": UNIT if named else (lambda parameters, seed: row_of(explore(claim, seed))),
            "grid": [cell],
            "trials": UNITS,
            "store": self.path,
            "rng": rng,
            "batch": 1,
            "backend": backend,
            "address": address,
            "workers": workers if named else 0,
            "data_files": [where] if where.endswith(".py") else [],
            "progress": self._see,
        }

    def run(self) -> None:
        """Run until there is enough; after an interrupt, `units` has the finished ones."""
        self._read()
        if self._is_enough():
            return
        with suppress(_Enough):
            sweep(**self.options)

    def units(self) -> Units:
        """The first units without a gap, up to a refutation and to the number of tries."""
        self._read()
        units = Units(tuple(self.rows[: self.tries]))
        if units.hopeless:
            return Units(units.rows[:HOPELESS])
        return units if units.refuted is None else Units(units.rows[: units.refuted + 1])

    def close(self) -> None:
        """Close the store; a temporary one is deleted."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _see(self, done: int, total: int) -> None:
        self._read()
        self.progress(len(self.rows), self.tries)
        if self._is_enough():
            raise _Enough

    def _is_enough(self) -> bool:
        if len(self.rows) >= self.tries or any(row["word"] == "refuted" for row in self.rows):
            return True
        if Units(tuple(self.rows[:HOPELESS])).hopeless:
            return True
        waits = any(row["word"] == "refuted" for row in self.later.values())  # units before it are under way
        return self.end is not None and time.monotonic() >= self.end and not waits and bool(self.rows)

    def _read(self) -> None:
        """Read new rows, and move those that follow without a gap to the front."""
        if self.reader is None:
            if not self.path.exists():
                return
            try:
                self.reader = Store.read(self.path)
            except ValueError:
                return  # the driver is only making it
        first = len(self.rows)
        rows = self.reader.select("trial, status, row, error", "cell = 0 AND trial >= ?", first)
        for trial, status, row, error in rows:
            if trial not in self.later:
                self.later[trial] = row if status == DONE else dict(NO_ROW, raised=error)
        while len(self.rows) in self.later:
            self.rows.append(self.later.pop(len(self.rows)))


class _Enough(Exception):
    """A refutation is found, the tries are done, or the time is over."""
