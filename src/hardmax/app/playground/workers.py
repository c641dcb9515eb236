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
from dataclasses import dataclass
from functools import cache
from typing import Any

from hardmax._lib.pool import READY, Child, command, serve
from hardmax.app.playground import protocol
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

    def __init__(self, worker: Sequence[str]) -> None:
        super().__init__(worker, {"OPENBLAS_NUM_THREADS": "1"})
        self.plain: bool | None = None  # not decided yet
        self.is_up = self.is_replaced = False

    def start(self, plain: bool, folder: str | None) -> bool:
        """Return whether it came up."""
        return self.ask(json.dumps({"plain": plain, "folder": folder}).encode(), STARTING) == READY

    @property
    def fate(self) -> str:
        """What became of it, in a few words."""
        if self.is_late:
            return f"it was not ready after {STARTING:g} seconds"
        if self.status is not None and self.status < 0:
            return f"its process was ended by signal {-self.status}"
        return f"its process ended with status {self.status}"


@dataclass(eq=False)
class _Place:
    """A question's place in the line for an engine."""

    page: str


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
        self._line: list[_Place] = []
        self._all: set[Engine] = set()
        self._busy: Counter[str] = Counter()
        self._change = threading.Condition()
        self._closed = False
        self._failures, self._failed_at, self._why = 0, -math.inf, ""
        self._retry: threading.Timer | None = None
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
            compiled = any(not engine.plain for engine in up)
            failed = self._failures >= RETRIES
        if compiled:
            state, text = "ready", ""
        elif failed and not up:
            state, text = "failed", self._failure()
        elif preparation.failed or failed:
            why = preparation.failed or self._why
            state, text = "slow", f"the kernels could not be compiled ({why}): answers stay slower"
        elif preparation.total and not preparation.ready:
            count = f"{preparation.done} of {preparation.total}"
            state, text = "compiling", f"compiling, {count}: answers are slower for now"
        elif up:
            state, text = "starting", "loading compiled kernels: answers are slower for now"
        else:
            state, text = "starting", "starting the engine"
        return {"state": state, "done": preparation.done, "total": preparation.total, "text": text}

    def crowded(self) -> str:
        """Return why a question cannot be taken when very many are waiting."""
        with self._change:
            if any(engine.is_up for engine in self._all):
                return "the engine is busy with other questions; ask again in a moment"
        return "the engine is starting; ask again in a moment"

    def close(self) -> None:
        """End every process."""
        with self._change:
            self._closed = True
            ended, self._all, self._ready = list(self._all), set(), []
            if self._retry is not None:
                self._retry.cancel()
            self._change.notify_all()
        for engine in ended:
            engine.end()
        self._preparation.close()
        for engine in ended:
            engine.close()

    def _take(self, page: str) -> Engine | str:
        """Return an engine for a page, or why there is none."""
        with self._change:
            place = _Place(page)
            self._line.append(place)
            try:
                return self._wait(place)
            finally:
                self._line.remove(place)
                self._change.notify_all()

    def _wait(self, place: _Place) -> Engine | str:
        until = time.monotonic() + PATIENCE
        while not self._closed:
            self._bury()
            first = next((each for each in self._line if self._may_take(each.page)), None)
            if first is place:
                self._busy[place.page] += 1
                engine = max(self._ready, key=lambda each: not each.plain)
                self._ready.remove(engine)
                if len(self._ready) < 2:
                    self._grow()
                return engine
            self._revive()
            if not self._all and self._retry is None:
                return self._failure()
            if not self._ready and self._is_starting():
                until = time.monotonic() + PATIENCE  # nobody is busy: wait, whatever it takes
                self._change.wait()
                continue
            left = until - time.monotonic()
            if left <= 0.0:
                return "the engine is busy with other questions; ask again in a moment"
            self._change.wait(left)
        return "the playground has ended; start it once more"

    def _may_take(self, page: str) -> bool:
        """Return whether a page may have an engine: one at work leaves the last of all engines to others."""
        free, own = len(self._ready), self._busy[page]
        return free > 1 or (free == 1 and (own == 0 or len(self._all) < self._most))

    def _is_starting(self) -> bool:
        return self._retry is not None or any(not engine.is_up for engine in self._all)

    def _revive(self) -> None:
        """Start an engine if there is none, unless too many starts failed a moment ago."""
        if not self._all:
            self._grow()

    def _is_resting(self) -> bool:
        return self._failures >= RETRIES and time.monotonic() - self._failed_at < REST

    def _failure(self) -> str:
        return (
            f"the engine cannot be started ({self._why}); the terminal may show the reason, "
            f"and the next attempt follows in {REST:g} seconds"
        )

    def _bury(self) -> None:
        """Replace engines that died while nobody asked them."""
        for engine in [each for each in self._ready if each.status is not None]:
            self._ready.remove(engine)
            self._all.discard(engine)
            engine.close()
            self._grow()

    def _give(self, engine: Engine, page: str, *, alive: bool) -> None:
        with self._change:
            self._busy[page] -= 1
            if not self._busy[page]:
                del self._busy[page]
            if alive and engine in self._all:
                self._ready.append(engine)
            else:
                self._all.discard(engine)
                self._grow()
            kept = engine in self._all
            self._change.notify_all()
        if not kept:
            engine.close()

    def _is_plain(self) -> bool:
        return not self._preparation.ready

    def _grow(self) -> None:
        """Start one more engine, if there may be one and none is starting; it reports when it is ready."""
        current = [engine for engine in self._all if engine.plain is None or engine.plain == self._is_plain()]
        if self._closed or len(current) >= self._most or self._retry is not None or self._is_resting():
            return
        if any(not engine.is_up for engine in current) or (current and not self._preparation.is_known):
            return
        try:
            engine = Engine(self._worker)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        self._all.add(engine)
        threading.Thread(target=self._await, args=(engine,), daemon=True).start()

    def _await(self, engine: Engine) -> None:
        with self._change:
            engine.plain = self._is_plain()
        up = engine.start(engine.plain, self._preparation.folder)
        ended: list[Engine] = []
        if not up:
            engine.close()
        with self._change:
            if engine in self._all and up:
                self._failures = 0
                engine.is_up = True
                self._ready.append(engine)
                if not engine.plain:
                    ended = self._replace()
                if len(self._all) < 2 or self._line or engine.plain != self._is_plain():
                    self._grow()  # the spare
            elif engine in self._all:
                self._all.discard(engine)
                self._fail(engine.fate)
            self._change.notify_all()
        for each in ended:
            each.close()

    def _replace(self) -> list[Engine]:
        """End plain engines; return those that are idle, to be closed. Who asked the others closes them."""
        plain = [engine for engine in self._all if engine.plain]
        idle = [engine for engine in self._ready if engine.plain]
        for engine in plain:
            engine.is_replaced = True
            engine.end()
        self._all.difference_update(plain)
        self._ready = [engine for engine in self._ready if not engine.plain]
        return idle

    def _fail(self, why: str) -> None:
        """Note a start that failed, and try again soon unless too many did."""
        self._failures += 1
        self._failed_at = time.monotonic()
        self._why = why
        if self._failures < RETRIES and not self._closed:
            self._retry = threading.Timer(PAUSE * self._failures, self._again)
            self._retry.daemon = True
            self._retry.start()

    def _again(self) -> None:
        with self._change:
            self._retry = None
            self._grow()
            self._change.notify_all()

    def _prepared(self) -> None:
        """Start a compiled engine as soon as the kernels are compiled, and a second plain one until then."""
        with self._change:
            if len(self._all) < 2 or (self._preparation.ready and any(each.plain for each in self._all)):
                self._grow()


