"""Optimisers: 1,000 runs of Adam against torch.optim.Adam with the usual backward, and a step of every rule.

    python benchmarks/bench_optimisers.py            # tables
    python benchmarks/bench_optimisers.py --json F   # the same numbers as JSON in F ("-" for standard output)

PyTorch takes one problem after the other, as public notebooks do; a few runs are timed and scaled up. Then it
takes all problems as one tensor, by autograd and, the best that it can do, with the gradient written by hand.
CPU time counts, over all threads, the best over thread settings for both. Both sides train the same
problems in the same process, and both directions are compared with a run whose arithmetic has 60 digits.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import report
import torch
from rich.console import Console
from rich.table import Table

import hardmax as hm

N, T, D, STEPS, RATE, BETAS, EPSILON = 4, 6, 10, 1000, 0.1, (0.9, 0.999), 1e-8
DIGITS = 60


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of all threads, and what came out."""
    cpu = time.process_time()
    found = work()
    return time.process_time() - cpu, found


def by_torch(problems: list[hm.Problem], kind: torch.dtype, steps: int) -> np.ndarray:
    """Adam by autograd, all problems as one tensor: coordinates do not mix, so these are their own runs."""
    keys = torch.tensor(np.stack([p.keys.reshape(N, T, D) for p in problems]), dtype=kind)
    scores = torch.tensor(np.stack([p.scores.reshape(N, T) for p in problems]), dtype=kind)
    p = torch.zeros(len(problems), D, dtype=kind, requires_grad=True)
    optimiser = torch.optim.Adam([p], lr=RATE, betas=BETAS, eps=EPSILON)
    for _ in range(steps):
        optimiser.zero_grad()
        attention = torch.softmax(torch.einsum("bntd,bd->bnt", keys, p), dim=2)
        loss = torch.nn.functional.softplus(-(attention * scores).sum(2)).mean(1).sum()
        loss.backward()
        optimiser.step()
    return p.detach().numpy().astype(float)


def by_hand(problems: list[hm.Problem], kind: torch.dtype, steps: int) -> np.ndarray:
    """The same tensor without autograd: the gradient and Adam's two means are written out."""
    keys = torch.tensor(np.stack([p.keys.reshape(N * T, D) for p in problems]), dtype=kind)
    scores = torch.tensor(np.stack([p.scores.reshape(N, T) for p in problems]), dtype=kind)
    p, first, second = (torch.zeros(len(problems), D, dtype=kind) for _ in range(3))
    beta1, beta2 = BETAS
    with torch.no_grad():
        for k in range(1, steps + 1):
            attention = torch.softmax(torch.bmm(keys, p[:, :, None]).view(scores.shape), dim=2)
            output = (attention * scores).sum(2, keepdim=True)
            pull = torch.sigmoid(-output) * attention * (scores - output) / -N
            g = torch.bmm(pull.view(len(p), 1, -1), keys)[:, 0]
            first.lerp_(g, 1 - beta1)
            second.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            root = (second / (1 - beta2**k)).sqrt_().add_(EPSILON)
            p.addcdiv_(first, root, value=-RATE / (1 - beta1**k))
    return p.numpy().astype(float)


def by_digits(problem: hm.Problem, steps: int) -> np.ndarray:
    """The same run, by the plain formulas with many digits."""
    with mpmath.workdps(DIGITS):
        exact = mpmath.mpf
        keys = [[[exact(x) for x in k] for k in K] for K in problem.keys.reshape(N, T, D).tolist()]
        scores = [[exact(x) for x in g] for g in problem.scores.reshape(N, T).tolist()]
        p, m, v = ([exact(0)] * D for _ in range(3))
        beta1, beta2 = map(exact, BETAS)
        for k in range(1, steps + 1):
            g = [exact(0)] * D
            for K, gamma in zip(keys, scores, strict=True):
                e = [mpmath.exp(mpmath.fdot(key, p)) for key in K]
                mass = mpmath.fsum(e)
                u = mpmath.fdot(e, gamma) / mass
                slope = -1 / (1 + mpmath.exp(u)) / N
                for key, share, score in zip(K, e, gamma, strict=True):
                    factor = slope * share / mass * (score - u)
                    g = [x + factor * y for x, y in zip(g, key, strict=True)]
            m = [beta1 * x + (1 - beta1) * y for x, y in zip(m, g, strict=True)]
            v = [beta2 * x + (1 - beta2) * y * y for x, y in zip(v, g, strict=True)]
            for j in range(D):
                root = mpmath.sqrt(v[j] / (1 - beta2**k))
                p[j] -= exact(RATE) * m[j] / (1 - beta1**k) / (root + exact(EPSILON))
        return np.array([float(x) for x in p])


