"""Files that are whole or not there at all, and errors that name them."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
