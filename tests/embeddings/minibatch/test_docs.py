"""The page on training runs as printed."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "embeddings-training.md"


@pytest.mark.slow
def test_examples_of_the_page():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0
