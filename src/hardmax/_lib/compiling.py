"""Reports about compiling: a line while it happens, and one if what is compiled cannot be kept."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from functools import cache
from typing import Any

MESSAGE = "hardmax: compiling kernels, once per user and version, some seconds to a minute ..."


class Compiled:
    """How many kernels of hardmax this process has compiled, and how it goes about compiling."""

    count = 0
    may_say = True  # --quiet takes it back, and so does a worker, whose driver speaks
    warned = False
    hurries = False  # a command: what has little to do is not compiled


@cache
def listen() -> None:
    """Have numba report compilations; called before the first kernel is made."""
    from numba.core import event
    from numba.core.bytecode import FunctionIdentity

    from hardmax._lib import caching

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore]
        depth = 0  # a kernel's own functions are compiled within its compilation
        collects = False

        def on_start(self, event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                caching.mark()
                self.collects = gc.isenabled()
                gc.disable()  # a tenth of the time: the compiler makes many objects, and most of them stay
            _note(event.data["dispatcher"].py_func.__module__ or "")

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                caching.unmark()
                if self.collects:
                    gc.enable()

    event.register("numba:compile", Listener())
    # numba numbers functions within a process and makes the number part of the symbol. Kernels of several
    # processes are loaded into one, where two functions must not share a symbol.
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(5), "big") << 20)


def _note(module: str) -> None:
    if not module.startswith("hardmax."):  # a user's own function
        return
    Compiled.count += 1
    if Compiled.count == 1 and Compiled.may_say:
        print(MESSAGE, file=sys.stderr, flush=True)


def warn(why: str) -> None:
    """Print once per process that compiled kernels cannot be kept."""
    from hardmax._lib.caching import ADVICE

    if not Compiled.warned and Compiled.may_say:
        print(f"hardmax: compiled kernels are not kept: {why}; {ADVICE}", file=sys.stderr, flush=True)
    Compiled.warned = True
