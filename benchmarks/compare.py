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
import importlib
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
    return _trained(problem, "Normalized", rate, steps=steps, **options)


def _trained(
    problem: object, name: str, rate: float, *, factors: int = 0, joint: bool = False, **options: object
) -> object:
    """Training by an optimizer, in the names of 0.3 or of 0.2."""
    import hardmax as hm

    if hasattr(hm, "optim"):
        model = problem.factors(rank=factors) if factors else problem.joint() if joint else problem
        return hm.train(model, getattr(hm.optim, name)(rate), **options)
    verb = hm.descend_batch if isinstance(problem, list) else hm.descend
    more = {"factors": factors} if factors else {"wrt": ("p", "v")} if joint else {}
    return verb(problem, getattr(hm.steps, name)(rate), **more, **options)


def primal() -> Callable[[], object]:
    return _descend(10, "primal")


def gram() -> Callable[[], object]:
    return _descend(500, "gram")


def batch() -> Callable[[], object]:
    import hardmax as hm

    problems = list(hm.data.fig9_oracle(100, 50))
    return lambda: _trained(problems, "Normalized", 1.0, steps=1000, workers=1)


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
    every = hm.selections if hasattr(hm, "selections") else hm.feasible_selections
    return lambda: list(every(problem))


def nexttoken() -> Callable[[], object]:
    from hardmax.nexttoken import Samples, generate
    from hardmax.nexttoken.training import train

    samples = Samples.from_sentences(generate(200, lag0=0.8, max_lag=4, max_length=12, rng=0).sentences)
    return lambda: train(samples, steps=500, rate=0.02)


def trainer() -> Callable[[], object]:
    import hardmax as hm

    train, corpus = (
        hm.embeddings.minibatch.train_embeddings,
        hm.embeddings.KLevel.surrogate().draw(512, rng=0),
    )
    named = inspect.signature(train).parameters
    options = {"epochs": 10, "batch": 64, "rng": 0, "workers" if "workers" in named else "threads": 1}
    if "step" in named:
        rules = hm.optim if hasattr(hm, "optim") else hm.steps
        return lambda: train(corpus, 256, rules.AdamW(1e-3), **options)
    return lambda: train(corpus, 256, rate=1e-3, **options)


def adam_batch() -> Callable[[], object]:
    import hardmax as hm

    problems = [hm.data.sphere(4, 6, 10, rng=seed) for seed in range(50)]
    return lambda: _trained(problems, "Adam", 0.1, steps=1000, workers=1)


def joint() -> Callable[[], object]:
    import hardmax as hm

    problem = hm.data.sphere(4, 6, 10, rng=0)
    return lambda: _trained(problem, "Normalized", 0.1, joint=True, steps=5000, record=())


def factors() -> Callable[[], object]:
    import numpy as np

    import hardmax as hm

    rng = np.random.default_rng(0)
    tokens, queries, scores = rng.normal(size=(6, 5, 8)), rng.normal(size=(6, 8)), rng.normal(size=(6, 5))
    problem = hm.Problem.from_queries(tokens, queries, scores)
    start = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    return lambda: _trained(problem, "Normalized", 0.1, factors=3, steps=5000, start=start, record=())


def _corpus(n: int, d: int) -> tuple[object, tuple[object, object, object]]:
    import hardmax as hm

    corpus = hm.embeddings.KLevel.surrogate().draw(n, rng=0)
    return corpus, hm.embeddings.initial_vectors(corpus.S, d, rng=1)


def _found(*names: str) -> Callable[..., object]:
    """The function of hardmax.embeddings that has one of these names."""
    for name in names:
        module, function = name.split(".")
        try:
            return getattr(importlib.import_module(f"hardmax.embeddings.{module}"), function)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"no {' or '.join(names)} in this checkout")


def two_layers() -> Callable[[], object]:
    import hardmax as hm

    corpus, vectors = _corpus(32, 16)
    state = hm.embeddings.TwoLayerGram.from_vectors(*vectors)
    descend = _found("two_layer.descend_two_layer", "two_layer_gram.descend_two_layer")
    return lambda: descend(corpus, state, steps=10, rate=0.1, record=[10])


def embeddings() -> Callable[[], object]:
    corpus, vectors = _corpus(128, 64)
    descend = _found("one_layer.descend_embeddings", "descent.descend_embeddings")
    return lambda: descend(corpus, *vectors, steps=200, rate=0.1, record=[200])


def sweep() -> Callable[[], object]:
    import hardmax as hm

    grid = {"experiment": ["sphere"], "d": [5, 20]}
    function = "hardmax.trials.experiments:built_in"
    return lambda: hm.sweep(function, grid, 100, batched=True, workers=0)


def store() -> Callable[[], object]:
    import tempfile

    import hardmax as hm

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder:
            return hm.sweep(_nothing, {"a": [1, 2]}, 5000, store=f"{folder}/trials.sqlite", workers=0)

    return run


def _nothing(parameters: dict[str, object], seed: int) -> dict[str, object]:
    return {"x": seed % 7, "odd": seed % 2 == 1}


def texts() -> Callable[[], object]:
    import tempfile

    import numpy as np

    from hardmax.embeddings import text_corpus

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice([*"abcdefghij"], size=5)) for _ in range(500)]
    rows = [f"{' '.join(rng.choice(words, size=100))},{k % 2}" for k in range(500)]

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HARDMAX_CACHE"] = f"{folder}/cache"  # an empty one
            file = Path(folder, "reviews.csv")
            file.write_text("text,label\n" + "\n".join(rows))
            least = "min_count" if "min_count" in inspect.signature(text_corpus).parameters else "least"
            return text_corpus(file, **{least: 5}, workers=1)

    return run


def classifier() -> Callable[[], object]:
    import numpy as np

    import hardmax as hm

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice([*"abcdefghij"], size=5)) for _ in range(300)]
    texts = [" ".join(rng.choice(words, size=60)) for _ in range(400)]
    labels = [int(words[0] in text or words[1] in text) for text in texts]
    return lambda: hm.text.AttentionClassifier(n_jobs=1).fit(texts, labels)


def solve() -> Callable[[], object]:
    command = [sys.executable, "-m", "hardmax", "solve", str(EXAMPLE)]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


CASES = {
    each.__name__: each
    for each in (
        primal,
        gram,
        batch,
        adam_batch,
        joint,
        factors,
        flow,
        margin,
        margin_batch,
        enumeration,
        nexttoken,
        trainer,
        embeddings,
        two_layers,
        sweep,
        store,
        texts,
        classifier,
        solve,
    )
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
