"""`reproduce --ledger`: everything that the papers print, our verdict on it, and what differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax.papers.ledger import VERDICTS, Row, rows

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {"not reproduced": "red", "stand-in only": "yellow", "not run": "dim"}


@dataclass(frozen=True, eq=False, repr=False)
class LedgerResult(Result):
    """One row for each figure, numbered statement and quoted number of the papers, with its verdict.

    >>> import hardmax as hm
    >>> row = next(row for row in hm.ledger().rows if (row.paper, row.item) == ("B", "Theorem 7"))
    >>> row.verdict, row.command
    ('reproduced', 'hardmax verify B-THM-4')
    """

    schema: ClassVar[str] = "hardmax.ledger/1"

    rows: tuple[Row, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each verdict, in the order of the verdicts."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def headline(self) -> str:
        """The number of rows, and how many have each verdict."""
        counts = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        return f"{len(self.rows)} rows: {counts}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per printed item."""
        return [row.fields() for row in self.rows]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"counts": self.counts, "rows": self.records()}

    def table(self) -> RenderableType:
        """What `hardmax reproduce --ledger` prints."""
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("paper", "item", "verdict", "result"):
            table.add_column(name, overflow="fold", no_wrap=name == "paper")
        for row in self.rows:
            result = "no stored result" if row.result is None else row.result.text
            cells = (row.paper, row.item, row.verdict, result)
            table.add_row(*map(escape, cells), style=STYLES.get(row.verdict, ""))
        return Group(table, self.headline)


@check_arguments
def ledger(*, paper: Literal["A", "B", "C"] | None = None) -> LedgerResult:
    """List everything that the papers print, with our verdict and stored result.

    Args:
        paper: Only the rows of this paper.

    >>> import hardmax as hm
    >>> sorted(hm.ledger().counts)[:2]
    ['not reproduced', 'not run']
    """
    return LedgerResult(tuple(row for row in rows() if paper in (None, row.paper)))
