"""Python processes that hardmax starts: they import what this process would import, and nothing else.

Without ``-P`` Python puts the current folder first on the path of ``-c`` and ``-m``, so that a file there
named as a module would be run in its place.
"""

from __future__ import annotations

import os
import sys


def command(module: str) -> list[str]:
    """The command that runs ``main()`` of a module in another process.

    >>> from hardmax._lib.children import command
    >>> command("hardmax.app.playground.worker")[1:]
    ['-P', '-c', 'from hardmax.app.playground.worker import main; main()']
    """
    return [sys.executable, "-P", "-c", f"from {module} import main; main()"]


_folders: set[str] = set()


def append_folder(folder: str) -> None:
    """Let this process import from the folder of a file that it runs, after everything else."""
    if folder not in sys.path:
        sys.path.append(folder)
        _folders.add(folder)


def search_path() -> str:
    """The import path of this process, as the ``PYTHONPATH`` of another.

    Without the folders of files that this process runs: there Python would find a sitecustomize.py and run
    it at once. Who runs such a file in another process appends its folder there again.
    """
    return os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry not in _folders)
