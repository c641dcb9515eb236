"""Write the rows of the replication ledger into docs/research/ledger.md, below its marker.

python docs/_tools/ledger.py
"""

import re
from pathlib import Path

import hardmax as hm
from hardmax.app.results.ledger import LedgerResult as Ledger
from hardmax.papers.ledger import CONSTRUCTED, PROTOCOL, Row
from hardmax.papers.registry import PAPERS

PAGE = Path(__file__).parents[1] / "research" / "ledger.md"
MARKER = "<!-- Below here python docs/_tools/ledger.py writes. -->"
HEAD = ("item", "printed", "verdict", "stored result", "command", "note")
LONG = 64  # characters of a cell; longer texts are in a note
# Texts of rows that a page can show better: a path as a link, an internal id as words.
SHOWN = {
    "docs/research/reviews.md": "[the report on reviews](reviews.md)",
    "stand-in data (A-DATA-7): no review among them": "synthetic stand-in data, without reviews",
}


def written(ledger: Ledger) -> str:
    """Return the counts, and for each paper a table and its notes."""
    papers = list(dict.fromkeys(row.paper for row in ledger.rows))
    parts = ["## Counts\n\n" + "\n".join(_counts(ledger, papers))]
    for paper in papers:
        notes: list[str] = []
        rows = [_line(_cells(row, notes)) for row in ledger.rows if row.paper == paper]
        lines = [_line(HEAD), "|---" * len(HEAD) + "|", *rows]
        parts.append(f"## Paper {paper}, {PAPERS[paper].about}\n\n" + "\n".join(lines))
        numbered = "\n".join(f"{k}. {note}" for k, note in enumerate(notes, 1))
        parts.append(f"### Notes on paper {paper}\n\n{numbered}")
    return "\n\n".join(parts) + "\n"


def _counts(ledger: Ledger, papers: list[str]) -> list[str]:
    head = ("verdict", *(f"paper {paper}" for paper in papers), "all")
    lines = [_line(head), "|---" * len(head) + "|"]
    for verdict, total in ledger.counts.items():
        found = [row.paper for row in ledger.rows if row.verdict == verdict]
        lines.append(_line((verdict, *(str(found.count(paper)) for paper in papers), str(total))))
    return lines


def _cells(row: Row, notes: list[str]) -> tuple[str, ...]:
    """Return the short cells of a row; longer texts are added to the notes, each once."""
    older = f" ({', '.join(row.aliases)})" if row.aliases else ""
    result = "" if row.result is None else row.result.text
    commands = ", ".join(f"`{command}`" for command in row.command.split("; "))
    details = []
    if row.data != CONSTRUCTED:
        details.append(f"Our setting: {_short(row.ours)}. Data: {row.data}.")
    details.append(row.differs)
    if len(result) > LONG:
        details.append(f"Result: {result}.")
        result = _beginning(result)
    if len(commands) > LONG:
        details.append(f"Command: {commands}.")
        commands = "in the note"
    note = " ".join(detail for detail in details if detail)
    for text, shown in SHOWN.items():
        note = note.replace(text, shown)
    if note and note not in notes:
        notes.append(note)
    number = str(notes.index(note) + 1) if note else ""
    return (row.item + older, _short(row.printed), f"**{row.verdict}**", result, commands, number)


def _beginning(text: str) -> str:
    """Return as many parts of a text as fit in a cell, at least one."""
    first, *others = re.split(r"(?<=[,;]) ", text)
    for part in others:
        if len(first) + len(part) > LONG:
            break
        first = f"{first} {part}"
    return f"{first} ..."


def _short(text: str) -> str:
    return text.replace(f", {PROTOCOL}", "")


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(text: str, ledger: Ledger) -> str:
    """Return the page with the current rows."""
    return f"{text.partition(MARKER)[0]}{MARKER}\n\n{written(ledger)}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), hm.ledger()), encoding="utf-8")
