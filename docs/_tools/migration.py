"""Write docs/project/migration.md, the table of names of 0.2 and 0.3, from the tables of the packages."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEAD = """# Migration from 0.2

Version 0.3 renames the Python surface once, without aliases. Commands, JSON fields, schemas and files keep
their names: what 0.2 wrote, 0.3 reads.

| 0.2 | 0.3 | why |
|---|---|---|
"""


def page() -> str:
    """Return the page: one row for each name, in the order of the tables.

    >>> page().splitlines()[7]
    '| `hm.Problem.from_scores(keys, scores)` | `hm.Problem(keys, scores)` | the first line everybody types |'
    """
    tables = [importlib.import_module(path.stem) for path in sorted(HERE.glob("names_*.py"))]
    rows = [row for table in tables for row in table.ROWS]
    return HEAD + "".join(f"| `{old}` | `{new}` | {why} |\n" for old, new, why in rows)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    (HERE.parent / "project" / "migration.md").write_text(page(), encoding="utf-8")
