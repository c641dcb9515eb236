"""Training by inner products against training on vectors as the width grows, and Theorem 5 at its own width.

    python benchmarks/bench_embeddings.py            # tables
    python benchmarks/bench_embeddings.py --json F   # the same numbers as JSON in F ("-" for standard output)

Both trainings take the same joint steps on E and p from the same start and end at the same inner products,
with BLAS on one thread. CPU time counts, the best of several runs. The exponents are slopes of log time
against log d.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import report
from rich.console import Console
from rich.table import Table

import hardmax as hm
from hardmax._lib.parallel import serial_blas
from hardmax.embeddings import assumption_4_corpus, initial_vectors
from hardmax.embeddings.first_step import draw_initial
from hardmax.embeddings.gram import GramState, descend_gram
from hardmax.embeddings.one_layer import descend_embeddings
from hardmax.embeddings.theorem5 import run_theorem_5
from hardmax.margin.closed_forms import important_only

WIDTHS = (1_024, 4_096, 16_384, 65_536, 262_144)
STEPS, RATE = 20, 0.1


def seconds(work: Any, repeats: int = 3) -> float:
    """CPU seconds of one call, the best of several."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def compare(corpus: hm.Corpus, d: int) -> dict[str, Any]:
    """One width, with the check that both end at the same inner products."""
    E, p, v = initial_vectors(corpus.S, d, rng=0)
    state = GramState.from_vectors(E, p, v)
    direct = descend_embeddings(corpus, E, p, v, steps=STEPS, rate=RATE, record=[])
    reduced = descend_gram(corpus, state, steps=STEPS, rate=RATE, record=[])
    end = GramState.from_vectors(direct.E, direct.p, direct.v).matrix
    return {
        "d": d,
        "difference": float(np.abs(end - reduced.state.matrix).max()),
        "direct_us": 1e6
        / STEPS
        * seconds(lambda: descend_embeddings(corpus, E, p, v, steps=STEPS, rate=RATE, record=[])),
        "reduced_us": 1e6
        / STEPS
        * seconds(lambda: descend_gram(corpus, state, steps=STEPS, rate=RATE, record=[])),
    }


def exponent(rows: list[dict[str, Any]], key: str, last: int) -> float:
    """Slope of log time against log d over the last widths."""
    d, t = (np.log([row[name] for row in rows[-last:]]) for name in ("d", key))
    return float(np.polyfit(d, t, 1)[0])


def beyond(corpus: hm.Corpus) -> list[dict[str, Any]]:
    """The reduced step where no vector fits."""
    found = []
    for digits in (9, 44, 143):
        state = draw_initial(corpus.S, 10**digits, rng=0).gram
        cost = seconds(lambda: descend_gram(corpus, state, steps=STEPS, rate=RATE, record=[]))  # noqa: B023
        found.append({"digits": digits, "reduced_us": 1e6 / STEPS * cost})
    return found


def theorem_5(n: int, T: int) -> dict[str, Any]:
    """First step and flow at the threshold width."""
    corpus = assumption_4_corpus(n, T, rng=0)
    start = time.process_time()
    run = run_theorem_5(corpus, rng=1)
    cpu = time.process_time() - start
    # the limit in fractions: M^+ 1 over the tokens, which at such a width are coordinates of their own
    form = important_only([x.tolist() for x in corpus.sequences()], run.important)
    assert form.is_max_margin
    limit = np.array([float(form.coefficients[s]) for s in range(corpus.S)] + [0.0, 0.0])
    return {
        "n": n,
        "T": T,
        "S": corpus.S,
        "d": f"{float(run.d):.3g}",
        "norm": run.path.p_norm,
        "steps": len(run.path.times) - 1,
        "event": run.path.event,
        "misalignment": run.path.cosine_distance(limit),
        "important_only": run.selects_only_important,
        "cpu_seconds": cpu,
    }


def show(console: Console, result: dict[str, Any]) -> None:
    table = Table(title=f"one joint step on E and p, S = {result['S']}, CPU time")
    for name in ("d", "vectors", "inner products", "ratio", "largest difference at the end"):
        table.add_column(name, justify="right")
    for row in result["widths"]:
        ratio = row["direct_us"] / row["reduced_us"]
        table.add_row(
            f"{row['d']:,}",
            f"{row['direct_us']:.4g} us",
            f"{row['reduced_us']:.4g} us",
            f"{ratio:.1f}",
            f"{row['difference']:.1e}",
        )
    for row in result["beyond"]:
        table.add_row(f"1e{row['digits']}", "", f"{row['reduced_us']:.4g} us")
    console.print(table)
    console.print(
        f"time per step grows as d^{result['direct_exponent']:.2f} on vectors (the last three widths) and "
        f"d^{result['reduced_exponent']:.2f} by inner products"
    )
    flows = Table(title="Theorem 5: first step and flow of p at the threshold width")
    for name in ("n", "T", "S", "d", "|p|", "steps", "1 - cos", "CPU"):
        flows.add_column(name, justify="right")
    for row in result["theorem_5"]:
        flows.add_row(
            str(row["n"]),
            str(row["T"]),
            str(row["S"]),
            row["d"],
            f"{row['norm']:.2g}",
            str(row["steps"]),
            f"{row['misalignment']:.1e}",
            f"{row['cpu_seconds']:.2f} s",
        )
    console.print(flows)


def main() -> None:
    options = report.parser(__doc__).parse_args()
    console = report.console(options.json)
    corpus = assumption_4_corpus(20, 10, rng=0)
    run_theorem_5(assumption_4_corpus(2, 2, rng=0), rng=0)  # the kernels compile once, before the clock
    with serial_blas():
        rows = [compare(corpus, d) for d in WIDTHS]
    result = {
        "S": corpus.S,
        "widths": rows,
        "direct_exponent": exponent(rows, "direct_us", 3),
        "reduced_exponent": exponent(rows, "reduced_us", len(rows)),
        "beyond": beyond(corpus),
        "theorem_5": [theorem_5(n, T) for n, T in ((2, 2), (4, 4), (8, 5), (10, 10), (100, 50))],
    }
    show(console, result)
    report.write(result, options.json)


if __name__ == "__main__":
    main()
