"""Say that kernels are being compiled: else the first use of an installation is silent for half a minute.

numba reports a compilation only where its cache has nothing, so later uses say nothing.
"""

import sys
from typing import Any

MESSAGE = "hardmax: compiling kernels, once per installation, half a minute to a minute ..."


class Compiled:
    """How many kernels of hardmax this process has compiled, and whether it may say so."""

    count = 0
    may_say = True  # --quiet takes it back, and so does a worker, whose driver speaks


def listen() -> None:
    """Have numba report compilations; called by the one module that all others with kernels import."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore]
        def on_start(self, event: Any) -> None:
            _note(event.data["dispatcher"].py_func.__module__ or "")

        def on_end(self, event: Any) -> None:
            """Results follow; nothing is to be said."""

    event.register("numba:compile", Listener())


def _note(module: str) -> None:
    if not module.startswith("hardmax."):  # a user's own function
        return
    Compiled.count += 1
    if Compiled.count == 1 and Compiled.may_say:
        print(MESSAGE, file=sys.stderr, flush=True)
