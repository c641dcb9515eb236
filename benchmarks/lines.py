"""The lines of the table that `make bench` prints: the quantity that is measured, its peer and its limit.

A line takes its numbers from the JSON of one benchmark. The benchmark page and the README show the same lines
(`python benchmarks/all.py --store`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One row.

    Args:
        title: Quantity that is measured, as on the benchmark page.
        script: Benchmark that measures it, a file in benchmarks/.
        unit: Unit of both numbers.
        ours: Function that picks the number of hardmax.
        peer: Alternative that a user has; empty if there is none.
        theirs: Function that picks the number of the peer.
        at_least: Lower limit of the ratio.
        at_most: Upper limit of our number.
        more: True if larger numbers are better.
        also: Function that returns a remark for the page.
        named: Function that returns another title if the benchmark ran on stand-in data.
    """

    title: str
    script: str
    unit: str
    ours: Callable[[Numbers], float]
    peer: str = ""
    theirs: Callable[[Numbers], float] | None = None
    at_least: float | None = None
    at_most: float | None = None
    more: bool = False
    also: Callable[[Numbers], str] | None = None
    named: Callable[[Numbers], str | None] | None = None

    @property
    def limit(self) -> str:
        parts = []
        if self.at_least is not None:
            parts.append(f"ratio at least {self.at_least:,g}")
        if self.at_most is not None:
            parts.append(f"at most {amount(self.at_most, self.unit)}")
        return ", ".join(parts)

    def read(self, numbers: Numbers) -> Numbers:
        """Return the row for the table and the JSON."""
        ours = self.ours(numbers)
        theirs = self.theirs(numbers) if self.theirs else None
        ratio = None if theirs is None else (ours / theirs if self.more else theirs / ours)
        kept = (self.at_least is None or (ratio is not None and ratio >= self.at_least)) and (
            self.at_most is None or ours <= self.at_most
        )
        return {
            "title": (self.named(numbers) if self.named else None) or self.title,
            "script": self.script,
            "ours": ours,
            "peer": self.peer or None,
            "theirs": theirs,
            "ratio": ratio,
            "unit": self.unit,
            "limit": self.limit,
            "kept": kept,
            "also": self.also(numbers) if self.also else "",
        }


def amount(value: float, unit: str) -> str:
    """Two or three digits and the unit: 3,700 s, 0.41 s, 12 ms."""
    if unit == "%":
        return f"{value:.1f}%"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e} {unit}".rstrip()
    if abs(value) < 1:  # near one the digits behind the nines count
        return f"{value:.{2 if value < 0.99 else 5}g} {unit}".rstrip()
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def times(ratio: float) -> str:
    return f"{ratio:,.{0 if ratio >= 10 else 1}f}" if ratio < 1e7 else f"{ratio:.0e}"


def sentence(row: Numbers) -> str:
    """Return the measured values of a row in words, for the page."""
    text = amount(row["ours"], row["unit"])
    if row["theirs"] is not None:
        text = f"{text} against {amount(row['theirs'], row['unit'])}"
        if row["unit"] not in ("", "%"):  # a ratio of shares or distances means nothing
            text = f"{times(row['ratio'])} times: {text}"
    return f"{text}; {row['also']}" if row["also"] else text


def _last_error(numbers: Numbers, arm: str) -> float:
    """The error of attention alone at the last step, the mean over seeds."""
    errors = [run["rows"][-1]["attention_error"] for run in numbers["runs"] if run["arm"] == arm]
    return sum(errors) / len(errors)


