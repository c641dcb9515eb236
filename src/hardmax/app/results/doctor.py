"""`doctor`: versions, threads, extras, compile cache, a self-test of the numerics."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys
import textwrap
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import hardmax as hm
from hardmax import __version__
from hardmax._lib.compiling import MESSAGE, Compiled
from hardmax._lib.extras import install
from hardmax._lib.result import Result
from hardmax._lib.terminal import columns, ending

if TYPE_CHECKING:
    from rich.console import Group

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "python-flint", "daqp")  # on the package index
NO_NUMBA = "unknown: numba cannot be imported"
THREADING_LAYERS = {"tbb": "tbbpool", "omp": "omppool", "workqueue": "workqueue"}
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Finding:
    """One check: its name, whether it passed, and the observation or the remedy."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, repr=False)
class DoctorReport(Result):
    """The findings on an installation.

    >>> from hardmax.app.results.doctor import DoctorReport, Finding
    >>> findings = Finding("cores", True, "2 present"), Finding("numpy", False, "cannot be imported")
    >>> print(DoctorReport(findings))
    ok   cores  2 present
    FAIL numpy  cannot be imported
    """

    schema: ClassVar[str] = "hardmax.doctor/1"
    row_field: ClassVar[str] = "checks"

    checks: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 if everything is in order, 1 if not."""
        return ending(wrong=not all(check.ok for check in self.checks))

    @property
    def headline(self) -> str:
        """Whether all checks passed, or which ones failed."""
        failed = [check.name for check in self.checks if not check.ok]
        return f"failed: {', '.join(failed)}" if failed else f"all {len(self.checks)} checks passed"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return asdict(self)

    def table(self) -> Group:
        """Return what `hardmax doctor` prints; paths and commands are not folded."""
        from rich.console import Group
        from rich.text import Text

        width = max(len(check.name) for check in self.checks)
        indent = " " * (len("FAIL ") + width + 2)
        lines = []
        for check in self.checks:
            mark = ("ok   ", "green") if check.ok else ("FAIL ", "bold red")
            # paths and commands stay whole, to be copied
            room = columns() - len(indent)
            detail = textwrap.wrap(check.detail, room, break_long_words=False, break_on_hyphens=False)
            lines.append(Text.assemble(mark, f"{check.name:<{width}}  " + f"\n{indent}".join(detail)))
        return Group(Text("\n").join(lines))


def doctor() -> DoctorReport:
    """Check the installation and precompile kernels.

    >>> import hardmax as hm
    >>> [check.name for check in hm.doctor().checks][:2]
    ['python', 'hardmax']
    """
    findings = [*versions(), cores(), *threads(), *extras(), compile_cache(), kernels(), numerics()]
    return DoctorReport(tuple(findings))


def versions() -> list[Finding]:
    """Return one finding for Python, hardmax, and each package that the numerics use."""
    python = Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} ({sys.executable})")
    this = Finding("hardmax", True, f"{__version__} ({Path(__file__).parents[2]})")
    return [python, this, *(_package(name, name.removeprefix("python-")) for name in PACKAGES)]


def _package(distribution: str, module: str) -> Finding:
    # A version in the metadata says nothing about a broken binary, so the package is imported as well.
    try:
        importlib.import_module(module)
        return Finding(distribution, True, metadata.version(distribution))
    except (ImportError, OSError) as error:
        advice = f"pip install --force-reinstall {distribution}"
        return Finding(distribution, False, f"cannot be imported ({_line(error)}); try: {advice}")


def _has(module: str) -> bool:
    try:
        importlib.import_module(module)
    except (ImportError, OSError):
        return False
    return True


def cores() -> Finding:
    """Return how many cores the machine has and how many of them this process may use."""
    present = os.cpu_count() or 1
    # not on every platform: macOS and Windows have no affinity call
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else present
    return Finding("cores", True, f"{present} present, {allowed} open to this process")


def threads() -> list[Finding]:
    """Return the thread settings of numba and of the linear algebra library."""
    if not _has("numba"):
        return [Finding("numba threads", False, NO_NUMBA), _blas_threads()]
    from numba import config

    layers = [layer for layer, module in THREADING_LAYERS.items() if _has(f"numba.np.ufunc.{module}")]
    detail = f"configured: {config.THREADING_LAYER}; available: {', '.join(layers) or 'none'}"
    return [
        Finding("numba threads", True, f"{config.NUMBA_NUM_THREADS}"),
        Finding("numba threading layer", bool(layers), detail),
        _blas_threads(),
    ]


def _blas_threads() -> Finding:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        settings = [f"{name}={os.environ[name]}" for name in BLAS_VARIABLES if name in os.environ]
        return Finding("BLAS threads", True, ", ".join(settings) or "not limited: as many as there are cores")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    texts = sorted({f"{pool['internal_api']} {pool['version']}: {pool['num_threads']}" for pool in pools})
    return Finding("BLAS threads", True, ", ".join(texts) or "no library with threads found")


def extras() -> list[Finding]:
    """Return for each optional extra whether it is installed, else the command that installs it."""
    if not _is_installed("hardmax"):
        return [Finding("extras", False, "unknown: hardmax runs from its source; pip install -e . there")]
    packages: dict[str, list[str]] = {
        name: [] for name in metadata.metadata("hardmax").get_all("Provides-Extra") or []
    }
    for requirement in metadata.requires("hardmax") or []:
        if match := re.match(r"([\w.-]+).*extra\s*==\s*['\"]([^'\"]+)", requirement):
            packages[match[2]].append(match[1])
    return [_extra(*item) for item in sorted(packages.items())]


def _extra(name: str, packages: list[str]) -> Finding:
    absent = [package for package in packages if not _is_installed(package)]
    detail = f"absent ({', '.join(absent)}); {install(name)}" if absent else "installed"
    return Finding(f"extra {name}", True, detail)


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def compile_cache() -> Finding:
    """Return where numba keeps compiled kernels between runs, and whether it can."""
    name = "compile cache"
    if not _has("numba"):
        return Finding(name, False, NO_NUMBA)
    import numba

    if numba.config.DISABLE_JIT:
        return Finding(name, True, "not in use: NUMBA_DISABLE_JIT is set, so nothing is compiled")
    from hardmax._lib import caching

    try:
        place = caching.place()
    except ValueError as error:
        return Finding(name, False, _line(error))
    refused = "; ".join(place.refused)
    if not place.lasts:
        why = "no folder can be written to, so every command compiles its kernels again, up to half a minute"
        return Finding(name, False, f"{why}{refused and f' ({refused})'}; {caching.ADVICE}")
    if refused:
        return Finding(name, False, f"{refused}; {place.folder} is used; {caching.ADVICE}")
    return Finding(name, True, f"{place.folder} (can be written to)")


def kernels() -> Finding:
    """Compile the kernels that are not in the cache, so that the first real work need not wait for them."""
    name = "kernels"
    if not _has("numba"):
        return Finding(name, False, NO_NUMBA)
    import numba

    from hardmax._lib import caching

    if numba.config.DISABLE_JIT or not caching.place().lasts:
        return Finding(name, True, "not compiled beforehand: nothing would keep them")
    try:
        from hardmax.app.results import compilation
    except (ImportError, OSError) as error:
        return Finding(name, False, f"not compiled: {_line(error)}")

    def announce(done: int, total: int) -> None:
        if done == 0 and Compiled.may_say:
            print(MESSAGE, file=sys.stderr, flush=True)

    start = time.monotonic()
    outcome = compilation.compile_parts(report=announce)
    seconds = time.monotonic() - start
    compiled = f"{outcome.kernels} compiled now, in {seconds:.0f} s" if outcome.kernels else "compiled"
    if not outcome.remaining:
        return Finding(name, True, compiled)
    is_absent = not _is_installed("scikit-learn") and [*outcome.remaining] == ["text classifier"]
    parts = ", ".join(f"{part} ({why})" for part, why in outcome.remaining.items())
    return Finding(name, is_absent, f"{compiled}; not compiled: {parts}")


def numerics() -> Finding:
    """Check the gradient of a saturated problem, where the textbook formula returns zero or noise."""
    name = "numerics"
    keys = [[[1.0, 0.2], [0.3, -0.4], [-0.5, 0.9]], [[0.8, -0.6], [0.1, 0.7], [-0.9, 0.1]]]
    scores = [[1.0, 0.4, -0.3], [0.8, -0.2, 0.5]]
    # twelve thousand digits were used to find these
    direction, log_norm = (0.47409982303501744967, -0.88047109992217526368), -2200.9016236115410383
    try:
        gradient = hm.gradient(hm.Problem(keys, scores), (8000.0, 6000.0))
        errors = [abs(float(got) - true) for got, true in zip(gradient.direction, direction, strict=True)]
        errors.append(abs(float(gradient.log_norm) / log_norm - 1))
    except Exception as error:  # the doctor reports any failure
        return Finding(name, False, f"the self-test broke off: {type(error).__name__}: {_line(error)}")
    detail = f"relative error {max(errors):.1e} at a gradient of size e^-2201"
    advice = ", more than 1e-12: reinstall hardmax and numba, or report this"
    is_small = max(errors) <= 1e-12
    return Finding(name, is_small, detail if is_small else detail + advice)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
