"""Hard-margin solvers side by side: hardmax, cvxopt, clarabel and scikit-learn's LinearSVC(C=1e9).

    python benchmarks/bench_margin.py            # tables
    python benchmarks/bench_margin.py --json F   # the same numbers as JSON in F ("-" for standard output)
    python benchmarks/bench_margin.py --quick    # a tenth of the problems

Every setting is warmed up, then timed; the best of several runs counts, and for hardmax the best over thread
settings. Foreign solvers are timed on a part of the batch and scaled up. Accuracy is measured alike for all:
`gap` is the largest relative distance of |p|/min(Mp) to the certified minimum norm.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import clarabel
import cvxopt
import numpy as np
import report
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from hardmax.margin.batch import solve_batch
from hardmax.margin.constraints import Constraints
from hardmax.margin.solve import solve

Array = np.ndarray


def by_cvxopt(M: Array) -> Array:
    m, d = M.shape
    P, q = cvxopt.matrix(np.eye(d)), cvxopt.matrix(np.zeros(d))
    found = cvxopt.solvers.qp(
        P, q, cvxopt.matrix(-M), cvxopt.matrix(-np.ones(m)), options={"show_progress": False}
    )
    return np.array(found["x"]).ravel()


def by_clarabel(M: Array) -> Array:
    m, d = M.shape
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P, A = sparse.csc_matrix(sparse.identity(d)), sparse.csc_matrix(-M)
    solver = clarabel.DefaultSolver(P, np.zeros(d), A, -np.ones(m), [clarabel.NonnegativeConeT(m)], settings)
    return np.array(solver.solve().x)


def by_sklearn(M: Array) -> Array:
    """One class and its mirror image: without a bias this is the same problem."""
    X, y = np.vstack([M, -M]), np.repeat([1, -1], len(M))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(C=1e9, loss="hinge", fit_intercept=False, max_iter=20_000).fit(X, y)
    return model.coef_.ravel()


RIVALS: dict[str, Callable[[Array], Array]] = {
    "cvxopt": by_cvxopt,
    "clarabel": by_clarabel,
    "LinearSVC": by_sklearn,
}


def key_differences(d: int, count: int, rng: np.random.Generator) -> Array:
    """B-FIG-9's problems (count, 20, d): 4 inputs of 6 tokens on the sphere, a selection some p makes."""
    X = rng.normal(size=(count, 4, 6, d))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    chosen = np.einsum("bntd,bd->bnt", X, rng.normal(size=(count, d))).argmax(axis=-1)
    difference = np.take_along_axis(X, chosen[..., None, None], axis=2) - X
    others = np.arange(6) != chosen[..., None]
    return difference[others].reshape(count, 20, d)


def separable(m: int, d: int, rng: np.random.Generator) -> Array:
    """Gaussian rows on one side of a random hyperplane."""
    M = rng.normal(size=(m, d))
    return M * np.sign(M @ rng.normal(size=d))[:, None]


def best_time(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def gap(M: Array, p: Array, norm: float) -> float:
    reach = (M @ p).min()
    return float("inf") if reach <= 0 else float(np.linalg.norm(p) / reach / norm - 1)


def batches(quick: bool, rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = []
    count = 100 if quick else 1000
    for d in (2, 5, 10, 100, 300, 500):
        M = key_differences(d, count, rng)
        runs = {w: best_time(lambda M=M, w=w: solve_batch(M, workers=w), 3) for w in (1, 2)}
        workers = min(runs, key=lambda w: runs[w][0])
        seconds, solved = runs[workers]
        assert all(x.is_certified for x in solved)
        line = {
            "d": d,
            "problems": count,
            "hardmax": {
                "seconds": seconds,
                "workers": workers,
                "gap": max(gap(m, x.p, x.p_norm) for m, x in zip(M, solved, strict=True)),
            },
        }
        part = max(3, min(count, 2000 // (d + 10)))
        for name, rival in RIVALS.items():
            one, answers = best_time(lambda rival=rival, M=M, part=part: [rival(m) for m in M[:part]], 1)
            worst = max(gap(m, p, x.p_norm) for m, p, x in zip(M, answers, solved, strict=False))
            line[name] = {"seconds": one * count / part, "gap": worst, "ratio": one * count / part / seconds}
        lines.append(line)
    return lines


def singles(quick: bool, rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = []
    for m, d, rivals in ((2000, 200, tuple(RIVALS)), (50_000, 200, () if quick else ("cvxopt",))):
        M = separable(m, d, rng)
        constraints = Constraints.dense(M)
        seconds, best = best_time(lambda c=constraints: solve(c), 3)
        line = {"m": m, "d": d, "hardmax": {"seconds": seconds, "status": best.status, "kkt": best.kkt}}
        for name in rivals:
            start = time.perf_counter()
            p = RIVALS[name](M)
            line[name] = {"seconds": time.perf_counter() - start, "gap": gap(M, p, best.p_norm)}
        lines.append(line)
    return lines


def growth(rng: np.random.Generator) -> dict[str, Any]:
    """Exponents of the time in m (d = 50) and in d (m = 2000), by least squares on logarithms."""

    def exponent(sizes: list[int], make: Callable[[int], Array]) -> dict[str, Any]:
        problems = [Constraints.dense(make(size)) for size in sizes]
        seconds = [best_time(lambda c=c: solve(c), 3)[0] for c in problems]
        return {
            "sizes": sizes,
            "seconds": seconds,
            "exponent": float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]),
        }

    return {
        "m": exponent([500, 1000, 2000, 4000, 8000, 16000], lambda m: separable(m, 50, rng)),
        "d": exponent([12, 25, 50, 100, 200], lambda d: separable(2000, d, rng)),
    }


def show(report: dict[str, Any], console: Console) -> None:
    table = Table(title="milliseconds for a batch of problems (20 x d); in brackets how many times slower")
    for name in ("d", "problems", "hardmax", "gap", *RIVALS):
        table.add_column(name, justify="right")
    for line in report["batches"]:
        rivals = [
            f"{line[r]['seconds'] * 1e3:,.0f} (x{line[r]['ratio']:.0f}, gap {line[r]['gap']:.0e})"
            for r in RIVALS
        ]
        own = line["hardmax"]
        table.add_row(
            str(line["d"]), str(line["problems"]), f"{own['seconds'] * 1e3:.1f}", f"{own['gap']:.0e}", *rivals
        )
    console.print(table)
    table = Table(title="seconds for one problem")
    for name in ("m", "d", "hardmax", "kkt", *RIVALS):
        table.add_column(name, justify="right")
    for line in report["singles"]:
        rivals = [f"{line[r]['seconds']:.2f} (gap {line[r]['gap']:.0e})" if r in line else "" for r in RIVALS]
        own = line["hardmax"]
        table.add_row(
            f"{line['m']:,}",
            str(line["d"]),
            f"{own['seconds']:.3f} {own['status']}",
            f"{own['kkt']:.0e}",
            *rivals,
        )
    console.print(table)
    for name, fit in report["growth"].items():
        console.print(f"time grows like {name}^{fit['exponent']:.2f} over {fit['sizes']}")


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the problems")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    numbers = {
        "schema": "hardmax.benchmark.margin/1",
        "seed": options.seed,
        "batches": batches(options.quick, rng),
        "singles": singles(options.quick, rng),
        "growth": growth(rng),
    }
    show(numbers, report.console(options.json))
    report.write(numbers, options.json)


if __name__ == "__main__":
    main()
