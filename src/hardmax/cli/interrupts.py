"""Interrupts: Ctrl-C and a request to end (SIGTERM) mean the same, and none gets lost."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
    """Whether there was an interrupt: the first is noted, so that no step is torn; a second one raises."""
    found: list[int] = []
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
        found.append(number)
        restore()

    for number in ours:
        signal.signal(number, note)
    try:
        yield lambda: bool(found)
    finally:
        restore()
