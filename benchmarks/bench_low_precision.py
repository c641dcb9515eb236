"""Training a small GPT in bfloat16 with three attentions: are the errors of their gradients biased?

    python benchmarks/bench_low_precision.py            # a table
    python benchmarks/bench_low_precision.py --json F   # the same numbers as JSON in F

A GPT with 2 layers of 4 heads, width 64, is trained on the characters of this project's pages under autocast
to bfloat16, with AdamW and float32 weights, from the same seeds and batches in three arms: PyTorch's math
path, its flash kernel, and hardmax. At some steps each arm's gradient of the query and key projections is
compared with the float64 gradient of the same weights on several batches (whole), and its gradients of
queries and keys with the zero-sum truth of the same rounded inputs (attention alone). Bias is the mean of the
errors along their leading direction over their spread around it, over the batches. Ties are queries with two
largest logits that are equal in bfloat16; sinks are queries with more than half their weight on the first
token.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import report
import torch
from rich.table import Table
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import hardmax as hm
from hardmax.torch.auditing import _bias
from hardmax.torch.dot_product import attention_logits

WIDTH, HEADS, LENGTH, LAYERS = 64, 4, 64, 2
PAGES = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))


def backend(which: SDPBackend) -> Any:
    def attend(*inputs: torch.Tensor, **options: Any) -> torch.Tensor:
        with sdpa_kernel(which):
            return F.scaled_dot_product_attention(*inputs, **options)

    return attend


ARMS = {
    "math": backend(SDPBackend.MATH),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "hardmax": hm.torch.scaled_dot_product_attention,
}


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qk, self.v, self.out = (
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.attend: Any = None
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.before(x)
        q, k, v = (
            y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in (*self.qk(z).chunk(2, -1), self.v(z))
        )
        mixed = self.attend(q, k, v, is_causal=True)
        self.seen = [q, k, v, mixed]
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class GPT(nn.Module):  # type: ignore[misc]
    def __init__(self, letters: int, attend: Any) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)
        for block in self.blocks:
            block.attend = attend

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        x = self.tokens(text[:, :-1]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), text[:, 1:].flatten())


def characters() -> tuple[torch.Tensor, int, str]:
    """The corpus, its number of letters and its digest; read once, so that all arms see the same text."""
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return torch.tensor([letters[letter] for letter in text]), len(letters), digest


def batches(text: torch.Tensor, count: int, seed: int) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - LENGTH - 1, (count, 16), generator=chance)
    return [torch.stack([text[s : s + LENGTH + 1] for s in row]) for row in starts.tolist()]


def projections(model: GPT) -> list[torch.Tensor]:
    return [block.qk.weight for block in model.blocks]


def flat(gradients: Any) -> torch.Tensor:
    return torch.cat([g.double().flatten() for g in gradients])


def relative(errors: list[torch.Tensor], truths: list[torch.Tensor]) -> tuple[float, float]:
    """Mean length of the errors over that of the truth, and their bias."""
    sizes = [float(e.norm() / t.norm()) for e, t in zip(errors, truths, strict=True)]
    scaled = torch.stack([e / t.norm() for e, t in zip(errors, truths, strict=True)])
    return sum(sizes) / len(sizes), _bias(scaled) or 0.0


def measured(model: GPT, held: list[torch.Tensor]) -> dict[str, float]:
    for block in model.blocks:
        block.seen = []  # tensors of a graph cannot be copied
    exact = copy.deepcopy(model).double()
    for block in exact.blocks:
        block.attend = hm.torch.scaled_dot_product_attention
    whole: tuple[list[Any], list[Any]] = ([], [])
    alone: tuple[list[Any], list[Any]] = ([], [])
    ties, sinks, largest = [], [], []
    for batch in held:
        truth = flat(torch.autograd.grad(exact.loss(batch), projections(exact)))
        with torch.autocast("cpu", torch.bfloat16):
            loss = model.loss(batch)
        tensors = [x for block in model.blocks for x in (*block.seen[:2], block.seen[3])]
        found = torch.autograd.grad(loss, [*projections(model), *tensors])
        whole[0].append(flat(found[:LAYERS]) - truth)
        whole[1].append(truth)
        errors, truths = [], []
        for n, block in enumerate(model.blocks):
            by_q, by_k, by_out = found[LAYERS + 3 * n : LAYERS + 3 * n + 3]
            wide = [x.detach().double().requires_grad_() for x in block.seen[:3]]
            out = hm.torch.scaled_dot_product_attention(*wide, is_causal=True)
            true = flat(torch.autograd.grad(out, wide[:2], by_out.double()))
            errors.append(flat((by_q, by_k)) - true)
            truths.append(true)
            logits = attention_logits(*block.seen[:2], is_causal=True).detach()
            two = logits.bfloat16()[:, :, 1:].topk(2, dim=-1).values
            ties.append(float((two[..., 0] == two[..., 1]).double().mean()))
            sinks.append(float((logits.softmax(dim=-1)[:, :, 1:, 0] > 0.5).double().mean()))
            largest.append(float(logits.amax()))
        alone[0].append(torch.cat(errors))
        alone[1].append(torch.cat(truths))
    whole_error, whole_bias = relative(*whole)
    alone_error, alone_bias = relative(*alone)
    return {
        "whole_error": whole_error,
        "whole_bias": whole_bias,
        "attention_error": alone_error,
        "attention_bias": alone_bias,
        "ties": sum(ties) / len(ties),
        "sinks": sum(sinks) / len(sinks),
        "max_logit": max(largest),
    }


def trained(
    arm: str, seed: int, text: torch.Tensor, letters: int, steps: int, every: int, rate: float
) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = GPT(letters, ARMS[arm])
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    held = batches(text, 12, 10_000)
    rows, losses = [], []
    for step, batch in enumerate(batches(text, steps + 1, seed)):
        if step % every == 0:
            rows.append({"step": step, **measured(model, held)})
        with torch.autocast("cpu", torch.bfloat16):
            loss = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return {"arm": arm, "seed": seed, "loss": sum(losses[-20:]) / len(losses[-20:]), "rows": rows}


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("--every", type=int, default=150, help="steps between two measurements")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--rate", type=float, default=3e-3)
    asked = options.parse_args()
    torch.set_num_threads(1)
    text, letters, digest = characters()
    settings = (text, letters, asked.steps, asked.every, asked.rate)
    runs = [trained(arm, seed, *settings) for seed in range(asked.seeds) for arm in ARMS]
    for seed in range(asked.seeds):  # the same weights and batches: what does not depend on an arm is equal
        first = [run["rows"][0] for run in runs if run["seed"] == seed]
        starts = {row["max_logit"] for row in first}
        if max(starts) > 1.01 * min(starts):
            raise RuntimeError(f"the arms of seed {seed} start from different models: {sorted(starts)}")
    table = Table(title="GPT in bfloat16: error of gradients over their length, bias of the error")
    names = ("seed", "arm", "step", "whole", "bias", "attention alone", "bias", "ties", "sinks", "max logit")
    for name in (*names, "loss"):
        table.add_column(name, justify="right")
    for run in runs:
        for row in run["rows"]:
            errors = [f"{row[k]:.2g}" for k in list(row)[1:]]
            table.add_row(str(run["seed"]), run["arm"], str(row["step"]), *errors, f"{run['loss']:.4f}")
    report.console(asked.json).print(table)
    corpus = {"characters": len(text), "letters": letters, "sha256": digest}
    report.write({"corpus": corpus, "steps": asked.steps, "rate": asked.rate, "runs": runs}, asked.json)


if __name__ == "__main__":
    main()
