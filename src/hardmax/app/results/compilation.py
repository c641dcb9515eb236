"""Compile every kernel beforehand, in several processes: for `doctor`, `make` and the playground.

Kernels come in parts. A part compiles the kernels of some modules that have a signature, and uses the others
once on something small. Processes share their work through the cache: a part waits for those whose
kernels it calls, so that no kernel is compiled twice. A file in the cache records that a part is complete.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.core.registry import cpu_target
from numba.extending import is_jitted

import hardmax as hm
from hardmax._lib import caching
from hardmax._lib.compiled import FirstClass, compile_declared
from hardmax._lib.compiling import Compiled
from hardmax._lib.kernels import Kernel
from hardmax._lib.parallel import cores
from hardmax._lib.pool import Pool, WorkerDied, command, serve
from hardmax.app.results.next_token_check import check
from hardmax.data.sentences import counting
from hardmax.margin.batch import solve_batch
from hardmax.margin.engines import part
from hardmax.nexttoken.relations import collocation
from hardmax.nexttoken.stages import stage_1
from hardmax.nexttoken.training import train
from hardmax.papers.max_margin.official import OFFICIAL, official_end
from hardmax.problem.losses import LOG, LOSSES, CompiledSlope
from hardmax.torch.probing.inputs import Inputs, rows_of

MOST = 8  # processes, each of some 300 MB
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Part(NamedTuple):
    """Some kernels: how to compile them, the parts to compile before, and the CPU time of that in seconds."""

    run: Callable[[], None]
    needs: tuple[str, ...]
    cost: float


class Compilation(NamedTuple):
    """The number of kernels that were compiled, and for each part that remains the reason."""

    kernels: int
    remaining: dict[str, str]


def remaining() -> list[str]:
    """Return the parts without a valid record, the most expensive first."""
    return sorted((name for name in PARTS if not _is_complete(name)), key=_order)


def compile_parts(
    parts: Iterable[str] | None = None,
    processes: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Compilation:
    """Compile parts in separate processes and return what was done.

    Args:
        parts: Names from `PARTS`; by default those that are `remaining`.
        processes: Number of processes, by default one per core.
        report: Called with the number of finished parts and of all parts, at the start and after each part.
    """
    waiting = remaining() if parts is None else sorted(parts, key=_order)
    if not waiting:
        return Compilation(0, {})
    total, kernels = len(waiting), 0
    count = min(processes or min(cores(), MOST), total)
    failed: dict[str, str] = {}
    running: dict[Future[Any], str] = {}
    if report is not None:
        report(0, total)
    with Pool(count, command(__name__), ONE_THREAD) as pool:
        while waiting or running:
            unfinished = {*waiting, *running.values()}
            ready = [part for part in waiting if not unfinished.intersection(PARTS[part].needs)]
            for part in ready[: count - len(running)]:
                waiting.remove(part)
                running[pool.submit(part)] = part
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                part = running.pop(future)
                try:
                    count_of_part, error = future.result()
                except WorkerDied:  # as one that runs out of memory
                    count_of_part, error = 0, "the process that compiled it ended"
                kernels += count_of_part
                if error is not None:
                    failed[part] = error
                if report is not None:
                    report(total - len(waiting) - len(running), total)
    return Compilation(kernels, failed)


def main() -> None:
    """Compile the parts that the driver names; answer with the number of kernels, and the error if any."""
    Compiled.may_say = False  # the driver has printed the message

    def answer(raw: bytes) -> bytes:
        before = Compiled.count
        error = compile_part(pickle.loads(raw))
        return pickle.dumps((Compiled.count - before, error))

    serve(answer)


def compile_part(name: str) -> str | None:
    """Compile one part in this process; return why it failed, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of training that is stopped after two steps
            PARTS[name].run()
        files = sorted(path.name for path in caching.used)
        caching.write(_record(name), caching.sealed(json.dumps(files).encode()))
    except Exception as error:  # whatever breaks here is for the doctor to report
        return " ".join(f"{type(error).__name__}: {error}".split())
    return None


