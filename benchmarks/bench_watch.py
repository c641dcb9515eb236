"""What hm.torch.watch costs: GPT-2 with 4 layers, d = 256, batches of 16 x 128 tokens, on the CPU.

    python benchmarks/bench_watch.py            # a table
    python benchmarks/bench_watch.py --json F   # the same numbers as JSON in F ("-" for standard output)

Recorded steps alternate with plain ones; only recorded steps cost more, so the overhead of recording every
50th is a fiftieth of theirs. CPU time of the process.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import report
import torch
from rich.table import Table

import hardmax as hm


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--rounds", type=int, default=5, help="alternations")
    options.add_argument("--plain", type=int, default=3, help="plain steps timed for each recorded one")
    options.add_argument("--threads", type=int, default=1)
    asked = options.parse_args()
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        report.console(asked.json).print("bench_watch.py needs transformers: pip install transformers")
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(asked.threads)
    model = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=4, vocab_size=5000))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 5000, (16, 128))

    def step() -> float:
        begun = time.process_time()
        optimizer.zero_grad()
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        return time.process_time() - begun

    step()
    plain, recorded = [], []
    for _ in range(asked.rounds):
        plain.append(min(step() for _ in range(asked.plain)))
        begun = time.process_time()
        with hm.torch.watch(model) as seen:
            before = time.process_time() - begun
            inside = step()
            begun = time.process_time()
            seen.step()
            recorded.append(before + inside + time.process_time() - begun)
    one, more = float(np.median(plain)), float(np.median(recorded))
    share = (more - one) / one / 50
    table = Table(title="CPU seconds of a training step, median of alternations")
    for head in ("plain", "recorded", "overhead at every 50th step"):
        table.add_column(head, justify="right")
    table.add_row(f"{one:.3f}", f"{more:.3f}", f"{share:.2%}")
    report.console(asked.json).print(table)
    report.write({"plain_s": one, "recorded_s": more, "overhead": share}, asked.json)


if __name__ == "__main__":
    main()
