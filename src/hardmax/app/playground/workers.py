"""Engines in processes, one kept ready: a question that passes its deadline ends its process only.

The first engine runs the plain source of the kernels, which starts soonest, with a longer deadline. Once they
are compiled and loaded, compiled engines replace plain ones, and a question that a plain one has not answered
by then is asked again. No deadline includes compiling.
"""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

from hardmax._lib.pool import READY, Child, command, serve
from hardmax.app.playground import protocol
from hardmax.app.playground.page import template
from hardmax.app.playground.preparation import COMPILER, Preparation
from hardmax.app.playground.protocol import pack_refusal

MOST = 3  # processes; one page never holds the last that is free
SECONDS = 20.0  # of one question
PLAIN = 10.0  # times as long for an engine that is not compiled
PATIENCE = 20.0  # seconds of waiting for a process that is busy
STARTING = 120.0  # seconds to import what is needed and load compiled kernels
RETRIES = 3  # starts in a row that may fail
PAUSE = 0.5  # seconds before the second start, twice that before the third
REST = 10.0  # seconds until the next start, when all retries failed
SHORT = 200  # bytes of a question that Workers answer themselves
WORKER = tuple(command(__name__))


class Engine(Child):
    """A process that answers one question at a time, compiled or ``plain``."""

    def __init__(self, worker: Sequence[str], plain: bool) -> None:
        super().__init__(worker, {"OPENBLAS_NUM_THREADS": "1"})
        self.plain = plain
        self.is_up = self.is_replaced = False

    def start(self, folder: str | None) -> bool:
        """Return whether it came up."""
        return self.ask(json.dumps({"plain": self.plain, "folder": folder}).encode(), STARTING) == READY

    @property
    def fate(self) -> str:
        """How it ended, in a few words."""
        if self.is_late:
            return f"it was not ready after {STARTING:g} seconds"
        if self.status is not None and self.status < 0:
            return f"its process was ended by signal {-self.status}"
        return f"its process ended with status {self.status}"


