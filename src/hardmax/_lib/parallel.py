"""How many cores this process may use, results in order, and one BLAS thread where matrices are small."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from threadpoolctl import ThreadpoolController


def cores() -> int:
    """Cores this process may run on, which a container or taskset can make fewer than the machine has.

    NUMBA_NUM_THREADS lowers the number: the workers of a sweep set it to 1, since each has its own core.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(count, max(1, int(limit))) if limit.isdecimal() else count


Job = TypeVar("Job")
Result = TypeVar("Result")


def in_order(submit: Callable[[Job], Future[Result]], jobs: Iterable[Job], ahead: int) -> Iterator[Result]:
    """Yield the results of jobs in their order, with at most ``ahead`` of them submitted in advance."""
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            waiting.append(submit(job))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


_lock = threading.Lock()
_stack = ExitStack()
_inside = 0
_controller: ThreadpoolController | None = (
    None  # created on first use, when numpy's and scipy's BLAS are loaded
)


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS on one thread inside the block, also when several threads enter and leave in any order.

    OpenBLAS hands matrices of a few thousand entries to all cores; on a busy machine waiting for the other
    thread was measured to cost a hundred times the work.
    """
    global _inside, _controller
    with _lock:
        if _inside == 0:
            _controller = _controller or ThreadpoolController()
            _stack.enter_context(_controller.limit(limits=1, user_api="blas"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _stack.close()
