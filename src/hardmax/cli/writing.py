"""Files that commands write: refused before the work begins."""

import os
from pathlib import Path

from hardmax._lib.files import refusal


def writable(option: str, path: Path, *needed: Path) -> None:
    """Refuse a file that cannot be written, or that the command itself needs, while nothing is lost by it."""
    reason = refusal(path)
    if reason is not None:
        raise ValueError(f"{option} {path}: {reason}")
    spared(option, path, *needed)


def spared(option: str, path: Path, *needed: Path) -> None:
    """Refuse to write to a file that the command itself needs."""
    if any(_same(path, each) for each in needed):
        raise ValueError(f"{option} {path}: this file is needed; choose another name")


def _same(path: Path, other: Path) -> bool:
    """Whether two names, of files that may not be there yet, are one file."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)
