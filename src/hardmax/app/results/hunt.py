"""`hunt`: a counterexample to a claim, shrunk and proved; and the catalog of false printed statements."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.json import attributes, plain
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, command_line, ending, grid
from hardmax.app.results.session import session
from hardmax.papers.registry import PAPERS
from hardmax.trials.provenance import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.papers.hunting.candidates import Candidate
    from hardmax.papers.hunting.claims import Judgement
    from hardmax.papers.hunting.search import Drive
    from hardmax.papers.paper import Entry


@dataclass(frozen=True, eq=False, repr=False)
class HuntResult(Result):
    """The end of a hunt: its verdict, the smallest counterexample, and how much of the space was tried.

    ``verdict`` is "refuted (proved)", "suspected (N digits, R)", "hypothesis doubtful" or "nothing found in k
    instances". ``tries`` units with this ``seed`` give the same again, whatever the number of workers.

    >>> import hardmax as hm
    >>> result = hm.hunt("margin <= 3", tries=5, workers=0)
    >>> result.verdict, result.exit_code
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
    store: str | None = None

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the store of finished units, and the command that resumes."""
        state = f"what is done is kept in {self.store}" if self.store else "without a store nothing is kept"
        again = command_line("hunt", self.claim, store=self.store)
        message = f"interrupted; {state}; go on with: {again} and the same options"
        return message if self.interrupted else None

    @property
    def headline(self) -> str:
        """The claim and the verdict on it."""
        return f"{self.claim}{', as printed' if self.reading == 'paper' else ''}: {self.verdict}"

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 refuted, 3 suspected, doubtful or never judged, 130 interrupted."""
        is_tested = self.verdict.startswith("nothing") and bool(self.words.get("holds"))
        is_refuted = self.verdict.startswith("refuted")
        return ending(interrupted=self.interrupted, wrong=is_refuted, incomplete=not is_tested)

    @property
    def proof(self) -> str | None:
        """The proof of a refutation."""
        return self.judged.proof if self.judged is not None and self.verdict.startswith("refuted") else None

    def subject(self) -> Any:
        """Return the counterexample itself: a problem, a corpus or sentences; None if there is none."""
        return None if self.candidate is None else self.candidate.subject()

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that repeat this: the hunt, and the verdict on the file of the counterexample."""
        from hardmax.papers.hunting.candidates import ranges_text

        if not self.space:  # the data of a file was judged, and nothing searched
            return ()
        reading = "paper" if self.reading == "paper" else None
        search = {"space": ranges_text(self.space), "tries": self.tries, "seed": self.seed}
        again = command_line("hunt", self.claim, **search, reading=reading, loss=self.loss)
        if not self.files or self.candidate is None:
            return (again,)
        from hardmax.papers.checking.check import statement_of
        from hardmax.papers.hunting.claims import told_to

        options = self.candidate.options
        options = told_to(statement_of(self.claim).test, options) if self.is_paper else options
        values = [f"{name}={json.dumps(plain(x), separators=(',', ':'))}" for name, x in options.items()]
        command = "verify" if self.is_paper else "hunt"
        return again, command_line(command, self.claim, on=self.files[0], reading=reading, given=values)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        candidate = self.candidate
        return {
            **attributes(self, "claim", "reading", "space", "seed", "verdict"),
            "status": "interrupted" if self.interrupted else "complete",
            **attributes(self, "tries", "instances", "words", "search"),
            "counterexample": None if candidate is None else candidate.to_dict(),
            "size": None if candidate is None else candidate.size,
            "size_before": self.first_size,
            "slack": None if candidate is None or self.judged is None else self.judged.slack,
            **attributes(self, "proof", "refusal", "suggestions", "loss", "notes"),
            **attributes(self, "files", "commands", "seconds"),
        }

    def table(self) -> str:
        """Return what `hardmax hunt` prints."""
        lines = [self.headline]
        if self.candidate is not None:
            from hardmax.papers.hunting.telling import told

            lines += told(self.candidate)
            if self.judged is not None and self.judged.slack is not None:
                lines.append(f"slack {self.judged.slack:.4g}" + (f"; {self.proof}" if self.proof else ""))
        if self.space:
            ranges = ", ".join(f"{name} {low}..{high}" for name, (low, high) in self.space.items())
            words = sorted(self.words.items(), key=lambda x: -x[1])
            counts = ", ".join(f"{count} {word}" for word, count in words)
            lines.append(f"tried {self.instances} instances in {self.tries} units ({counts or 'none'})")
            lines.append(f"of the space {ranges}; {self.search}")
        if self.verdict.startswith("nothing") and not self.words.get("holds"):
            lines.append("the claim could not be tested, so this is not evidence for it")
        if self.refusal:
            part = "each was" if self.words.get("refused") == self.instances else "some were"
            lines.append(f"{part} refused: {self.refusal}")
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"a hypothesis may be missing: {hypothesis}" for hypothesis in self.suggestions]
        lines += [f"files: {', '.join(self.files)}"] if self.files else []
        return "\n".join([*lines, *(f"again: {command}" for command in self.commands)])

    def plot(self) -> Figure | None:
        """Draw the counterexample; None if there is none in the plane."""
        from hardmax.papers.hunting.telling import picture

        return None if self.candidate is None else picture(self.candidate)

    def _picture(self) -> Figure | None:
        return self.plot()

    def save(self, folder: str | os.PathLike[str]) -> HuntResult:
        """Write the data, a picture if it is in the plane, and LaTeX; return a result with the files."""
        from hardmax.papers.hunting.telling import write

        if self.candidate is None:
            return self
        files = write(self.candidate, Path(folder), self.claim, self.verdict, self.proof)
        return replace(self, files=tuple(map(str, files)))


@dataclass(frozen=True, eq=False, repr=False)
class CatalogueResult(Result):
    """All printed statements that are known to be false, each with the result of a hunt.

    >>> from hardmax.app.results.hunt import CatalogueResult
    >>> CatalogueResult(60.0, 0, ()).exit_code
    0
    """

    schema: ClassVar[str] = "hardmax.hunt/1"
    row_field: ClassVar[str] = "table"

    seconds: float
    seed: int
    hunts: tuple[tuple[Entry, HuntResult], ...]
    interrupted: bool = False

    @property
    def refuted(self) -> int:
        """The number of statements that were refuted, with a proof."""
        return sum(result.verdict.startswith("refuted") for _, result in self.hunts)

    @property
    def exit_code(self) -> int:
        """0 if every statement was refuted, 3 if not, 130 interrupted."""
        return ending(interrupted=self.interrupted, incomplete=self.refuted < len(self.hunts))

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        table = [
            {
                **attributes(entry, "claim", "erratum", "says"),
                "known_size": entry.size,
                "size": result.candidate.size if result.candidate else None,
                **attributes(result, "verdict", "proof", "instances", "tries", "seconds", "commands"),
            }
            for entry, result in self.hunts
        ]
        status = "interrupted" if self.interrupted else "complete"
        totals = {"seed": self.seed, "limit": self.seconds, "status": status, "refuted": self.refuted}
        return {**totals, "table": table}

    @property
    def headline(self) -> str:
        """The number of refuted statements."""
        return f"{self.refuted} of {len(self.hunts)} refuted"

    def table(self) -> Page:
        """Return what `hardmax hunt --catalogue` prints."""
        rows = []
        smaller = 0
        for entry, result in self.hunts:
            size = () if result.candidate is None else result.candidate.size
            smaller += bool(size) and sum(size) <= sum(entry.size)
            sizes = [" ".join(map(str, numbers)) for numbers in (size, entry.size)]
            counts = str(result.instances), f"{result.seconds:.0f}"
            rows.append((entry.claim, entry.says, result.verdict, *sizes, *counts))
        names = ("claim", "as printed", "verdict", "size", "known", "instances", "s")
        table = grid(names, rows, numbers=names[-2:], wrapped=names[:3])
        sizes_known = (
            f"{smaller} no larger than the known counterexample (inputs, tokens, dimensions or words)"
        )
        return [table, f"{self.headline}; {sizes_known}"]


@check_arguments
def hunt(
    claim: str | Callable[[Any], Any],
    *,
    reading: Literal["corrected", "paper"] = "corrected",
    space: str | None = None,
    loss: Literal["logistic", "exponential", "correlation", "log"] | None = None,
    tries: int | None = None,
    seconds: float | None = None,
    rng: int = 0,
    store: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    on: str | os.PathLike[str] | None = None,
    given: Mapping[str, Any] | None = None,
    suggest: bool = False,
    backend: Literal["local", "dask", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> HuntResult:
    """Search for a counterexample to a claim, shrink it and prove it.

    Random candidates are improved by moves and continuous steps, unit by unit; the hunt ends at the first
    refutation. A refutation has a proof in rational or ball arithmetic. If every call of a claim raises, the
    hunt stops after three units.

    Args:
        claim: A statement such as B-THM-1, FILE.py:NAME (the file is executed), or a line such as
            "selection == 1 given margin > 0.5". In Python also a function of a problem that returns its
            slack, a number that is negative where the claim fails, or an `Outcome`.
        reading: Hunt a statement as corrected or as printed in the paper.
        space: Sizes to search, for example n=2..4,T=2..4,d=2..3.
        loss: Loss of every problem; by default all that the claim allows.
        tries: Number of units of work; by default 100, or no limit with `seconds`.
        seconds: Stop after this many seconds. Units in progress are finished.
        rng: Random seed.
        store: File that keeps finished units, so that the same command resumes.
        out: Folder that receives the counterexample as data, picture and LaTeX.
        on: Test the claim on this file instead of searching.
        given: With `on`, an extra argument of the claim, for example start=[0,1].
        suggest: After a counterexample, try extra hypotheses and report which ones remove it.
        backend: Where units run.
        address: Address of the cluster to join.
        workers: Number of processes; by default one per core. 0 runs in this process.
        progress: Called with the number of units done and of all units.

    >>> import hardmax as hm
    >>> result = hm.hunt("B-THM-1", reading="paper", tries=3, workers=0)
    >>> result.verdict, result.candidate.size
    ('refuted (proved)', (1, 2, 1))
    """
    if on is not None:
        if loss is not None:
            raise ValueError("`loss` must be left out with `on`, whose file has its loss")
        if not isinstance(claim, str):
            raise ValueError("`on` needs a claim by name, such as B-THM-1 or file.py:name")
        return judge_file(claim, on, reading, given)
    if given:
        raise ValueError("`given` requires `on`")
    from hardmax.papers.hunting.claims import claim_of
    from hardmax.papers.hunting.search import Drive

    name = claim if isinstance(claim, str) else named(claim)[1]
    hunted = claim_of(claim if name is None else name, reading, space, loss)
    with session().progress(f"hunting {claim}", tries or 100, progress) as bar:
        drive = Drive(
            hunted,
            named=name is not None,
            tries=tries,
            seconds=seconds,
            rng=rng,
            store=store,
            backend=backend,
            address=address,
            workers=workers,
            progress=bar.to,
        )
        interrupted = False
        with closing(drive):
            try:
                drive.run()
            except KeyboardInterrupt:
                session().keep("stopping; the best so far is shrunk (press again to leave at once)")
                interrupted = True
            result = conclude(drive, interrupted, suggest and not interrupted)
    result = replace(result, store=None if store is None else os.fspath(store))
    return result if out is None else result.save(out)


def conclude(drive: Drive, interrupted: bool = False, suggest: bool = False) -> HuntResult:
    """Shrink and prove the best that was found; with ``suggest`` look for a missing hypothesis."""
    from hardmax.papers.hunting.candidates import candidate_of
    from hardmax.papers.hunting.search import settle, strategy, suggestions

    claim, units, cma = drive.claim, drive.units(), strategy()
    result = HuntResult(
        claim=claim.target,
        reading=claim.reading,
        space=claim.space.ranges,
        seed=drive.seed,
        verdict=f"nothing found in {units.judged} instances",
        tries=len(units.rows),
        instances=units.judged,
        words=units.words,
        search=f"Gaussian steps; CMA-ES: {install('hunt')}" if cma is None else f"cma {cma.__version__}",
        refusal=units.error,
        is_paper=claim.is_paper,
        interrupted=interrupted,
        loss=claim.space.loss,
    )
    if units.hopeless:
        note = f"every call raised, so the hunt stopped after {len(units.rows)} units"
        result = replace(result, notes=(note,))
    best = units.best()
    if best is not None:
        first = candidate_of(json.loads(best["candidate"]))
        verdict, candidate, judged, remark = settle(claim, first)
        result = replace(result, judged=judged, notes=result.notes if remark is None else (remark,))
        if verdict is not None:
            result = replace(result, verdict=verdict, candidate=candidate, first_size=first.size)
            if suggest and judged.fails:
                hypotheses = suggestions(claim, candidate, judged.word, len(units.rows), drive.seed)
                result = replace(result, suggestions=hypotheses)
    return replace(result, seconds=round(time.monotonic() - drive.begun, 3))


def judge_file(
    claim: str,
    file: str | os.PathLike[str],
    reading: Literal["corrected", "paper"] = "corrected",
    given: Mapping[str, Any] | None = None,
) -> HuntResult:
    """Judge a claim on the data of a file, without a search; ``given`` are its extra arguments."""
    from hardmax.papers.hunting.claims import claim_of, need_given
    from hardmax.papers.hunting.search import settle
    from hardmax.papers.hunting.telling import read

    hunted = claim_of(claim, reading)
    need_given(hunted, given or {})
    candidate = read(hunted, Path(file), given or {})
    verdict, _, judged, note = settle(hunted, candidate, shrinking=False)
    return HuntResult(
        hunted.target,
        hunted.reading,
        {},
        0,
        verdict or "nothing found in 1 instances",
        0,
        1,
        {judged.word: 1},
        "no search",
        candidate if judged.word in ("refuted", "suspected", "doubtful") else None,
        judged,
        is_paper=hunted.is_paper,
        refusal=judged.measured.get("error") if judged.word == "refused" else None,
        notes=() if note is None else (note,),
    )


@check_arguments
def catalogue(
    *,
    seconds: float | None = None,
    rng: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> CatalogueResult:
    """Hunt every printed statement that is known to be false, from a cold start.

    Args:
        seconds: Seconds for each statement; 60 by default.
        rng: Random seed.
        workers: Number of processes; by default one per core.
        progress: Called with the number of statements done and of all statements.
    """
    entries = [entry for paper in PAPERS.values() for entry in paper.catalogue]
    limit = 60.0 if seconds is None else seconds
    hunts: list[tuple[Entry, HuntResult]] = []
    interrupted = False
    with session().progress("hunting", len(entries), progress) as bar:
        try:
            for entry in entries:
                bar.rename(f"hunting {entry.claim}")
                hunts.append((entry, hunt_entry(entry, limit, rng, workers)))
                bar.advance()
        except KeyboardInterrupt:
            if not hunts:
                raise
            session().keep("stopping; the results so far follow")
            interrupted = True
    return CatalogueResult(limit, rng, tuple(hunts), interrupted)


def hunt_entry(entry: Entry, seconds: float, rng: int = 0, workers: int | None = None) -> HuntResult:
    """Hunt one printed statement of the catalog, as printed."""
    from hardmax.papers.checking.check import STATEMENTS

    reading: Any = "paper" if entry.claim in STATEMENTS.places else "corrected"
    return hunt(entry.claim, reading=reading, seconds=seconds, rng=rng, workers=workers)
