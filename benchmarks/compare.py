"""Two checkouts against each other: is the new one slower anywhere?

    python benchmarks/compare.py OLD NEW              # folders that hold src/hardmax
    python benchmarks/compare.py OLD NEW flow solve   # these cases only

Each case runs in a process of its own that stays for some turns; old and new take turns, so that a busy
machine meets both. Some work is a fifth slower in one process than in the next, in the same checkout, so that
several pairs of processes are asked (--pairs).
CPU time counts, of all threads (for the command line, of a process that starts). The median over the turns of
new over old is printed, with its quartiles. Names that differ between the checkouts are looked up in both.
"""

from __future__ import annotations

import argparse
import inspect
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LEAST = 0.2  # CPU seconds of a turn; quick work is repeated
EXAMPLE = Path(__file__).parents[1] / "examples" / "three-inputs.json"


def _descend(d: int, coordinates: str) -> Callable[[], object]:
    import hardmax as hm

    problem = hm.data.gaussian(20, 10, d, rng=0)
    return lambda: _normalized(problem, 2000, 0.1, coordinates=coordinates, record=())


def _normalized(problem: object, steps: int, rate: float, **options: object) -> object:
    """Normalised descent, by a step rule where there are rules."""
    import hardmax as hm

    if hasattr(hm, "steps"):
        return hm.descend(problem, hm.steps.Normalized(rate), steps=steps, **options)
    return hm.descend(problem, steps, rate, **options)


def primal() -> Callable[[], object]:
    return _descend(10, "primal")


def gram() -> Callable[[], object]:
    return _descend(500, "gram")


def batch() -> Callable[[], object]:
    import hardmax as hm

    problems = list(hm.data.fig9_oracle(100, 50))
    if hasattr(hm, "steps"):
        return lambda: hm.descend_batch(problems, hm.steps.Normalized(1.0), steps=1000, workers=1)
    return lambda: hm.descend_batch(problems, 1000, 1.0, workers=1)


def flow() -> Callable[[], object]:
    import hardmax as hm

    problem = hm.data.sphere(4, 6, 10, rng=0)
    return lambda: hm.flow(problem, until_log_time=1e7)


def margin() -> Callable[[], object]:
    import hardmax as hm

    problem = hm.data.gaussian(8, 8, 60, rng=0)
    selection = [0] * 8
    return lambda: hm.max_margin(problem, selection)


def margin_batch() -> Callable[[], object]:
    import numpy as np

    from hardmax.margin.batch import solve_batch

    rows = np.random.default_rng(0).normal(size=(200, 24, 5)) + np.array([2.0, 0, 0, 0, 0])
    return lambda: solve_batch(rows, workers=1)


def enumeration() -> Callable[[], object]:
    import hardmax as hm

    problem = hm.data.sphere(5, 6, 4, rng=0)
    return lambda: list(hm.feasible_selections(problem))


def nexttoken() -> Callable[[], object]:
    from hardmax.nexttoken import Samples, generate, train

    samples = Samples.from_sentences(generate(200, lag0=0.8, max_lag=4, max_length=12, rng=0).sentences)
    return lambda: train(samples, steps=500, rate=0.02)


def trainer() -> Callable[[], object]:
    import hardmax as hm

    train, corpus = hm.embeddings.train_embeddings, hm.embeddings.KLevel.surrogate().draw(512, rng=0)
    named = inspect.signature(train).parameters
    options = {"epochs": 10, "batch": 64, "rng": 0, "workers" if "workers" in named else "threads": 1}
    if "step" in named:
        return lambda: train(corpus, 256, hm.steps.AdamW(1e-3), **options)
    return lambda: train(corpus, 256, rate=1e-3, **options)


def solve() -> Callable[[], object]:
    command = [sys.executable, "-m", "hardmax", "solve", str(EXAMPLE)]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


CASES = {
    each.__name__: each
    for each in (primal, gram, batch, flow, margin, margin_batch, enumeration, nexttoken, trainer, solve)
}


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def serve(name: str) -> None:
    """Print the CPU seconds of one call, as often as asked by a line on standard input."""
    work = CASES[name]()
    work()
    calls = 1
    while (start := _spent(), [work() for _ in range(calls)], _spent() - start)[2] < LEAST:
        calls *= 2
    for _ in sys.stdin:
        start = _spent()
        for _ in range(calls):
            work()
        print((_spent() - start) / calls, flush=True)


def compare(name: str, folders: list[Path], turns: int) -> list[tuple[float, float]]:
    """CPU seconds of old and new, turn by turn."""
    running = []
    for folder in folders:
        environment = os.environ | {"PYTHONPATH": str(folder / "src"), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--serve", name]
        running.append(
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        )
    found = []
    for turn in range(turns):
        seconds = [0.0, 0.0]
        for k in (0, 1) if turn % 2 else (1, 0):
            each = running[k]
            assert each.stdin is not None
            assert each.stdout is not None
            each.stdin.write("once more\n")
            seconds[k] = float(each.stdout.readline())
        found.append((seconds[0], seconds[1]))
    for each in running:
        each.communicate()
    return found


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all if absent")
    parser.add_argument("--turns", type=int, default=3, help="of a pair of processes")
    parser.add_argument("--pairs", type=int, default=6, help="of processes")
    arguments = parser.parse_intermixed_args()
    started = time.monotonic()
    for name in arguments.cases or CASES:
        folders = [arguments.old.resolve(), arguments.new.resolve()]
        found = [turn for _ in range(arguments.pairs) for turn in compare(name, folders, arguments.turns)]
        low, middle, high = statistics.quantiles([new / old for old, new in found], n=4)
        least = min(old for old, _ in found), min(new for _, new in found)
        print(
            f"{name:<13} new/old {middle:5.2f} ({low:.2f} to {high:.2f})   "
            f"best {1e3 * least[0]:.3g} ms, {1e3 * least[1]:.3g} ms",
            flush=True,
        )
    turns = arguments.pairs * arguments.turns
    print(f"{turns} turns each, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