class Workers:
    """Up to ``most`` engines; while one works another is ready or getting ready."""

    def __init__(
        self,
        most: int = MOST,
        seconds: float = SECONDS,
        *,
        worker: Sequence[str] = WORKER,
        compiler: Sequence[str] = COMPILER,
    ) -> None:
        self.seconds, self._most, self._worker = seconds, most, worker
        self._ready: list[Engine] = []
        self._all: set[Engine] = set()
        self._starting: set[bool] = set()  # kinds of engines, plain or not, that a thread is starting
        self._line: dict[int, str] = {}  # the page of each question that waits for an engine
        self._tickets = count()
        self._busy: Counter[str] = Counter()
        self._change = threading.Condition()
        self._closed = False
        self._failed_at, self._why = -math.inf, ""  # of the last attempt to start an engine
        self._preparation = Preparation(compiler, self._prepared)
        self._preparation.start()
        with self._change:
            self._grow()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, raw: bytes, page: str = "") -> bytes:
        """Return the answer to a question of a page; a refusal if it takes too long."""
        answer = self.own(raw)
        while answer is None:
            engine = self._take(page)
            if isinstance(engine, str):
                return pack_refusal(engine)
            seconds = self.seconds * (PLAIN if engine.plain else 1.0)
            answer = engine.ask(raw, seconds)
            self._give(engine, page, alive=answer is not None)
            if answer is None and not engine.is_replaced:
                why = f"the engine died ({engine.fate}); ask for less, or once more"
                if engine.is_late:
                    why = f"this took longer than {seconds:g} seconds and was stopped; ask for less"
                return pack_refusal(why)
        return answer

    def own(self, raw: bytes) -> bytes | None:
        """Return the answer to a question that needs no engine, so that the page is never empty, or None."""
        if len(raw) > SHORT:
            return None
        try:
            name = protocol.read(raw).get("ask")
        except ValueError:
            return None
        if name == "status":
            return protocol.pack_answer(self.status())
        return _tour() if name == "tour" else None

    def status(self) -> dict[str, Any]:
        """Return how far the engines are: starting, compiling, ready, slow for good, or failed."""
        preparation = self._preparation
        with self._change:
            self._revive()
            up = [engine for engine in self._all if engine.is_up]
            why = preparation.failed or self._why
        if any(not engine.plain for engine in up):
            state, text = "ready", ""
        elif self._why and not up:
            state, text = "failed", self._failure()
        elif why:
            state, text = "slow", f"the kernels could not be compiled ({why}): answers stay slower"
        elif preparation.total and not preparation.ready:
            done = f"{preparation.done} of {preparation.total}"
            state, text = "compiling", f"compiling, {done}: answers are slower for now"
        elif up:
            state, text = "starting", "loading compiled kernels: answers are slower for now"
        else:
            state, text = "starting", "starting the engine"
        return {"state": state, "done": preparation.done, "total": preparation.total, "text": text}

    def crowded(self) -> str:
        """Return why a question is refused when too many are waiting."""
        with self._change:
            state = "busy with other questions" if any(engine.is_up for engine in self._all) else "starting"
        return f"the engine is {state}; ask again in a moment"

    def close(self) -> None:
        """End every process."""
        with self._change:
            self._closed = True
            engines, self._all, self._ready = self._all, set(), []
            self._change.notify_all()
        for engine in engines:
            engine.end()
        self._preparation.close()
        for engine in engines:
            engine.close()

    def _take(self, page: str) -> Engine | str:
        """Return an engine for a page, or why there is none."""
        with self._change:
            ticket = next(self._tickets)
            self._line[ticket] = page
            try:
                return self._wait(ticket, page)
            finally:
                del self._line[ticket]
                self._change.notify_all()

    def _wait(self, ticket: int, page: str) -> Engine | str:
        until = time.monotonic() + PATIENCE
        while not self._closed:
            for engine in [engine for engine in self._ready if engine.status is not None]:
                self._drop(engine)  # it died while it had no question
            if next((k for k, waiting in self._line.items() if self._may_take(waiting)), None) == ticket:
                self._busy[page] += 1
                engine = max(self._ready, key=lambda engine: not engine.plain)
                self._ready.remove(engine)
                if len(self._ready) < 2:
                    self._grow()
                return engine
            self._revive()
            if not self._all and not self._starting:
                return self._failure()
            is_starting = bool(self._starting) or any(not engine.is_up for engine in self._all)
            if not self._ready and is_starting:
                until = time.monotonic() + PATIENCE  # no engine is busy: wait, whatever it takes
                self._change.wait()
            elif until > time.monotonic():
                self._change.wait(until - time.monotonic())
            else:
                return "the engine is busy with other questions; ask again in a moment"
        return "the playground has ended; start it once more"

    def _may_take(self, page: str) -> bool:
        """Return whether a page may have an engine: one at work leaves the last of all engines to others."""
        free, busy = len(self._ready), self._busy[page]
        return free > 1 or (free == 1 and (busy == 0 or len(self._all) < self._most))

    def _revive(self) -> None:
        """Start an engine if there is none, unless too many starts failed a moment ago."""
        if not self._all:
            self._grow()

    def _failure(self) -> str:
        return (
            f"the engine cannot be started ({self._why}); the terminal may show the reason, "
            f"and the next attempt follows in {REST:g} seconds"
        )

    def _give(self, engine: Engine, page: str, *, alive: bool) -> None:
        """Take back an engine that has answered, or replace one that died."""
        with self._change:
            self._busy -= Counter([page])
            if alive and engine in self._all:
                self._ready.append(engine)
            else:
                self._drop(engine)
            self._change.notify_all()

    def _drop(self, engine: Engine) -> None:
        """Close an engine and start another one."""
        self._all.discard(engine)
        if engine in self._ready:
            self._ready.remove(engine)
        engine.close()
        self._grow()

    def _grow(self) -> None:
        """Start one more engine in a thread, if there may be one and none of its kind is starting."""
        plain = not self._preparation.ready
        current = [engine for engine in self._all if engine.plain == plain]
        is_resting = time.monotonic() - self._failed_at < REST
        if self._closed or is_resting or plain in self._starting or len(current) >= self._most:
            return
        if current and not self._preparation.is_known:
            return
        self._starting.add(plain)
        threading.Thread(target=self._start, args=(plain,), daemon=True).start()

    def _start(self, plain: bool) -> None:
        """Start an engine, in several attempts."""
        for attempt in range(1, RETRIES + 1):
            why = self._attempt(plain)
            with self._change:
                if why and attempt < RETRIES and not self._closed:
                    self._change.wait_for(lambda: self._closed, PAUSE * attempt)
                    continue
                self._starting.discard(plain)
                self._why = why
                self._failed_at = time.monotonic() if why else -math.inf
                # the spare, or a compiled engine if the kernels were compiled meanwhile
                is_short = not self._ready or len(self._all) < 2 or bool(self._line)
                if not why and (is_short or plain == self._preparation.ready):
                    self._grow()
                self._change.notify_all()
                return

    def _attempt(self, plain: bool) -> str:
        """Start an engine; return why it did not come up, or nothing."""
        with self._change:
            if self._closed:
                return "the playground has ended"
            try:
                engine = Engine(self._worker, plain)
            except OSError as error:
                return error.strerror or str(error)
            self._all.add(engine)
        up = engine.start(self._preparation.folder)
        with self._change:
            if engine in self._all and up:
                engine.is_up = True
                self._ready.append(engine)
                if not plain:
                    self._replace()
                return ""
            is_unwanted = engine not in self._all
            self._all.discard(engine)
        engine.close()
        return "" if is_unwanted else engine.fate

    def _replace(self) -> None:
        """End plain engines. Those that are idle are closed here, the others by those who use them."""
        for engine in [engine for engine in self._all if engine.plain]:
            engine.is_replaced = True
            engine.end()
            self._all.discard(engine)
            if engine in self._ready:
                self._ready.remove(engine)
                engine.close()

    def _prepared(self) -> None:
        """Start a compiled engine as soon as the kernels are compiled, and a second plain one until then."""
        with self._change:
            if len(self._all) < 2 or (self._preparation.ready and any(engine.plain for engine in self._all)):
                self._grow()


