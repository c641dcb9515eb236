"""Stage 2 of next-token training: time per step against the literal formula and structured numpy, and growth.

    python benchmarks/bench_nexttoken.py            # tables
    python benchmarks/bench_nexttoken.py --json F   # the same numbers as JSON in F ("-" for standard output)
    python benchmarks/bench_nexttoken.py --megabytes 1000   # a text of this size instead of 100 MB

`hardmax ntp check` also goes through a text of that size made from tiny Shakespeare (markov_text.py), in a
process of its own whose peak memory is told; beside it a plain loop, a dict of all prefixes with what follows
them, on a tenth of the text at most 10 MB. The source lies in HARDMAX_DATA or ../shared/data, or is given by
--source; without one this part is left out.

The literal formula (6) goes sentence by sentence through dense d x d and V x d matrices with d = V; from
|V| = 2,000 on it is timed on 40 sentences and scaled up. Structured numpy is the log-domain form C-ALG-LOG in
array operations. All three find the same step from the same point, in one process; CPU time counts, the best
of several runs. The ratio is what to quote.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import report
from markov_text import Chain
from rich.console import Console
from rich.table import Table
from scipy.special import softmax

import hardmax as hm

MARGIN = 9.0
# |V|, length of the longest raw sentence, probability of lag 0, largest lag.
SIZES = ((20, 8, 0.5, 3), (200, 12, 0.8, 4), (2_000, 12, 0.8, 4), (2_000, 40, 0.95, 4), (20_000, 12, 0.8, 4))


def literal_gradient(samples: hm.nexttoken.Samples, E: Any, W_ov: Any, W_kq: Any) -> np.ndarray:
    """(6) in embedding space, sentence by sentence: sum pi X (diag(a) - a a') X' W_ov' (T - p) x_L'."""
    G = np.zeros_like(W_kq)
    for i in range(samples.n):
        inside = slice(samples.offsets[i], samples.offsets[i + 1])
        X = E[:, np.repeat(samples.tokens[inside], samples.counts[inside])]
        x_L = E[:, samples.query[i]]
        a = softmax(X.T @ W_kq @ x_L)
        T = softmax(W_ov @ X @ a)
        T[samples.target[i]] -= 1.0
        score = X.T @ W_ov.T @ T
        G += samples.weight[i] * np.outer(X @ (a * (score - a @ score)), x_L)
    return G


def samples_of(V: int, longest: int, lag0: float = 0.8, max_lag: int = 4) -> hm.nexttoken.Samples:
    made = hm.nexttoken.generate(V, lag0=lag0, max_lag=max_lag, max_length=longest, rng=0)
    return hm.nexttoken.Samples.from_sentences(made.sentences, vocabulary=[str(x) for x in range(V)])


def best(work: Callable[[], object], least: float = 0.3, repeats: int = 3) -> float:
    """CPU seconds of one call, the best of several averages."""
    calls, found = 1, []
    while len(found) < repeats:
        start = time.process_time()
        for _ in range(calls):
            work()
        spent = time.process_time() - start
        if spent < least / 3 and not found:
            calls = max(2 * calls, int(calls * least / max(spent, 1e-6)))
            continue
        found.append(spent / calls)
    return min(found)


class StructuredNumpy:
    """C-ALG-LOG in array operations: log-masses, log-magnitudes, log-sum-exp per pair, with known signs."""

    def __init__(self, pairs: hm.nexttoken.stages.Pairs) -> None:
        self.pairs, self.row, self.start = pairs, pairs.row, pairs.offsets[:-1]
        self.log_count, self.is_optimal = np.log(pairs.count), pairs.is_optimal
        self.rest = pairs.samples.V - np.diff(pairs.offsets)
        self.order = np.argsort(pairs.pair, kind="stable")
        self.first = np.flatnonzero(np.diff(pairs.pair[self.order], prepend=-1))
        sign = np.where(self.is_optimal, -1.0, 1.0)
        self.sign = sign[self.order][self.first]

    def _lse(self, values: np.ndarray) -> np.ndarray:
        top = np.maximum.reduceat(values, self.start)
        return top + np.log(np.add.reduceat(np.exp(values - top[self.row]), self.start))

    def direction(self, a: np.ndarray) -> np.ndarray:
        logit = self.log_count + a[self.pairs.pair]
        log_m = logit - self._lse(logit)[self.row]
        m = np.exp(log_m)
        grown = np.where(self.is_optimal, 0.0, np.exp(MARGIN * m))
        S = np.add.reduceat(grown, self.start) + self.rest
        m_star = m[self.start]  # the optimal entry is the first of its sentence
        log_S = np.log(S)
        miss = log_S - np.logaddexp(MARGIN * m_star, log_S)
        u = grown / S[self.row]
        drag = np.add.reduceat(m * u, self.start)
        with np.errstate(divide="ignore"):
            outside = np.where(self.is_optimal, -np.inf, log_m + np.log1p(u))
        pull = np.where(
            self.is_optimal, self._lse(outside)[self.row], np.log(m_star[self.row] + u - drag[self.row])
        )
        size = (self.pairs.log_weight + miss)[self.row] + log_m + pull
        size = size[self.order]
        top = np.maximum.reduceat(size, self.first)
        each = np.repeat(top, np.diff(np.append(self.first, len(size))))
        log_G = top + np.log(np.add.reduceat(np.exp(size - each), self.first))
        scale = log_G.max()
        G = self.sign * np.exp(log_G - scale)
        return G / np.linalg.norm(G)


def compare(V: int, longest: int, lag0: float, max_lag: int) -> dict[str, Any]:
    samples = samples_of(V, longest, lag0, max_lag)
    pairs = hm.nexttoken.stages.Pairs.of(samples)
    W_ov = hm.problem.readouts.OutputValue.aligned(pairs.collocation, MARGIN)
    stage = hm.nexttoken.stages.StageTwo(pairs, W_ov)
    rate = 0.05 / np.sqrt(V)
    a = np.zeros(pairs.P)
    stage.descend(a, rate, 20)
    few, many = 5, 5 + max(10, 2_000_000 // len(pairs.pair))

    def span(steps: int) -> float:
        return best(lambda: stage.descend(a.copy(), rate, steps), least=0.1)

    ours = (span(many) - span(few)) / (many - few)
    numpy_form = StructuredNumpy(pairs)
    np.testing.assert_allclose(numpy_form.direction(a), stage.direction(a).unit, atol=1e-12)
    by_numpy = best(lambda: numpy_form.direction(a))
    row = {
        "V": V,
        "longest": longest,
        "samples": samples.n,
        "sentences": pairs.n,
        "entries": len(pairs.pair),
        "pairs": pairs.P,
        "hardmax_us": 1e6 * ours,
        "numpy_us": 1e6 * by_numpy,
        "numpy_ratio": by_numpy / ours,
        "literal_us": None,
        "literal_ratio": None,
    }
    if V <= 2_000 and longest <= 12:
        share = min(samples.n, 40) if V > 200 else samples.n
        part = _first(samples, share)
        E, B, A = np.eye(V), W_ov.table, pairs.table(a)
        literal = best(lambda: literal_gradient(part, E, B, A), least=0.0, repeats=2)
        row["literal_us"] = 1e6 * literal * samples.n / share
        row["literal_ratio"] = row["literal_us"] / row["hardmax_us"]
    return row


def _first(samples: hm.nexttoken.Samples, share: int) -> Any:
    from dataclasses import replace

    chosen = slice(0, share)
    return replace(
        samples,
        offsets=samples.offsets[: share + 1],
        query=samples.query[chosen],
        target=samples.target[chosen],
        weight=samples.weight[chosen],
        length=samples.length[chosen],
    )


def per_step(samples: hm.nexttoken.Samples) -> tuple[int, float]:
    pairs = hm.nexttoken.stages.Pairs.of(samples)
    stage = hm.nexttoken.stages.StageTwo(
        pairs, hm.problem.readouts.OutputValue.aligned(pairs.collocation, MARGIN)
    )
    a = np.zeros(pairs.P)
    stage.descend(a, 1e-3, 3)
    steps = max(5, 1_000_000 // len(pairs.pair))
    return len(pairs.pair), best(lambda: stage.descend(a.copy(), 1e-3, steps), least=0.1) / steps


def growth() -> dict[str, Any]:
    """Exponents of the time per step: in the token entries, and in |V| with the sentences unchanged."""
    entries, times = zip(
        *(per_step(samples_of(V, 12)) for V in (200, 632, 2_000, 6_320, 20_000)), strict=True
    )
    made = hm.nexttoken.generate(500, lag0=0.8, max_lag=4, max_length=12, rng=0)
    sizes, wide = (500, 5_000, 50_000, 500_000), []
    for V in sizes:
        names = [str(x) for x in range(V)]
        wide.append(per_step(hm.nexttoken.Samples.from_sentences(made.sentences, vocabulary=names))[1])
    return {
        "entries": entries,
        "entries_us": [1e6 * t for t in times],
        "entries_exponent": float(np.polyfit(np.log(entries), np.log(times), 1)[0]),
        "V": sizes,
        "V_us": [1e6 * t for t in wide],
        "V_exponent": float(np.polyfit(np.log(sizes), np.log(wide), 1)[0]),
    }


def large_text(source: Path, megabytes: float) -> dict[str, Any]:
    """Megabytes a second of `hardmax ntp check`, wall time, against a dict of prefixes on a part.

    The best of three runs counts: the first may compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, part = Path(folder) / "text.txt", min(0.1 * megabytes, 10.0)
        size = Chain(source).write(path, int(1e6 * megabytes))
        command = [sys.executable, "-m", "hardmax", "ntp", "check", str(path), "--json", "--quiet"]
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            seconds.append(time.perf_counter() - start)
        ours = size / 1e6 / min(seconds)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        start, following = time.perf_counter(), {}
        with path.open() as file:
            for line in file.readlines(int(1e6 * part)):
                words = tuple(line.split())
                for k in range(1, len(words)):
                    following.setdefault(words[:k], set()).add(words[k])
        loop = part / (time.perf_counter() - start)
    return {"megabytes": size / 1e6, "MB_s": ours, "peak_GB": peak, "loop_MB_s": loop, "ratio": ours / loop}


def show(console: Console, result: dict[str, Any]) -> None:
    table = Table(title="one step of stage 2, CPU time")
    for name in ("|V|", "L", "entries", "pairs", "hardmax", "numpy", "ratio", "literal (6)", "ratio"):
        table.add_column(name, justify="right")
    for row in result["steps"]:
        literal = row["literal_us"] is not None
        table.add_row(
            f"{row['V']:,}",
            str(row["longest"]),
            f"{row['entries']:,}",
            f"{row['pairs']:,}",
            f"{row['hardmax_us']:.4g} us",
            f"{row['numpy_us']:.4g} us",
            f"{row['numpy_ratio']:.1f}",
            f"{row['literal_us'] / 1e3:.4g} ms" if literal else "",
            f"{row['literal_ratio']:,.0f}" if literal else "",
        )
    console.print(table)
    text = result["large_text"]
    if text:
        console.print(
            f"ntp check of {text['megabytes']:,.0f} MB: {text['MB_s']:.1f} MB/s, "
            f"peak {text['peak_GB']:.2f} GB; a dict of prefixes {text['loop_MB_s']:.1f} MB/s, "
            f"ratio {text['ratio']:.1f}"
        )
    run = result["figure_2"]
    console.print(f"900 + 900 steps at |V| = 20: {1e3 * run['seconds']:.2f} ms, loss {run['loss']:.9f}")
    grown = result["growth"]
    console.print(
        f"time per step grows as entries^{grown['entries_exponent']:.2f} and |V|^{grown['V_exponent']:.2f} "
        "(sentences unchanged)"
    )


def main() -> None:
    parser = report.parser(__doc__)
    source = report.REAL / "tinyshakespeare.txt.xz"
    parser.add_argument("--source", type=Path, default=source, help="a text to make a large one from")
    parser.add_argument("--megabytes", type=float, default=100.0)
    options = parser.parse_args()
    console = report.console(options.json)
    steps = [compare(*size) for size in SIZES]
    data = hm.nexttoken.Samples.from_sentences(hm.nexttoken.generate(rng=0).sentences)
    run = hm.nexttoken.training.train(data, record=())
    whole = best(lambda: hm.nexttoken.training.train(data, record=()))
    text = large_text(options.source, options.megabytes) if options.source.exists() else None
    result = {
        "steps": steps,
        "figure_2": {"seconds": whole, "loss": run.loss},
        "growth": growth(),
        "large_text": text,
    }
    show(console, result)
    report.write(result, options.json)


if __name__ == "__main__":
    main()
