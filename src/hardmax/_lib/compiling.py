"""Compiled kernels: a place to keep them on a machine that offers none, and a word while they are made.

numba refuses to compile a kernel that asks to be kept when no folder can be written to, as with a read-only
installation and no home folder. A folder that lasts as long as the process lets such a machine work.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

PREFIX = "hardmax-kernels-"
ADVICE = "set NUMBA_CACHE_DIR to a private folder, which you and nobody else can write to"
SPARE = Path("/dev/shm")  # a container that is read-only everywhere else has it as a rule


def lend() -> None:
    """Give numba a folder until this process ends, if it finds none; processes started from here share it."""
    if os.access(Path(__file__).parent, os.W_OK):
        return
    try:
        import numba
    except (ImportError, OSError):  # the doctor has to speak even then
        return
    try:
        if numba.config.DISABLE_JIT or place():
            return
    except RuntimeError:  # no folder can be written to
        pass
    try:
        folder = tempfile.mkdtemp(prefix=PREFIX)
    except OSError:
        try:
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=SPARE)
        except OSError:
            raise ValueError(
                f"compiled kernels can be kept nowhere, not even for a while; {ADVICE}"
            ) from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder


def is_lent() -> bool:
    """Whether compiled kernels are gone when this process, or the one that started it, ends."""
    return Path(os.environ.get("NUMBA_CACHE_DIR", "")).name.startswith(PREFIX)


def place() -> Path:
    """The folder that numba chooses: NUMBA_CACHE_DIR, next to the source, or the user's cache.

    A RuntimeError says that none can be written to. Nothing is compiled for that.
    """
    import numba

    return Path(numba.njit(cache=True)(_nothing).stats.cache_path)


def _nothing() -> None:
    """Stand in for a kernel of this package when numba is asked for its cache."""


MESSAGE = "hardmax: compiling kernels, once per installation, some seconds to a minute ..."


class Compiled:
    """How many kernels of hardmax this process has compiled, and whether it may say so."""

    count = 0
    may_say = True  # --quiet takes it back, and so does a worker, whose driver speaks


@cache
def listen() -> None:
    """Have numba report compilations, and a place to keep them; called before the first kernel is made."""
    lend()
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
