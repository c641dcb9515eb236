"""What is said when a command could not do its work.

Nothing heavy is imported here, so that this much works from the first moment on.
"""

import contextlib
import errno
import json
import os
import sys

from hardmax import __version__
from hardmax._lib.terminal import visible

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Interrupted(Exception):
    """An interrupt whose partial results are kept; the message gives the command that goes on."""


def complain(message: str, code: int, *, as_json: bool = False) -> int:
    """Print what went wrong, on one line of standard error, and return the exit code.

    With ``as_json`` standard output gets it as well, as the one object that every command owes.
    """
    message = visible(" ".join(message.split()))
    with contextlib.suppress(OSError):  # where nobody listens the code still speaks
        print("hardmax:", message, file=sys.stderr)
    if as_json:
        told = {"schema": "hardmax.error/1", "version": __version__, "code": code, "error": message}
        with contextlib.suppress(OSError):
            print(json.dumps(told), flush=True)
    return code


def explain(error: OSError) -> str:
    """What the system refused, and what to do about it."""
    what = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        if error.filename is None:  # the commands name what they write; what is left is help and numba
            return f"{what}; free some space, also where numba keeps compiled kernels (NUMBA_CACHE_DIR)"
        return f"{error.filename}: {what}; free some space or choose another place"
    if error.filename is None:
        return f"{what}; mend that and run the command again"
    return f"{os.fsdecode(error.filename)}: {what}; check the path and its permissions"
