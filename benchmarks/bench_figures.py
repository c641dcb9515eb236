"""Figures: B-FIG-9 at the paper's scale, 6,000 trials with certified directions and verdicts.

    python benchmarks/bench_figures.py            # a table
    python benchmarks/bench_figures.py --all      # with the comparisons that go beyond the figure, minutes
    python benchmarks/bench_figures.py --json F   # the same numbers as JSON in F ("-" for standard output)

CPU seconds are those of this process and of its workers; wall seconds mean something on a quiet machine only.
The sweep's time has the start of its worker processes in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import report
from rich.table import Table

from hardmax.papers.max_margin import random_data


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work returns, and its seconds: wall, and CPU with that of finished child processes."""
    before, wall = os.times(), time.perf_counter()
    made = work()
    after = os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    return made, {"wall_s": time.perf_counter() - wall, "cpu_s": cpu}


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--all", action="store_true", help="also time the control stream and its comparisons")
    arguments = parser.parse_args()
    console = report.console(arguments.json)
    rows: list[dict[str, Any]] = []

    def run(what: str, work: Callable[[], Any]) -> Any:
        made, seconds = timed(work)
        rows.append({"what": what, **seconds})
        return made

    trials = run(
        "sweep: descent, certified p_mm, verdicts", lambda: random_data.sweep_table("paper", _quietly)
    )
    arithmetic = run("official arithmetic beside it", lambda: random_data.arithmetic_table(trials))
    claims = random_data.rates_claims({"trials": trials, "arithmetic": arithmetic})
    if arguments.all:
        control = run("control stream", lambda: random_data.control_table(1000))
        run("official arithmetic on the control", lambda: random_data.control_arithmetic_table(control))
        run("trials with a negative gap, 100,000 steps", lambda: random_data.negative_table(control))
        run("other losses, starts and steps", random_data.sensitivity_table)

    table = Table(title="B-FIG-9 at the paper's scale")
    for name in ("what", "wall s", "CPU s"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for row in rows:
        table.add_row(row["what"], f"{row['wall_s']:.1f}", f"{row['cpu_s']:.1f}")
    console.print(table)
    certified = int(trials["certified"].sum())
    per_d = {int(d): random_data.TrialTally.of(trials, d=d).correlation for d in random_data.DIMENSIONS}
    console.print(f"{certified:,} of {len(trials['d']):,} directions certified, {os.cpu_count()} cores")
    console.print("mean correlation by d: " + ", ".join(f"{d}: {each:.5f}" for d, each in per_d.items()))
    failed = [claim.id for claim in claims if not claim.holds]
    console.print(f"claims of B-FIG-9a that fail: {', '.join(failed) or 'none'}")
    result = {"rows": rows, "certified": certified, "trials": len(trials["d"]), "failed": failed}
    report.write(
        result | {"correlation": {str(d): float(np.round(x, 8)) for d, x in per_d.items()}}, arguments.json
    )


def _quietly(done: float) -> None:
    """Nobody watches."""


if __name__ == "__main__":
    main()
