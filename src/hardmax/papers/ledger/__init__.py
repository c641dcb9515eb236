"""The replication ledger: one row for everything that the three papers print and number."""

from __future__ import annotations

from hardmax.papers.ledger import paper_a, paper_b, paper_c
from hardmax.papers.ledger.evidence import Stored
from hardmax.papers.ledger.rows import VERDICTS, LedgerItem, Row, StoredResult, Verdict
from hardmax.papers.stored import read_results, read_runs

__all__ = ["ITEMS", "VERDICTS", "LedgerItem", "Row", "Stored", "StoredResult", "Verdict", "rows"]

ITEMS: tuple[LedgerItem, ...] = (*paper_a.ITEMS, *paper_b.ITEMS, *paper_c.ITEMS)


def rows(stored: Stored | None = None) -> tuple[Row, ...]:
    """Return all rows, from the stored results that the package carries or from others.

    >>> from hardmax.papers.ledger import rows
    >>> {row.paper for row in rows()} == {"A", "B", "C"}
    True
    """
    results = Stored(read_results(), read_runs()) if stored is None else stored
    return tuple(item.row(results) for item in ITEMS)
