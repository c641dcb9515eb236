"""Engines in processes, one kept ready: a question that passes its deadline ends its process only."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from hardmax.playground.protocol import refused
from hardmax.playground.worker import READY, receive, send

MOST = 3  # processes; one page never holds the last that is free
SECONDS = 20.0  # of one question
PATIENCE = 20.0  # seconds of waiting for a process
STARTING = 120.0  # seconds for the first kernels to be compiled


class Engine:
    """A process that answers one question at a time."""

    def __init__(self) -> None:
        source = str(Path(__file__).parents[2])
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hardmax.playground.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal is for the server alone
        )
        self._in, self._out = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def wait(self) -> bool:
        """Whether it came up."""
        return self._within(STARTING, lambda: receive(self._out)) == READY

    def ask(self, raw: bytes, seconds: float) -> bytes | None:
        """The answer; None if it was ended at its deadline, or died."""

        def both() -> bytes | None:
            send(self._in, raw)
            return receive(self._out)

        return self._within(seconds, both)

    def _within(self, seconds: float, action: Callable[[], bytes | None]) -> bytes | None:
        timer = threading.Timer(seconds, self.end)
        timer.daemon = True
        timer.start()
        try:
            return action()
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def end(self) -> None:
        """End the process, at once."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it and let go of its pipes."""
        self.end()
        self._process.wait()
        for stream in (self._in, self._out):
            with contextlib.suppress(OSError):
                stream.close()


class Workers:
    """Up to ``most`` engines; while one works another is ready or getting ready.

    >>> from hardmax.playground.workers import Workers
    >>> with Workers() as workers:
    ...     workers.ask(b"[]")
    b'{"v": 1, "ok": false, "error": "a message must be a JSON object, got list"}'
    """

    def __init__(self, most: int = MOST, seconds: float = SECONDS) -> None:
        self.seconds, self._most = seconds, most
        self._ready: list[Engine] = []
        self._all: set[Engine] = set()
        self._busy: Counter[str] = Counter()
        self._change = threading.Condition()
        self._closed = False
        self._grow()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, raw: bytes, page: str = "") -> bytes:
        """The answer to a question of a page; a refusal if it takes too long."""
        engine = self._take(page)
        if engine is None:
            return refused("the engine is busy with other questions; ask again in a moment")
        answered = engine.ask(raw, self.seconds)
        self._give(engine, page, alive=answered is not None)
        if answered is None:
            return refused(f"this took longer than {self.seconds:g} seconds and was stopped; ask for less")
        return answered

    def close(self) -> None:
        """End every process."""
        with self._change:
            self._closed = True
            ended, self._all, self._ready = list(self._all), set(), []
            self._change.notify_all()
        for engine in ended:
            engine.close()

    def _take(self, page: str) -> Engine | None:
        until = time.monotonic() + PATIENCE
        with self._change:
            while not self._closed:
                if self._may_take(page):
                    self._busy[page] += 1
                    engine = self._ready.pop()
                    if len(self._ready) < 2:
                        self._grow()
                    return engine
                starting = not self._ready and len(self._all) > sum(self._busy.values())
                left = until + (STARTING if starting else 0.0) - time.monotonic()
                if left <= 0.0 or not self._change.wait(left):
                    return None
        return None

    def _may_take(self, page: str) -> bool:
        """A page at work leaves the last engine to others."""
        free, own = len(self._ready), self._busy[page]
        return free > 1 or (free == 1 and own == 0)

    def _give(self, engine: Engine, page: str, *, alive: bool) -> None:
        with self._change:
            self._busy[page] -= 1
            if not self._busy[page]:
                del self._busy[page]
            if alive and not self._closed:
                self._ready.append(engine)
            else:
                self._all.discard(engine)
                self._grow()
            self._change.notify_all()
        if not alive:
            engine.close()

    def _grow(self) -> None:
        """One engine more, if there may be one; it says when it is ready."""
        if self._closed or len(self._all) >= self._most:
            return
        engine = Engine()
        self._all.add(engine)
        threading.Thread(target=self._await, args=(engine,), daemon=True).start()

    def _await(self, engine: Engine) -> None:
        up = engine.wait()
        with self._change:
            if up and not self._closed:
                self._ready.append(engine)
                if len(self._all) < 2:
                    self._grow()  # the spare
            else:
                self._all.discard(engine)
            self._change.notify_all()
        if not up:
            engine.close()
