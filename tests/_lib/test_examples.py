"""Examples in docstrings that the tests of public names do not run: those of `_lib` and of the commands."""

import doctest
import importlib
import pkgutil

import pytest

import hardmax._lib
import hardmax.app.results

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = [
    "hardmax.app.cli.options",
    *(f"hardmax._lib.{each.name}" for each in pkgutil.iter_modules(hardmax._lib.__path__)),
    *(f"hardmax.app.results.{each.name}" for each in pkgutil.iter_modules(hardmax.app.results.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0
