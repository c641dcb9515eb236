"""Finished work on disk, found by content: the same request for the same files is answered from here.

An entry is written under another name and put in place at once, so that a process may be killed at any time
and several may work side by side. It begins with its own digest: a damaged one is not believed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import files
from hardmax._lib.archive import Arrays, arrays_in, npz_bytes
from hardmax._lib.extras import install

# Counted up when the same input would give another result.
VERSION = 3
_BLOCK = 1 << 20


def cache_folder() -> Path:
    """Return the folder HARDMAX_CACHE, or the operating system's folder for caches."""
    folder = os.environ.get("HARDMAX_CACHE")
    if folder:
        return Path(folder)
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(f"the cache needs platformdirs ({error}): {install('text')}") from error
    return Path(platformdirs.user_cache_path("hardmax"))


def digest_of(settings: dict[str, Any]) -> str:
    """Return the key of a result: everything it depends on, including Python's table of characters."""
    content = {"version": VERSION, "unicode": unicodedata.unidata_version} | settings
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_path(path: Path) -> str:
    """Return a digest of the bytes of a file; for a folder, of the names and bytes of all its files."""
    if not path.is_dir():
        return files.digest(path)
    whole = hashlib.sha256()
    for file_path in sorted(member for member in path.rglob("*") if member.is_file()):
        name = file_path.relative_to(path).as_posix()
        whole.update(f"{len(name)} {name} {digest_of_path(file_path)}".encode())
    return whole.hexdigest()


class Cache:
    """The entries of one key; ``trouble`` is the reason if they cannot be written."""

    def __init__(self, key: str) -> None:
        self.trouble: str | None = None
        self.folder = cache_folder() / "text" / key[:32]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files.sweep(self.folder)
        except OSError as error:
            self._give_up(error)

    def read(self, name: str) -> Arrays | None:
        """Read an entry; None if it is missing or damaged."""
        try:
            content = (self.folder / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        try:
            return arrays_in(io.BytesIO(content[32:]), name)
        except ValueError:
            return None

    def write(self, name: str, arrays: Arrays) -> None:
        """Keep an entry, or note that it cannot be kept."""
        if self.trouble is not None:
            return
        content = npz_bytes(arrays)
        try:
            with files.whole(self.folder / name) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        self.trouble = (
            f"nothing was cached: {self.folder} cannot be written ({why}); set HARDMAX_CACHE to a "
            "folder that can"
        )


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Convert numbers that are not negative to the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def packed(words: Iterable[str]) -> np.ndarray:
    """Convert words without line breaks to an array of bytes."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpacked(content: np.ndarray) -> list[str]:
    """Convert an array of bytes back to words."""
    text = content.tobytes().decode()
    return text.split("\n") if text else []
