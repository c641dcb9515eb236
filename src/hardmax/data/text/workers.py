"""Processes for the two tasks of `words.py`, which hold Python's lock and so gain nothing from threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hardmax._lib.children import search_path
from hardmax._lib.parallel import cores
from hardmax.data.text import words


class Workers:
    """``count`` processes, one for each core by default, started when there are two blocks to share.

    Each is a fresh interpreter rather than a fork, which never inherits the threads of compiled code, and
    ends with the process that started it, however that ends.
    """

    def __init__(self, count: int | None) -> None:
        self.count = count or cores()
        self._threads = ThreadPoolExecutor(self.count, thread_name_prefix="hardmax-text")
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was buffered for a process that is gone
                        pipe.close()

    def run(self, task: str, blocks: Iterable[list[str]]) -> Iterator[Any]:
        """The task's answer to every block, in their order; a few blocks are taken in advance."""
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        if self.count == 1 or len(first) < 2:
            yield from map(words.TASKS[task], itertools.chain(first, blocks))
            return
        waiting: deque[Future[Any]] = deque()
        for block in itertools.chain(first, blocks):
            waiting.append(self._threads.submit(self._ask, task, block))
            if len(waiting) > 2 * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _ask(self, task: str, block: list[str]) -> Any:
        process: subprocess.Popen[bytes] | None = getattr(self._mine, "process", None)
        if process is None:
            process = self._mine.process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((task, block), process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            process.kill()
            raise OSError(
                f"a worker ended (exit code {process.wait()}), perhaps for want of memory; what is finished "
                "is in the cache: call again, with fewer workers"
            ) from None

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:  # nobody would end it
                raise OSError("the workers are closing")
            process = subprocess.Popen(
                [sys.executable, "-P", str(Path(words.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": search_path()},
                process_group=0,  # Ctrl-C is for the process that started it
            )
            self._processes.append(process)
        return process
