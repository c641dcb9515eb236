"""The command line: parse, call, print. Each command has a file here; its work is done elsewhere."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from hardmax._lib.compiling import Compiled
from hardmax._lib.terminal import INTERRUPTED
from hardmax.app.cli.errors import complain, take_over


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    _stand_ready()
    Compiled.hurries = True  # the first answer does not wait for kernels that have little to do
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a user's mistake ends in a sentence, not a traceback."""
    try:
        from hardmax.app.cli.commands import call  # here, because it takes long enough to be interrupted
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED, as_json="--json" in arguments)
    return call(arguments)


def _stand_ready() -> None:
    """Prepare for closed streams, a poor encoding and signals that a shell may pass on."""
    for number in range(3):  # else the next file that is opened becomes a standard stream
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        getattr(sys, name).reconfigure(errors="backslashreplace")
    take_over()
