"""Max margins in norms other than l2: hardmax against cvxpy with the solver it chooses by itself.

    python benchmarks/bench_norms.py            # tables
    python benchmarks/bench_norms.py --json F   # the same numbers as JSON in F ("-" for standard output)

l1 and linf: many problems of 4 inputs with 6 tokens in 10 dimensions, one batch against a loop, in which
cvxpy poses each problem as its user would (`posed`), or poses one and then changes its data (`changed`).
Nuclear and spectral: single problems with queries, W from 4 x 4 to 20 x 20; there cvxpy chooses SCS, which
stops at four digits, so it is asked once more with Clarabel, which has eight. CPU time counts, over all
threads; both sides solve the same problems in the same process, cvxpy a part of the batch that is scaled up.
`gap` is measured alike for both: the largest relative distance of norm(p)/min(Mp) to the certified least
norm. Only hardmax says more than a p: an interval that is proved, and in l1 and linf whether p is the only
one.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import report
from rich.console import Console
from rich.table import Table

import hardmax as hm
from hardmax._lib.extras import install

try:
    import cvxpy
except ImportError:  # which main tells, so that --help works without it
    cvxpy = None

Array = np.ndarray
N, T, D = 4, 6, 10
SIDES = (4, 8, 12, 16, 20)
ATOMS = {"l1": "norm1", "linf": "norm_inf", "nuclear": "normNuc", "spectral": "sigma_max"}


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least CPU seconds of all threads, and what came out."""
    seconds = []
    for _ in range(repeats):
        cpu = time.process_time()
        found = work()
        seconds.append(time.process_time() - cpu)
    return min(seconds), found


def gap(M: Array, p: Array | None, name: str, norm: float) -> float:
    reach = -1.0 if p is None else float((M @ p.ravel()).min())
    return float("inf") if reach <= 0 else hm.margin.norm(name).value(p) / reach / norm - 1


def selected(problem: hm.Problem, rng: np.random.Generator) -> tuple[int, ...]:
    """What a random direction selects, so that some p does."""
    return hm.selected_tokens(problem, rng.normal(size=problem.shape).ravel()).tokens


def least(name: str, p: Any, constraint: Any) -> Any:
    """The program that makes a norm least."""
    return cvxpy.Problem(cvxpy.Minimize(getattr(cvxpy, ATOMS[name])(p)), [constraint])


def posed(M: Array, name: str, used: Counter[str]) -> Array | None:
    p = cvxpy.Variable(M.shape[1])
    program = least(name, p, M @ p >= 1)
    program.solve()
    used[program.solver_stats.solver_name] += 1
    return p.value


def changed(many: Array, name: str) -> list[Array | None]:
    """One program whose rows are a parameter."""
    p, M = cvxpy.Variable(many.shape[2]), cvxpy.Parameter(many.shape[1:])
    program = least(name, p, M @ p >= 1)
    found = []
    for rows in many:
        M.value = rows
        program.solve()
        found.append(p.value)
    return found


