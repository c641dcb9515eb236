"""Dynamics: B-FIG-9's 6,000 trials against plain PyTorch, flows far and large, and growth exponents.

    python benchmarks/bench_dynamics.py            # tables
    python benchmarks/bench_dynamics.py --json F   # the same numbers as JSON in F ("-" for standard output)
    python benchmarks/bench_dynamics.py --only-flows --tokens 10000 100000 1000000

PyTorch trains one trial at a time, as public notebooks do; a few trials are timed and scaled up. Beside it is
the best that PyTorch can do: all trials of a dimension as one float32 tensor, its gradient written by hand.
CPU time counts, over all threads, and for both sides the best of three over thread settings. The ratio is
what to quote: both sides run in the same process, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import report
import torch
from rich.console import Console
from rich.table import Table

import hardmax as hm
from hardmax.dynamics import flow as flows

DIMENSIONS = (2, 5, 10, 100, 300, 500)
STEPS = 1000

# How far the flow that visits every slot is followed; from there on it takes the same time a step.
PEER_NORM = 400.0


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds of all threads, wall seconds)."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def best(work: Callable[[], object], turns: int = 3) -> tuple[float, float]:
    """The least CPU time and the least wall time of several turns."""
    cpu, wall = zip(*(timed(work) for _ in range(turns)), strict=True)
    return min(cpu), min(wall)


def torch_trial(
    X: np.ndarray,
    v: np.ndarray,
    Y: np.ndarray,
    steps: int,
    kind: torch.dtype = torch.float32,
    epsilon: float = 1e-9,
) -> torch.Tensor:
    """Normalised gradient descent by autograd, with the usual epsilon."""
    keys, head, labels = (torch.tensor(each, dtype=kind) for each in (X, v, Y))
    p = torch.zeros(X.shape[-1], dtype=kind, requires_grad=True)
    optimiser = torch.optim.SGD([p], lr=1.0)
    for _ in range(steps):
        optimiser.zero_grad()
        attention = torch.softmax(keys @ p, dim=1)
        output = torch.einsum("nt,ntd,d->n", attention, keys, head)
        loss = torch.nn.functional.softplus(-labels * output).mean()
        loss.backward()
        with torch.no_grad():
            p.grad /= p.grad.norm() + epsilon
        optimiser.step()
    return p


def torch_tensor(problems: list[hm.Problem], steps: int, epsilon: float = 1e-9) -> torch.Tensor:
    """Train all problems as one float32 tensor; the gradient is written by hand, without autograd."""
    data = [_arrays(each) for each in problems]
    keys, heads, labels = (
        torch.tensor(np.stack(each), dtype=torch.float32) for each in zip(*data, strict=True)
    )
    scores = labels[:, :, None] * torch.einsum("bntd,bd->bnt", keys, heads)
    flat = keys.flatten(1, 2)
    p = torch.zeros(len(problems), keys.shape[-1])
    with torch.no_grad():
        for _ in range(steps):
            attention = torch.softmax(torch.bmm(flat, p[:, :, None]).view(scores.shape), dim=2)
            output = (attention * scores).sum(2, keepdim=True)
            pull = torch.sigmoid(-output) * attention * (scores - output)
            direction = torch.bmm(pull.view(len(p), 1, -1), flat)[:, 0]
            p += direction / (direction.norm(dim=1, keepdim=True) + epsilon * labels.shape[1])
    return p


def _arrays(problem: hm.Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return problem.keys.reshape(4, 6, -1), problem.readout.v, problem.readout.labels


def ends(trials: int, d: int = 100) -> dict[str, Any]:
    """Mean correlation of where a trial ends with the max-margin direction of the tokens it selects."""
    problems = list(hm.data.fig9_oracle(d, trials))
    runs = hm.train(problems, hm.optim.Normalized(1.0), steps=STEPS)

    def by_torch(epsilon: float) -> list[np.ndarray]:
        found = [torch_trial(*_arrays(each), STEPS, torch.float64, epsilon) for each in problems]
        return [p.detach().numpy() for p in found]

    def correlation(points: list[np.ndarray]) -> float:
        found = [
            1 - hm.cosine_distance(p, hm.max_margin(problem, hm.selected_tokens(problem, p)))
            for problem, p in zip(problems, points, strict=True)
        ]
        return float(np.mean(found))

    return {
        "d": d,
        "trials": trials,
        "hardmax": correlation([run.p for run in runs]),
        "torch": correlation(by_torch(0.0)),
        "torch_with_epsilon": correlation(by_torch(1e-9)),
    }


def fig9(trials: int, torch_trials: int, say: Callable[[str], None]) -> dict[str, Any]:
    rows = []
    for d in DIMENSIONS:
        problems = list(hm.data.fig9_oracle(d, trials))
        hm.train(problems[:4], hm.optim.Normalized(1.0), steps=STEPS)
        runs = {
            w: best(
                lambda w=w, problems=problems: hm.train(
                    problems, hm.optim.Normalized(1.0), steps=STEPS, workers=w
                )
            )
            for w in (1, 2)
        }  # type: ignore[misc]
        ours_cpu, ours_wall = min(r[0] for r in runs.values()), min(r[1] for r in runs.values())
        theirs, as_one = [], []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch_tensor(problems[:4], 20)
            as_one.append(best(lambda problems=problems: torch_tensor(problems, STEPS))[0])  # type: ignore[misc]
            few = [_arrays(p) for p in problems[:torch_trials]]
            torch_trial(*few[0], 20)
            theirs.append(best(lambda few=few: [torch_trial(*data, STEPS) for data in few])[0] / torch_trials)  # type: ignore[misc]
        row = {
            "d": d,
            "hardmax_cpu_s": ours_cpu,
            "hardmax_wall_s": ours_wall,
            "torch_cpu_s": min(theirs) * trials,
            "torch_tensor_cpu_s": min(as_one),
            "ratio": min(theirs) * trials / ours_cpu,
        }
        rows.append(row)
        say(f"d = {d}: {row['ratio']:.0f} times less CPU time")
    total = {
        k: sum(r[k] for r in rows)
        for k in ("hardmax_cpu_s", "hardmax_wall_s", "torch_cpu_s", "torch_tensor_cpu_s")
    }
    return {
        "trials_per_d": trials,
        "torch_trials": torch_trials,
        "rows": rows,
        "total": total | {"ratio": total["torch_cpu_s"] / total["hardmax_cpu_s"]},
    }


def flow(instances: int = 10) -> dict[str, Any]:
    hm.flow(hm.data.sphere(4, 6, 10, rng=0), until_norm=10)
    seconds, ends = [], []
    for seed in range(instances):
        problem = hm.data.sphere(4, 6, 10, rng=seed)
        seconds.append(timed(lambda problem=problem: ends.append(hm.flow(problem, until_log_time=1e7)))[1])  # type: ignore[misc]
    return {
        "log_t": 1e7,
        "median_s": float(np.median(seconds)),
        "max_s": max(seconds),
        "norms": [path.p_norm for path in ends],
    }


def large_flow(tokens: list[int]) -> dict[str, Any]:
    """Flow on many slots, against the same integrator that visits all of them at every step."""
    problem = hm.data.sphere(300, 50, 50, rng=0)
    ends: list[hm.Run] = []
    hm.flow(hm.data.sphere(50, 50, 50, rng=0), until_norm=1.0)
    ours = timed(lambda: ends.append(hm.flow(problem, until_norm=1e6)))
    to_peer = timed(lambda: ends.append(hm.flow(problem, until_norm=PEER_NORM)))
    chosen, flows.is_large = flows.is_large, lambda _: False
    peer = timed(lambda: ends.append(hm.flow(problem, until_norm=PEER_NORM)))
    flows.is_large = chosen
    rows = []
    for size in tokens:
        many = hm.data.sphere(size // 50, 50, 50, rng=0)
        cpu, wall = timed(lambda many=many: ends.append(hm.flow(many, until_norm=30.0)))  # type: ignore[misc]
        rows.append({"tokens": size, "cpu_s": cpu, "wall_s": wall, "us_per_token": 1e6 * cpu / size})
    return {
        "n, T, d": [300, 50, 50],
        "cpu_s": ours[0],
        "wall_s": ours[1],
        "steps": len(ends[0].times) - 1,
        "peer_norm": PEER_NORM,
        "ratio": peer[0] / to_peer[0],
        "misalignment": ends[1].cosine_distance(ends[2]),
        "to_norm_30": rows,
    }


def exponent(sizes: list[int], make: Callable[[int], hm.Problem], coordinates: str) -> dict[str, Any]:
    """Slope of log(time per step) against log(size), over two decades."""
    times = []
    for size in sizes:
        problem = make(size)
        few, many = 20, 220
        hm.train(problem, hm.optim.Normalized(0.1), steps=few, coordinates=coordinates, record=())

        def span(steps: int, problem: hm.Problem = problem) -> float:
            return min(
                timed(
                    lambda: hm.train(
                        problem, hm.optim.Normalized(0.1), steps=steps, coordinates=coordinates, record=()
                    )
                )[1]
                for _ in range(3)
            )

        times.append((span(many) - span(few)) / (many - few))
    slope = np.polyfit(np.log(sizes), np.log(np.maximum(times, 1e-9)), 1)[0]
    return {
        "coordinates": coordinates,
        "sizes": sizes,
        "us_per_step": [1e6 * t for t in times],
        "exponent": float(slope),
    }


def growth() -> dict[str, Any]:
    return {
        "n (primal, T=6, d=10)": exponent(
            [10, 32, 100, 316, 1000], lambda n: hm.data.gaussian(n, 6, 10, rng=0), "primal"
        ),
        "T (primal, n=4, d=10)": exponent(
            [10, 32, 100, 316, 1000], lambda T: hm.data.gaussian(4, T, 10, rng=0), "primal"
        ),
        "d (primal, n=4, T=6)": exponent(
            [100, 316, 1000, 3162, 10000], lambda d: hm.data.gaussian(4, 6, d, rng=0), "primal"
        ),
        "d (gram, n=4, T=6)": exponent(
            [100, 316, 1000, 3162, 10000], lambda d: hm.data.gaussian(4, 6, d, rng=0), "gram"
        ),
    }


def show_large(console: Console, f: dict[str, Any]) -> None:
    console.print(
        f"flow of n=300, T=50, d=50 to |p| = 1e6: {f['cpu_s']:.1f} s CPU, {f['wall_s']:.1f} s, "
        f"{f['steps']} steps; to |p| = {f['peer_norm']:g} {f['ratio']:.1f} times less CPU time than with all "
        f"slots at every step, 1 - cos of the two {f['misalignment']:.0e}"
    )
    table = Table(title="flow to |p| = 30, T=50, d=50")
    for name in ("tokens", "CPU s", "us per token"):
        table.add_column(name, justify="right")
    for row in f["to_norm_30"]:
        table.add_row(f"{row['tokens']:,}", f"{row['cpu_s']:.2f}", f"{row['us_per_token']:.0f}")
    console.print(table)


def show(console: Console, result: dict[str, Any]) -> None:
    table = Table(title="B-FIG-9: 1,000 normalised-GD steps a trial, CPU seconds for all trials")
    for name in ("d", "hardmax", "PyTorch (extrapolated)", "ratio", "as one tensor", "ratio to it"):
        table.add_column(name, justify="right")
    total = result["fig9"]["total"]
    for row in [*result["fig9"]["rows"], {"d": "all", **total}]:
        table.add_row(
            str(row["d"]),
            f"{row['hardmax_cpu_s']:.2f}",
            f"{row['torch_cpu_s']:.0f}",
            f"{row['ratio']:.0f}",
            f"{row['torch_tensor_cpu_s']:.2f}",
            f"{row['torch_tensor_cpu_s'] / row['hardmax_cpu_s']:.1f}",
        )
    console.print(table)
    console.print(f"wall time of all trials: {total['hardmax_wall_s']:.2f} s")
    e = result["ends"]
    console.print(
        f"correlation with the max-margin direction at d = {e['d']}: {e['hardmax']:.5f}, "
        f"by the usual backward in float64 {e['torch']:.2f}, "
        f"where an epsilon of 1e-9 ends the run early {e['torch_with_epsilon']:.2f}"
    )
    f = result["flow"]
    console.print(
        f"flow to log t = 1e7, {len(f['norms'])} instances: "
        f"median {f['median_s']:.2f} s, slowest {f['max_s']:.2f} s"
    )
    show_large(console, result["large_flow"])
    table = Table(title="time per step against size")
    for name in ("what grows", "smallest us", "largest us", "exponent"):
        table.add_column(name, justify="right")
    for name, row in result["growth"].items():
        table.add_row(
            name, f"{row['us_per_step'][0]:.2f}", f"{row['us_per_step'][-1]:.1f}", f"{row['exponent']:.2f}"
        )
    console.print(table)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="trials per d (default 1000)")
    parser.add_argument("--torch-trials", type=int, default=5, help="PyTorch trials timed per d (default 5)")
    parser.add_argument("--only-flows", action="store_true", help="leave out B-FIG-9 and growth")
    parser.add_argument("--tokens", type=int, nargs="*", default=[10_000, 100_000], help="sizes of flows")
    arguments = parser.parse_args()
    console = report.console(arguments.json)
    if arguments.only_flows:
        large = large_flow(arguments.tokens)
        show_large(console, large)
        return report.write({"large_flow": large}, arguments.json)
    result = {
        "fig9": fig9(arguments.trials, arguments.torch_trials, console.print),
        "ends": ends(20),
        "flow": flow(),
        "large_flow": large_flow(arguments.tokens),
        "growth": growth(),
    }
    show(console, result)
    report.write(result, arguments.json)


if __name__ == "__main__":
    main()
