"""A training step of the two-layer model on reviews of IMDB's size: hardmax against autograd in PyTorch.

Data: 128 sequences a batch with about 115 distinct tokens each and some with 400, 7,461 tokens in all, drawn
with Zipf's frequencies. Plain PyTorch runs the module of hardmax.torch on padded batches,
with its fused AdamW; "in groups" gives it hardmax's groups of similar size, each with its own backward pass,
which spares the padding and writes a gradient of all of E each time. CPU time is that of the whole process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import report
import torch
from rich.table import Table

from hardmax import Corpus
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings import initial_vectors
from hardmax.embeddings.minibatch.train import epoch_batches
from hardmax.embeddings.minibatch.two_layer_step import TwoLayerModel, similar
from hardmax.torch import TwoLayer, padded

S, BATCH, RATE, DECAY = 7461, 128, 1e-2, 1e-8


def reviews(n: int, rng: int) -> Corpus:
    draw = np.random.default_rng(rng)
    chances = 1.0 / (np.arange(S) + 20.0)
    lengths = np.minimum(512, 5 + np.exp(draw.normal(4.65, 0.65, size=n))).astype(int)
    tokens = [draw.choice(S, size=T, p=chances / chances.sum()) for T in lengths]
    return Corpus.from_sequences(tokens, np.where(draw.random(n) < 0.5, 1, -1), [str(s) for s in range(S)])


def timed(step: Callable[[Corpus], Any], batches: list[Corpus]) -> dict[str, float]:
    step(batches[0])
    walls, begun = [], time.process_time()
    for batch in batches[1:]:
        start = time.perf_counter()
        step(batch)
        walls.append(time.perf_counter() - start)
    cpu = (time.process_time() - begun) / len(walls)
    return {"median_ms": 1e3 * float(np.median(walls)), "least_ms": 1e3 * min(walls), "cpu_ms": 1e3 * cpu}


def ours(batches: list[Corpus], d: int, threads: int) -> dict[str, float]:
    with TwoLayerModel(
        *initial_vectors(S, d, rng=1), AdamW(RATE, weight_decay=DECAY), "float32", threads
    ) as model:
        return timed(lambda batch: model.step(batch, RATE), batches)


def plain_torch(batches: list[Corpus], d: int, threads: int, in_groups: bool) -> dict[str, float]:
    torch.set_num_threads(threads)
    model = TwoLayer(*(x.astype(np.float32) for x in initial_vectors(S, d, rng=1)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step(batch: Corpus) -> None:
        optimiser.zero_grad()
        groups = similar(np.diff(batch.offsets), d) if in_groups else [np.arange(batch.n)]
        for rows in groups:
            f = model(*padded(batch, rows))
            y = torch.tensor(batch.signs[rows], dtype=torch.float32)
            (torch.nn.functional.softplus(-y * f).sum() / batch.n).backward()
        optimiser.step()

    return timed(step, batches)


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--d", type=int, nargs="+", default=[256, 2048], help="dimensions")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads")
    options.add_argument("--steps", type=int, default=5, help="steps to time, after one that is not")
    asked = options.parse_args()
    console = report.console(asked.json)
    corpus = reviews(BATCH * (asked.steps + 1), rng=0)
    batches = list(epoch_batches(corpus, BATCH, 0, 0))
    sizes = np.diff(corpus.offsets)
    distinct = f"{sizes.mean():.0f} distinct tokens (at most {sizes.max()})"
    table = Table(title=f"One AdamW step, |S| = {S}, batch {BATCH}, {distinct}, float32")
    for head in ("d", "", "threads", "wall, median ms", "wall, least ms", "CPU ms"):
        table.add_column(head, justify="right")
    rows: list[dict[str, Any]] = []
    for d in asked.d:
        for threads in asked.threads:
            for name, found in (
                ("hardmax", ours(batches, d, threads)),
                ("autograd in groups", plain_torch(batches, d, threads, in_groups=True)),
                ("autograd padded", plain_torch(batches, d, threads, in_groups=False)),
            ):
                rows.append({"d": d, "what": name, "threads": threads, **found})
                table.add_row(str(d), name, str(threads), *(f"{x:.0f}" for x in found.values()))
    console.print(table)
    report.write({"rows": rows}, asked.json)


if __name__ == "__main__":
    main()
