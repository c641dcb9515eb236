"""The server's side of compiling: follow the process that compiles, and start it again if it dies."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, cast

from hardmax._lib.pool import command, search_path

COMPILER = tuple(command("hardmax.app.playground.compiler"))
ATTEMPTS = 3  # of a process that dies
ENDING = 2.0  # seconds for it to end by itself


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
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process that compiles."""
        threading.Thread(target=self._follow, daemon=True).start()

    @property
    def is_known(self) -> bool:
        """Whether it has been found out what there is to compile."""
        return self.ready or self.total > 0 or self.failed is not None

    def close(self) -> None:
        """End the process and those that it started."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is None:
            return
        _close(process)
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _follow(self) -> None:
        status = 0
        for _ in range(ATTEMPTS):
            with self._lock:
                if self._closed:
                    return
                process = self._process = self._start()
            with cast(IO[str], process.stdout) as lines:
                for line in lines:
                    with contextlib.suppress(ValueError):
                        self._hear(json.loads(line))
            status = process.wait()
            _close(process)
            if self.ready or self.failed or self._closed:
                return
        self._hear({"failed": f"the process that compiles ended with status {status}"})

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": search_path()},
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal is for the server alone
            creationflags=getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),
        )

    def _hear(self, content: dict[str, Any]) -> None:
        if "done" in content:
            self.done, self.total = content["done"], content["total"]
        self.folder = content.get("folder")
        self.failed = content.get("failed")
        self.ready = content.get("ready", False)
        self._changed()


def _close(process: subprocess.Popen[str]) -> None:
    """Close the standard input of a process, at which the compiler ends."""
    with contextlib.suppress(OSError):
        cast(IO[str], process.stdin).close()
