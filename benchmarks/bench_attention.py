"""Exact attention against PyTorch's: directions of gradients, training, time and memory.

    python benchmarks/bench_attention.py            # tables
    python benchmarks/bench_attention.py --json F   # the same numbers as JSON in F ("-" for standard output)

A gap is how far the top logit of a query stands above the second. The query is one random direction of 20,
scaled to that gap; keys and values are 8 random tokens of width 8, and what is compared is the gradient of
the query. The truth is the zero-sum gradient in float64 of the same rounded inputs, which the tests compare
with 60 digits. Time is CPU time of the whole process, forward and backward, the least of some alternating
runs; memory is the highest resident size of a process of its own, less what it had before.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import report
import torch
from rich.table import Table
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import hardmax as hm

GAPS = (0, 4, 6, 8, 12, 16, 17, 20, 30, 36, 40, 60, 80)
SHAPES = ((8, 8, 128, 64), (4, 8, 256, 64), (2, 8, 512, 64), (1, 8, 1024, 64))
LARGE = (1, 8, 2048, 64)  # memory is measured here, where a matrix of weights has 128 MB
HOW = {"Adam, epsilon 1e-8": 1e-8, "Adam, epsilon 1e-30": 1e-30}
Attention = Callable[..., torch.Tensor]


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Attention as it is written by hand, in the precision of its inputs."""
    by = q.shape[-1] ** -0.5 if scale is None else scale
    return torch.softmax(q @ k.transpose(-2, -1) * by, dim=-1) @ v


def backend(which: SDPBackend) -> Attention:
    """One of PyTorch's own."""

    def attend(*inputs: torch.Tensor, **options: Any) -> torch.Tensor:
        with sdpa_kernel(which):
            return F.scaled_dot_product_attention(*inputs, **options)

    return attend


WAYS: dict[str, Attention] = {
    "by hand": plain,
    "math": backend(SDPBackend.MATH),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "hardmax": hm.torch.scaled_dot_product_attention,
}


def drawn(gap: float, kind: torch.dtype, seed: int) -> list[torch.Tensor]:
    """Query, keys, values and the gradient of the output."""
    chance = torch.Generator().manual_seed(seed)
    q, k, v, out = (torch.randn(n, 8, generator=chance, dtype=torch.float64) for n in (1, 8, 8, 1))
    first, second = (q @ k.T)[0].topk(2).values
    return [x.to(kind)[None, None] for x in (q * (gap / (first - second)), k, v, out)]


def by_query(attend: Attention, q: torch.Tensor, *others: torch.Tensor) -> np.ndarray:
    q = q.clone().requires_grad_()
    k, v, out = others
    return torch.autograd.grad(attend(q, k, v, scale=1.0), q, out)[0].double().flatten().numpy()


def misaligned(found: np.ndarray, truth: np.ndarray) -> float:
    """1 - cos, of a gradient that is zero 1."""
    return float(hm.cosine_distance(found, truth)) if np.abs(found).max() > 0 else 1.0


def directions(draws: int) -> list[dict[str, Any]]:
    """Median and largest 1 - cos of every way, and the largest ratio of its length to the true one."""
    rows = []
    for kind in (torch.float64, torch.float32, torch.bfloat16):
        for gap in GAPS:
            inputs = [drawn(gap, kind, seed) for seed in range(draws)]
            truths = [
                by_query(hm.torch.scaled_dot_product_attention, *(x.double() for x in each))
                for each in inputs
            ]
            row: dict[str, Any] = {"dtype": str(kind).removeprefix("torch."), "gap": gap}
            for name, attend in WAYS.items():
                found = [by_query(attend, *each) for each in inputs]
                off = [misaligned(*pair) for pair in zip(found, truths, strict=True)]
                long = [np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(found, truths, strict=True)]
                row[name] = {"median": float(np.median(off)), "largest": max(off), "ratio": float(max(long))}
            rows.append(row)
    return rows


