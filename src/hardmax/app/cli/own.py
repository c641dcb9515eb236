"""Norms of one's own on the command line: the Python file that registers them is run first."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def norm_of_file(text: str) -> str:
    """The name in "FILE.py:NAME", whose file is run so that a norm of this name is known; else the text.

    >>> norm_of_file("l1.5")
    'l1.5'
    """
    path, colon, name = text.rpartition(":")
    if not (colon and path.endswith(".py")):
        return text
    run_file(Path(path))
    return name


def run_file(path: Path) -> None:
    """Run a file that calls `hm.margin.register`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; --norm FILE.py:NAME names a norm that it registers")
    spec = importlib.util.spec_from_file_location(f"hardmax_own_{path.stem}", path)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
