"""One unit of a hunt: random candidates, then moves and continuous steps from the best of them.

A unit has a number of judgements to spend, not seconds, and its own seed: its result depends on nothing
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
