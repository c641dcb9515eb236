"""One BLAS thread for small linear algebra."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_stack = ExitStack()
_inside = 0
_controller: ThreadpoolController | None = None  # made on first use, when numpy's and scipy's BLAS are loaded


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS on one thread inside the block, also when several threads enter and leave in any order.

    OpenBLAS hands matrices of a few thousand entries to all cores; on a busy machine waiting for the other
    thread was measured to cost a hundred times the work.

    >>> with serial_blas():
    ...     pass
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
