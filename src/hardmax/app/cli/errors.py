"""Errors and interrupts of a command: the message when it could not do its work, and its signals.

Ctrl-C and a request to end (SIGTERM) mean the same, and none gets lost. Nothing heavy is imported here, so
that this much works from the first moment on.
"""

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from hardmax import __version__
from hardmax._lib.terminal import brief, visible

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def complain(message: str, code: int, *, as_json: bool = False, names: Iterable[str] = ()) -> int:
    """Print what went wrong, on one line of standard error, and return the exit code.

    With ``as_json`` standard output gets it as well, as the one object that every command owes. Long words
    and those of ``names`` that are long are cut in the middle.
    """
    names = [" ".join(name.split()) for name in names]
    message = visible(brief(" ".join(message.split()), names))
    try:
        print("hardmax:", message, file=sys.stderr, flush=True)
    except OSError:  # nobody listens; Python flushes again at its end, which must not change the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if as_json:
        content = {"schema": "hardmax.error/1", "version": __version__, "code": code, "error": message}
        with contextlib.suppress(OSError):
            print(json.dumps(content), flush=True)
    return code


def explain(error: OSError) -> str:
    """Describe the system's error, and a remedy."""
    if error.strerror is None and ";" in str(error):  # the library's own message, with its remedy
        return str(error)
    reason = error.strerror or str(error)
    if error.filename is not None:
        full, other = "free some space or choose another place", "check the path and its permissions"
        reason = f"{os.fsdecode(error.filename)}: {reason}"
    else:  # the commands name the files that they write; the others are help and numba
        full = "free some space, also where numba keeps compiled kernels (NUMBA_CACHE_DIR)"
        other = "fix that and run the command again"
    return f"{reason}; {full if error.errno in _NO_ROOM else other}"


SIGNALS = (signal.SIGINT, signal.SIGTERM)

_taken: list[int] = []


def take_over() -> None:
    """Let the signals that would end this process raise KeyboardInterrupt, and remember that they came."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Remember a signal and raise KeyboardInterrupt."""
    _taken.append(number)
    raise KeyboardInterrupt


@contextmanager
def none_lost() -> Iterator[None]:
    """Give back the interrupt that compiled code may have turned into another error.

    numba drops it, and then fails with a TypeError, when it comes while a function is handed to a kernel.
    """
    before = len(_taken)
    try:
        yield
    except Exception as error:
        if len(_taken) > before:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Note the first interrupt, so that no step is torn, and tell whether it came; a second one raises."""
    signals: list[int] = []
    # where a signal has another handler, somebody else decides what it means
    ours = {
        number: handler
        for number in SIGNALS
        if (handler := signal.getsignal(number)) in (signal.default_int_handler, interrupt)
    }

    def restore() -> None:
        for number, handler in ours.items():
            signal.signal(number, handler)

    def note(number: int, _: object) -> None:
        signals.append(number)
        restore()

    for number in ours:
        signal.signal(number, note)
    try:
        yield lambda: bool(signals)
    finally:
        restore()
