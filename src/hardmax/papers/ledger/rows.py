"""A row of the ledger: what a paper prints, what we have, and the verdict that follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from hardmax.papers.figures.claims import read_rows
from hardmax.papers.ledger.evidence import CheckEvidence, Evidence, Found, Stored

Verdict = Literal[
    "reproduced", "reproduced with a stated change", "not reproduced", "stand-in only", "not run"
]
VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "reproduced with a stated change",
    "not reproduced",
    "stand-in only",
    "not run",
)
CONSTRUCTED = "constructed instances, on which the statement must hold or must not"


@dataclass(frozen=True)
class LedgerItem:
    """The hand-written part of a row: the printed setting, ours, the data, differences, and the evidence.

    ``differs`` is what we changed; what the errata of a statement say is added to it.
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
    stand_in: tuple[str, str] | None = None  # ours and data where nothing but a stand-in is stored

    def row(self, stored: Stored) -> Row:
        """The row, with the verdict that the stored results give."""
        pieces = [each.found(stored) for each in self.evidence]
        found = [each for each in pieces if each is not None]
        told = [self.differs, *(each.differs for each in found), self.comments]
        result = None
        if found:
            made = max((each.made for each in found), key=lambda made: made[1])
            missing = len(pieces) - len(found)
            words = [each.text for each in found] + ([f"{missing} more not run"] if missing else [])
            result = StoredResult("; ".join(words), *made)
        command = "; ".join(dict.fromkeys(each.command for each in self.evidence))
        differs = " ".join(dict.fromkeys(each for each in told if each))
        verdict, ours, data = _verdict(found, bool(self.differs)), self.ours, self.data
        if verdict == "stand-in only" and self.stand_in is not None:
            ours, data = self.stand_in
        return Row(
            self.paper, self.item, self.printed, ours, data, differs, verdict, command, result, self.aliases
        )


def statement_items(paper: str, table: str) -> tuple[LedgerItem, ...]:
    """Return the items about statements that are checked, from rows ``item | what is printed | ids``.

    ``item = number`` adds the number in an older version of the paper. A row can continue with ``| differs:
    ...`` and ``| comments: ...``, which are fields of the item, and ``| corrected``, as in `CheckEvidence`.
    """
    items = []
    for name, printed, ids, *more in read_rows(table):
        item, *aliases = name.split(" = ")
        marks = dict(each.partition(": ")[::2] for each in more)
        evidence = tuple(CheckEvidence(id, "corrected" in marks) for id in ids.split(", "))
        differs, comments = (marks.get(field, "") for field in ("differs", "comments"))
        ours = f"checked as {ids}"
        items.append(
            LedgerItem(paper, item, printed, ours, CONSTRUCTED, evidence, differs, tuple(aliases), comments)
        )
    return tuple(items)


def _verdict(found: list[Found], changed: bool) -> Verdict:
    statuses = {each.status for each in found}
    if not found:
        return "not run"
    if "fails" in statuses:
        return "not reproduced"
    if statuses == {"stand-in"}:
        return "stand-in only"
    return "reproduced with a stated change" if changed or "changed" in statuses else "reproduced"


@dataclass(frozen=True)
class StoredResult:
    """The stored result behind a verdict: what was found, by which version, on which day."""

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
        """An element of `rows` in the JSON."""
        return asdict(self)
