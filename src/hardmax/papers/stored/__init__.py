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
    """Read the results of `hardmax verify` and `hardmax reproduce`, in short, with version and day.

    >>> from hardmax.papers.stored import read_results
    >>> sorted(read_results())
    ['checks', 'commands', 'date', 'facts', 'figures', 'version']
    """
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def read_runs(path: Path = RUNS) -> dict[str, dict[str, Any]]:
    """Read finished trainings of paper A by their names, without a last line that was cut short.

    >>> from pathlib import Path
    >>> from hardmax.papers.stored import read_runs
    >>> read_runs(Path("no such file"))
    {}
    """
    runs: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        runs[run["name"]] = run
    return runs


def epochs_of(run: Mapping[str, Any]) -> str:
    """Return the length of a stored training: "500 epochs", or "37 of 50 epochs" if it was stopped."""
    done, planned = run["epochs_done"], run["epochs"]
    return f"{done} epochs" if done == planned else f"{done} of {planned} epochs"
