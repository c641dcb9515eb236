"""Examples in the docstrings about figures run."""

import doctest
import importlib

import pytest

import hardmax

MODULES = ("claims", "figure", "reproduce", "tables")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(f"papers.figures.{each}" for each in MODULES)])
def test_docstrings_run(name):
    """Those of public names are run in tests/test_public_surface.py."""
    module = importlib.import_module(f"hardmax.{name}")
    found = doctest.DocTestFinder(exclude_empty=True).find(module, globs={})
    inner = [each for each in found if each.name.removeprefix(f"{module.__name__}.") not in hardmax.__all__]
    results = [doctest.DocTestRunner().run(example) for example in inner]
    assert sum(each.attempted for each in results) > 0
    assert sum(each.failed for each in results) == 0
