"""One unit of a hunt: random candidates, then moves and continuous steps from the best of them.

A unit has a number of judgements to spend, not seconds, and its own seed: what it finds depends on nothing
else. It ends at the first refutation.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from hardmax._lib.parallel import serial_blas
from hardmax.papers.checking.check import Reading
from hardmax.papers.hunting.claims import HuntedClaim, Judgement, claim_of
from hardmax.papers.hunting.space import Candidate

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
        found = self.claim.judge(candidate)
        self.count += 1
        self.words[found.word] += 1
        if found.word == "refused" and self.error is None:
            self.error = str(found.measured["error"])
        if self.judged is None or (found.word != "refuted", found.value) < (
            self.judged.word != "refuted",
            self.judged.value,
        ):
            self.best, self.judged = candidate, found
        if found.word == "refuted":
            raise _Refuted
        return found


def explore(claim: HuntedClaim, seed: int) -> BestCandidate:
    """One unit of work."""
    rng, ledger = np.random.default_rng(seed), BestCandidate(claim)
    with serial_blas(), suppress(_Refuted):
        for _ in range(DRAWS):
            ledger.look(claim.space.draw(rng))
        _climb(ledger, rng, MOVES)
        _slide(ledger, rng, STEPS)
        _climb(ledger, rng, MOVES // 2)
    return ledger


class _Refuted(Exception):
    """Ends a unit: there is nothing better to be had."""


def _climb(ledger: BestCandidate, rng: np.random.Generator, moves: int) -> None:
    """Discrete moves, up to three at once; one that is as good is taken too, so that plateaus are crossed."""
    assert ledger.best is not None
    assert ledger.judged is not None
    here, height = ledger.best, ledger.judged.value
    for _ in range(moves):
        there = here
        for _ in range(int(rng.integers(1, 4))):
            there = there.moved(rng, ledger.claim.space.ranges)
        found = ledger.look(there)
        if found.value <= height:
            here, height = there, found.value


def _slide(ledger: BestCandidate, rng: np.random.Generator, steps: int) -> None:
    """Continuous steps: CMA-ES where it is installed, Gaussian steps of an adapted size otherwise."""
    assert ledger.best is not None
    start = ledger.best
    x = start.vector()
    if not x.size:
        _climb(ledger, rng, steps)
        return
    if (cma := strategy()) is None or x.size < 2:  # CMA-ES needs two dimensions
        _gauss(ledger, rng, start, steps)
        return
    search = cma.CMAEvolutionStrategy(
        x, 0.3, {"seed": int(rng.integers(1, 2**31)), "verbose": -9, "verb_log": 0, "verb_disp": 0}
    )
    spent = 0
    while spent < steps and not search.stop():
        points = search.ask()
        search.tell(points, [ledger.look(start.at(np.asarray(point))).value for point in points])
        spent += len(points)


def _gauss(ledger: BestCandidate, rng: np.random.Generator, start: Candidate, steps: int) -> None:
    """One parent, one child; the step grows with a success and shrinks with a failure."""
    assert ledger.judged is not None
    x, height, size = start.vector(), ledger.judged.value, 0.3
    for _ in range(steps):
        there = x + size * rng.normal(size=x.size)
        found = ledger.look(start.at(there))
        if found.value < height:
            x, height, size = there, found.value, 1.5 * size
        else:
            size *= 0.9


@lru_cache(maxsize=1)
def strategy() -> Any:
    """The package cma, or None."""
    try:
        import cma
    except ImportError:
        return None
    return cma


@lru_cache(maxsize=8)
def _claim(target: str, reading: Reading, space: str, loss: str | None) -> HuntedClaim:
    return claim_of(target, reading, space, loss)


def unit(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """A unit as a trial of a sweep: scalars, with the candidate as JSON."""
    claim = _claim(parameters["claim"], parameters["reading"], parameters["space"], parameters.get("loss"))
    return row_of(explore(claim, seed))


def row_of(found: BestCandidate) -> dict[str, Any]:
    """Return a unit as the row of a sweep."""
    assert found.best is not None
    assert found.judged is not None
    return {
        "word": found.judged.word,
        "value": found.judged.value,
        "judged": found.count,
        "words": json.dumps(found.words),
        "raised": found.error,
        "candidate": json.dumps(found.best.to_dict()),
    }
