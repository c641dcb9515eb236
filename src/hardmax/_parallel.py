"""How many cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores this process may run on, which a container or taskset can make fewer than the machine has.

    NUMBA_NUM_THREADS lowers the number: the workers of a sweep set it to 1, since each has its own core.
    """
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(found, max(1, int(asked))) if asked.isdecimal() else found
