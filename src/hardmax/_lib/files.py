"""The one way to write a file: whole or not at all, and never through a link.

A draft under a random name next to the target takes its place when it is complete and on the disk. A pipe and
a character device, such as a terminal or ``>(command)``, cannot be replaced and are written to as they are. A
link to a file, a disk and a socket are refused.
"""

import contextlib
import errno
import hashlib
import io
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

PREFIX, ENDING = ".hardmax-", ".part"  # of drafts
STALE = 24 * 3600.0  # seconds after which a draft has no writer any more
# Windows has one of these, the others have the other
_FLAGS = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` when it is complete."""
    path = Path(path)
    reason = refusal(path)
    if reason is not None:
        raise ValueError(f"{path}: {reason}")
    with named(path):
        if is_stream(path):
            with _stream(path) as file:
                yield file
        elif os.access(path.parent, os.W_OK):
            with _draft(path) as file:
                yield file
        else:  # a file in a closed folder: it is as open as it was
            with open(os.open(path, _FLAGS | os.O_TRUNC), "wb") as file:
                yield file


@contextmanager
def whole_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file as `whole` does, in UTF-8; line breaks are written as they are."""
    with whole(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.detach()  # what is left in its buffer goes to the file


def digest(path: str | os.PathLike[str]) -> str:
    """Return SHA-256 of a file's bytes, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refusal(path: Path) -> str | None:
    """Return why nothing can be written to a path and what to do; None if it can."""
    status = _stat(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return "this is a folder; give the name of a file in it"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it first"
    if not is_stream(path):
        if path.is_symlink():
            return f"this is a link to {os.readlink(path)}; give the name of a file itself"
        if status is not None and not stat.S_ISREG(status.st_mode):
            return "this is a disk or a socket; give the name of a file"
    if not os.access(path.parent if status is None else path, os.W_OK):
        return "it may not be written to; choose another place"
    return None


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a character device, or another name of a standard stream."""
    status = _stat(path)
    if status is None:
        return False
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode) or _is_standard(path, status)


def is_standard_output(path: Path) -> bool:
    """Return whether a path leads to where standard output goes; the null device does not count."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return os.path.samestat(status, os.fstat(1)) and not os.path.samestat(status, os.stat(os.devnull))
    return False


def sweep(folder: Path) -> None:
    """Remove the drafts that killed processes left in a folder."""
    for draft in folder.glob(f"{PREFIX}*{ENDING}"):
        with contextlib.suppress(OSError):  # its writer may have put it in place meanwhile
            if time.time() - draft.lstat().st_mtime > STALE:
                draft.unlink()


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Let errors speak of ``path``: in the middle of a file they name none, at its start the draft."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or Path(os.fsdecode(error.filename)).name.startswith(PREFIX)
        if error.errno is not None and unnamed:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextmanager
def _draft(path: Path) -> Iterator[IO[bytes]]:
    draft = path.with_name(f"{PREFIX}{os.urandom(8).hex()}{ENDING}")
    number = os.open(draft, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(number, "wb") as file:
            before = _stat(path)
            if before is not None and hasattr(os, "fchmod"):  # what was private stays so
                os.fchmod(number, stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            os.fsync(number)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes]]:
    number = os.open(path, os.O_WRONLY | os.O_APPEND)
    with open(number, "wb") as file:
        status = os.fstat(number)
        if stat.S_ISREG(status.st_mode) and not _is_standard(path, status):
            raise ValueError(f"{path}: another file took its place; run the command again")
        yield file


def _is_standard(path: Path, status: os.stat_result) -> bool:
    """Return whether a link, such as /dev/stdout, leads to where standard output or error go already."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if path.is_symlink() and os.path.samestat(status, os.fstat(number)):
                return True
    return False


def _stat(path: Path) -> os.stat_result | None:
    """Return the status of the file at a path; None if there is none, or for a link that leads nowhere."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return None
        raise