def _spread(values: list[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


def _size(numbers: Numbers, **wanted: int) -> Numbers:
    """The one row of a benchmark's list that has these sizes."""
    lists = (each for each in numbers.values() if isinstance(each, list))
    rows = next(each for each in lists if wanted.keys() <= each[0].keys())
    (row,) = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return row


def _gaps(numbers: Numbers, peer: str) -> str:
    own, theirs = (max(row[who]["gap"] for row in numbers["batches"]) for who in ("hardmax", peer))
    return f"gap {own:.0e} against {theirs:.0e}"


def _far(numbers: Numbers, who: str) -> list[float]:
    """1 - cos of directions in float32 where the gap is 17 or more."""
    rows = [row for row in numbers["directions"] if row["dtype"] == "float32" and row["gap"] >= 17]
    return [row[who]["largest" if who == "hardmax" else "median"] for row in rows]


def _costs(numbers: Numbers) -> str:
    cost = [row["cpu_ms"]["hardmax"] / row["cpu_ms"]["math"] for row in numbers["times"]]
    return f"CPU time {min(cost):.2f} to {max(cost):.2f} of PyTorch's math backend"


def _least(numbers: Numbers, who: str) -> float:
    return min(way["median_ms"] for way in numbers["runs"][who].values())


def _cpu(numbers: Numbers, what: str) -> float:
    return min(row["cpu_ms"] for row in numbers["rows"] if (row["d"], row["what"]) == (2048, what))


LINES = (
    Line(
        "6,000 trials of figure 9 of paper B, 1,000 normalized steps each, CPU time",
        "bench_dynamics.py",
        "s",
        lambda x: x["fig9"]["total"]["hardmax_cpu_s"],
        "plain PyTorch, one trial at a time (extrapolated)",
        lambda x: x["fig9"]["total"]["torch_cpu_s"],
        at_least=1000,
    ),
    Line(
        "6,000 trials of figure 9 of paper B against the best that PyTorch can do, CPU time",
        "bench_dynamics.py",
        "s",
        lambda x: x["fig9"]["total"]["hardmax_cpu_s"],
        "one float32 tensor a dimension, its gradient written by hand",
        lambda x: x["fig9"]["total"]["torch_tensor_cpu_s"],
        at_least=10,
    ),
    Line(
        "the 6,000 trials with certified directions and verdicts, CPU time of all processes",
        "bench_figures.py",
        "s",
        lambda x: sum(row["cpu_s"] for row in x["rows"] if row["what"].startswith("sweep")),
        at_most=30,
        also=lambda x: f"{x['certified']:,} of {x['trials']:,} directions certified",
    ),
    Line(
        "end of these trials at d = 100: mean correlation with the max-margin direction",
        "bench_dynamics.py",
        "",
        lambda x: x["ends"]["hardmax"],
        "the usual softmax backward in float64",
        lambda x: x["ends"]["torch"],
        more=True,
        at_least=1,
        also=lambda x: (
            f"{x['ends']['torch_with_epsilon']:.2f} for the peer with an epsilon of 1e-9, "
            "which ends its runs early"
        ),
    ),
    Line(
        "gradient flow to t = e^(10,000,000)",
        "bench_dynamics.py",
        "s",
        lambda x: x["flow"]["median_s"],
        at_most=0.5,
        also=lambda x: f"median of {len(x['flow']['norms'])}",
    ),
    Line(
        "gradient flow of 15,000 tokens (n=300, T=50, d=50) to norm 1e6, two cores",
        "bench_dynamics.py",
        "s",
        lambda x: x["large_flow"]["wall_s"],
        at_most=8,
        also=lambda x: (
            f"to norm 400, {x['large_flow']['ratio']:.1f} times less CPU time than with all tokens "
            "in every step; "
            + "to norm 30, {us_per_token:.0f} us of CPU time per token for {tokens:,} tokens".format(
                **x["large_flow"]["to_norm_30"][-1]
            )
        ),
    ),
    Line(
        "1,000 certified max-margin problems of B-FIG-9 in one call, d = 10",
        "bench_margin.py",
        "s",
        lambda x: _size(x, d=10)["hardmax"]["seconds"],
        "a loop over cvxopt",
        lambda x: _size(x, d=10)["cvxopt"]["seconds"],
        at_least=40,
        also=lambda x: (
            f"{_spread([row['cvxopt']['ratio'] for row in x['batches']])} times for d = 2 to 500, "
            + _gaps(x, "cvxopt")
        ),
    ),
    Line(
        "certified max-margin problems in the norms l1 and linf (n=4, T=6, d=10), CPU time",
        "bench_norms.py",
        "s",
        lambda x: sum(row["hardmax"]["cpu_s"] for row in x["batches"]),
        "a loop over cvxpy",
        lambda x: sum(row["posed"]["cpu_s"] for row in x["batches"]),
        at_least=30,
        also=lambda x: _gaps(x, "posed"),
    ),
    Line(
        "1,000 runs of 1,000 steps of Adam, CPU time",
        "bench_optimisers.py",
        "s",
        lambda x: x["hardmax_cpu_s"],
        "torch.optim.Adam, one problem after another (extrapolated)",
        lambda x: min(row["one_by_one_cpu_s"] for row in x["rows"]),
        at_least=200,
        also=lambda x: (
            f"{min(row['one_tensor'] for row in x['rows']):.1f} times "
            "if PyTorch runs all problems as one tensor"
        ),
    ),
    Line(
        "the 1,000 runs of Adam against the best that PyTorch can do, CPU time",
        "bench_optimisers.py",
        "s",
        lambda x: x["hardmax_cpu_s"],
        "all as one tensor, its gradient written by hand",
        lambda x: min(row["by_hand_cpu_s"] for row in x["rows"]),
        at_least=3,
    ),
    Line(
        "every feasible selection of n=8, T=6, d=3 (1.7 million combinations), certified",
        "bench_enumeration.py",
        "s",
        lambda x: _size(x, n=8, T=6, d=3)["seconds"],
        "one cvxopt QP each (extrapolated)",
        lambda x: _size(x, n=8, T=6, d=3)["cvxopt"]["seconds"],
        at_least=10_000,
        at_most=1,
    ),
    Line(
        "a million trials stored in one file that survives a kill",
        "bench_sweeps.py",
        "s",
        lambda x: _size(x, trials=1_000_000)["seconds"],
        at_most=30,
        also=lambda x: "{driver_peak_mb:.0f} MB of memory, its summary in {summary_s:.2f} s".format(
            **_size(x, trials=1_000_000)
        ),
    ),
    Line(
        "a training step of the next-token model with 200 tokens, CPU time",
        "bench_nexttoken.py",
        "us",
        lambda x: _size(x, V=200, longest=12)["hardmax_us"],
        "the paper's formula in NumPy",
        lambda x: _size(x, V=200, longest=12)["literal_us"],
        at_least=1000,
    ),
    Line(
        "`hardmax ntp check` of a text of 100 MB, two cores",
        "bench_nexttoken.py",
        "s",
        lambda x: x["large_text"]["megabytes"] / x["large_text"]["MB_s"],
        "a dict of prefixes in plain Python (extrapolated)",
        lambda x: x["large_text"]["megabytes"] / x["large_text"]["loop_MB_s"],
        at_most=3.3,
        also=lambda x: "{MB_s:.0f} MB/s, {peak_GB:.2f} GB of memory".format(**x["large_text"]),
    ),
    Line(
        "IMDB's 50,000 reviews through paper A's pipeline, CPU time",
        "bench_text.py",
        "s",
        lambda x: x["cold_seconds"],
        "a plain loop (extrapolated)",
        lambda x: x["cold_seconds"] * x["cold_ratio"],
        at_least=8,
        also=lambda x: f"{x['warm_seconds']:.1f} s when cached",
        named=lambda x: (
            None
            if x["data"] == "IMDB"
            else f"{x['reviews']:,} reviews of {x['data']} through paper A's pipeline, CPU time"
        ),
    ),
    Line(
        "text classifier by words and pairs: accuracy on IMDB's 25,000 test reviews",
        "bench_classifier.py",
        "%",
        lambda x: 100 * x["IMDB"]["hardmax (1,2)"]["accuracy"],
        "TF-IDF with logistic regression",
        lambda x: 100 * x["IMDB"]["TF-IDF(1) + LR"]["accuracy"],
        more=True,
        at_least=1,
        also=lambda x: f"{x['IMDB']['hardmax (1,2)']['ratio']:.2f} of the peer's CPU time",
    ),
    Line(
        "Theorem 5 of paper A at the dimension that it requires, d = 1.55e89 (n = T = 10), CPU time",
        "bench_embeddings.py",
        "s",
        lambda x: _size(x, n=10, T=10)["cpu_seconds"],
        at_most=3,
        also=lambda x: f"1 - cos {_size(x, n=10, T=10)['misalignment']:.0e}; no machine holds its vectors",
    ),
    Line(
        "Theorem 5 of paper A at n = 100, T = 50, followed to its limit, CPU time",
        "bench_embeddings.py",
        "s",
        lambda x: _size(x, n=100, T=50)["cpu_seconds"],
        at_most=180,
        also=lambda x: f"1 - cos {_size(x, n=100, T=50)['misalignment']:.0e}",
    ),
    Line(
        "error of the direction of attention's gradient (1 - cos), float32, logit gaps of 17 and more",
        "bench_attention.py",
        "",
        lambda x: max(_far(x, "hardmax")),
        "PyTorch's math backend (median)",
        lambda x: min(_far(x, "math")),
        at_most=1e-11,
        also=_costs,
    ),
    Line(
        "an AdamW step of the trained-embedding model (2,048 tokens, d = 2,048, T = 256, batch 128)",
        "bench_trainer.py",
        "ms",
        lambda x: _least(x, "hardmax"),
        "plain PyTorch",
        lambda x: _least(x, "plain torch"),
        at_least=100,
        at_most=4,
        also=lambda x: f"{x['ratio_to_memory_limit']:.1f} times the time of moving the memory (aim: 1.5)",
    ),
    Line(
        "a training step of the two-layer model on reviews, d = 2,048, CPU time",
        "bench_two_layer.py",
        "ms",
        lambda x: _cpu(x, "hardmax"),
        "autograd in PyTorch, padded",
        lambda x: _cpu(x, "autograd padded"),
        at_least=1,
    ),
    Line(
        "watching the attention of a GPT-2 every 50 steps of its training, share of the CPU time",
        "bench_watch.py",
        "%",
        lambda x: 100 * x["overhead"],
        at_most=2,
    ),
    Line(
        "error of the attention gradients of a GPT trained in bfloat16, relative",
        "bench_low_precision.py",
        "",
        lambda x: _last_error(x, "hardmax"),
        "PyTorch's flash kernel",
        lambda x: _last_error(x, "flash"),
        at_least=2,
    ),
    Line(
        "answer of the playground to a drag among 40 tokens, in a browser",
        "bench_playground.py",
        "ms",
        lambda x: x["40 tokens"]["answer_ms"],
        at_most=50,
        also=lambda x: (
            f"coarse basins after {x['40 tokens']['basins_ms']:.0f} ms (limit 300), "
            f"{x['40 tokens']['script_ms_95']:.1f} ms of script per frame (limit 8)"
        ),
    ),
    Line(
        "answer of the exported playground to a drag among 12 tokens, from file://",
        "bench_playground.py",
        "ms",
        lambda x: x["file"]["answer_ms"],
        at_most=30,
        also=lambda x: (
            f"first paint after {x['file']['paint_ms']:.0f} ms (limit 1,000), "
            f"coarse basins after {x['file']['basins_ms']:.0f} ms, {x['file']['bytes']:,} bytes"
        ),
    ),
)
