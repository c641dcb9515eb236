"""A place for compiled kernels on a machine that offers none.

numba refuses to compile a kernel that asks to be kept when no folder can be written to, as with a read-only
installation and no home folder. A folder that lasts as long as the process lets such a machine work.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

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
