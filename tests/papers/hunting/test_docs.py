"""The examples of the modules run."""

import doctest
from importlib import import_module

import pytest

NAMES = ("candidates", "claims")


@pytest.mark.parametrize("name", NAMES)
def test_modules(name):
    found = doctest.testmod(import_module(f"hardmax.papers.hunting.{name}"))
    assert (found.failed, found.attempted > 0) == (0, True)
