"""Results of long runs that the package carries: small files, written by commands that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RUNS = FOLDER / "paper_a_runs.jsonl"  # by benchmarks/paper_a_runs.py
RESULTS = FOLDER / "results.json"  # by benchmarks/ledger_results.py


def read_results(path: Path = RESULTS) -> dict[str, Any]:
    """What `hardmax verify` and `hardmax reproduce` found, in short, with the version and the day.

    >>> from hardmax.papers.stored import read_results
    >>> sorted(read_results())
    ['checks', 'commands', 'date', 'facts', 'figures', 'version']
    """
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def read_runs(path: Path = RUNS) -> dict[str, dict[str, Any]]:
    """Lines of finished trainings of paper A by their names; a last line that was cut short is left out.

    >>> from pathlib import Path
    >>> from hardmax.papers.stored import read_runs
    >>> read_runs(Path("no such file"))
    {}
    """
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        found[run["name"]] = run
    return found


def epochs_of(run: Mapping[str, Any]) -> str:
    """How long a stored training was: "500 epochs", or "37 of 50 epochs" if it was stopped."""
    done, planned = run["epochs_done"], run["epochs"]
    return f"{done} epochs" if done == planned else f"{done} of {planned} epochs"
