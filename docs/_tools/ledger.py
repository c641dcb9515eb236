"""Write the rows of the replication ledger into docs/ledger.md, below its marker.

python docs/_tools/ledger.py
"""

from pathlib import Path

import hardmax as hm
from hardmax.app.results.ledger import LedgerResult as Ledger
from hardmax.papers.ledger import Row
from hardmax.papers.registry import PAPERS

PAGE = Path(__file__).parents[1] / "ledger.md"
MARKER = "<!-- Below here python docs/_tools/ledger.py writes. -->"
HEAD = ("item", "printed", "ours", "data", "what differs", "verdict", "stored result", "command")


def written(ledger: Ledger) -> str:
    """The counts, and a table for each paper."""
    papers = list(dict.fromkeys(row.paper for row in ledger.rows))
    parts = ["## Counts\n\n" + "\n".join(_counts(ledger, papers))]
    for paper in papers:
        rows = [row for row in ledger.rows if row.paper == paper]
        lines = [_line(HEAD), "|---" * len(HEAD) + "|", *(_line(_cells(row)) for row in rows)]
        parts.append(f"## Paper {paper}, {PAPERS[paper].about}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _counts(ledger: Ledger, papers: list[str]) -> list[str]:
    head = ("verdict", *(f"paper {paper}" for paper in papers), "all")
    lines = [_line(head), "|---" * len(head) + "|"]
    for verdict, total in ledger.counts.items():
        found = [row.paper for row in ledger.rows if row.verdict == verdict]
        lines.append(_line((verdict, *(str(found.count(paper)) for paper in papers), str(total))))
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    older = f" ({', '.join(row.aliases)})" if row.aliases else ""
    made = row.result
    result = "" if made is None else f"{made.text} (version {made.version}, {made.date})"
    commands = "; ".join(f"`{command}`" for command in row.command.split("; "))
    return (
        row.item + older,
        row.printed,
        row.ours,
        row.data,
        row.differs,
        f"**{row.verdict}**",
        result,
        commands,
    )


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(text: str, ledger: Ledger) -> str:
    """The page with its rows as they are now."""
    return f"{text.partition(MARKER)[0]}{MARKER}\n\n{written(ledger)}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), hm.ledger()), encoding="utf-8")
