"""What `hunt` says: a counterexample with its proof, a suspicion with its digits, or how much was tried."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib import expect
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from hardmax.hunting.candidate import Candidate
    from hardmax.hunting.claims import Claim, Judgement
    from hardmax.theory.check import Reading

TRIES = 100  # units by default


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
    missing: str | None = None
    files: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 refuted, 3 suspected or doubtful, 130 interrupted."""
        if self.interrupted:
            return INTERRUPTED
        if self.verdict.startswith("refuted"):
            return NOT_AS_EXPECTED
        return DONE if self.verdict.startswith("nothing") else INCOMPLETE

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
        from hardmax.hunting.space import ranges_text

        again = ["hardmax", "hunt", self.claim, "--space", ranges_text(self.space), "--tries", str(self.tries)]
        again += ["--seed", str(self.seed), *(["--reading", "paper"] if self.reading == "paper" else [])]
        if not self.files or self.candidate is None:
            return (shlex.join(again),)
        if not self.is_paper:
            return shlex.join(again), shlex.join(["hardmax", "hunt", self.claim, "--on", self.files[0]])
        from hardmax.hunting.claims import told_to

        verify = ["hardmax", "verify", self.claim, "--on", self.files[0]]
        verify += ["--reading", "paper"] if self.reading == "paper" else []
        for name, value in told_to(self.claim, self.candidate.options).items():
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
            "missing": self.missing,
            "refusal": self.refusal,
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
            from hardmax.hunting.telling import told

            lines += told(self.candidate)
            if self.judged is not None and self.judged.slack is not None:
                lines.append(f"slack {self.judged.slack:.4g}" + (f"; {self.proof}" if self.proof else ""))
        if self.missing:
            lines.append(self.missing)
        lines.append(f"tried {self.instances} instances in {self.tries} units ({said or 'none'})")
        lines.append(f"of the space {where}; {self.search}")
        if self.refusal:
            lines.append(f"some were refused: {self.refusal}")
        lines += [f"files: {', '.join(self.files)}"] if self.files else []
        return [*lines, *(f"again: {each}" for each in self.commands)]

    def _picture(self) -> Figure | None:
        from hardmax.hunting.telling import picture

        return None if self.candidate is None else picture(self.candidate)

    def save(self, folder: str | os.PathLike[str]) -> Hunted:
        """Write the counterexample, its picture if it lies in the plane, and LaTeX; the answer with the files."""
        from dataclasses import replace

        from hardmax.hunting.telling import write

        if self.candidate is None:
            return self
        files = write(self.candidate, Path(folder), self.claim, self.verdict, self.proof)
        return replace(self, files=tuple(map(str, files)))


def hunt(
    claim: str | Callable[[Any], Any],
    *,
    reading: Reading = "corrected",
    space: str | None = None,
    tries: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    backend: str = "local",
    address: str | None = None,
    workers: int | None = None,
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

    >>> import hardmax as hm
    >>> found = hm.hunt("B-THM-1", reading="paper", tries=3, workers=0)
    >>> found.verdict, found.candidate.size
    ('refuted (proved)', (1, 2, 1))
    """
    job = Hunting(
        claim, reading=reading, space=space, tries=tries, seconds=seconds, seed=seed, store=store,
        backend=backend, address=address, workers=workers,
    )  # fmt: skip
    try:
        job.run()
        return job.answer()
    finally:
        job.close()


class Hunting:
    """A hunt step by step; what was found stays when the rest is interrupted."""

    def __init__(
        self,
        claim: str | Callable[[Any], Any],
        *,
        reading: Reading = "corrected",
        space: str | None = None,
        tries: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        tell: Callable[[int], object] = lambda count: None,
        **where: Any,
    ) -> None:
        from hardmax.hunting.claims import claim_of
        from hardmax.hunting.driving import UNITS, Drive
        from hardmax.trials.provenance import named

        self.begun = time.monotonic()
        if reading not in ("corrected", "paper"):
            raise ValueError(f"reading must be 'corrected' or 'paper', got {reading!r}")
        tries = TRIES if tries is None and seconds is None else tries
        if tries is not None and expect.whole("tries", tries, 1) > UNITS:
            raise ValueError(f"tries must be at most {UNITS:,}, got {tries:,}")
        if seconds is not None:
            expect.positive("seconds", seconds)
        self.seed = expect.whole("seed", seed)
        found: str | None = claim if isinstance(claim, str) else named(claim)[1]
        if found is not None and found.rpartition(":")[0].endswith(".py"):
            found = named(found)[1]
        self.claim: Claim = claim_of(claim if found is None else found, reading, space)
        self.drive = Drive(
            self.claim, tries=tries, seconds=seconds, seed=self.seed, named=found is not None,
            tell=tell, **where,
        )  # fmt: skip

    def run(self) -> None:
        """Search; an interrupt passes through."""
        self.drive.run()

    def close(self) -> None:
        """Let go of the store."""
        self.drive.close()

    def answer(self, interrupted: bool = False) -> Hunted:
        """Shrink and prove the best that was found, and say so."""
        from hardmax.hunting.search import strategy
        from hardmax.hunting.space import candidate_of

        units = self.drive.units()
        best = units.best()
        cma = strategy()
        told: dict[str, Any] = {
            "claim": self.claim.target, "reading": self.claim.reading, "space": self.claim.space.ranges,
            "seed": self.seed, "tries": len(units.rows), "instances": units.judged, "words": units.words,
            "search": "Gaussian steps (CMA-ES needs the extra hunt)" if cma is None else f"cma {cma.__version__}",
            "refusal": units.error, "is_paper": self.claim.is_paper, "interrupted": interrupted,
        }  # fmt: skip
        nothing = f"nothing found in {units.judged} instances"
        if best is None:
            return Hunted(verdict=nothing, **told, seconds=self._seconds())
        candidate = candidate_of(json.loads(best["candidate"]))
        verdict, candidate, judged, size = settled(self.claim, candidate)
        found = candidate if verdict is not None else None
        return Hunted(
            verdict=verdict or nothing, candidate=found, judged=judged,
            first_size=size if found is not None else None, seconds=self._seconds(), **told,
        )  # fmt: skip

    def _seconds(self) -> float:
        return round(time.monotonic() - self.begun, 3)


def settled(claim: Claim, candidate: Candidate) -> tuple[str | None, Candidate, Judgement, tuple[int, int, int]]:
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


def judge_file(claim: str, file: str | os.PathLike[str], reading: Reading = "corrected") -> Hunted:
    """A claim on the data of a file, without a search."""
    from hardmax.hunting.claims import claim_of
    from hardmax.hunting.telling import read

    found = claim_of(claim, reading)
    candidate = read(found, Path(file))
    judged = found.judge(candidate)
    words = {"refuted": "refuted (proved)", "suspected": "suspected (0 digits)", "doubtful": "hypothesis doubtful"}
    if judged.fails:
        from hardmax.hunting.shrink import look_again

        second = look_again(found, candidate, judged)
        if second.word == "suspected":
            words["suspected"] = f"suspected ({second.digits} digits)"
        elif second.word == "doubtful":
            words = dict.fromkeys(words, "hypothesis doubtful")
    verdict = words.get(judged.word, "nothing found in 1 instances")
    return Hunted(
        found.target, found.reading, {}, 0, verdict, 0, 1, {judged.word: 1}, "no search",
        candidate if judged.word in words else None, judged, is_paper=found.is_paper,
    )  # fmt: skip