def batches(count: int, part: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    problems = [hm.data.sphere(n=N, T=T, d=D, rng=seed) for seed in range(count)]
    chosen = [selected(problem, rng) for problem in problems]
    lines = []
    for name in ("l1", "linf"):
        hm.max_margin(problems, chosen, norm=name)
        seconds, solved = timed(lambda name=name: hm.max_margin(problems, chosen, norm=name), 3)  # type: ignore[misc]
        assert all(best.is_certified for best in solved)
        many = np.stack([best.constraints.rows() for best in solved])
        single, _ = timed(
            lambda name=name: [
                hm.max_margin(*each, norm=name)
                for each in zip(problems[:part], chosen[:part], strict=True)  # type: ignore[misc]
            ],
            1,
        )
        used: Counter[str] = Counter()
        posed(many[0], name, used)
        ways = {
            "posed": lambda many=many, name=name, used=used: [posed(M, name, used) for M in many[:part]],  # type: ignore[misc]
            "changed": lambda many=many, name=name: changed(many[:part], name),  # type: ignore[misc]
        }
        line: dict[str, Any] = {
            "norm": name,
            "problems": count,
            "hardmax": {
                "cpu_s": seconds,
                "gap": max(gap(M, best.p, name, best.p_norm) for M, best in zip(many, solved, strict=True)),
                "exact": sum(best.arithmetic == "exact" for best in solved),
                "one_by_one_cpu_s": single * count / part,
            },
        }
        for way, run in ways.items():
            spent, found = timed(run, 1)
            spent *= count / part
            worst = max(gap(M, p, name, best.p_norm) for M, p, best in zip(many, found, solved, strict=False))
            line[way] = {"cpu_s": spent, "gap": worst, "ratio": spent / seconds}
        lines.append(line | {"solver": dict(used)})
    return lines


def of_matrix(M: Array, side: int, name: str, solver: str | None, used: Counter[str]) -> Array | None:
    W = cvxpy.Variable((side, side))
    program = least(name, W, M @ cvxpy.vec(W, order="C") >= 1)
    program.solve(solver=solver)
    used[program.solver_stats.solver_name] += 1
    return W.value


def matrices(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = []
    for name in ("nuclear", "spectral"):
        for side in SIDES:
            tokens, queries = rng.normal(size=(count, N, T, side)), rng.normal(size=(count, N, side))
            problems = [
                hm.Problem.from_queries(x, z, rng.normal(size=(N, T)))
                for x, z in zip(tokens, queries, strict=True)
            ]
            chosen = [selected(problem, rng) for problem in problems]
            pairs = list(zip(problems, chosen, strict=True))
            hm.max_margin(*pairs[0], norm=name)
            seconds, solved = timed(
                lambda pairs=pairs, name=name: [hm.max_margin(*each, norm=name) for each in pairs], 2
            )  # type: ignore[misc]
            many = [best.constraints.rows() for best in solved]
            line: dict[str, Any] = {
                "norm": name,
                "side": side,
                "problems": count,
                "certified": sum(best.is_certified for best in solved),
                "width": max(best.margin_interval[1] / best.margin_interval[0] - 1 for best in solved),
                "hardmax_cpu_s": seconds / count,
            }
            for way, solver in (("chosen", None), ("clarabel", "CLARABEL")):
                used: Counter[str] = Counter()
                ask = lambda M, kind=(side, name, solver, used): of_matrix(M, *kind)  # noqa: E731
                ask(many[0])
                spent, found = timed(lambda ask=ask, many=many: [ask(M) for M in many], 1)  # type: ignore[misc]
                trios = zip(many, found, solved, strict=True)
                line[way] = {
                    "cpu_s": spent / count,
                    "gap": max(gap(M, W, name, best.p_norm) for M, W, best in trios),
                    "ratio": spent / seconds,
                    "solver": dict(used),
                }
            lines.append(line)
    return lines


def show(numbers: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{N} inputs of {T} tokens, d = {D}: CPU seconds of all problems")
    for column in ("norm", "problems", "hardmax", "gap", "cvxpy, posed", "cvxpy, changed", "its solver"):
        table.add_column(column, justify="left" if column in ("norm", "its solver") else "right")
    for line in numbers["batches"]:
        own = line["hardmax"]
        rivals = [
            f"{line[way]['cpu_s']:.2f} (x{line[way]['ratio']:.0f}, gap {line[way]['gap']:.0e})"
            for way in ("posed", "changed")
        ]
        table.add_row(
            line["norm"],
            str(line["problems"]),
            f"{own['cpu_s']:.3f}",
            f"{own['gap']:.0e}",
            *rivals,
            ", ".join(line["solver"]),
        )
    console.print(table)
    for line in numbers["batches"]:
        own = line["hardmax"]
        console.print(
            f"{line['norm']}: {own['exact']} of {line['problems']} answers in fractions; all of them, one "
            f"call of max_margin each, would take {own['one_by_one_cpu_s']:.2f} s"
        )
    table = Table(title="a W with queries: CPU milliseconds of one problem")
    for column in ("norm", "W", "hardmax", "certified", "width", "cvxpy", "with Clarabel"):
        table.add_column(column, justify="left" if column == "norm" else "right")
    for line in numbers["matrices"]:
        rivals = [
            f"{1e3 * line[way]['cpu_s']:.1f} (x{line[way]['ratio']:.1f}, gap {line[way]['gap']:.0e})"
            for way in ("chosen", "clarabel")
        ]
        table.add_row(
            line["norm"],
            f"{line['side']} x {line['side']}",
            f"{1e3 * line['hardmax_cpu_s']:.1f}",
            f"{line['certified']} of {line['problems']}",
            f"{line['width']:.0e}",
            *rivals,
        )
    console.print(table)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--problems", type=int, default=1000, help="of the batch")
    parser.add_argument("--part", type=int, default=100, help="problems of the batch that cvxpy solves")
    parser.add_argument("--matrices", type=int, default=10, help="problems of each size of W")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if cvxpy is None:
        sys.exit(f"bench_norms.py needs cvxpy to compare with: {install('bench')}")
    warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the gap says so in numbers
    rng = np.random.default_rng(options.seed)
    numbers = {
        "schema": "hardmax.benchmark.norms/1",
        "seed": options.seed,
        "batches": batches(options.problems, min(options.part, options.problems), rng),
        "matrices": matrices(options.matrices, rng),
    }
    show(numbers, report.console(options.json))
    report.write(numbers, options.json)


if __name__ == "__main__":
    main()
