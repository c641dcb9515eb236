"""Sweeps: what a trial costs beside its own work, two workers against one, a million trials in little memory.

    python benchmarks/bench_sweeps.py            # tables
    python benchmarks/bench_sweeps.py --json F   # the same numbers as JSON in F ("-" for standard output)

Costs per trial are slopes, (time of many trials - time of few) / (many - few), so that the start of workers
is not in them; it is given apart. All sweeps write to a store on the disk.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report
from rich.console import Console
from rich.table import Table

import hardmax as hm
from hardmax.trials.grid import cell_key, seeds

BACKENDS = ("this process", "local", "dask", "ray")
STEPS = 1000


def tiny(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """A trial that does next to nothing."""
    return {"x": (seed >> 10) / 2**53, "even": seed % 2 == 0}


def descents(parameters: dict[str, Any], seeds: list[int]) -> list[dict[str, Any]]:
    """Compiled work: gradient descent on one random problem for each seed."""
    problems = [hm.data.sphere(4, 6, parameters["d"], rng=seed) for seed in seeds]
    return [
        {"norm": path.p_norm} for path in hm.train(problems, hm.optim.Normalized(1.0), steps=STEPS, workers=1)
    ]


def seconds_of(function: Any, trials: int, backend: str, workers: int, **options: Any) -> float:
    """Wall time of a sweep into a fresh store."""
    if backend == "this process":
        backend, workers = "local", 0
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = Path(folder) / "sweep.db"
        result = hm.sweep(
            function, {"d": [10]}, trials, store=store, backend=backend, workers=workers, **options
        )
        elapsed = time.perf_counter() - start
        assert (result.done, result.remaining) == (trials, 0)
        result.store.close()
    return elapsed


def overhead(few: int, many: int) -> dict[str, Any]:
    """Microseconds per trial of a plain loop, seeds included, and of each backend with one worker."""
    parameters = {"d": 10}
    start = time.perf_counter()
    rows = [tiny(parameters, seed) for seed in seeds(0, cell_key(parameters), 0, many)]
    plain = 1e6 * (time.perf_counter() - start) / len(rows)
    found = {"plain loop": {"us_per_trial": plain, "start_s": 0.0}}
    for backend in BACKENDS:
        short, long = (seconds_of(tiny, trials, backend, 1) for trials in (few, many))
        slope = (long - short) / (many - few)
        found[backend] = {"us_per_trial": 1e6 * slope, "start_s": short - slope * few}
    return found


def scaling(few: int, many: int, repeats: int = 3) -> dict[str, Any]:
    """Trials per second of compiled work with one worker and with two, the best of some runs in turn.

    The CPU time per trial, of all processes, says whether two workers stand in each other's way even where
    other programs use the machine.
    """
    walls: dict[tuple[int, int], list[float]] = {}
    costs: dict[tuple[int, int], list[float]] = {}
    for _ in range(repeats):
        for case in ((1, few), (1, many), (2, few), (2, many)):
            before = cpu_seconds()
            wall = seconds_of(descents, case[1], "local", case[0], batched=True)
            walls.setdefault(case, []).append(wall)
            costs.setdefault(case, []).append(cpu_seconds() - before)
    rates, cpu = {}, {}
    for workers in (1, 2):
        short, long = (workers, few), (workers, many)
        rates[str(workers)] = (many - few) / (min(walls[long]) - min(walls[short]))
        cpu[str(workers)] = 1e3 * (min(costs[long]) - min(costs[short])) / (many - few)
    return {"trials_per_s": rates, "cpu_ms_per_trial": cpu, "speedup": rates["2"] / rates["1"]}


def cpu_seconds() -> float:
    """CPU time of this process and of all its workers that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def memory(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Peak memory of the driver, in a process of its own for each size."""
    found = []
    for trials in sizes:
        command = [sys.executable, __file__, "--driver", str(trials)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(run.stdout))
    return found


def drive(trials: int) -> dict[str, Any]:
    """One sweep of tiny trials, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sweep.db"
        start = time.perf_counter()
        result = hm.sweep(tiny, {"d": [10]}, trials, store=store, workers=2)
        elapsed = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = result.done
        start = time.perf_counter()
        from hardmax.app.results.sweep import SweepResult

        SweepResult.of_sweep(result)
        summary = time.perf_counter() - start
        result.store.close()
        return {
            "trials": trials,
            "done": done,
            "seconds": elapsed,
            "summary_s": summary,
            "driver_peak_mb": peak / (2**20 if sys.platform == "darwin" else 2**10),
            "store_mb": store.stat().st_size / 1e6,
        }


def show(console: Console, result: dict[str, Any]) -> None:
    """Tables of all numbers."""
    table = Table(title="what a trial costs, one worker")
    for name in ("where", "microseconds per trial", "start and end, s"):
        table.add_column(name, justify="right")
    for name, row in result["overhead"].items():
        table.add_row(name, f"{row['us_per_trial']:.1f}", f"{row['start_s']:.1f}")
    console.print(table)
    rates = result["scaling"]["trials_per_s"]
    cpu = result["scaling"]["cpu_ms_per_trial"]
    console.print(
        f"{STEPS} steps of descent a trial: {rates['1']:.0f} trials/s with one worker, "
        f"{rates['2']:.0f} with two ({result['scaling']['speedup']:.2f} times); "
        f"CPU time of a trial {cpu['1']:.2f} ms and {cpu['2']:.2f} ms"
    )
    table = Table(title="many tiny trials, two local workers")
    for name in ("trials", "seconds", "its summary, s", "peak memory of the driver, MB", "store, MB"):
        table.add_column(name, justify="right")
    for row in result["memory"]:
        cells = (f"{row[name]:.1f}" for name in ("seconds", "summary_s", "driver_peak_mb", "store_mb"))
        table.add_row(f"{row['trials']:,}", *cells)
    console.print(table)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--driver", type=int, metavar="N", help="only a sweep of N tiny trials, as JSON")
    arguments = parser.parse_args()
    if arguments.driver:
        print(json.dumps(drive(arguments.driver)))
        return
    console = report.console(arguments.json)
    result = {
        "overhead": overhead(20_000, 200_000),
        "scaling": scaling(2_000, 20_000),
        "memory": memory((100_000, 1_000_000)),
    }
    show(console, result)
    report.write(result, arguments.json)


if __name__ == "__main__":
    main()
