"""The examples of the page and of the modules run."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "hunting.md"
NAMES = ("catalogue", "claims", "expression", "problems", "space", "words")


def test_the_page():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert (found.failed, found.attempted > 4) == (0, True)


@pytest.mark.parametrize("name", NAMES)
def test_modules(name):
    found = doctest.testmod(import_module(f"hardmax.papers.hunting.{name}"))
    assert (found.failed, found.attempted > 0) == (0, True)
