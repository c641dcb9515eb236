"""The cache of compiled kernels: one folder of the user, keyed by everything that decides what is compiled.

numba's own cache stamps a kernel with its own file only, so an edited inner kernel would leave the outer one
stale, and it keeps one copy per installation. Here one digest of all kernel sources and of the compiler's
versions names the folder, so two environments of the same versions share it. A compiled kernel is a pickle,
hence the folder must not be writable by others. Each kernel is one file with a checksum, written atomically:
processes may compile at the same time, and a damaged file counts as missing.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import itertools
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import event
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.extending import is_jitted

from hardmax._lib.compiling import Compiled, note

PACKAGE = Path(__file__).parents[1]
KEPT = 5  # folders of other sources or versions that stay, for clones and older environments
PREFIX = "hardmax-kernels-"  # of a folder that is removed when the process ends
SPARE = Path("/dev/shm")  # usually writable in a container that is read-only everywhere else
LONGEST = 60.0  # seconds that compiling one kernel takes at most; an older mark is that of a dead process
ADVICE = "set NUMBA_CACHE_DIR to a private folder, which you and nobody else can write to"

_HEADER = b"hardmax kernel 1\n"
_SOURCES = re.compile(
    rb"^(from|import) numba|^from hardmax\._lib\.(kernels|compiled) import|njit\(", re.MULTILINE
)
_SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX")
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


used: set[Path] = set()  # files that this process has loaded or written


class Place(NamedTuple):
    """The folder of compiled kernels, whether it outlives the process, and why better ones are not used."""

    folder: Path
    lasts: bool
    refused: tuple[str, ...]


def place() -> Place:
    """Return the folder of compiled kernels, which exists.

    It is below NUMBA_CACHE_DIR if that is set, else in the user's cache folder, else a temporary folder that
    this process and those it starts share.
    """
    return _place(numba.config.CACHE_DIR)


@cache
def _place(setting: str) -> Place:
    if Path(setting).name.startswith(PREFIX):  # lent by the process that started this one
        return Place(Path(setting), False, ())
    roots = [Path(setting).absolute() / "hardmax-kernels"] if setting else []
    with contextlib.suppress(RuntimeError):  # there is no home folder
        roots.append(user_cache() / "hardmax" / "kernels")
        if hasattr(os, "geteuid"):  # that one may belong to root, after a single use of sudo
            roots.append(roots[-1].with_name(f"kernels-{os.geteuid()}"))
    refused: list[str] = []
    for root in roots:
        try:
            return Place(_prepared(root), True, tuple(refused))
        except OSError as error:
            refused.append(f"{root}: {error.strerror or error}")
    return Place(_lent(), False, tuple(refused) or ("there is no home folder",))


def unwritable(folder: Path) -> str | None:
    """Return why a folder cannot be written to, or None if it can."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None


def lend(why: str) -> Place:
    """Use a temporary folder from now on, also in processes started from here; a ValueError without one."""
    return Place(_lent(), False, (why,))


def user_cache() -> Path:
    """Return the folder in which this system keeps a user's caches; a RuntimeError if there is no home."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"


def _prepared(root: Path) -> Path:
    """Make the folder of this digest below a root; an OSError if it is not private or cannot be used."""
    folder = root / digest()
    is_new = not folder.is_dir()
    root.parent.mkdir(parents=True, exist_ok=True)
    for path in (root, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        if os.name == "posix":  # elsewhere the user's folders are private
            status = path.stat()
            if status.st_uid not in (os.geteuid(), 0):
                raise PermissionError("it belongs to another user")
            if status.st_mode & 0o022:
                raise PermissionError("others can write to it")
    try:
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # in use
    except OSError:
        if not any(folder.iterdir()):  # one that was filled beforehand may be read-only
            raise
    if is_new:
        with os.scandir(root) as entries, contextlib.suppress(OSError):  # another process may remove one
            ours = [entry for entry in entries if re.fullmatch("[0-9a-f]{32}", entry.name)]
            for old in sorted(ours, key=lambda entry: -entry.stat().st_mtime)[KEPT + 1 :]:
                shutil.rmtree(old, ignore_errors=True)
    return folder


def _lent() -> Path:
    """Make a folder until this process ends; processes started from here share it."""
    for parent in (None, SPARE):
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
            break
    else:
        raise ValueError(f"no writable folder for compiled kernels; {ADVICE}")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder
    return Path(folder)


@cache
def digest() -> str:
    """Hash the sources of all kernels, the versions and the settings of the compiler."""
    total = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag, sys.platform)
    settings = tuple(str(getattr(numba.config, name, None)) for name in _SETTINGS)
    total.update(repr((versions, settings)).encode())
    for path in sources():
        content = path.read_bytes()
        total.update(f"\n{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()[:32]


def sources() -> Iterator[Path]:
    """Yield every file of the package that defines kernels, or something that they are compiled with."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path != Path(__file__) and _SOURCES.search(path.read_bytes()):
            yield path


