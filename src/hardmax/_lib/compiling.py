"""What a process has compiled, and what it may say about it; nothing heavy is imported here."""

from __future__ import annotations

import sys

MESSAGE = "hardmax: compiling kernels, once per user and version, some seconds to a minute ..."


class Compiled:
    """How many kernels of hardmax this process has compiled, and how it goes about compiling."""

    count = 0
    may_say = True  # --quiet takes it back, and so does a worker, whose driver speaks
    warned = False
    hurries = False  # a command: what has little to do is not compiled


def note(module: str) -> None:
    """Count a compilation; the first one of hardmax is announced."""
    if not module.startswith("hardmax."):  # a user's own function
        return
    Compiled.count += 1
    if Compiled.count == 1 and Compiled.may_say:
        print(MESSAGE, file=sys.stderr, flush=True)
