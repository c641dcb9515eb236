"""Run every benchmark and print one table: the measured quantity, its peer, their ratio and the limit.

    python benchmarks/all.py                  # all, as make bench does; the table also as build/bench.json
    python benchmarks/all.py margin trainer   # those of bench_margin.py and bench_trainer.py
    python benchmarks/all.py --store          # write measured.json and docs/research/benchmarks.md

Each benchmark runs in a separate process and prints its own tables; its numbers are stored in build/bench.
Both sides of a ratio come from one process, or from processes that take turns. A benchmark that cannot run
here (no browser, no data) is listed as missing; the exit code is then 3, and 1 if a limit is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import report
from lines import LINES, amount, sentence, times
from rich.table import Table

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
FILE = BUILD / "bench.json"
MEASURED = HERE / "measured.json"
PAGE = Path(__file__).parents[1] / "docs" / "research" / "benchmarks.md"
# What would take half an hour, and is not for one line.
SHORTER = {"bench_classifier.py": ["--set", "IMDB", "--only", "hardmax (1,2)"]}
HEAD = "| benchmark | measured | compared with | date | command |\n|---|---|---|---|---|\n"


def run(script: str) -> dict[str, Any] | str:
    """Run a benchmark; return its numbers, or the reason why there are none."""
    target = BUILD / "bench" / f"{Path(script).stem}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    command = [sys.executable, HERE / script, "--json", target, *SHORTER.get(script, ())]
    done = subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False)
    if done.returncode == 0 and target.exists():
        return json.loads(target.read_text())
    return (done.stderr.strip().splitlines() or ["it wrote no numbers"])[-1]


def measure(scripts: list[str]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for script in scripts:
        begun = time.perf_counter()
        numbers = run(script)
        seconds[script] = round(time.perf_counter() - begun, 1)
        lines = [line for line in LINES if line.script == script]
        if isinstance(numbers, str):
            missing |= {line.title: f"{script}: {numbers}" for line in lines}
            continue
        for line in lines:
            try:
                rows.append(line.read(numbers) | {"date": date.today().isoformat()})
            except TypeError:  # a part that lacks its data is None
                missing[line.title] = f"{script}: its data is not here"
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "rows": rows,
        "missing": missing,
        "seconds": seconds,
    }


def table(result: dict[str, Any]) -> Table:
    shown = Table(title=f"{result['cores']} cores, load {result['load']:.1f} at the end", show_lines=True)
    shown.add_column("what", ratio=4)
    for name in ("hardmax", "peer", "ratio"):
        shown.add_column(name, justify="right", ratio=1)
    shown.add_column("which peer", ratio=2)
    shown.add_column("limit", ratio=2)
    for row in result["rows"]:
        peer = "" if row["theirs"] is None else amount(row["theirs"], row["unit"])
        ratio = "" if row["ratio"] is None else times(row["ratio"])
        limit = f"{row['limit']}: {'kept' if row['kept'] else 'MISSED'}"
        ours = amount(row["ours"], row["unit"])
        shown.add_row(row["title"], ours, peer, ratio, row["peer"] or "none", limit)
    return shown


def page_table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the benchmark page, in the order of the lines."""
    text = HEAD
    for row in rows:
        text += f"| {row['title']} | {sentence(row)} | {row['peer'] or 'none'} "
        text += f"| {row['date']} | `python benchmarks/{row['script']}` |\n"
    return text


def store(result: dict[str, Any]) -> None:
    """Replace lines that were measured now; the others stay."""
    old = json.loads(MEASURED.read_text())["rows"] if MEASURED.exists() else []
    known = {row["title"]: row for row in [*old, *result["rows"]]}
    rows = [known[line.title] for line in LINES if line.title in known]
    MEASURED.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    text = PAGE.read_text()
    begin = text.index(HEAD)
    end = text.index("\n\n", begin) + 1
    PAGE.write_text(text[:begin] + page_table(rows) + text[end:])


def main() -> int:
    options = report.parser(__doc__)
    options.add_argument("names", nargs="*", help="benchmarks by name; all if none is given")
    options.add_argument("--store", action="store_true", help="only store the last table")
    asked = options.parse_args()
    if asked.store:
        store(json.loads(FILE.read_text()))
        return 0
    every = list(dict.fromkeys(line.script for line in LINES))
    scripts = [f"bench_{name}.py" for name in asked.names] or every
    if unknown := set(scripts) - set(every):
        sys.exit(f"all.py: there is no {', '.join(sorted(unknown))}; take names of {', '.join(every)}")
    result = measure(scripts)
    out = report.console(asked.json)
    out.print(table(result))
    for title, why in result["missing"].items():
        out.print(f"missing: {title} ({why})")
    FILE.parent.mkdir(exist_ok=True)
    report.write(result, str(FILE))
    report.write(result, asked.json)
    if not all(row["kept"] for row in result["rows"]):
        return 1
    return 3 if result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
