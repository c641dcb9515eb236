"""Fixtures and settings that all tests share."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import none

from hardmax._lib.compiling import Compiled

ROOT = Path(__file__).parents[1]

# A deadline would time numba's compiler, not the code. CI draws the same examples every time; the run
# without the compiler is there to count lines, for which a few examples do; for a deliberate mistake it is
# enough to be found, whatever the smallest example is.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("jitless", deadline=None, derandomize=True, max_examples=5)
settings.register_profile(
    "mutations", deadline=None, max_examples=50, derandomize=True, phases=[Phase.generate]
)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


if _is_set("NUMBA_DISABLE_JIT"):
    settings.load_profile("jitless")
elif _is_set("CI"):
    settings.load_profile("ci")
else:
    settings.load_profile("default")

# A run started in the background hands down an ignored SIGINT, and tests send that signal to the
# programs they start.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Half a million objects that stay, tests and modules, are not searched for garbage again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on, only the objects that the tests make are collected."""
    given(none())(lambda _: None)()  # hypothesis registers the generator of numpy while it can see it
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is read from or left in the user's cache of texts."""
    os.environ["HARDMAX_CACHE"] = str(tmp_path_factory.mktemp("cache"))


# Alone, and silent towards the network.
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser, one for all tests: playwright allows no second driver in a process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    place = shutil.which("chromium")
    if place is None:
        pytest.skip("no chromium on the path: pages are not tested in a browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _own_statements() -> Iterator[None]:
    """What a test or an example enters into the tables of statements and figures leaves them with it."""
    yield
    for module, table in (
        ("hardmax.papers.checking.check", "STATEMENTS"),
        ("hardmax.papers.figures.figure", "RECIPES"),
    ):
        if module in sys.modules:
            registry = getattr(sys.modules[module], table)
            for id in set(registry.entered) - set(registry.places):
                del registry.entered[id]


@pytest.fixture(scope="session", autouse=True)
def _told_of_compiling() -> None:
    """Whether a kernel has to be compiled must not decide what a test finds on standard error."""
    Compiled.count += 1


@pytest.fixture(scope="session")
def oracles() -> dict[str, dict[str, Any]]:
    """The reference values of the papers "a", "b", "c" and of part "d", by the letter."""
    folder = ROOT / "tests" / "oracles"
    return {paper: json.loads((folder / f"paper-{paper}-oracles.json").read_text()) for paper in "abcd"}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real datasets, which the project does not ship."""
    folder = Path(os.environ.get("HARDMAX_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real datasets not found in {folder}; set HARDMAX_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def valid_json():
    """The JSON of an answer, held against the schema that it names."""
    import jsonschema

    schemas = [
        json.loads(path.read_text())
        for path in (ROOT / "docs" / "reference" / "schemas").glob("*.schema.json")
    ]
    by_name = {
        each["properties"]["schema"]["const"]: jsonschema.validators.validator_for(each)(each)
        for each in schemas
    }

    def validated(answer: Any) -> dict[str, Any]:
        told = answer.json()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        by_name[answer.schema].validate(told)
        return told

    return validated


@pytest.fixture
def command(capsys):
    """Run a command line; return its exit code and what it printed."""
    from hardmax.app import cli

    def run(*arguments: Any) -> tuple[int, str]:
        code = cli.run([*map(str, arguments)])
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def confined():
    """Run code in a process of its own that may take little memory and time; return what it printed."""

    def run(code: str, setup: str = "", megabytes: int = 150, seconds: int = 20) -> str:
        script = f"""
import resource
{setup}
resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{code}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
        pytest.importorskip("resource", reason="memory is measured on POSIX systems only")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
        *lines, grown = done.stdout.splitlines()
        assert float(grown) < megabytes, f"took {grown} MiB"
        return "\n".join(lines)

    return run
