"""Where rows come from: versions, code, data, command and machine of every session that wrote to a store."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import socket
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hardmax
from hardmax.trials.functions import Function, source_hash

LIBRARIES = ("numpy", "scipy", "numba")


def provenance(function: Function, data_files: Iterable[str | os.PathLike[str]] = ()) -> dict[str, Any]:
    """What is known about this process and the code it runs.

    Everything under ``code`` decides the rows; two sessions that differ in it are not the same experiment.

    >>> from hardmax.trials.provenance import provenance
    >>> sorted(provenance(len)["code"])
    ['data files', 'function source', 'hardmax', 'hardmax source', 'numba', 'numpy', 'python', 'scipy']
    """
    return {
        "code": {
            "hardmax": hardmax.__version__,
            "hardmax source": _package_hash(Path(hardmax.__file__).parent),
            "function source": source_hash(function),
            "data files": {Path(path).name: _file_hash(path) for path in data_files},
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
        "command": shlex.join([*sys.orig_argv]),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "started": now(),
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between the code of two sessions, in words."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            plain = "source" in name or isinstance(old, dict) or isinstance(new, dict)
            found.append(f"{name} changed" if plain else f"{name} was {old}, is {new}")
    return found


def _file_hash(path: str | os.PathLike[str]) -> str:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may have no end
        raise ValueError(f"data_files: {os.fspath(path)} is not a file")
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"data_files: cannot read {os.fspath(path)} ({error.strerror})") from error


@functools.cache  # a process keeps running what it has imported, whatever is edited later
def _package_hash(folder: Path) -> str:
    """Hash of all Python files of a package: their names and what is in them."""
    total = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()