def trained(attend: Attention, how: str, steps: int) -> float:
    """1 - cos to the max-margin direction after training p in float32 on a problem of 4 inputs."""
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    keys = torch.tensor(problem.keys, dtype=torch.float32).reshape(4, 1, 6, 10)
    values = torch.zeros(4, 1, 6, 10)  # flash wants them as wide as the keys
    values[..., 0] = torch.tensor(problem.scores).reshape(4, 1, 6)
    p = torch.zeros(10, requires_grad=True)
    adam = torch.optim.Adam([p], lr=0.1, eps=HOW.get(how, 1e-8))
    for _ in range(steps):
        adam.zero_grad()
        outputs = attend(p.expand(4, 1, 1, 10), keys, values, scale=1.0)
        F.softplus(-outputs[..., 0]).mean().backward()
        if how in HOW:
            adam.step()
        elif p.grad is not None and p.grad.norm() > 0:
            p.data -= p.grad / p.grad.norm()
    at = p.detach().double().numpy()
    best = hm.max_margin(problem, hm.selected_tokens(problem, at))
    return float(hm.cosine_distance(at, best.p))


def seconds(attend: Attention, shape: tuple[int, ...], times: int) -> Callable[[], float]:
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    out = torch.randn(shape)

    def once() -> float:
        begun = time.process_time()
        torch.autograd.grad(attend(*inputs), inputs, out)
        return time.process_time() - begun

    once()
    return lambda: min(once() for _ in range(times))


def times(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for shape in SHAPES:
        runs = {name: seconds(attend, shape, 2) for name, attend in WAYS.items()}
        best = dict.fromkeys(runs, np.inf)
        for _ in range(rounds):
            best = {name: min(best[name], run()) for name, run in runs.items()}
        rows.append({"shape": shape, "cpu_ms": {name: 1e3 * least for name, least in best.items()}})
    return rows


def peak(name: str, shape: tuple[int, ...]) -> float:
    """Megabytes that a forward and a backward pass add, in a process of their own."""
    line = [sys.executable, __file__, "--peak", name, *map(str, shape)]
    return float(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


def print_peak(name: str, shape: list[int]) -> None:
    seconds(WAYS[name], (1, 1, 8, 8), 1)()
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    Path("/proc/self/clear_refs").write_text("5")  # the highest size so far is forgotten
    before = resident("VmRSS")
    torch.autograd.grad(WAYS[name](*inputs).sum(), inputs)
    sys.stdout.write(str((resident("VmHWM") - before) / 1024))


def resident(which: str) -> int:
    """A size of this process in KB, as Linux tells it."""
    found = re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found, "memory is measured on Linux only"
    return int(found[1])


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--draws", type=int, default=20, help="directions for each gap")
    options.add_argument("--rounds", type=int, default=5, help="alternations to time")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument(
        "--peak", nargs="+", help="how the processes call this file whose memory is measured"
    )
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.peak:
        print_peak(asked.peak[0], [int(x) for x in asked.peak[1:]])
        return
    console = report.console(asked.json)

    found = directions(asked.draws)
    table = Table(title=f"1 - cos to the true gradient, median and largest of {asked.draws} directions")
    for head in ("", "gap", *WAYS, "flash: longest / truth"):
        table.add_column(head, justify="right")
    for row in found:
        cells = [f"{row[name]['median']:.0e} {row[name]['largest']:.0e}" for name in WAYS]
        table.add_row(row["dtype"], str(row["gap"]), *cells, f"{row['flash']['ratio']:.0e}")
    console.print(table)

    steps = 2000
    runs = {how: {name: trained(WAYS[name], how, steps) for name in WAYS} for how in ("normalised", *HOW)}
    table = Table(title=f"Training p in float32, {steps:,} steps: 1 - cos to the max-margin direction")
    for head in ("", *WAYS):
        table.add_column(head, justify="right")
    for how, each in runs.items():
        table.add_row(how, *(f"{off:.1e}" for off in each.values()))
    console.print(table)

    timed = times(asked.rounds)
    memory = {name: peak(name, LARGE) for name in WAYS}
    table = Table(title=f"Forward and backward in float32: CPU ms with {asked.threads} thread(s), then MB")
    for head in ("batch x heads x tokens x width", *WAYS, "hardmax / math", "hardmax / flash"):
        table.add_column(head, justify="right")
    shown = [(row["shape"], row["cpu_ms"], "") for row in timed] + [(LARGE, memory, " MB")]
    for shape, each, unit in shown:
        ratios = [f"{each['hardmax'] / each[other]:.2f}" for other in ("math", "flash")]
        table.add_row(" x ".join(map(str, shape)), *(f"{each[name]:.1f}{unit}" for name in WAYS), *ratios)
    console.print(table)
    report.write({"directions": found, "training": runs, "times": timed, "peak_mb": memory}, asked.json)


if __name__ == "__main__":
    main()
