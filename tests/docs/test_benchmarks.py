"""The table of make bench: how a line is read, and that every number of the page comes from one."""

import ast
import importlib
import importlib.util
import inspect
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def harness():
    """benchmarks/all.py as a module; no benchmark is imported by it."""
    sys.path.insert(0, str(HERE))
    try:
        spec = importlib.util.spec_from_file_location("benchmarks_all", HERE / "all.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(HERE))


def test_every_benchmark_has_a_line(harness):
    assert {line.script for line in harness.LINES} == {file.name for file in HERE.glob("bench_*.py")}
    titles = [line.title for line in harness.LINES]
    assert len(titles) == len(set(titles))
    assert all(line.limit for line in harness.LINES)
    assert all(bool(line.peer) == (line.theirs is not None) for line in harness.LINES)


# compare.py asks two versions, and looks names up in both.
@pytest.mark.parametrize(
    "script",
    [each for each in sorted(HERE.glob("*.py")) if each.name != "compare.py"],
    ids=lambda path: path.stem,
)
def test_the_names_that_a_benchmark_uses_exist(script):
    """Benchmarks run seldom, so a renamed function would be noticed late."""
    named = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"hm(\.\w+)+", ast.unparse(node)):
            named.add("hardmax" + ast.unparse(node).removeprefix("hm"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hardmax"):
            named |= {f"{node.module}.{each.name}" for each in node.names}
    assert [name for name in sorted(named) if not exists(name)] == []


def exists(name):
    """Whether a dotted name leads from module to module to something; what an object has is not asked."""
    value, *rest = name.split(".")
    value = importlib.import_module(value)
    for part in rest:
        if not inspect.ismodule(value):
            return True
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
            except ModuleNotFoundError as error:
                return bool(error.name) and not error.name.startswith("hardmax")
        except ImportError:  # an extra that is absent; with it the name is looked up
            return True
    return True


def test_every_number_of_the_page_was_measured_by_a_line(harness):
    measured = json.loads((HERE / "measured.json").read_text())["rows"]
    known = {line.title for line in harness.LINES}
    assert {row["title"] for row in measured} <= known
    page = (ROOT / "docs" / "research" / "benchmarks.md").read_text()
    assert harness.page_table(measured) in page
    begin = page.index(harness.HEAD)
    shown = page[begin : page.index("\n\n", begin)].splitlines()[2:]
    assert len(shown) == len(measured)


def test_the_rows_of_the_readme_are_rows_of_the_page(harness):
    page = (ROOT / "docs" / "research" / "benchmarks.md").read_text()
    readme = (ROOT / "README.md").read_text()
    rows = readme[readme.index(harness.HEAD) :].split("\n\n")[0].splitlines()
    assert len(rows) == 5  # the head and three rows
    assert all(row in page.splitlines() for row in rows)


def test_a_line_reads_ratio_and_limit(harness):
    Line = type(harness.LINES[0])
    quick = Line("t", "s", "s", lambda x: x["a"], "p", lambda x: x["b"], at_least=10, at_most=2)
    row = quick.read({"a": 0.5, "b": 5.0})
    assert (row["ratio"], row["kept"], row["limit"]) == (10.0, True, "ratio at least 10, at most 2.00 s")
    assert not quick.read({"a": 0.5, "b": 4.9})["kept"]
    assert not quick.read({"a": 2.5, "b": 50.0})["kept"]
    right = Line("t", "s", "%", lambda x: x["a"], "p", lambda x: x["b"], more=True, at_least=1)
    row = right.read({"a": 91.8, "b": 88.3})
    assert row["ratio"] == pytest.approx(91.8 / 88.3)
    assert harness.sentence(row) == "91.8% against 88.3%"
    assert harness.sentence(quick.read({"a": 0.5, "b": 3700.0})) == "7,400 times: 0.5 s against 3,700 s"
    assert not right.read({"a": 88.0, "b": 88.3})["kept"]


@pytest.mark.parametrize(
    "script, extra, missing, arguments",
    [
        ("bench_norms.py", "bench", ["cvxpy"], []),
        ("probe_control.py", "probe", ["torch", "hardmax.torch.prober"], ["no/such/model", "0"]),
    ],
)
def test_help_needs_no_extra_and_a_missing_one_is_a_sentence(
    script, extra, missing, arguments, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(HERE)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for words in (["--help"], arguments):
        monkeypatch.setattr(sys, "argv", [script, *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(HERE / script), run_name="__main__")
        if words == ["--help"]:
            assert ended.value.code == 0
            assert f"usage: {script}" in capsys.readouterr().out
    assert ended.value.code.startswith(f"{script} needs ")
    assert f"[{extra}]" in ended.value.code
    assert "\n" not in ended.value.code


def test_what_cannot_run_is_missing(harness, tmp_path, monkeypatch):
    Line = type(harness.LINES[0])
    lines = (
        Line("in a browser", "bench_none.py", "s", lambda x: x["a"]),
        Line("with data", "bench_part.py", "s", lambda x: x["a"]["b"]),
        Line("without", "bench_part.py", "s", lambda x: x["c"]),
    )
    for name, folder in (("BUILD", tmp_path), ("HERE", tmp_path), ("LINES", lines)):
        monkeypatch.setattr(harness, name, folder)
    (tmp_path / "bench_none.py").write_text("import sys; sys.exit('there is no browser')")
    (tmp_path / "bench_part.py").write_text(
        'import sys, pathlib; pathlib.Path(sys.argv[2]).write_text(\'{"a": null, "c": 2}\')'
    )
    found = harness.measure(["bench_none.py", "bench_part.py"])
    assert found["missing"] == {
        "in a browser": "bench_none.py: there is no browser",
        "with data": "bench_part.py: its data is not here",
    }
    assert [row["ours"] for row in found["rows"]] == [2]


def test_a_title_names_the_data_that_a_benchmark_ran_on(harness):
    line = next(line for line in harness.LINES if line.script == "bench_text.py")
    numbers = {"cold_seconds": 2.0, "cold_ratio": 10.0, "warm_seconds": 0.1, "reviews": 20_000}
    assert line.read(numbers | {"data": "IMDB"})["title"] == line.title
    title = line.read(numbers | {"data": "made-up words"})["title"]
    assert title == "20,000 reviews of made-up words through paper A's pipeline, CPU time"
    assert "IMDB" not in title
