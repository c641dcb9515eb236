"""The origin of rows: a sweep's function by its name, versions, code, data, command and machine."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import platform
import shlex
import socket
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

import hardmax
from hardmax._lib.files import digest
from hardmax._lib.pool import append_folder

Function = Callable[..., Any]
_loading: list[Path] = []  # files that are being read for a function


def named(function: Function | str) -> tuple[Function, str | None]:
    """Return a function and its name for workers, which is None for a lambda, a closure or a notebook's."""
    if isinstance(function, str):
        where, _, name = function.rpartition(":")
        if where.endswith(".py"):
            function = f"{Path(where).resolve()}:{name}"
        return load(function), function
    if not callable(function):
        raise ValueError(f"function must be callable or 'module:name', got {type(function).__name__}")
    path: str = getattr(function, "__qualname__", "<none>")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or "<" in path or not hasattr(module, path.split(".")[0]):
        return function, None
    file = _importable(module) or getattr(module, "__file__", None)
    return function, None if file is None else f"{file}:{path}"


@functools.cache
def load(name: str) -> Function:
    """Load the function of this name."""
    where, _, path = name.rpartition(":")
    if not where or not path:
        raise ValueError(f"function must be 'module:name' or 'path/to/file.py:name', got {name!r}")
    value: Any = load_file(Path(where)) if where.endswith(".py") else _module(where)
    for part in path.split("."):
        if not hasattr(value, part):
            raise ValueError(f"{where} has no function {path!r}; check the name in {name!r}")
        value = getattr(value, part)
    if not callable(value):
        raise ValueError(f"{name!r} must name a function, got {type(value).__name__}")
    return value


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"cannot import {name!r} ({error}); install it, run from its folder, or give the function as "
            "'path/to/file.py:name'"
        ) from error
    except (Exception, SystemExit) as error:
        raise _cannot_run(name, error) from error


def _cannot_run(what: str | Path, error: BaseException) -> ValueError:
    return ValueError(f"{what} cannot be run: {type(error).__name__}: {error}; correct the file")


def identity(function: Function, name: str | None) -> str:
    """Return the file's stem and the name, which do not change when a script is moved or imported."""
    if name is None:
        return str(getattr(function, "__qualname__", type(function).__name__))
    where, _, path = name.rpartition(":")
    stem = Path(where).stem if where.endswith(".py") else where.rpartition(".")[2]
    return f"{stem}:{path}"


def source_hash(function: Function) -> str:
    """Hash the file that defines the function; its compiled code if there is no file."""
    inner = inspect.unwrap(function)
    try:
        content = Path(inspect.getsourcefile(inner) or "").read_bytes()
    except (OSError, TypeError):
        code = getattr(inner, "__code__", None)
        content = repr((code.co_code, code.co_consts, code.co_names) if code else inner).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def load_file(path: Path) -> ModuleType:
    """Return the module in a file, with its folder on the path as when Python runs the file."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; 'FILE.py:name' names your function in it")
    path = path.resolve()
    name = f"{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    append_folder(str(path.parent))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _loading.append(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception | SystemExit):
            raise _cannot_run(path, error) from error
        raise
    finally:
        _loading.pop()
    return module


def refuse_while_loading() -> None:
    """Stop a script that starts its sweep whenever it is read: its workers would start it again."""
    if _loading:
        raise ValueError(
            f'{_loading[-1]} starts a sweep when it is imported; put that under if __name__ == "__main__":'
        )


def _importable(module: ModuleType) -> str | None:
    """Return the name by which a new process with this path imports the module; None if it cannot.

    A script is `__main__` here and something else there; test runners load files under made-up names.
    """
    spec: Any = getattr(module, "__spec__", None)
    name = spec.name if module.__name__ == "__main__" and spec is not None else module.__name__
    if name == "__main__":
        return None
    folders = None
    for parent in accumulate(name.split("."), "{}.{}".format):
        spec = next(filter(None, (finder.find_spec(parent, folders) for finder in sys.meta_path)), None)
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    file = getattr(module, "__file__", None)
    if file is None:
        return name
    return name if spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve() else None


LIBRARIES = ("numpy", "scipy", "numba")


def provenance(function: Function, data_files: Iterable[str | os.PathLike[str]] = ()) -> dict[str, Any]:
    """Describe this process and the code it runs.

    Everything under ``code`` decides the rows; two sessions that differ in it are not the same experiment.
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
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """List the differences between the code of two sessions, in words."""
    differences = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            is_digest = "source" in name or isinstance(old, dict) or isinstance(new, dict)
            differences.append(f"{name} changed" if is_digest else f"{name} was {old}, is {new}")
    return differences


def _file_hash(path: str | os.PathLike[str]) -> str:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device may have no end
        raise ValueError(f"data_files: {os.fspath(path)} is not a file")
    try:
        return digest(path)
    except OSError as error:
        raise ValueError(f"data_files: cannot read {os.fspath(path)} ({error.strerror})") from error


@functools.cache  # a process keeps running what it has imported, whatever is edited later
def _package_hash(folder: Path) -> str:
    """Hash the names and contents of all Python files of a package."""
    total = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()
