"""What `hunt` says: a counterexample with its proof, a suspicion with its digits, or how much was tried."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from hardmax.hunting.candidate import Candidate
    from hardmax.hunting.catalogue import Entry
    from hardmax.hunting.claims import Judgement


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
        from hardmax.hunting.space import ranges_text

        if not self.space:  # the data of a file was judged, and nothing searched
            return ()
        sizes, tries = ranges_text(self.space), str(self.tries)
        again = ["hardmax", "hunt", self.claim, "--space", sizes, "--tries", tries]
        again += ["--seed", str(self.seed), *(["--reading", "paper"] if self.reading == "paper" else [])]
        if not self.files or self.candidate is None:
            return (shlex.join(again),)
        from hardmax.hunting.claims import told_to

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
        if self.space:
            lines.append(f"tried {self.instances} instances in {self.tries} units ({said or 'none'})")
            lines.append(f"of the space {where}; {self.search}")
        if self.verdict.startswith("nothing") and not self.words.get("holds"):
            lines.append("the claim could not be tested, so this says nothing about it")
        if self.refusal:
            part = "each was" if self.words.get("refused") == self.instances else "some were"
            lines.append(f"{part} refused: {self.refusal}")
        lines += [f"a hypothesis may be missing: {each}" for each in self.suggestions]
        lines += [f"files: {', '.join(self.files)}"] if self.files else []
        return [*lines, *(f"again: {each}" for each in self.commands)]

    def _picture(self) -> Figure | None:
        from hardmax.hunting.telling import picture

        return None if self.candidate is None else picture(self.candidate)

    def save(self, folder: str | os.PathLike[str]) -> Hunted:
        """Write the data, a picture if it lies in the plane, and LaTeX; the answer, which names the files."""
        from dataclasses import replace

        from hardmax.hunting.telling import write

        if self.candidate is None:
            return self
        files = write(self.candidate, Path(folder), self.claim, self.verdict, self.proof)
        return replace(self, files=tuple(map(str, files)))


@dataclass(frozen=True, eq=False, repr=False)
class Catalogued(Answer):
    """Every printed statement that is known to be false, and what a hunt of so many seconds made of it.

    >>> from hardmax.answers import Catalogued
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
