"""`hm.hunt`: search, shrink, look again; and the table of printed statements that are known to be false."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.progress import Progress
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED
from hardmax.app.results.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from hardmax.papers.hunting.candidate import Candidate
    from hardmax.papers.hunting.catalogue import Entry
    from hardmax.papers.hunting.claims import HuntedClaim, Judgement


@dataclass(frozen=True, eq=False, repr=False)
class Hunted(Answer):
    """The end of a hunt: its verdict, the smallest counterexample, and how much of the space was tried.

    ``verdict`` is "refuted (proved)", "suspected (N digits, R)", "hypothesis doubtful" or "nothing found in k
    instances". ``tries`` units with this ``seed`` give the same again, whatever the number of workers.

    >>> import hardmax as hm
    >>> found = hm.hunt("margin <= 3", tries=5, workers=0)
    >>> found.verdict, found.exit_code
    ('refuted (proved)', 1)
    """

    schema: ClassVar[str] = "hardmax.hunt/1"

    claim: str
    reading: str
    space: Mapping[str, tuple[int, int]]
    seed: int
    verdict: str
    tries: int
    instances: int
    words: Mapping[str, int]
    search: str
    candidate: Candidate | None = None
    judged: Judgement | None = None
    first_size: tuple[int, int, int] | None = None
    refusal: str | None = None
    is_paper: bool = False
    seconds: float = 0.0
    interrupted: bool = False
    files: tuple[str, ...] = field(default=())
    suggestions: tuple[str, ...] = field(default=())
    loss: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 refuted, 3 suspected, doubtful or never judged, 130 interrupted."""
        if self.interrupted:
            return INTERRUPTED
        if self.verdict.startswith("refuted"):
            return NOT_AS_EXPECTED
        return DONE if self.verdict.startswith("nothing") and self.words.get("holds") else INCOMPLETE

    @property
    def proof(self) -> str | None:
        """What proves a refutation."""
        return self.judged.proof if self.judged is not None and self.verdict.startswith("refuted") else None

    def subject(self) -> Any:
        """The counterexample itself: a problem, a corpus or sentences; None if there is none."""
        return None if self.candidate is None else self.candidate.subject()

    @property
    def commands(self) -> tuple[str, ...]:
        """What gives the same again: the hunt, and the verdict on the file of the counterexample."""
        from hardmax.papers.hunting.space import ranges_text

        if not self.space:  # the data of a file was judged, and nothing searched
            return ()
        sizes, tries = ranges_text(self.space), str(self.tries)
        again = ["hardmax", "hunt", self.claim, "--space", sizes, "--tries", tries]
        again += ["--seed", str(self.seed), *(["--reading", "paper"] if self.reading == "paper" else [])]
        again += [] if self.loss is None else ["--loss", self.loss]
        if not self.files or self.candidate is None:
            return (shlex.join(again),)
        from hardmax.papers.hunting.claims import told_to

        verify = ["hardmax", "verify" if self.is_paper else "hunt", self.claim, "--on", self.files[0]]
        options = self.candidate.options
        told = told_to(self.claim, options) if self.is_paper else options
        verify += ["--reading", "paper"] if self.reading == "paper" else []
        for name, value in told.items():
            plain = value.tolist() if hasattr(value, "tolist") else value
            verify += ["--given", f"{name}={json.dumps(plain, separators=(',', ':'))}"]
        return shlex.join(again), shlex.join(verify)

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        found = self.candidate is not None
        return {
            "claim": self.claim,
            "reading": self.reading,
            "space": {name: list(ends) for name, ends in self.space.items()},
            "seed": self.seed,
            "verdict": self.verdict,
            "status": "interrupted" if self.interrupted else "complete",
            "tries": self.tries,
            "instances": self.instances,
            "words": dict(self.words),
            "search": self.search,
            "counterexample": self.candidate.to_dict() if found and self.candidate is not None else None,
            "size": list(self.candidate.size) if self.candidate is not None else None,
            "size_before": list(self.first_size) if self.first_size is not None else None,
            "slack": self.judged.slack if found and self.judged is not None else None,
            "proof": self.proof,
            "refusal": self.refusal,
            "suggestions": list(self.suggestions),
            "loss": self.loss,
            "notes": list(self.notes),
            "files": list(self.files),
            "commands": list(self.commands),
            "seconds": self.seconds,
        }

    def table(self) -> RenderableType:
        """What `hardmax hunt` prints."""
        from rich.markup import escape

        return escape("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        where = ", ".join(f"{name} {low}..{high}" for name, (low, high) in self.space.items())
        said = ", ".join(f"{count} {word}" for word, count in sorted(self.words.items(), key=lambda x: -x[1]))
        as_printed = ", as printed" if self.reading == "paper" else ""
        lines = [f"{self.claim}{as_printed}: {self.verdict}"]
        if self.candidate is not None:
            from hardmax.papers.hunting.telling import told

            lines += told(self.candidate)
            if self.judged is not None and self.judged.slack is not None:
                lines.append(f"slack {self.judged.slack:.4g}" + (f"; {self.proof}" if self.proof else ""))
        if self.space:
            lines.append(f"tried {self.instances} instances in {self.tries} units ({said or 'none'})")
            lines.append(f"of the space {where}; {self.search}")
        if self.verdict.startswith("nothing") and not self.words.get("holds"):
            lines.append("the claim could not be tested, so this says nothing about it")
        if self.refusal:
            part = "each was" if self.words.get("refused") == self.instances else "some were"
            lines.append(f"{part} refused: {self.refusal}")
        lines += [f"note: {each}" for each in self.notes]
        lines += [f"a hypothesis may be missing: {each}" for each in self.suggestions]
        lines += [f"files: {', '.join(self.files)}"] if self.files else []
        return [*lines, *(f"again: {each}" for each in self.commands)]

    def _picture(self) -> Figure | None:
        from hardmax.papers.hunting.telling import picture

        return None if self.candidate is None else picture(self.candidate)

    def save(self, folder: str | os.PathLike[str]) -> Hunted:
        """Write the data, a picture if it lies in the plane, and LaTeX; the answer, which names the files."""
        from dataclasses import replace

        from hardmax.papers.hunting.telling import write

        if self.candidate is None:
            return self
        files = write(self.candidate, Path(folder), self.claim, self.verdict, self.proof)
        return replace(self, files=tuple(map(str, files)))


@dataclass(frozen=True, eq=False, repr=False)
class Catalogued(Answer):
    """Every printed statement that is known to be false, and what a hunt of so many seconds made of it.

    >>> from hardmax.app.results import Catalogued
    >>> Catalogued(60.0, 0, ()).exit_code
    0
    """

    schema: ClassVar[str] = "hardmax.hunt/1"

    seconds: float
    seed: int
    hunts: tuple[tuple[Entry, Hunted], ...]
    interrupted: bool = False

    @property
    def refuted(self) -> int:
        """How many were refuted, with a proof."""
        return sum(found.verdict.startswith("refuted") for _, found in self.hunts)

    @property
    def exit_code(self) -> int:
        """0 if all that is false was refuted, 3 if not, 130 interrupted."""
        if self.interrupted:
            return INTERRUPTED
        return DONE if self.refuted == len(self.hunts) else INCOMPLETE

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        rows = [
            {
                "claim": entry.claim,
                "erratum": entry.erratum,
                "says": entry.says,
                "known_size": entry.size,
                "verdict": found.verdict,
                "size": found.candidate.size if found.candidate else None,
                "proof": found.proof,
                "instances": found.instances,
                "tries": found.tries,
                "seconds": found.seconds,
                "commands": found.commands,
            }
            for entry, found in self.hunts
        ]
        status = "interrupted" if self.interrupted else "complete"
        return {
            "seed": self.seed,
            "limit": self.seconds,
            "status": status,
            "refuted": self.refuted,
            "table": rows,
        }

    def table(self) -> RenderableType:
        """What `hardmax hunt --catalogue` prints."""
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("claim", "as printed", "verdict", "size", "known", "instances", "s"):
            table.add_column(name, justify="right" if name in ("instances", "s") else "left")
        smaller = 0
        for entry, found in self.hunts:
            size = found.candidate.size if found.candidate is not None else None
            smaller += size is not None and sum(size) <= sum(entry.size)
            row = (
                entry.claim,
                entry.says,
                found.verdict,
                _size(size),
                _size(entry.size),
                str(found.instances),
            )
            table.add_row(*map(escape, row), f"{found.seconds:.0f}")
        return Group(
            table,
            f"{self.refuted} of {len(self.hunts)} refuted; {smaller} no larger than the known counterexample "
            "(inputs, tokens, dimensions or words)",
        )


def _size(size: tuple[int, int, int] | None) -> str:
    return "" if size is None else " ".join(map(str, size))


@check_arguments
def hunt(
    claim: str | Callable[[Any], Any],
    *,
    reading: str = "corrected",
    space: str | None = None,
    tries: int | None = None,
    seconds: float | None = None,
    rng: int = 0,
    store: str | os.PathLike[str] | None = None,
    backend: str = "local",
    address: str | None = None,
    workers: int | None = None,
    suggest: bool = False,
    loss: str | None = None,
) -> Hunted:
    """Search for data on which a claim fails; shrink what is found, and prove it.

    Random candidates are improved by moves and continuous steps, unit by unit; the hunt ends at the first
    refutation. Nothing is called refuted without a proof in fractions or balls. A claim "file.py:name"
    executes the file; if every call of a claim raises, the hunt stops after three units.

    Args:
        claim: the id of a statement, "file.py:name", a function of a problem that returns its slack (a
            number, negative where it fails; a fraction or a ball proves itself) or an Outcome, or one line
            such as "selection == 1 given margin > 0.5".
        reading: "paper" hunts a statement as it is printed.
        space: sizes to try, as "n=2..4,T=2..4,d=2..3".
        tries: units of work, 100 by default; the same number gives the same result.
        seconds: stop after the unit that is under way then; the answer says how many tries that were.
        rng: seed of all units.
        store: a file that keeps the units, so that a hunt that was stopped goes on.
        backend: "local", "dask" or "ray".
        address: of the cluster to join.
        workers: processes, one for each core by default; 0 is this process.
        suggest: hunt again under one more condition of a short list, and say which leave nothing to find.
        loss: the loss of every problem: "logistic", "exponential" or "correlation"; all three by default.

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
        rng=rng,
        store=store,
        backend=backend,
        address=address,
        workers=workers,
        loss=loss,
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
        loss: str | None = None,
        progress: Progress = lambda done, total: None,
        **budget: Any,
    ) -> None:
        from hardmax.papers.checking.check import as_reading
        from hardmax.papers.hunting.claims import claim_of
        from hardmax.papers.hunting.driving import Budget, Drive
        from hardmax.trials.provenance import named

        self.begun = time.monotonic()
        allowed = Budget(**budget)
        self.seed = allowed.rng
        found: str | None = claim if isinstance(claim, str) else named(claim)[1]
        self.claim: HuntedClaim = claim_of(
            claim if found is None else found, as_reading(reading), space, loss
        )
        self.drive = Drive(self.claim, allowed, found is not None, progress)

    def run(self) -> None:
        """Search; an interrupt passes through."""
        self.drive.run()

    def close(self) -> None:
        """Let go of the store."""
        self.drive.close()

    def answer(self, interrupted: bool = False, suggest: bool = False) -> Hunted:
        """Shrink and prove the best that was found, and say so; with a missing hypothesis if asked."""
        from hardmax.papers.hunting.search import strategy
        from hardmax.papers.hunting.space import candidate_of

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
            "loss": self.claim.space.loss,
        }
        if units.hopeless:
            told["notes"] = (f"every call raised, so the hunt stopped after {len(units.rows)} units",)
        nothing = f"nothing found in {units.judged} instances"
        if best is None:
            return Hunted(verdict=nothing, **told, seconds=self._seconds())
        candidate = candidate_of(json.loads(best["candidate"]))
        verdict, candidate, judged, size, note = settled(self.claim, candidate)
        if note is not None:
            told["notes"] = (note,)
        found = candidate if verdict is not None else None
        if suggest and judged.fails and found is not None:
            from hardmax.papers.hunting.driving import suggestions

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
    claim: HuntedClaim, candidate: Candidate
) -> tuple[str | None, Candidate, Judgement, tuple[int, int, int], str | None]:
    """Shrink a candidate that fails and look again: its verdict (None: nothing), first size and a note."""
    from hardmax.papers.hunting.driving import look_again, shrink

    size = candidate.size
    judged = claim.judge(candidate)
    if judged.word == "doubtful":
        return "hypothesis doubtful", candidate, judged, size, None
    if not judged.fails:
        return None, candidate, judged, size, None
    small, found = shrink(claim, candidate, judged)
    second = look_again(claim, small, found)
    if second.word == "doubtful":  # shrunk to an edge: the first one may stand
        small, found, second = candidate, judged, look_again(claim, candidate, judged)
    if second.word == "doubtful":
        return "hypothesis doubtful", small, found, size, second.note
    if second.word == "nothing":
        return None, small, found, size, None
    if found.word == "refuted":
        return "refuted (proved)", small, found, size, second.note
    radius = next((found.measured[k] for k in ("norm", "|p| of the flow") if k in found.measured), None)
    reach = f", |p| = {radius:.3g}" if isinstance(radius, float) else ""
    return f"suspected ({second.digits} digits{reach})", small, found, size, second.note


def judge_file(
    claim: str,
    file: str | os.PathLike[str],
    reading: str = "corrected",
    given: Mapping[str, Any] | None = None,
) -> Hunted:
    """A claim on the data of a file, without a search; ``given`` is what it is told besides."""
    from hardmax.papers.checking.check import as_reading
    from hardmax.papers.hunting.claims import claim_of, need_given
    from hardmax.papers.hunting.telling import read

    found = claim_of(claim, as_reading(reading))
    need_given(found, given or {})
    candidate = read(found, Path(file), given or {})
    judged = found.judge(candidate)
    words = {
        "refuted": "refuted (proved)",
        "suspected": "suspected (0 digits)",
        "doubtful": "hypothesis doubtful",
    }
    note = None
    if judged.fails:
        from hardmax.papers.hunting.driving import look_again

        second = look_again(found, candidate, judged)
        note = second.note
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
        notes=() if note is None else (note,),
    )


def hunt_entry(entry: Entry, seconds: float, rng: int = 0, workers: int | None = None) -> Hunted:
    """One printed statement of the catalogue, as printed."""
    from hardmax.papers.checking.check import STATEMENTS

    reading = "paper" if entry.claim in STATEMENTS.places else "corrected"
    return hunt(entry.claim, reading=reading, seconds=seconds, rng=rng, workers=workers)


def catalogue(
    seconds: float = 60.0,
    *,
    rng: int = 0,
    workers: int | None = None,
    tell: Callable[[str], object] = lambda what: None,
) -> Catalogued:
    """Hunt every entry of the catalogue for so many seconds each, from a cold start."""
    from hardmax.papers.hunting.catalogue import CATALOGUE

    done: list[tuple[Entry, Hunted]] = []
    entries: Iterable[Entry] = CATALOGUE
    try:
        for entry in entries:
            tell(entry.claim)
            done.append((entry, hunt_entry(entry, seconds, rng, workers)))
    except KeyboardInterrupt:
        if not done:
            raise
        return Catalogued(seconds, rng, tuple(done), interrupted=True)
    return Catalogued(seconds, rng, tuple(done))


def _search(cma: Any) -> str:
    return f"Gaussian steps; CMA-ES: {install('hunt')}" if cma is None else f"cma {cma.__version__}"