@cache
def _tour() -> bytes:
    from hardmax.app.playground.scenes import tour

    return protocol.pack_answer(tour())


# -- the other side: a process that answers frames ----------------------------------------------------------


def main() -> None:
    """Get ready as the first frame demands, report that, then answer the questions that follow.

    The first frame decides how the engine runs: by compiled kernels, loaded from a folder where that is not
    the usual one, or by their plain source, which is slower, while they are being compiled.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    reply: Callable[[bytes], bytes] | None = None

    def answer(raw: bytes) -> bytes:
        nonlocal reply
        if reply is None:
            reply = _prepared(**json.loads(raw))
            return READY
        try:
            return reply(raw)
        except Exception as error:  # a mistake of ours must not end the page
            reason = f"{type(error).__name__}: {error!s:.200}"
            return pack_refusal(f"the engine failed ({reason}); try another setting")

    serve(answer, greet=False)


def _prepared(plain: bool, folder: str | None) -> Callable[[bytes], bytes]:
    import numba
    import numpy as np

    if plain:
        numba.config.DISABLE_JIT = 1
        np.seterr(all="ignore")  # as compiled arithmetic
    elif folder:
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder
    from hardmax.app.playground.engine import reply

    # questions that it answers before it reports that it is ready
    questions = json.loads(template("first_questions.json"))
    for question in questions[:1] if plain else questions:
        reply(json.dumps(question).encode())
    return reply
