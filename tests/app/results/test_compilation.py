"""Kernels are compiled in parts, by several processes, and what is compiled is known."""

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hardmax._lib import caching
from hardmax.app.results import compilation
from hardmax.app.results.compilation import PARTS, Compilation, Part, compile_parts

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[3]


def test_every_part_needs_parts_and_the_costly_come_first():
    assert all(set(part.needs) <= set(PARTS) for part in PARTS.values())
    order = sorted(PARTS, key=compilation._order)
    assert order[0] == "training"  # most of the others wait for it
    assert order[-1] in ("probe", "paper's own code")


def test_a_record_is_complete_while_its_files_are_sound(monkeypatch, tmp_path):
    monkeypatch.setattr(caching, "place", lambda: caching.Place(tmp_path, True, ()))
    monkeypatch.setattr(caching, "used", {tmp_path / "a.kernel"})
    monkeypatch.setitem(PARTS, "probe", Part(lambda: None, (), 1))
    (tmp_path / "a.kernel").write_bytes(caching.sealed(b"code"))
    assert "probe" in compilation.remaining()
    assert compilation.compile_part("probe") is None
    assert "probe" not in compilation.remaining()
    (tmp_path / "a.kernel").write_bytes(caching.sealed(b"code")[:-1])
    assert "probe" in compilation.remaining()
    (tmp_path / "a.kernel").unlink()
    assert "probe" in compilation.remaining()


def test_a_part_that_fails_is_named(monkeypatch):
    def broken():
        raise RuntimeError("no\nLLVM")

    monkeypatch.setitem(PARTS, "probe", Part(broken, (), 1))
    assert compilation.compile_part("probe") == "RuntimeError: no LLVM"


def test_parts_wait_for_those_they_need(monkeypatch):
    """Three parts on three processes: the one that is needed ends before the other two begin."""
    monkeypatch.setattr(
        compilation,
        "PARTS",
        {"last": Part(None, ("first",), 9), "first": Part(None, (), 1), "next": Part(None, ("first",), 5)},
    )
    events = []

    class Inline(ThreadPoolExecutor):
        """A pool whose processes are threads."""

        def __init__(self, count, *_):
            super().__init__(count)

        def submit(self, part):
            events.append(f"{part} begins")
            return super().submit(self.compile, part)

        def compile(self, part):
            events.append(f"{part} ends")
            return 2, "lost" if part == "next" else None

    monkeypatch.setattr(compilation, "Pool", Inline)
    told = []
    made = compile_parts(["last", "first", "next"], 3, lambda *each: told.append(each))
    assert made == Compilation(6, {"next": "lost"})
    assert events[:2] == ["first begins", "first ends"]
    assert told[0] == (0, 3)
    assert told[1] == (1, 3)
    assert told[-1] == (3, 3)


def test_a_process_that_dies_loses_its_part_only(monkeypatch, tmp_path):
    monkeypatch.setattr(compilation, "PARTS", {"a": Part(None, (), 2), "b": Part(None, (), 1)})
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import os, pickle\n"
        "from hardmax._lib.pool import serve\n"
        "serve(lambda raw: os._exit(3) if pickle.loads(raw) == 'a' else pickle.dumps((5, None)))\n"
    )
    monkeypatch.setattr(compilation, "command", lambda module: [sys.executable, str(worker)])
    assert compile_parts(["a", "b"], 1) == Compilation(5, {"a": "the process that compiled it ended"})


def test_the_parts_compile_every_kernel():
    """`make test` compiles before the tests; where the cache is empty this takes a minute or two."""
    assert compile_parts().remaining == {}
    names = {path.name.rpartition("-")[0] for path in caching.place().folder.glob("*.kernel")}
    assert _kernels() - names == set()


@pytest.mark.slow
def test_few_functions_of_numba_are_compiled_for_the_first_flow():
    """An empty cache; `python benchmarks/first_minutes.py --count` counts those of all parts."""
    command = [sys.executable, str(ROOT / "benchmarks" / "first_minutes.py"), "--count", "flow"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counted = json.loads(done.stdout.splitlines()[-1])["flow"]
    assert counted["hardmax"] >= 12
    assert counted["numba"] <= 16  # 72 once


def _kernels():
    """Return the names of all kernels that are compiled on their own, with their modules."""
    found = set()
    for path in Path(caching.PACKAGE).rglob("*.py"):
        module = ".".join(path.relative_to(caching.PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            for each in getattr(node, "decorator_list", ()):
                name = getattr(each.func if isinstance(each, ast.Call) else each, "id", "")
                words = {word.arg for word in each.keywords} if isinstance(each, ast.Call) else set()
                if words & {"inline", "is_part"}:  # a part of the kernels that call it
                    continue
                if name in ("kernel", "CompiledUpdate") or (name == "njit" and "cache" in words):
                    found.add(f"{module}.{node.name}")
    return found
