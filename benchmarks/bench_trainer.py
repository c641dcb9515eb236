"""Trainer: one AdamW step at |S| = d = 2048, T = 256, batch 128, against plain PyTorch and the memory limit.

    python benchmarks/bench_trainer.py            # a table
    python benchmarks/bench_trainer.py --json F   # the same numbers as JSON in F ("-" for standard output)

PyTorch gathers nn.Embedding rows for every position and lets autograd do the rest. Both sides run in one
process, one after the other, float32, the best over 1 and 2 threads by wall time. The memory limit is what
the step must at least move: E read once for the gradients of p and v, then E and two moments read and
written; it is timed by a kernel that does this and no arithmetic worth the name, over the same threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import report
import torch
from numba import njit
from rich.table import Table

from hardmax.embeddings import KLevel, initial_vectors
from hardmax.embeddings.trainer.batches import epoch_batches, epoch_order
from hardmax.embeddings.trainer.optimisers import AdamW
from hardmax.embeddings.trainer.step import OneLayerModel

D, BATCH, RATE, DECAY = 2048, 128, 1e-4, 1e-4
THREADS = (1, 2)


def timed(work: Callable[[], object], times: int) -> dict[str, float]:
    """Milliseconds of one call: median and least wall time, and CPU time of all threads per call."""
    walls, cpu = [], time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        work()
        walls.append(time.perf_counter() - start)
    spent = (time.process_time() - cpu) / times
    return {"median_ms": 1e3 * float(np.median(walls)), "least_ms": 1e3 * min(walls), "cpu_ms": 1e3 * spent}


def ours(model: KLevel, threads: int, times: int) -> dict[str, float]:
    corpus = model.draw(4096, rng=0)
    start = initial_vectors(model.S, D, rng=1)
    batches = (part for epoch in range(1000) for part in epoch_batches(corpus, BATCH, 0, epoch))
    with OneLayerModel(*start, AdamW(DECAY), "float32", threads) as stepper:
        for _ in range(3):
            stepper.step(next(batches), RATE)
        return timed(lambda: stepper.step(next(batches), RATE), times)


def plain_torch(model: KLevel, threads: int, times: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    corpus = model.draw(4096, rng=0)
    tokens = torch.tensor(np.array(corpus.sequences()))
    labels = torch.tensor(corpus.signs, dtype=torch.float32)
    E0, p0, v0 = initial_vectors(model.S, D, rng=1)
    embedding = torch.nn.Embedding.from_pretrained(torch.tensor(E0, dtype=torch.float32), freeze=False)
    p, v = (torch.nn.Parameter(torch.tensor(x, dtype=torch.float32)) for x in (p0, v0))
    optimiser = torch.optim.AdamW([embedding.weight, p, v], lr=RATE, weight_decay=DECAY)
    order = torch.tensor(epoch_order(corpus.n, 0, 0))
    count = iter(range(10**6))

    def step() -> None:
        first = next(count) * BATCH % corpus.n
        chosen = order[first : first + BATCH]
        optimiser.zero_grad()
        X = embedding(tokens[chosen])
        f = (torch.softmax(X @ p, dim=1) * (X @ v)).sum(dim=1)
        torch.nn.functional.softplus(-labels[chosen] * f).mean().backward()
        optimiser.step()

    step()
    return timed(step, times)


@njit(nogil=True, fastmath=True)
def read(E, out):  # type: ignore[no-untyped-def]
    total = E.dtype.type(0)
    for j in range(E.size):
        total += E[j]
    out[0] = total


@njit(nogil=True)
def touch(E, m, s, one):  # type: ignore[no-untyped-def]
    for j in range(E.size):
        E[j] *= one
        m[j] *= one
        s[j] *= one


def memory_limit(S: int, threads: int, times: int) -> dict[str, float]:
    arrays = [np.ones(S * D, np.float32) for _ in range(3)]
    parts = [np.array_split(x, threads) for x in arrays]
    sinks = np.empty((threads, 1), np.float32)
    with ThreadPoolExecutor(threads) as pool:

        def move() -> None:
            list(pool.map(read, parts[0], sinks))
            list(pool.map(touch, *parts, [np.float32(1)] * threads))

        move()
        return timed(move, times)


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--steps", type=int, default=200, help="steps of hardmax to time")
    options.add_argument("--torch-steps", type=int, default=4, help="steps of PyTorch to time")
    asked = options.parse_args()
    console = report.console(asked.json)
    model = KLevel()
    runs: dict[str, dict[int, dict[str, float]]] = {
        "memory limit": {t: memory_limit(model.S, t, asked.steps) for t in THREADS},
        "hardmax": {t: ours(model, t, asked.steps) for t in THREADS},
        "plain torch": {t: plain_torch(model, t, asked.torch_steps) for t in THREADS},
    }
    table = Table(title=f"One AdamW step, |S| = {model.S}, d = {D}, T = {model.T}, batch {BATCH}, float32")
    for head in ("", "threads", "wall, median ms", "wall, least ms", "CPU ms"):
        table.add_column(head, justify="right")
    for name, by_threads in runs.items():
        for threads, row in by_threads.items():
            table.add_row(name, str(threads), *(f"{x:.2f}" for x in row.values()))
    console.print(table)
    best = {name: min(row["median_ms"] for row in by.values()) for name, by in runs.items()}
    result: dict[str, Any] = {
        "runs": runs,
        "ratio_to_torch": best["plain torch"] / best["hardmax"],
        "ratio_to_memory_limit": best["hardmax"] / best["memory limit"],
        "cpu_ratio_to_torch": min(r["cpu_ms"] for r in runs["plain torch"].values())
        / min(r["cpu_ms"] for r in runs["hardmax"].values()),
    }
    console.print(
        f"{result['ratio_to_torch']:.0f} times faster than plain torch (wall; "
        f"{result['cpu_ratio_to_torch']:.0f} in CPU time), "
        f"{result['ratio_to_memory_limit']:.2f} times the memory limit"
    )
    report.write(result, asked.json)


if __name__ == "__main__":
    main()
