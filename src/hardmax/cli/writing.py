"""Files that commands write: refused before the work begins."""

import os
from pathlib import Path


def writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written while nothing is lost by that."""
    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{option} {path}: it may not be written to; choose another place")
