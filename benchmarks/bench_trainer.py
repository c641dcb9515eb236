"""Trainer: one AdamW step at |S| = d = 2048, T = 256, batch 128, against plain PyTorch and the memory limit.

    python benchmarks/bench_trainer.py            # a table
    python benchmarks/bench_trainer.py --json F   # the same numbers as JSON in F ("-" for standard output)

PyTorch gathers nn.Embedding rows for every position and lets autograd do the rest. Both sides run in one
process, one after the other, float32, the best over 1 and 2 threads by wall time. The memory limit is what
the step must at least move: the rows of the batch's tokens, E and two moments read and written, and E read
once more for the gradients of p and v. It is timed by kernels that do this and no arithmetic worth the name,
with plain threads here and with numba's parallel loops under OpenMP (passive waits) and workqueue in
processes of their own; the least of all counts. Growth exponents are of the CPU time of one thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import report
import torch
from numba import njit, prange
from rich.table import Table

import hardmax as hm
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings import KLevel, initial_vectors
from hardmax.embeddings.minibatch.train import OneLayerModel, epoch_batches, epoch_order

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
    with OneLayerModel(*start, AdamW(RATE, weight_decay=DECAY), "float32", threads) as stepper:
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


def memory_limit(rows: int, threads: int, times: int) -> dict[str, float]:
    """With plain threads."""
    arrays = [np.ones(rows * D, np.float32) for _ in range(3)]
    parts = [np.array_split(x, threads) for x in arrays]
    sinks = np.empty((threads, 1), np.float32)
    with ThreadPoolExecutor(threads) as pool:

        def move() -> None:
            list(pool.map(touch, *parts, [np.float32(1)] * threads))
            list(pool.map(read, parts[0], sinks))

        move()
        return timed(move, times)


def memory_limit_of_layer(rows: int, layer: str, times: int) -> dict[str, float] | None:
    """With numba's parallel loop under a threading layer, in its own process; None if it is not there."""
    environment = {**os.environ, "NUMBA_THREADING_LAYER": layer, "OMP_WAIT_POLICY": "passive"}
    child = [sys.executable, __file__, "--layer", str(rows), str(times)]
    found = subprocess.run(child, env=environment, capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else None


def in_parallel_loops(rows: int, times: int) -> dict[str, float]:
    """What the process of a threading layer runs."""
    arrays = [np.ones((rows, D), np.float32) for _ in range(3)]
    sinks = np.empty((rows, 1), np.float32)

    @njit(parallel=True)
    def moved(E, m, s, one, sinks):  # type: ignore[no-untyped-def]
        for r in prange(len(E)):
            touch(E[r], m[r], s[r], one)
        for r in prange(len(E)):
            read(E[r], sinks[r])

    one = np.float32(1)  # an argument: as a constant it would be optimised away, and the loop with it
    moved(*arrays, one, sinks)
    return timed(lambda: moved(*arrays, one, sinks), times)


def growth(times: int) -> dict[str, float]:
    """Exponents of a step's CPU time in the number of rows, in d, and in the number of slots of a batch."""

    def cpu(S: int, d: int, n: int) -> float:
        counts = np.random.default_rng(0).multinomial(256, np.full(S, 1 / S), n)
        corpus = hm.Corpus.from_counts(counts, np.resize([1, -1], n))
        with OneLayerModel(
            *initial_vectors(S, d, rng=1), AdamW(RATE, weight_decay=DECAY), "float32", 1
        ) as model:
            model.step(corpus, RATE)
            return timed(lambda: model.step(corpus, RATE), times)["cpu_ms"]

    slopes = {
        "S": [(S, cpu(S, 1024, BATCH)) for S in (1024, 2048, 4096)],
        "d": [(d, cpu(2048, d, BATCH)) for d in (512, 1024, 2048)],
        "nnz": [(n, cpu(1024, 8, n)) for n in (512, 2048, 8192)],
    }
    return {name: float(np.polyfit(*np.log(np.transpose(pairs)), 1)[0]) for name, pairs in slopes.items()}


def main() -> None:
    if sys.argv[1:2] == ["--layer"]:
        print(json.dumps(in_parallel_loops(*map(int, sys.argv[2:]))))
        return
    options = report.parser(__doc__)
    options.add_argument("--steps", type=int, default=200, help="steps of hardmax to time")
    options.add_argument("--torch-steps", type=int, default=4, help="steps of PyTorch to time")
    asked = options.parse_args()
    console = report.console(asked.json)
    model = KLevel()
    corpus = model.draw(4096, rng=0)
    held = [len(np.unique(part.tokens)) for part in epoch_batches(corpus, BATCH, 0, 0)]
    rows = round(float(np.mean(held)))
    layers = {layer: memory_limit_of_layer(rows, layer, asked.steps) for layer in ("omp", "workqueue", "tbb")}
    limits = {f"{t} threads": memory_limit(rows, t, asked.steps) for t in THREADS}
    runs: dict[str, dict[str, dict[str, float]]] = {
        "memory limit": limits | {layer: found for layer, found in layers.items() if found is not None},
        "hardmax": {f"{t} threads": ours(model, t, asked.steps) for t in THREADS},
        "plain torch": {f"{t} threads": plain_torch(model, t, asked.torch_steps) for t in THREADS},
    }
    table = Table(title=f"One AdamW step, |S| = {model.S}, d = {D}, T = {model.T}, batch {BATCH}, float32")
    for head in ("", "by", "wall, median ms", "wall, least ms", "CPU ms"):
        table.add_column(head, justify="right")
    for name, ways in runs.items():
        for way, row in ways.items():
            table.add_row(name, way, *(f"{x:.2f}" for x in row.values()))
    console.print(table)
    best = {name: min(row["median_ms"] for row in ways.values()) for name, ways in runs.items()}
    result: dict[str, Any] = {
        "rows_of_a_batch": rows,
        "runs": runs,
        "ratio_to_torch": best["plain torch"] / best["hardmax"],
        "ratio_to_memory_limit": best["hardmax"] / best["memory limit"],
        "cpu_ratio_to_torch": min(r["cpu_ms"] for r in runs["plain torch"].values())
        / min(r["cpu_ms"] for r in runs["hardmax"].values()),
        "exponents": growth(20),
    }
    console.print(
        f"{result['ratio_to_torch']:.0f} times faster than plain torch (wall; "
        f"{result['cpu_ratio_to_torch']:.0f} in CPU time), "
        f"{result['ratio_to_memory_limit']:.2f} times the memory limit; a batch holds {rows} of the rows"
    )
    powers = ", ".join(f"{name}^{power:.2f}" for name, power in result["exponents"].items())
    console.print(f"The step grows as {powers}")
    report.write(result, asked.json)


if __name__ == "__main__":
    main()
