"""Files that commands write: refused before the work begins, and whole or not there at all."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written while nothing is lost by that."""
    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{option} {path}: it may not be written to; choose another place")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write, of the same ending, which takes the place of ``path`` when it is complete."""
    target = draft = path.resolve()
    if path.exists() and not path.is_file():
        target = draft = path  # a pipe can only be written to
    elif os.access(target.parent, os.W_OK):  # else a file in a closed folder, which is as open as it was
        draft = target.with_name(f".{target.stem}.part{target.suffix}")
    try:
        with named(path, draft):
            yield draft
            if draft != target:
                draft.replace(target)
    except BaseException:
        if draft != target:
            with contextlib.suppress(OSError):
                draft.unlink()
        raise


@contextmanager
def named(path: Path, draft: Path | None = None) -> Iterator[None]:
    """Let errors speak of ``path``: in the middle of a file they name none, at its start the draft."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    except ValueError as error:
        if draft is None:
            raise
        raise ValueError(str(error).replace(str(draft), str(path))) from None
