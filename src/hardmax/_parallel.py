"""How many cores this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores this process may run on, which a container or taskset can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
