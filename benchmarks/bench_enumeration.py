"""Enumeration of feasible selections against brute force with one QP (cvxopt) per combination, in one run.

    python benchmarks/bench_enumeration.py            # a table
    python benchmarks/bench_enumeration.py --json F   # the numbers as JSON in F ("-" for standard output)
    python benchmarks/bench_enumeration.py --quick    # fewer foreign QPs

Both see the same keys and, run alternately, the same machine. Brute force is timed on a random part of the
T^n combinations and scaled up; `disagree` counts verdicts of cvxopt ("optimal" or not) that differ from those
of the enumeration, which are proved.
"""

from __future__ import annotations

import time
from typing import Any

import cvxopt
import numpy as np
import report
from rich.console import Console
from rich.table import Table

from hardmax.data import sphere
from hardmax.directions.enumerate import attractors, selections
from hardmax.problem import Problem

SIZES = [(4, 6, 2), (4, 6, 3), (4, 6, 5), (4, 6, 10), (4, 6, 24), (8, 6, 3)]
GOALS = {(4, 6, 10): 0.2, (8, 6, 3): 1.0}  # seconds


def by_cvxopt(keys: np.ndarray, selection: np.ndarray) -> bool:
    """Whether cvxopt calls a selection feasible."""
    n, T, d = keys.shape
    others = np.arange(T) != selection[:, None]
    rows = (keys[np.arange(n), selection][:, None, :] - keys)[others]
    P, q = cvxopt.matrix(np.eye(d)), cvxopt.matrix(np.zeros(d))
    G, h = cvxopt.matrix(-rows), cvxopt.matrix(-np.ones(len(rows)))
    try:
        found = cvxopt.solvers.qp(P, q, G, h, options={"show_progress": False})
    except (ValueError, ArithmeticError):  # its iterates may leave the domain of a root when there is no p
        return False
    return found["status"] == "optimal"


def enumerate_once(problem: Problem) -> dict[str, Any]:
    start = time.perf_counter()
    search = attractors(problem)
    attract = len(list(search))
    seconds = time.perf_counter() - start
    assert search.status == "complete"
    return {
        "seconds": seconds,
        "feasible": search.feasible,
        "locally_optimal": attract,
        "qps": search.problems_solved,
    }


def compare(n: int, T: int, d: int, foreign: int, repeats: int, rng: np.random.Generator) -> dict[str, Any]:
    problem = sphere(n=n, T=T, d=d, rng=int(rng.integers(2**31)))
    keys = problem.keys.reshape(n, T, d)
    feasible = {found.selection for found in selections(problem)}  # warms up, too
    total = T**n
    runs, brute, wrong = [], 0.0, 0
    drawn = rng.integers(T, size=(foreign, n))
    for part in np.array_split(drawn, repeats):
        runs.append(enumerate_once(problem))
        start = time.perf_counter()
        verdicts = [by_cvxopt(keys, selection) for selection in part]
        brute += time.perf_counter() - start
        wrong += sum(v != (tuple(s.tolist()) in feasible) for v, s in zip(verdicts, part, strict=True))
    best = min(runs, key=lambda run: run["seconds"])
    scaled = brute / foreign * total
    return {
        "n": n,
        "T": T,
        "d": d,
        "combinations": total,
        **best,
        "goal": GOALS.get((n, T, d)),
        "cvxopt": {"seconds": scaled, "timed": foreign, "disagreements": wrong},
        "ratio": scaled / best["seconds"],
    }


def show(lines: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="all feasible selections, certified, against one cvxopt QP per combination")
    names = ("n", "T", "d", "combinations", "feasible", "attract", "QPs", "hardmax", "goal", "cvxopt")
    for name in (*names, "ratio", "disagree"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(
            str(line["n"]),
            str(line["T"]),
            str(line["d"]),
            f"{line['combinations']:,}",
            f"{line['feasible']:,}",
            str(line["locally_optimal"]),
            f"{line['qps']:,}",
            f"{line['seconds']:.3f} s",
            f"{line['goal']} s" if line["goal"] else "",
            f"{line['cvxopt']['seconds']:,.1f} s",
            f"{line['ratio']:,.0f}",
            f"{line['cvxopt']['disagreements']}/{line['cvxopt']['timed']}",
        )
    console.print(table)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer foreign QPs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    foreign, repeats = (60, 3) if options.quick else (600, 5)
    lines = [compare(n, T, d, foreign, repeats, rng) for n, T, d in SIZES]
    show(lines, report.console(options.json))
    numbers = {"schema": "hardmax.benchmark.enumeration/1", "seed": options.seed, "lines": lines}
    report.write(numbers, options.json)


if __name__ == "__main__":
    main()
