"""Examples about figures run, on their page and in docstrings, and the page's table is complete."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import hardmax
from hardmax.papers.figures.figure import recipes

PAGE = Path(__file__).parents[3] / "docs" / "figures.md"
MODULES = ("claims", "figure", "record", "reproduce")


@pytest.mark.slow
@pytest.mark.no_cover
def test_examples_run():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_lib.json", "_lib.style", *(f"papers.figures.{each}" for each in MODULES)])
def test_docstrings_run(name):
    """Those of public names are run in tests/test_public_surface.py."""
    module = importlib.import_module(f"hardmax.{name}")
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs={})
    inner = [each for each in found if each.name.removeprefix(f"{module.__name__}.") not in hardmax.__all__]
    results = [doctest.DocTestRunner().run(example) for example in inner]
    assert sum(each.attempted for each in results) > 0
    assert sum(each.failed for each in results) == 0


def test_the_table_lists_every_figure():
    rows = re.findall(
        r"^\| ([A-D]-FIG-\S+) \| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert rows == [(each.id, each.title) for each in recipes().values()]
