"""`reproduce --ledger`: everything that the papers print, our verdict on it, and the differences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, grid
from hardmax.papers.ledger import VERDICTS, Row, rows

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
    row_field: ClassVar[str] = "rows"

    rows: tuple[Row, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows with each verdict, in the order of the verdicts."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def headline(self) -> str:
        """The number of rows, in total and with each verdict."""
        counts = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        return f"{len(self.rows)} rows: {counts}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"counts": self.counts, "rows": [row.fields() for row in self.rows]}

    def table(self) -> Page:
        """Return what `hardmax reproduce --ledger` prints."""
        names = ("paper", "item", "verdict", "result")
        none = "no stored result"
        rows = [
            (row.paper, row.item, row.verdict, row.result.text if row.result else none) for row in self.rows
        ]
        styles = [STYLES.get(row.verdict, "") for row in self.rows]
        return [grid(names, rows, styles, wrapped=names[1:]), self.headline]


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