def _is_complete(name: str) -> bool:
    record = _record(name)
    try:
        files = json.loads(caching.unsealed(record.read_bytes()))
        for file in files:
            caching.unsealed((record.parent / file).read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _record(name: str) -> Path:
    """Return the file that lists the kernels of a part on this processor."""
    processor = repr(cpu_target.target_context.codegen().magic_tuple())
    return caching.place().folder / f"{name}-{hashlib.sha256(processor.encode()).hexdigest()[:16]}.part"


def _order(name: str) -> float:
    """Order parts by the work that waits for them: their own and that of the parts that need them."""
    return -PARTS[name].cost - sum(part.cost for part in PARTS.values() if name in part.needs)


def _use(*modules: str) -> None:
    """Import modules of hardmax and compile all of their kernels that have a signature."""
    for module in modules:
        for item in vars(importlib.import_module(f"hardmax.{module}")).values():
            if isinstance(item, Kernel) and item.has_signature:
                compile_declared(item.compiled)
            elif is_jitted(item):
                compile_declared(item)
            elif isinstance(item, CompiledSlope | FirstClass):
                item.__wrapper_address__()


def _problem() -> Any:
    return hm.data.sphere(n=4, T=6, d=3, rng=0)


def _core() -> None:
    _use("_lib.arrays", "_lib.compiled", "problem.kernels", "dynamics.softmax", "dynamics.updates")
    _use("dynamics.forces", "dynamics.loop")
    for loss in LOSSES.values():  # kernels take the log loss as a function of log u
        if isinstance(loss.log_slope, CompiledSlope) and loss is not LOG:
            loss.log_slope.__wrapper_address__()
    for coordinates in ("primal", "gram", "qr"):
        hm.train(_problem(), hm.optim.Normalized(0.1), steps=2, coordinates=coordinates)


def _lanes() -> None:
    _use("dynamics.lanes.loops")
    hm.train([_problem()], hm.optim.Normalized(0.1), steps=2)


def _flow() -> None:
    _use("dynamics.field_kernels", "limits.stationary")
    hm.flow(_problem(), until_norm=2.0)


def _margin() -> None:
    _batch()
    list(hm.attractors(_problem()))


def _batch(**options: Any) -> None:
    solve_batch(np.random.default_rng(0).normal(size=(2, 4, 3)), **options)


def _sentences() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sentences.txt"
        file.write_text("A B A\nB C\nC A\n")
        check(file)
    counting.enter_slots(np.zeros(2, dtype=np.int64), np.zeros(4, dtype=np.int64))


def _next_token() -> None:
    for name in ("C-EX-1", "C-EXT-3"):  # the second needs signed steps too
        hm.nexttoken.analyze(hm.nexttoken.named_sentences(name))
        samples = hm.nexttoken.Samples.from_sentences(hm.nexttoken.named_sentences(name))
        train(samples, steps=50, rate=0.02)
        for W_ov in (stage_1(collocation(samples), steps=20, rate=0.1), np.eye(samples.V)):
            hm.gradient(samples.problem(W_ov), None)


def _text() -> None:
    for ngrams, label in ((1, "b"), (2, "c")):  # both solvers, two and three classes
        notes = [["a", "b", "c"]] * 3
        model = hm.text.AttentionClassifier(ngram_range=(1, ngrams)).fit(notes, ["a", "b", label])
        model.evaluate_top_k(["a b", "c a"])


def _probe() -> None:
    texts = Inputs(np.eye(3)[None], np.eye(3)[None], np.ones((1, 3, 3), dtype=bool))
    part(rows_of(texts, np.arange(3), np.arange(3)).gram(), np.arange(2))


def _official() -> None:
    for arithmetic in OFFICIAL:
        official_end([_problem()], arithmetic, steps=1)


TRAINER = ("one_layer", "minibatch.kernels")
PARTS = {
    "training": Part(_core, (), 11),
    "batches": Part(_lanes, ("training",), 4),
    "flow": Part(_flow, ("training",), 3),
    "margins": Part(_margin, ("training",), 4),
    "margins in l1 and linf": Part(lambda: _batch(norm="l1"), ("training", "margins"), 4),
    "sentences": Part(_sentences, ("training",), 5),
    "next-token training": Part(_next_token, ("training", "sentences", "margins"), 3),
    "embeddings": Part(lambda: _use(*(f"embeddings.{module}" for module in TRAINER)), ("training",), 4),
    "text classifier": Part(_text, (), 4),
    "probe": Part(_probe, ("training", "margins"), 0.3),
    "paper's own code": Part(_official, ("training",), 1),
}
