"""A process that compiles what the playground needs, at low priority, while plain engines answer.

It prints lines of JSON: ``{"done": 0, "total": 9}`` at the start and after each part, and at the end either
``{"ready": true, "folder": null}`` or ``{"failed": "a sentence"}``. ``folder`` names a temporary folder of
compiled kernels where the user's cache cannot be written to; this process then stays, and removes the folder
when its standard input ends. It never outlives the process that started it by more than one part.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

# The parts of hardmax.app.results.compilation that questions of the page use.
NEEDED = (
    "training",
    "optimizers",
    "batches",
    "batches by optimizer",
    "flow",
    "margins",
    "margins in l1 and linf",
    "sentences",
    "next-token training",
    "embeddings",
)
NICENESS = 10  # engines and the browser go first


def main() -> None:
    """Compile, report, and end with the process that started this one."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not a report
    parent = threading.Thread(target=_interrupt_at_end, daemon=True)
    parent.start()

    def tell(**content: Any) -> None:
        print(json.dumps(content), file=lines, flush=True)

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        if prepare(tell):
            parent.join()


def _interrupt_at_end() -> None:
    os.read(0, 1)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        os._exit(0)


def prepare(tell: Callable[..., None]) -> bool:
    """Compile what is not in the cache; return whether this process must stay to keep the folder."""
    import numba

    from hardmax._lib import caching
    from hardmax.app.results.compilation import compile_parts, remaining

    try:
        chosen = caching.place()
        missing = [] if numba.config.DISABLE_JIT else [part for part in remaining() if part in NEEDED]
        if missing and chosen.lasts and (why := caching.unwritable(chosen.folder)):
            chosen = caching.lend(why)
        if missing and chosen.refused:
            caching.warn("; ".join(chosen.refused))
    except ValueError as error:
        tell(failed=str(error))
        return False
    made = compile_parts(missing, report=lambda done, total: tell(done=done, total=total))
    if made.remaining:
        tell(failed="; ".join(f"{part}: {why}" for part, why in made.remaining.items()))
        return False
    tell(ready=True, folder=None if chosen.lasts else str(chosen.folder))
    return not chosen.lasts
