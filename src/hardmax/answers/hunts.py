"""`hm.hunt`: search, shrink, look again; and the table of printed statements that are known to be false."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._lib.extras import install
from hardmax.answers.hunted import Catalogued, Hunted

if TYPE_CHECKING:
    from hardmax.hunting.candidate import Candidate
    from hardmax.hunting.catalogue import Entry
    from hardmax.hunting.claims import Claim, Judgement


def hunt(
    claim: str | Callable[[Any], Any],
    *,
    reading: str = "corrected",
    space: str | None = None,
    tries: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    backend: str = "local",
    address: str | None = None,
    workers: int | None = None,
    suggest: bool = False,
) -> Hunted:
    """Search for data on which a claim fails; shrink what is found, and prove it.

    Random candidates are improved by moves and continuous steps, unit by unit; the hunt ends at the first
    refutation. Nothing is called refuted without a proof in fractions or balls.

    Args:
        claim: the id of a statement, "file.py:name", a function of a problem that returns its slack (a
            number, negative where it fails; a fraction or a ball proves itself) or an Outcome, or one line
            such as "selection == 1 given margin > 0.5".
        reading: "paper" hunts a statement as it is printed.
        space: sizes to try, as "n=2..4,T=2..4,d=2..3".
        tries: units of work, 100 by default; the same number gives the same result.
        seconds: stop after the unit that is under way then; the answer says how many tries that were.
        seed: of all units.
        store: a file that keeps the units, so that a hunt that was stopped goes on.
        backend: "local", "dask" or "ray".
        address: of the cluster to join.
        workers: processes, one for each core by default; 0 is this process.
        suggest: hunt again under one more condition of a short list, and say which leave nothing to find.

    >>> import hardmax as hm
    >>> found = hm.hunt("B-THM-1", reading="paper", tries=3, workers=0)
    >>> found.verdict, found.candidate.size
    ('refuted (proved)', (1, 2, 1))
    """
    job = Hunting(
        claim,
        reading=reading,
        space=space,
        tries=tries,
        seconds=seconds,
        seed=seed,
        store=store,
        backend=backend,
        address=address,
        workers=workers,
    )
    try:
        job.run()
        return job.answer(suggest=suggest)
    finally:
        job.close()


class Hunting:
    """A hunt step by step; what was found stays when the rest is interrupted."""

    def __init__(
        self,
        claim: str | Callable[[Any], Any],
        *,
        reading: str = "corrected",
        space: str | None = None,
        tell: Callable[[int], object] = lambda count: None,
        **budget: Any,
    ) -> None:
        from hardmax.hunting.claims import claim_of
        from hardmax.hunting.driving import Budget, Drive
        from hardmax.theory.check import as_reading
        from hardmax.trials.provenance import named

        self.begun = time.monotonic()
        allowed = Budget(**budget)
        self.seed = allowed.seed
        found: str | None = claim if isinstance(claim, str) else named(claim)[1]
        self.claim: Claim = claim_of(claim if found is None else found, as_reading(reading), space)
        self.drive = Drive(self.claim, allowed, found is not None, tell)

    def run(self) -> None:
        """Search; an interrupt passes through."""
        self.drive.run()

    def close(self) -> None:
        """Let go of the store."""
        self.drive.close()

    def answer(self, interrupted: bool = False, suggest: bool = False) -> Hunted:
        """Shrink and prove the best that was found, and say so; with a missing hypothesis if asked."""
        from hardmax.hunting.search import strategy
        from hardmax.hunting.space import candidate_of

        units = self.drive.units()
        best = units.best()
        cma = strategy()
        told: dict[str, Any] = {
            "claim": self.claim.target,
            "reading": self.claim.reading,
            "space": self.claim.space.ranges,
            "seed": self.seed,
            "tries": len(units.rows),
            "instances": units.judged,
            "words": units.words,
            "search": _search(cma),
            "refusal": units.error,
            "is_paper": self.claim.is_paper,
            "interrupted": interrupted,
        }
        nothing = f"nothing found in {units.judged} instances"
        if best is None:
            return Hunted(verdict=nothing, **told, seconds=self._seconds())
        candidate = candidate_of(json.loads(best["candidate"]))
        verdict, candidate, judged, size = settled(self.claim, candidate)
        found = candidate if verdict is not None else None
        if suggest and judged.fails and found is not None:
            from hardmax.hunting.suggesting import suggestions

            told["suggestions"] = suggestions(self.claim, found, judged.word, len(units.rows), self.seed)
        return Hunted(
            verdict=verdict or nothing,
            candidate=found,
            judged=judged,
            first_size=size if found is not None else None,
            seconds=self._seconds(),
            **told,
        )

    def _seconds(self) -> float:
        return round(time.monotonic() - self.begun, 3)


def settled(
    claim: Claim, candidate: Candidate
) -> tuple[str | None, Candidate, Judgement, tuple[int, int, int]]:
    """Shrink a candidate that fails and look again: the verdict on it (None: nothing), and what it was."""
    from hardmax.hunting.shrink import look_again, shrink

    size = candidate.size
    judged = claim.judge(candidate)
    if judged.word == "doubtful":
        return "hypothesis doubtful", candidate, judged, size
    if not judged.fails:
        return None, candidate, judged, size
    small, found = shrink(claim, candidate, judged)
    second = look_again(claim, small, found)
    if second.word == "doubtful":  # shrunk to an edge: the first one may stand
        small, found, second = candidate, judged, look_again(claim, candidate, judged)
    if second.word == "doubtful":
        return "hypothesis doubtful", small, found, size
    if second.word == "nothing":
        return None, small, found, size
    if found.word == "refuted":
        return "refuted (proved)", small, found, size
    radius = next((found.measured[k] for k in ("norm", "|p| of the flow") if k in found.measured), None)
    reach = f", |p| = {radius:.3g}" if isinstance(radius, float) else ""
    return f"suspected ({second.digits} digits{reach})", small, found, size


def judge_file(
    claim: str,
    file: str | os.PathLike[str],
    reading: str = "corrected",
    given: Mapping[str, Any] | None = None,
) -> Hunted:
    """A claim on the data of a file, without a search; ``given`` is what it is told besides."""
    from hardmax.hunting.claims import claim_of, need_given
    from hardmax.hunting.telling import read
    from hardmax.theory.check import as_reading

    found = claim_of(claim, as_reading(reading))
    need_given(found, given or {})
    candidate = read(found, Path(file), given or {})
    judged = found.judge(candidate)
    words = {
        "refuted": "refuted (proved)",
        "suspected": "suspected (0 digits)",
        "doubtful": "hypothesis doubtful",
    }
    if judged.fails:
        from hardmax.hunting.shrink import look_again

        second = look_again(found, candidate, judged)
        if second.word == "suspected":
            words["suspected"] = f"suspected ({second.digits} digits)"
        elif second.word == "doubtful":
            words = dict.fromkeys(words, "hypothesis doubtful")
    verdict = words.get(judged.word, "nothing found in 1 instances")
    return Hunted(
        found.target,
        found.reading,
        {},
        0,
        verdict,
        0,
        1,
        {judged.word: 1},
        "no search",
        candidate if judged.word in words else None,
        judged,
        is_paper=found.is_paper,
        refusal=judged.measured.get("error") if judged.word == "refused" else None,
    )


def hunt_entry(entry: Entry, seconds: float, seed: int = 0, workers: int | None = None) -> Hunted:
    """One printed statement of the catalogue, as printed."""
    from hardmax.theory.check import STATEMENTS

    reading = "paper" if entry.claim in STATEMENTS.places else "corrected"
    return hunt(entry.claim, reading=reading, seconds=seconds, seed=seed, workers=workers)


def catalogue(
    seconds: float = 60.0,
    *,
    seed: int = 0,
    workers: int | None = None,
    tell: Callable[[str], object] = lambda what: None,
) -> Catalogued:
    """Hunt every entry of the catalogue for so many seconds each, from a cold start."""
    from hardmax.hunting.catalogue import CATALOGUE

    done: list[tuple[Entry, Hunted]] = []
    entries: Iterable[Entry] = CATALOGUE
    try:
        for entry in entries:
            tell(entry.claim)
            done.append((entry, hunt_entry(entry, seconds, seed, workers)))
    except KeyboardInterrupt:
        if not done:
            raise
        return Catalogued(seconds, seed, tuple(done), interrupted=True)
    return Catalogued(seconds, seed, tuple(done))


def _search(cma: Any) -> str:
    return f"Gaussian steps; CMA-ES: {install('hunt')}" if cma is None else f"cma {cma.__version__}"
