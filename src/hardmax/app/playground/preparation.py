"""Compile what the playground needs in a process of low priority, while plain engines answer.

The process prints lines of JSON: ``{"done": 0, "total": 9}`` at the start and after each part, and at the end
either ``{"ready": true, "folder": null}`` or ``{"failed": "a sentence"}``. ``folder`` names a temporary
folder of compiled kernels where the user's cache cannot be written to; the process then stays, and removes
the folder when its standard input ends. If it dies it is started again, and it never outlives the process
that started it by more than one part.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hardmax._lib.pool import Child, command

COMPILER = tuple(command(__name__))
ATTEMPTS = 3  # of a process that dies
ENDING = 2.0  # seconds for it to end by itself

UNUSED = ("joint training", "text classifier", "probe", "paper's own code")  # parts of `compilation`
NICENESS = 10  # engines and the browser go first
LOW = getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0)  # the same on Windows


class Preparation:
    """How far compiling is: unknown, some parts of all, ready, or failed. There is no deadline.

    ``changed`` is called whenever that changes, in another thread.
    """

    def __init__(self, compiler: Sequence[str], changed: Callable[[], None]) -> None:
        self.done = self.total = 0
        self.folder: str | None = None  # of the compiled kernels, where it is not the usual one
        self.ready = False
        self.failed: str | None = None
        self._closed = False
        self._command, self._changed = list(compiler), changed
        self._lock = threading.Lock()
        self._process: Child | None = None

    def start(self) -> None:
        """Start the process that compiles."""
        threading.Thread(target=self._follow, daemon=True).start()

    @property
    def is_known(self) -> bool:
        """Whether the parts that remain to be compiled are known."""
        return self.ready or self.total > 0 or self.failed is not None

    def close(self) -> None:
        """End the process and those that it started."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.release(ENDING)

    def _follow(self) -> None:
        for _ in range(ATTEMPTS):
            with self._lock:
                if self._closed:
                    return
                process = self._process = Child(self._command, flags=LOW)
            for line in process.lines():
                with contextlib.suppress(ValueError):
                    self._note(json.loads(line))
            process.release(ENDING)
            process.close()
            if self.ready or self.failed or self._closed:
                return
        self._note({"failed": f"the process that compiles ended with status {process.status}"})

    def _note(self, report: dict[str, Any]) -> None:
        self.done, self.total = report.get("done", self.done), report.get("total", self.total)
        self.folder = report.get("folder")
        self.failed = report.get("failed")
        self.ready = report.get("ready", False)
        self._changed()


# -- the other side: the process that compiles -------------------------------------------------------------


def main() -> None:
    """Compile, report, and end with the process that started this one."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # only reports go to standard output, not the prints of a library

    def interrupt_at_end() -> None:
        os.read(0, 1)
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            os._exit(0)

    def report(**content: Any) -> None:
        print(json.dumps(content), file=lines, flush=True)

    parent = threading.Thread(target=interrupt_at_end, daemon=True)
    parent.start()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        if prepare(report):
            parent.join()


def prepare(report: Callable[..., None]) -> bool:
    """Compile what is not in the cache; return whether this process must stay to keep the folder."""
    import numba

    from hardmax._lib import caching

    try:
        from hardmax.app.results.compilation import compile_parts, remaining

        chosen = caching.place()
        missing = [] if numba.config.DISABLE_JIT else [part for part in remaining() if part not in UNUSED]
        if missing and chosen.lasts and (why := caching.unwritable(chosen.folder)):
            chosen = caching.lend(why)
        if missing and chosen.refused:
            caching.warn("; ".join(chosen.refused))
    except (ImportError, ValueError) as error:
        report(failed=str(error))
        return False
    outcome = compile_parts(missing, report=lambda done, total: report(done=done, total=total))
    if outcome.remaining:
        report(failed="; ".join(f"{part}: {why}" for part, why in outcome.remaining.items()))
        return False
    report(ready=True, folder=None if chosen.lasts else str(chosen.folder))
    return not chosen.lasts