@cache
def _tour() -> bytes:
    from hardmax.app.playground.scenes import tour

    return protocol.pack_answer(tour())


# -- the other side: a process that answers frames ----------------------------------------------------------

# Questions that a process answers before it reports that it is ready.
_WARM = {"keys": [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], "scores": [[1.0, 0.0], [1.0, 0.0]]}
_FIRST = (
    {"ask": "solve", "problem": _WARM},
    {"ask": "solve", "problem": _WARM, "norm": "linf"},
    {
        "ask": "train",
        "problem": _WARM,
        "starts": [[1.0, 1.0]],
        "rules": ["flow", "gd", "normalized", "sign", "adam"],
    },
    {"ask": "field", "problem": _WARM, "level": 0},
    {"ask": "check", "sentences": ["a b", "b a"]},
    {"ask": "words", "texts": [["a b", 1], ["b a", -1]], "epochs": 1},
)


def main() -> None:
    """Get ready as the first frame demands, report that, then answer what comes.

    The first frame decides how the engine runs: by compiled kernels, loaded from a folder where that is not
    the usual one, or by their plain source, which is slower, while they are being compiled.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    serve(_Engine().answer, greet=False)


class _Engine:
    """What answers, once the first frame has decided how."""

    reply: Callable[[bytes], bytes] | None = None

    def answer(self, raw: bytes) -> bytes:
        if self.reply is None:
            self.reply = _prepared(**json.loads(raw))
            return READY
        try:
            return self.reply(raw)
        except Exception as error:  # a mistake of ours must not end the page
            what = f"{type(error).__name__}: {error!s:.200}"
            return pack_refusal(f"the engine failed ({what}); try another setting")


def _prepared(plain: bool, folder: str | None) -> Callable[[bytes], bytes]:
    import numba
    import numpy as np

    if plain:
        numba.config.DISABLE_JIT = 1
        np.seterr(all="ignore")  # as compiled arithmetic
    elif folder:
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder
    from hardmax.app.playground.engine import reply

    for message in _FIRST[:1] if plain else _FIRST:
        reply(json.dumps({"v": 1, **message}).encode())
    return reply
