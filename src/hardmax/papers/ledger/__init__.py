"""The replication ledger: one row for everything that the three papers print and number."""

from __future__ import annotations

from hardmax.papers.ledger.evidence import Stored
from hardmax.papers.ledger.paper_a import ITEMS as PAPER_A
from hardmax.papers.ledger.paper_b import ITEMS as PAPER_B
from hardmax.papers.ledger.paper_c import ITEMS as PAPER_C
from hardmax.papers.ledger.rows import VERDICTS, LedgerItem, Row, StoredResult, Verdict
from hardmax.papers.stored import read_results, read_runs

__all__ = ["ITEMS", "VERDICTS", "LedgerItem", "Row", "Stored", "StoredResult", "Verdict", "rows"]

ITEMS: tuple[LedgerItem, ...] = (*PAPER_A, *PAPER_B, *PAPER_C)


def rows(stored: Stored | None = None) -> tuple[Row, ...]:
    """All rows, from the stored results that the package carries or from others.

    >>> from hardmax.papers.ledger import rows
    >>> {row.paper for row in rows()} == {"A", "B", "C"}
    True
    """
    held = Stored(read_results(), read_runs()) if stored is None else stored
    return tuple(item.row(held) for item in ITEMS)