class KernelCache(NullCache):  # type: ignore[misc, unused-ignore]
    """What numba's dispatcher loads a compiled function from and saves it to."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        chosen = place()
        if chosen.refused:
            warn("; ".join(chosen.refused))
        self._folder = chosen.folder
        self._name = _file_name(function)
        name = f"{function.__module__}.{function.__qualname__}"
        self._identity = repr((name, _text(options), fingerprint(function)))

    @property
    def cache_path(self) -> str:
        """The folder, as numba reports it."""
        return str(self._folder)

    def file(self, signature: Any, codegen: Any) -> Path:
        """Return the file of one signature on this processor."""
        types, returned = normalize_signature(signature)
        key = (self._identity, tuple(map(str, types)), str(returned), codegen.magic_tuple())
        return self._folder / f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.kernel"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function, or None if it is not there or damaged."""
        target_context.refresh()
        try:
            file = self.file(sig, target_context.codegen())
            loaded = CompileResult._rebuild(target_context, *pickle.loads(unsealed(file.read_bytes())))
        except Exception:  # whatever a damaged file leads to, compiling replaces it
            return None
        used.add(file)
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function; where that fails a line reports it, once."""
        if data.library.has_dynamic_globals or not all(loop.can_cache for loop in data.lifted):
            return
        file = self.file(sig, data.codegen)
        try:
            write(file, sealed(dumps(data._reduce())))
            used.add(file)
        except OSError as error:
            warn(f"{self._folder} cannot be written to ({error.strerror or error})")


def has_kernel(function: FunctionType) -> bool:
    """Return whether the cache has a compilation of a function, for whichever types."""
    return any(place().folder.glob(f"{_file_name(function)}-*.kernel"))


def _file_name(function: FunctionType) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    return re.sub(r"[^\w.]", "", name.removeprefix("hardmax."))[-80:]


def mark(is_compiling: bool) -> None:
    """Make the file by which other processes see that this one is compiling, or remove it."""
    with contextlib.suppress(OSError):
        file = place().folder / f"{os.getpid()}.compiling"
        file.touch() if is_compiling else file.unlink()


def is_compiling() -> bool:
    """Return whether a process that shares this cache is compiling, as far as can be seen."""
    with contextlib.suppress(OSError):  # a mark is removed while this looks at it
        marks = place().folder.glob("*.compiling")
        return any(time.time() - mark.stat().st_mtime < LONGEST for mark in marks)
    return True


@cache
def listen() -> None:
    """Have numba report compilations; called before the first kernel is made."""

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore]
        depth = 0  # a kernel's own functions are compiled within its compilation
        collects = False

        def on_start(self, event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                mark(True)
                self.collects = gc.isenabled()
                gc.disable()  # a tenth of the time: the compiler makes many objects, and most of them stay
            note(event.data["dispatcher"].py_func.__module__ or "")

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                mark(False)
                if self.collects:
                    gc.enable()

    event.register("numba:compile", Listener())
    # numba numbers functions within a process and makes the number part of the symbol. Kernels of several
    # processes are loaded into one, where two functions must not share a symbol.
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(5), "big") << 20)


def warn(why: str) -> None:
    """Print once per process that compiled kernels cannot be kept."""
    if not Compiled.warned and Compiled.may_say:
        print(f"hardmax: compiled kernels are not kept: {why}; {ADVICE}", file=sys.stderr, flush=True)
    Compiled.warned = True


def sealed(payload: bytes) -> bytes:
    """Return the content of a file: a header, a checksum and the payload."""
    return _HEADER + hashlib.sha256(payload).digest() + payload


def unsealed(content: bytes) -> bytes:
    """Return the payload of a file; a ValueError if the file is damaged."""
    payload = content[len(_HEADER) + 32 :]
    if sealed(payload) != content:
        raise ValueError("a damaged file")
    return payload


def write(file: Path, content: bytes) -> None:
    """Write a file of the cache atomically."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # another process may have removed it as old
    number, name = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with open(number, "wb") as stream:
            stream.write(content)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def fingerprint(function: FunctionType) -> str:
    """Hash what a function is compiled from: its code, the constants it reads, and all of its inner kernels.

    The digest of the sources covers the code of the package. It covers neither a constant that comes from
    another file nor a function of the user.
    """
    content = hashlib.sha256()
    waiting, seen_functions = [function], {function}
    while waiting:
        function = waiting.pop()
        _add_code(content, function.__code__)
        values: list[Any] = [function.__globals__.get(name) for name in function.__code__.co_names]
        values += [cell.cell_contents for cell in function.__closure__ or ()]
        for value in values:
            if is_jitted(value):
                inner = value.py_func
                waiting += [] if inner in seen_functions else [inner]
                seen_functions.add(inner)
            elif isinstance(value, _CONSTANTS):
                content.update(repr(value).encode())
            elif hasattr(value, "dtype") and hasattr(value, "tobytes"):
                content.update(str(value.dtype).encode() + value.tobytes())
    return content.hexdigest()


def _add_code(content: Any, code: CodeType) -> None:
    content.update(code.co_code)
    content.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(content, constant)
        else:
            content.update(_text(constant).encode())


def _text(value: Any) -> str:
    """Return a representation that is the same in every process, as that of a set of texts is not."""
    if isinstance(value, dict):
        return _text({(name, _text(item)) for name, item in value.items()})
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value)))
    return repr(value)
