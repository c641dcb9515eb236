"""A row of the ledger: what a paper prints, what we have, and the verdict that follows."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from hardmax.papers.figures.claims import read_rows
from hardmax.papers.ledger.evidence import (
    CheckEvidence,
    ClaimEvidence,
    Evidence,
    EvidenceResult,
    Fact,
    FigureEvidence,
    Stored,
)

Verdict = Literal[
    "reproduced", "reproduced with a stated change", "not reproduced", "stand-in only", "not run"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
CONSTRUCTED = "constructed instances, on which the statement must hold or must not"


@dataclass(frozen=True)
class LedgerItem:
    """The hand-written part of a row: the printed setting, ours, the data, differences, and the evidence.

    ``differs`` lists our changes; the errata of a statement are added to it.
    """

    paper: str
    item: str
    printed: str
    ours: str
    data: str
    evidence: tuple[Evidence, ...]
    differs: str = ""
    aliases: tuple[str, ...] = ()
    comments: str = ""  # what a reader must know that is not a change
    stand_in: tuple[str, ...] = ()  # ours and data where nothing but a stand-in is stored

    def row(self, stored: Stored) -> Row:
        """Return the row, with the verdict that the stored results give."""
        pieces = [piece.finding(stored) for piece in self.evidence]
        findings = [piece for piece in pieces if piece is not None]
        changes = [self.differs, *(finding.differs for finding in findings), self.comments]
        result = None
        if findings:
            version, date = max((finding.origin for finding in findings), key=lambda origin: origin[1])
            missing = len(pieces) - len(findings)
            words = [finding.text for finding in findings] + ([f"{missing} more not run"] if missing else [])
            result = StoredResult("; ".join(words), version, date)
        command = "; ".join(dict.fromkeys(piece.command for piece in self.evidence))
        differs = " ".join(dict.fromkeys(change for change in changes if change))
        verdict, ours, data = _verdict(findings, bool(self.differs)), self.ours, self.data
        if verdict == "stand-in only" and self.stand_in:
            ours, data = self.stand_in
        return Row(
            self.paper, self.item, self.printed, ours, data, differs, verdict, command, result, self.aliases
        )


def read_items(paper: str, table: str) -> tuple[LedgerItem, ...]:
    """Return the items of a table, whose rows are ``item | what is printed | evidence``.

    ``item = number`` adds the number in an older version of the paper. The evidence is one or more ids of
    statements, of figures (B-FIG-4) or of claims about them (B-FIG-9a.damped), or ``fact`` and a name. A row
    can continue with ``| field: text`` for the fields of an item (statements need neither ``ours`` nor
    ``data``) and of its evidence, and with ``| corrected`` or ``| contradicts``, as in `CheckEvidence` and
    `ClaimEvidence`.
    """
    items = []
    for name, printed, ids, *more in read_rows(table):
        item, *aliases = name.split(" = ")
        marks = dict(mark.partition(": ")[::2] for mark in more)
        items.append(
            LedgerItem(
                paper,
                item,
                printed,
                marks.get("ours", f"checked as {ids}"),
                marks.get("data", CONSTRUCTED),
                tuple(_evidence(id, marks) for id in ids.split(", ")),
                marks.get("differs", ""),
                tuple(aliases),
                marks.get("comments", ""),
                tuple(marks["stand-in"].split("; ")) if "stand-in" in marks else (),
            )
        )
    return tuple(items)


def _evidence(id: str, marks: dict[str, str]) -> Evidence:
    if id.startswith("fact "):
        return Fact(id.removeprefix("fact "))
    if not re.match("[A-Z]-FIG-", id):
        return CheckEvidence(id, "corrected" in marks)
    quick = marks.get("quick", "")
    if "." in id:
        return ClaimEvidence(id, quick, "contradicts" in marks)
    return FigureEvidence(id, quick, options=marks.get("options", ""))


def _verdict(findings: list[EvidenceResult], changed: bool) -> Verdict:
    statuses = {finding.status for finding in findings}
    if not findings:
        return "not run"
    if "fails" in statuses:
        return "not reproduced"
    if statuses == {"stand-in"}:
        return "stand-in only"
    return "reproduced with a stated change" if changed or "changed" in statuses else "reproduced"


@dataclass(frozen=True)
class StoredResult:
    """The stored result behind a verdict: its summary, version and day."""

    text: str
    version: str
    date: str


@dataclass(frozen=True)
class Row:
    """A line of the ledger."""

    paper: str
    item: str
    printed: str
    ours: str
    data: str
    differs: str
    verdict: Verdict
    command: str
    result: StoredResult | None
    aliases: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return an element of `rows` in the JSON."""
        return asdict(self)