def adam(runs: int, torch_runs: int, exact_runs: int) -> dict[str, Any]:
    problems = [hm.data.sphere(n=N, T=T, d=D, rng=seed) for seed in range(runs)]
    rule = hm.optim.Adam(RATE, BETAS, EPSILON)
    hm.train(problems[:4], rule, steps=10)
    both = (1, 2) * 3  # workers or threads; the best of three times counts, on both sides
    ours = [timed(lambda w=w: hm.train(problems, rule, steps=STEPS, workers=w)) for w in both]  # type: ignore[misc]
    ends = np.stack([run.p for run in ours[0][1]])
    exact = [by_digits(problem, STEPS) for problem in problems[:exact_runs]]
    rows = []
    for kind in (torch.float32, torch.float64):
        one, all_at_once, hand = [], [], []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            by_torch(problems[:1], kind, 20)
            few = problems[:torch_runs]
            one.append(timed(lambda few=few, kind=kind: [by_torch([each], kind, STEPS) for each in few]))  # type: ignore[misc]
        for threads in both:
            torch.set_num_threads(threads)
            all_at_once.append(timed(lambda kind=kind: by_torch(problems, kind, STEPS)))  # type: ignore[misc]
            hand.append(timed(lambda kind=kind: by_hand(problems, kind, STEPS)))  # type: ignore[misc]
        theirs = all_at_once[0][1]
        rows.append(
            {
                "torch": str(kind).removeprefix("torch."),
                "one_by_one_cpu_s": min(cpu for cpu, _ in one) / torch_runs * runs,
                "one_tensor_cpu_s": min(cpu for cpu, _ in all_at_once),
                "by_hand_cpu_s": min(cpu for cpu, _ in hand),
                "misalignment": [hm.cosine_distance(a, b) for a, b in zip(theirs, exact, strict=False)],
            }
        )
    cpu = min(cpu for cpu, _ in ours)
    for row in rows:
        row |= {name: row[f"{name}_cpu_s"] / cpu for name in ("one_by_one", "one_tensor", "by_hand")}
    off = [hm.cosine_distance(a, b) for a, b in zip(ends, exact, strict=False)]
    return {"runs": runs, "torch_runs": torch_runs, "hardmax_cpu_s": cpu, "misalignment": off, "rows": rows}


RULES = {
    "GD": hm.optim.GD(1.0),
    "Normalized": hm.optim.Normalized(0.1),
    "Normalized in l3": hm.optim.Normalized(0.1, norm="l3"),
    "Sign": hm.optim.Sign(0.1),
    "Coordinate": hm.optim.Coordinate(0.1),
    "Mirror, power 3": hm.optim.Mirror(0.1, 3),
    "Momentum": hm.optim.Momentum(0.1),
    "Signum": hm.optim.Signum(0.1),
    "Adam": hm.optim.Adam(0.1),
    "RMSprop": hm.optim.RMSprop(0.1),
    "SGD": hm.optim.SGD(0.1, momentum=0.9),
}


def every_rule(steps: int) -> dict[str, float]:
    """Microseconds of CPU time of a step, in one run of one problem."""
    problem = hm.data.sphere(n=N, T=T, d=D, rng=0)
    found = {}
    for name, rule in RULES.items():
        hm.train(problem, rule, steps=2, record=())
        best = min(
            timed(lambda rule=rule: hm.train(problem, rule, steps=steps, record=()))[0] for _ in range(3)
        )  # type: ignore[misc]
        found[name] = 1e6 * best / steps
    return found


def main() -> None:
    warnings.simplefilter("ignore", hm.limits.RateWarning)
    options = report.parser(__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--torch-runs", type=int, default=10)
    options.add_argument("--exact-runs", type=int, default=2)
    given = options.parse_args()
    console: Console = report.console(given.json)
    found = adam(given.runs, given.torch_runs, given.exact_runs)
    table = Table(title=f"{given.runs} runs of {STEPS} steps of Adam, n = {N}, T = {T}, d = {D}")
    for column in ("", "CPU s", "times hardmax", "1 - cos to 60 digits"):
        table.add_column(column, justify="left" if not column else "right")
    shown = lambda off: f"{max(off, default=math.nan):.1e}"  # noqa: E731
    table.add_row("hardmax", f"{found['hardmax_cpu_s']:.2f}", "1", shown(found["misalignment"]))
    for row in found["rows"]:
        for way in ("one_by_one", "one_tensor", "by_hand"):
            cpu, name = row[f"{way}_cpu_s"], f"torch {row['torch']}, {way.replace('_', ' ')}"
            table.add_row(name, f"{cpu:.2f}", f"{row[way]:.1f}", shown(row["misalignment"]))
    console.print(table)
    found["step_us"] = every_rule(100_000)
    table = Table(title="CPU microseconds of a step")
    for column in ("rule", "us"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for name, spent in found["step_us"].items():
        table.add_row(name, f"{spent:.2f}")
    console.print(table)
    report.write(found, given.json)


if __name__ == "__main__":
    main()
